//! NEON, which all processors with AArch64 have that run an operating system.

mod fields;
mod mask;
mod rans;
pub mod sums;
mod tier;
pub mod vector;

use crate::kernel::{Kernel, PORTABLE, SimdLevel, signature};

/// One pass over values: a group at a time, which stays in the fastest cache from one step to the next.
mod pass {
    use super::{fields, sums, tier};

    crate::kernel::pass::passes!(sums by group: false, compiled for "neon");
}

/// The kernel, if the processor can run it. Compilers know that it can where the target has NEON anyway.
pub(crate) fn kernel() -> Option<&'static Kernel> {
    std::arch::is_aarch64_feature_detected!("neon").then_some(&NEON)
}

/// The table. Functions that are not named here are the portable ones, which are compiled with NEON as well.
static NEON: Kernel = level! {
    Neon, else PORTABLE {
        sums: checksum, copy_sum;
        mask: zeros, drop_zeros, restore_zeros;
        fields: group_sums, split, join;
        tier: pack_tier, unpack_tier, split_tier;
        pass: split_pass, join_pass;
        rans: encode_rans, decode_rans;
    }
};
