//! Exponents counted around a window: ten comparisons with 32 values each, instead of 32 counters in memory.

use std::arch::x86_64::*;

use super::vector::{exponents, load, prefetch, sum_epi64};
use crate::kernel::TILE;
use crate::kernel::window_bounds::{COUNTS, WindowBounds, neighbours};
use crate::scale::WINDOW;

/// Pairs of vectors that can be counted in bytes.
const BATCH_PAIRS: usize = 128;

/// See [`crate::kernel::Kernel::window_bounds`].
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn window_bounds(values: &[u8], start: u8) -> Option<WindowBounds> {
    let (blocks, tail) = values.as_chunks::<64>();
    let mut sums = [0; COUNTS];
    for blocks in blocks.chunks(BATCH_PAIRS) {
        add_blocks(blocks, start, &mut sums);
    }
    if !tail.is_empty() {
        // Filled up with an exponent in the middle of the window, which is in none of the counts.
        let mut padded = [0; 64];
        padded.as_chunks_mut().0.fill((u16::from(start + WINDOW as u8 / 2) << 7).to_le_bytes());
        padded[..tail.len()].copy_from_slice(tail);
        add_blocks(&[padded], start, &mut sums);
    }
    Some(WindowBounds::of_counts(start, values.len() / 2, sums))
}

/// Adds the counts of at most [`BATCH_PAIRS`] blocks.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn add_blocks(blocks: &[[u8; 64]], start: u8, sums: &mut [u32; COUNTS]) {
    // Comparisons are of signed numbers.
    let biased = |exponent: u8| _mm256_set1_epi8((exponent ^ 0x80).cast_signed());
    let zero = biased(0);
    let (first, last) = (biased(start), biased(start + (WINDOW - 1) as u8));
    let around = neighbours(start).map(biased);
    // A comparison that holds is -1.
    let mut counts = [_mm256_setzero_si256(); COUNTS];
    for block in blocks {
        prefetch(block, 2 * TILE);
        let [low, high] = block.as_chunks().0 else { unreachable!("64 bytes are twice 32") };
        let exponents = _mm256_xor_si256(exponents(load(low), load(high)), zero);
        counts[0] = _mm256_sub_epi8(counts[0], _mm256_cmpeq_epi8(exponents, zero));
        counts[1] = _mm256_sub_epi8(counts[1], _mm256_cmpgt_epi8(first, exponents));
        counts[2] = _mm256_sub_epi8(counts[2], _mm256_cmpgt_epi8(exponents, last));
        for (count, exponent) in counts[3..].iter_mut().zip(around) {
            *count = _mm256_sub_epi8(*count, _mm256_cmpeq_epi8(exponents, exponent));
        }
    }
    for (sum, count) in sums.iter_mut().zip(counts) {
        *sum += sum_epi64(_mm256_sad_epu8(count, _mm256_setzero_si256())) as u32;
    }
}
