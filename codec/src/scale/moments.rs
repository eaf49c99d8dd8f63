//! Standard deviation and mean absolute value of BF16 values, exact until the last step.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

/// Three sums fit into 64 bits for as many values: squares (each below 2^16, together below 2^26) from bit 0,
/// significands (each below 2^8) from bit `MAGNITUDE`, those of positive values from bit `POSITIVE`.
const PACKED_VALUES: usize = 1024;
const MAGNITUDE: u32 = 26;
const POSITIVE: u32 = 44;

/// Sums over normal BF16 values, apart for each exponent.
///
/// A normal value is `significand * 2^(exponent - 134)` with a significand from 128 to 255, so that its powers can be
/// summed as integers: in any order, on any machine, in parts. Zeros, subnormals, infinities and NaNs (exponents 0
/// and 255) are left out: they say nothing of the scale.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moments {
    count: u64,
    /// Sums of significands with their signs, by exponent.
    sums: [i64; 256],
    /// Sums of significands without their signs, by exponent.
    magnitudes: [u64; 256],
    /// Sums of squares of significands, by exponent.
    squares: [u64; 256],
}

impl Moments {
    /// Sums over little-endian BF16 values; half a value at the end is ignored.
    pub fn of_bf16(values: &[u8]) -> Self {
        let mut moments = Self { count: 0, sums: [0; 256], magnitudes: [0; 256], squares: [0; 256] };
        for block in values.as_chunks::<2>().0.chunks(PACKED_VALUES) {
            moments.add_block(block);
        }
        moments
    }

    /// Adds at most [`PACKED_VALUES`] values, all their sums with one addition each.
    fn add_block(&mut self, values: &[[u8; 2]]) {
        // Two tables, because equal neighbours would wait for each other's sums in one.
        let (mut even, mut odd) = ([0; 256], [0; 256]);
        let (pairs, last) = values.as_chunks::<2>();
        for [first, second] in pairs {
            add_packed(&mut even, *first);
            add_packed(&mut odd, *second);
        }
        last.iter().for_each(|value| add_packed(&mut even, *value));
        let normal = |value: &&[u8; 2]| !matches!(u16::from_le_bytes(**value) & 0x7f80, 0 | 0x7f80);
        self.count += values.iter().filter(normal).count() as u64;
        for exponent in 1..255 {
            let packed = even[exponent] + odd[exponent];
            let magnitude = packed >> MAGNITUDE & ((1 << (POSITIVE - MAGNITUDE)) - 1);
            let positive = packed >> POSITIVE;
            self.sums[exponent] += 2 * positive as i64 - magnitude as i64;
            self.magnitudes[exponent] += magnitude;
            self.squares[exponent] += packed & ((1 << MAGNITUDE) - 1);
        }
    }

    /// Adds the sums over other values.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        for exponent in 0..256 {
            self.sums[exponent] += other.sums[exponent];
            self.magnitudes[exponent] += other.magnitudes[exponent];
            self.squares[exponent] += other.squares[exponent];
        }
    }

    /// Number of normal values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Standard deviation of the normal values about their mean (that of the population, not the sample's estimate);
    /// 0 if there are none.
    pub fn std(&self) -> f64 {
        let mean = self.mean_of(|exponent| self.sums[exponent] as f64, 1);
        let square = self.mean_of(|exponent| self.squares[exponent] as f64, 2);
        (square - mean * mean).max(0.0).sqrt()
    }

    /// Mean absolute value of the normal values; 0 if there are none.
    pub fn mean_abs(&self) -> f64 {
        self.mean_of(|exponent| self.magnitudes[exponent] as f64, 1)
    }

    /// Adds up from the smallest exponent to the largest: the one step that rounds, always in the same order.
    fn mean_of(&self, sum: impl Fn(usize) -> f64, power: i32) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        let unit = |exponent: usize| {
            let exponent = power * (exponent as i32 - 134);
            f64::from_bits(((1023 + exponent) as u64) << 52)
        };
        (1..255).map(|exponent| sum(exponent) * unit(exponent)).sum::<f64>() / self.count as f64
    }
}

/// Adds a value to the three sums of its exponent.
#[inline(always)]
fn add_packed(sums: &mut [u64; 256], value: [u8; 2]) {
    let bits = u16::from_le_bytes(value);
    let significand = u64::from(128 | bits & 0x7f);
    let positive = u64::from(bits >> 15 ^ 1);
    sums[usize::from(bits >> 7 & 0xff)] +=
        significand * (significand + (1 << MAGNITUDE) + (positive << POSITIVE));
}

/// The standard deviation of a centred Gaussian with this mean absolute value, which is `sigma * sqrt(2 / pi)`.
pub fn sigma_from_mean_abs(mean_abs: f64) -> f64 {
    mean_abs / (FRAC_2_SQRT_PI * FRAC_1_SQRT_2)
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_distr::{Distribution, Normal};

    use super::super::window::{best_start, covered, window_start};
    use super::*;

    fn bf16(x: f64) -> [u8; 2] {
        let bits = (x as f32).to_bits();
        (((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16).to_le_bytes()
    }

    fn gaussian(count: usize, sigma: impl Fn(&mut rand_chacha::ChaCha8Rng) -> f64) -> Vec<u8> {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(3);
        let normal = Normal::new(0.0, 1.0).unwrap();
        let values = (0..count).flat_map(|_| bf16(sigma(&mut rng) * normal.sample(&mut rng)));
        values.collect()
    }

    #[test]
    fn small_sets_by_hand() {
        let values = [1.0, -3.0, 0.5].map(bf16).concat();
        let moments = Moments::of_bf16(&values);
        assert_eq!((moments.count(), moments.mean_abs()), (3, 1.5));
        let expected: f64 = (1.0 + 9.0 + 0.25) / 3.0 - 0.25;
        assert!((moments.std() - expected.sqrt()).abs() < 1e-15);
        let none = Moments::of_bf16(&[0.0, -0.0, 1e-40, f64::INFINITY, f64::NAN].map(bf16).concat());
        assert_eq!((none.count(), none.std(), none.mean_abs()), (0, 0.0, 0.0));
        let extremes = Moments::of_bf16(&[0x80, 0x00, 0x7f, 0x7f]);
        assert_eq!(
            (extremes.count(), extremes.mean_abs()),
            (2, f64::from(f32::from_bits(0x7f7f_0000)) / 2.0)
        );
        assert!(extremes.std().is_finite());
    }

    #[test]
    #[cfg_attr(miri, ignore = "much arithmetic, and no memory")]
    fn gaussian_scale_is_found_by_both_and_exponents_0_and_255_do_not_disturb() {
        let mut values = gaussian(400_000, |_| 0.02);
        for ignored in [0x0000u16, 0x8000, 0x0001, 0x7f80, 0x7fc0, 0xff80] {
            values.extend(std::iter::repeat_n(ignored.to_le_bytes(), 20_000).flatten());
        }
        let moments = Moments::of_bf16(&values);
        assert_eq!(moments.count(), 400_000);
        for sigma in [moments.std(), sigma_from_mean_abs(moments.mean_abs())] {
            assert!((sigma / 0.02 - 1.0).abs() < 0.005, "{sigma}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "much arithmetic, and no memory")]
    fn parts_in_any_order_are_the_whole() {
        let values = gaussian(10_001, |rng| if rng.random::<f64>() < 0.5 { 1e-20 } else { 1e20 });
        let whole = Moments::of_bf16(&values);
        let mut parts: Vec<Moments> = values.chunks(2 * 999).map(Moments::of_bf16).collect();
        parts.reverse();
        let mut merged = Moments::of_bf16(&[]);
        parts.iter().for_each(|part| merged.merge(part));
        assert_eq!(merged, whole);
        assert_eq!(merged.std().to_bits(), whole.std().to_bits());
    }

    /// 5 % of the values have 20 times the standard deviation. The ratio depends on where in its octave the scale lies,
    /// so it is averaged over one.
    #[test]
    #[cfg_attr(miri, ignore = "much arithmetic, and no memory")]
    fn mean_abs_is_robust_against_outliers() {
        const COUNT: usize = 100_000;
        const STEPS: usize = 16;
        let mut mean = [0.0; 3];
        for step in 0..STEPS {
            let sigma = 0.02 * libm::exp2(step as f64 / STEPS as f64);
            let values = gaussian(COUNT, |rng| if rng.random::<f64>() < 0.05 { 20.0 * sigma } else { sigma });
            let mut histogram = [0; 256];
            for value in values.as_chunks::<2>().0 {
                histogram[usize::from(u16::from_le_bytes(*value) >> 7 & 0xff)] += 1;
            }
            let moments = Moments::of_bf16(&values);
            let starts = [
                window_start(moments.std()),
                window_start(sigma_from_mean_abs(moments.mean_abs())),
                best_start(&histogram),
            ];
            let ratios = starts.map(|start| {
                let escapes = 1.0 - f64::from(covered(&histogram, start)) / COUNT as f64;
                16.0 / (11.0 + 8.0 * escapes)
            });
            assert!(ratios[0] <= ratios[1] && ratios[1] <= ratios[2], "sigma {sigma}: {ratios:?}");
            assert!(ratios[1] > 0.98 * ratios[2], "sigma {sigma}: {ratios:?}");
            mean = std::array::from_fn(|i| mean[i] + ratios[i] / STEPS as f64);
        }
        for (mean, expected) in mean.into_iter().zip([1.341, 1.377, 1.388]) {
            assert!((mean - expected).abs() < 0.003, "{mean} instead of {expected}");
        }
    }
}
