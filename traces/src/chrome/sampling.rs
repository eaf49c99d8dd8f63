//! Which ranks and iterations of a large timeline are drawn.
//!
//! Decided by the timeline alone, so the same run gives the same trace. What is drawn is drawn in full where that is
//! possible at all; it decides nothing about what metrics count.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};
use zipwire_schedule::Rank;
use zipwire_timeline::{Timeline, waits_s};

use super::by_rank::ByRank;
use super::calls;
use super::size_estimate::SizeEstimates;
use super::track::{Slice, Tracks};

/// What of a run a trace holds, if it does not hold everything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sampling {
    /// Ranks of the run.
    pub rank_count: u32,
    /// Ranks that are drawn with all their spans, ascending.
    pub ranks: Vec<u32>,
    /// Ranks that are too large for that: slices stand for several successive spans. Ascending.
    pub merged: Vec<u32>,
    /// Iterations of the run.
    pub iteration_count: u32,
    /// Iterations that are drawn, ascending.
    pub iterations: Vec<u32>,
}

impl fmt::Display for Sampling {
    /// `24 of 1024 ranks and 3 of 100 iterations`; what is complete is not mentioned.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rank_count, ranks, merged, iteration_count, iterations } = self;
        let (rank_drawn, iteration_drawn) = (ranks.len() + merged.len(), iterations.len());
        let has_all_iterations = iteration_drawn == *iteration_count as usize;
        if rank_drawn < *rank_count as usize || !merged.is_empty() || has_all_iterations {
            write!(f, "{rank_drawn} of {rank_count} ranks")?;
            if !merged.is_empty() {
                write!(f, " ({} of them with merged spans)", merged.len())?;
            }
            if !has_all_iterations {
                f.write_str(" and ")?;
            }
        }
        if !has_all_iterations {
            write!(f, "{iteration_drawn} of {iteration_count} iterations")?;
        }
        Ok(())
    }
}

/// What is to be drawn.
#[derive(Debug, PartialEq)]
pub(super) struct Choice {
    /// Ascending.
    pub(super) iterations: Vec<u32>,
    /// With all their spans, ascending.
    pub(super) ranks: Vec<u32>,
    /// Ranks that do not fit, and the bytes that each may take.
    pub(super) merged: Vec<(u32, u64)>,
}

/// What fits into `bytes` of a timeline that does not fit.
///
/// Of many iterations the first, the last and the slowest come first, then an even sample. If these three do not fit with
/// all ranks, they are what is drawn, of rank 0, of the rank that ends last in the slowest iteration, of the one that waits
/// most, and of an even sample of whole nodes, or of ranks where no whole node fits.
pub(super) fn choose(
    estimates: &SizeEstimates<'_>,
    by_rank: &ByRank<'_>,
    bytes: u64,
    ranks_per_node: u32,
) -> Choice {
    let timeline = estimates.timeline();
    let (ranks, iterations) = (timeline.rank_count, timeline.iterations.len() as u32);
    let slowest = slowest_iteration(timeline);
    let mut kept: BTreeSet<u32> = [0, slowest, iterations.saturating_sub(1)].into();
    kept.retain(|&iteration| iteration < iterations);
    let mut by_iteration = vec![SizeEstimates::iteration(); iterations as usize];
    // What each rank takes in the iterations that are kept, but for its threads.
    let mut least = vec![estimates.process(); ranks as usize];
    let mut add = |iteration: u32, rank: Rank, estimate: u64| {
        by_iteration[iteration as usize] += estimate;
        if kept.contains(&iteration) {
            least[rank.index()] += estimate;
        }
    };
    let unplaced = || timeline.spans.iter().map(|span| (span, Slice::unplaced(span, timeline)));
    unplaced().for_each(|(span, slice)| add(span.iteration, span.rank, estimates.span(span, &slice)));
    calls::of(unplaced()).iter().for_each(|call| add(call.iteration, call.rank, estimates.call(call)));

    let processes = u64::from(ranks) * estimates.process();
    let spans: u64 = kept.iter().map(|&iteration| by_iteration[iteration as usize]).sum();
    let left = bytes.checked_sub(processes + spans);
    // Where that is too much already, no threads need be counted.
    if let Some(mut left) =
        left.and_then(|left| left.checked_sub(estimates.threads(&Tracks::assign(timeline))))
    {
        for iteration in spread(iterations).filter(|&iteration| iteration < iterations) {
            if !kept.contains(&iteration) {
                let Some(after) = left.checked_sub(by_iteration[iteration as usize]) else { break };
                left = after;
                kept.insert(iteration);
            }
        }
        let (iterations, ranks) = (kept.into_iter().collect(), (0..ranks).collect());
        return Choice { iterations, ranks, merged: Vec::new() };
    }

    let estimate = |rank: u32| {
        let spans = by_rank.spans(rank).filter(|span| kept.contains(&span.iteration));
        let tracks = Tracks::of(&spans.cloned().collect::<Vec<_>>(), timeline);
        least[rank as usize] + estimates.threads(&tracks)
    };
    let left = bytes.saturating_sub(SizeEstimates::iteration() * kept.len() as u64);
    let notable = notable_ranks(timeline, slowest, &kept);
    let (ranks, merged) = choose_ranks(&least, estimate, &notable, left, ranks_per_node);
    Choice { iterations: kept.into_iter().collect(), ranks, merged }
}

/// The longest iteration, the first of equal ones.
fn slowest_iteration(timeline: &Timeline) -> u32 {
    let lengths = (0..).zip(&timeline.iterations).map(|(index, iteration)| (index, iteration.length_s));
    let longest =
        lengths.reduce(|longest, other| if other.1.total_cmp(&longest.1).is_gt() { other } else { longest });
    longest.map_or(0, |(index, _)| index)
}

/// Rank 0, the one that ends last in the slowest iteration, and the one that waits most; of equal ones the first.
fn notable_ranks(timeline: &Timeline, slowest: u32, iterations: &BTreeSet<u32>) -> Vec<u32> {
    let mut ends_s = vec![0.0_f64; timeline.rank_count as usize];
    for span in timeline.spans.iter().filter(|span| span.iteration == slowest) {
        let end_s = &mut ends_s[span.rank.index()];
        *end_s = end_s.max(span.end_s);
    }
    let waits_s = waits_s(timeline, iterations);
    let mut notable = vec![0];
    for times in [ends_s, waits_s] {
        let first = (0..timeline.rank_count)
            .reduce(|a, b| if times[b as usize].total_cmp(&times[a as usize]).is_gt() { b } else { a });
        notable.extend(first.filter(|rank| !notable.contains(rank)));
    }
    notable
}

/// Ranks that fit, and those that do not and are drawn all the same, with the bytes that they may take. `least` holds what
/// each rank takes at the least, which is quicker to tell than its `price`.
fn choose_ranks(
    least: &[u64],
    estimate: impl Fn(u32) -> u64,
    notable: &[u32],
    mut left: u64,
    ranks_per_node: u32,
) -> (Vec<u32>, Vec<(u32, u64)>) {
    let (mut drawn, mut merged) = (BTreeSet::new(), Vec::new());
    for (index, &rank) in notable.iter().enumerate() {
        let (estimate, share) = (estimate(rank), left / (notable.len() - index) as u64);
        if estimate <= share {
            drawn.insert(rank);
            left -= estimate;
        } else {
            merged.push((rank, share));
            left -= share;
        }
    }
    merged.sort_unstable();
    let ranks = least.len() as u32;
    let mut add = |group: Vec<u32>| {
        let is_merged = |rank: &u32| merged.iter().any(|(other, _)| other == rank);
        let group: Vec<u32> =
            group.into_iter().filter(|rank| !is_merged(rank) && !drawn.contains(rank)).collect();
        if group.is_empty() || group.iter().map(|&rank| least[rank as usize]).sum::<u64>() > left {
            return false;
        }
        let Some(after) = left.checked_sub(group.iter().map(|&rank| estimate(rank)).sum()) else {
            return false;
        };
        left = after;
        drawn.extend(group);
        true
    };
    let mut has_nodes = false;
    for node in spread(ranks.div_ceil(ranks_per_node)) {
        let first = node * ranks_per_node;
        has_nodes |= add((first..(first + ranks_per_node).min(ranks)).collect());
    }
    if !has_nodes {
        spread(ranks).for_each(|rank| {
            add(vec![rank]);
        });
    }
    (drawn.into_iter().collect(), merged)
}

/// The numbers below `count`, each first part of them spread evenly: 0, 1/2, 1/4, 3/4, 1/8, ... of the next power of two.
fn spread(count: u32) -> impl Iterator<Item = u32> {
    let bits = u64::from(count.max(1)).next_power_of_two().trailing_zeros();
    let reversed = move |index: u64| if bits == 0 { 0 } else { index.reverse_bits() >> (64 - bits) };
    (0..1_u64 << bits).map(reversed).filter_map(|index| u32::try_from(index).ok()).filter(move |&i| i < count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_first_part_is_spread_evenly() {
        assert_eq!(spread(8).collect::<Vec<_>>(), [0, 4, 2, 6, 1, 5, 3, 7]);
        assert_eq!(spread(1).collect::<Vec<_>>(), [0]);
        assert_eq!(spread(0).count(), 0);
        for count in [2, 3, 100, 1000] {
            let mut all: Vec<u32> = spread(count).collect();
            all.sort_unstable();
            assert_eq!(all, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn notable_ranks_come_first_then_whole_nodes() {
        let (ranks, merged) = choose_ranks(&[9; 32], |_| 10, &[0, 13], 150, 4);
        // 0 and 13, the rest of node 0, node 4; node 2 does not fit, nor does what is left of node 3.
        assert_eq!((ranks, merged), (vec![0, 1, 2, 3, 8, 9, 10, 11, 13, 16, 17, 18, 19], vec![]));
        let (ranks, _) = choose_ranks(&[9; 32], |_| 10, &[0, 13], 79, 8);
        assert_eq!(ranks, [0, 4, 8, 13, 16, 20, 24], "no whole node fits: an even sample of ranks");
    }

    #[test]
    fn a_notable_rank_that_does_not_fit_gets_its_share() {
        let estimates = [100, 10, 10, 500];
        let chosen = |bytes| choose_ranks(&estimates, |rank| estimates[rank as usize], &[0, 3], bytes, 1);
        assert_eq!(chosen(250), (vec![0], vec![(3, 150)]));
        assert_eq!(chosen(90).1, [(0, 45), (3, 45)]);
    }

    #[test]
    fn what_is_left_out_is_said() {
        let (ranks, iterations) = (vec![0, 8, 9], vec![0, 99]);
        let sampling = Sampling { rank_count: 1024, ranks, merged: vec![], iteration_count: 100, iterations };
        assert_eq!(sampling.to_string(), "3 of 1024 ranks and 2 of 100 iterations");
        let sampling = Sampling { merged: vec![7], ..sampling };
        assert!(sampling.to_string().starts_with("4 of 1024 ranks (1 of them with merged spans) and "));
        let all = Sampling { ranks: (0..1024).collect(), merged: vec![], ..sampling.clone() };
        assert_eq!(all.to_string(), "2 of 100 iterations");
        let all = Sampling { iterations: (0..100).collect(), ranks: vec![0], merged: vec![], ..sampling };
        assert_eq!(all.to_string(), "1 of 1024 ranks");
    }
}
