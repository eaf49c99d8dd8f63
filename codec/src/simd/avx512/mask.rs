//! Zeros out of a tile and back: 32 values at a time, compressed and expanded.

use std::arch::x86_64::*;

use super::vector::{load, load_part, store, store_part};

/// See [`crate::kernel::Kernel::zeros`].
#[target_feature(enable = "avx512bw,popcnt")]
pub(super) fn zeros(values: &[u8]) -> usize {
    let (blocks, tail) = values.as_chunks::<64>();
    let zeros = |values| _mm512_testn_epi16_mask(values, values).count_ones() as usize;
    // The tail is filled up with zeros.
    let tail = zeros(load_part(tail)) - (64 - tail.len()) / 2;
    blocks.iter().map(|block| zeros(load(block))).sum::<usize>() + tail
}

/// See [`crate::kernel::Kernel::drop_zeros`].
#[target_feature(enable = "avx512bw,avx512vbmi2,popcnt")]
pub(super) fn drop_zeros(values: &[u8], mask: &mut [u8], kept: &mut [u8]) -> usize {
    let (blocks, tail) = values.as_chunks::<64>();
    let (masks, mask_tail) = mask.split_at_mut(4 * blocks.len());
    let mut count = 0;
    let mut step = |values, mask: &mut [u8]| {
        let marks = _mm512_test_epi16_mask(values, values);
        mask.copy_from_slice(&marks.to_le_bytes()[..mask.len()]);
        let left = _mm512_maskz_compress_epi16(marks, values);
        let out = &mut kept[2 * count..];
        match out.first_chunk_mut() {
            Some(out) => store(out, left),
            None => store_part(out, left),
        }
        count += marks.count_ones() as usize;
    };
    for (block, mask) in blocks.iter().zip(masks.chunks_exact_mut(4)) {
        step(load(block), mask);
    }
    step(load_part(tail), mask_tail);
    count
}

/// See [`crate::kernel::Kernel::restore_zeros`].
#[target_feature(enable = "avx512bw,avx512vbmi2,popcnt")]
pub(super) fn restore_zeros(mask: &[u8], kept: &[u8], out: &mut [u8]) {
    let (blocks, tail) = out.as_chunks_mut::<64>();
    let (masks, mask_tail) = mask.split_at(4 * blocks.len());
    let mut left = kept;
    let mut step = |marks: u32| {
        let values = match left.first_chunk() {
            Some(values) => load(values),
            None => load_part(left),
        };
        left = left.get(2 * marks.count_ones() as usize..).unwrap_or(&[]);
        _mm512_maskz_expand_epi16(marks, values)
    };
    for (block, mask) in blocks.iter_mut().zip(masks.as_chunks().0) {
        store(block, step(u32::from_le_bytes(*mask)));
    }
    let marks = mask_tail.iter().rev().fold(0, |marks, byte| marks << 8 | u32::from(*byte));
    store_part(tail, step(marks));
}
