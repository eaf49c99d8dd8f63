//! The inner loops of the codecs, as a table of functions, so that an implementation for an instruction set can take the
//! place of the portable one.
//!
//! Every implementation gives the same bytes; the portable one is the reference. Kernels work on one tile at a time and
//! know nothing of frames, modes or layouts, nor of which of them is in use: that is [`crate::levels`], above them all. A
//! function, here and on every level, has the name of its field in [`Kernel`], which says what it does.

pub(crate) mod bits;
pub(crate) mod codes;
pub(crate) mod delta;
pub(crate) mod fields;
pub(crate) mod four;
pub(crate) mod joint;
pub(crate) mod pass;
pub(crate) mod rans;
pub(crate) mod sums;
mod table;
pub(crate) mod tier;
pub(crate) mod window;

pub use table::SimdLevel;
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
pub(crate) use table::signature;
pub(crate) use table::{Kernel, PORTABLE};

/// Values that a kernel takes at most in one call.
pub(crate) const TILE: usize = 8192;
/// Values whose codes of three bits are interleaved with each other.
pub(crate) const CODE_GROUP: usize = 1024;
/// Values per entry of the escape index.
pub(crate) const INDEX_GROUP: usize = 512;
/// Values with one bit each in a word: of a bit plane, of a tier's planes, or of marks of escapes.
pub(crate) const WORD_VALUES: usize = 64;
/// The code of a value whose exponent is outside the window.
pub(crate) const ESCAPE: u8 = 7;

/// First exponent of the window of each group of 512 values of a tile, at most 249; of no meaning for absent groups.
pub(crate) type Starts = [u8; TILE / INDEX_GROUP];

/// Number of escapes before each group of 512 values of a tile; of no meaning for absent groups.
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
    /// The index of the first word of the checksum, if the values are to be summed.
    pub(crate) word: Option<u64>,
    /// Whether the values are written past the caches, where the kernel can. Only where
    /// [`crate::streaming_store::StreamingStore::is_direct`].
    #[cfg_attr(
        not(target_arch = "x86_64"),
        allow(dead_code, reason = "for kernels that write past the caches")
    )]
    pub(crate) streaming: bool,
}

/// Buffers that a coded tile is written to: as [`Coded`], with exactly the right lengths but for the escapes, whose number is not
/// known before.
pub(crate) struct CodedMut<'a> {
    pub(crate) starts: &'a Starts,
    pub(crate) rest: &'a mut [u8],
    pub(crate) codes: &'a mut [u8],
    pub(crate) escapes: &'a mut EscapeRoom,
    pub(crate) word: Option<u64>,
    /// Permission to write rest and codes past the caches, as in [`Coded`].
    #[cfg_attr(
        not(target_arch = "x86_64"),
        allow(dead_code, reason = "for kernels that write past the caches")
    )]
    pub(crate) streaming: bool,
}

/// Room for the escapes of a tile, and for what a kernel writes behind them. It is of no meaning.
pub(crate) type EscapeRoom = [u8; TILE + 64];

/// Counts and index of a tile that is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packed {
    /// Number of escapes.
    pub(crate) escapes: usize,
    /// Index of the escapes.
    pub(crate) index: EscapeIndex,
    /// How many values have the codes 0, 1, 5 and 6.
    pub(crate) edges: [u32; 4],
    /// The sum of words for the checksum, not folded; 0 unless it was asked for.
    pub(crate) sum: u64,
}

/// Counts and index of a tile that is unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unpacked {
    /// Index of the escapes.
    pub(crate) index: EscapeIndex,
    pub(crate) sum: u64,
}

/// Values that have a base in common at least.
pub(crate) const BASE_GROUP: usize = 256;

/// Sums that the base of a group of [`BASE_GROUP`] values is chosen by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GroupSums {
    /// Sum of the exponents.
    pub(crate) exponents: u32,
    /// How many values are exactly +0.
    pub(crate) zeros: u32,
}

/// The largest base: what is above it as a byte stands for a group of zeros.
pub(crate) const LAST_BASE: u8 = 254;

impl GroupSums {
    /// The base of a group of `count` values: the mean exponent of those that are not +0, plus `eighths`, rounded down, at
    /// most [`LAST_BASE`]; 0 if there are none.
    #[inline(always)]
    pub(crate) fn base(self, count: u32, eighths: u32) -> u8 {
        base_of(self.exponents, count - self.zeros, eighths)
    }
}

/// The base of values with this number and this sum of exponents: see [`GroupSums::base`].
#[inline(always)]
pub(crate) fn base_of(exponents: u32, values: u32, eighths: u32) -> u8 {
    let sum = 8 * exponents + eighths * values;
    sum.checked_div(8 * values).map_or(0, |base| base.min(u32::from(LAST_BASE)) as u8)
}
