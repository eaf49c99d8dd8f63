//! BF16 values taken apart and put together, and sums over groups of them.

use std::arch::x86_64::*;

use super::vector::{AHEAD, join_64, load, load_part, prefetch, prefetch_far, split_64, store, store_part};
use crate::kernel::{BASE_GROUP, GroupSums, TILE, fields};

/// See [`crate::kernel::Kernel::group_sums`].
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

/// See [`crate::kernel::Kernel::split`].
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

/// See [`crate::kernel::Kernel::join`].
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
