//! AVX2, and the bit instructions that all processors with AVX2 have.

mod bits;
pub mod fields;
mod rans;
pub mod sums;
mod tier;
pub mod vector;

use crate::kernel::fields::{MantissaBits, PLANES, PlaneStats};
use crate::kernel::four::ShortWords;
use crate::kernel::joint::Window;
use crate::kernel::{GroupSums, Kernel, PORTABLE, SimdLevel, signature};

/// One pass over values: a group at a time, which stays in the fastest cache from one step to the next.
mod pass {
    use super::{fields, sums, tier};

    crate::kernel::pass::passes!(sums by group: true, compiled for "avx2,bmi1,bmi2,popcnt");
}

/// The kernel, if the processor can run it.
pub(crate) fn kernel() -> Option<&'static Kernel> {
    let available = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("popcnt");
    available.then_some(&AVX2)
}

/// The table, from which levels above take what they have nothing better for. Not in it are counters in memory, which are as fast as
/// the processor can increment them, and loops over whole values of 32 bits, which compilers turn into vector code anyway.
pub(super) static AVX2: Kernel = level! {
    Avx2, else PORTABLE {
        sums: checksum, copy_sum, copy_past, fence;
        fields: group_sums, split, join;
        bits: pack_bits, unpack_bits, zeros, drop_zeros, restore_zeros;
        tier: pack_tier, unpack_tier, split_tier;
        pass: split_pass, join_pass;
        rans: encode_rans, decode_rans;
    }
    compiled for "avx2,bmi1,bmi2,popcnt" {
        four: fours;
        fields: split_bytes_2, join_bytes_2, split_bytes_4, join_bytes_4, group_sums_32, plane_stats, split_32, join_32,
            add_plane, group_sums_8, group_sums_16, split_8, join_8, split_16, join_16, add_row, sum_offsets;
        joint: merge, unmerge;
    }
};
