//! Values of a chunk to byte groups and back.

use super::Scheme;
use crate::DType;
use crate::kernel::Kernel;

/// Cuts the bytes of values into groups, most significant first, of which `groups` has as many as a value has bytes, of a byte for each value.
///
/// With ZipNN's rule the first group of BF16 and F32 is the exponent, and the sign is on top of the second (exponent extraction).
pub(super) fn split(kernel: &Kernel, scheme: Scheme, dtype: DType, values: &[u8], groups: &mut [&mut [u8]]) {
    match (scheme, dtype, groups) {
        (Scheme::Grouped, DType::Bf16, [exponents, rest]) => (kernel.split)(values, 0, rest, exponents),
        (Scheme::Grouped, DType::F32, [exponents, high, middle, low]) => {
            (kernel.split_32)(values, 0, [low, middle, high], exponents);
        }
        (_, _, [high, low]) => (kernel.split_bytes_2)(values, low, high),
        (_, _, [first, second, third, fourth]) => {
            (kernel.split_bytes_4)(values, [fourth, third, second, first]);
        }
        (_, _, groups) => groups.iter_mut().for_each(|group| group.copy_from_slice(values)),
    }
}

/// The inverse.
pub(super) fn join(kernel: &Kernel, scheme: Scheme, dtype: DType, groups: &[&[u8]], values: &mut [u8]) {
    match (scheme, dtype, groups) {
        (Scheme::Grouped, DType::Bf16, [exponents, rest]) => (kernel.join)(rest, exponents, 0, values),
        (Scheme::Grouped, DType::F32, [exponents, high, middle, low]) => {
            (kernel.join_32)([low, middle, high], exponents, 0, values);
        }
        (_, _, [high, low]) => (kernel.join_bytes_2)(low, high, values),
        (_, _, [first, second, third, fourth]) => {
            (kernel.join_bytes_4)([fourth, third, second, first], values);
        }
        (_, _, groups) => groups.iter().for_each(|group| values.copy_from_slice(group)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::levels;

    #[test]
    fn groups_are_bytes_by_significance_and_come_back() {
        let value = |dtype, value: u64| value.to_le_bytes()[..DType::width(dtype)].to_vec();
        for kernel in levels::all() {
            for (scheme, dtype, bits, expected) in [
                // Sign 1, exponent 0x81, mantissa 0x5a.
                (Scheme::Grouped, DType::Bf16, 0xc0da, &[0x81, 0xda][..]),
                (Scheme::Blockwise, DType::Bf16, 0xc0da, &[0xc0, 0xda]),
                (Scheme::Grouped, DType::F32, 0xc0da_1234, &[0x81, 0xda, 0x12, 0x34]),
                (Scheme::Blockwise, DType::F32, 0xc0da_1234, &[0xc0, 0xda, 0x12, 0x34]),
                (Scheme::Grouped, DType::F16, 0xc0da, &[0xc0, 0xda]),
                (Scheme::Grouped, DType::F8E4M3, 0xc0, &[0xc0]),
                (Scheme::Blockwise, DType::F8E5M2, 0xc0, &[0xc0]),
            ] {
                for count in [0, 1, 7, 300] {
                    let mut values = value(dtype, bits).repeat(count);
                    if let Some(first) = values.first_mut() {
                        *first ^= 1;
                    }
                    let mut groups = vec![vec![0; count]; dtype.width()];
                    let mut rooms: Vec<&mut [u8]> = groups.iter_mut().map(Vec::as_mut_slice).collect();
                    split(kernel, scheme, dtype, &values, &mut rooms);
                    for (group, expected) in groups.iter().zip(expected) {
                        assert!(group.iter().skip(1).all(|byte| byte == expected), "{scheme:?} {dtype}");
                    }
                    let groups: Vec<&[u8]> = groups.iter().map(Vec::as_slice).collect();
                    let mut back = vec![0xff; values.len()];
                    join(kernel, scheme, dtype, &groups, &mut back);
                    assert_eq!(back, values, "{scheme:?} {dtype}");
                }
            }
        }
    }
}
