//! Bytes of values by significance, with shuffles that the compiler finds for this instruction set.

use crate::kernel::planes;

/// See [`crate::kernel::Kernel::split_bytes_2`].
#[target_feature(enable = "avx512bw,avx512vl,avx512vbmi,avx512vbmi2")]
pub(super) fn split_2(values: &[u8], low: &mut [u8], high: &mut [u8]) {
    planes::split_2(values, low, high);
}

/// See [`crate::kernel::Kernel::join_bytes_2`].
#[target_feature(enable = "avx512bw,avx512vl,avx512vbmi,avx512vbmi2")]
pub(super) fn join_2(low: &[u8], high: &[u8], values: &mut [u8]) {
    planes::join_2(low, high, values);
}

/// See [`crate::kernel::Kernel::split_bytes_4`].
#[target_feature(enable = "avx512bw,avx512vl,avx512vbmi,avx512vbmi2")]
pub(super) fn split_4(values: &[u8], planes: [&mut [u8]; 4]) {
    planes::split_4(values, planes);
}

/// See [`crate::kernel::Kernel::join_bytes_4`].
#[target_feature(enable = "avx512bw,avx512vl,avx512vbmi,avx512vbmi2")]
pub(super) fn join_4(planes: [&[u8]; 4], values: &mut [u8]) {
    planes::join_4(planes, values);
}
