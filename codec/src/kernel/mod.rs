//! The inner loops of the codecs, as a table of functions, so that an implementation for an instruction set can take the
//! place of the portable one.
//!
//! Every implementation gives the same bytes; the portable one is the reference. Kernels work on one tile at a time and
//! know nothing of frames, modes or layouts, nor of which of them is in use: that is [`crate::levels`], above them all. A
//! function, here and on every level, has the name of its field in [`Kernel`], which says what it does.

pub mod bits;
pub mod delta;
pub mod fields;
pub mod four;
pub mod joint;
pub mod pass;
pub mod rans;
pub mod sums;
mod table;
pub mod tier;

pub use table::SimdLevel;
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
pub(crate) use table::signature;
pub use table::{Kernel, PORTABLE};

/// Values that a kernel takes at most in one call.
pub const TILE: usize = 8192;
/// Values with one bit each in a word: of a bit plane, of a tier's planes, or of marks of escapes.
pub const WORD_VALUES: usize = 64;
/// Values that have a base in common at least.
pub const BASE_GROUP: usize = 256;

/// Sums that the base of a group of [`BASE_GROUP`] values is chosen by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupSums {
    /// Sum of the exponents.
    pub exponents: u32,
    /// How many values are exactly +0.
    pub zeros: u32,
}

/// The largest base: what is above it as a byte stands for a group of zeros.
pub const LAST_BASE: u8 = 254;

impl GroupSums {
    /// The base of a group of `count` values: the mean exponent of those that are not +0, plus `eighths`, rounded down, at
    /// most [`LAST_BASE`]; 0 if there are none.
    #[inline(always)]
    pub fn base(self, count: u32, eighths: u32) -> u8 {
        base_of(self.exponents, count - self.zeros, eighths)
    }
}

/// The base of values with this number and this sum of exponents: see [`GroupSums::base`].
#[inline(always)]
pub fn base_of(exponents: u32, values: u32, eighths: u32) -> u8 {
    let sum = 8 * exponents + eighths * values;
    sum.checked_div(8 * values).map_or(0, |base| base.min(u32::from(LAST_BASE)) as u8)
}
