//! Values to sign-mantissa bytes, codes and escapes, and back; exponents counted around a window, by look-ups and comparisons of 16 values
//! instead of counters in memory. The layout of the codes is that of [`crate::kernel::window`].

use std::arch::aarch64::*;

use super::super::escapes::{Exponents, put_escapes, take_escapes};
use crate::error::TileFault;
use crate::kernel::window::{
    CODES, COUNTS, EDGES, WINDOWS, WindowBounds, neighbours, pack_groups, unpack_groups,
};
use crate::kernel::{CODE_GROUP, Coded, CodedMut, ESCAPE, Packed, Unpacked};
use crate::scale::WINDOW;
use zipwire_codec::simd::neon::sums;
use zipwire_codec::simd::neon::vector::{
    bits, exponents, join_16, load, load_values, rests, store, store_values,
};

/// Vectors of codes in a plane of a group, which are nibble words of 32 values each.
const COLUMNS: usize = CODES / 3 / 16;
/// Values of such a vector in each row.
const VALUES: usize = 32;

#[target_feature(enable = "neon")]
pub(in crate::simd) fn pack(values: &[u8], coded: CodedMut<'_>) -> Packed {
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
fn middle_exchanged() -> uint8x16_t {
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

#[target_feature(enable = "neon")]
pub(in crate::simd) fn unpack(coded: Coded<'_>, out: &mut [u8]) -> Result<Unpacked, TileFault> {
    let mut exponents = [0; CODE_GROUP + 32];
    let (groups, tail) = out.as_chunks_mut::<{ 2 * CODE_GROUP }>();
    let mut full = groups.iter_mut();
    let index = unpack_groups(coded, full.len(), tail, |starts, rest, codes, escapes, index| {
        let escaped = unpack_codes(starts, codes, &mut exponents);
        put_escapes(&escaped, escapes, &mut exponents, index);
        join(rest, &exponents, full.next().expect("there is room for all groups"));
    })?;
    Ok(Unpacked { index, sum: coded.word.map_or(0, |word| sums::mixed(out, word)) })
}

/// Writes the exponents that the codes give; returns a bit for each value that is an escape.
#[inline]
#[target_feature(enable = "neon")]
fn unpack_codes(
    starts: [u8; WINDOWS],
    codes: &[u8; CODES],
    exponents: &mut Exponents,
) -> [u64; CODE_GROUP / 64] {
    let mut escaped = [0; CODE_GROUP / 64];
    let codes = codes.as_chunks::<16>().0;
    let exponents = exponents.as_chunks_mut::<64>().0;
    // Two vectors of words of each row at a time, which are of 64 values.
    for column in 0..COLUMNS / 2 {
        let rows = [0, 1].map(|half| {
            let at = 2 * column + half;
            let (low, middle, high) =
                (load(&codes[at]), load(&codes[COLUMNS + at]), load(&codes[2 * COLUMNS + at]));
            let last = vbslq_u8(vdupq_n_u8(0x22), vshrq_n_u8::<2>(middle), vshrq_n_u8::<1>(high));
            let last = vbslq_u8(vdupq_n_u8(0x11), vshrq_n_u8::<3>(low), last);
            [low, middle, high, last]
        });
        for (row, (first, second)) in rows[0].into_iter().zip(rows[1]).enumerate() {
            let number = COLUMNS / 2 * row + column;
            escaped[number] = unpack_64([first, second], starts[row / 2], &mut exponents[number]);
        }
    }
    escaped
}

/// Writes the exponents of 16 nibble words, of whose nibbles three bits count; returns a bit for each escape.
#[inline]
#[target_feature(enable = "neon")]
fn unpack_64(words: [uint8x16_t; 2], start: u8, exponents: &mut [u8; 64]) -> u64 {
    let (starts, escape) = (vdupq_n_u8(start), vdupq_n_u8(ESCAPE));
    let [(a, b), (c, d)] = words.map(|words| {
        let pairs = vqtbl1q_u8(vandq_u8(words, vdupq_n_u8(0x77)), middle_exchanged());
        let even = vreinterpretq_u16_u8(vandq_u8(pairs, vdupq_n_u8(0x0f)));
        let odd = vreinterpretq_u16_u8(vshrq_n_u8::<4>(pairs));
        (vreinterpretq_u8_u16(vzip1q_u16(even, odd)), vreinterpretq_u8_u16(vzip2q_u16(even, odd)))
    });
    for (codes, exponents) in [a, b, c, d].into_iter().zip(exponents.as_chunks_mut().0) {
        store(exponents, vaddq_u8(codes, starts));
    }
    bits([a, b, c, d].map(|codes| vceqq_u8(codes, escape)))
}

/// Writes the values of a group.
#[inline]
#[target_feature(enable = "neon")]
fn join(rest: &[u8; CODE_GROUP], exponents: &Exponents, out: &mut [u8; 2 * CODE_GROUP]) {
    let (rest, exponents) = (rest.as_chunks().0, exponents.as_chunks().0);
    for ((rest, exponents), out) in rest.iter().zip(exponents).zip(out.as_chunks_mut().0) {
        store_values(out, join_16(load(rest), load(exponents)));
    }
}

/// Vectors whose counts fit into nibbles.
const VECTORS: usize = 15;
/// So many times as many vectors can be counted in bytes.
const TIMES: usize = 17;

#[target_feature(enable = "neon")]
pub(in crate::simd) fn window_bounds(values: &[u8], start: u8) -> Option<WindowBounds> {
    let (vectors, tail) = values.as_chunks::<32>();
    let mut sums = [0; COUNTS];
    for vectors in vectors.chunks(VECTORS * TIMES) {
        add_vectors(vectors, start, &mut sums);
    }
    if !tail.is_empty() {
        // Filled up with an exponent in the middle of the window, which is in none of the counts.
        let mut padded = [0; 32];
        padded.as_chunks_mut().0.fill((u16::from(start + WINDOW as u8 / 2) << 7).to_le_bytes());
        padded[..tail.len()].copy_from_slice(tail);
        add_vectors(&[padded], start, &mut sums);
    }
    Some(WindowBounds::of_counts(start, values.len() / 2, sums))
}

/// Adds the counts of at most `VECTORS * TIMES` vectors.
#[inline]
#[target_feature(enable = "neon")]
fn add_vectors(vectors: &[[u8; 32]], start: u8, sums: &mut [u32; COUNTS]) {
    let zero = vdupq_n_u8(0);
    let (first, last) = (vdupq_n_u8(start), vdupq_n_u8(start + (WINDOW - 1) as u8));
    // Each of the neighbours is in a nibble of its own, by its distance from the lowest of them.
    let around = neighbours(start);
    let lowest = vdupq_n_u8(around[0]);
    let mut addends = [[0; 16]; 3];
    for (number, exponent) in around.into_iter().enumerate() {
        addends[number / 2][usize::from(exponent.wrapping_sub(around[0]))] = [0x01, 0x10][number % 2];
    }
    let [a, b, c] = &addends;
    let addends = [load(a), load(b), load(c)];
    let mut counts = [zero; COUNTS];
    for vectors in vectors.chunks(VECTORS) {
        let mut nibbles = [zero; 3];
        for values in vectors {
            let exponents = exponents(load_values(values));
            // A comparison that holds is -1.
            counts[0] = vsubq_u8(counts[0], vceqzq_u8(exponents));
            counts[1] = vsubq_u8(counts[1], vcltq_u8(exponents, first));
            counts[2] = vsubq_u8(counts[2], vcgtq_u8(exponents, last));
            let places = vsubq_u8(exponents, lowest);
            for (nibbles, addends) in nibbles.iter_mut().zip(addends) {
                *nibbles = vaddq_u8(*nibbles, vqtbl1q_u8(addends, places));
            }
        }
        for (counts, nibbles) in counts[3..].as_chunks_mut::<2>().0.iter_mut().zip(nibbles) {
            counts[0] = vaddq_u8(counts[0], vandq_u8(nibbles, vdupq_n_u8(0x0f)));
            counts[1] = vsraq_n_u8::<4>(counts[1], nibbles);
        }
    }
    for (sum, count) in sums.iter_mut().zip(counts) {
        *sum += u32::from(vaddlvq_u8(count));
    }
}
