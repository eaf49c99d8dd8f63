//! The checksum, eight words at a time.

use std::arch::x86_64::*;

use super::vector::load;
use crate::checksum::{FACTOR, INDEX_LOW, offset};
use crate::kernel::sums;

/// See [`crate::kernel::Kernel::checksum`].
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn checksum(bytes: &[u8], index: u64) -> u32 {
    let (blocks, tail) = bytes.as_chunks::<64>();
    let step = |words: u32| _mm256_set1_epi32(INDEX_LOW.wrapping_mul(words).cast_signed());
    let lanes = _mm256_mullo_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), step(1));
    let mut shift = _mm256_add_epi32(_mm256_set1_epi32(offset(index).cast_signed()), lanes);
    let (eight, sixteen) = (step(8), step(16));
    let factor = _mm256_set1_epi32(FACTOR.cast_signed());
    let mix = |words, shift| {
        let x = _mm256_add_epi32(words, shift);
        let x = _mm256_mullo_epi32(_mm256_xor_si256(x, _mm256_srli_epi32::<15>(x)), factor);
        _mm256_xor_si256(x, _mm256_srli_epi32::<13>(x))
    };
    let mut sums = [_mm256_setzero_si256(); 2];
    for block in blocks {
        let [first, second] = block.as_chunks().0 else { unreachable!("64 bytes are twice 32") };
        sums[0] = _mm256_add_epi32(sums[0], mix(load(first), shift));
        sums[1] = _mm256_add_epi32(sums[1], mix(load(second), _mm256_add_epi32(shift, eight)));
        shift = _mm256_add_epi32(shift, sixteen);
    }
    let sum = _mm256_add_epi32(sums[0], sums[1]);
    let sum = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256::<1>(sum));
    let sum = _mm_add_epi32(sum, _mm_shuffle_epi32::<0b01_00_11_10>(sum));
    let sum = _mm_add_epi32(sum, _mm_shuffle_epi32::<0b10_11_00_01>(sum));
    let words = (bytes.len() - tail.len()) / 4;
    _mm_cvtsi128_si32(sum).cast_unsigned().wrapping_add(sums::checksum(tail, index + words as u64))
}
