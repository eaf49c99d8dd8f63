//! BF16 and FP32 values taken apart and put together, sums over groups of them, and halves of values of 32 bits.

use std::arch::x86_64::*;

use super::vector::{
    AHEAD, EVEN, ODD, join_64, load, load_part, prefetch, prefetch_far, select, split_64, store, store_part,
};
use crate::kernel::fields::{self, PLANES, PlaneStats};
use crate::kernel::{BASE_GROUP, GroupSums, TILE};

#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
pub(super) fn group_sums(values: &[u8], sums: &mut [GroupSums]) {
    let (groups, tail) = values.as_chunks::<{ 2 * BASE_GROUP }>();
    let (full, last) = sums.split_at_mut(groups.len());
    for (group, sums) in groups.iter().zip(full) {
        // At most eight times 255 in each of 32 sums.
        let mut exponents = _mm512_setzero_si512();
        let mut zeros = 0;
        for block in group.as_chunks::<64>().0 {
            prefetch(block, 2 * TILE);
            let values = load(block);
            let doubled = _mm512_add_epi16(values, values);
            exponents = _mm512_add_epi16(exponents, _mm512_srli_epi16::<8>(doubled));
            zeros += _mm512_testn_epi16_mask(values, values).count_ones();
        }
        let pairs = _mm512_madd_epi16(exponents, _mm512_set1_epi16(1));
        *sums = GroupSums { exponents: _mm512_reduce_add_epi32(pairs).cast_unsigned(), zeros };
    }
    fields::group_sums(tail, last);
}

#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
pub(super) fn split(values: &[u8], base: u8, rest: &mut [u8], residuals: &mut [u8]) {
    let base = _mm512_set1_epi8(base.cast_signed());
    let (steps, tail) = values.as_chunks::<128>();
    let (rests, rest_tail) = rest.split_at_mut(64 * steps.len());
    let (full, residuals_tail) = residuals.split_at_mut(64 * steps.len());
    for ((values, rest), residuals) in steps.iter().zip(rests.as_chunks_mut().0).zip(full.as_chunks_mut().0) {
        let [low, high] = values.as_chunks().0 else { unreachable!("128 bytes are twice 64") };
        prefetch_far(low, AHEAD);
        prefetch_far(high, AHEAD);
        let (rests, exponents) = split_64(load(low), load(high));
        store(rest, rests);
        store(residuals, _mm512_sub_epi8(exponents, base));
    }
    let (low, high) = tail.split_at(tail.len().min(64));
    let (rests, exponents) = split_64(load_part(low), load_part(high));
    store_part(rest_tail, rests);
    store_part(residuals_tail, _mm512_sub_epi8(exponents, base));
}

#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
pub(super) fn join(rest: &[u8], residuals: &[u8], base: u8, values: &mut [u8]) {
    let base = _mm512_set1_epi8(base.cast_signed());
    let (steps, tail) = values.as_chunks_mut::<128>();
    let (rests, rest_tail) = rest.split_at(64 * steps.len());
    let (full, residuals_tail) = residuals.split_at(64 * steps.len());
    for ((values, rest), residuals) in steps.iter_mut().zip(rests.as_chunks().0).zip(full.as_chunks().0) {
        let (first, second) = join_64(load(rest), _mm512_add_epi8(load(residuals), base));
        let [low, high] = values.as_chunks_mut().0 else { unreachable!("128 bytes are twice 64") };
        store(low, first);
        store(high, second);
    }
    let (first, second) = join_64(load_part(rest_tail), _mm512_add_epi8(load_part(residuals_tail), base));
    let (low, high) = tail.split_at_mut(tail.len().min(64));
    store_part(low, first);
    store_part(high, second);
}

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
    fields::group_sums_32(tail, last);
}

/// The mantissa of a value, and the sign above it.
#[inline]
#[target_feature(enable = "avx512bw")]
fn rests_of(values: __m512i) -> __m512i {
    let signs = _mm512_srli_epi32::<8>(values);
    let low = select(_mm512_set1_epi32(0x7f_ffff), values, signs);
    _mm512_and_si512(low, _mm512_set1_epi32(0xff_ffff))
}

#[target_feature(enable = "avx512bw,popcnt")]
pub(super) fn plane_stats(values: &[u8]) -> PlaneStats {
    let (blocks, tail) = values.as_chunks::<64>();
    let (mut any, mut all) = (_mm512_setzero_si512(), _mm512_set1_epi32(-1));
    let mut stats = fields::plane_stats(tail);
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
    fields::split_32(tail, base, [first_tail, second_tail, third_tail], residuals_tail);
}

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
    fields::join_32([first_tail, second_tail, third_tail], residuals_tail, base, tail);
}

#[target_feature(enable = "avx512bw")]
pub(super) fn add_plane(number: usize, plane: &[u8], values: &mut [u8]) {
    fields::add_plane(number, plane, values);
}

#[target_feature(enable = "avx512bw")]
pub(super) fn upper_halves(values: &[u8], upper: &mut [u8]) {
    let (blocks, tail) = values.as_chunks::<128>();
    let (out, out_tail) = upper.split_at_mut(64 * blocks.len());
    let odd = _mm512_cvtepu8_epi16(_mm512_castsi512_si256(load(&ODD)));
    for (block, out) in blocks.iter().zip(out.as_chunks_mut().0) {
        let [first, second] = block.as_chunks().0 else { unreachable!("128 bytes are twice 64") };
        prefetch(first, 4 * TILE);
        prefetch(second, 4 * TILE);
        store(out, _mm512_permutex2var_epi16(load(first), odd, load(second)));
    }
    fields::upper_halves(tail, out_tail);
}

#[target_feature(enable = "avx512bw")]
pub(super) fn lower_halves(values: &[u8], lower: &mut [u8]) -> bool {
    let (blocks, tail) = values.as_chunks::<128>();
    let (out, out_tail) = lower.split_at_mut(64 * blocks.len());
    let even = _mm512_cvtepu8_epi16(_mm512_castsi512_si256(load(&EVEN)));
    let mut any = _mm512_setzero_si512();
    for (block, out) in blocks.iter().zip(out.as_chunks_mut().0) {
        let [first, second] = block.as_chunks().0 else { unreachable!("128 bytes are twice 64") };
        let halves = _mm512_permutex2var_epi16(load(first), even, load(second));
        any = _mm512_or_si512(any, halves);
        store(out, halves);
    }
    fields::lower_halves(tail, out_tail) || _mm512_test_epi64_mask(any, any) != 0
}

#[target_feature(enable = "avx512bw")]
pub(super) fn join_halves(upper: &[u8], lower: &[u8], values: &mut [u8]) {
    let (blocks, tail) = values.as_chunks_mut::<128>();
    let (uppers, upper_tail) = upper.split_at(64 * blocks.len());
    let (lowers, lower_tail) = lower.split_at(64 * blocks.len());
    let halves = uppers.as_chunks().0.iter().zip(lowers.as_chunks().0);
    for (block, (upper, lower)) in blocks.iter_mut().zip(halves) {
        prefetch(lower, 2 * TILE);
        let (upper, lower) = (load(upper), load(lower));
        // Each quarter of the two has four values, those of the first one before those of the second.
        let (low, high) = (_mm512_unpacklo_epi16(lower, upper), _mm512_unpackhi_epi16(lower, upper));
        let [first, second] = block.as_chunks_mut().0 else { unreachable!("128 bytes are twice 64") };
        let order = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
        store(first, _mm512_permutex2var_epi64(low, order, high));
        let order = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
        store(second, _mm512_permutex2var_epi64(low, order, high));
    }
    fields::join_halves(upper_tail, lower_tail, tail);
}
