//! How values of a type divide into sign, exponent and mantissa. BF16 has kernels; the other types have loops.

use crate::DType;
use crate::kernel::{BASE_GROUP, GroupSums, Kernel};

/// A type of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fields {
    pub(super) dtype: DType,
}

/// Where the fields of a type are. Loops over values look them up once.
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

    /// The value with this rest whose exponent is 0.
    #[inline(always)]
    pub(super) fn bits_of_rest(self, rest: u32) -> u32 {
        rest >> self.mantissa_bits << self.sign_shift | rest & ((1 << self.mantissa_bits) - 1)
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

    /// Bits of the mantissa: the exponent is above it, then comes the sign.
    pub(super) fn mantissa_bits(self) -> usize {
        match self.dtype {
            DType::Bf16 => 7,
            DType::F16 => 10,
            DType::F32 => 23,
            DType::F8E4M3 => 3,
            DType::F8E5M2 => 2,
        }
    }

    /// Bits of the rest: the mantissa, and the sign above it.
    pub(super) fn rest_bits(self) -> usize {
        self.mantissa_bits() + 1
    }

    /// About how many bits a +0 takes that is coded: it is mostly an escape, and has a rest.
    pub(super) fn bits_of_zero(self) -> usize {
        16 + self.rest_bits()
    }

    /// See [`Kernel::group_sums`].
    pub(super) fn group_sums(self, kernel: &Kernel, values: &[u8], sums: &mut [GroupSums]) {
        match self.dtype {
            DType::Bf16 => return (kernel.group_sums)(values, sums),
            DType::F32 => return (kernel.group_sums_32)(values, sums),
            DType::F16 | DType::F8E4M3 | DType::F8E5M2 => {}
        }
        let places = self.places();
        for (values, sums) in values.chunks(self.width() * BASE_GROUP).zip(sums) {
            *sums = GroupSums::default();
            self.for_each(values, |value| {
                sums.exponents += places.exponent(value);
                sums.zeros += u32::from(value == 0);
            });
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

    /// Residuals of at most [`BASE_GROUP`] values.
    pub(super) fn residuals(self, kernel: &Kernel, values: &[u8], base: u8, residuals: &mut [u8]) {
        if self.dtype == DType::Bf16 {
            let mut rest = [0; BASE_GROUP];
            return (kernel.split)(values, base, &mut rest[..residuals.len()], residuals);
        }
        let mut rests = [0; BASE_GROUP];
        self.split(values, base, &mut rests[..residuals.len()], residuals);
    }

    /// Rests and residuals of at most [`BASE_GROUP`] values.
    pub(super) fn split(self, values: &[u8], base: u8, rests: &mut [u32], residuals: &mut [u8]) {
        let places = self.places();
        let out = rests.iter_mut().zip(residuals);
        let split = |value: u32, (rest, residual): (&mut u32, &mut u8)| {
            *rest = places.rest(value);
            *residual = (places.exponent(value) as u8).wrapping_sub(base);
        };
        // A loop for each width, so that compilers see how long a value is.
        match self.width() {
            1 => values.iter().zip(out).for_each(|(value, out)| split(u32::from(*value), out)),
            2 => {
                let values = values.as_chunks().0.iter();
                values.zip(out).for_each(|(value, out)| split(u32::from(u16::from_le_bytes(*value)), out));
            }
            _ => {
                let values = values.as_chunks().0.iter();
                values.zip(out).for_each(|(value, out)| split(u32::from_le_bytes(*value), out));
            }
        }
    }

    /// The inverse of [`Self::split`]. Returns whether all exponents are ones of the type.
    #[must_use]
    pub(super) fn join(self, rests: &[u32], residuals: &[u8], base: u8, values: &mut [u8]) -> bool {
        let places = self.places();
        let mut exponents = 0;
        let parts = rests.iter().zip(residuals);
        let mut join = |(rest, residual): (&u32, &u8)| {
            let exponent = residual.wrapping_add(base);
            exponents |= exponent;
            places.bits_of_rest(*rest) | u32::from(exponent) << places.mantissa_bits
        };
        match self.width() {
            1 => values.iter_mut().zip(parts).for_each(|(value, parts)| *value = join(parts) as u8),
            2 => {
                let values = values.as_chunks_mut().0.iter_mut();
                values.zip(parts).for_each(|(value, parts)| *value = (join(parts) as u16).to_le_bytes());
            }
            _ => {
                let values = values.as_chunks_mut().0.iter_mut();
                values.zip(parts).for_each(|(value, parts)| *value = join(parts).to_le_bytes());
            }
        }
        u32::from(exponents) >> self.exponent_bits() == 0
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

    /// Where the fields are in a value.
    pub(super) fn places(self) -> Places {
        Places {
            mantissa_bits: self.mantissa_bits() as u32,
            sign_shift: 8 * self.width() as u32 - 1,
            exponent_mask: (1 << self.exponent_bits()) - 1,
        }
    }

    fn exponent_bits(self) -> usize {
        8 * self.width() - self.rest_bits()
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
            let (mut rests, mut residuals) = ([0; BASE_GROUP], [0; BASE_GROUP]);
            let mut sums = vec![GroupSums::default(); values.len().div_ceil(dtype.width() * BASE_GROUP)];
            fields.group_sums(&crate::kernel::PORTABLE, &values, &mut sums);
            assert_eq!(sums.iter().map(|sums| sums.zeros).sum::<u32>(), 1, "{dtype}");
            for (group, sums) in values.chunks(dtype.width() * BASE_GROUP).zip(sums) {
                fields.split(group, 0, &mut rests, &mut residuals);
                assert_eq!(residuals.iter().map(|e| u32::from(*e)).sum::<u32>(), sums.exponents, "{dtype}");
                fields.split(group, 200, &mut rests, &mut residuals);
                assert!(rests.iter().all(|rest| *rest < 1 << fields.rest_bits()));
                let mut back = vec![0; group.len()];
                assert!(fields.join(&rests, &residuals, 200, &mut back));
                assert!(back == group, "{dtype}");
                let (mut mask, mut kept) = ([0; BASE_GROUP / 8], vec![0; group.len()]);
                let len = fields.drop_zeros(&crate::kernel::PORTABLE, group, &mut mask, &mut kept);
                back.fill(0xee);
                fields.restore_zeros(&crate::kernel::PORTABLE, &mask, &kept[..len], &mut back);
                assert!(back == group, "{dtype}");
            }
        }
    }
}
