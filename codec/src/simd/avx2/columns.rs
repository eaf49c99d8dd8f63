//! The loops over columns, compiled for the level.

use crate::kernel::columns;

/// See [`crate::kernel::Kernel::add_row`].
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn add_row(values: &[u8], mean: i32, exponents: &mut [i32], numbers: &mut [u32]) {
    columns::add_row(values, mean, exponents, numbers);
}

/// See [`crate::kernel::Kernel::sum_offsets`].
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn sum_offsets(values: &[u8], offsets: &[u8]) -> i32 {
    columns::sum_offsets(values, offsets)
}
