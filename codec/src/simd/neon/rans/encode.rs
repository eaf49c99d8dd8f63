//! Encoding, eight lanes at a time. What a table has for a symbol is one load.

use std::arch::aarch64::*;

use super::super::vector::{bits, load, store};
use super::{COUNTS, PAIRS, Pair, mask_of, states_of, write_states};
use crate::kernel::joint;
use crate::kernel::rans::{
    self, Alphabet, ESCAPE, EncodeTable, LANE_VALUES, LIMIT, LOW, ROW_VALUES, Room, SHIFT, States, Used,
    WORD, WORD_BITS,
};

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

/// See [`crate::kernel::Kernel::encode_rans`].
#[target_feature(enable = "neon")]
pub(in super::super) fn encode_rans(
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
    let mut words = Words { end: room.words.len() - WORD * used.words, room: room.words };
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
struct Words<'a> {
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
    words: &mut Words<'_>,
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
