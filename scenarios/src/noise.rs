//! `noise` of `[compute]`: no computation takes exactly as long as the last one.

use std::ops::RangeInclusive;

use zipwire_payload::stream;
use zipwire_schedule::{Durations, Rank};

use crate::error::Result;
use crate::language::{Field, Schema, schema};
use crate::lognormal;
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

    /// Schema of the numbers that [`read`](Self::read) accepts.
    pub(crate) fn schema() -> Schema {
        schema::number(DEVIATION_LIMITS)
    }

    /// Multiplies the durations of a segment. Each factor comes from a stream of its own, so no other segment, rank or iteration
    /// changes it.
    pub(crate) fn apply(self, segment: usize, seed: u64, shape: Shape, durations: &mut Durations) {
        if self.deviation == 0.0 {
            return;
        }
        let sigma = lognormal::sigma_of(self.deviation);
        for iteration in 0..shape.iterations {
            for rank in (0..shape.ranks).map(Rank) {
                let keys = [u64::from(iteration), segment as u64, u64::from(rank.0)];
                let factor = lognormal::draw(sigma, &mut stream(seed, "compute noise", keys));
                let seconds = durations.get(iteration, segment, rank);
                durations.set(iteration, segment, rank, seconds * factor);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noisy(deviation: f64, seed: u64, ranks: u32) -> Durations {
        let shape = Shape { iterations: 1000, ranks };
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
