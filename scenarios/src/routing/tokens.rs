//! Which tokens the copies are: an assignment of a rank's token copies that has its counts, where routing gives counts only.

use std::collections::VecDeque;

use ndarray::{Array2, ArrayView1};
use rand::Rng;
use zipwire_schedule::TokenMap;
use zipwire_traces::stream;

use crate::placement::Hosts;

/// Places that are tried for a copy before its token keeps two for the same expert.
const TRIES: u32 = 256;

/// A random assignment with the given counts, source rank x expert: copies are shuffled and dealt out to tokens, those of a
/// token one after the other; a token that holds an expert twice then swaps with random others. Where more copies go to one
/// expert than there are tokens, some token has two.
///
/// The copies for an expert that is on several ranks go to these in turn, to each as many as it gets ([`Hosts::split`]), in the
/// order of the tokens. Each token has `top_k` copies of `row_bytes` bytes; `layer` tells the dispatches of a job apart.
pub(crate) fn assign(
    counts: &Array2<u64>,
    hosts: &Hosts,
    (top_k, row_bytes): (u32, u64),
    layer: u64,
    seed: u64,
) -> TokenMap {
    let mut destinations = Vec::new();
    for (src, counts) in counts.rows().into_iter().enumerate() {
        let mut rng = stream(seed, "tokens", [layer, src as u64, 0]);
        let experts = experts(&counts, top_k as usize, &mut rng);
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
fn experts(counts: &ArrayView1<'_, u64>, top_k: usize, rng: &mut impl Rng) -> Vec<u32> {
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
    (first..first + top_k).any(|other| other != place && experts[other] == expert)
}

/// A number below `end`, with a bias of at most end / 2^64.
fn below(end: usize, rng: &mut impl Rng) -> usize {
    let scaled = u128::from(rng.next_u64()) * end as u128;
    (scaled >> 64) as usize
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use ndarray::array;
    use zipwire_schedule::Rank;

    use super::*;
    use crate::placement::Placement;

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
            let dealt = experts(&ArrayView1::from(&counts), top_k, &mut rng);
            let mut found = vec![0; count];
            dealt.iter().for_each(|&expert| found[expert as usize] += 1);
            assert_eq!(found, counts, "seed {seed}");
            assert_eq!(with_duplicates(&dealt, top_k), 0, "seed {seed}: {tokens} tokens, top {top_k}");
        }
    }

    #[test]
    fn more_copies_than_tokens_leave_duplicates() {
        let counts = array![30_u64, 5, 5];
        let dealt = experts(&counts.view(), 2, &mut stream(1, "test", [0; 3]));
        // 20 tokens have at most 20 copies for the first expert without a duplicate.
        assert_eq!(with_duplicates(&dealt, 2), 10);
    }

    #[test]
    fn the_map_has_the_bytes_of_the_counts() {
        let (ranks, shape) = (4, (3, 16));
        let mut rng = stream(3, "test", [0; 3]);
        let rows: Vec<u64> = (0..ranks).flat_map(|_| random_counts(10, 120, 36, &mut rng)).collect();
        let counts = Array2::from_shape_vec((4, 10), rows).unwrap();
        let loads: Vec<u64> = counts.columns().into_iter().map(|column| column.sum()).collect();
        for (placement, replicas) in [(Placement::Contiguous, 0), (Placement::Balanced, 7)] {
            let hosts = Hosts::new(&loads, ranks, placement, replicas);
            let map = assign(&counts, &hosts, shape, 0, 9);
            assert_eq!(map.bytes(), hosts.between_ranks(&counts).mapv(|count| count * 16));
            assert_eq!(map, assign(&counts, &hosts, shape, 0, 9));
            assert_ne!(map, assign(&counts, &hosts, shape, 1, 9), "layers differ");
            assert_ne!(map, assign(&counts, &hosts, shape, 0, 8), "seeds differ");
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
            let shape = (top_k, 16);
            let each = tokens * u64::from(top_k) / u64::from(experts);
            let counts = Array2::from_elem((ranks as usize, experts as usize), each);
            let loads = vec![each; experts as usize];
            let hosts = Hosts::new(&loads, ranks, Placement::Contiguous, 0);
            let map = assign(&counts, &hosts, shape, 0, 4);
            let reached: u64 = (0..nodes).map(|node| map.distinct(Rank(0), &(2 * node..2 * node + 2))).sum();
            let mean = reached as f64 / tokens as f64;
            let miss = choose(experts - experts / nodes, top_k) / choose(experts, top_k);
            let expected = f64::from(nodes) * (1.0 - miss);
            assert!((mean / expected - 1.0).abs() < 0.01, "{experts} {top_k} {nodes}: {mean} {expected}");
        }
    }
}
