//! Bits of bytes in planes: the highest bits of all bytes of a vector are one instruction away from a word.

use std::arch::x86_64::*;

use super::vector::{bits, load, store};
use crate::kernel::WORD_VALUES;
use crate::kernel::bits as portable;

/// See [`crate::kernel::Kernel::pack_bits`].
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn pack_bits(bytes: &[u8], planes: usize, out: &mut [u8]) {
    let (steps, tail) = bytes.as_chunks::<WORD_VALUES>();
    let (whole, end) = out.split_at_mut(8 * planes * steps.len());
    for (bytes, out) in steps.iter().zip(whole.chunks_mut(8 * planes)) {
        let [first, second] = bytes.as_chunks().0 else { unreachable!("64 bytes are twice 32") };
        let (first, second) = (load(first), load(second));
        for (plane, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            // What is shifted from byte to byte does not reach the highest bits.
            let shift = _mm_cvtsi32_si128(7 - plane as i32);
            let words = [first, second].map(|bytes| u64::from(bits(_mm256_sll_epi16(bytes, shift))));
            *out = (words[0] | words[1] << 32).to_le_bytes();
        }
    }
    portable::pack_bits(tail, planes, end);
}

/// See [`crate::kernel::Kernel::unpack_bits`].
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn unpack_bits(bits: &[u8], planes: usize, out: &mut [u8]) {
    let (steps, tail) = out.as_chunks_mut::<WORD_VALUES>();
    // The byte of each of 32 bits, and where it is there.
    let byte_of = _mm256_setr_epi8(
        0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3,
    );
    let bit_of = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64.cast_signed());
    let from = bits.split_at(8 * planes * steps.len());
    for (out, bits) in steps.iter_mut().zip(from.0.chunks(8 * planes)) {
        let mut halves = [_mm256_setzero_si256(); 2];
        for (plane, word) in bits.as_chunks::<8>().0.iter().enumerate() {
            let word = u64::from_le_bytes(*word);
            for (half, bits) in halves.iter_mut().zip([word as u32, (word >> 32) as u32]) {
                let bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(bits.cast_signed()), byte_of);
                let set = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit_of), bit_of);
                *half = _mm256_or_si256(*half, _mm256_and_si256(set, _mm256_set1_epi8(1 << plane)));
            }
        }
        for (half, out) in halves.iter().zip(out.as_chunks_mut().0) {
            store(out, *half);
        }
    }
    portable::unpack_bits(from.1, planes, tail);
}
