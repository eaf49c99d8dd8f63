//! Bits of bytes in planes: a mask is a word of them. Zeros, and values that differ from a base, taken out and put back, a mask of them at
//! a time.

use std::arch::x86_64::*;

use super::vector::{load, load_part, store, store_part};
use crate::kernel::{WORD_VALUES, bits};

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

/// The three functions for values of `$width` bytes, with a bit for each value of a vector in `$marks`.
macro_rules! masks {
    ($zeros:ident, $drop_zeros:ident, $restore_zeros:ident, $width:literal, $marks:ty,
     $testn:ident, $test:ident, $compress:ident, $expand:ident) => {
        #[target_feature(enable = "avx512bw,popcnt")]
        pub(super) fn $zeros(values: &[u8]) -> usize {
            let (blocks, tail) = values.as_chunks::<64>();
            let zeros = |values| $testn(values, values).count_ones() as usize;
            // The tail is filled up with zeros.
            let tail = zeros(load_part(tail)) - (64 - tail.len()) / $width;
            blocks.iter().map(|block| zeros(load(block))).sum::<usize>() + tail
        }

        #[target_feature(enable = "avx512bw,avx512vbmi2,popcnt")]
        pub(super) fn $drop_zeros(values: &[u8], mask: &mut [u8], kept: &mut [u8]) -> usize {
            const MASK: usize = size_of::<$marks>();
            let (blocks, tail) = values.as_chunks::<64>();
            let (masks, mask_tail) = mask.split_at_mut(MASK * blocks.len());
            let mut count = 0;
            let mut step = |values, mask: &mut [u8]| {
                let marks = $test(values, values);
                mask.copy_from_slice(&marks.to_le_bytes()[..mask.len()]);
                let left = $compress(marks, values);
                let out = &mut kept[$width * count..];
                match out.first_chunk_mut() {
                    Some(out) => store(out, left),
                    None => store_part(out, left),
                }
                count += marks.count_ones() as usize;
            };
            for (block, mask) in blocks.iter().zip(masks.chunks_exact_mut(MASK)) {
                step(load(block), mask);
            }
            step(load_part(tail), mask_tail);
            count
        }

        #[target_feature(enable = "avx512bw,avx512vbmi2,popcnt")]
        pub(super) fn $restore_zeros(mask: &[u8], kept: &[u8], out: &mut [u8]) {
            let (blocks, tail) = out.as_chunks_mut::<64>();
            let (masks, mask_tail) = mask.split_at(size_of::<$marks>() * blocks.len());
            let mut left = kept;
            let mut step = |marks: $marks| {
                let values = match left.first_chunk() {
                    Some(values) => load(values),
                    None => load_part(left),
                };
                left = left.get($width * marks.count_ones() as usize..).unwrap_or(&[]);
                $expand(marks, values)
            };
            for (block, mask) in blocks.iter_mut().zip(masks.as_chunks().0) {
                store(block, step(<$marks>::from_le_bytes(*mask)));
            }
            let marks = mask_tail.iter().rev().fold(0, |marks, byte| marks << 8 | <$marks>::from(*byte));
            store_part(tail, step(marks));
        }
    };
}

masks!(
    zeros,
    drop_zeros,
    restore_zeros,
    2,
    u32,
    _mm512_testn_epi16_mask,
    _mm512_test_epi16_mask,
    _mm512_maskz_compress_epi16,
    _mm512_maskz_expand_epi16
);
masks!(
    zeros_32,
    drop_zeros_32,
    restore_zeros_32,
    4,
    u16,
    _mm512_testn_epi32_mask,
    _mm512_test_epi32_mask,
    _mm512_maskz_compress_epi32,
    _mm512_maskz_expand_epi32
);

/// Bytes of a vector.
const VECTOR: usize = 64;

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
    count + bits::changes(width, values_left, base_left, mask_left)
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
