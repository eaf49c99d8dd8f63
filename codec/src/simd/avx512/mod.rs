//! AVX-512 with bytes that are permuted, compressed and expanded (VBMI, VBMI2), on top of AVX2.

mod bits;
mod delta;
mod fields;
mod four;
mod pass;
mod rans;
pub mod sums;
mod tier;
pub mod vector;

use super::avx2::{self, AVX2};
use crate::kernel::fields::MantissaBits;
use crate::kernel::joint::Window;
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
        sums: checksum, copy_sum, copy_past, histogram, byte_counts;
        four: fours;
        fields: upper_halves, lower_halves, join_halves, group_sums, split, join, group_sums_32, plane_stats, split_32,
            join_32, add_plane;
        bits: pack_bits, unpack_bits, zeros, drop_zeros, restore_zeros, zeros_32, drop_zeros_32, restore_zeros_32,
            changes, gather, scatter;
        tier: pack_tier, unpack_tier, split_tier;
        pass: split_pass, join_pass;
        rans: encode_rans, decode_rans;
        delta: delta_split, delta_join;
    }
    compiled for "avx512bw,avx512vl" {
        fields: add_row, sum_offsets;
    }
    compiled for "avx512bw,avx512vl,avx512vbmi" {
        fields: group_sums_8, group_sums_16, split_8, join_8, split_16, join_16;
        joint: merge, unmerge;
    }
    compiled for "avx512bw,avx512vl,avx512vbmi,avx512vbmi2" {
        fields: split_bytes_2, join_bytes_2, split_bytes_4, join_bytes_4;
    }
};
