//! Zeros out of a tile and back: eight values at a time, by a table of shuffles for each pattern of zeros.

use std::arch::aarch64::*;

use super::super::shuffles::{VALUES_APART, VALUES_TOGETHER};
use super::vector::{load, load_values, store, word};
use crate::kernel::bits;

#[target_feature(enable = "neon")]
pub(super) fn zeros(values: &[u8]) -> usize {
    let (vectors, tail) = values.as_chunks::<32>();
    let mut sum = 0;
    for vectors in vectors.chunks(255) {
        let mut counts = vdupq_n_u8(0);
        for values in vectors {
            let values = load_values(values);
            // A comparison that holds is -1.
            counts = vsubq_u8(counts, vceqzq_u8(vorrq_u8(values.0, values.1)));
        }
        sum += usize::from(vaddlvq_u8(counts));
    }
    sum + bits::zeros::<2>(tail)
}

#[target_feature(enable = "neon")]
pub(super) fn drop_zeros(values: &[u8], mask: &mut [u8], kept: &mut [u8]) -> usize {
    let (blocks, tail) = values.as_chunks::<128>();
    let (masks, mask_tail) = mask.split_at_mut(8 * blocks.len());
    let mut count = 0;
    for (block, mask) in blocks.iter().zip(masks.as_chunks_mut::<8>().0) {
        *mask = nonzero(block);
        for (values, mask) in block.as_chunks().0.iter().zip(mask) {
            // Never more than have been read: there is room for eight.
            let kept = kept[2 * count..].first_chunk_mut().expect("`kept` has room for all values");
            store(kept, vqtbl1q_u8(load(values), load(&VALUES_TOGETHER[usize::from(*mask)])));
            count += mask.count_ones() as usize;
        }
    }
    count + bits::drop_zeros::<2>(tail, mask_tail, &mut kept[2 * count..])
}

#[target_feature(enable = "neon")]
pub(super) fn restore_zeros(mask: &[u8], kept: &[u8], out: &mut [u8]) {
    let mut left = kept;
    let mut done = 0;
    for (mask, out) in mask.iter().zip(out.as_chunks_mut().0) {
        // The last values are fewer than a vector.
        let Some(values) = left.first_chunk() else { break };
        store(out, vqtbl1q_u8(load(values), load(&VALUES_APART[usize::from(*mask)])));
        left = &left[2 * mask.count_ones() as usize..];
        done += 1;
    }
    bits::restore_zeros::<2>(&mask[done..], left, &mut out[16 * done..]);
}

/// A bit for each of 64 values that is not +0.
#[inline]
#[target_feature(enable = "neon")]
fn nonzero(values: &[u8; 128]) -> [u8; 8] {
    let select = vreinterpretq_u8_u64(vdupq_n_u64(0x8040_2010_0804_0201));
    let [a, b, c, d] = values.as_chunks().0 else { unreachable!("128 bytes are four times 32") };
    let [a, b, c, d] = [a, b, c, d].map(|values| {
        let values = load_values(values);
        let any = vorrq_u8(values.0, values.1);
        vandq_u8(vtstq_u8(any, any), select)
    });
    let all = vpaddq_u8(vpaddq_u8(a, b), vpaddq_u8(c, d));
    word(vget_low_u8(vpaddq_u8(all, all))).to_le_bytes()
}
