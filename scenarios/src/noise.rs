//! `noise` of `[compute]`: no computation takes exactly as long as the last one.

use std::ops::RangeInclusive;

use rand::Rng;
use rand_distr::{Distribution, StandardNormal};
use zipwire_payload::stream;
use zipwire_schedule::Durations;

use crate::error::Result;
use crate::language::{Field, Schema, schema};
use crate::skew::Shape;

/// A factor of mean 1 for each duration of a compute segment, log-normal, drawn anew per iteration and rank.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Noise {
    /// Standard deviation of the factor.
    deviation: f64,
}

const DEVIATION_LIMITS: RangeInclusive<f64> = 0.0..=1.0;

impl Noise {
    pub(crate) fn read(field: &Field<'_>) -> Result<Self> {
        Ok(Self { deviation: field.number(DEVIATION_LIMITS)? })
    }

    pub(crate) fn schema() -> Schema {
        schema::number(DEVIATION_LIMITS)
    }

    /// Multiplies the durations of a segment on the ranks that do it. Each factor comes from a stream of its own, so no other segment, rank or
    /// iteration changes it.
    pub(crate) fn apply(self, segment: usize, seed: u64, shape: Shape, durations: &mut Durations) {
        if self.deviation == 0.0 {
            return;
        }
        let sigma = sigma_of(self.deviation);
        for iteration in 0..shape.iterations {
            durations.change(iteration, segment, shape.among, |rank, seconds| {
                let keys = [u64::from(iteration), segment as u64, u64::from(rank.0)];
                seconds * draw_lognormal(sigma, &mut stream(seed, "compute noise", keys))
            });
        }
    }
}

/// Log-normal factor of mean 1, a draw of `exp(sigma Z - sigma^2 / 2)`, Z standard normal: its logarithm has the standard deviation `sigma`.
pub(crate) fn draw_lognormal(sigma: f64, rng: &mut impl Rng) -> f64 {
    let z: f64 = StandardNormal.sample(rng);
    libm::exp(sigma * z - sigma * sigma / 2.0)
}

/// The `sigma` with which draws have this standard deviation: the variance of a draw is `exp(sigma^2) - 1`.
fn sigma_of(deviation: f64) -> f64 {
    libm::log1p(deviation * deviation).sqrt()
}

#[cfg(test)]
mod tests {
    use zipwire_cluster::Groups;
    use zipwire_schedule::Rank;

    use super::*;

    #[test]
    fn draws_have_mean_one_and_the_deviation_asked_for() {
        for deviation in [0.01, 0.05, 0.3, 1.0] {
            let sigma = sigma_of(deviation);
            let mut rng = zipwire_payload::stream(11, "test", [0; 3]);
            let draws: Vec<f64> = (0..200_000).map(|_| draw_lognormal(sigma, &mut rng)).collect();
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
        assert_eq!(draw_lognormal(sigma_of(0.0), &mut rng), 1.0);
    }

    fn noisy(deviation: f64, seed: u64, ranks: u32) -> Durations {
        let shape = Shape { iterations: 1000, among: Groups::whole(ranks) };
        let mut durations = Durations::zeros(shape.iterations, 2, ranks);
        for iteration in 0..shape.iterations {
            (0..ranks).for_each(|rank| durations.set(iteration, 1, Rank(rank), 2e-3));
        }
        Noise { deviation }.apply(1, seed, shape, &mut durations);
        durations
    }

    #[test]
    fn durations_keep_their_mean_and_get_the_deviation() {
        let durations = noisy(0.05, 7, 8);
        let seconds: Vec<f64> = (0..8000).map(|i| durations.get(i / 8, 1, Rank(i % 8))).collect();
        let mean = seconds.iter().sum::<f64>() / 8000.0;
        let variance = seconds.iter().map(|s| (s - mean) * (s - mean)).sum::<f64>() / 8000.0;
        // The standard error of the mean is 0.056 %, that of the deviation 0.8 %.
        assert!((mean / 2e-3 - 1.0).abs() < 0.0025, "mean {mean}");
        assert!((variance.sqrt() / 1e-4 - 1.0).abs() < 0.04, "deviation {}", variance.sqrt());
        assert_eq!(durations.get(0, 0, Rank(0)), 0.0, "other segments keep their time");
    }

    #[test]
    fn draws_are_the_same_on_every_machine() {
        let durations = noisy(0.05, 7, 2);
        let seconds = [0, 1].map(|iteration| durations.get(iteration, 1, Rank(1)));
        insta::assert_snapshot!(format!("{seconds:?}"), @"[0.002008485761057846, 0.0020359855133724966]");
    }

    #[test]
    fn draws_depend_on_seed_iteration_and_rank_alone() {
        let (few, more) = (noisy(0.05, 7, 2), noisy(0.05, 7, 3));
        let at = |durations: &Durations, iteration, rank| durations.get(iteration, 1, Rank(rank));
        for iteration in 0..1000 {
            assert_eq!(at(&few, iteration, 1), at(&more, iteration, 1));
        }
        assert_ne!(at(&few, 0, 0), at(&few, 0, 1));
        assert_ne!(at(&few, 0, 0), at(&few, 1, 0));
        assert_ne!(few, noisy(0.05, 8, 2));
    }

    #[test]
    fn without_deviation_nothing_changes() {
        let durations = noisy(0.0, 7, 2);
        assert!((0..1000).all(|iteration| durations.get(iteration, 1, Rank(1)) == 2e-3));
    }
}
