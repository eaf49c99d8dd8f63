//! Exponents counted by comparison with those that are common; the few others are counted one by one.

use std::arch::x86_64::*;

use super::vector::{bits, exponents, load, prefetch, sum_epi64, swap_middle};
use crate::kernel::{COMMON, TILE};

/// Blocks of 64 bytes that can be counted in bytes.
const BLOCKS: usize = 128;

/// See [`crate::kernel::Kernel::histogram_near`].
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn histogram_near(values: &[u8], common: &[u8; COMMON]) -> [u32; 256] {
    let (blocks, tail) = values.as_chunks::<64>();
    let mut counts = crate::kernel::sums::histogram(tail);
    let zero = _mm256_setzero_si256();
    let vectors = common.map(|exponent| _mm256_set1_epi8(exponent.cast_signed()));
    for blocks in blocks.chunks(BLOCKS) {
        // A comparison that holds is -1.
        let mut found = [zero; COMMON];
        for block in blocks {
            prefetch(block, 2 * TILE);
            let [low, high] = block.as_chunks().0 else { unreachable!("64 bytes are twice 32") };
            let exponents = exponents(load(low), load(high));
            let mut any = zero;
            for (found, vector) in found.iter_mut().zip(vectors) {
                let equal = _mm256_cmpeq_epi8(exponents, vector);
                *found = _mm256_sub_epi8(*found, equal);
                any = _mm256_or_si256(any, equal);
            }
            let mut rare = !bits(swap_middle(any));
            let values = block.as_chunks::<2>().0;
            while rare != 0 {
                // 32 values, and a bit for each.
                let value = u16::from_le_bytes(values[rare.trailing_zeros() as usize % 32]);
                counts[usize::from((value >> 7) as u8)] += 1;
                rare &= rare - 1;
            }
        }
        for (exponent, found) in common.iter().zip(found) {
            counts[usize::from(*exponent)] += sum_epi64(_mm256_sad_epu8(found, zero)) as u32;
        }
    }
    counts
}
