//! The start of the window.

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

#[cfg(test)]
mod tests {
    use libm::{exp2, log2};
    use rand::{RngExt, SeedableRng};

    use super::super::gaussian::{Choice, Rounding, bits, coverage, share, start, top_coverage};
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
}
