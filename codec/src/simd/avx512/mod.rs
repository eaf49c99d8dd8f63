//! AVX-512 with bytes that are permuted, compressed and expanded (VBMI, VBMI2), on top of AVX2.

mod bits;
mod changes;
mod codes;
mod columns;
mod copy;
mod counts;
mod delta;
mod fields;
mod four;
mod halves;
mod histogram;
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
mod writer;

use super::avx2::{self, AVX2};
use crate::kernel::{Kernel, SimdLevel};

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

static AVX512: Kernel = Kernel {
    level: SimdLevel::Avx512,
    checksum: call!(sums::checksum, bytes, index),
    histogram: call!(histogram::histogram, values),
    byte_counts: call!(histogram::byte_counts, bytes),
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
    zeros_32: call!(mask::zeros_32, values),
    drop_zeros_32: call!(mask::drop_zeros_32, values, mask, kept),
    restore_zeros_32: call!(mask::restore_zeros_32, mask, kept, out),
    upper_halves: call!(halves::upper, values, upper),
    lower_halves: call!(halves::lower, values, lower),
    join_halves: call!(halves::join, upper, lower, values),
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
    encode_rans: call!(rans::encode, residuals, table, states, room),
    decode_rans: call!(rans::decode, jobs, table),
    copy_sum: call!(copy::copy_sum, from, to, word, streaming),
    changes: call!(changes::changes, width, values, base, mask),
    gather: call!(changes::gather, width, mask, from, to),
    scatter: call!(changes::scatter, width, mask, from, to),
    delta_split: call!(delta::split, width, values, base, how, out),
    delta_join: call!(delta::join, width, base, how, from, out),
    copy_past: call!(copy::copy_past, from, to),
    pack_codes: call!(codes::pack_codes, exponents, table, codes, escaped, streaming),
    unpack_codes: call!(codes::unpack_codes, codes, book, exponents),
    ..AVX2
};
