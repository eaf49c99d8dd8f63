//! Bits of bytes in planes: a mask is a word of them.

use std::arch::x86_64::*;

use super::vector::{load, load_part, store, store_part};
use crate::kernel::WORD_VALUES;

/// See [`crate::kernel::Kernel::pack_bits`].
#[target_feature(enable = "avx512bw")]
pub(super) fn pack_bits(bytes: &[u8], planes: usize, out: &mut [u8]) {
    for (bytes, out) in bytes.chunks(WORD_VALUES).zip(out.chunks_mut(8 * planes)) {
        let bytes = match bytes.first_chunk() {
            Some(bytes) => load(bytes),
            None => load_part(bytes),
        };
        for (plane, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            *out = _mm512_test_epi8_mask(bytes, _mm512_set1_epi8((1u8 << plane).cast_signed())).to_le_bytes();
        }
    }
}

/// See [`crate::kernel::Kernel::unpack_bits`].
#[target_feature(enable = "avx512bw")]
pub(super) fn unpack_bits(bits: &[u8], planes: usize, out: &mut [u8]) {
    for (out, bits) in out.chunks_mut(WORD_VALUES).zip(bits.chunks(8 * planes)) {
        let mut bytes = _mm512_setzero_si512();
        for (plane, bits) in bits.as_chunks::<8>().0.iter().enumerate() {
            let bit = _mm512_set1_epi8((1u8 << plane).cast_signed());
            bytes = _mm512_mask_add_epi8(bytes, u64::from_le_bytes(*bits), bytes, bit);
        }
        match out.first_chunk_mut() {
            Some(out) => store(out, bytes),
            None => store_part(out, bytes),
        }
    }
}
