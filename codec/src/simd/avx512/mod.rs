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
mod rans;
mod short;
mod sums;
mod tier;
mod unpack;
mod vector;
mod words;
mod writer;

use super::avx2::{self, AVX2};
use crate::TileFault;
use crate::kernel::codes::{CodeTable, ENTRIES};
use crate::kernel::delta::{How, JoinFrom, SplitMut as DeltaMut};
use crate::kernel::four::ShortWords;
use crate::kernel::joint::Window;
use crate::kernel::pass::{Join, Passed, Split, SplitMut};
use crate::kernel::rans::{DecodeTable, EncodeTable, Job, Room, States, Used};
use crate::kernel::short::MantissaBits;
use crate::kernel::tier::Tier;
use crate::kernel::window_bounds::WindowBounds;
use crate::kernel::words::{PLANES, PlaneStats};
use crate::kernel::{Coded, CodedMut, GroupSums, Kernel, Packed, SimdLevel, Unpacked};

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

entries! {
    fn checksum(bytes: &[u8], index: u64) -> u32 => sums::checksum;
    fn byte_counts(bytes: &[u8]) -> [u32; 256] => histogram::byte_counts;
    fn fours(words: &ShortWords, symbols: &[[u8; 4]], out: &mut [u64]) -> () => four::fours;
    fn window_bounds(values: &[u8], start: u8) -> WindowBounds => counts::window_bounds;
    fn pack(values: &[u8], coded: CodedMut<'_>) -> Packed => pack::pack;
    fn unpack(coded: Coded<'_>, out: &mut [u8]) -> Result<Unpacked, TileFault> => unpack::unpack;
    fn zeros(values: &[u8]) -> usize => mask::zeros;
    fn drop_zeros(values: &[u8], mask: &mut [u8], kept: &mut [u8]) -> usize => mask::drop_zeros;
    fn restore_zeros(mask: &[u8], kept: &[u8], out: &mut [u8]) -> () => mask::restore_zeros;
    fn zeros_32(values: &[u8]) -> usize => mask::zeros_32;
    fn drop_zeros_32(values: &[u8], mask: &mut [u8], kept: &mut [u8]) -> usize => mask::drop_zeros_32;
    fn restore_zeros_32(mask: &[u8], kept: &[u8], out: &mut [u8]) -> () => mask::restore_zeros_32;
    fn upper_halves(values: &[u8], upper: &mut [u8]) -> () => halves::upper;
    fn lower_halves(values: &[u8], lower: &mut [u8]) -> bool => halves::lower;
    fn join_halves(upper: &[u8], lower: &[u8], values: &mut [u8]) -> () => halves::join;
    fn group_sums(values: &[u8], sums: &mut [GroupSums]) -> () => fields::group_sums;
    fn split(values: &[u8], base: u8, rest: &mut [u8], residuals: &mut [u8]) -> () => fields::split;
    fn join(rest: &[u8], residuals: &[u8], base: u8, values: &mut [u8]) -> () => fields::join;
    fn group_sums_32(values: &[u8], sums: &mut [GroupSums]) -> () => words::group_sums;
    fn plane_stats(values: &[u8]) -> PlaneStats => words::plane_stats;
    fn split_32(values: &[u8], base: u8, planes: [&mut [u8]; PLANES], residuals: &mut [u8]) -> () => words::split;
    fn join_32(planes: [&[u8]; PLANES], residuals: &[u8], base: u8, values: &mut [u8]) -> () => words::join;
    fn add_plane(number: usize, plane: &[u8], values: &mut [u8]) -> () => words::add_plane;
    fn pack_bits(bytes: &[u8], planes: usize, out: &mut [u8]) -> () => bits::pack_bits;
    fn unpack_bits(bits: &[u8], planes: usize, out: &mut [u8]) -> () => bits::unpack_bits;
    fn group_sums_8(values: &[u8], bits: MantissaBits, sums: &mut [GroupSums]) -> () => short::group_sums_8;
    fn group_sums_16(values: &[u8], sums: &mut [GroupSums]) -> () => short::group_sums_16;
    fn split_8(values: &[u8], bits: MantissaBits, base: u8, upper: &mut [u8], residuals: &mut [u8]) -> () => short::split_8;
    fn join_8(upper: &[u8], residuals: &[u8], bits: MantissaBits, base: u8, values: &mut [u8]) -> bool => short::join_8;
    fn split_16(values: &[u8], base: u8, low: &mut [u8], upper: &mut [u8], residuals: &mut [u8]) -> () => short::split_16;
    fn join_16(low: &[u8], upper: &[u8], residuals: &[u8], base: u8, values: &mut [u8]) -> bool => short::join_16;
    fn add_row(values: &[u8], mean: i32, exponents: &mut [i32], numbers: &mut [u32]) -> () => columns::add_row;
    fn sum_offsets(values: &[u8], offsets: &[u8]) -> i32 => columns::sum_offsets;
    fn pack_tier(list: &mut [u8], start: usize, passed: usize, tier: &Tier, planes: &mut [u8]) -> usize
        => tier::pack_tier;
    fn unpack_tier(list: &mut [u8], passed: usize, tier: &Tier, planes: &[u8]) -> Result<(), usize>
        => tier::unpack_tier;
    fn split_tier(
        values: &[u8],
        base: u8,
        tier: &Tier,
        rest: &mut [u8],
        planes: &mut [u8],
        list: &mut [u8],
        passed: usize
    ) -> usize => tier::split_tier;
    fn split_pass(values: &[u8], how: Split<'_>, out: SplitMut<'_>) -> Passed => pass::split_pass;
    fn join_pass(coded: Join<'_>, values: &mut [u8]) -> Passed => pass::join_pass;
    fn merge(residuals: &mut [u8], tops: &mut [u8], bits: MantissaBits, window: Window, escapes: &mut [u8]) -> usize
        => joint::merge;
    fn unmerge(symbols: &mut [u8], tops: &mut [u8], bits: MantissaBits, start: u8, escapes: &[u8]) -> usize
        => joint::unmerge;
    fn encode_rans(residuals: &[u8], table: &EncodeTable, states: &mut States, room: &mut Room<'_>) -> Used
        => rans::encode;
    fn decode_rans(jobs: &mut [Job<'_>], table: &DecodeTable) -> () => rans::decode;
    fn histogram(values: &[u8]) -> [u32; 256] => histogram::histogram;
    fn copy_sum(from: &[u8], to: &mut [u8], word: u64, streaming: bool) -> u64 => copy::copy_sum;
    fn changes(width: usize, values: &[u8], base: &[u8], mask: &mut [u8]) -> usize => changes::changes;
    fn gather(width: usize, mask: &[u8], from: &[u8], to: &mut [u8]) -> () => changes::gather;
    fn scatter(width: usize, mask: &[u8], from: &[u8], to: &mut [u8]) -> () => changes::scatter;
    fn delta_split(width: usize, values: &[u8], base: &[u8], how: How, out: &mut DeltaMut<'_>) -> () => delta::split;
    fn delta_join(width: usize, base: &[u8], how: How, from: &mut JoinFrom<'_>, out: &mut [u8]) -> () => delta::join;
    fn copy_past(from: &[u8], to: &mut [u8]) -> () => copy::copy_past;
    fn pack_codes(
        exponents: &[u8],
        table: &CodeTable,
        codes: &mut [u8],
        escaped: &mut [u64],
        streaming: bool
    ) -> () => codes::pack_codes;
    fn unpack_codes(codes: &[u8], book: &[u8; ENTRIES], exponents: &mut [u8]) -> () => codes::unpack_codes;
}

static AVX512: Kernel = Kernel {
    level: SimdLevel::Avx512,
    checksum,
    histogram,
    byte_counts,
    fours,
    window_bounds: Some(window_bounds),
    pack,
    unpack,
    zeros,
    drop_zeros,
    restore_zeros,
    zeros_32,
    drop_zeros_32,
    restore_zeros_32,
    upper_halves,
    lower_halves,
    join_halves,
    group_sums,
    split,
    join,
    group_sums_32,
    plane_stats,
    split_32,
    join_32,
    add_plane,
    pack_bits,
    unpack_bits,
    group_sums_8,
    group_sums_16,
    split_8,
    join_8,
    split_16,
    join_16,
    add_row,
    sum_offsets,
    pack_tier,
    unpack_tier,
    split_tier,
    split_pass,
    join_pass,
    merge,
    unmerge,
    encode_rans,
    decode_rans,
    copy_sum,
    changes,
    gather,
    scatter,
    delta_split,
    delta_join,
    copy_past,
    pack_codes,
    unpack_codes,
    ..AVX2
};
