//! How values divide into exponent and rest. BF16 has kernels; FP8 goes eight values at a time through 64-bit words.

use crate::kernel::bits::{spread, together, word};
use crate::kernel::{Kernel, TILE};
use zipwire_codec::DType;

/// A type of values that the codec codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fields {
    Bf16,
    E4m3,
    E5m2,
}

impl Fields {
    /// The fields of a type, if it is coded.
    pub(super) fn of(dtype: DType) -> Option<Self> {
        match dtype {
            DType::Bf16 => Some(Self::Bf16),
            DType::F8E4M3 => Some(Self::E4m3),
            DType::F8E5M2 => Some(Self::E5m2),
            DType::F16 | DType::F32 => None,
        }
    }

    /// Bytes of a value.
    pub(super) fn width(self) -> usize {
        match self {
            Self::Bf16 => 2,
            Self::E4m3 | Self::E5m2 => 1,
        }
    }

    /// Number of exponents.
    pub(super) fn exponents(self) -> usize {
        match self {
            Self::Bf16 => 256,
            Self::E4m3 => 16,
            Self::E5m2 => 32,
        }
    }

    /// Bits of sign and mantissa.
    pub(super) fn rest_bits(self) -> usize {
        match self {
            Self::Bf16 => 8,
            Self::E4m3 => 4,
            Self::E5m2 => 3,
        }
    }

    /// Bytes that the rests of `count` values take.
    pub(super) fn rest_len(self, count: usize) -> usize {
        match self {
            Self::Bf16 => count,
            Self::E4m3 | Self::E5m2 => 8 * self.rest_bits() * count.div_ceil(64),
        }
    }

    /// Adds how often each exponent occurs.
    pub(super) fn count(self, kernel: &Kernel, values: &[u8], counts: &mut [u64; 256]) {
        if self == Self::Bf16 {
            for values in values.chunks(2 * TILE) {
                let found = (kernel.histogram)(values);
                counts.iter_mut().zip(found).for_each(|(count, found)| *count += u64::from(found));
            }
            return;
        }
        for values in values.chunks(2 * TILE) {
            // Four tables, because equal neighbours would wait for each other's counts in one.
            let mut tables = [[0u32; 256]; 4];
            for values in values.chunks(4) {
                for (table, value) in tables.iter_mut().zip(values) {
                    table[usize::from(*value)] += 1;
                }
            }
            for value in 0..=u8::MAX {
                let found: u32 = tables.iter().map(|table| table[usize::from(value)]).sum();
                counts[usize::from(self.exponent(value))] += u64::from(found);
            }
        }
    }

    /// Writes exponents, a byte each, and rests of a tile.
    pub(super) fn split(self, kernel: &Kernel, values: &[u8], rest: &mut [u8], exponents: &mut [u8]) {
        if self == Self::Bf16 {
            return (kernel.split)(values, 0, rest, exponents);
        }
        for (exponent, value) in exponents.iter_mut().zip(values) {
            *exponent = self.exponent(*value);
        }
        let steps = values.chunks(64).zip(rest.chunks_mut(8 * self.rest_bits()));
        for (values, planes) in steps {
            for (plane, position) in planes.chunks_mut(8).zip(self.rest_positions()) {
                plane.fill(0);
                for (byte, values) in plane.iter_mut().zip(values.chunks(8)) {
                    *byte = together(word(values), *position);
                }
            }
        }
    }

    /// The inverse of [`Self::split`], for exponents of the type. Returns whether no bit beyond the last value is set.
    #[must_use]
    pub(super) fn join(self, kernel: &Kernel, rest: &[u8], exponents: &[u8], out: &mut [u8]) -> bool {
        if self == Self::Bf16 {
            (kernel.join)(rest, exponents, 0, out);
            return true;
        }
        let mut beyond = 0;
        let steps = out.chunks_mut(64).zip(exponents.chunks(64)).zip(rest.chunks(8 * self.rest_bits()));
        for ((out, exponents), planes) in steps {
            for (plane, position) in planes.chunks(8).zip(self.rest_positions()) {
                let bits = word(plane);
                beyond |= if out.len() < 64 { bits >> out.len() } else { 0 };
                for (i, out) in out.chunks_mut(8).enumerate() {
                    let before = if *position == 0 { 0 } else { word(out) };
                    let ones = spread((bits >> (8 * i)) as u8);
                    out.copy_from_slice(&(before | ones << position).to_le_bytes()[..out.len()]);
                }
            }
            for (out, exponent) in out.iter_mut().zip(exponents) {
                *out |= exponent << (self.rest_bits() - 1);
            }
        }
        beyond == 0
    }

    /// How many values are +0.
    pub(super) fn zeros(self, kernel: &Kernel, values: &[u8]) -> usize {
        match self {
            Self::Bf16 => (kernel.zeros)(values),
            Self::E4m3 | Self::E5m2 => values.iter().map(|value| usize::from(*value == 0)).sum(),
        }
    }

    /// See [`Kernel::drop_zeros`].
    pub(super) fn drop_zeros(self, kernel: &Kernel, values: &[u8], mask: &mut [u8], kept: &mut [u8]) {
        if self == Self::Bf16 {
            (kernel.drop_zeros)(values, mask, kept);
            return;
        }
        let mut count = 0;
        for (values, mask) in values.chunks(8).zip(mask) {
            *mask = 0;
            for (i, value) in values.iter().enumerate() {
                // Written even if it is zero: then the next value takes its place.
                kept[count] = *value;
                *mask |= u8::from(*value != 0) << i;
                count += usize::from(*value != 0);
            }
        }
    }

    /// See [`Kernel::restore_zeros`].
    pub(super) fn restore_zeros(self, kernel: &Kernel, mask: &[u8], kept: &[u8], out: &mut [u8]) {
        if self == Self::Bf16 {
            return (kernel.restore_zeros)(mask, kept, out);
        }
        let mut kept = kept.iter();
        for (i, out) in out.iter_mut().enumerate() {
            let marked = mask[i / 8] >> (i % 8) & 1 == 1;
            *out = if marked { kept.next().copied().unwrap_or(0) } else { 0 };
        }
    }

    /// The exponent of a value of FP8.
    fn exponent(self, value: u8) -> u8 {
        (value & 0x7f) >> (self.rest_bits() - 1)
    }

    /// Positions of the bits of the rest in a value of FP8: the mantissa, then the sign. The first is always 0.
    fn rest_positions(self) -> &'static [u32] {
        match self {
            Self::E5m2 => &[0, 1, 7],
            Self::E4m3 | Self::Bf16 => &[0, 1, 2, 7],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::portable;

    #[test]
    fn every_pattern_and_every_short_tail_of_fp8_comes_back() {
        let all: Vec<u8> = (0..=255).collect();
        for (fields, mantissa_bits) in [(Fields::E4m3, 3), (Fields::E5m2, 2)] {
            for count in (0..140).step_by(if cfg!(miri) { 23 } else { 1 }).chain([256]) {
                let values = &all[256 - count..];
                let (mut rest, mut exponents) = (vec![0xee; fields.rest_len(count)], vec![0xee; count]);
                fields.split(portable(), values, &mut rest, &mut exponents);
                for (i, (value, exponent)) in values.iter().zip(&exponents).enumerate() {
                    assert_eq!(*exponent, (value & 0x7f) >> mantissa_bits);
                    // The last plane has the signs.
                    let byte = (i / 64 * fields.rest_bits() + mantissa_bits) * 8 + i % 64 / 8;
                    assert_eq!(rest[byte] >> (i % 8) & 1, value >> 7);
                }
                let mut back = vec![0xee; count];
                assert!(fields.join(portable(), &rest, &exponents, &mut back));
                assert_eq!(back, values);
                if let (false, Some(last)) = (count % 64 == 0, rest.last_mut()) {
                    *last |= 0x80;
                    assert!(!fields.join(portable(), &rest, &exponents, &mut back));
                }
            }
        }
    }

    #[test]
    fn exponents_are_counted_and_zeros_come_back() {
        let all: Vec<u8> = (0..=255).chain([0; 9]).chain(0..=6).collect();
        for fields in [Fields::E4m3, Fields::E5m2] {
            let mut counts = [0; 256];
            fields.count(portable(), &all[..256], &mut counts);
            assert!(
                counts[..fields.exponents()].iter().all(|count| *count == 256 / fields.exponents() as u64)
            );
            assert!(counts[fields.exponents()..].iter().all(|count| *count == 0));
            let (mut mask, mut kept) = (vec![0xee; all.len().div_ceil(8)], vec![0xee; all.len()]);
            let zeros = fields.zeros(portable(), &all);
            assert_eq!(zeros, 11);
            fields.drop_zeros(portable(), &all, &mut mask, &mut kept);
            let mut back = vec![0xee; all.len()];
            fields.restore_zeros(portable(), &mask, &kept[..all.len() - zeros], &mut back);
            assert_eq!(back, all);
        }
    }
}
