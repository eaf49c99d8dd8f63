//! Log-normal factors of mean 1: what is usually a little off and sometimes much too long.

use rand::Rng;
use rand_distr::{Distribution, StandardNormal};

/// A draw of `exp(sigma Z - sigma^2 / 2)`, Z standard normal: its logarithm has the standard deviation `sigma`, its mean is 1.
pub(crate) fn draw(sigma: f64, rng: &mut impl Rng) -> f64 {
    let z: f64 = StandardNormal.sample(rng);
    libm::exp(sigma * z - sigma * sigma / 2.0)
}

/// The `sigma` with which draws have this standard deviation: the variance of a draw is `exp(sigma^2) - 1`.
pub(crate) fn sigma_of(deviation: f64) -> f64 {
    libm::log1p(deviation * deviation).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_have_mean_one_and_the_deviation_asked_for() {
        for deviation in [0.01, 0.05, 0.3, 1.0] {
            let sigma = sigma_of(deviation);
            let mut rng = zipwire_payload::stream(11, "test", [0; 3]);
            let draws: Vec<f64> = (0..200_000).map(|_| draw(sigma, &mut rng)).collect();
            let count = draws.len() as f64;
            let mean = draws.iter().sum::<f64>() / count;
            let variance = draws.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / count;
            // Standard error of the mean: deviation / 447. That of the deviation is 2.4 % for a deviation of 1, where the
            // kurtosis is 41, and less below.
            assert!((mean - 1.0).abs() < 4.0 * deviation / count.sqrt(), "mean {mean} for {deviation}");
            assert!((variance.sqrt() / deviation - 1.0).abs() < 0.05, "{} for {deviation}", variance.sqrt());
            assert!(draws.iter().all(|&x| x > 0.0));
            // Half of the draws are below the median, exp(-sigma^2 / 2).
            let median = libm::exp(-sigma * sigma / 2.0);
            let below = draws.iter().filter(|&&x| x < median).count() as f64;
            assert!((below / count - 0.5).abs() < 0.005, "{below} below the median");
        }
    }

    #[test]
    fn no_deviation_is_no_noise() {
        let mut rng = zipwire_payload::stream(11, "test", [0; 3]);
        assert_eq!(draw(sigma_of(0.0), &mut rng), 1.0);
    }
}
