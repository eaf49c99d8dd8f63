//! rANS, eight lanes at a time. What a table has for a symbol is one load. There are no gathers: what it has for a slot is loaded lane by lane.

use std::arch::aarch64::*;

use super::super::shuffles::VALUES_APART;
use super::vector::{bits, load, store};
use crate::kernel::joint;
use crate::kernel::rans::{
    self, Alphabet, DecodeTable, ESCAPE, EncodeTable, Job, LANE_VALUES, LANES, LIMIT, LOW, LOWEST,
    ROW_VALUES, Room, SCALE_BITS, SHIFT, SLOTS, States, Used, WORD, WORD_BITS,
};

/// Lanes of a vector, and pairs of vectors of all lanes.
const WIDTH: usize = 4;
const PAIRS: usize = LANES / (2 * WIDTH);

/// How many bits each byte has: cheaper than an instruction for vectors.
static COUNTS: [u8; 256] = {
    let mut counts = [0; 256];
    let mut mask = 0;
    while mask < 256 {
        counts[mask] = (mask as u8).count_ones() as u8;
        mask += 1;
    }
    counts
};

/// States of eight lanes, or what is of them.
type Pair = [uint32x4_t; 2];

/// A bit for each of eight lanes, whose bits are all set or all clear.
#[inline]
#[target_feature(enable = "neon")]
fn mask_of(lanes: Pair) -> usize {
    let both = vuzp1q_u16(vreinterpretq_u16_u32(lanes[0]), vreinterpretq_u16_u32(lanes[1]));
    let select = vreinterpretq_u16_u8(load(&[1, 0, 2, 0, 4, 0, 8, 0, 16, 0, 32, 0, 64, 0, 128, 0]));
    usize::from(vaddvq_u16(vandq_u16(both, select)) as u8)
}

#[inline]
#[target_feature(enable = "neon")]
fn states_of(states: &States) -> [Pair; PAIRS] {
    let mut pairs = [[vdupq_n_u32(0); 2]; PAIRS];
    for (vector, states) in pairs.as_flattened_mut().iter_mut().zip(states.as_chunks::<WIDTH>().0) {
        let mut bytes = [0; 16];
        for (bytes, state) in bytes.as_chunks_mut().0.iter_mut().zip(states) {
            *bytes = state.to_le_bytes();
        }
        *vector = vreinterpretq_u32_u8(load(&bytes));
    }
    pairs
}

#[inline]
#[target_feature(enable = "neon")]
fn write_states(pairs: [Pair; PAIRS], states: &mut States) {
    for (vector, states) in pairs.as_flattened().iter().zip(states.as_chunks_mut::<WIDTH>().0) {
        let mut bytes = [0; 16];
        store(&mut bytes, vreinterpretq_u8_u32(*vector));
        for (bytes, state) in bytes.as_chunks().0.iter().zip(states) {
            *state = u32::from_le_bytes(*bytes);
        }
    }
}

/// Bytes of the symbols of eight lanes in a row.
const SYMBOLS: usize = ROW_VALUES / PAIRS;

/// Shuffles that compress eight values of two bytes to the end, by the mask of the marked ones; the others are 0.
static AT_END: [[u8; 16]; 256] = {
    let mut shuffles = [[0x80; 16]; 256];
    let mut mask = 0;
    while mask < 256 {
        let (mut value, mut place) = (8, 8);
        while value > 0 {
            value -= 1;
            if mask >> value & 1 == 1 {
                place -= 1;
                shuffles[mask][2 * place] = 2 * value as u8;
                shuffles[mask][2 * place + 1] = 2 * value as u8 + 1;
            }
        }
        mask += 1;
    }
    shuffles
};

/// Limit, reciprocal and step of each symbol, side by side. No symbol has the last three quarters: so a byte is always the number of an
/// entry.
type Entries = [[u32; 4]; 256];

#[target_feature(enable = "neon")]
pub(super) fn encode_rans(
    codes: &[u8],
    table: &EncodeTable,
    states: &mut States,
    room: &mut Room<'_>,
) -> Used {
    let (rows, tail) = codes.as_chunks::<ROW_VALUES>();
    let mut used = Used::default();
    rans::encode_rows(tail, table, states, room, &mut used);
    let mut entries = [[0; 4]; 256];
    for (symbol, entry) in entries.iter_mut().take(joint::SYMBOLS).enumerate() {
        *entry = [table.limit[symbol], table.reciprocal[symbol], table.step[symbol], 0];
    }
    let mut words = WordsOut { end: room.words.len() - WORD * used.words, room: room.words };
    let mut escapes = room.escapes.len() - used.escapes;
    let [mut a, mut b, mut c, mut d] = states_of(states);
    let alphabet = Symbols::new(&table.alphabet);
    for row in rows.iter().rev() {
        let mut symbols = [0; ROW_VALUES];
        for (symbols, codes) in symbols.as_chunks_mut().0.iter_mut().zip(row.as_chunks::<64>().0).rev() {
            let mut escaped = alphabet.symbols(codes, symbols);
            while escaped != 0 {
                let place = escaped.ilog2();
                escapes -= 1;
                room.escapes[escapes] = codes[place as usize];
                escaped ^= 1 << place;
            }
        }
        let [of_a, of_b, of_c, of_d] = symbols.as_chunks::<SYMBOLS>().0 else {
            unreachable!("there are four pairs")
        };
        for step in (0..LANE_VALUES).rev() {
            d = encode_pair(d, step, of_d, &entries, &mut words);
            c = encode_pair(c, step, of_c, &entries, &mut words);
            b = encode_pair(b, step, of_b, &entries, &mut words);
            a = encode_pair(a, step, of_a, &entries, &mut words);
        }
    }
    write_states([a, b, c, d], states);
    Used { words: (words.room.len() - words.end) / WORD, escapes: room.escapes.len() - escapes }
}

/// The words that have gone out: they end the list.
struct WordsOut<'a> {
    room: &'a mut [u8],
    end: usize,
}

/// Mapping of bytes to symbols.
struct Symbols {
    start: uint8x16_t,
    /// The highest place.
    last: uint8x16_t,
    /// The symbol of each residual from `start` on, as of those that are looked up; none where bytes are symbols already.
    of: Option<uint8x16x2_t>,
}

impl Symbols {
    #[inline]
    #[target_feature(enable = "neon")]
    fn new(alphabet: &Alphabet) -> Self {
        let last = vdupq_n_u8(ESCAPE);
        let Alphabet::Residuals(frequencies) = alphabet else {
            return Self { start: vdupq_n_u8(0), last, of: None };
        };
        let half = |first: u8| {
            let symbol =
                |place: usize| frequencies.symbol(frequencies.start.wrapping_add(first + place as u8));
            load(&std::array::from_fn(symbol))
        };
        Self { start: vdupq_n_u8(frequencies.start), last, of: Some(uint8x16x2_t(half(0), half(16))) }
    }

    /// Writes the symbols; returns a bit for each byte that is an escape.
    #[inline]
    #[target_feature(enable = "neon")]
    fn symbols(&self, codes: &[u8; 64], symbols: &mut [u8; 64]) -> u64 {
        let mut escaped = [vdupq_n_u8(0); 4];
        let outs = symbols.as_chunks_mut().0.iter_mut().zip(&mut escaped);
        for (codes, (out, escaped)) in codes.as_chunks().0.iter().zip(outs) {
            let codes = load(codes);
            match self.of {
                Some(of) => {
                    let places = vminq_u8(vsubq_u8(codes, self.start), self.last);
                    let found = vqtbl2q_u8(of, places);
                    *escaped = vceqq_u8(found, self.last);
                    store(out, found);
                }
                None => store(out, vandq_u8(codes, vdupq_n_u8(joint::SYMBOLS as u8 - 1))),
            }
        }
        if self.of.is_some() { bits(escaped) } else { 0 }
    }
}

/// Codes the symbols of eight lanes in a step; returns the states.
#[inline]
#[target_feature(enable = "neon")]
fn encode_pair(
    states: Pair,
    step: usize,
    symbols: &[u8; SYMBOLS],
    entries: &Entries,
    words: &mut WordsOut<'_>,
) -> Pair {
    let of = |lane: usize| load_entry(&entries[usize::from(symbols[LANE_VALUES * lane + step])]);
    let first = Fields::new([of(0), of(1), of(2), of(3)]);
    let second = Fields::new([of(4), of(5), of(6), of(7)]);
    let exceeds = [first.exceeds(states[0]), second.exceeds(states[1])];
    let mask = mask_of(exceeds);
    let low = vuzp1q_u16(vreinterpretq_u16_u32(states[0]), vreinterpretq_u16_u32(states[1]));
    let out = vqtbl1q_u8(vreinterpretq_u8_u16(low), load(&AT_END[mask]));
    store(words.room[..words.end].last_chunk_mut().expect("there is room in front of the words"), out);
    words.end -= WORD * usize::from(COUNTS[mask]);
    [first.coded(states[0], exceeds[0]), second.coded(states[1], exceeds[1])]
}

#[inline]
#[target_feature(enable = "neon")]
fn load_entry(entry: &[u32; 4]) -> uint32x4_t {
    let [limit, reciprocal, step, none] = *entry;
    vreinterpretq_u32_u64(vcombine_u64(
        vcreate_u64(u64::from(limit) | u64::from(reciprocal) << 32),
        vcreate_u64(u64::from(step) | u64::from(none) << 32),
    ))
}

/// Entries of the table for the symbols of four lanes.
struct Fields {
    limit: uint32x4_t,
    reciprocal: uint32x4_t,
    step: uint32x4_t,
}

impl Fields {
    /// From the entries of the lanes.
    #[inline]
    #[target_feature(enable = "neon")]
    fn new([a, b, c, d]: [uint32x4_t; 4]) -> Self {
        // Rows become columns.
        let (ab, cd) = (vzip1q_u32(a, b), vzip1q_u32(c, d));
        let (ab, cd) = (vreinterpretq_u64_u32(ab), vreinterpretq_u64_u32(cd));
        let steps = [vzip2q_u32(a, b), vzip2q_u32(c, d)].map(|steps| vreinterpretq_u64_u32(steps));
        Self {
            limit: vreinterpretq_u32_u64(vzip1q_u64(ab, cd)),
            reciprocal: vreinterpretq_u32_u64(vzip2q_u64(ab, cd)),
            step: vreinterpretq_u32_u64(vzip1q_u64(steps[0], steps[1])),
        }
    }

    /// All bits where a word goes out first. What is below the frequency in the limit does not count.
    #[inline]
    #[target_feature(enable = "neon")]
    fn exceeds(&self, states: uint32x4_t) -> uint32x4_t {
        vcgeq_u32(vorrq_u32(states, vdupq_n_u32((1 << LIMIT) - 1)), self.limit)
    }

    /// The states after the symbols. See [`EncodeTable::coded`].
    #[inline]
    #[target_feature(enable = "neon")]
    fn coded(&self, states: uint32x4_t, exceeds: uint32x4_t) -> uint32x4_t {
        let low = vdupq_n_u32(LOW);
        let x = vbslq_u32(exceeds, vshrq_n_u32::<{ WORD_BITS as i32 }>(states), states);
        // The upper halves of products.
        let products = vmull_u32(vget_low_u32(x), vget_low_u32(self.reciprocal));
        let more = vmull_high_u32(x, self.reciprocal);
        let quotient = vuzp2q_u32(vreinterpretq_u32_u64(products), vreinterpretq_u32_u64(more));
        let shift = vreinterpretq_s32_u32(vshrq_n_u32::<{ SHIFT as i32 }>(self.step));
        let quotient = vshlq_u32(quotient, vnegq_s32(shift));
        let biased = vaddq_u32(x, vandq_u32(self.limit, low));
        vmlaq_u32(biased, quotient, vandq_u32(self.step, low))
    }
}

/// Eight lanes at a time. There are no gathers: entries of the table are loaded lane by lane.
#[target_feature(enable = "neon")]
pub(super) fn decode_rans(jobs: &mut [Job<'_>], table: &DecodeTable) {
    for job in jobs {
        let rows = job.residuals.len() / ROW_VALUES;
        decode_rows(job, rows, table);
        rans::decode_rows(job, rows * ROW_VALUES, table);
    }
}

/// Bytes of the words that a row reads at most, and a vector behind them.
const ROW_WORD_BYTES: usize = WORD * ROW_VALUES + 16;

/// Decodes the first rows. Lanes do not wait for each other, so one block is enough to fill the time of look-ups.
#[inline]
#[target_feature(enable = "neon")]
fn decode_rows(job: &mut Job<'_>, rows: usize, table: &DecodeTable) {
    let mut states = states_of(&job.states);
    let start = vdupq_n_u8(table.start);
    let mut at_end = [0; ROW_WORD_BYTES];
    for out in job.residuals.as_chunks_mut::<ROW_VALUES>().0.iter_mut().take(rows) {
        let left = job.stream.words.get(WORD * job.used.words..).unwrap_or_default();
        let words = left.first_chunk().unwrap_or_else(|| {
            at_end.fill(0);
            at_end[..left.len()].copy_from_slice(left);
            &at_end
        });
        let (mut words, mut symbols) = (Words { bytes: words, read: 0 }, [[vdupq_n_u32(0); 2]; PAIRS]);
        decode_step::<0>(&mut states, &mut symbols, table, &mut words);
        decode_step::<8>(&mut states, &mut symbols, table, &mut words);
        decode_step::<16>(&mut states, &mut symbols, table, &mut words);
        decode_step::<24>(&mut states, &mut symbols, table, &mut words);
        job.used.words += words.read;
        for (pairs, out) in symbols.as_chunks::<2>().0.iter().zip(out.as_chunks_mut::<64>().0) {
            let symbols = [pairs[0][0], pairs[0][1], pairs[1][0], pairs[1][1]]
                .map(|symbols| vreinterpretq_u8_u32(symbols));
            for (symbols, out) in symbols.into_iter().zip(out.as_chunks_mut().0) {
                store(out, vaddq_u8(symbols, start));
            }
            let Some(escape) = table.escape else { continue };
            let mut escaped = bits(symbols.map(|symbols| vceqq_u8(symbols, vdupq_n_u8(escape))));
            while escaped != 0 {
                let place = escaped.trailing_zeros() as usize;
                out[place] = job.stream.escapes.get(job.used.escapes).copied().unwrap_or(0);
                job.used.escapes += 1;
                escaped &= escaped - 1;
            }
        }
    }
    write_states(states, &mut job.states);
}

/// Decodes a symbol of each lane into the bits from `SHIFT` on of the symbols, and all bits above them; `words` are those of the row, of
/// which the steps before have read some.
#[inline]
#[target_feature(enable = "neon")]
fn decode_step<const SHIFT: i32>(
    states: &mut [Pair; PAIRS],
    symbols: &mut [Pair; PAIRS],
    table: &DecodeTable,
    words: &mut Words<'_>,
) {
    // One after the other in so many words: as a loop it would keep the states in memory.
    let ([a, b, c, d], [p, q, r, s]) = (states, symbols);
    decode_pair::<SHIFT>(a, p, table, words);
    decode_pair::<SHIFT>(b, q, table, words);
    decode_pair::<SHIFT>(c, r, table, words);
    decode_pair::<SHIFT>(d, s, table, words);
}

/// Decodes a symbol of each of eight lanes.
#[inline]
#[target_feature(enable = "neon")]
fn decode_pair<const SHIFT: i32>(
    states: &mut Pair,
    symbols: &mut Pair,
    table: &DecodeTable,
    words: &mut Words<'_>,
) {
    let found = [look_up(&table.slots, states[0]), look_up(&table.slots, states[1])];
    // What is above the symbol goes when the next one comes.
    *symbols = [vsliq_n_u32::<SHIFT>(symbols[0], found[0]), vsliq_n_u32::<SHIFT>(symbols[1], found[1])];
    let (first, second) = (advance(states[0], found[0]), advance(states[1], found[1]));
    let lowest = vdupq_n_u32(LOWEST);
    let reads = [vcltq_u32(first, lowest), vcltq_u32(second, lowest)];
    let words = words.next(reads);
    // Room for a word where one is read.
    let bits = vdupq_n_u32(WORD_BITS);
    let first = vshlq_u32(first, vreinterpretq_s32_u32(vandq_u32(reads[0], bits)));
    let second = vshlq_u32(second, vreinterpretq_s32_u32(vandq_u32(reads[1], bits)));
    *states = [vaddw_u16(first, vget_low_u16(words)), vaddw_high_u16(second, words)];
}

/// The words that a row can read, and how many of them it has read.
struct Words<'a> {
    bytes: &'a [u8; ROW_WORD_BYTES],
    read: usize,
}

impl Words<'_> {
    /// The next word for each of eight lanes that reads one, and 0 for the others.
    #[inline]
    #[target_feature(enable = "neon")]
    fn next(&mut self, reads: Pair) -> uint16x8_t {
        let mask = mask_of(reads);
        // A row has no more than 128 words, so this is where they are; the compiler need not know.
        let at = (WORD * self.read).min(ROW_WORD_BYTES - 16);
        let next = self.bytes[at..].first_chunk().expect("a vector is left");
        self.read += usize::from(COUNTS[mask]);
        vreinterpretq_u16_u8(vqtbl1q_u8(load(next), load(&VALUES_APART[mask])))
    }
}

/// The states before the symbols that were found, but for words that are to be read.
#[inline]
#[target_feature(enable = "neon")]
fn advance(states: uint32x4_t, found: uint32x4_t) -> uint32x4_t {
    let less_1 = vandq_u32(vshrq_n_u32::<8>(found), vdupq_n_u32(SLOTS as u32 - 1));
    let quotient = vshrq_n_u32::<{ SCALE_BITS as i32 }>(states);
    vmlaq_u32(vsraq_n_u32::<20>(quotient, found), less_1, quotient)
}

/// Entries by the lowest bits of states.
#[inline]
#[target_feature(enable = "neon")]
fn look_up(slots: &[u32; SLOTS], states: uint32x4_t) -> uint32x4_t {
    let states = vreinterpretq_u64_u32(states);
    let (first, second) = (vgetq_lane_u64::<0>(states), vgetq_lane_u64::<1>(states));
    let entry = |state: u64| slots[state as usize % SLOTS];
    let found = vdupq_n_u32(entry(first));
    let found = vsetq_lane_u32::<1>(entry(first >> 32), found);
    let found = vsetq_lane_u32::<2>(entry(second), found);
    vsetq_lane_u32::<3>(entry(second >> 32), found)
}
