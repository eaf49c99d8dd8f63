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

use crate::TileFault;
use crate::kernel::codes::{CodeTable, ENTRIES};
use crate::kernel::pass::{Join, Passed, Split, SplitMut};
use crate::kernel::rans::{DecodeTable, EncodeTable, Job, Room, States, Used};
use crate::kernel::tier::Tier;
use crate::kernel::window_bounds::WindowBounds;
use crate::kernel::{Coded, CodedMut, GroupSums, Kernel, PORTABLE, Packed, SimdLevel, Unpacked};

/// The kernel, if the processor can run it. Compilers know that it can where the target has NEON anyway.
pub(crate) fn kernel() -> Option<&'static Kernel> {
    std::arch::is_aarch64_feature_detected!("neon").then_some(&NEON)
}

entries! {
    fn checksum(bytes: &[u8], index: u64) -> u32 => sums::checksum;
    fn window_bounds(values: &[u8], start: u8) -> WindowBounds => counts::window_bounds;
    fn pack(values: &[u8], coded: CodedMut<'_>) -> Packed => pack::pack;
    fn unpack(coded: Coded<'_>, out: &mut [u8]) -> Result<Unpacked, TileFault> => unpack::unpack;
    fn zeros(values: &[u8]) -> usize => mask::zeros;
    fn drop_zeros(values: &[u8], mask: &mut [u8], kept: &mut [u8]) -> usize => mask::drop_zeros;
    fn restore_zeros(mask: &[u8], kept: &[u8], out: &mut [u8]) -> () => mask::restore_zeros;
    fn group_sums(values: &[u8], sums: &mut [GroupSums]) -> () => fields::group_sums;
    fn split(values: &[u8], base: u8, rest: &mut [u8], residuals: &mut [u8]) -> () => fields::split;
    fn join(rest: &[u8], residuals: &[u8], base: u8, values: &mut [u8]) -> () => fields::join;
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
    fn encode_rans(codes: &[u8], table: &EncodeTable, states: &mut States, room: &mut Room<'_>) -> Used
        => rans::encode;
    fn decode_rans(jobs: &mut [Job<'_>], table: &DecodeTable) -> () => rans::decode;
    fn copy_sum(from: &[u8], to: &mut [u8], word: u64, streaming: bool) -> u64 => sums::copy_sum;
    fn pack_codes(
        exponents: &[u8],
        table: &CodeTable,
        codes: &mut [u8],
        escaped: &mut [u64],
        streaming: bool
    ) -> () => codes::pack_codes;
    fn unpack_codes(codes: &[u8], book: &[u8; ENTRIES], exponents: &mut [u8]) -> () => codes::unpack_codes;
}

/// The table. What is not named here is the portable code, which is compiled with NEON as well.
static NEON: Kernel = Kernel {
    level: SimdLevel::Neon,
    checksum,
    window_bounds: Some(window_bounds),
    pack,
    unpack,
    zeros,
    drop_zeros,
    restore_zeros,
    group_sums,
    split,
    join,
    pack_tier,
    unpack_tier,
    split_tier,
    split_pass,
    join_pass,
    encode_rans,
    decode_rans,
    copy_sum,
    pack_codes,
    unpack_codes,
    ..PORTABLE
};
