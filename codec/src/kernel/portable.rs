//! The reference: every function in plain Rust.

use super::level::SimdLevel;
use super::table::Kernel;
use super::{
    bits, changes, codes, columns, delta, fields, four, halves, joint, mask, pass, rans, short, sums, tier,
    window, words,
};

/// Plain Rust.
pub(crate) static PORTABLE: Kernel = Kernel {
    level: SimdLevel::Portable,
    checksum: sums::checksum,
    histogram: sums::histogram,
    byte_counts: four::byte_counts,
    fours: four::fours,
    window_bounds: None,
    pack: window::pack,
    unpack: window::unpack,
    zeros: mask::zeros::<2>,
    drop_zeros: mask::drop_zeros::<2>,
    restore_zeros: mask::restore_zeros::<2>,
    zeros_32: mask::zeros::<4>,
    drop_zeros_32: mask::drop_zeros::<4>,
    restore_zeros_32: mask::restore_zeros::<4>,
    upper_halves: halves::upper,
    lower_halves: halves::lower,
    join_halves: halves::join,
    group_sums: fields::group_sums,
    split: fields::split,
    join: fields::join,
    group_sums_32: words::group_sums,
    plane_stats: words::plane_stats,
    split_32: words::split,
    join_32: words::join,
    add_plane: words::add_plane,
    pack_bits: bits::pack_bits,
    unpack_bits: bits::unpack_bits,
    group_sums_8: short::group_sums_8,
    group_sums_16: short::group_sums_16,
    split_8: short::split_8,
    join_8: short::join_8,
    split_16: short::split_16,
    join_16: short::join_16,
    add_row: columns::add_row,
    sum_offsets: columns::sum_offsets,
    pack_tier: tier::pack_tier,
    unpack_tier: tier::unpack_tier,
    split_tier: tier::split_tier,
    split_pass: pass::split_pass,
    join_pass: pass::join_pass,
    merge: joint::merge,
    unmerge: joint::unmerge,
    encode_rans: rans::encode,
    decode_rans: rans::decode,
    copy_sum: |from, to, word, _| {
        to.copy_from_slice(from);
        sums::mixed(from, word)
    },
    changes: changes::changes,
    gather: changes::gather,
    scatter: changes::scatter,
    delta_split: delta::split,
    delta_join: delta::join,
    copy_past: |from, to| to.copy_from_slice(from),
    fence: || (),
    pack_codes: codes::pack_codes,
    unpack_codes: codes::unpack_codes,
};
