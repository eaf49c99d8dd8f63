//! Residuals and bits of mantissas in one symbol: the portable loops, which compilers turn into instructions of this level.

use crate::kernel::joint::{self, Window};
use crate::kernel::short::MantissaBits;

/// See [`crate::kernel::Kernel::merge`].
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn merge(
    residuals: &mut [u8],
    tops: &mut [u8],
    mantissa_bits: MantissaBits,
    window: Window,
    escapes: &mut [u8],
) -> usize {
    joint::merge(residuals, tops, mantissa_bits, window, escapes)
}

/// See [`crate::kernel::Kernel::unmerge`].
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn unmerge(
    symbols: &mut [u8],
    tops: &mut [u8],
    mantissa_bits: MantissaBits,
    start: u8,
    escapes: &[u8],
) -> usize {
    joint::unmerge(symbols, tops, mantissa_bits, start, escapes)
}
