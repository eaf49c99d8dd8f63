//! Values to sign-mantissa bytes, codes and escapes. The layout of the codes is that of [`crate::kernel::window`].

use std::arch::aarch64::*;

use super::super::escapes::take_escapes;
use super::sums;
use super::vector::{bits, exponents, load, load_values, rests, store};
use crate::kernel::window::{CODES, EDGES, WINDOWS, pack_groups};
use crate::kernel::{CODE_GROUP, CodedMut, ESCAPE, Packed};

/// Vectors of codes in a plane of a group, which are nibble words of 32 values each.
const COLUMNS: usize = CODES / 3 / 16;
/// Values of such a vector in each row.
const VALUES: usize = 32;

/// See [`crate::kernel::Kernel::pack`].
#[target_feature(enable = "neon")]
pub(super) fn pack(values: &[u8], coded: CodedMut<'_>) -> Packed {
    let sum = coded.word.map_or(0, |word| sums::mixed(values, word));
    let CodedMut { rest, codes, .. } = coded;
    let (rests, rest) = rest.as_chunks_mut::<CODE_GROUP>();
    let (group_codes, codes) = codes.split_at_mut(CODES * rests.len());
    let mut full = rests.iter_mut().zip(group_codes.as_chunks_mut::<CODES>().0);
    let coded = CodedMut { rest, codes, ..coded };
    let packed = pack_groups(values, coded, |values, starts, escapes, index, edges| {
        let (rest, codes) = full.next().expect("there is room for all groups");
        let escaped = pack_group(values, starts, rest, codes, edges);
        take_escapes(values, &escaped, escapes, index);
    });
    Packed { sum, ..packed }
}

/// Writes rest and codes of a group; returns a bit for each value that is an escape, and counts the edges.
#[inline]
#[target_feature(enable = "neon")]
fn pack_group(
    values: &[u8; 2 * CODE_GROUP],
    starts: [u8; WINDOWS],
    rest: &mut [u8; CODE_GROUP],
    codes: &mut [u8; CODES],
    edges: &mut [u32; EDGES.len()],
) -> [u64; CODE_GROUP / 64] {
    let mut escaped = [0; CODE_GROUP / 64];
    let values = values.as_chunks::<{ 4 * VALUES }>().0;
    let rest = rest.as_chunks_mut::<{ 2 * VALUES }>().0;
    let codes = codes.as_chunks_mut::<16>().0;
    let mut counters = Counters::new();
    // Two vectors of words of each row at a time, which are of 64 values.
    for column in 0..COLUMNS / 2 {
        let mut words = [[vdupq_n_u8(0); 2]; 4];
        for (row, words) in words.iter_mut().enumerate() {
            let number = COLUMNS / 2 * row + column;
            (*words, escaped[number]) =
                pack_64(&values[number], starts[row / 2], &mut rest[number], &mut counters);
            if row % 2 == 1 {
                counters.flush();
            }
        }
        let [first, second, third, last] = words;
        for half in 0..2 {
            let at = 2 * column + half;
            // The spare bits of the planes are the highest of nibbles.
            let plane = |words, shifted| vbslq_u8(vdupq_n_u8(0x88), shifted, words);
            store(&mut codes[at], plane(first[half], vshlq_n_u8::<3>(last[half])));
            store(&mut codes[COLUMNS + at], plane(second[half], vshlq_n_u8::<2>(last[half])));
            store(&mut codes[2 * COLUMNS + at], plane(third[half], vshlq_n_u8::<1>(last[half])));
        }
    }
    counters.add_to(edges);
    escaped
}

/// Writes the rest of 64 values; returns their nibble words, and a bit for each escape.
#[inline]
#[target_feature(enable = "neon")]
fn pack_64(
    values: &[u8; 4 * VALUES],
    start: u8,
    rest: &mut [u8; 2 * VALUES],
    counters: &mut Counters,
) -> ([uint8x16_t; 2], u64) {
    let (starts, escape) = (vdupq_n_u8(start), vdupq_n_u8(ESCAPE));
    let mut codes = [escape; 4];
    for ((values, rest), codes) in values.as_chunks().0.iter().zip(rest.as_chunks_mut().0).zip(&mut codes) {
        let values = load_values(values);
        store(rest, rests(values));
        *codes = vminq_u8(vsubq_u8(exponents(values), starts), escape);
        counters.add(*codes);
    }
    let escaped = codes.map(|codes| vceqq_u8(codes, escape));
    let [a, b, c, d] = codes;
    ([words(a, b), words(c, d)], bits(escaped))
}

/// The nibble words of 32 codes.
#[inline]
#[target_feature(enable = "neon")]
fn words(first: uint8x16_t, second: uint8x16_t) -> uint8x16_t {
    let (first, second) = (vreinterpretq_u16_u8(first), vreinterpretq_u16_u8(second));
    // Pairs of codes: every second one is above the one before it.
    let even = vreinterpretq_u8_u16(vuzp1q_u16(first, second));
    let odd = vreinterpretq_u8_u16(vuzp2q_u16(first, second));
    vqtbl1q_u8(vsliq_n_u8::<4>(even, odd), middle_exchanged())
}

/// The shuffle that exchanges the two bytes in the middle of each word: nibbles are even values, then odd ones.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn middle_exchanged() -> uint8x16_t {
    load(&[0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15])
}

/// Counts of [`EDGES`] in a group, in each byte of vectors: two of them in nibbles, until these are flushed.
struct Counters {
    nibbles: [uint8x16_t; 2],
    /// At most 64 in each byte: a group has as many vectors.
    bytes: [uint8x16_t; EDGES.len()],
    /// Addends of each code for the nibbles.
    addends: [uint8x16_t; 2],
}

impl Counters {
    #[inline]
    #[target_feature(enable = "neon")]
    fn new() -> Self {
        let addends = [0, 2].map(|edge: usize| {
            let mut addends = [0; 16];
            addends[usize::from(EDGES[edge])] = 0x01;
            addends[usize::from(EDGES[edge + 1])] = 0x10;
            load(&addends)
        });
        Self { nibbles: [vdupq_n_u8(0); 2], bytes: [vdupq_n_u8(0); EDGES.len()], addends }
    }

    /// To be called at most 15 times before nibbles are flushed.
    #[inline]
    #[target_feature(enable = "neon")]
    fn add(&mut self, codes: uint8x16_t) {
        for (nibbles, addends) in self.nibbles.iter_mut().zip(self.addends) {
            *nibbles = vaddq_u8(*nibbles, vqtbl1q_u8(addends, codes));
        }
    }

    #[inline]
    #[target_feature(enable = "neon")]
    fn flush(&mut self) {
        for (bytes, nibbles) in self.bytes.as_chunks_mut::<2>().0.iter_mut().zip(self.nibbles) {
            bytes[0] = vaddq_u8(bytes[0], vandq_u8(nibbles, vdupq_n_u8(0x0f)));
            bytes[1] = vsraq_n_u8::<4>(bytes[1], nibbles);
        }
        self.nibbles = [vdupq_n_u8(0); 2];
    }

    #[inline]
    #[target_feature(enable = "neon")]
    fn add_to(self, edges: &mut [u32; EDGES.len()]) {
        for (edge, bytes) in edges.iter_mut().zip(self.bytes) {
            *edge += u32::from(vaddlvq_u8(bytes));
        }
    }
}
