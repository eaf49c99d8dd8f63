//! AVX-512 with bytes that are permuted, compressed and expanded (VBMI, VBMI2), on top of AVX2.

mod bits;
mod changes;
mod codes;
mod copy;
mod counts;
mod delta;
mod fields;
mod four;
mod halves;
mod histogram;
mod mask;
mod pack;
mod pass;
mod rans;
mod sums;
mod tier;
mod unpack;
mod vector;
mod words;
mod writer;

use super::avx2::{self, AVX2};
use crate::kernel::joint::Window;
use crate::kernel::short::MantissaBits;
use crate::kernel::{GroupSums, Kernel, SimdLevel, signature};

/// The kernel, if the processor can run it.
pub(crate) fn kernel() -> Option<&'static Kernel> {
    let available = avx2::kernel().is_some()
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512vbmi")
        && is_x86_feature_detected!("avx512vbmi2");
    available.then_some(&AVX512)
}

static AVX512: Kernel = level! {
    Avx512, else AVX2 {
        sums: checksum;
        histogram: histogram, byte_counts;
        four: fours;
        counts: window_bounds;
        pack: pack;
        unpack: unpack;
        mask: zeros, drop_zeros, restore_zeros, zeros_32, drop_zeros_32, restore_zeros_32;
        halves: upper_halves, lower_halves, join_halves;
        fields: group_sums, split, join;
        words: group_sums_32, plane_stats, split_32, join_32, add_plane;
        bits: pack_bits, unpack_bits;
        tier: pack_tier, unpack_tier, split_tier;
        pass: split_pass, join_pass;
        rans: encode_rans, decode_rans;
        copy: copy_sum, copy_past;
        changes: changes, gather, scatter;
        delta: delta_split, delta_join;
        codes: pack_codes, unpack_codes;
    }
    compiled for "avx512bw,avx512vl" {
        columns: add_row, sum_offsets;
    }
    compiled for "avx512bw,avx512vl,avx512vbmi" {
        short: group_sums_8, group_sums_16, split_8, join_8, split_16, join_16;
        joint: merge, unmerge;
    }
    compiled for "avx512bw,avx512vl,avx512vbmi,avx512vbmi2" {
        planes: split_bytes_2, join_bytes_2, split_bytes_4, join_bytes_4;
    }
};
