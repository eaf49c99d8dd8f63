//! NEON, which all processors with AArch64 have that run an operating system.

mod codes;
mod counts;
mod fields;
mod mask;
mod pack;
mod pass;
mod rans;
mod sums;
mod tier;
mod unpack;
mod vector;

use crate::kernel::{Kernel, PORTABLE, SimdLevel};

/// The kernel, if the processor can run it. Compilers know that it can where the target has NEON anyway.
pub(crate) fn kernel() -> Option<&'static Kernel> {
    std::arch::is_aarch64_feature_detected!("neon").then_some(&NEON)
}

/// The table. What is not named here is the portable code, which is compiled with NEON as well.
static NEON: Kernel = Kernel {
    level: SimdLevel::Neon,
    checksum: call!(sums::checksum, bytes, index),
    window_bounds: Some(call!(counts::window_bounds, values, start)),
    pack: call!(pack::pack, values, coded),
    unpack: call!(unpack::unpack, coded, out),
    zeros: call!(mask::zeros, values),
    drop_zeros: call!(mask::drop_zeros, values, mask, kept),
    restore_zeros: call!(mask::restore_zeros, mask, kept, out),
    group_sums: call!(fields::group_sums, values, sums),
    split: call!(fields::split, values, base, rest, residuals),
    join: call!(fields::join, rest, residuals, base, values),
    pack_tier: call!(tier::pack_tier, list, start, passed, tier, planes),
    unpack_tier: call!(tier::unpack_tier, list, passed, tier, planes),
    split_tier: call!(tier::split_tier, values, base, tier, rest, planes, list, passed),
    split_pass: call!(pass::split_pass, values, how, out),
    join_pass: call!(pass::join_pass, coded, values),
    encode_rans: call!(rans::encode, codes, table, states, room),
    decode_rans: call!(rans::decode, jobs, table),
    copy_sum: call!(sums::copy_sum, from, to, word, streaming),
    pack_codes: call!(codes::pack_codes, exponents, table, codes, escaped, streaming),
    unpack_codes: call!(codes::unpack_codes, codes, book, exponents),
    ..PORTABLE
};
