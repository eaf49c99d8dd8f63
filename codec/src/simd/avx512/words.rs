//! FP32 values taken apart and put together, 64 at a time.

use std::arch::x86_64::*;

use super::vector::{AHEAD, load, prefetch, prefetch_far, select, store};
use crate::kernel::words::{self, PLANES, PlaneStats};
use crate::kernel::{BASE_GROUP, GroupSums};

/// Values that are taken at a time.
const STEP_VALUES: usize = 64;

/// The positions of bytes 0 and 1 of the 32 words of two vectors, those of byte 0 first; then of bytes 2 and 3.
static BYTES: [[u8; 64]; 2] = [positions(0), positions(2)];
/// The positions that bring 16 pairs of each of two vectors together as words, in quarters.
static WORDS: [[u8; 64]; 2] = [interleaved(0), interleaved(16)];

const fn positions(first: u8) -> [u8; 64] {
    let mut positions = [0; 64];
    let mut i = 0;
    while i < 64 {
        positions[i] = (i % 32 * 4) as u8 + first + (i / 32) as u8;
        i += 1;
    }
    positions
}

/// Positions of 16 words from `first` on in two vectors with the bytes 0 and 1, and 2 and 3, of 32 words, as [`BYTES`] makes them.
const fn interleaved(first: u8) -> [u8; 64] {
    let mut positions = [0; 64];
    let mut i = 0;
    while i < 64 {
        let byte = (i % 4) as u8;
        positions[i] = (i / 4) as u8 + first + byte % 2 * 32 + byte / 2 * 64;
        i += 1;
    }
    positions
}

/// See [`crate::kernel::Kernel::group_sums_32`].
#[target_feature(enable = "avx512bw,popcnt")]
pub(super) fn group_sums_32(values: &[u8], sums: &mut [GroupSums]) {
    let (groups, tail) = values.as_chunks::<{ 4 * BASE_GROUP }>();
    let (full, last) = sums.split_at_mut(groups.len());
    for (group, sums) in groups.iter().zip(full) {
        let mut exponents = _mm512_setzero_si512();
        let mut zeros = 0;
        for block in group.as_chunks::<64>().0 {
            prefetch_far(block, AHEAD);
            let values = load(block);
            let exponent = _mm512_and_si512(_mm512_srli_epi32::<23>(values), _mm512_set1_epi32(0xff));
            exponents = _mm512_add_epi32(exponents, exponent);
            zeros += _mm512_testn_epi32_mask(values, values).count_ones();
        }
        *sums = GroupSums { exponents: _mm512_reduce_add_epi32(exponents).cast_unsigned(), zeros };
    }
    words::group_sums_32(tail, last);
}

/// The mantissa of a value, and the sign above it.
#[inline]
#[target_feature(enable = "avx512bw")]
fn rests_of(values: __m512i) -> __m512i {
    let signs = _mm512_srli_epi32::<8>(values);
    let low = select(_mm512_set1_epi32(0x7f_ffff), values, signs);
    _mm512_and_si512(low, _mm512_set1_epi32(0xff_ffff))
}

/// See [`crate::kernel::Kernel::plane_stats`].
#[target_feature(enable = "avx512bw,popcnt")]
pub(super) fn plane_stats(values: &[u8]) -> PlaneStats {
    let (blocks, tail) = values.as_chunks::<64>();
    let (mut any, mut all) = (_mm512_setzero_si512(), _mm512_set1_epi32(-1));
    let mut stats = words::plane_stats(tail);
    for block in blocks {
        let values = load(block);
        let rests = rests_of(values);
        any = _mm512_or_si512(any, rests);
        all = _mm512_mask_and_epi32(all, _mm512_test_epi32_mask(values, values), all, rests);
        let nonzero = _mm512_test_epi8_mask(rests, rests);
        for (plane, count) in stats.nonzero.iter_mut().enumerate() {
            *count += (nonzero & 0x1111_1111_1111_1111 << plane).count_ones();
        }
    }
    stats.any |= _mm512_reduce_or_epi32(any).cast_unsigned();
    stats.all &= _mm512_reduce_and_epi32(all).cast_unsigned();
    stats
}

/// See [`crate::kernel::Kernel::split_32`].
#[target_feature(enable = "avx512bw,avx512vbmi")]
pub(super) fn split_32(values: &[u8], base: u8, planes: [&mut [u8]; PLANES], residuals: &mut [u8]) {
    let (steps, tail) = values.as_chunks::<{ 4 * STEP_VALUES }>();
    let full = STEP_VALUES * steps.len();
    let [(first, first_tail), (second, second_tail), (third, third_tail)] =
        planes.map(|plane| plane.split_at_mut(full));
    let (residuals, residuals_tail) = residuals.split_at_mut(full);
    let (low_bytes, high_bytes) = (load(&BYTES[0]), load(&BYTES[1]));
    let base_of_all = _mm512_set1_epi8(base.cast_signed());
    let mantissa = _mm512_set1_epi8(0x7f);
    let out = first.as_chunks_mut().0.iter_mut().zip(second.as_chunks_mut().0);
    let out = out.zip(third.as_chunks_mut().0.iter_mut().zip(residuals.as_chunks_mut().0));
    for (values, ((first, second), (third, residuals))) in steps.iter().zip(out) {
        let [a, b, c, d] = values.as_chunks().0 else { unreachable!("256 bytes are four times 64") };
        let (a, b, c, d) = (load(a), load(b), load(c), load(d));
        let low = [_mm512_permutex2var_epi8(a, low_bytes, b), _mm512_permutex2var_epi8(c, low_bytes, d)];
        let high = [_mm512_permutex2var_epi8(a, high_bytes, b), _mm512_permutex2var_epi8(c, high_bytes, d)];
        store(first, _mm512_shuffle_i64x2::<0x44>(low[0], low[1]));
        store(second, _mm512_shuffle_i64x2::<0xee>(low[0], low[1]));
        let upper = _mm512_shuffle_i64x2::<0x44>(high[0], high[1]);
        let top = _mm512_shuffle_i64x2::<0xee>(high[0], high[1]);
        store(third, select(mantissa, upper, top));
        // The lowest bit of the exponent is above the mantissa.
        let lowest = _mm512_and_si512(_mm512_srli_epi16::<7>(upper), _mm512_set1_epi8(1));
        let exponents = _mm512_or_si512(_mm512_add_epi8(top, top), lowest);
        store(residuals, _mm512_sub_epi8(exponents, base_of_all));
    }
    words::split_32(tail, base, [first_tail, second_tail, third_tail], residuals_tail);
}

/// See [`crate::kernel::Kernel::join_32`].
#[target_feature(enable = "avx512bw,avx512vbmi")]
pub(super) fn join_32(planes: [&[u8]; PLANES], residuals: &[u8], base: u8, values: &mut [u8]) {
    let (steps, tail) = values.as_chunks_mut::<{ 4 * STEP_VALUES }>();
    let full = STEP_VALUES * steps.len();
    let [(first, first_tail), (second, second_tail), (third, third_tail)] =
        planes.map(|plane| plane.split_at(full));
    let (residuals, residuals_tail) = residuals.split_at(full);
    let (low_words, high_words) = (load(&WORDS[0]), load(&WORDS[1]));
    let base_of_all = _mm512_set1_epi8(base.cast_signed());
    let mantissa = _mm512_set1_epi8(0x7f);
    let from = first.as_chunks().0.iter().zip(second.as_chunks().0);
    let from = from.zip(third.as_chunks().0.iter().zip(residuals.as_chunks().0));
    for (values, ((first, second), (third, residuals))) in steps.iter_mut().zip(from) {
        prefetch(first, 1 << 11);
        prefetch(second, 1 << 11);
        prefetch(third, 1 << 11);
        let (first, second, third) = (load(first), load(second), load(third));
        let exponents = _mm512_add_epi8(load(residuals), base_of_all);
        let lowest = _mm512_slli_epi16::<7>(exponents);
        let upper = select(mantissa, third, lowest);
        let halved = _mm512_srli_epi16::<1>(exponents);
        let top = select(mantissa, halved, third);
        let [a, b, c, d] = values.as_chunks_mut().0 else { unreachable!("256 bytes are four times 64") };
        let low = _mm512_shuffle_i64x2::<0x44>(first, second);
        let high = _mm512_shuffle_i64x2::<0x44>(upper, top);
        store(a, _mm512_permutex2var_epi8(low, low_words, high));
        store(b, _mm512_permutex2var_epi8(low, high_words, high));
        let low = _mm512_shuffle_i64x2::<0xee>(first, second);
        let high = _mm512_shuffle_i64x2::<0xee>(upper, top);
        store(c, _mm512_permutex2var_epi8(low, low_words, high));
        store(d, _mm512_permutex2var_epi8(low, high_words, high));
    }
    words::join_32([first_tail, second_tail, third_tail], residuals_tail, base, tail);
}

/// See [`crate::kernel::Kernel::add_plane`].
#[target_feature(enable = "avx512bw")]
pub(super) fn add_plane(number: usize, plane: &[u8], values: &mut [u8]) {
    words::add_plane(number, plane, values);
}
