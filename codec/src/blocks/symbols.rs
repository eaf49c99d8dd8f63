//! Lists of symbols, in tiers or by rANS, for frames that are not made of exponents.
//!
//! Symbols are bytes of which small ones are frequent: 0 most of all. In tiers they are coded as residuals, which are symbols less 9:
//! so the twelve lowest symbols have codes.

use super::geometry::{ALIGN, BLOCK_VALUES, tail_bytes};
use super::rans::{self, Model, codes_len};
use super::tiers::{self, Coded, List, TIERS};
use crate::kernel::Kernel;
use crate::kernel::rans::{EncodeTable, Frequencies, Job, LANES, LOWEST, ROOM_PAD, Room, Used, WORD};
use crate::kernel::tier::{BIAS, LIST_PAD, Tier, plane_bytes};
use crate::{BlockFault, DecodeError};

/// The most symbols of a list: as many as a block has values.
pub(crate) const MAX_SYMBOLS: usize = BLOCK_VALUES;
/// How many follow the number of symbols: those in tiers 2 to 4 and escapes, or words and escapes.
pub(crate) type Counts = [u16; TIERS];

/// Symbols that a tier has codes for.
const NAMED: usize = 3;

static ORDER: [Tier; TIERS] =
    [Tier::new([-9, -8, -7]), Tier::new([-6, -5, -4]), Tier::new([-3, -2, -1]), Tier::new([0, 1, 2])];

/// Bits of a symbol in tiers.
pub(crate) fn tier_bits(symbol: u32) -> u32 {
    let tier = symbol as usize / NAMED;
    if tier < TIERS { 2 * (tier as u32 + 1) } else { 2 * TIERS as u32 + 8 }
}

/// Writes lists of symbols.
pub(crate) struct Writer {
    /// Table for coding symbols by rANS.
    table: Option<EncodeTable>,
    list: Vec<u8>,
    words: Vec<u8>,
    escapes: Vec<u8>,
}

impl Writer {
    /// Buffers for lists of up to this number of symbols.
    pub(crate) fn new(frequencies: Option<&Frequencies>, symbols: usize) -> Self {
        let room = |bytes: usize| if frequencies.is_some() { vec![0; bytes + ROOM_PAD] } else { Vec::new() };
        let (words, escapes) = (room(WORD * symbols), room(symbols));
        Self { table: frequencies.map(EncodeTable::new), list: vec![0; symbols], words, escapes }
    }

    /// Whether there is a table for rANS.
    pub(crate) fn has_table(&self) -> bool {
        self.table.is_some()
    }

    /// Writes symbols in tiers to the front of `room`, and returns its length; `None` if there is too little.
    pub(crate) fn tiers(
        &mut self,
        kernel: &Kernel,
        symbols: &[u8],
        mut room: &mut [u8],
    ) -> Option<(Counts, usize)> {
        let before = room.len();
        let list = &mut self.list[..symbols.len()];
        list.iter_mut().zip(symbols).for_each(|(residual, symbol)| *residual = symbol.wrapping_sub(BIAS));
        let (mut left, mut counts) = (symbols.len(), [0; TIERS]);
        for (count, tier) in counts.iter_mut().zip(&ORDER) {
            let planes = room.split_off_mut(..plane_bytes(left))?;
            left = (kernel.pack_tier)(&mut list[..left], 0, 0, tier, planes);
            *count = left as u16;
        }
        let (escapes, padding) = room.split_off_mut(..left.next_multiple_of(ALIGN))?.split_at_mut(left);
        escapes.copy_from_slice(&list[..left]);
        padding.fill(0);
        Some((counts, before - room.len()))
    }

    /// Codes like [`Self::tiers`], but by rANS with the table, if there is one.
    pub(crate) fn rans(
        &mut self,
        kernel: &Kernel,
        symbols: &[u8],
        room: &mut [u8],
    ) -> Option<(Counts, usize)> {
        let mut states = [LOWEST; LANES];
        let mut to = Room { words: &mut self.words, escapes: &mut self.escapes };
        let Used { words, escapes } =
            (kernel.encode_rans)(symbols, self.table.as_ref()?, &mut states, &mut to);
        let len = codes_len(words, escapes);
        let mut out = room.get_mut(..len)?;
        for bytes in [
            states.map(u32::to_le_bytes).as_flattened(),
            &self.words[self.words.len() - WORD * words..],
            &self.escapes[self.escapes.len() - escapes..],
        ] {
            let part = out.split_off_mut(..bytes.len().next_multiple_of(ALIGN))?;
            let (part, padding) = part.split_at_mut(bytes.len());
            part.copy_from_slice(bytes);
            padding.fill(0);
        }
        Some(([words as u16, escapes as u16, 0, 0], len))
    }
}

/// Bytes of symbols in tiers, by their counts.
pub(crate) fn tiers_len(symbols: usize, [second, third, fourth, escapes]: Counts) -> usize {
    let (planes, escapes) = tail_bytes(&[0, second, third, fourth, escapes]);
    plane_bytes(symbols) + planes + escapes
}

/// Bytes of symbols by rANS.
pub(crate) fn rans_len([words, escapes, ..]: Counts) -> usize {
    codes_len(usize::from(words), usize::from(escapes))
}

/// Whether this number of symbols can have these counts in tiers, or by rANS.
pub(crate) fn are_possible(symbols: usize, counts: Counts, rans: bool) -> bool {
    match counts {
        [words, escapes, third, fourth] if rans => {
            usize::from(words.max(escapes)) <= symbols && (third, fourth) == (0, 0)
        }
        _ => usize::from(counts[0]) <= symbols && counts.is_sorted_by(|more, less| more >= less),
    }
}

/// Room in which symbols in tiers are read.
pub(crate) struct TierReader(Box<List>);

impl TierReader {
    pub(crate) fn new() -> Self {
        Self(vec![0; BLOCK_VALUES + LIST_PAD].try_into().expect("it has this length"))
    }

    /// Reads symbols from bytes that have [`tiers_len`].
    ///
    /// # Errors
    /// If these contradict the counts.
    pub(crate) fn read(
        &mut self,
        kernel: &Kernel,
        counts: Counts,
        bytes: &[u8],
        symbols: &mut [u8],
    ) -> Result<(), BlockFault> {
        let [second, third, fourth, escapes] = counts;
        let counts = [symbols.len() as u16, second, third, fourth, escapes];
        let (first, planes) = bytes.split_at(plane_bytes(symbols.len()));
        let (planes, escapes) = planes.split_at(tail_bytes(&counts).0);
        tiers::unpack(kernel, &mut self.0, &ORDER, &counts, Coded { first, planes, escapes })?;
        let list = &self.0[BLOCK_VALUES - symbols.len()..BLOCK_VALUES];
        symbols.iter_mut().zip(list).for_each(|(symbol, residual)| *symbol = residual.wrapping_add(BIAS));
        Ok(())
    }
}

/// The rANS job that decodes `bytes`, which have [`rans_len`].
///
/// # Errors
/// If these contradict the counts.
pub(crate) fn job<'a>(
    [words, escapes, ..]: Counts,
    bytes: &'a [u8],
    symbols: &'a mut [u8],
) -> Result<Job<'a>, BlockFault> {
    rans::job([words, escapes].map(usize::from), bytes, symbols)
}

/// Checks what was decoded.
///
/// # Errors
/// If it contradicts itself.
pub(crate) fn check(job: &Job<'_>) -> Result<(), BlockFault> {
    rans::check(job, false).map(|_| ())
}

/// Bytes of a table.
pub(crate) const TABLE: usize = rans::TABLE;

/// The table for symbols that occur so often, if there are any.
pub(crate) fn choose_table(histogram: &[u32; 256]) -> Option<Frequencies> {
    rans::frequencies(histogram)
}

/// The bytes of a table.
pub(crate) fn table_to_bytes(frequencies: &Frequencies) -> Vec<u8> {
    Model::Residuals(*frequencies).to_bytes()
}

/// Reads a table.
///
/// # Errors
/// If the bytes are not valid.
pub(crate) fn read_table(mut bytes: &[u8]) -> Result<Frequencies, DecodeError> {
    match rans::read(&mut bytes)?.0 {
        Model::Residuals(frequencies) => Ok(frequencies),
        // A window, where there is a zero.
        Model::Joint(_) => Err(DecodeError::Padding),
    }
}
