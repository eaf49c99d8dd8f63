//! The functions that every implementation of the inner loops has.

use super::codes::{self, CodeTable};
use super::delta::{How, JoinFrom, SplitMut as DeltaMut};
use super::four::ShortWords;
use super::joint::Window;
use super::level::SimdLevel;
use super::pass::{Join, Passed, Split, SplitMut};
use super::rans::{self, DecodeTable, EncodeTable, Job, Room, States};
use super::short::MantissaBits;
use super::tier::Tier;
use super::tile::{Coded, CodedMut, GroupSums, Packed, Unpacked};
use super::window_bounds::WindowBounds;
use super::words::{PLANES, PlaneStats};
use crate::TileFault;

/// Its error is a number of values.
type UnpackTier = fn(&mut [u8], usize, &Tier, &[u8]) -> Result<(), usize>;

type Merge = fn(&mut [u8], &mut [u8], MantissaBits, Window, &mut [u8]) -> usize;
type Unmerge = fn(&mut [u8], &mut [u8], MantissaBits, u8, &[u8]) -> usize;

type SplitTier = fn(&[u8], u8, &Tier, &mut [u8], &mut [u8], &mut [u8], usize) -> usize;

type PackCodes = fn(&[u8], &CodeTable, &mut [u8], &mut [u64], bool);

type SplitShort = fn(&[u8], u8, &mut [u8], &mut [u8], &mut [u8]);
type JoinShort = fn(&[u8], &[u8], &[u8], u8, &mut [u8]) -> bool;
type JoinBytes = fn(&[u8], &[u8], MantissaBits, u8, &mut [u8]) -> bool;
type SplitWords = fn(&[u8], u8, [&mut [u8]; PLANES], &mut [u8]);
type DeltaSplit = fn(usize, &[u8], &[u8], How, &mut DeltaMut<'_>);
type DeltaJoin = fn(usize, &[u8], How, &mut JoinFrom<'_>, &mut [u8]);
type JoinWords = fn([&[u8]; PLANES], &[u8], u8, &mut [u8]);

/// One implementation of all inner loops.
///
/// `values` are BF16, little-endian; `checksum` takes any bytes, and everything down to `join_halves` at most
/// [`TILE`] values.
pub(crate) struct Kernel {
    /// Its name.
    pub(crate) level: SimdLevel,
    /// `(bytes, index)`: checksum of at most `checksum::PART_BYTES` bytes, the first of which begin word `index`.
    pub(crate) checksum: fn(&[u8], u64) -> u32,
    /// `(values)`: how often each exponent occurs.
    pub(crate) histogram: fn(&[u8]) -> [u32; 256],
    /// `(bytes)`: how often each byte occurs, of at most [`TILE`].
    pub(crate) byte_counts: fn(&[u8]) -> [u32; 256],
    /// `(words, symbols, out)`: the words of each four symbols, joined, and their length from bit `four::LENGTH_AT` on.
    pub(crate) fours: fn(&ShortWords, &[[u8; 4]], &mut [u64]),
    /// `(values, low, high)`: the lower and the upper byte of each value of 16 bits.
    pub(crate) split_bytes_2: fn(&[u8], &mut [u8], &mut [u8]),
    /// `(low, high, values)`: the inverse.
    pub(crate) join_bytes_2: fn(&[u8], &[u8], &mut [u8]),
    /// `(values, bytes)`: the four bytes of each value of 32 bits, the lowest first.
    pub(crate) split_bytes_4: fn(&[u8], [&mut [u8]; 4]),
    /// `(bytes, values)`: the inverse.
    pub(crate) join_bytes_4: fn([&[u8]; 4], &mut [u8]),
    /// `(values, start)`: exponents counted around the window that begins at `start`, where that is faster than all of
    /// them.
    pub(crate) window_bounds: Option<fn(&[u8], u8) -> WindowBounds>,
    /// `(values, coded)`: codes the values.
    pub(crate) pack: fn(&[u8], CodedMut<'_>) -> Packed,
    /// `(coded, values)`: the inverse. It fails if the number of escapes is not that of the codes, or if a code beyond
    /// the last value is not zero.
    pub(crate) unpack: fn(Coded<'_>, &mut [u8]) -> Result<Unpacked, TileFault>,
    /// `(values)`: how many are exactly +0.
    pub(crate) zeros: fn(&[u8]) -> usize,
    /// `(values, mask, kept)`: writes a bit per value, set unless the value is +0, and the values that are not;
    /// returns their number. `kept` has room for all.
    pub(crate) drop_zeros: fn(&[u8], &mut [u8], &mut [u8]) -> usize,
    /// `(mask, kept, out)`: the inverse. `mask` has as many bits set as there are values in `kept`, none of them beyond
    /// the last value of `out`.
    pub(crate) restore_zeros: fn(&[u8], &[u8], &mut [u8]),
    /// `(values)`: `zeros` for values of 32 bits.
    pub(crate) zeros_32: fn(&[u8]) -> usize,
    /// `(values, mask, kept)`: `drop_zeros` for values of 32 bits.
    pub(crate) drop_zeros_32: fn(&[u8], &mut [u8], &mut [u8]) -> usize,
    /// `(mask, kept, out)`: `restore_zeros` for values of 32 bits.
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
    /// `(values, sums)`: `group_sums` for FP32 values.
    pub(crate) group_sums_32: fn(&[u8], &mut [GroupSums]),
    /// `(values)`: bits that the byte planes of the rests of FP32 values have in common.
    pub(crate) plane_stats: fn(&[u8]) -> PlaneStats,
    /// `(values, base, planes, residuals)`: as `split`, of FP32 values: the bytes of each rest, the lowest first.
    pub(crate) split_32: SplitWords,
    /// `(planes, residuals, base, values)`: the inverse.
    pub(crate) join_32: JoinWords,
    /// `(number, plane, values)`: puts the bytes of a plane into FP32 values in which they are 0.
    pub(crate) add_plane: fn(usize, &[u8], &mut [u8]),
    /// `(bytes, planes, out)`: the lowest `planes` bits of bytes as bit planes: `out` has `8 * planes` bytes for each
    /// 64 of them, or part of 64.
    pub(crate) pack_bits: fn(&[u8], usize, &mut [u8]),
    /// `(bits, planes, out)`: the inverse.
    pub(crate) unpack_bits: fn(&[u8], usize, &mut [u8]),
    /// `(values, bits, sums)`: `group_sums` for FP8 values with this number of mantissa bits.
    pub(crate) group_sums_8: fn(&[u8], MantissaBits, &mut [GroupSums]),
    /// `(values, sums)`: `group_sums` for F16 values.
    pub(crate) group_sums_16: fn(&[u8], &mut [GroupSums]),
    /// `(values, bits, base, upper, residuals)`: `split` for FP8 values with this number of mantissa bits.
    pub(crate) split_8: fn(&[u8], MantissaBits, u8, &mut [u8], &mut [u8]),
    /// `(upper, residuals, bits, base, values)`: the inverse. Returns whether all exponents are ones of the type.
    pub(crate) join_8: JoinBytes,
    /// `(values, base, low, upper, residuals)`: as `split`, of F16 values: the lower byte of each rest, and what is above it.
    pub(crate) split_16: SplitShort,
    /// `(low, upper, residuals, base, values)`: the inverse. Returns whether all exponents are ones of the type.
    pub(crate) join_16: JoinShort,
    /// `(values, mean, exponents, numbers)`: adds the exponents less the mean, which has `columns::FRACTION` bits behind the
    /// point, of a row of values that are not +0 to the sums of their columns, and 1 to their numbers.
    pub(crate) add_row: fn(&[u8], i32, &mut [i32], &mut [u32]),
    /// `(values, offsets)`: the sum of the offsets, signed, of values that are not +0.
    pub(crate) sum_offsets: fn(&[u8], &[u8]) -> i32,
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
    /// `(values, how, out)`: checksum, sums of groups, rests and the first tier in one pass. See [`Split`].
    pub(crate) split_pass: fn(&[u8], Split<'_>, SplitMut<'_>) -> Passed,
    /// `(coded, values)`: the first tier, rests and the checksum in one pass. See [`Join`].
    pub(crate) join_pass: fn(Join<'_>, &mut [u8]) -> Passed,
    /// `(residuals, tops, mantissa_bits, window, escapes)`: turns residuals of exponents into symbols of [`super::joint`] by taking the two
    /// highest bits of mantissas out of the tops, which have `mantissa_bits` of them below the sign. Returns how many escapes there are, which
    /// are in the front of the list; it has room for all values.
    pub(crate) merge: Merge,
    /// `(symbols, tops, mantissa_bits, start, escapes)`: the inverse, for a window that begins with `start`. Returns how many escapes were
    /// asked for; those that are missing are 0.
    pub(crate) unmerge: Unmerge,
    /// `(residuals, table, states, room)`: codes residuals, the last one first, beginning with these states; returns how many
    /// words and escapes are at the ends of `room`.
    pub(crate) encode_rans: fn(&[u8], &EncodeTable, &mut States, &mut Room<'_>) -> rans::Used,
    /// `(jobs, table)`: the inverse, of several blocks side by side.
    pub(crate) decode_rans: fn(&mut [Job<'_>], &DecodeTable),
    /// `(from, to, word, streaming)`: copies to where as many bytes are, and returns the sum of words for the checksum, not
    /// folded; the first one is at index `word`. Past the caches if `streaming`, as `copy_past`, where the kernel can.
    pub(crate) copy_sum: fn(&[u8], &mut [u8], u64, bool) -> u64,
    /// `(width, values, base, mask)`: writes a bit per value of `width` bytes, set if it is not that of the base, 0 for values that do not
    /// exist; returns the number of these.
    pub(crate) changes: fn(usize, &[u8], &[u8], &mut [u8]) -> usize,
    /// `(width, mask, from, to)`: packs the values whose bit is set. `to` has room for them, and a vector behind it,
    /// of which the bytes are of no meaning afterwards.
    pub(crate) gather: fn(usize, &[u8], &[u8], &mut [u8]),
    /// `(width, mask, from, to)`: the inverse; values of which the bit is not set stay as they are. `from` has as many values as
    /// there are bits, and perhaps more bytes.
    pub(crate) scatter: fn(usize, &[u8], &[u8], &mut [u8]),
    /// `(width, values, base, how, out)`: differences of values of `width` bytes from those of a base, of which there are as many.
    pub(crate) delta_split: DeltaSplit,
    /// `(width, base, how, from, values)`: the inverse.
    pub(crate) delta_join: DeltaJoin,
    /// `(from, to)`: copies past the caches, to where as many bytes are. Only for [`crate::streaming_store::StreamingStore`], which calls
    /// `fence` afterwards.
    pub(crate) copy_past: fn(&[u8], &mut [u8]),
    /// Waits until everything that was written past the caches is visible to other threads.
    pub(crate) fence: fn(),
    /// `(exponents, table, codes, escaped, streaming)`: codes of four bits, 0 where the table has none, and a bit for each
    /// exponent that it has none for. `codes` has a byte for two exponents, `escaped` a word for 64. Past the caches if
    /// `streaming`, as `copy_past`, where the kernel can.
    pub(crate) pack_codes: PackCodes,
    /// `(codes, book, exponents)`: the exponents that the codes stand for.
    pub(crate) unpack_codes: fn(&[u8], &[u8; codes::ENTRIES], &mut [u8]),
}
