//! The inverse of packing.

use std::arch::x86_64::*;

use super::pack::{Rows, mixed_tail};
use super::sums::Mixer;
use super::vector::{NEAR, join_64, load, load_part, prefetch, prefetch_far};
use super::writer::Vectors;
use crate::TileFault;
use crate::kernel::window::{CODES, Escapes, WINDOWS, unpack_groups};
use crate::kernel::{CODE_GROUP, Coded, ESCAPE, EscapeIndex, Unpacked};

/// How far ahead of their use rests are asked for, in bytes: more than a tile, as something else is between the rests of two.
const REST_AHEAD: usize = 1 << 14;
/// Blocks of 64 values that have a window in common.
const WINDOW_BLOCKS: usize = CODE_GROUP / 64 / WINDOWS;

/// See [`crate::kernel::Kernel::unpack`].
#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
pub(super) fn unpack(coded: Coded<'_>, out: &mut [u8]) -> Result<Unpacked, TileFault> {
    if coded.streaming { unpack_to::<true>(coded, out) } else { unpack_to::<false>(coded, out) }
}

#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
fn unpack_to<const PAST: bool>(coded: Coded<'_>, out: &mut [u8]) -> Result<Unpacked, TileFault> {
    match coded.word {
        Some(word) => {
            let mut mixer = Mixer::new(word);
            let index = unpack_mixed::<true, PAST>(coded, out, &mut mixer)?;
            Ok(Unpacked { index, sum: mixer.sum().wrapping_add(mixed_tail(out, word)) })
        }
        None => Ok(Unpacked { index: unpack_mixed::<false, PAST>(coded, out, &mut Mixer::new(0))?, sum: 0 }),
    }
}

/// Adds the values of full groups to the sum if `SUM`.
#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
fn unpack_mixed<const SUM: bool, const PAST: bool>(
    coded: Coded<'_>,
    out: &mut [u8],
    mixer: &mut Mixer<2>,
) -> Result<EscapeIndex, TileFault> {
    let groups = out.len() / (2 * CODE_GROUP);
    let (values, tail) = out.split_at_mut(2 * CODE_GROUP * groups);
    let mut values = Vectors::<PAST>::new(values);
    let index = unpack_groups(coded, groups, tail, |starts, rest, codes, escapes, index| {
        unpack_group::<SUM, PAST>(starts, rest, codes, escapes, &mut values, index, mixer);
    });
    values.finish();
    index
}

/// Escapes that are missing count, but what takes their place is of no meaning.
#[inline]
#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
fn unpack_group<const SUM: bool, const PAST: bool>(
    starts: [u8; WINDOWS],
    rest: &[u8; CODE_GROUP],
    codes: &[u8; CODES],
    escapes: &mut Escapes<&[u8]>,
    values: &mut Vectors<'_, PAST>,
    index: &mut [u16],
    mixer: &mut Mixer<2>,
) {
    let rows = rows_of(codes);
    for (number, rest) in rest.as_chunks::<64>().0.iter().enumerate() {
        if let (0, Some(entry)) = (number % WINDOW_BLOCKS, index.get_mut(number / WINDOW_BLOCKS)) {
            *entry = escapes.count as u16;
        }
        let words = rows[number / 4][number / 2 % 2];
        let words = if number % 2 == 0 {
            _mm512_castsi512_si256(words)
        } else {
            _mm512_extracti64x4_epi64::<1>(words)
        };
        let left = escapes.exponents.get(escapes.count..).unwrap_or(&[]);
        let next = match left.first_chunk() {
            Some(next) => load(next),
            None => load_part(left),
        };
        let (exponents, used) = exponents_of(words, starts[number / WINDOW_BLOCKS], next);
        escapes.count += used;
        prefetch(rest, NEAR);
        prefetch_far(rest, REST_AHEAD);
        let (first, second) = join_64(load(rest), exponents);
        if SUM {
            mixer.add([first, second]);
        }
        values.write(first);
        values.write(second);
    }
}

/// The nibble words of a group.
#[inline]
#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
fn rows_of(codes: &[u8; CODES]) -> Rows {
    let codes = codes.as_chunks::<64>().0;
    let mut rows = [[_mm512_setzero_si512(); 2]; 4];
    for column in 0..2 {
        for plane in 0..3 {
            let word = load(&codes[2 * plane + column]);
            rows[plane][column] = _mm512_and_si512(word, _mm512_set1_epi32(0x7777_7777));
            let spare = _mm512_srlv_epi32(word, _mm512_set1_epi32(3 - plane as i32));
            let spare = _mm512_and_si512(spare, _mm512_set1_epi32(0x1111_1111 << plane));
            rows[3][column] = _mm512_or_si512(rows[3][column], spare);
        }
    }
    rows
}

/// The exponents of eight nibble words, where those of escapes are the front of `next`; and how many these are.
#[inline]
#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
fn exponents_of(words: __m256i, start: u8, next: __m512i) -> (__m512i, usize) {
    // Where the nibbles of the values are in a word, in bits.
    let nibbles = _mm512_set1_epi64(0x1c0c_1808_1404_1000);
    let codes = _mm512_multishift_epi64_epi8(nibbles, _mm512_cvtepu32_epi64(words));
    let codes = _mm512_and_si512(codes, _mm512_set1_epi8(ESCAPE.cast_signed()));
    let escaped = _mm512_cmpeq_epi8_mask(codes, _mm512_set1_epi8(ESCAPE.cast_signed()));
    let exponents = _mm512_add_epi8(codes, _mm512_set1_epi8(start.cast_signed()));
    (_mm512_mask_expand_epi8(exponents, escaped, next), escaped.count_ones() as usize)
}
