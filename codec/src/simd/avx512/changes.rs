//! Values that differ from a base, a mask of them at a time.

use std::arch::x86_64::*;

use super::vector::{load, load_part, store};
use crate::kernel::changes;

/// Bytes of a vector.
const VECTOR: usize = 64;

/// See [`crate::kernel::Kernel::changes`].
#[target_feature(enable = "avx512bw,popcnt")]
pub(super) fn changes(width: usize, values: &[u8], base: &[u8], mask: &mut [u8]) -> usize {
    let (vectors, values_left) = values.as_chunks::<VECTOR>();
    let (bases, base_left) = base.as_chunks::<VECTOR>();
    // A bit for each value.
    let bytes = VECTOR / width / 8;
    let (masks, mask_left) = mask.split_at_mut(bytes * vectors.len());
    let mut count = 0;
    for ((values, base), mask) in vectors.iter().zip(bases).zip(masks.chunks_exact_mut(bytes)) {
        let (values, base) = (load(values), load(base));
        let bits = match width {
            1 => _mm512_cmpneq_epi8_mask(values, base),
            2 => _mm512_cmpneq_epi16_mask(values, base).into(),
            _ => _mm512_cmpneq_epi32_mask(values, base).into(),
        };
        mask.copy_from_slice(&bits.to_le_bytes()[..bytes]);
        count += bits.count_ones() as usize;
    }
    count + changes::changes(width, values_left, base_left, mask_left)
}

/// The bits of a vector's values; none behind the end.
#[inline]
fn bits_of(mask: &[u8]) -> u64 {
    // Whole words, as copies of unknown length take most of the time.
    match *mask {
        [a, b] => u16::from_le_bytes([a, b]).into(),
        [a, b, c, d] => u32::from_le_bytes([a, b, c, d]).into(),
        [a, b, c, d, e, f, g, h] => u64::from_le_bytes([a, b, c, d, e, f, g, h]),
        _ => mask.iter().rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte)),
    }
}

/// See [`crate::kernel::Kernel::gather`].
#[target_feature(enable = "avx512bw,avx512vbmi2,popcnt")]
pub(super) fn gather(width: usize, mask: &[u8], from: &[u8], to: &mut [u8]) {
    let mut end = 0;
    for (from, mask) in from.chunks(VECTOR).zip(mask.chunks(VECTOR / width / 8)) {
        let bits = bits_of(mask);
        let values = load_part(from);
        let kept = match width {
            1 => _mm512_maskz_compress_epi8(bits, values),
            2 => _mm512_maskz_compress_epi16(bits as u32, values),
            _ => _mm512_maskz_compress_epi32(bits as u16, values),
        };
        store(to[end..].first_chunk_mut().expect("a vector fits behind the list"), kept);
        end += width * bits.count_ones() as usize;
    }
}

/// See [`crate::kernel::Kernel::scatter`].
#[target_feature(enable = "avx512bw,avx512vbmi2,popcnt")]
pub(super) fn scatter(width: usize, mask: &[u8], mut from: &[u8], to: &mut [u8]) {
    for (to, mask) in to.chunks_mut(VECTOR).zip(mask.chunks(VECTOR / width / 8)) {
        let bits = bits_of(mask);
        let (next, before) = (load_part(&from[..from.len().min(VECTOR)]), load_part(to));
        let values = match width {
            1 => _mm512_mask_expand_epi8(before, bits, next),
            2 => _mm512_mask_expand_epi16(before, bits as u32, next),
            _ => _mm512_mask_expand_epi32(before, bits as u16, next),
        };
        super::vector::store_part(to, values);
        from = &from[width * bits.count_ones() as usize..];
    }
}
