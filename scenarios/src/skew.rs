//! `skew`: ranks do not begin at the same time.

use std::ops::RangeInclusive;

use rand_distr::{Distribution, Exp1};
use zipwire_schedule::{Durations, Rank};
use zipwire_traces::stream;

use crate::error::Result;
use crate::reader::Field;
use crate::schema::{Schema, number, optional, table, time};

/// Delay before a compute phase, drawn per iteration and rank from an exponential distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Skew {
    base_s: f64,
    per_compute: f64,
}

const KEYS: &[&str] = &["base", "per_compute"];

const PER_COMPUTE_LIMITS: RangeInclusive<f64> = 0.0..=100.0;

impl Skew {
    pub(crate) fn read(field: &Field<'_>) -> Result<Self> {
        let table = field.table(KEYS)?;
        let base_s = table.get("base").map_or(Ok(0.0), |field| field.time())?;
        let per_compute =
            table.get("per_compute").map_or(Ok(0.0), |field| field.number(PER_COMPUTE_LIMITS))?;
        Ok(Self { base_s, per_compute })
    }

    /// What [`read`](Self::read) reads.
    pub(crate) fn schema() -> Schema {
        #[rustfmt::skip]
        let keys = [
            optional("base", "mean delay before each call, drawn anew per rank and iteration; none by default", time()),
            optional("per_compute", "mean delay per second of computation before the call; 0 by default", number(PER_COMPUTE_LIMITS)),
        ];
        table(KEYS, keys)
    }

    /// Draws the durations of a skew segment before a phase that computes for `compute_s`.
    pub(crate) fn draw(
        &self,
        compute_s: f64,
        segment: usize,
        seed: u64,
        shape: Shape,
        durations: &mut Durations,
    ) {
        let mean = self.base_s + self.per_compute * compute_s;
        for iteration in 0..shape.iterations {
            for rank in 0..shape.ranks {
                let keys = [u64::from(iteration), segment as u64, u64::from(rank)];
                let unit: f64 = Exp1.sample(&mut stream(seed, "skew", keys));
                durations.set(iteration, segment, Rank(rank), mean * unit);
            }
        }
    }
}

/// How many draws a segment needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) iterations: u32,
    pub(crate) ranks: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(skew: Skew, seed: u64) -> Vec<f64> {
        let shape = Shape { iterations: 1000, ranks: 8 };
        let mut durations = Durations::zeros(shape.iterations, 3, shape.ranks);
        skew.draw(2e-3, 1, seed, shape, &mut durations);
        let at = |index: u32| durations.get(index / 8, 1, Rank(index % 8));
        (0..8000).map(at).collect()
    }

    #[test]
    fn delays_have_the_mean_and_the_spread_of_an_exponential() {
        let seconds = draw(Skew { base_s: 1e-3, per_compute: 0.25 }, 7);
        let mean = seconds.iter().sum::<f64>() / 8000.0;
        let variance = seconds.iter().map(|s| (s - mean).powi(2)).sum::<f64>() / 8000.0;
        // The standard error of the mean is 1.1 %, that of the deviation 1.6 %.
        assert!((mean / 1.5e-3 - 1.0).abs() < 0.05, "mean {mean}");
        assert!((variance.sqrt() / 1.5e-3 - 1.0).abs() < 0.08, "deviation {}", variance.sqrt());
        assert!(seconds.iter().all(|&s| s >= 0.0));
    }

    #[test]
    fn delays_are_the_same_on_every_machine() {
        let seconds = draw(Skew { base_s: 1e-3, per_compute: 0.0 }, 7);
        insta::assert_snapshot!(format!("{:?}", &seconds[..3]), @r"[0.0006741618427765437, 0.0011960823586695307, 0.0015084371612963702]");
    }

    #[test]
    fn delays_depend_on_the_seed_alone() {
        let skew = Skew { base_s: 1e-3, per_compute: 0.0 };
        assert_eq!(draw(skew, 7), draw(skew, 7));
        assert_ne!(draw(skew, 7), draw(skew, 8));
    }
}
