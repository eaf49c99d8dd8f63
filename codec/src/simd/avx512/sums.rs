//! The checksum, sixteen words at a time.

use std::arch::x86_64::*;

use super::vector::load;
use crate::checksum::{FACTOR, INDEX_LOW, offset};
use crate::kernel::sums;

/// Vectors that are mixed side by side, so that none waits for the multiplication of another.
const LANES: usize = 4;

/// See [`crate::kernel::Kernel::checksum`].
#[target_feature(enable = "avx512bw")]
pub(super) fn checksum(bytes: &[u8], index: u64) -> u32 {
    let (blocks, tail) = bytes.as_chunks::<{ 64 * LANES }>();
    let step = |words: u32| _mm512_set1_epi32(INDEX_LOW.wrapping_mul(words).cast_signed());
    let numbers = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    let first = _mm512_set1_epi32(offset(index).cast_signed());
    let first = _mm512_add_epi32(first, _mm512_mullo_epi32(numbers, step(1)));
    let mut shifts = [0, 16, 32, 48].map(|words| _mm512_add_epi32(first, step(words)));
    let next = step(16 * LANES as u32);
    let factor = _mm512_set1_epi32(FACTOR.cast_signed());
    let mut sums = [_mm512_setzero_si512(); LANES];
    for block in blocks {
        for ((vector, shift), sum) in block.as_chunks::<64>().0.iter().zip(&mut shifts).zip(&mut sums) {
            let x = _mm512_add_epi32(load(vector), *shift);
            let x = _mm512_mullo_epi32(_mm512_xor_si512(x, _mm512_srli_epi32::<15>(x)), factor);
            *sum = _mm512_add_epi32(*sum, _mm512_xor_si512(x, _mm512_srli_epi32::<13>(x)));
            *shift = _mm512_add_epi32(*shift, next);
        }
    }
    let [a, b, c, d] = sums;
    let sum = _mm512_reduce_add_epi32(_mm512_add_epi32(_mm512_add_epi32(a, b), _mm512_add_epi32(c, d)));
    let words = (bytes.len() - tail.len()) / 4;
    sum.cast_unsigned().wrapping_add(sums::checksum(tail, index + words as u64))
}
