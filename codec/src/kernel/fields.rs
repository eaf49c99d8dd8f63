//! Values of each type taken apart into exponents and the bits of sign and mantissa, and put together again; sums over their groups
//! and columns; bytes and halves of values by significance.
//!
//! The upper byte of an F16 value has the fields of E5M2, the upper half of an FP32 value is the BF16 value that it begins with. Most loops have no
//! branch: compilers turn them into vector code, or shuffles of whole vectors, for the level that they are in.

use super::{BASE_GROUP, GroupSums};

pub fn group_sums(values: &[u8], sums: &mut [GroupSums]) {
    for (values, sums) in values.chunks(2 * BASE_GROUP).zip(sums) {
        *sums = GroupSums::default();
        for value in values.as_chunks::<2>().0 {
            let value = u16::from_le_bytes(*value);
            sums.exponents += u32::from(value >> 7 & 0xff);
            sums.zeros += u32::from(value == 0);
        }
    }
}

pub fn split(values: &[u8], base: u8, rest: &mut [u8], residuals: &mut [u8]) {
    for ((value, rest), residual) in values.as_chunks::<2>().0.iter().zip(rest).zip(residuals) {
        let value = u16::from_le_bytes(*value);
        *rest = (value >> 8 & 0x80 | value & 0x7f) as u8;
        *residual = ((value >> 7) as u8).wrapping_sub(base);
    }
}

pub fn join(rest: &[u8], residuals: &[u8], base: u8, values: &mut [u8]) {
    for ((value, rest), residual) in values.as_chunks_mut::<2>().0.iter_mut().zip(rest).zip(residuals) {
        let (rest, exponent) = (u16::from(*rest), u16::from(residual.wrapping_add(base)));
        *value = ((rest & 0x80) << 8 | exponent << 7 | rest & 0x7f).to_le_bytes();
    }
}

/// Bits of the mantissa in the byte of the exponent, which are its lowest; the highest one is the sign.
pub type MantissaBits = u32;
/// Mantissa bits of E5M2, and of the upper byte of F16.
pub const E5: MantissaBits = 2;
/// Mantissa bits of E4M3.
pub const E4: MantissaBits = 3;

#[inline(always)]
fn exponent<const BITS: MantissaBits>(byte: u8) -> u8 {
    byte << 1 >> (BITS + 1)
}

/// The mantissa, and the sign above it.
#[inline(always)]
fn rest<const BITS: MantissaBits>(byte: u8) -> u8 {
    byte >> 7 << BITS | byte & ((1 << BITS) - 1)
}

/// The byte with this exponent, of which bits that do not belong there are in the second one, and rest.
#[inline(always)]
fn byte<const BITS: MantissaBits>(exponent: u8, rest: u8) -> (u8, u8) {
    let mantissa = rest & ((1 << BITS) - 1);
    (rest >> BITS << 7 | exponent << BITS & 0x7f | mantissa, exponent >> (7 - BITS))
}

#[inline(always)]
pub fn group_sums_8(values: &[u8], bits: MantissaBits, sums: &mut [GroupSums]) {
    match bits {
        E5 => sums_of::<E5, 1>(values, sums),
        _ => sums_of::<E4, 1>(values, sums),
    }
}

#[inline(always)]
pub fn group_sums_16(values: &[u8], sums: &mut [GroupSums]) {
    sums_of::<E5, 2>(values, sums);
}

#[inline(always)]
fn sums_of<const BITS: MantissaBits, const WIDTH: usize>(values: &[u8], sums: &mut [GroupSums]) {
    for (values, sums) in values.chunks(WIDTH * BASE_GROUP).zip(sums) {
        *sums = GroupSums::default();
        for value in values.as_chunks::<WIDTH>().0 {
            sums.exponents += u32::from(exponent::<BITS>(value[WIDTH - 1]));
            sums.zeros += u32::from(*value == [0; WIDTH]);
        }
    }
}

#[inline(always)]
pub fn split_8(values: &[u8], bits: MantissaBits, base: u8, upper: &mut [u8], residuals: &mut [u8]) {
    match bits {
        E5 => split_bytes::<E5>(values, base, upper, residuals),
        _ => split_bytes::<E4>(values, base, upper, residuals),
    }
}

#[inline(always)]
fn split_bytes<const BITS: MantissaBits>(values: &[u8], base: u8, upper: &mut [u8], residuals: &mut [u8]) {
    for ((value, upper), residual) in values.iter().zip(upper).zip(residuals) {
        *upper = rest::<BITS>(*value);
        *residual = exponent::<BITS>(*value).wrapping_sub(base);
    }
}

#[inline(always)]
pub fn join_8(upper: &[u8], residuals: &[u8], bits: MantissaBits, base: u8, values: &mut [u8]) -> bool {
    match bits {
        E5 => join_bytes::<E5>(upper, residuals, base, values),
        _ => join_bytes::<E4>(upper, residuals, base, values),
    }
}

#[inline(always)]
fn join_bytes<const BITS: MantissaBits>(upper: &[u8], residuals: &[u8], base: u8, values: &mut [u8]) -> bool {
    let mut beyond = 0;
    for ((value, upper), residual) in values.iter_mut().zip(upper).zip(residuals) {
        let (whole, more) = byte::<BITS>(residual.wrapping_add(base), *upper);
        *value = whole;
        beyond |= more;
    }
    beyond == 0
}

#[inline(always)]
pub fn split_16(values: &[u8], base: u8, low: &mut [u8], upper: &mut [u8], residuals: &mut [u8]) {
    let out = low.iter_mut().zip(upper).zip(residuals);
    for (value, ((low, upper), residual)) in values.as_chunks::<2>().0.iter().zip(out) {
        *low = value[0];
        *upper = rest::<E5>(value[1]);
        *residual = exponent::<E5>(value[1]).wrapping_sub(base);
    }
}

#[inline(always)]
pub fn join_16(low: &[u8], upper: &[u8], residuals: &[u8], base: u8, values: &mut [u8]) -> bool {
    let mut beyond = 0;
    let from = low.iter().zip(upper).zip(residuals);
    for (value, ((low, upper), residual)) in values.as_chunks_mut::<2>().0.iter_mut().zip(from) {
        let (whole, more) = byte::<E5>(residual.wrapping_add(base), *upper);
        *value = [*low, whole];
        beyond |= more;
    }
    beyond == 0
}

/// Byte planes of the rests.
pub const PLANES: usize = 3;

/// Bits that the byte planes of some values have in common. Bits and bytes are those of rests: the mantissa with the sign above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaneStats {
    /// Bits that are set in any value.
    pub any: u32,
    /// Bits that are set in all values that are not +0.
    pub all: u32,
    /// How many bytes of each plane are not 0.
    pub nonzero: [u32; PLANES],
}

#[inline(always)]
pub fn group_sums_32(values: &[u8], sums: &mut [GroupSums]) {
    for (values, sums) in values.chunks(4 * BASE_GROUP).zip(sums) {
        *sums = GroupSums::default();
        for value in values.as_chunks().0 {
            let value = u32::from_le_bytes(*value);
            sums.exponents += value >> 23 & 0xff;
            sums.zeros += u32::from(value == 0);
        }
    }
}

#[inline(always)]
pub fn plane_stats(values: &[u8]) -> PlaneStats {
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

#[inline(always)]
pub fn split_32(values: &[u8], base: u8, planes: [&mut [u8]; PLANES], residuals: &mut [u8]) {
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

#[inline(always)]
pub fn join_32(planes: [&[u8]; PLANES], residuals: &[u8], base: u8, values: &mut [u8]) {
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

#[inline(always)]
pub fn add_plane(number: usize, plane: &[u8], values: &mut [u8]) {
    for (value, byte) in values.as_chunks_mut().0.iter_mut().zip(plane) {
        let rest = u32::from(*byte) << (8 * number);
        *value = (u32::from_le_bytes(*value) | rest >> 23 << 31 | rest & 0x7f_ffff).to_le_bytes();
    }
}

// Bytes and halves by significance: loops that compilers turn into shuffles of whole vectors, where there are such.

#[inline(always)]
pub fn split_bytes_2(values: &[u8], low: &mut [u8], high: &mut [u8]) {
    for ((value, low), high) in values.as_chunks().0.iter().zip(low).zip(high) {
        [*low, *high] = *value;
    }
}

#[inline(always)]
pub fn join_bytes_2(low: &[u8], high: &[u8], values: &mut [u8]) {
    for ((value, low), high) in values.as_chunks_mut().0.iter_mut().zip(low).zip(high) {
        *value = [*low, *high];
    }
}

#[inline(always)]
pub fn split_bytes_4(values: &[u8], [first, second, third, fourth]: [&mut [u8]; 4]) {
    let planes = first.iter_mut().zip(second).zip(third).zip(fourth);
    for (value, (((first, second), third), fourth)) in values.as_chunks().0.iter().zip(planes) {
        [*first, *second, *third, *fourth] = *value;
    }
}

#[inline(always)]
pub fn join_bytes_4([first, second, third, fourth]: [&[u8]; 4], values: &mut [u8]) {
    let planes = first.iter().zip(second).zip(third.iter().zip(fourth));
    for (value, ((first, second), (third, fourth))) in values.as_chunks_mut().0.iter_mut().zip(planes) {
        *value = [*first, *second, *third, *fourth];
    }
}

pub fn upper_halves(values: &[u8], upper: &mut [u8]) {
    for (value, upper) in values.as_chunks::<4>().0.iter().zip(upper.as_chunks_mut::<2>().0) {
        *upper = [value[2], value[3]];
    }
}

pub fn lower_halves(values: &[u8], lower: &mut [u8]) -> bool {
    let mut any = 0;
    for (value, lower) in values.as_chunks::<4>().0.iter().zip(lower.as_chunks_mut::<2>().0) {
        *lower = [value[0], value[1]];
        any |= u16::from_le_bytes(*lower);
    }
    any != 0
}

pub fn join_halves(upper: &[u8], lower: &[u8], values: &mut [u8]) {
    let halves = upper.as_chunks::<2>().0.iter().zip(lower.as_chunks::<2>().0);
    for (value, (upper, lower)) in values.as_chunks_mut::<4>().0.iter_mut().zip(halves) {
        *value = [lower[0], lower[1], upper[0], upper[1]];
    }
}

/// Bits behind the point of the means that exponents are compared with.
pub const MEAN_FRACTION: u32 = 8;

// Sums over columns: loops without a branch, which compilers turn into vector code for the level that they are in.

#[inline(always)]
pub fn add_row(values: &[u8], mean: i32, exponents: &mut [i32], numbers: &mut [u32]) {
    let columns = exponents.iter_mut().zip(numbers);
    for (value, (sum, number)) in values.as_chunks().0.iter().zip(columns) {
        let value = u32::from(u16::from_le_bytes(*value));
        let nonzero = u32::from(value != 0);
        let distance = ((value >> 7 & 0xff) << MEAN_FRACTION).cast_signed() - mean;
        *sum += distance * nonzero.cast_signed();
        *number += nonzero;
    }
}

#[inline(always)]
pub fn sum_offsets(values: &[u8], offsets: &[u8]) -> i32 {
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
    use crate::levels;

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

    #[test]
    fn every_byte_comes_back() {
        let values: Vec<u8> = (0..=255).collect();
        for (bits, exponents) in [(E5, 32), (E4, 16)] {
            let (mut upper, mut residuals, mut back) = ([0; 256], [0; 256], [0xee; 256]);
            split_8(&values, bits, 9, &mut upper, &mut residuals);
            for (value, (upper, residual)) in values.iter().zip(upper.iter().zip(&residuals)) {
                assert_eq!(
                    u32::from(*upper),
                    (u32::from(value >> 7) << bits) + u32::from(*value) % (1 << bits)
                );
                assert_eq!(residual.wrapping_add(9), (value % 128) >> bits);
            }
            assert!(join_8(&upper, &residuals, bits, 9, &mut back) && back[..] == values);
            assert!(!join_8(&upper[..1], &[exponents], bits, 0, &mut back[..1]));
            let mut sums = [GroupSums::default()];
            group_sums_8(&values, bits, &mut sums);
            let each = 256 / u32::from(exponents);
            let exponents: u32 = (0..u32::from(exponents)).sum();
            assert_eq!(sums, [GroupSums { exponents: each * exponents, zeros: 1 }]);
        }
    }

    #[test]
    fn the_upper_byte_of_f16_is_e5m2() {
        let values: Vec<u8> =
            (0..300_u32).flat_map(|i| (i.wrapping_mul(0x9e37) as u16).to_le_bytes()).collect();
        let (lows, highs): (Vec<u8>, Vec<u8>) = values.chunks(2).map(|value| (value[0], value[1])).unzip();
        let [mut low, mut upper, mut residuals] = [[0; 300]; 3];
        split_16(&values, 9, &mut low, &mut upper, &mut residuals);
        let [mut expected_upper, mut expected] = [[0; 300]; 2];
        split_8(&highs, E5, 9, &mut expected_upper, &mut expected);
        assert!(low[..] == lows && upper == expected_upper && residuals == expected);
        let mut back = vec![0xee; 600];
        assert!(join_16(&low, &upper, &residuals, 9, &mut back) && back == values);
        assert!(!join_16(&low[..1], &upper[..1], &[32], 0, &mut back[..2]));
        let mut sums = [GroupSums::default(); 2];
        group_sums_16(&values, &mut sums);
        assert_eq!(sums[0].zeros, 1);
        assert_eq!(
            sums[1].exponents,
            highs[256..].iter().map(|high| u32::from((high % 128) >> 2)).sum::<u32>()
        );
    }

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

    #[test]
    fn bytes_are_split_by_place_and_come_back() {
        for kernel in levels::all() {
            for count in [0, 1, 3, 63, 64, 65, 127, 129, 1000] {
                let values: Vec<u8> = (0..4 * count).map(|i| ((i * 7) ^ (i >> 5)) as u8).collect();
                let byte = |width: usize, at: usize| -> Vec<u8> {
                    values[..width * count].iter().skip(at).step_by(width).copied().collect()
                };
                let mut planes = [(); 4].map(|()| vec![0x55; count]);
                let [a, b, c, d] = planes.each_mut().map(Vec::as_mut_slice);
                (kernel.split_bytes_4)(&values, [a, b, c, d]);
                assert_eq!(planes, [0, 1, 2, 3].map(|at| byte(4, at)), "{} {count}", kernel.level);
                let mut back = vec![0; values.len()];
                (kernel.join_bytes_4)(planes.each_ref().map(Vec::as_slice), &mut back);
                assert_eq!(back, values);

                let [low, high, ..] = &mut planes;
                (kernel.split_bytes_2)(&values[..2 * count], low, high);
                assert_eq!((&*low, &*high), (&byte(2, 0), &byte(2, 1)), "{} {count}", kernel.level);
                let mut back = vec![0; 2 * count];
                (kernel.join_bytes_2)(low, high, &mut back);
                assert_eq!(back, values[..2 * count]);
            }
        }
    }

    #[test]
    fn halves_are_taken_and_joined() {
        let values: Vec<u8> = (0..40).collect();
        let (mut high, mut low) = ([0; 20], [0; 20]);
        upper_halves(&values, &mut high);
        assert!(lower_halves(&values, &mut low));
        assert_eq!((high[..4].to_vec(), low[..4].to_vec()), (vec![2, 3, 6, 7], vec![0, 1, 4, 5]));
        let mut back = [0xff; 40];
        join_halves(&high, &low, &mut back);
        assert_eq!(back[..], values);
        let short = 1.5f32.to_le_bytes().repeat(3);
        assert!(!lower_halves(&short, &mut low[..6]));
        assert_eq!(low[..6], [0; 6]);
    }

    #[test]
    fn zeros_are_in_no_sum() {
        let values = [0x4000u16, 0, 0x8000, 0xbf80].map(u16::to_le_bytes).concat();
        let (mut exponents, mut numbers) = ([5; 4], [1; 4]);
        add_row(&values, 127 << MEAN_FRACTION, &mut exponents, &mut numbers);
        assert_eq!((exponents, numbers), ([5 + 256, 5, 5 - (127 << 8), 5], [2, 1, 2, 2]));
        assert_eq!(sum_offsets(&values, &[3, 100, 254, 10]), 3 - 2 + 10);
    }
}
