//! BF16 values taken apart and put together, and sums over groups of them.

use std::arch::x86_64::*;

use super::vector::{AHEAD, exponents, load, prefetch, prefetch_far, store, sum_epi64, swap_middle};
use crate::kernel::{BASE_GROUP, GroupSums, TILE, fields};

#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn group_sums(values: &[u8], sums: &mut [GroupSums]) {
    let (groups, tail) = values.as_chunks::<{ 2 * BASE_GROUP }>();
    let (full, last) = sums.split_at_mut(groups.len());
    for (group, sums) in groups.iter().zip(full) {
        let zero = _mm256_setzero_si256();
        let (mut exponent_sum, mut zeros) = (zero, zero);
        for block in group.as_chunks::<64>().0 {
            prefetch_far(block, AHEAD);
            let [low, high] = block.as_chunks().0 else { unreachable!("64 bytes are twice 32") };
            let (low, high) = (load(low), load(high));
            exponent_sum = _mm256_add_epi64(exponent_sum, _mm256_sad_epu8(exponents(low, high), zero));
            // A comparison that holds is -1.
            let found = _mm256_add_epi16(_mm256_cmpeq_epi16(low, zero), _mm256_cmpeq_epi16(high, zero));
            zeros = _mm256_sub_epi16(zeros, found);
        }
        // At most 16 in each of 16 counters.
        let zeros = sum_epi64(_mm256_sad_epu8(zeros, zero));
        *sums = GroupSums { exponents: sum_epi64(exponent_sum) as u32, zeros: zeros as u32 };
    }
    fields::group_sums(tail, last);
}

#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn split(values: &[u8], base: u8, rest: &mut [u8], residuals: &mut [u8]) {
    let (blocks, tail) = values.as_chunks::<64>();
    let (rests, rest_tail) = rest.split_at_mut(32 * blocks.len());
    let (full, residuals_tail) = residuals.split_at_mut(32 * blocks.len());
    let mask = _mm256_set1_epi16(0x807f_u16.cast_signed());
    let base_8 = _mm256_set1_epi8(base.cast_signed());
    // The sign is the highest bit of the upper byte, the mantissa all others of the lower one; their sum has no carry.
    let rest_of = |values| _mm256_maddubs_epi16(_mm256_and_si256(values, mask), _mm256_set1_epi8(1));
    for ((block, rest), residuals) in blocks.iter().zip(rests.as_chunks_mut().0).zip(full.as_chunks_mut().0) {
        prefetch_far(block, 1 << 16);
        prefetch(rest, TILE);
        let [low, high] = block.as_chunks().0 else { unreachable!("64 bytes are twice 32") };
        let (low, high) = (load(low), load(high));
        store(rest, swap_middle(_mm256_packus_epi16(rest_of(low), rest_of(high))));
        store(residuals, _mm256_sub_epi8(swap_middle(exponents(low, high)), base_8));
    }
    fields::split(tail, base, rest_tail, residuals_tail);
}

#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn join(rest: &[u8], residuals: &[u8], base: u8, values: &mut [u8]) {
    let (blocks, tail) = values.as_chunks_mut::<64>();
    let (rests, rest_tail) = rest.split_at(32 * blocks.len());
    let (full, residuals_tail) = residuals.split_at(32 * blocks.len());
    for ((block, rest), residuals) in blocks.iter_mut().zip(rests.as_chunks().0).zip(full.as_chunks().0) {
        prefetch(rest, 2 * TILE);
        prefetch(block, 2 * TILE);
        join_32(load(rest), load(residuals), base, block);
    }
    fields::join(rest_tail, residuals_tail, base, tail);
}

/// Writes 32 values.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub fn join_32(rest: __m256i, residuals: __m256i, base: u8, values: &mut [u8; 64]) {
    let rest = swap_middle(rest);
    let exponents = swap_middle(_mm256_add_epi8(residuals, _mm256_set1_epi8(base.cast_signed())));
    // Mantissa and exponent are next to each other once the sign has been shifted out; then they move down to make room
    // for it at the other end.
    let mantissa = _mm256_add_epi8(rest, rest);
    let sign = _mm256_and_si256(rest, _mm256_set1_epi8(0x80u8.cast_signed()));
    let zero = _mm256_setzero_si256();
    let low = _mm256_srli_epi16::<1>(_mm256_unpacklo_epi8(mantissa, exponents));
    let high = _mm256_srli_epi16::<1>(_mm256_unpackhi_epi8(mantissa, exponents));
    let [first, second] = values.as_chunks_mut().0 else { unreachable!("64 bytes are twice 32") };
    store(first, _mm256_or_si256(low, _mm256_unpacklo_epi8(zero, sign)));
    store(second, _mm256_or_si256(high, _mm256_unpackhi_epi8(zero, sign)));
}
