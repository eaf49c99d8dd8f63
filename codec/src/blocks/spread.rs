//! Whether mean exponents differ by more than chance. In integers, so that every machine finds the same.

/// Fraction bits of the means that are compared.
pub(super) use crate::kernel::columns::FRACTION;

/// Variance of the exponent of a Gaussian value, 2.56, squared octaves: means of n values vary by this over n anyway.
const GAUSSIAN_VARIANCE: u64 = (256 << (2 * FRACTION)) / 100;

/// Sums over means of exponents.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spread {
    /// How many means, and of how many values in all.
    number: u64,
    values: u64,
    sum: u64,
    squares: u64,
}

impl Spread {
    /// Adds the mean of `count` values; it has [`FRACTION`] fractional bits.
    #[inline(always)]
    pub(super) fn add(&mut self, mean: u64, values: u32) {
        self.number += 1;
        self.values += u64::from(values);
        self.sum += mean;
        self.squares += mean * mean;
    }

    /// Whether the means vary by more than `min_variance` and what is to be expected of Gaussian values with equal means;
    /// it has twice [`FRACTION`] bits behind the point.
    pub(super) fn exceeds(&self, min_variance: u64) -> bool {
        let [number, sum, squares] = [self.number, self.sum, self.squares].map(u128::from);
        let noise = GAUSSIAN_VARIANCE * self.number / self.values.max(1);
        // Both sides are `number` squared times a variance.
        number * squares - sum * sum > number * number * u128::from(min_variance + noise)
    }
}
