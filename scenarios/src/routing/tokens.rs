//! Which tokens the copies are: as the gate chose, or an assignment that has the counts, where routing gives counts only.

use std::collections::VecDeque;

use ndarray::ArrayView1;
use rand::Rng;
use zipwire_payload::stream;
use zipwire_schedule::TokenMap;

use super::{OF_EXPERTS, Place, Routed};
use crate::error::Result;
use crate::language::Reader;
use crate::placement::Hosts;
use crate::problem::Problem;

use crate::language::named;

/// Most token copies of all ranks that are kept one by one, at four bytes each.
const COPIES_LIMIT: u64 = 1 << 28;

named! {
    /// Correlation of the rows that a rank sends.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(crate) enum Rows {
        /// Nothing: each is drawn for itself.
        #[default]
        Drawn = "drawn",
        /// Copies of one token are equal.
        Shared = "shared",
    }
}

impl Rows {
    /// Reads `tokens`; `copies` are those of all ranks in all calls whose rows may be shared.
    pub(crate) fn read(table: &Reader<'_>, copies: u64) -> Result<Self> {
        let rows = table.get(OF_EXPERTS.tokens)?.unwrap_or_default();
        if rows == Self::Shared && copies > COPIES_LIMIT {
            let limits = format!("at most {COPIES_LIMIT} where copies of a token are equal");
            let problem = Problem::out_of_range("token copies of all ranks and calls", copies, limits);
            return Err(table.need_field(OF_EXPERTS.tokens)?.error(problem));
        }
        Ok(rows)
    }
}

/// Numbers that hold for every token.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Experts that it goes to.
    pub(crate) top_k: u32,
    pub(crate) row_bytes: u64,
}

/// Places that are tried for a copy before its token keeps two for the same expert.
const TRIES: u32 = 256;

/// The tokens of one dispatch, as they were routed. If only counts are known, copies are shuffled and dealt out to tokens, those
/// of a token one after the other; a token that holds an expert twice then swaps with random others. Where more copies go to one
/// expert than there are tokens, some token has two.
///
/// The copies for an expert that is on several ranks go to these in turn, to each as many as it gets ([`Hosts::split`]), in the
/// order of the tokens.
pub(crate) fn assign(
    routed: &Routed,
    hosts: &Hosts,
    Shape { top_k, row_bytes }: Shape,
    place: Place,
    seed: u64,
) -> TokenMap {
    let Routed { counts, chosen } = routed;
    let mut destinations = Vec::new();
    for (src, counts) in counts.rows().into_iter().enumerate() {
        let experts = match chosen {
            Some(chosen) => {
                let of_a_rank = chosen.len() / routed.counts.nrows();
                chosen[src * of_a_rank..][..of_a_rank].to_vec()
            }
            None => {
                let [layer, micro_batch] = place.numbers();
                deal(&counts, top_k as usize, &mut stream(seed, "tokens", [layer, src as u64, micro_batch]))
            }
        };
        let split = |(expert, &count): (usize, &u64)| {
            let parts = hosts.split(src, expert, count);
            parts.flat_map(|(rank, count)| std::iter::repeat_n(rank, copies(count))).collect::<VecDeque<_>>()
        };
        let mut places: Vec<VecDeque<u32>> = counts.iter().enumerate().map(split).collect();
        let place = |expert: u32| places[expert as usize].pop_front().expect("every copy has a place");
        destinations.extend(experts.into_iter().map(place));
    }
    let ranks = u32::try_from(counts.nrows()).expect("ranks are counted in 32 bits");
    TokenMap::new(ranks, top_k, row_bytes, destinations)
}

fn copies(count: u64) -> usize {
    usize::try_from(count).expect("copies fit into memory")
}

/// The experts of the copies of one rank, `top_k` for each token.
fn deal(counts: &ArrayView1<'_, u64>, top_k: usize, rng: &mut impl Rng) -> Vec<u32> {
    let of_expert = |(expert, &count): (u32, &u64)| std::iter::repeat_n(expert, copies(count));
    let mut experts: Vec<u32> = (0..).zip(counts.iter()).flat_map(of_expert).collect();
    // Fisher and Yates.
    for last in (1..experts.len()).rev() {
        experts.swap(last, below(last + 1, rng));
    }
    for place in 0..experts.len() {
        for _ in 0..TRIES {
            if !is_held_twice(&experts, place, experts[place], top_k) {
                break;
            }
            let other = below(experts.len(), rng);
            let is_better = !is_held_twice(&experts, other, experts[place], top_k)
                && !is_held_twice(&experts, place, experts[other], top_k);
            if is_better {
                experts.swap(place, other);
            }
        }
    }
    experts
}

/// Whether the token that a place belongs to holds an expert at another place.
fn is_held_twice(experts: &[u32], place: usize, expert: u32, top_k: usize) -> bool {
    let first = place / top_k * top_k;
    experts[first..place].contains(&expert) || experts[place + 1..first + top_k].contains(&expert)
}

/// A number below `end`, with a bias of at most end / 2^64.
fn below(end: usize, rng: &mut impl Rng) -> usize {
    let scaled = u128::from(rng.next_u64()) * end as u128;
    (scaled >> 64) as usize
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use ndarray::{Array2, array};
    use zipwire_schedule::Rank;

    use super::*;
    use crate::placement::Placement;

    fn shape(top_k: u32) -> Shape {
        Shape { top_k, row_bytes: 16 }
    }

    /// Tokens that hold an expert more than once.
    fn with_duplicates(experts: &[u32], top_k: usize) -> usize {
        let is_mixed = |token: &&[u32]| token.iter().collect::<HashSet<_>>().len() < top_k;
        experts.chunks_exact(top_k).filter(is_mixed).count()
    }

    /// Counts that sum to `total`, none above `most`.
    fn random_counts(experts: usize, total: u64, most: u64, rng: &mut impl Rng) -> Vec<u64> {
        let mut counts = vec![0; experts];
        let mut left = total;
        while left > 0 {
            let expert = below(experts, rng);
            let more = (below(8, rng) as u64 + 1).min(left).min(most - counts[expert]);
            counts[expert] += more;
            left -= more;
        }
        counts
    }

    #[test]
    fn counts_are_kept_and_no_token_holds_an_expert_twice() {
        for seed in 0..200 {
            let mut rng = stream(seed, "test", [0; 3]);
            let (top_k, tokens) = (1 + below(8, &mut rng), 10 + below(200, &mut rng) as u64);
            let count = 2 * top_k + below(30, &mut rng);
            let counts = random_counts(count, tokens * top_k as u64, tokens * 9 / 10, &mut rng);
            let dealt = deal(&ArrayView1::from(&counts), top_k, &mut rng);
            let mut found = vec![0; count];
            dealt.iter().for_each(|&expert| found[expert as usize] += 1);
            assert_eq!(found, counts, "seed {seed}");
            assert_eq!(with_duplicates(&dealt, top_k), 0, "seed {seed}: {tokens} tokens, top {top_k}");
        }
    }

    #[test]
    fn more_copies_than_tokens_leave_duplicates() {
        let counts = array![30_u64, 5, 5];
        let dealt = deal(&counts.view(), 2, &mut stream(1, "test", [0; 3]));
        // 20 tokens have at most 20 copies for the first expert without a duplicate.
        assert_eq!(with_duplicates(&dealt, 2), 10);
    }

    #[test]
    fn the_map_has_the_bytes_of_the_counts() {
        let (ranks, shape) = (4, shape(3));
        let mut rng = stream(3, "test", [0; 3]);
        let rows: Vec<u64> = (0..ranks).flat_map(|_| random_counts(10, 120, 36, &mut rng)).collect();
        let counts = Array2::from_shape_vec((4, 10), rows).unwrap();
        let loads: Vec<u64> = counts.columns().into_iter().map(|column| column.sum()).collect();
        for (placement, replicas) in [(Placement::Contiguous, 0), (Placement::Balanced, 7)] {
            let hosts = Hosts::new(&loads, ranks, placement, replicas);
            let routed = Routed::from(counts.clone());
            let assign = |layer, micro_batch, seed| {
                assign(&routed, &hosts, shape, Place::Layer { layer, micro_batch }, seed)
            };
            let map = assign(0, 0, 9);
            assert_eq!(map.bytes(), hosts.between_ranks(&counts) * shape.row_bytes);
            assert_eq!(map, assign(0, 0, 9));
            assert_ne!(map, assign(1, 0, 9), "layers differ");
            assert_ne!(map, assign(0, 1, 9), "micro-batches differ");
            assert_ne!(map, assign(0, 0, 8), "seeds differ");
        }
    }

    /// C(n, k) as a float.
    fn choose(n: u32, k: u32) -> f64 {
        (0..k).map(|i| f64::from(n - i) / f64::from(k - i)).product()
    }

    /// A token whose k experts are any k of E reaches m (1 - C(E - E/m, k) / C(E, k)) of m nodes in the mean.
    #[test]
    fn tokens_reach_as_many_nodes_as_experts_drawn_without_replacement() {
        for (experts, top_k, nodes) in [(64, 8, 8), (128, 8, 8), (16, 4, 2), (8, 4, 4)] {
            let (tokens, ranks) = (4096, 2 * nodes);
            let each = tokens * u64::from(top_k) / u64::from(experts);
            let counts = Array2::from_elem((ranks as usize, experts as usize), each);
            let loads = vec![each; experts as usize];
            let hosts = Hosts::new(&loads, ranks, Placement::Contiguous, 0);
            let map = assign(&counts.into(), &hosts, shape(top_k), Place::Only, 4);
            let reached: u64 = (0..nodes).map(|node| map.distinct(Rank(0), &(2 * node..2 * node + 2))).sum();
            let mean = reached as f64 / tokens as f64;
            let miss = choose(experts - experts / nodes, top_k) / choose(experts, top_k);
            let expected = f64::from(nodes) * (1.0 - miss);
            assert!((mean / expected - 1.0).abs() < 0.01, "{experts} {top_k} {nodes}: {mean} {expected}");
        }
    }
}
