//! Values of 32 bits as halves, 32 values at a time.

use std::arch::x86_64::*;

use super::vector::{EVEN, ODD, load, prefetch, store};
use crate::kernel::{TILE, planes};

/// See [`crate::kernel::Kernel::upper_halves`].
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
    planes::upper_halves(tail, out_tail);
}

/// See [`crate::kernel::Kernel::lower_halves`].
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
    planes::lower_halves(tail, out_tail) || _mm512_test_epi64_mask(any, any) != 0
}

/// See [`crate::kernel::Kernel::join_halves`].
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
    planes::join_halves(upper_tail, lower_tail, tail);
}
