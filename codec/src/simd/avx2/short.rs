//! F16 and FP8 values taken apart and put together: the portable loops, which compilers turn into instructions of this level.

use crate::kernel::GroupSums;
use crate::kernel::short::{self, MantissaBits};

/// See [`crate::kernel::Kernel::group_sums_8`].
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn group_sums_8(values: &[u8], bits: MantissaBits, sums: &mut [GroupSums]) {
    short::group_sums_8(values, bits, sums);
}

/// See [`crate::kernel::Kernel::group_sums_16`].
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn group_sums_16(values: &[u8], sums: &mut [GroupSums]) {
    short::group_sums_16(values, sums);
}

/// See [`crate::kernel::Kernel::split_8`].
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn split_8(values: &[u8], bits: MantissaBits, base: u8, upper: &mut [u8], residuals: &mut [u8]) {
    short::split_8(values, bits, base, upper, residuals);
}

/// See [`crate::kernel::Kernel::join_8`].
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn join_8(
    upper: &[u8],
    residuals: &[u8],
    bits: MantissaBits,
    base: u8,
    values: &mut [u8],
) -> bool {
    short::join_8(upper, residuals, bits, base, values)
}

/// See [`crate::kernel::Kernel::split_16`].
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn split_16(values: &[u8], base: u8, low: &mut [u8], upper: &mut [u8], residuals: &mut [u8]) {
    short::split_16(values, base, low, upper, residuals);
}

/// See [`crate::kernel::Kernel::join_16`].
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn join_16(low: &[u8], upper: &[u8], residuals: &[u8], base: u8, values: &mut [u8]) -> bool {
    short::join_16(low, upper, residuals, base, values)
}
