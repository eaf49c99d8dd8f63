//! Residuals of a block by rANS: the states of all lanes, then words, then escapes.
//!
//! The values that states begin with are free to choose, so 96 bytes of the rest travel in them where the rest has
//! as many bytes, of known length: then the states of a block cost 32 bytes instead of 128.

mod joint;
mod table;

pub(super) use table::{Model, TABLE, read};

use super::fields::Fields;
use super::geometry::{ALIGN, Format, tail_bytes};
use super::tiers::{Order, TIERS, check_zero};
use crate::kernel::Kernel;
use crate::kernel::four::byte_counts;
use crate::kernel::rans::{
    Alphabet, EncodeTable, Frequencies, Job, LANES, LOWEST, ROOM_PAD, Room, States, Stream, Used, WORD,
};
use crate::kernel::tier::plane_bytes;
use crate::{BlockFault, DType, Layout};

/// Bytes of the states.
const STATES: usize = 4 * LANES;
/// Bytes of the rest that the states carry, three in each.
pub(super) const CARRIED: usize = 3 * LANES;
/// The highest byte of a state that carries three bytes.
const CARRIER: u32 = 1 << 24;
/// Threshold from which tiers are tried as well: bits per eight values.
const FEW_BITS: usize = 24;

/// Whether exponents can be coded together with bits of mantissas: not where the length of the rest must not depend on values, nor where it has
/// forms.
pub(super) fn has_joint(layout: Layout, dtype: DType) -> bool {
    layout == Layout::Compact && dtype != DType::F32
}

/// The bytes of a rest that states can carry.
pub(super) type Payload = [u8; CARRIED];

/// Whether a block's states carry the last bytes of its rest, which has this length: not where its length is found in it, nor where
/// it must not depend on the values.
pub(super) fn carries(format: Format, rest_len: usize) -> bool {
    format.layout == Layout::Compact && format.fields.dtype != DType::F32 && rest_len >= CARRIED
}

/// How often residuals occur with the two highest bits of mantissas: of the residual `r` and the bits `m` that of `4 r + m`.
pub(super) type JointHistogram = [u32; 256 << joint::BITS];

/// The table for a frame of `blocks` blocks with this number of coded values, from a sample of residuals and bits of mantissas, which may
/// be coded together if that is asked for; none if it would be longer than tiers.
pub(super) fn choose(
    format: Format,
    blocks: usize,
    coded: u64,
    with_mantissa: bool,
    histogram: &JointHistogram,
) -> Option<Model> {
    let residuals = std::array::from_fn(|residual| histogram.as_chunks::<4>().0[residual].iter().sum());
    let sampled: u64 = residuals.iter().map(|count| u64::from(*count)).sum();
    let frequencies = table::choose(&residuals)?;
    let (rans, tiers) = table::costs(&residuals, &frequencies);
    let carried = if carries(format, CARRIED) { CARRIED } else { 0 };
    let states = blocks * (STATES - carried);
    let of_all = |bits: u64| u128::from(bits) * u128::from(coded) / u128::from(sampled);
    let saves = |bits: u64, table: usize| {
        let overhead = 8 * (table + states) as u128;
        of_all(tiers.saturating_sub(bits)) >> table::FRACTION > overhead
    };
    if with_mantissa && let Some(joint) = joint::choose(histogram) {
        // By themselves, bits of mantissas take a bit each.
        let cost = joint.cost(histogram).saturating_sub((joint::BITS as u64 * sampled) << table::FRACTION);
        let more = 8 * (joint::TABLE - table::TABLE) as u128;
        let pays = of_all(rans.saturating_sub(cost)) >> table::FRACTION > more && saves(cost, joint::TABLE);
        if cfg!(fuzzing) || pays {
            return Some(Model::Joint(joint));
        }
    }
    // Fuzzers have no time for so many values.
    (cfg!(fuzzing) || rans <= tiers && saves(rans, table::TABLE)).then_some(Model::Residuals(frequencies))
}

/// The table for values like those of a sample, whatever it takes: of exponents with bits of mantissas if these may be coded together and that is
/// shorter. None of none.
pub(super) fn fit(with_mantissa: bool, histogram: &JointHistogram) -> Option<Model> {
    let residuals = std::array::from_fn(|residual| histogram.as_chunks::<4>().0[residual].iter().sum());
    let sampled: u64 = residuals.iter().map(|count| u64::from(*count)).sum();
    let frequencies = table::choose(&residuals)?;
    let (rans, _) = table::costs(&residuals, &frequencies);
    let joint = if with_mantissa { joint::choose(histogram) } else { None };
    let of_bits = (joint::BITS as u64 * sampled) << table::FRACTION;
    let shorter = joint.filter(|joint| joint.cost(histogram).saturating_sub(of_bits) < rans);
    Some(shorter.map_or(Model::Residuals(frequencies), Model::Joint))
}

/// The table for bytes that occur so often, if there are any.
pub(super) fn frequencies(histogram: &[u32; 256]) -> Option<Frequencies> {
    table::choose(histogram)
}

/// Codes one block after the other.
pub(super) struct Coder {
    table: EncodeTable,
    words: Vec<u8>,
    escapes: Vec<u8>,
}

impl Coder {
    /// Buffers for blocks of up to this number of values.
    pub(super) fn new(model: &Model, values: usize) -> Self {
        let table = match model {
            Model::Residuals(frequencies) => EncodeTable::new(frequencies),
            Model::Joint(joint) => EncodeTable::joint(&joint.of),
        };
        Self { table, words: vec![0; WORD * values + ROOM_PAD], escapes: vec![0; values + ROOM_PAD] }
    }

    /// Writes the codes of residuals to the front of `room`; returns the number of words and escapes, and the length of what was
    /// written. `None` if tiers are shorter, or not a byte of room would be left. With a table for joint symbols, those are what is coded,
    /// and their escapes are listed already.
    pub(super) fn write(
        &mut self,
        kernel: &Kernel,
        residuals: &[u8],
        listed: &[u8],
        payload: Option<&Payload>,
        room: &mut [u8],
    ) -> Option<([u16; 2], usize)> {
        let mut states = start(payload);
        let mut to = Room { words: &mut self.words, escapes: &mut self.escapes };
        let Used { words, escapes } = (kernel.encode_rans)(residuals, &self.table, &mut states, &mut to);
        let listed = if listed.is_empty() { &self.escapes[self.escapes.len() - escapes..] } else { listed };
        let escapes = listed.len();
        let len = codes_len(words, escapes);
        let carried = if payload.is_some() { CARRIED } else { 0 };
        let shorter_in_tiers = match self.table.alphabet {
            Alphabet::Residuals(_) => {
                8 * 8 * (len - carried) > FEW_BITS * residuals.len() && in_tiers(residuals) < len - carried
            }
            // Bits of mantissas are coded as well, for which tiers do nothing.
            Alphabet::Joint => 8 * 8 * (len - carried) > (FEW_BITS + 8 * joint::BITS) * residuals.len(),
        };
        if shorter_in_tiers {
            return None;
        }
        let (mut out, left) = room.split_at_mut_checked(len)?;
        if left.is_empty() {
            return None;
        }
        let mut part = |bytes: &[u8]| {
            let part = out
                .split_off_mut(..bytes.len().next_multiple_of(ALIGN))
                .expect("the codes have their length");
            let (part, padding) = part.split_at_mut(bytes.len());
            part.copy_from_slice(bytes);
            padding.fill(0);
        };
        part(states.map(u32::to_le_bytes).as_flattened());
        part(&self.words[self.words.len() - WORD * words..]);
        part(listed);
        Some(([words as u16, escapes as u16], len))
    }
}

/// The states that an encoder begins with.
fn start(payload: Option<&Payload>) -> States {
    let Some(payload) = payload else { return [LOWEST; LANES] };
    let mut states = [0; LANES];
    for (state, [low, middle, high]) in states.iter_mut().zip(payload.as_chunks::<3>().0) {
        *state = CARRIER | u32::from_le_bytes([*low, *middle, *high, 0]);
    }
    states
}

/// Bytes that the states carried, once a decoder is back at the states that the encoder began with; an error if no encoder begins so.
fn end(carries: bool, states: &States) -> Result<Payload, BlockFault> {
    let mut payload = [0; CARRIED];
    for (state, bytes) in states.iter().zip(payload.as_chunks_mut::<3>().0) {
        let [low, middle, high, top] = state.to_le_bytes();
        let expected = if carries { top == CARRIER.to_le_bytes()[3] } else { *state == LOWEST };
        if !expected {
            return Err(BlockFault::State(*state));
        }
        *bytes = [low, middle, high];
    }
    Ok(payload)
}

/// Bytes of states, words and escapes, padding included.
pub(super) fn codes_len(words: usize, escapes: usize) -> usize {
    STATES + (WORD * words).next_multiple_of(ALIGN) + escapes.next_multiple_of(ALIGN)
}

/// Bytes that residuals take in tiers.
fn in_tiers(residuals: &[u8]) -> usize {
    let histogram = byte_counts(residuals);
    let mut counts = [residuals.len() as u16; TIERS + 1];
    for (number, tier) in Order::High.tiers().iter().enumerate() {
        let named: u32 = tier.symbols[..3].iter().map(|symbol| histogram[usize::from(*symbol)]).sum();
        counts[number + 1] = counts[number] - named as u16;
    }
    let (planes, escapes) = tail_bytes(&counts);
    plane_bytes(residuals.len()) + planes + escapes
}

/// The escapes among a block's codes, which have [`codes_len`] of these numbers.
pub(super) fn escapes(codes: &[u8], [words, escapes]: [usize; 2]) -> &[u8] {
    &codes[codes_len(words, 0)..][..escapes]
}

/// Job that decodes a block by rANS: from its codes, which are `codes` and have [`codes_len`], into `residuals`.
///
/// # Errors
/// If the codes contradict themselves or these numbers of words and escapes.
pub(super) fn job<'a>(
    [words, escapes]: [usize; 2],
    mut codes: &'a [u8],
    residuals: &'a mut [u8],
) -> Result<Job<'a>, BlockFault> {
    let mut part = |len: usize| {
        let whole = codes.split_off(..len.next_multiple_of(ALIGN)).ok_or(BlockFault::Overrun)?;
        let (part, padding) = whole.split_at(len);
        check_zero(padding)?;
        Ok(part)
    };
    let (bytes, words, escapes) = (part(STATES)?, part(WORD * words)?, part(escapes)?);
    let mut states = [0; LANES];
    for (state, bytes) in states.iter_mut().zip(bytes.as_chunks().0) {
        *state = u32::from_le_bytes(*bytes);
        if !(LOWEST..LOWEST << 16).contains(state) {
            return Err(BlockFault::State(*state));
        }
    }
    Ok(Job { stream: Stream { words, escapes }, states, residuals, used: Used::default() })
}

/// Checks what has been done; returns what the states carry, if they do.
///
/// # Errors
/// If the codes contradict themselves.
pub(super) fn check(job: &Job<'_>, carries: bool) -> Result<Payload, BlockFault> {
    let Stream { words, escapes } = job.stream;
    for (expected, found) in [(words.len() / WORD, job.used.words), (escapes.len(), job.used.escapes)] {
        if expected != found {
            return Err(BlockFault::Read { expected, found });
        }
    }
    end(carries, &job.states)
}

/// Whether a type's rest is made of bytes alone, one for each value: so parts of it can be taken as they are.
pub(super) fn has_byte_rest(fields: Fields) -> bool {
    fields.dtype == DType::Bf16
}
