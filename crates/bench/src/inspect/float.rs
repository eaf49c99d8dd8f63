//! Sign, exponent and mantissa of a value, and the number that they encode.

use zipwire_codec::DType;

/// How a type lays out its bits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Format {
    pub(super) exponent_bits: u32,
    pub(super) mantissa_bits: u32,
}

/// One value in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parts {
    pub(super) sign: u32,
    pub(super) exponent: u32,
    pub(super) mantissa: u32,
}

impl Format {
    pub(super) fn of(dtype: DType) -> Self {
        let (exponent_bits, mantissa_bits) = match dtype {
            DType::Bf16 => (8, 7),
            DType::F16 => (5, 10),
            DType::F32 => (8, 23),
            DType::F8E4M3 => (4, 3),
            DType::F8E5M2 => (5, 2),
        };
        Self { exponent_bits, mantissa_bits }
    }

    pub(super) fn bits(self) -> u32 {
        1 + self.exponent_bits + self.mantissa_bits
    }

    pub(super) fn split(self, bits: u32) -> Parts {
        let mask = |count: u32| (1 << count) - 1;
        Parts {
            sign: bits >> (self.exponent_bits + self.mantissa_bits) & 1,
            exponent: bits >> self.mantissa_bits & mask(self.exponent_bits),
            mantissa: bits & mask(self.mantissa_bits),
        }
    }

    /// Power of two of the lowest value with this exponent.
    pub(super) fn power(self, exponent: u32) -> i32 {
        exponent.max(1).cast_signed() - (1 << (self.exponent_bits - 1)) + 1
    }

    /// The number that the parts encode; `None` for infinities and NaN.
    pub(super) fn value(self, Parts { sign, exponent, mantissa }: Parts) -> Option<f64> {
        let top = exponent == (1 << self.exponent_bits) - 1;
        // E4M3 has one NaN and no infinity; its other top values are finite.
        let is_e4m3 = self.exponent_bits == 4;
        if top && (!is_e4m3 || mantissa == (1 << self.mantissa_bits) - 1) {
            return None;
        }
        let implicit = if exponent == 0 { 0 } else { 1 << self.mantissa_bits };
        let scale = self.power(exponent) - self.mantissa_bits.cast_signed();
        let magnitude = libm::scalbn(f64::from(mantissa + implicit), scale);
        Some(if sign == 1 { -magnitude } else { magnitude })
    }
}

/// The bit patterns of little-endian values; a tail that is no whole value is left out.
pub(super) fn patterns(dtype: DType, bytes: &[u8]) -> impl Iterator<Item = u32> + '_ {
    bytes.chunks_exact(dtype.width()).map(|value| {
        let mut pattern = [0; 4];
        pattern[..value.len()].copy_from_slice(value);
        u32::from_le_bytes(pattern)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(dtype: DType, bits: u32) -> Option<f64> {
        let format = Format::of(dtype);
        format.value(format.split(bits))
    }

    #[test]
    fn values_are_those_of_the_hardware() {
        for bits in 0..=u32::from(u16::MAX) {
            let expected = f32::from_bits(bits << 16);
            assert_eq!(value(DType::Bf16, bits), expected.is_finite().then(|| f64::from(expected)));
        }
        for bits in (0..u32::MAX - 65_521).step_by(65_521) {
            let expected = f32::from_bits(bits);
            assert_eq!(value(DType::F32, bits), expected.is_finite().then(|| f64::from(expected)));
        }
    }

    #[test]
    fn small_types_follow_their_specifications() {
        // IEEE 754 binary16, and the tables of "FP8 Formats for Deep Learning" (arXiv 2209.05433).
        let cases = [
            (DType::F16, 0x3c00, Some(1.0)),
            (DType::F16, 0x0001, Some(2_f64.powi(-24))),
            (DType::F16, 0x7bff, Some(65504.0)),
            (DType::F16, 0x7c00, None),
            (DType::F8E4M3, 0x7e, Some(448.0)),
            (DType::F8E4M3, 0x01, Some(2_f64.powi(-9))),
            (DType::F8E4M3, 0xff, None),
            (DType::F8E5M2, 0x7b, Some(57344.0)),
            (DType::F8E5M2, 0x81, Some(-(2_f64.powi(-16)))),
            (DType::F8E5M2, 0x7c, None),
        ];
        for (dtype, bits, expected) in cases {
            assert_eq!(value(dtype, bits), expected, "{dtype} {bits:#x}");
        }
    }
}
