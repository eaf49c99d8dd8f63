//! AVX2, and the bit instructions that all processors with AVX2 have.

mod bits;
mod codes;
mod columns;
mod copy;
mod counts;
mod fields;
mod four;
mod joint;
mod mask;
mod pack;
mod pass;
mod planes;
mod rans;
mod short;
mod sums;
mod tier;
mod unpack;
mod vector;
mod words;

use crate::kernel::{Kernel, SimdLevel};

/// The kernel, if the processor can run it.
pub(crate) fn kernel() -> Option<&'static Kernel> {
    let available = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("popcnt");
    available.then_some(&AVX2)
}

/// The table, from which levels above take what they have nothing better for.
pub(super) static AVX2: Kernel = Kernel {
    level: SimdLevel::Avx2,
    checksum: call!(sums::checksum, bytes, index),
    // Counters in memory are as fast as the processor can increment them.
    histogram: crate::kernel::sums::histogram,
    byte_counts: crate::kernel::four::byte_counts,
    fours: call!(four::fours, words, symbols, out),
    split_bytes_2: call!(planes::split_2, values, low, high),
    join_bytes_2: call!(planes::join_2, low, high, values),
    split_bytes_4: call!(planes::split_4, values, bytes),
    join_bytes_4: call!(planes::join_4, bytes, values),
    window_bounds: Some(call!(counts::window_bounds, values, start)),
    pack: call!(pack::pack, values, coded),
    unpack: call!(unpack::unpack, coded, out),
    zeros: call!(mask::zeros, values),
    drop_zeros: call!(mask::drop_zeros, values, mask, kept),
    restore_zeros: call!(mask::restore_zeros, mask, kept, out),
    // Loops over whole values, which compilers turn into vector code but for the masks.
    zeros_32: crate::kernel::mask::zeros::<4>,
    drop_zeros_32: crate::kernel::mask::drop_zeros::<4>,
    restore_zeros_32: crate::kernel::mask::restore_zeros::<4>,
    upper_halves: crate::kernel::halves::upper,
    lower_halves: crate::kernel::halves::lower,
    join_halves: crate::kernel::halves::join,
    group_sums: call!(fields::group_sums, values, sums),
    split: call!(fields::split, values, base, rest, residuals),
    join: call!(fields::join, rest, residuals, base, values),
    group_sums_32: call!(words::group_sums, values, sums),
    plane_stats: call!(words::plane_stats, values),
    split_32: call!(words::split, values, base, planes, residuals),
    join_32: call!(words::join, planes, residuals, base, values),
    add_plane: call!(words::add_plane, number, plane, values),
    pack_bits: call!(bits::pack_bits, bytes, planes, out),
    unpack_bits: call!(bits::unpack_bits, bits, planes, out),
    group_sums_8: call!(short::group_sums_8, values, bits, sums),
    group_sums_16: call!(short::group_sums_16, values, sums),
    split_8: call!(short::split_8, values, bits, base, upper, residuals),
    join_8: call!(short::join_8, upper, residuals, bits, base, values),
    split_16: call!(short::split_16, values, base, low, upper, residuals),
    join_16: call!(short::join_16, low, upper, residuals, base, values),
    add_row: call!(columns::add_row, values, mean, exponents, numbers),
    sum_offsets: call!(columns::sum_offsets, values, offsets),
    pack_tier: call!(tier::pack_tier, list, start, passed, tier, planes),
    unpack_tier: call!(tier::unpack_tier, list, passed, tier, planes),
    split_tier: call!(tier::split_tier, values, base, tier, rest, planes, list, passed),
    split_pass: call!(pass::split_pass, values, how, out),
    join_pass: call!(pass::join_pass, coded, values),
    merge: call!(joint::merge, residuals, tops, bits, window, escapes),
    unmerge: call!(joint::unmerge, symbols, tops, bits, start, escapes),
    encode_rans: call!(rans::encode, codes, table, states, room),
    decode_rans: call!(rans::decode, jobs, table),
    copy_sum: call!(copy::copy_sum, from, to, word, streaming),
    changes: crate::kernel::changes::changes,
    gather: crate::kernel::changes::gather,
    scatter: crate::kernel::changes::scatter,
    delta_split: crate::kernel::delta::split,
    delta_join: crate::kernel::delta::join,
    copy_past: call!(copy::copy_past, from, to),
    fence: call!(copy::fence),
    pack_codes: call!(codes::pack_codes, exponents, table, codes, escaped, streaming),
    unpack_codes: call!(codes::unpack_codes, codes, book, exponents),
};
