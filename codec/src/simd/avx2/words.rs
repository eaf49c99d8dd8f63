//! FP32 values taken apart and put together: the portable loops, which compilers turn into instructions of this level.

use crate::kernel::GroupSums;
use crate::kernel::words::{self, PLANES, PlaneStats};

/// See [`crate::kernel::Kernel::group_sums_32`].
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn group_sums(values: &[u8], sums: &mut [GroupSums]) {
    words::group_sums(values, sums);
}

/// See [`crate::kernel::Kernel::plane_stats`].
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn plane_stats(values: &[u8]) -> PlaneStats {
    words::plane_stats(values)
}

/// See [`crate::kernel::Kernel::split_32`].
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn split(values: &[u8], base: u8, planes: [&mut [u8]; PLANES], residuals: &mut [u8]) {
    words::split(values, base, planes, residuals);
}

/// See [`crate::kernel::Kernel::join_32`].
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn join(planes: [&[u8]; PLANES], residuals: &[u8], base: u8, values: &mut [u8]) {
    words::join(planes, residuals, base, values);
}

/// See [`crate::kernel::Kernel::add_plane`].
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn add_plane(number: usize, plane: &[u8], values: &mut [u8]) {
    words::add_plane(number, plane, values);
}
