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
mod rans;
mod short;
mod sums;
mod tier;
mod unpack;
mod vector;
mod words;

use crate::TileFault;
use crate::kernel::codes::{CodeTable, ENTRIES};
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
    let available = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("popcnt");
    available.then_some(&AVX2)
}

entries! {
    fn checksum(bytes: &[u8], index: u64) -> u32 => sums::checksum;
    fn fours(words: &ShortWords, symbols: &[[u8; 4]], out: &mut [u64]) -> () => four::fours;
    fn window_bounds(values: &[u8], start: u8) -> WindowBounds => counts::window_bounds;
    fn pack(values: &[u8], coded: CodedMut<'_>) -> Packed => pack::pack;
    fn unpack(coded: Coded<'_>, out: &mut [u8]) -> Result<Unpacked, TileFault> => unpack::unpack;
    fn zeros(values: &[u8]) -> usize => mask::zeros;
    fn drop_zeros(values: &[u8], mask: &mut [u8], kept: &mut [u8]) -> usize => mask::drop_zeros;
    fn restore_zeros(mask: &[u8], kept: &[u8], out: &mut [u8]) -> () => mask::restore_zeros;
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
    fn merge(residuals: &mut [u8], tops: &mut [u8], bits: MantissaBits, window: Window, escapes: &mut [u8]) -> usize
        => joint::merge;
    fn unmerge(symbols: &mut [u8], tops: &mut [u8], bits: MantissaBits, start: u8, escapes: &[u8]) -> usize
        => joint::unmerge;
    fn split_pass(values: &[u8], how: Split<'_>, out: SplitMut<'_>) -> Passed => pass::split_pass;
    fn join_pass(coded: Join<'_>, values: &mut [u8]) -> Passed => pass::join_pass;
    fn copy_sum(from: &[u8], to: &mut [u8], word: u64, streaming: bool) -> u64 => copy::copy_sum;
    fn encode_rans(codes: &[u8], table: &EncodeTable, states: &mut States, room: &mut Room<'_>) -> Used
        => rans::encode;
    fn decode_rans(jobs: &mut [Job<'_>], table: &DecodeTable) -> () => rans::decode;
    fn copy_past(from: &[u8], to: &mut [u8]) -> () => copy::copy_past;
    fn fence() -> () => copy::fence;
    fn pack_codes(
        exponents: &[u8],
        table: &CodeTable,
        codes: &mut [u8],
        escaped: &mut [u64],
        streaming: bool
    ) -> () => codes::pack_codes;
    fn unpack_codes(codes: &[u8], book: &[u8; ENTRIES], exponents: &mut [u8]) -> () => codes::unpack_codes;
}

/// The table, from which levels above take what they have nothing better for.
pub(super) static AVX2: Kernel = Kernel {
    level: SimdLevel::Avx2,
    checksum,
    // Counters in memory are as fast as the processor can increment them.
    histogram: crate::kernel::sums::histogram,
    byte_counts: crate::kernel::four::byte_counts,
    fours,
    window_bounds: Some(window_bounds),
    pack,
    unpack,
    zeros,
    drop_zeros,
    restore_zeros,
    // Loops over whole values, which compilers turn into vector code but for the masks.
    zeros_32: crate::kernel::mask::zeros::<4>,
    drop_zeros_32: crate::kernel::mask::drop_zeros::<4>,
    restore_zeros_32: crate::kernel::mask::restore_zeros::<4>,
    upper_halves: crate::kernel::halves::upper,
    lower_halves: crate::kernel::halves::lower,
    join_halves: crate::kernel::halves::join,
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
    changes: crate::kernel::changes::changes,
    gather: crate::kernel::changes::gather,
    scatter: crate::kernel::changes::scatter,
    delta_split: crate::kernel::delta::split,
    delta_join: crate::kernel::delta::join,
    copy_past,
    fence,
    pack_codes,
    unpack_codes,
};
