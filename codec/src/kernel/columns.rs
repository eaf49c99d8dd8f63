//! Sums over the columns of BF16 values. Loops without a branch, which compilers turn into vector code for the level that they
//! are in.

/// Bits behind the point of the means that exponents are compared with.
pub(crate) const FRACTION: u32 = 8;

/// See [`super::Kernel::add_row`].
#[inline(always)]
pub(crate) fn add_row(values: &[u8], mean: i32, exponents: &mut [i32], numbers: &mut [u32]) {
    let columns = exponents.iter_mut().zip(numbers);
    for (value, (sum, number)) in values.as_chunks().0.iter().zip(columns) {
        let value = u32::from(u16::from_le_bytes(*value));
        let nonzero = u32::from(value != 0);
        let distance = ((value >> 7 & 0xff) << FRACTION).cast_signed() - mean;
        *sum += distance * nonzero.cast_signed();
        *number += nonzero;
    }
}

/// See [`super::Kernel::sum_offsets`].
#[inline(always)]
pub(crate) fn sum_offsets(values: &[u8], offsets: &[u8]) -> i32 {
    let mut sum = 0;
    for (value, offset) in values.as_chunks().0.iter().zip(offsets) {
        let nonzero = i32::from(u16::from_le_bytes(*value) != 0);
        sum += nonzero * i32::from(offset.cast_signed());
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_in_no_sum() {
        let values = [0x4000u16, 0, 0x8000, 0xbf80].map(u16::to_le_bytes).concat();
        let (mut exponents, mut numbers) = ([5; 4], [1; 4]);
        add_row(&values, 127 << FRACTION, &mut exponents, &mut numbers);
        assert_eq!((exponents, numbers), ([5 + 256, 5, 5 - (127 << 8), 5], [2, 1, 2, 2]));
        assert_eq!(sum_offsets(&values, &[3, 100, 254, 10]), 3 - 2 + 10);
    }
}
