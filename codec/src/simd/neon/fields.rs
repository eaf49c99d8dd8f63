//! BF16 values taken apart and put together, and sums over groups of them.

use std::arch::aarch64::*;

use super::vector::{exponents, join_16, load, load_values, rests, store, store_values};
use crate::kernel::{BASE_GROUP, GroupSums, fields};

#[target_feature(enable = "neon")]
pub(super) fn group_sums(values: &[u8], sums: &mut [GroupSums]) {
    let (groups, tail) = values.as_chunks::<{ 2 * BASE_GROUP }>();
    let (full, last) = sums.split_at_mut(groups.len());
    for (group, sums) in groups.iter().zip(full) {
        // At most 16 times 2 * 255 in each of eight counters, and 16 in each of 16.
        let (mut exponent_sum, mut zeros) = (vdupq_n_u16(0), vdupq_n_u8(0));
        for values in group.as_chunks().0 {
            let values = load_values(values);
            exponent_sum = vpadalq_u8(exponent_sum, exponents(values));
            // A comparison that holds is -1.
            zeros = vsubq_u8(zeros, vceqzq_u8(vorrq_u8(values.0, values.1)));
        }
        *sums = GroupSums { exponents: vaddlvq_u16(exponent_sum), zeros: u32::from(vaddlvq_u8(zeros)) };
    }
    fields::group_sums(tail, last);
}

#[target_feature(enable = "neon")]
pub(super) fn split(values: &[u8], base: u8, rest: &mut [u8], residuals: &mut [u8]) {
    let (blocks, tail) = values.as_chunks::<64>();
    let (rests_out, rest_tail) = rest.split_at_mut(32 * blocks.len());
    let (full, residuals_tail) = residuals.split_at_mut(32 * blocks.len());
    let bases = vdupq_n_u8(base);
    let outs = rests_out.as_chunks_mut::<32>().0.iter_mut().zip(full.as_chunks_mut::<32>().0);
    for (block, (rest, residuals)) in blocks.iter().zip(outs) {
        for half in 0..2 {
            let values = load_values(&block.as_chunks().0[half]);
            store(&mut rest.as_chunks_mut().0[half], rests(values));
            store(&mut residuals.as_chunks_mut().0[half], vsubq_u8(exponents(values), bases));
        }
    }
    fields::split(tail, base, rest_tail, residuals_tail);
}

#[target_feature(enable = "neon")]
pub(super) fn join(rest: &[u8], residuals: &[u8], base: u8, values: &mut [u8]) {
    let (blocks, tail) = values.as_chunks_mut::<64>();
    let (rests, rest_tail) = rest.split_at(32 * blocks.len());
    let (full, residuals_tail) = residuals.split_at(32 * blocks.len());
    let bases = vdupq_n_u8(base);
    let parts = rests.as_chunks::<32>().0.iter().zip(full.as_chunks::<32>().0);
    for (block, (rest, residuals)) in blocks.iter_mut().zip(parts) {
        for half in 0..2 {
            let exponents = vaddq_u8(load(&residuals.as_chunks().0[half]), bases);
            let rests = load(&rest.as_chunks().0[half]);
            store_values(&mut block.as_chunks_mut().0[half], join_16(rests, exponents));
        }
    }
    fields::join(rest_tail, residuals_tail, base, tail);
}
