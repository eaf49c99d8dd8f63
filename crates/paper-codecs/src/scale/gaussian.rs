//! Exponents of values from a normal distribution: what theory says of windows and of the most frequent exponents.
//!
//! Coverage depends on sigma with the period of an octave. Exponents here are unbiased: a value in `[2^x, 2^(x + 1))` has
//! exponent `x`.

use libm::{ceil, erf, exp2, floor, log2, round, sqrt};

use super::WINDOW;

/// Exponents below this distance from that of sigma have a share of less than 2^-60.
const BELOW: i32 = 60;
/// Exponents above this distance have a share of less than 10^-200.
const ABOVE: i32 = 6;

/// How a value gets its exponent when it becomes BF16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// Bits are cut off, so the exponent stays.
    TowardsZero,
    /// To the nearest value: what is above `2^x (1 - 2^-9)` rises to exponent `x`.
    Nearest,
}

/// How the start of a window, which is an integer, follows from the best real number ([`optimum`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The best of all integers: what [`window_start`](super::window_start) gives.
    Best,
    /// The nearest integer.
    Round,
    /// The next integer below.
    Floor,
    /// The next integer above.
    Ceil,
}

/// The share of values from N(0, `sigma`^2) with exponents from `start` to `end - 1`.
pub fn share(sigma: f64, rounding: Rounding, start: i32, end: i32) -> f64 {
    let edge = match rounding {
        Rounding::TowardsZero => 1.0,
        Rounding::Nearest => 1.0 - exp2(-9.0),
    };
    let below = |x: i32| erf(exp2(f64::from(x)) * edge / sigma * std::f64::consts::FRAC_1_SQRT_2);
    below(end) - below(start)
}

/// Share of values that have one of the `count` most frequent exponents.
pub fn top_coverage(sigma: f64, rounding: Rounding, count: usize) -> f64 {
    let centre = floor(log2(sigma)) as i32;
    let exponents = centre - BELOW..centre + ABOVE;
    let mut shares: Vec<f64> = exponents.map(|x| share(sigma, rounding, x, x + 1)).collect();
    shares.sort_by(|a, b| b.total_cmp(a));
    shares.iter().take(count).sum()
}

/// Value of `2^x / (sigma sqrt 2)` at the best real `x`: `sqrt(7 ln 2 / 16383)` (ZipCCL, formula 4).
pub fn optimum_u() -> f64 {
    let width = exp2(WINDOW as f64);
    sqrt(WINDOW as f64 * std::f64::consts::LN_2 / (width * width - 1.0))
}

/// The best real `x` for a window `[2^x, 2^(x + 7))`, less `log2(sigma)` (ZipCCL, formula 5).
pub fn optimum() -> f64 {
    log2(optimum_u() * std::f64::consts::SQRT_2)
}

/// The first exponent of the window that `choice` gives for `sigma`.
pub fn start(sigma: f64, choice: Choice) -> i32 {
    let real = log2(sigma) + optimum();
    match choice {
        Choice::Round => round(real) as i32,
        Choice::Floor => floor(real) as i32,
        Choice::Ceil => ceil(real) as i32,
        Choice::Best => {
            let (low, high) = (floor(real) as i32, ceil(real) as i32);
            if coverage(sigma, low) > coverage(sigma, high) { low } else { high }
        }
    }
}

/// The share of values in the window that begins at exponent `start`, cut off towards zero.
pub fn coverage(sigma: f64, start: i32) -> f64 {
    share(sigma, Rounding::TowardsZero, start, start + WINDOW as i32)
}

/// Bits per value of sign, mantissa, a code of three bits, and eight more for each value outside of the window.
pub fn bits(coverage: f64) -> f64 {
    8.0 + 3.0 + 8.0 * (1.0 - coverage)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up() {
        for (sigma, rounding) in
            [(1.0, Rounding::Nearest), (0.02, Rounding::TowardsZero), (3e5, Rounding::Nearest)]
        {
            assert!((top_coverage(sigma, rounding, 100) - 1.0).abs() < 1e-12, "{sigma}");
        }
        // Within a sigma of 0: 68.27 %.
        assert!((share(1.0, Rounding::TowardsZero, -60, 0) - 0.682_689).abs() < 1e-6);
        assert!(share(1.0, Rounding::Nearest, -60, 0) < share(1.0, Rounding::TowardsZero, -60, 0));
    }

    #[test]
    #[cfg_attr(miri, ignore = "`libm` takes square roots in assembly")]
    fn the_optimum_is_where_the_coverage_is_flat() {
        let coverage = |x: f64| {
            let u = exp2(x) * std::f64::consts::FRAC_1_SQRT_2;
            erf(128.0 * u) - erf(u)
        };
        let (best, step) = (coverage(optimum()), 1e-3);
        assert!(best > coverage(optimum() - step) && best > coverage(optimum() + step));
        assert!((optimum() + 5.3607).abs() < 5e-5 && (optimum_u() - 0.0172).abs() < 5e-5);
    }

    #[test]
    #[cfg_attr(miri, ignore = "`libm` takes square roots in assembly")]
    fn the_best_start_is_that_of_the_codec() {
        for step in 0..1000 {
            let sigma = exp2(-7.0 + f64::from(step) / 100.0);
            assert_eq!(
                start(sigma, Choice::Best),
                i32::from(super::super::window_start(sigma)) - 127,
                "{sigma}"
            );
        }
    }
}
