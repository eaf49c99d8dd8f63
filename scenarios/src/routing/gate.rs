//! Synthetic routing by a gate whose tokens reach few groups of experts, so that copies of a token go to few nodes:
//! node-limited routing (DeepSeek-V3, arXiv:2412.19437, sec. 2.1.2).

use ndarray::Array2;
use rand::Rng;
use zipwire_payload::stream;

use super::synthetic::{self, Popularity};
use super::{Context, KEYS, Routed};
use crate::error::Result;
use crate::language::Reader;

/// In how many groups the experts of a token are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limit {
    /// Groups of as many experts each, neighbours.
    groups: u32,
    /// Most groups that a token reaches.
    top_groups: u32,
}

impl Limit {
    /// `None` if there is no limit.
    pub(super) fn read(table: &Reader<'_>, context: &Context<'_>) -> Result<Option<Self>> {
        let (Some(groups), Some(top_field)) = (table.get(KEYS.groups)?, table.field(KEYS.top_groups)) else {
            return Ok(None);
        };
        let Context { experts, top_k, .. } = *context;
        if !experts.is_multiple_of(groups) {
            let limits = format!("a divisor of the {experts} experts");
            return Err(table.need_field(KEYS.groups)?.out_of_range(groups, limits));
        }
        let top_groups = top_field.integer_u32(1..=groups)?;
        let least = top_k.div_ceil(experts / groups);
        if top_groups < least {
            let limits =
                format!("at least {least}: a group has {} experts, and top_k is {top_k}", experts / groups);
            return Err(top_field.out_of_range(top_groups, limits));
        }
        Ok(Some(Self { groups, top_groups }))
    }
}

/// Draws an affinity to every expert for every token. A token goes to the `top_k` experts of the highest affinity in its best
/// groups, and a group is as good as its two best experts together.
///
/// The affinity is the sigmoid of a logit that is Gumbel distributed around the logarithm of the expert's popularity. Without
/// a limit, experts would be drawn by their popularity without replacement.
pub(super) fn draw(popularity: Popularity, limit: Limit, context: &Context<'_>) -> Routed {
    let mut popularity = synthetic::weights(popularity, context);
    let mean = popularity.iter().sum::<f64>() / popularity.len() as f64;
    popularity.iter_mut().for_each(|weight| *weight /= mean);
    let [layer, micro_batch] = context.place.numbers();
    let mut counts = Array2::zeros((context.ranks as usize, popularity.len()));
    let mut chosen = Vec::new();
    let mut affinities = vec![0.0; popularity.len()];
    for rank in 0..context.ranks {
        let mut rng = stream(context.seed, "gate", [rank.into(), layer, micro_batch]);
        for _ in 0..context.tokens_per_rank {
            for (affinity, &weight) in affinities.iter_mut().zip(&popularity) {
                *affinity = weight / (weight + exponential(&mut rng));
            }
            let experts = choose(&affinities, limit, context.top_k as usize);
            for expert in experts {
                counts[[rank as usize, expert]] += 1;
                chosen.push(u32::try_from(expert).expect("experts are counted in 32 bits"));
            }
        }
    }
    Routed { counts, chosen: Some(chosen) }
}

/// An exponentially distributed number with mean 1, above 0.
fn exponential(rng: &mut impl Rng) -> f64 {
    // The upper 52 bits and a half: never 0 nor 1.
    let uniform = ((rng.next_u64() >> 12) as f64 + 0.5) / (1_u64 << 52) as f64;
    -libm::log(uniform)
}

/// The experts of a token; of equals the first.
fn choose(affinities: &[f64], limit: Limit, top_k: usize) -> Vec<usize> {
    let per_group = affinities.len() / limit.groups as usize;
    let merit = |group: &[f64]| {
        let mut best = [0.0; 2];
        for &affinity in group {
            if affinity > best[0] {
                best = [affinity, best[0]];
            } else if affinity > best[1] {
                best[1] = affinity;
            }
        }
        best[0] + best[1]
    };
    let merits: Vec<_> = affinities.chunks_exact(per_group).map(merit).collect();
    let groups = best((0..merits.len()).collect(), &merits, limit.top_groups as usize);
    let members = groups.into_iter().flat_map(|group| group * per_group..(group + 1) * per_group);
    best(members.collect(), affinities, top_k)
}

/// The `count` candidates of the highest merit, those with the lower number first among equals.
fn best(mut candidates: Vec<usize>, merits: &[f64], count: usize) -> Vec<usize> {
    if count < candidates.len() {
        candidates.select_nth_unstable_by(count, |&a, &b| merits[b].total_cmp(&merits[a]).then(a.cmp(&b)));
        candidates.truncate(count);
    }
    candidates.sort_unstable();
    candidates
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::path::Path;
    use std::sync::LazyLock;

    use super::super::Place;
    use super::*;
    use crate::files::Files;

    static FILES: LazyLock<Files> = LazyLock::new(|| Files::new(Path::new("")));

    const TOKENS: u64 = 2000;

    fn context(experts: u32, top_k: u32) -> Context<'static> {
        let place = Place::Only;
        Context { files: &FILES, seed: 5, ranks: 3, experts, tokens_per_rank: TOKENS, top_k, place }
    }

    #[test]
    fn tokens_go_to_different_experts_of_few_groups() {
        for popularity in [
            Popularity::Uniform,
            Popularity::Dirichlet { concentration: 0.01 },
            Popularity::Zipf { exponent: 1.5 },
        ] {
            for (experts, top_k, groups, top_groups) in
                [(64, 8, 8, 4), (16, 4, 8, 2), (12, 6, 2, 1), (8, 8, 1, 1), (4, 1, 4, 3)]
            {
                let limit = Limit { groups, top_groups };
                let routed = draw(popularity, limit, &context(experts, top_k));
                let chosen = routed.chosen.as_ref().unwrap();
                for token in chosen.chunks_exact(top_k as usize) {
                    let distinct: HashSet<u32> = token.iter().copied().collect();
                    assert_eq!(distinct.len(), top_k as usize, "{popularity:?}: {token:?}");
                    let reached: HashSet<u32> =
                        token.iter().map(|expert| expert / (experts / groups)).collect();
                    assert!(reached.len() <= top_groups as usize, "{popularity:?}: {token:?}");
                }
                let mut counts = Array2::<u64>::zeros((3, experts as usize));
                for (place, &expert) in chosen.iter().enumerate() {
                    counts[[place / (TOKENS * u64::from(top_k)) as usize, expert as usize]] += 1;
                }
                assert_eq!(counts, routed.counts);
            }
        }
    }

    /// With one group the first expert of a token is drawn by popularity, and the others likewise from what is left: for two of
    /// three experts, an expert is left out with the chance that the other two come first.
    #[test]
    fn without_a_limit_experts_are_drawn_without_replacement() {
        let routed =
            draw(Popularity::Zipf { exponent: 1.0 }, Limit { groups: 1, top_groups: 1 }, &context(3, 2));
        let mut shares: Vec<f64> =
            routed.counts.columns().into_iter().map(|column| column.sum() as f64 / 6000.0).collect();
        shares.sort_unstable_by(f64::total_cmp);
        let weights = [2.0, 3.0, 6.0].map(|weight| weight / 11.0);
        let left_out = |last: usize| {
            let [a, b] = [(last + 1) % 3, (last + 2) % 3].map(|index| weights[index]);
            a * b / (1.0 - a) + b * a / (1.0 - b)
        };
        for (index, share) in shares.into_iter().enumerate() {
            let expected = 1.0 - left_out(index);
            // Standard deviations are below 0.0065.
            assert!((share - expected).abs() < 0.025, "{share} for {expected}");
        }
    }

    #[test]
    fn draws_are_the_same_on_every_machine() {
        let limit = Limit { groups: 4, top_groups: 2 };
        let routed = draw(Popularity::Dirichlet { concentration: 16.0 }, limit, &context(8, 3));
        insta::assert_snapshot!(routed.counts.row(0), @"[530, 785, 588, 765, 736, 673, 1027, 896]");
    }
}
