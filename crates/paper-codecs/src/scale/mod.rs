//! Choice of a window of seven exponents: by counting, or from the scale of the values (ZipCCL, section 4.1).
//!
//! The paper derives `x = log2(sigma) - 5.36` as the best start of the window `[2^x, 2^(x+7))` for values drawn from
//! N(0, sigma^2). Exponents are integers, and the best *integer* start is `ceil(log2(sigma) - 5.7196)`: rounding the
//! paper's value loses up to 1.4 points of coverage, and taking its floor up to 10.8.
//!
//! Everything here gives the same result on every machine, in any order of summation: sums are integers per exponent,
//! and are combined in one fixed order.

pub mod gaussian;

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

/// Statistic that the window of a tile is chosen by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Estimator {
    /// The histogram of the tile's exponents: always the best window.
    #[default]
    Exact,
    /// The standard deviation, as in the paper.
    Std,
    /// The mean of absolute values: as fast, and robust against outliers.
    MeanAbs,
}

impl Estimator {
    /// All estimators; the first is the default.
    pub const ALL: [Self; 3] = [Self::Exact, Self::Std, Self::MeanAbs];

    /// Their names, in the same order.
    pub const NAMES: [&'static str; 3] = [Self::Exact.name(), Self::Std.name(), Self::MeanAbs.name()];

    /// Name in specs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Std => "std",
            Self::MeanAbs => "mean-abs",
        }
    }

    /// The estimator with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|estimator| estimator.name() == name)
    }
}

/// Exponents of the window.
pub const WINDOW: usize = 7;

/// The last start at which the window does not pass exponent 255.
pub const LAST_START: u8 = 249;

/// 2^5.7196, the largest standard deviation for which the window may begin at 1: where `erf(128 u) - erf(u)` is equal
/// at `u = 1 / (sigma sqrt 2)` and at `2 u`.
const LARGEST_SIGMA: f64 = 52.694_502_606_711;

/// How many values of an exponent histogram the window that begins at `start` covers.
///
/// # Panics
/// If `start` is above [`LAST_START`].
pub fn covered(histogram: &[u32; 256], start: u8) -> u32 {
    histogram[usize::from(start)..][..WINDOW].iter().sum()
}

/// The start with the highest coverage, the lowest of equals.
pub fn best_start(histogram: &[u32; 256]) -> u8 {
    let mut best = (0, covered(histogram, 0));
    let mut count = best.1;
    for start in 1..=LAST_START {
        let first = usize::from(start);
        count = count + histogram[first + WINDOW - 1] - histogram[first - 1];
        if count > best.1 {
            best = (start, count);
        }
    }
    best.0
}

/// The best start (as biased exponent, from 0 to [`LAST_START`]) for values from N(0, `sigma`^2):
/// `ceil(log2(sigma) - 5.7196) + 127`.
///
/// The comparison is exact. Where `sigma` is no positive number the start is 0.
pub fn window_start(sigma: f64) -> u8 {
    if sigma.is_nan() || sigma <= 0.0 {
        return 0;
    }
    // `sigma = mantissa * 2^exponent`; the smallest x with sigma <= LARGEST_SIGMA * 2^x. An infinite sigma has the
    // largest exponent and a subnormal one the smallest: both are far outside, and clamped.
    const FRACTION: u64 = (1 << 52) - 1;
    let parts = |x: f64| ((x.to_bits() >> 52) as i32, x.to_bits() & FRACTION);
    let ((exponent, fraction), (largest_exponent, largest_fraction)) = (parts(sigma), parts(LARGEST_SIGMA));
    let start = exponent - largest_exponent + i32::from(fraction > largest_fraction);
    (start + 127).clamp(0, i32::from(LAST_START)) as u8
}

/// Three sums fit into 64 bits for as many values: squares (each below 2^16, together below 2^26) from bit 0,
/// significands (each below 2^8) from bit `MAGNITUDE`, those of positive values from bit `POSITIVE`.
const PACKED_VALUES: usize = 1024;
const MAGNITUDE: u32 = 26;
const POSITIVE: u32 = 44;

/// Sums over normal BF16 values, apart for each exponent.
///
/// A normal value is `significand * 2^(exponent - 134)` with a significand from 128 to 255, so that its powers can be
/// summed as integers: in any order, on any machine, in parts, exact until the last step. Zeros, subnormals, infinities and NaNs (exponents 0
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
    use libm::{exp2, log2};
    use rand::{RngExt, SeedableRng};
    use rand_distr::{Distribution, Normal};

    use super::gaussian::{Choice, Rounding, bits, coverage, share, start, top_coverage};
    use super::*;

    /// Log-uniform over the octave [1, 2), ends included: coverage has period one octave.
    fn scales() -> Vec<f64> {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(7);
        let mut scales: Vec<f64> = (0..1000).map(|_| exp2(rng.random::<f64>())).collect();
        scales.extend([1.0, LARGEST_SIGMA / 32.0, f64::from_bits((LARGEST_SIGMA / 32.0).to_bits() + 1)]);
        scales
    }

    fn rule(sigma: f64) -> i32 {
        i32::from(window_start(sigma)) - 127
    }

    #[test]
    #[cfg_attr(miri, ignore = "much arithmetic, and no memory")]
    fn rule_is_the_best_of_all_starts() {
        for sigma in scales() {
            let best = (-40..40).map(|start| coverage(sigma, start)).fold(0.0, f64::max);
            assert!(coverage(sigma, rule(sigma)) > best - 1e-9, "sigma {sigma}");
        }
    }

    #[test]
    fn rule_is_the_formula_and_its_constant_is_where_two_starts_are_equal() {
        for sigma in scales().into_iter().filter(|sigma| (sigma - LARGEST_SIGMA / 32.0).abs() > 1e-4) {
            assert_eq!(rule(sigma), libm::ceil(log2(sigma) - 5.7196) as i32);
        }
        assert!((log2(LARGEST_SIGMA) - 5.7196).abs() < 5e-5);
        let (mut low, mut high) = (50.0, 55.0);
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            if coverage(middle, 0) > coverage(middle, 1) { low = middle } else { high = middle }
        }
        assert!((low - LARGEST_SIGMA).abs() < 1e-6, "{low}");
    }

    #[test]
    #[cfg_attr(miri, ignore = "`libm` takes square roots in assembly")]
    fn losses_of_rounding_otherwise() {
        let (mut worst, mut floor, mut round, mut range) = (1.0f64, 0.0f64, 0.0f64, (16.0f64, 0.0f64));
        for sigma in (0..10_000).map(|i| exp2(f64::from(i) / 10_000.0)) {
            let best = coverage(sigma, rule(sigma));
            worst = worst.min(best);
            floor = floor.max(best - coverage(sigma, start(sigma, Choice::Floor)));
            round = round.max(best - coverage(sigma, start(sigma, Choice::Round)));
            range = (range.0.min(bits(best)), range.1.max(bits(best)));
        }
        assert!((worst - 0.9697).abs() < 5e-5, "{worst}");
        assert!((floor - 0.108).abs() < 5e-4, "{floor}");
        assert!((round - 0.014).abs() < 5e-4, "{round}");
        assert!((range.0 - 11.17).abs() < 0.005 && (range.1 - 11.24).abs() < 0.005, "{range:?}");
    }

    #[test]
    #[cfg_attr(miri, ignore = "much arithmetic, and no memory")]
    fn table_1_of_the_paper_and_the_best_set_is_a_window() {
        for (count, percent) in (1..).zip([29.95, 57.18, 75.70, 85.48, 90.43, 95.02, 97.51]) {
            let found = 100.0 * top_coverage(1.0, Rounding::Nearest, count);
            assert!((found - percent).abs() < 0.0051, "{count}: {found}");
        }
        for sigma in scales() {
            let mut shares: Vec<(f64, i32)> =
                (-60..10).map(|x| (share(sigma, Rounding::TowardsZero, x, x + 1), x)).collect();
            shares.sort_by(|a, b| b.0.total_cmp(&a.0));
            let mut top: Vec<i32> = shares[..WINDOW].iter().map(|(_, x)| *x).collect();
            top.sort_unstable();
            assert!(top.windows(2).all(|pair| pair[1] == pair[0] + 1), "sigma {sigma}: {top:?}");
        }
    }

    #[test]
    fn start_is_clamped_where_there_are_no_exponents() {
        for sigma in [0.0, -1.0, f64::NAN, f64::MIN_POSITIVE / 8.0, 1e-300, 1e-50] {
            assert_eq!(window_start(sigma), 0, "{sigma}");
        }
        for sigma in [1e60, f64::MAX, f64::INFINITY] {
            assert_eq!(window_start(sigma), LAST_START, "{sigma}");
        }
        assert_eq!(window_start(0.02), 127 - 11);
    }

    #[test]
    fn exact_start_takes_the_lowest_of_equals_and_reaches_both_ends() {
        let histogram = |exponents: &[usize]| {
            let mut histogram = [0; 256];
            exponents.iter().for_each(|exponent| histogram[*exponent] += 1);
            histogram
        };
        for (exponents, start) in [(&[][..], 0), (&[0], 0), (&[255], 249), (&[100], 94), (&[100, 106], 100)] {
            assert_eq!(best_start(&histogram(exponents)), start, "{exponents:?}");
        }
        assert_eq!(best_start(&histogram(&[10, 100, 101, 200])), 95);
        assert_eq!(covered(&histogram(&[93, 94, 100, 101]), 94), 2);
    }

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
