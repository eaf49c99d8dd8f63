//! FP32 values taken apart into exponents and three bytes of sign and mantissa, and put together again.

use super::{BASE_GROUP, GroupSums};

/// Byte planes of the rests.
pub(crate) const PLANES: usize = 3;

/// Bits that the byte planes of some values have in common. Bits and bytes are those of rests: the mantissa with the sign above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlaneStats {
    /// Bits that are set in any value.
    pub(crate) any: u32,
    /// Bits that are set in all values that are not +0.
    pub(crate) all: u32,
    /// How many bytes of each plane are not 0.
    pub(crate) nonzero: [u32; PLANES],
}

/// See [`super::Kernel::group_sums_32`].
#[inline(always)]
pub(crate) fn group_sums_32(values: &[u8], sums: &mut [GroupSums]) {
    for (values, sums) in values.chunks(4 * BASE_GROUP).zip(sums) {
        *sums = GroupSums::default();
        for value in values.as_chunks().0 {
            let value = u32::from_le_bytes(*value);
            sums.exponents += value >> 23 & 0xff;
            sums.zeros += u32::from(value == 0);
        }
    }
}

/// See [`super::Kernel::plane_stats`].
#[inline(always)]
pub(crate) fn plane_stats(values: &[u8]) -> PlaneStats {
    let (mut any, mut all, mut nonzero) = (0, u32::MAX, [0; PLANES]);
    for value in values.as_chunks().0 {
        let value = u32::from_le_bytes(*value);
        let rest = rest_of(value);
        any |= rest;
        all &= if value == 0 { u32::MAX } else { rest };
        for (plane, nonzero) in nonzero.iter_mut().enumerate() {
            *nonzero += u32::from(rest >> (8 * plane) & 0xff != 0);
        }
    }
    PlaneStats { any, all: all & 0xff_ffff, nonzero }
}

#[inline(always)]
fn rest_of(value: u32) -> u32 {
    value >> 31 << 23 | value & 0x7f_ffff
}

/// See [`super::Kernel::split_32`].
#[inline(always)]
pub(crate) fn split_32(values: &[u8], base: u8, planes: [&mut [u8]; PLANES], residuals: &mut [u8]) {
    let [first, second, third] = planes;
    let planes = first.iter_mut().zip(second).zip(third);
    for (value, (((first, second), third), residual)) in
        values.as_chunks().0.iter().zip(planes.zip(residuals))
    {
        let value = u32::from_le_bytes(*value);
        [*first, *second, *third, _] = rest_of(value).to_le_bytes();
        *residual = ((value >> 23) as u8).wrapping_sub(base);
    }
}

/// See [`super::Kernel::join_32`].
#[inline(always)]
pub(crate) fn join_32(planes: [&[u8]; PLANES], residuals: &[u8], base: u8, values: &mut [u8]) {
    let [first, second, third] = planes;
    let planes = first.iter().zip(second).zip(third);
    for (value, (((first, second), third), residual)) in
        values.as_chunks_mut().0.iter_mut().zip(planes.zip(residuals))
    {
        let exponent = u32::from(residual.wrapping_add(base));
        let rest = u32::from_le_bytes([*first, *second, *third, 0]);
        *value = (rest >> 23 << 31 | exponent << 23 | rest & 0x7f_ffff).to_le_bytes();
    }
}

/// See [`super::Kernel::add_plane`].
#[inline(always)]
pub(crate) fn add_plane(number: usize, plane: &[u8], values: &mut [u8]) {
    for (value, byte) in values.as_chunks_mut().0.iter_mut().zip(plane) {
        let rest = u32::from(*byte) << (8 * number);
        *value = (u32::from_le_bytes(*value) | rest >> 23 << 31 | rest & 0x7f_ffff).to_le_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_and_are_summed() {
        let value = |i: u32| match i % 5 {
            0 => 0,
            1 => i.wrapping_mul(0x9e37_79b1),
            2 => 0x8000_0000 | i << 23,
            3 => 0x3f80_0000 + i,
            _ => u32::MAX - i,
        };
        let words: Vec<u32> = (0..600).map(value).collect();
        let values: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut planes = [const { [0; 600] }; PLANES];
        let mut residuals = [0; 600];
        let [a, b, c] = &mut planes;
        split_32(&values, 100, [a, b, c], &mut residuals);
        let rests = words.iter().map(|word| (word >> 31 << 23) + word % (1 << 23));
        for (i, rest) in rests.clone().enumerate() {
            assert_eq!(rest, u32::from_le_bytes([planes[0][i], planes[1][i], planes[2][i], 0]));
            assert_eq!(u32::from(residuals[i].wrapping_add(100)), words[i] >> 23 & 0xff);
        }
        let mut back = vec![0; values.len()];
        let [a, b, c] = &planes;
        join_32([a, b, c], &residuals, 100, &mut back);
        assert!(back == values);
        // A plane that is missing, and added.
        for missing in 0..PLANES {
            let none = [0; 600];
            let parts: [&[u8]; 3] =
                std::array::from_fn(|plane| if plane == missing { &none[..] } else { &planes[plane] });
            join_32(parts, &residuals, 100, &mut back);
            add_plane(missing, &planes[missing], &mut back);
            assert!(back == values);
        }

        let stats = plane_stats(&values);
        assert_eq!(stats.any, rests.clone().fold(0, |any, rest| any | rest));
        let coded = words.iter().zip(rests.clone()).filter(|(word, _)| **word != 0);
        assert_eq!(stats.all, coded.fold(0xff_ffff, |all, (_, rest)| all & rest));
        for (plane, nonzero) in stats.nonzero.into_iter().enumerate() {
            assert_eq!(nonzero as usize, planes[plane].iter().filter(|byte| **byte != 0).count());
        }
        let mut sums = [GroupSums::default(); 3];
        group_sums_32(&values, &mut sums);
        let exponents: u32 = words[512..].iter().map(|word| word >> 23 & 0xff).sum();
        let zeros = words[512..].iter().filter(|word| **word == 0).count() as u32;
        assert_eq!(sums[2], GroupSums { exponents, zeros });
    }
}
