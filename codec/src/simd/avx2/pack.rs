//! Values to sign-mantissa bytes, codes and escapes. The layout of the codes is that of [`crate::kernel::window`].

use std::arch::x86_64::*;

use super::super::escapes::take_escapes;
use super::sums;
use super::vector::{AHEAD, bits, exponents, load, prefetch_far, store, sum_epi64, swap_middle};
use crate::kernel::window::{CODES, EDGES, WINDOWS, pack_groups};
use crate::kernel::{CODE_GROUP, CodedMut, ESCAPE, Packed};

/// Counts of [`EDGES`].
type Edges = [__m256i; EDGES.len()];

/// See [`crate::kernel::Kernel::pack`].
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn pack(values: &[u8], coded: CodedMut<'_>) -> Packed {
    let sum = coded.word.map_or(0, |word| sums::mixed(values, word));
    let CodedMut { rest, codes, .. } = coded;
    let (rests, rest) = rest.as_chunks_mut::<CODE_GROUP>();
    let (group_codes, codes) = codes.split_at_mut(CODES * rests.len());
    let mut full = rests.iter_mut().zip(group_codes.as_chunks_mut::<CODES>().0);
    let coded = CodedMut { rest, codes, ..coded };
    let packed = pack_groups(values, coded, |values, starts, escapes, index, edges| {
        let (rest, codes) = full.next().expect("there is room for all groups");
        // Counters of bytes: a group has 32 vectors of codes.
        let mut counts = [_mm256_setzero_si256(); EDGES.len()];
        let escaped = pack_group(values, starts, rest, codes, &mut counts);
        for (edge, counts) in edges.iter_mut().zip(counts) {
            *edge += sum_epi64(_mm256_sad_epu8(counts, _mm256_setzero_si256())) as u32;
        }
        take_escapes(values, &escaped, escapes, index);
    });
    Packed { sum, ..packed }
}

/// Writes rest and codes of a group; returns a bit for each value that is an escape.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn pack_group(
    values: &[u8; 2 * CODE_GROUP],
    starts: [u8; WINDOWS],
    rest: &mut [u8; CODE_GROUP],
    codes: &mut [u8; CODES],
    edges: &mut Edges,
) -> [u64; CODE_GROUP / 64] {
    let mut escaped = [0; CODE_GROUP / 64];
    let values = values.as_chunks::<128>().0;
    let rest = rest.as_chunks_mut::<64>().0;
    let codes = codes.as_chunks_mut::<32>().0;
    // Eight lanes at a time: the same 64 values of each of the four rows.
    for column in 0..4 {
        let mut words = [_mm256_setzero_si256(); 4];
        for (row, words) in words.iter_mut().enumerate() {
            let number = 4 * row + column;
            (*words, escaped[number]) = pack_64(&values[number], starts[row / 2], &mut rest[number], edges);
        }
        for plane in 0..3 {
            let spare = _mm256_and_si256(words[3], _mm256_set1_epi32(0x1111_1111 << plane));
            let spare = _mm256_sllv_epi32(spare, _mm256_set1_epi32(3 - plane));
            store(&mut codes[4 * plane as usize + column], _mm256_or_si256(words[plane as usize], spare));
        }
    }
    escaped
}

/// Writes the rest of 64 values; returns their eight nibble words and a bit for each escape.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn pack_64(values: &[u8; 128], start: u8, rest: &mut [u8; 64], edges: &mut Edges) -> (__m256i, u64) {
    let [first, second] = values.as_chunks::<64>().0 else { unreachable!("128 bytes are twice 64") };
    prefetch_far(first, AHEAD);
    prefetch_far(second, AHEAD);
    let [a, b, c, d] = values.as_chunks().0 else { unreachable!("128 bytes are four times 32") };
    let (a, b, c, d) = (load(a), load(b), load(c), load(d));

    // The sign is the highest bit of the upper byte, the mantissa all others of the lower one; their sum has no carry.
    let mask = _mm256_set1_epi16(0x807f_u16.cast_signed());
    let rest_of = |values| _mm256_maddubs_epi16(_mm256_and_si256(values, mask), _mm256_set1_epi8(1));
    let [low, high] = rest.as_chunks_mut().0 else { unreachable!("64 bytes are twice 32") };
    store(low, swap_middle(_mm256_packus_epi16(rest_of(a), rest_of(b))));
    store(high, swap_middle(_mm256_packus_epi16(rest_of(c), rest_of(d))));

    let escape = _mm256_set1_epi8(ESCAPE.cast_signed());
    let code_of = |exponents| {
        let codes = _mm256_sub_epi8(exponents, _mm256_set1_epi8(start.cast_signed()));
        _mm256_min_epu8(codes, escape)
    };
    let (low, high) = (code_of(exponents(a, b)), code_of(exponents(c, d)));
    for (counts, code) in edges.iter_mut().zip(EDGES) {
        // A comparison that holds is -1.
        let equal = |codes| _mm256_cmpeq_epi8(codes, _mm256_set1_epi8(code.cast_signed()));
        *counts = _mm256_sub_epi8(*counts, _mm256_add_epi8(equal(low), equal(high)));
    }
    let escaped = |codes| u64::from(bits(swap_middle(_mm256_cmpeq_epi8(codes, escape))));
    let escaped = escaped(low) | escaped(high) << 32;

    // Of each eight codes the even ones, then the odd ones; of these, pairs to bytes.
    let order =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15));
    let nibbles = |codes| _mm256_maddubs_epi16(_mm256_shuffle_epi8(codes, order), _mm256_set1_epi16(0x1001));
    // Both times packing has left what belongs together in different halves.
    let words = _mm256_packus_epi16(nibbles(low), nibbles(high));
    (_mm256_permutevar8x32_epi32(words, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)), escaped)
}
