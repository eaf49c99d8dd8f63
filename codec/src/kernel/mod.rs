//! The inner loops of the codecs, as a table of functions, so that an implementation for an instruction set can take the
//! place of the portable one.
//!
//! Every implementation gives the same bytes; the portable one is the reference. Kernels work on one tile at a time and
//! know nothing of frames, modes or layouts.

pub(crate) mod codes;
pub(crate) mod eight;
pub(crate) mod fields;
pub(crate) mod halves;
mod level;
pub(crate) mod mask;
pub(crate) mod near;
pub(crate) mod sums;
pub(crate) mod tier;
pub(crate) mod window;

use std::sync::OnceLock;

use crate::TileFault;
use codes::CodeTable;
#[cfg(fuzzing)]
pub use level::with_simd;
pub use level::{SimdLevel, SimdUnavailable, force_simd, simd_level, simd_levels};
use near::Near;
use tier::Tier;

/// Values that a kernel takes at most in one call.
pub(crate) const TILE: usize = 8192;
/// Values whose codes are interleaved with each other.
pub(crate) const GROUP: usize = 1024;
/// Values per entry of the escape index.
pub(crate) const INDEX_GROUP: usize = 512;
/// The code of a value whose exponent is outside the window.
pub(crate) const ESCAPE: u8 = 7;

/// For each group of 512 values of a tile, the first exponent of its window, at most 249; of no meaning for absent groups.
pub(crate) type Starts = [u8; TILE / INDEX_GROUP];

/// For each group of 512 values of a tile, the number of escapes before it; of no meaning for absent groups.
pub(crate) type EscapeIndex = [u16; TILE / INDEX_GROUP];

/// A coded tile.
#[derive(Clone, Copy)]
pub(crate) struct Coded<'a> {
    /// The windows.
    pub(crate) starts: &'a Starts,
    /// Sign and mantissa of each value, a byte each.
    pub(crate) rest: &'a [u8],
    /// Twelve bytes for each 32 values, or part of 32, in a group of 1024.
    pub(crate) codes: &'a [u8],
    /// Exponents outside the window, in the order of the values.
    pub(crate) escapes: &'a [u8],
}

/// Where a coded tile is written: as [`Coded`], with exactly the right lengths but for the escapes, of which nobody knows
/// the number before.
pub(crate) struct CodedMut<'a> {
    pub(crate) starts: &'a Starts,
    pub(crate) rest: &'a mut [u8],
    pub(crate) codes: &'a mut [u8],
    pub(crate) escapes: &'a mut EscapeRoom,
}

/// Room for the escapes of a tile, and for what a kernel writes behind them. It is of no meaning.
pub(crate) type EscapeRoom = [u8; TILE + 64];

/// What is known of a tile once it is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packed {
    /// Number of escapes.
    pub(crate) escapes: usize,
    /// Where groups have theirs.
    pub(crate) index: EscapeIndex,
    /// How many values have the codes 0, 1, 5 and 6.
    pub(crate) edges: [u32; 4],
}

/// Values that have a base in common at least.
pub(crate) const BASE_GROUP: usize = 256;

/// What the base of a group of [`BASE_GROUP`] values is chosen by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GroupSums {
    /// Sum of the exponents.
    pub(crate) exponents: u32,
    /// How many values are exactly +0.
    pub(crate) zeros: u32,
}

/// Its error is a number of values.
type UnpackTier = fn(&mut [u8], usize, &Tier, &[u8]) -> Result<(), usize>;

type SplitTier = fn(&[u8], u8, &Tier, &mut [u8], &mut [u8], &mut [u8], usize) -> usize;
type JoinTier = fn(&[u8], &Tier, &[u8], &[u8], u8, &mut [u8]) -> usize;

/// One implementation of all inner loops.
///
/// `values` are BF16, little-endian; `checksum` takes any bytes, and everything down to `join_halves` at most
/// [`TILE`] values.
pub(crate) struct Kernel {
    /// Its name.
    pub(crate) level: SimdLevel,
    /// `(bytes, index)`: checksum of at most `checksum::BLOCK_BYTES` bytes, the first of which begin word `index`.
    pub(crate) checksum: fn(&[u8], u64) -> u32,
    /// `(values)`: how often each exponent occurs.
    pub(crate) histogram: fn(&[u8]) -> [u32; 256],
    /// `(values, start)`: exponents counted around the window that begins at `start`, where that is faster than all of
    /// them.
    pub(crate) near: Option<fn(&[u8], u8) -> Near>,
    /// `(values, coded)`: codes the values.
    pub(crate) pack: fn(&[u8], CodedMut<'_>) -> Packed,
    /// `(coded, values)`: the inverse. It fails if the number of escapes is not that of the codes, or if a code beyond
    /// the last value is not zero.
    pub(crate) unpack: fn(Coded<'_>, &mut [u8]) -> Result<EscapeIndex, TileFault>,
    /// `(values)`: how many are exactly +0.
    pub(crate) zeros: fn(&[u8]) -> usize,
    /// `(values, mask, kept)`: writes a bit per value, set unless the value is +0, and the values that are not;
    /// returns their number. `kept` has room for all.
    pub(crate) drop_zeros: fn(&[u8], &mut [u8], &mut [u8]) -> usize,
    /// `(mask, kept, out)`: the inverse. `mask` has as many bits set as there are values in `kept`, none of them beyond
    /// the last value of `out`.
    pub(crate) restore_zeros: fn(&[u8], &[u8], &mut [u8]),
    /// As `zeros`, of values of 32 bits.
    pub(crate) zeros_32: fn(&[u8]) -> usize,
    /// As `drop_zeros`, of values of 32 bits.
    pub(crate) drop_zeros_32: fn(&[u8], &mut [u8], &mut [u8]) -> usize,
    /// As `restore_zeros`, of values of 32 bits.
    pub(crate) restore_zeros_32: fn(&[u8], &[u8], &mut [u8]),
    /// `(values, upper)`: the upper halves of values of 32 bits, which are BF16 if the values are FP32.
    pub(crate) upper_halves: fn(&[u8], &mut [u8]),
    /// `(values, lower)`: the lower halves; returns whether any of them is not 0.
    pub(crate) lower_halves: fn(&[u8], &mut [u8]) -> bool,
    /// `(upper, lower, values)`: the inverse of both.
    pub(crate) join_halves: fn(&[u8], &[u8], &mut [u8]),
    /// `(values, sums)`: sums over each group of [`BASE_GROUP`] values, of which the last one may be shorter.
    pub(crate) group_sums: fn(&[u8], &mut [GroupSums]),
    /// `(values, base, rest, residuals)`: sign and mantissa of each value, and exponent less `base` modulo 256.
    pub(crate) split: fn(&[u8], u8, &mut [u8], &mut [u8]),
    /// `(rest, residuals, base, values)`: the inverse.
    pub(crate) join: fn(&[u8], &[u8], u8, &mut [u8]),
    /// `(list, start, passed, tier, planes)`: codes the residuals in `list` from `start` on, a multiple of 64; returns
    /// the number of all that have no code. These follow the `passed`, at most `start`, that are the front of `list`
    /// already; the rest of it is of no meaning afterwards. `planes` has exactly `tier::plane_bytes` of the number of
    /// residuals.
    pub(crate) pack_tier: fn(&mut [u8], usize, usize, &Tier, &mut [u8]) -> usize,
    /// `(list, passed, tier, planes)`: the inverse, in place. The list's last `tier::LIST_PAD` bytes are of no meaning;
    /// the `passed` before them are the residuals without a code. The planes end clear. It fails, with the number of
    /// residuals without a code, if the planes have more or fewer such.
    pub(crate) unpack_tier: UnpackTier,
    /// `(values, base, tier, rest, planes, list, passed)`: `split` and the first `pack_tier` in one. Residuals without a
    /// code follow the `passed` that are the front of `list` already, which has room for one per value and
    /// `tier::LIST_PAD` bytes behind them.
    pub(crate) split_tier: SplitTier,
    /// `(passed, tier, planes, rest, base, values)`: the last `unpack_tier` and `join` in one. The residuals without a
    /// code are the front of `passed`, which has `tier::LIST_PAD` bytes behind them; returns their number. The planes
    /// end clear.
    pub(crate) join_tier: JoinTier,
    /// `(from, to)`: copies past the caches, to where as many bytes are. Only for [`crate::past::Past`], which calls
    /// `fence` afterwards.
    pub(crate) copy_past: fn(&[u8], &mut [u8]),
    /// Waits until everything that was written past the caches is visible to other threads.
    pub(crate) fence: fn(),
    /// `(exponents, table, codes, escaped)`: codes of four bits, 0 where the table has none, and a bit for each exponent
    /// that it has none for. `codes` has a byte for two exponents, `escaped` a word for 64.
    pub(crate) pack_codes: fn(&[u8], &CodeTable, &mut [u8], &mut [u64]),
    /// `(codes, book, exponents)`: the exponents that the codes stand for.
    pub(crate) unpack_codes: fn(&[u8], &[u8; codes::ENTRIES], &mut [u8]),
}

/// What [`active`] gives, once that is decided.
static ACTIVE: OnceLock<&'static Kernel> = OnceLock::new();

/// The best implementation for this machine, unless [`force_simd`] has chosen another.
pub(crate) fn active() -> &'static Kernel {
    #[cfg(fuzzing)]
    if let Some(kernel) = level::of_thread() {
        return kernel;
    }
    ACTIVE.get_or_init(|| all().last().unwrap_or(&PORTABLE))
}

/// All implementations that this machine can run, the portable one first, the best one last.
pub(crate) fn all() -> impl Iterator<Item = &'static Kernel> {
    #[cfg(target_arch = "x86_64")]
    let others = [crate::simd::avx2::kernel(), crate::simd::avx512::kernel()];
    #[cfg(not(target_arch = "x86_64"))]
    let others = [];
    std::iter::once(&PORTABLE).chain(others.into_iter().flatten())
}

/// Plain Rust.
pub(crate) static PORTABLE: Kernel = Kernel {
    level: SimdLevel::Portable,
    checksum: sums::checksum,
    histogram: sums::histogram,
    near: None,
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
    pack_tier: tier::pack_tier,
    unpack_tier: tier::unpack_tier,
    split_tier: tier::split_tier,
    join_tier: tier::join_tier,
    copy_past: |from, to| to.copy_from_slice(from),
    fence: || (),
    pack_codes: codes::pack_codes,
    unpack_codes: codes::unpack_codes,
};
