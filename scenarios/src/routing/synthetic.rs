//! Synthetic routing: a popularity of the experts, shared by all ranks, and multinomial token counts.

use ndarray::Array2;
use rand::seq::SliceRandom;
use rand_distr::multi::{Dirichlet, MultiDistribution};
use rand_distr::{Binomial, Distribution};
use zipwire_payload::stream;

use super::Context;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Popularity {
    /// All alike.
    Uniform,
    /// Drawn from a symmetric Dirichlet distribution: the smaller, the more uneven.
    Dirichlet { concentration: f64 },
    /// Proportional to `1 / position ^ exponent`, positions shuffled.
    Zipf { exponent: f64 },
}

/// Source rank x expert; every row sums to the copies of a rank.
pub(super) fn draw(popularity: Popularity, context: &Context<'_>) -> Array2<u64> {
    let [layer, micro_batch] = context.place.numbers();
    let weights = weights(popularity, context);
    let mut counts = Array2::zeros((context.ranks as usize, weights.len()));
    for (rank, mut row) in (0..).zip(counts.rows_mut()) {
        let mut rng = stream(context.seed, "routing tokens", [rank, layer, micro_batch]);
        let drawn = multinomial(&weights, context.copies_per_rank(), &mut rng);
        row.assign(&ndarray::Array1::from(drawn));
    }
    counts
}

/// Non-negative weights with a positive sum; they need not sum to 1.
pub(super) fn weights(popularity: Popularity, context: &Context<'_>) -> Vec<f64> {
    let [layer, _] = context.place.numbers();
    let mut rng = stream(context.seed, "routing popularity", [layer, 0, 0]);
    let experts = context.experts as usize;
    match popularity {
        Popularity::Uniform => vec![1.0; experts],
        // The distribution needs two categories at least.
        Popularity::Dirichlet { .. } if experts == 1 => vec![1.0],
        Popularity::Dirichlet { concentration } => {
            let alpha = vec![concentration; experts];
            let distribution = Dirichlet::new(&alpha).expect("the concentration is positive and finite");
            let mut weights = vec![0.0; experts];
            distribution.sample_to_slice(&mut rng, &mut weights);
            weights
        }
        Popularity::Zipf { exponent } => {
            let weight = |position| libm::pow(f64::from(position), -exponent);
            let mut weights: Vec<f64> = (1_u32..).take(experts).map(weight).collect();
            weights.shuffle(&mut rng);
            weights
        }
    }
}

/// Counts of `total` draws from categories of the given weights, as a chain of binomial draws.
fn multinomial(weights: &[f64], total: u64, rng: &mut impl rand::Rng) -> Vec<u64> {
    // What a category and all behind it weigh: its share of that is the chance of each draw that is left.
    let mut tails = weights.to_vec();
    for index in (0..weights.len().saturating_sub(1)).rev() {
        tails[index] += tails[index + 1];
    }
    assert!(tails.first().is_some_and(|&sum| sum > 0.0), "no category has a weight");
    let mut left = total;
    let draw = |(&weight, &tail): (&f64, &f64)| {
        let chance = if tail > 0.0 { weight / tail } else { 0.0 };
        let count = Binomial::new(left, chance).expect("a weight is at most its tail").sample(rng);
        left -= count;
        count
    };
    weights.iter().zip(&tails).map(draw).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::LazyLock;

    use super::super::Place;
    use super::*;
    use crate::files::Files;

    static FILES: LazyLock<Files> = LazyLock::new(|| Files::new(Path::new("")));

    fn context(seed: u64, experts: u32) -> Context<'static> {
        Context { files: &FILES, seed, ranks: 5, experts, tokens_per_rank: 500, top_k: 2, place: Place::Only }
    }

    fn at(layer: u32, micro_batch: u32) -> Context<'static> {
        Context { place: Place::Layer { layer, micro_batch }, ..context(3, 16) }
    }

    fn all() -> Vec<Popularity> {
        let mut all = vec![Popularity::Uniform];
        all.extend(
            [0.001, 0.05, 1.0, 16.0, 1e6].map(|concentration| Popularity::Dirichlet { concentration }),
        );
        all.extend([0.0, 0.8, 10.0].map(|exponent| Popularity::Zipf { exponent }));
        all
    }

    #[test]
    fn rows_sum_to_the_copies() {
        for popularity in all() {
            for experts in [1, 2, 7, 16, 256] {
                for seed in 0..20 {
                    let counts = draw(popularity, &context(seed, experts));
                    for row in counts.rows() {
                        assert_eq!(row.sum(), 1000, "{popularity:?} {experts} {seed}");
                    }
                }
            }
        }
    }

    #[test]
    fn same_seed_same_tokens_and_no_other() {
        for popularity in all() {
            let counts = draw(popularity, &context(3, 16));
            assert_eq!(counts, draw(popularity, &context(3, 16)));
            if popularity != (Popularity::Dirichlet { concentration: 0.001 }) {
                assert_ne!(counts, draw(popularity, &context(4, 16)), "{popularity:?}");
            }
        }
    }

    #[test]
    fn draws_are_the_same_on_every_machine() {
        let first_row = |popularity| draw(popularity, &context(7, 8)).row(0).to_string();
        insta::assert_snapshot!(first_row(Popularity::Uniform), @r"[136, 119, 122, 118, 126, 137, 117, 125]");
        insta::assert_snapshot!(first_row(Popularity::Dirichlet { concentration: 0.05 }), @r"[6, 345, 518, 122, 0, 6, 3, 0]");
        insta::assert_snapshot!(first_row(Popularity::Dirichlet { concentration: 16.0 }), @r"[96, 181, 105, 135, 123, 150, 67, 143]");
        insta::assert_snapshot!(first_row(Popularity::Zipf { exponent: 0.8 }), @r"[189, 62, 82, 54, 127, 86, 82, 318]");
    }

    #[test]
    fn adding_ranks_changes_nothing_for_the_others() {
        let few = draw(Popularity::Zipf { exponent: 1.0 }, &context(3, 16));
        let more = draw(Popularity::Zipf { exponent: 1.0 }, &Context { ranks: 9, ..context(3, 16) });
        assert_eq!(few, more.slice(ndarray::s![..5, ..]));
    }

    #[test]
    fn layers_and_micro_batches_have_draws_of_their_own() {
        let zipf = Popularity::Zipf { exponent: 2.0 };
        let first = draw(zipf, &at(0, 0));
        assert_eq!(first, draw(zipf, &context(3, 16)), "the first layer is that of a workload with one");
        assert_ne!(first, draw(zipf, &at(0, 1)));
        assert_ne!(first, draw(zipf, &at(1, 0)));
        assert_ne!(draw(zipf, &at(1, 0)), draw(zipf, &at(0, 1)));
        // Every layer has hot experts of its own, and keeps them.
        let hottest = |counts: &Array2<u64>| {
            let sums: Vec<u64> = counts.columns().into_iter().map(|column| column.sum()).collect();
            (0..16).max_by_key(|&expert| sums[expert]).unwrap()
        };
        let of_layers: Vec<usize> = (0..12).map(|layer| hottest(&draw(zipf, &at(layer, 0)))).collect();
        let again: Vec<usize> = (0..12).map(|layer| hottest(&draw(zipf, &at(layer, 5)))).collect();
        assert_eq!(of_layers, again);
        assert!(of_layers.iter().any(|&expert| expert != of_layers[0]), "{of_layers:?}");
    }

    #[test]
    fn counts_follow_the_weights() {
        let mut rng = stream(1, "test", [0; 3]);
        let counts = multinomial(&[1.0, 2.0, 0.0, 5.0], 800_000, &mut rng);
        // Standard deviations are below 450.
        for (count, expected) in counts.into_iter().zip([100_000_u64, 200_000, 0, 500_000]) {
            assert!(count.abs_diff(expected) < 2000, "{count} for {expected}");
        }
    }

    #[test]
    fn zipf_hot_experts_are_anywhere() {
        let hottest = |seed| {
            let weights = weights(Popularity::Zipf { exponent: 1.0 }, &context(seed, 16));
            weights.iter().position(|&weight| weight == 1.0).unwrap()
        };
        let mut places: Vec<usize> = (0..40).map(hottest).collect();
        places.sort_unstable();
        places.dedup();
        assert!(places.len() > 8, "{places:?}");
    }
}
