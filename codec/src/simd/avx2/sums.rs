//! The checksum, four words at a time.

use std::arch::x86_64::*;

use super::vector::{load, sum_epi64};
use crate::checksum::{FOLD, KEY_STEP, WORD, fold, key};
use crate::kernel::sums;

/// Vectors that are mixed side by side, so that none waits for the multiplication of another.
const VECTORS: usize = 2;

/// See [`crate::kernel::Kernel::checksum`].
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn checksum(bytes: &[u8], index: u64) -> u32 {
    fold(mixed(bytes, index))
}

/// The sum of words before it is folded.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn mixed(bytes: &[u8], index: u64) -> u64 {
    let (blocks, tail) = bytes.as_chunks::<{ 32 * VECTORS }>();
    let key_of = |index: u64| _mm256_set1_epi64x(key(index).cast_signed());
    let step = |words: u64| KEY_STEP.wrapping_mul(words).cast_signed();
    let numbers = _mm256_setr_epi64x(0, step(1), step(2), step(3));
    let mut keys = [0, 4].map(|words| _mm256_add_epi64(key_of(index.wrapping_add(words)), numbers));
    let next = _mm256_set1_epi64x(step(4 * VECTORS as u64));
    let mut sums = [_mm256_setzero_si256(); VECTORS];
    for block in blocks {
        for ((vector, key), sum) in block.as_chunks::<32>().0.iter().zip(&mut keys).zip(&mut sums) {
            let x = _mm256_xor_si256(load(vector), *key);
            let product = _mm256_mul_epu32(x, _mm256_srli_epi64::<32>(x));
            let product = _mm256_add_epi64(product, x);
            let folded = _mm256_xor_si256(product, _mm256_srli_epi64::<{ FOLD as i32 }>(product));
            *sum = _mm256_add_epi64(*sum, folded);
            *key = _mm256_add_epi64(*key, next);
        }
    }
    let sum = sum_epi64(_mm256_add_epi64(sums[0], sums[1]));
    let words = (bytes.len() - tail.len()) / WORD;
    sum.wrapping_add(sums::mixed(tail, index.wrapping_add(words as u64)))
}
