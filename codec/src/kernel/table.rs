//! The functions that every implementation of the inner loops has, the levels that have one, and the portable table.

use super::delta::{self, How, JoinFrom, SplitMut as DeltaMut};
use super::fields::{self, MantissaBits, PLANES, PlaneStats};
use super::four::{self, ShortWords};
use super::joint::{self, Window};
use super::pass::{self, Join, Passed, Split, SplitMut};
use super::rans::{self, DecodeTable, EncodeTable, Job, Room, States};
use super::tier::{self, Tier};
use super::{GroupSums, bits, sums};

/// An implementation of the inner loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum SimdLevel {
    /// Plain Rust, on every machine. The reference.
    Portable,
    /// AVX2 with BMI1, BMI2 and POPCNT, on x86-64.
    Avx2,
    /// AVX-512 with BW, VL, VBMI and VBMI2, and all that [`Self::Avx2`] has.
    Avx512,
    /// NEON, on AArch64 that is little-endian: all such machines with an operating system have it.
    Neon,
}

impl SimdLevel {
    /// All levels, of all machines.
    pub const ALL: [Self; 4] = [Self::Portable, Self::Avx2, Self::Avx512, Self::Neon];

    /// Name in reports and options.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::Neon => "neon",
        }
    }

    /// The level with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name() == name)
    }
}

impl std::fmt::Display for SimdLevel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// Defines [`Kernel`], [`PORTABLE`], and the macro `signature`, which calls another macro with the arguments and the result of a
/// function of the table: so these are written here and nowhere else. The first token is a dollar sign, for `signature`.
macro_rules! kernels {
    ($dollar:tt $($(#[$doc:meta])* $visible:vis fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)? = $portable:expr;)*) => {
        /// One implementation of all inner loops.
        ///
        /// `values` are BF16, little-endian; `checksum` takes any bytes, and everything down to `join_halves` at most
        /// [`super::TILE`](super::TILE) values.
        pub struct Kernel {
            pub level: SimdLevel,
            $($(#[$doc])* $visible $name: fn($($type),*) $(-> $result)?,)*
        }

        /// The reference: plain Rust.
        pub static PORTABLE: Kernel = Kernel { level: SimdLevel::Portable, $($name: $portable,)* };

        #[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
        macro_rules! signature {
            $(($dollar callback:ident [$dollar($dollar given:tt)*] $name) => {
                $dollar callback!([$dollar($dollar given)*] ($($argument: $type),*) $(-> $result)?)
            };)*
        }
        #[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
        pub(crate) use signature;
    };
}

kernels! {
    $
    /// Checksum of at most `checksum::PART_BYTES` bytes, the first of which begin word `index`.
    pub(crate) fn checksum(bytes: &[u8], index: u64) -> u32 = sums::checksum;
    /// How often each exponent occurs.
    pub fn histogram(values: &[u8]) -> [u32; 256] = sums::histogram;
    /// How often each byte occurs, of at most [`super::TILE`].
    pub(crate) fn byte_counts(bytes: &[u8]) -> [u32; 256] = four::byte_counts;
    /// The words of each four symbols, joined, and their length from bit `four::LENGTH_AT` on.
    pub(crate) fn fours(words: &ShortWords, symbols: &[[u8; 4]], out: &mut [u64]) = four::fours;
    /// The lower and the upper byte of each value of 16 bits.
    pub fn split_bytes_2(values: &[u8], low: &mut [u8], high: &mut [u8]) = fields::split_bytes_2;
    /// Inverse of `split_bytes_2`.
    pub fn join_bytes_2(low: &[u8], high: &[u8], values: &mut [u8]) = fields::join_bytes_2;
    /// The four bytes of each value of 32 bits, the lowest first.
    pub fn split_bytes_4(values: &[u8], bytes: [&mut [u8]; 4]) = fields::split_bytes_4;
    /// Inverse of `split_bytes_4`.
    pub fn join_bytes_4(bytes: [&[u8]; 4], values: &mut [u8]) = fields::join_bytes_4;
    /// How many are exactly +0.
    pub fn zeros(values: &[u8]) -> usize = bits::zeros::<2>;
    /// Writes a bit per value, set unless the value is +0, and the values that are not;
    /// returns their number. `kept` has room for all.
    pub fn drop_zeros(values: &[u8], mask: &mut [u8], kept: &mut [u8]) -> usize = bits::drop_zeros::<2>;
    /// Inverse of `drop_zeros`. `mask` has as many bits set as there are values in `kept`, none of them beyond
    /// the last value of `out`.
    pub fn restore_zeros(mask: &[u8], kept: &[u8], out: &mut [u8]) = bits::restore_zeros::<2>;
    /// `zeros` for values of 32 bits.
    pub fn zeros_32(values: &[u8]) -> usize = bits::zeros::<4>;
    /// `drop_zeros` for values of 32 bits.
    pub fn drop_zeros_32(values: &[u8], mask: &mut [u8], kept: &mut [u8]) -> usize = bits::drop_zeros::<4>;
    /// `restore_zeros` for values of 32 bits.
    pub fn restore_zeros_32(mask: &[u8], kept: &[u8], out: &mut [u8]) = bits::restore_zeros::<4>;
    /// The upper halves of values of 32 bits, which are BF16 if the values are FP32.
    pub fn upper_halves(values: &[u8], upper: &mut [u8]) = fields::upper_halves;
    /// The lower halves; returns whether any of them is not 0.
    pub fn lower_halves(values: &[u8], lower: &mut [u8]) -> bool = fields::lower_halves;
    /// Inverse of both.
    pub fn join_halves(upper: &[u8], lower: &[u8], values: &mut [u8]) = fields::join_halves;
    /// Sums over each group of [`super::BASE_GROUP`] values, of which the last one may be shorter.
    pub fn group_sums(values: &[u8], sums: &mut [GroupSums]) = fields::group_sums;
    /// Sign and mantissa of each value, and exponent less `base` modulo 256.
    pub fn split(values: &[u8], base: u8, rest: &mut [u8], residuals: &mut [u8]) = fields::split;
    /// Inverse of `split`.
    pub fn join(rest: &[u8], residuals: &[u8], base: u8, values: &mut [u8]) = fields::join;
    /// `group_sums` for FP32 values.
    pub(crate) fn group_sums_32(values: &[u8], sums: &mut [GroupSums]) = fields::group_sums_32;
    /// Bits that the byte planes of the rests of FP32 values have in common.
    pub(crate) fn plane_stats(values: &[u8]) -> PlaneStats = fields::plane_stats;
    /// `split` for FP32 values: the bytes of each rest, the lowest first.
    pub fn split_32(values: &[u8], base: u8, planes: [&mut [u8]; PLANES], residuals: &mut [u8]) = fields::split_32;
    /// Inverse of `split_32`.
    pub fn join_32(planes: [&[u8]; PLANES], residuals: &[u8], base: u8, values: &mut [u8]) = fields::join_32;
    /// Puts the bytes of a plane into FP32 values in which they are 0.
    pub(crate) fn add_plane(number: usize, plane: &[u8], values: &mut [u8]) = fields::add_plane;
    /// The lowest `planes` bits of bytes as bit planes: `out` has `8 * planes` bytes for each
    /// 64 of them, or part of 64.
    pub(crate) fn pack_bits(bytes: &[u8], planes: usize, out: &mut [u8]) = bits::pack_bits;
    /// Inverse of `pack_bits`.
    pub(crate) fn unpack_bits(bits: &[u8], planes: usize, out: &mut [u8]) = bits::unpack_bits;
    /// `group_sums` for FP8 values with this number of mantissa bits.
    pub(crate) fn group_sums_8(values: &[u8], bits: MantissaBits, sums: &mut [GroupSums]) = fields::group_sums_8;
    /// `group_sums` for F16 values.
    pub(crate) fn group_sums_16(values: &[u8], sums: &mut [GroupSums]) = fields::group_sums_16;
    /// `split` for FP8 values with this number of mantissa bits.
    pub(crate) fn split_8(values: &[u8], bits: MantissaBits, base: u8, upper: &mut [u8], residuals: &mut [u8]) = fields::split_8;
    /// Inverse of `split_8`. Returns whether all exponents are ones of the type.
    pub(crate) fn join_8(upper: &[u8], residuals: &[u8], bits: MantissaBits, base: u8, values: &mut [u8]) -> bool = fields::join_8;
    /// `split` for F16 values: the lower byte of each rest, and what is above it.
    pub(crate) fn split_16(values: &[u8], base: u8, low: &mut [u8], upper: &mut [u8], residuals: &mut [u8]) = fields::split_16;
    /// Inverse of `split_16`. Returns whether all exponents are ones of the type.
    pub(crate) fn join_16(low: &[u8], upper: &[u8], residuals: &[u8], base: u8, values: &mut [u8]) -> bool = fields::join_16;
    /// Adds the exponents less the mean, which has `fields::MEAN_FRACTION` bits behind the
    /// point, of a row of values that are not +0 to the sums of their columns, and 1 to their numbers.
    pub(crate) fn add_row(values: &[u8], mean: i32, exponents: &mut [i32], numbers: &mut [u32]) = fields::add_row;
    /// The sum of the offsets, signed, of values that are not +0.
    pub(crate) fn sum_offsets(values: &[u8], offsets: &[u8]) -> i32 = fields::sum_offsets;
    /// Codes the residuals in `list` from `start` on, a multiple of 64; returns
    /// the number of all that have no code. These follow the `passed`, at most `start`, that are the front of `list`
    /// already; the rest of it is of no meaning afterwards. `planes` has exactly `tier::plane_bytes` of the number of
    /// residuals.
    pub(crate) fn pack_tier(list: &mut [u8], start: usize, passed: usize, tier: &Tier, planes: &mut [u8]) -> usize = tier::pack_tier;
    /// Inverse of `pack_tier`, in place. The list's last `tier::LIST_PAD` bytes are of no meaning;
    /// the `passed` before them are the residuals without a code. The planes end clear. It fails, with the number of
    /// residuals without a code, if the planes have more or fewer such.
    pub(crate) fn unpack_tier(list: &mut [u8], passed: usize, tier: &Tier, planes: &[u8]) -> Result<(), usize> = tier::unpack_tier;
    /// `split` and the first `pack_tier` in one. Residuals without a
    /// code follow the `passed` that are the front of `list` already, which has room for one per value and
    /// `tier::LIST_PAD` bytes behind them.
    pub(crate) fn split_tier(
        values: &[u8],
        base: u8,
        tier: &Tier,
        rest: &mut [u8],
        planes: &mut [u8],
        list: &mut [u8],
        passed: usize
    ) -> usize = tier::split_tier;
    /// Checksum, sums of groups, rests and the first tier in one pass. See [`Split`].
    pub(crate) fn split_pass(values: &[u8], how: Split<'_>, out: SplitMut<'_>) -> Passed = pass::split_pass;
    /// The first tier, rests and the checksum in one pass. See [`Join`].
    pub(crate) fn join_pass(coded: Join<'_>, values: &mut [u8]) -> Passed = pass::join_pass;
    /// Turns residuals of exponents into symbols of [`super::joint`] by taking the two
    /// highest bits of mantissas out of the tops, which have `mantissa_bits` of them below the sign. Returns how many escapes there are, which
    /// are in the front of the list; it has room for all values.
    pub(crate) fn merge(
        residuals: &mut [u8],
        tops: &mut [u8],
        mantissa_bits: MantissaBits,
        window: Window,
        escapes: &mut [u8]
    ) -> usize = joint::merge;
    /// Inverse of `merge`, for a window that begins with `start`. Returns how many escapes were
    /// asked for; those that are missing are 0.
    pub(crate) fn unmerge(
        symbols: &mut [u8],
        tops: &mut [u8],
        mantissa_bits: MantissaBits,
        start: u8,
        escapes: &[u8]
    ) -> usize = joint::unmerge;
    /// Codes residuals, the last one first, beginning with these states; returns how many
    /// words and escapes are at the ends of `room`.
    pub(crate) fn encode_rans(
        residuals: &[u8],
        table: &EncodeTable,
        states: &mut States,
        room: &mut Room<'_>
    ) -> rans::Used = rans::encode_rans;
    /// Inverse of `encode_rans`, of several blocks side by side.
    pub(crate) fn decode_rans(jobs: &mut [Job<'_>], table: &DecodeTable) = rans::decode_rans;
    /// Copies to where as many bytes are, and returns the sum of words for the checksum, not
    /// folded; the first one is at index `word`. Past the caches if `streaming`, as `copy_past`, where the kernel can.
    pub(crate) fn copy_sum(from: &[u8], to: &mut [u8], word: u64, streaming: bool) -> u64 = |from, to, word, _| {
        to.copy_from_slice(from);
        sums::mixed(from, word)
    };
    /// Writes a bit per value of `width` bytes, set if it is not that of the base, 0 for values that do not
    /// exist; returns the number of these.
    pub(crate) fn changes(width: usize, values: &[u8], base: &[u8], mask: &mut [u8]) -> usize = bits::changes;
    /// Packs the values whose bit is set. `to` has room for them, and a vector behind it,
    /// of which the bytes are of no meaning afterwards.
    pub(crate) fn gather(width: usize, mask: &[u8], from: &[u8], to: &mut [u8]) = bits::gather;
    /// Inverse of `gather`; values of which the bit is not set stay as they are. `from` has as many values as
    /// there are bits, and perhaps more bytes.
    pub(crate) fn scatter(width: usize, mask: &[u8], from: &[u8], to: &mut [u8]) = bits::scatter;
    /// Differences of values of `width` bytes from those of a base, of which there are as many.
    pub(crate) fn delta_split(width: usize, values: &[u8], base: &[u8], how: How, out: &mut DeltaMut<'_>) = delta::delta_split;
    /// Inverse of `delta_split`.
    pub(crate) fn delta_join(width: usize, base: &[u8], how: How, from: &mut JoinFrom<'_>, values: &mut [u8]) = delta::delta_join;
    /// Copies past the caches, to where as many bytes are. Only for [`crate::streaming_store::StreamingStore`], which calls
    /// `fence` afterwards.
    pub(crate) fn copy_past(from: &[u8], to: &mut [u8]) = |from, to| to.copy_from_slice(from);
    /// Waits until everything that was written past the caches is visible to other threads.
    pub fn fence() = || ();
}
