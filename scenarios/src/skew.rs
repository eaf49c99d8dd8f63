//! `skew`: ranks do not begin at the same time.

use std::ops::RangeInclusive;

use rand::Rng;
use rand_distr::{Distribution, Exp1};
use zipwire_cluster::Groups;
use zipwire_payload::stream;
use zipwire_schedule::Durations;

use crate::error::Result;
use crate::language::{Condition, Field, Rule, Schema, choice, keys, names, number, table, time};
use crate::noise::draw_lognormal;

/// Delay before a compute phase, drawn per iteration and rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Skew {
    base_s: f64,
    per_compute: f64,
    distribution: Spread,
}

/// How delays of mean 1 are distributed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Spread {
    Exponential,
    /// `sigma` is the standard deviation of their logarithm.
    Lognormal {
        sigma: f64,
    },
}

const PER_COMPUTE_LIMITS: RangeInclusive<f64> = 0.0..=100.0;
/// At 2, four delays in a million are more than a thousand times the mean.
const SIGMA_LIMITS: RangeInclusive<f64> = 0.0..=2.0;

const EXPONENTIAL: &str = "exponential";
const LOGNORMAL: &str = "lognormal";

keys! { static KEYS =
    base: f64 = time(), "mean delay before each call, drawn anew per rank and iteration; none by default";
    per_compute: f64 = number(PER_COMPUTE_LIMITS), "mean delay per second of computation before the call; 0 by default";
    distribution: &'static str = choice("distribution", &[EXPONENTIAL, LOGNORMAL], |name| name), "how delays are distributed; `exponential` by default";
    sigma: f64 = number(SIGMA_LIMITS), "standard deviation of the logarithm of delays; `lognormal` needs it", example = "1.0";
}

fn rules() -> Vec<Rule> {
    let reason = "only the distribution `lognormal` has one";
    vec![
        Condition::Fits(KEYS.distribution, names([LOGNORMAL])).needs(&[KEYS.sigma]),
        Condition::Misfits(KEYS.distribution, names([LOGNORMAL])).refuses(&[KEYS.sigma], reason),
    ]
}

impl Skew {
    pub(crate) fn read(field: &Field<'_>) -> Result<Self> {
        let table = field.table(KEYS.all)?;
        let base_s = table.get(KEYS.base)?.unwrap_or(0.0);
        let per_compute = table.get(KEYS.per_compute)?.unwrap_or(0.0);
        let name = table.get(KEYS.distribution)?.unwrap_or(EXPONENTIAL);
        table.check(&rules())?;
        let distribution = match name {
            EXPONENTIAL => Spread::Exponential,
            _ => Spread::Lognormal { sigma: table.need(KEYS.sigma)? },
        };
        Ok(Self { base_s, per_compute, distribution })
    }

    pub(crate) fn schema() -> Schema {
        table(KEYS.all).with(rules())
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
            durations.change(iteration, segment, shape.among, |rank, _| {
                let keys = [u64::from(iteration), segment as u64, u64::from(rank.0)];
                mean * self.distribution.draw(&mut stream(seed, "skew", keys))
            });
        }
    }
}

impl Spread {
    /// A delay of mean 1.
    fn draw(self, rng: &mut impl Rng) -> f64 {
        match self {
            Self::Exponential => Exp1.sample(rng),
            Self::Lognormal { sigma } => draw_lognormal(sigma, rng),
        }
    }
}

/// Draws that a segment needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) iterations: u32,
    /// Ranks that do it.
    pub(crate) among: Groups,
}

#[cfg(test)]
mod tests {
    use zipwire_schedule::Rank;

    use super::*;

    fn draw(skew: Skew, seed: u64) -> Vec<f64> {
        let shape = Shape { iterations: 1000, among: Groups::whole(8) };
        let mut durations = Durations::zeros(shape.iterations, 3, shape.among.size());
        skew.draw(2e-3, 1, seed, shape, &mut durations);
        let at = |index: u32| durations.get(index / 8, 1, Rank(index % 8));
        (0..8000).map(at).collect()
    }

    fn exponential(base_s: f64, per_compute: f64) -> Skew {
        Skew { base_s, per_compute, distribution: Spread::Exponential }
    }

    #[test]
    fn delays_have_the_mean_and_the_spread_of_an_exponential() {
        let seconds = draw(exponential(1e-3, 0.25), 7);
        let mean = seconds.iter().sum::<f64>() / 8000.0;
        let variance = seconds.iter().map(|s| (s - mean).powi(2)).sum::<f64>() / 8000.0;
        // The standard error of the mean is 1.1 %, that of the deviation 1.6 %.
        assert!((mean / 1.5e-3 - 1.0).abs() < 0.05, "mean {mean}");
        assert!((variance.sqrt() / 1.5e-3 - 1.0).abs() < 0.08, "deviation {}", variance.sqrt());
        assert!(seconds.iter().all(|&s| s >= 0.0));
    }

    #[test]
    fn delays_are_the_same_on_every_machine() {
        let seconds = draw(exponential(1e-3, 0.0), 7);
        insta::assert_snapshot!(format!("{:?}", &seconds[..3]), @r"[0.0006741618427765437, 0.0011960823586695307, 0.0015084371612963702]");
    }

    #[test]
    fn delays_depend_on_the_seed_alone() {
        let skew = exponential(1e-3, 0.0);
        assert_eq!(draw(skew, 7), draw(skew, 7));
        assert_ne!(draw(skew, 7), draw(skew, 8));
    }

    #[test]
    fn log_normal_delays_have_the_same_mean_and_another_spread() {
        let skew = Skew { distribution: Spread::Lognormal { sigma: 0.5 }, ..exponential(1e-3, 0.25) };
        let seconds = draw(skew, 7);
        let mean = seconds.iter().sum::<f64>() / 8000.0;
        let variance = seconds.iter().map(|s| (s - mean).powi(2)).sum::<f64>() / 8000.0;
        // sqrt(e^0.25 - 1) = 0.533; the standard error of the mean is 0.6 %, that of the deviation 2 %.
        assert!((mean / 1.5e-3 - 1.0).abs() < 0.025, "mean {mean}");
        assert!((variance.sqrt() / 1.5e-3 / 0.533 - 1.0).abs() < 0.08, "deviation {}", variance.sqrt());
        // Hardly any delay is short: 3.3 % of exponential ones are below a thirtieth of the mean.
        assert!(seconds.iter().all(|&s| s > 1.5e-3 / 30.0));
    }
}
