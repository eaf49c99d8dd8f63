//! Zeros out of a tile and back: a vector of values at a time, compressed and expanded.

use std::arch::x86_64::*;

use super::vector::{load, load_part, store, store_part};

/// The three functions for values of `$width` bytes, with a bit for each value of a vector in `$marks`.
macro_rules! masks {
    ($zeros:ident, $drop_zeros:ident, $restore_zeros:ident, $width:literal, $marks:ty,
     $testn:ident, $test:ident, $compress:ident, $expand:ident) => {
        /// See [`crate::kernel::Kernel`].
        #[target_feature(enable = "avx512bw,popcnt")]
        pub(super) fn $zeros(values: &[u8]) -> usize {
            let (blocks, tail) = values.as_chunks::<64>();
            let zeros = |values| $testn(values, values).count_ones() as usize;
            // The tail is filled up with zeros.
            let tail = zeros(load_part(tail)) - (64 - tail.len()) / $width;
            blocks.iter().map(|block| zeros(load(block))).sum::<usize>() + tail
        }

        /// See [`crate::kernel::Kernel`].
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

        /// See [`crate::kernel::Kernel`].
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
