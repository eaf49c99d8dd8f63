//! Exponents counted around a window: comparisons with 64 values each, whose masks are counted.

use std::arch::x86_64::*;

use super::vector::{load, prefetch};
use crate::kernel::TILE;
use crate::kernel::window_bounds::{COUNTS, WindowBounds, neighbours};
use crate::scale::WINDOW;

/// See [`crate::kernel::Kernel::window_bounds`].
#[target_feature(enable = "avx512bw,popcnt")]
pub(super) fn window_bounds(values: &[u8], start: u8) -> Option<WindowBounds> {
    let (blocks, tail) = values.as_chunks::<128>();
    let mut sums = [0; COUNTS];
    blocks.iter().for_each(|block| add_block(block, start, &mut sums));
    if !tail.is_empty() {
        // Filled up with an exponent in the middle of the window, which is in none of the counts.
        let mut padded = [0; 128];
        padded.as_chunks_mut().0.fill((u16::from(start + WINDOW as u8 / 2) << 7).to_le_bytes());
        padded[..tail.len()].copy_from_slice(tail);
        add_block(&padded, start, &mut sums);
    }
    Some(WindowBounds::of_counts(start, values.len() / 2, sums))
}

/// Adds the counts of 64 values.
#[inline]
#[target_feature(enable = "avx512bw,popcnt")]
fn add_block(block: &[u8; 128], start: u8, sums: &mut [u32; COUNTS]) {
    let [low, high] = block.as_chunks().0 else { unreachable!("128 bytes are twice 64") };
    prefetch(low, 2 * TILE);
    prefetch(high, 2 * TILE);
    let exponent = |values| _mm512_srli_epi16::<8>(_mm512_add_epi16(values, values));
    // In another order, which does not matter.
    let exponents = _mm512_packus_epi16(exponent(load(low)), exponent(load(high)));
    let all = |exponent: u8| _mm512_set1_epi8(exponent.cast_signed());
    sums[0] += _mm512_testn_epi8_mask(exponents, exponents).count_ones();
    sums[1] += _mm512_cmplt_epu8_mask(exponents, all(start)).count_ones();
    sums[2] += _mm512_cmpgt_epu8_mask(exponents, all(start + (WINDOW - 1) as u8)).count_ones();
    for (sum, exponent) in sums[3..].iter_mut().zip(neighbours(start)) {
        *sum += _mm512_cmpeq_epi8_mask(exponents, all(exponent)).count_ones();
    }
}
