//! How values of a type divide into sign, exponent and mantissa.

use crate::DType;
use crate::kernel::fields::{E4, E5, PLANES};
use crate::kernel::{GroupSums, Kernel};

/// A type of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fields {
    pub(super) dtype: DType,
}

/// Positions of the fields of a type. Loops over values look them up once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    mantissa_bits: u32,
    sign_shift: u32,
    exponent_mask: u32,
}

impl Places {
    /// The exponent of a value.
    #[inline(always)]
    pub(super) fn exponent(self, value: u32) -> u32 {
        value >> self.mantissa_bits & self.exponent_mask
    }

    /// The rest of a value.
    #[inline(always)]
    pub(super) fn rest(self, value: u32) -> u32 {
        value >> self.sign_shift << self.mantissa_bits | value & ((1 << self.mantissa_bits) - 1)
    }
}

impl Fields {
    /// The fields of a type.
    pub(super) fn of(dtype: DType) -> Self {
        Self { dtype }
    }

    /// Bytes of a value.
    pub(super) fn width(self) -> usize {
        self.dtype.width()
    }

    /// Whether values are all exponent and mantissa, which then are coded together wherever that is possible.
    pub(super) fn is_short(self) -> bool {
        matches!(self.dtype, DType::F8E4M3 | DType::F8E5M2)
    }

    /// Bits of the mantissa: the exponent is above it, then comes the sign.
    pub(super) fn mantissa_bits(self) -> usize {
        self.dtype.mantissa_bits()
    }

    /// Bits of the rest: the mantissa, and the sign above it.
    pub(super) fn rest_bits(self) -> usize {
        self.mantissa_bits() + 1
    }

    /// Bits of the mantissa that are in the highest byte of the rest, below the sign.
    pub(super) fn top_mantissa_bits(self) -> u32 {
        self.mantissa_bits() as u32 % 8
    }

    /// About how many bits a +0 takes that is coded: it is mostly an escape, and has a rest.
    pub(super) fn bits_of_zero(self) -> usize {
        16 + self.rest_bits()
    }

    /// See [`Kernel::group_sums`].
    pub(super) fn group_sums(self, kernel: &Kernel, values: &[u8], sums: &mut [GroupSums]) {
        match self.dtype {
            DType::Bf16 => (kernel.group_sums)(values, sums),
            DType::F16 => (kernel.group_sums_16)(values, sums),
            DType::F32 => (kernel.group_sums_32)(values, sums),
            DType::F8E4M3 => (kernel.group_sums_8)(values, E4, sums),
            DType::F8E5M2 => (kernel.group_sums_8)(values, E5, sums),
        }
    }

    /// See [`Kernel::sum_offsets`].
    pub(super) fn sum_offsets(self, kernel: &Kernel, values: &[u8], offsets: &[u8]) -> i32 {
        if self.dtype == DType::Bf16 {
            return (kernel.sum_offsets)(values, offsets);
        }
        let (mut sum, mut offsets) = (0, offsets.iter());
        self.for_each(values, |value| {
            let offset = offsets.next().map_or(0, |offset| offset.cast_signed());
            sum += if value == 0 { 0 } else { i32::from(offset) };
        });
        sum
    }

    /// Rests and residuals of at most [`BASE_GROUP`] values. Of each rest, each byte is in a plane of its own.
    pub(super) fn split(
        self,
        kernel: &Kernel,
        values: &[u8],
        base: u8,
        planes: [&mut [u8]; PLANES],
        residuals: &mut [u8],
    ) {
        let [first, second, third] = planes;
        match self.dtype {
            DType::Bf16 => (kernel.split)(values, base, first, residuals),
            DType::F16 => (kernel.split_16)(values, base, first, second, residuals),
            DType::F32 => (kernel.split_32)(values, base, [first, second, third], residuals),
            DType::F8E4M3 => (kernel.split_8)(values, E4, base, first, residuals),
            DType::F8E5M2 => (kernel.split_8)(values, E5, base, first, residuals),
        }
    }

    /// The inverse of [`Self::split`]. Returns whether all exponents are ones of the type.
    #[must_use]
    pub(super) fn join(
        self,
        kernel: &Kernel,
        planes: [&[u8]; PLANES],
        residuals: &[u8],
        base: u8,
        values: &mut [u8],
    ) -> bool {
        let [first, second, _] = planes;
        match self.dtype {
            DType::Bf16 => (kernel.join)(first, residuals, base, values),
            DType::F16 => return (kernel.join_16)(first, second, residuals, base, values),
            DType::F32 => (kernel.join_32)(planes, residuals, base, values),
            DType::F8E4M3 => return (kernel.join_8)(first, residuals, E4, base, values),
            DType::F8E5M2 => return (kernel.join_8)(first, residuals, E5, base, values),
        }
        true
    }

    /// See [`Kernel::drop_zeros`]; returns bytes.
    pub(super) fn drop_zeros(
        self,
        kernel: &Kernel,
        values: &[u8],
        mask: &mut [u8],
        kept: &mut [u8],
    ) -> usize {
        let width = self.width();
        match width {
            2 => return 2 * (kernel.drop_zeros)(values, mask, kept),
            4 => return 4 * (kernel.drop_zeros_32)(values, mask, kept),
            _ => {}
        }
        mask.fill(0);
        let mut len = 0;
        for (i, value) in values.chunks_exact(width).enumerate() {
            // Written even if it is zero: then the next value takes its place.
            kept[len..len + width].copy_from_slice(value);
            let nonzero = value.iter().any(|byte| *byte != 0);
            mask[i / 8] |= u8::from(nonzero) << (i % 8);
            len += if nonzero { width } else { 0 };
        }
        len
    }

    /// See [`Kernel::restore_zeros`].
    pub(super) fn restore_zeros(self, kernel: &Kernel, mask: &[u8], kept: &[u8], out: &mut [u8]) {
        let width = self.width();
        match width {
            2 => return (kernel.restore_zeros)(mask, kept, out),
            4 => return (kernel.restore_zeros_32)(mask, kept, out),
            _ => {}
        }
        let mut kept = kept.chunks_exact(width);
        for (i, out) in out.chunks_exact_mut(width).enumerate() {
            let marked = mask[i / 8] >> (i % 8) & 1 == 1;
            match if marked { kept.next() } else { None } {
                Some(value) => out.copy_from_slice(value),
                None => out.fill(0),
            }
        }
    }

    /// Positions of the fields in a value.
    pub(super) fn places(self) -> Places {
        Places {
            mantissa_bits: self.mantissa_bits() as u32,
            sign_shift: 8 * self.width() as u32 - 1,
            exponent_mask: (1 << self.dtype.exponent_bits()) - 1,
        }
    }

    /// Visits each value as a number.
    #[inline(always)]
    pub(super) fn for_each(self, values: &[u8], mut visit: impl FnMut(u32)) {
        match self.width() {
            1 => values.iter().for_each(|value| visit(u32::from(*value))),
            2 => values.as_chunks().0.iter().for_each(|value| visit(u32::from(u16::from_le_bytes(*value)))),
            _ => values.as_chunks().0.iter().for_each(|value| visit(u32::from_le_bytes(*value))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{BASE_GROUP, PORTABLE};

    #[test]
    #[cfg_attr(miri, ignore = "every pattern takes minutes; frames have few")]
    fn every_pattern_comes_back_and_is_summed() {
        for dtype in DType::ALL {
            let fields = Fields::of(dtype);
            // All patterns of the short types; of the long one, all of its upper half.
            let shift = if dtype == DType::F32 { 16 } else { 0 };
            let pattern = |number: u32| (number << shift | number >> (31 - shift)).to_le_bytes();
            let values: Vec<u8> = (0..1u32 << (8 * dtype.width() - shift))
                .flat_map(|number| pattern(number).into_iter().take(dtype.width()))
                .collect();
            let mut sums = vec![GroupSums::default(); values.len().div_ceil(dtype.width() * BASE_GROUP)];
            fields.group_sums(&PORTABLE, &values, &mut sums);
            assert_eq!(sums.iter().map(|sums| sums.zeros).sum::<u32>(), 1, "{dtype}");
            for (group, sums) in values.chunks(dtype.width() * BASE_GROUP).zip(sums) {
                let split = |base| {
                    let (mut planes, mut residuals) = ([[0; BASE_GROUP]; PLANES], [0; BASE_GROUP]);
                    let [a, b, c] = &mut planes;
                    fields.split(&PORTABLE, group, base, [a, b, c], &mut residuals);
                    (planes, residuals)
                };
                let (_, exponents) = split(0);
                assert_eq!(exponents.iter().map(|e| u32::from(*e)).sum::<u32>(), sums.exponents, "{dtype}");
                let (planes, residuals) = split(200);
                let rest_bits = |plane: usize| fields.rest_bits().saturating_sub(8 * plane).min(8);
                for (number, plane) in planes.iter().enumerate() {
                    assert!(plane.iter().all(|byte| u32::from(*byte) < 1 << rest_bits(number)));
                }
                let mut back = vec![0; group.len()];
                let [a, b, c] = &planes;
                assert!(fields.join(&PORTABLE, [a, b, c], &residuals, 200, &mut back));
                assert!(back == group, "{dtype}");
                let (mut mask, mut kept) = ([0; BASE_GROUP / 8], vec![0; group.len()]);
                let len = fields.drop_zeros(&PORTABLE, group, &mut mask, &mut kept);
                back.fill(0xee);
                fields.restore_zeros(&PORTABLE, &mask, &kept[..len], &mut back);
                assert!(back == group, "{dtype}");
            }
        }
    }
}
