//! F16 and FP8 values taken apart into exponents, the bits of sign and mantissa in the byte of the exponent, and the byte below; and
//! put together again. The upper byte of an F16 value has the fields of E5M2.

use super::{BASE_GROUP, GroupSums};

/// Bits of the mantissa in the byte of the exponent, which are its lowest; the highest one is the sign.
pub(crate) type MantissaBits = u32;
/// Mantissa bits of E5M2, and of the upper byte of F16.
pub(crate) const E5: MantissaBits = 2;
/// Mantissa bits of E4M3.
pub(crate) const E4: MantissaBits = 3;

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

/// See [`super::Kernel::group_sums_8`].
#[inline(always)]
pub(crate) fn group_sums_8(values: &[u8], bits: MantissaBits, sums: &mut [GroupSums]) {
    match bits {
        E5 => group_sums::<E5, 1>(values, sums),
        _ => group_sums::<E4, 1>(values, sums),
    }
}

/// See [`super::Kernel::group_sums_16`].
#[inline(always)]
pub(crate) fn group_sums_16(values: &[u8], sums: &mut [GroupSums]) {
    group_sums::<E5, 2>(values, sums);
}

#[inline(always)]
fn group_sums<const BITS: MantissaBits, const WIDTH: usize>(values: &[u8], sums: &mut [GroupSums]) {
    for (values, sums) in values.chunks(WIDTH * BASE_GROUP).zip(sums) {
        *sums = GroupSums::default();
        for value in values.as_chunks::<WIDTH>().0 {
            sums.exponents += u32::from(exponent::<BITS>(value[WIDTH - 1]));
            sums.zeros += u32::from(*value == [0; WIDTH]);
        }
    }
}

/// See [`super::Kernel::split_8`].
#[inline(always)]
pub(crate) fn split_8(values: &[u8], bits: MantissaBits, base: u8, upper: &mut [u8], residuals: &mut [u8]) {
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

/// See [`super::Kernel::join_8`].
#[inline(always)]
pub(crate) fn join_8(
    upper: &[u8],
    residuals: &[u8],
    bits: MantissaBits,
    base: u8,
    values: &mut [u8],
) -> bool {
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

/// See [`super::Kernel::split_16`].
#[inline(always)]
pub(crate) fn split_16(values: &[u8], base: u8, low: &mut [u8], upper: &mut [u8], residuals: &mut [u8]) {
    let out = low.iter_mut().zip(upper).zip(residuals);
    for (value, ((low, upper), residual)) in values.as_chunks::<2>().0.iter().zip(out) {
        *low = value[0];
        *upper = rest::<E5>(value[1]);
        *residual = exponent::<E5>(value[1]).wrapping_sub(base);
    }
}

/// See [`super::Kernel::join_16`].
#[inline(always)]
pub(crate) fn join_16(low: &[u8], upper: &[u8], residuals: &[u8], base: u8, values: &mut [u8]) -> bool {
    let mut beyond = 0;
    let from = low.iter().zip(upper).zip(residuals);
    for (value, ((low, upper), residual)) in values.as_chunks_mut::<2>().0.iter_mut().zip(from) {
        let (whole, more) = byte::<E5>(residual.wrapping_add(base), *upper);
        *value = [*low, whole];
        beyond |= more;
    }
    beyond == 0
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
