//! BF16 values taken apart into exponents and sign-mantissa bytes, and put together again.

use super::{BASE_GROUP, GroupSums};

/// See [`super::Kernel::group_sums`].
pub(crate) fn group_sums(values: &[u8], sums: &mut [GroupSums]) {
    for (values, sums) in values.chunks(2 * BASE_GROUP).zip(sums) {
        *sums = GroupSums::default();
        for value in values.as_chunks::<2>().0 {
            let value = u16::from_le_bytes(*value);
            sums.exponents += u32::from(value >> 7 & 0xff);
            sums.zeros += u32::from(value == 0);
        }
    }
}

/// See [`super::Kernel::split`].
pub(crate) fn split(values: &[u8], base: u8, rest: &mut [u8], residuals: &mut [u8]) {
    for ((value, rest), residual) in values.as_chunks::<2>().0.iter().zip(rest).zip(residuals) {
        let value = u16::from_le_bytes(*value);
        *rest = (value >> 8 & 0x80 | value & 0x7f) as u8;
        *residual = ((value >> 7) as u8).wrapping_sub(base);
    }
}

/// See [`super::Kernel::join`].
pub(crate) fn join(rest: &[u8], residuals: &[u8], base: u8, values: &mut [u8]) {
    for ((value, rest), residual) in values.as_chunks_mut::<2>().0.iter_mut().zip(rest).zip(residuals) {
        let (rest, exponent) = (u16::from(*rest), u16::from(residual.wrapping_add(base)));
        *value = ((rest & 0x80) << 8 | exponent << 7 | rest & 0x7f).to_le_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "every pattern takes minutes; frames have few")]
    fn every_pattern_comes_back_and_is_summed() {
        let values: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
        let (mut rest, mut residuals) = (vec![0; 1 << 16], vec![0; 1 << 16]);
        split(&values, 120, &mut rest, &mut residuals);
        assert_eq!((rest[0xbf81], residuals[0xbf81]), (0x81, 127 - 120));
        let mut back = vec![0; values.len()];
        join(&rest, &residuals, 120, &mut back);
        assert_eq!(back, values);

        let mut sums = [GroupSums::default(); 256];
        group_sums(&values, &mut sums);
        // The first group has exponents 0 and 1, and one +0; the last one has 254 and 255.
        assert_eq!(sums[0], GroupSums { exponents: 128, zeros: 1 });
        assert_eq!(sums[255], GroupSums { exponents: 128 * (254 + 255), zeros: 0 });
    }
}
