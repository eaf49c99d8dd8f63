//! All ranks at once: how many of them compute, code and communicate, over time.

use zipwire_schedule::Lane;
use zipwire_timeline::{Series, Span, Union};

use super::by_rank::ByRank;
use super::track::{Slice, nanoseconds};

/// What ranks are counted in.
pub(super) const STATES: [&str; 3] = ["ranks in compute", "ranks in codec", "ranks in communication"];

/// At least as many bytes as a counter event takes.
const EVENT_BYTES: u64 = 128;
const MOST_ROWS: u64 = 4096;

/// How many ranks are in each of the [`STATES`]: (time in nanoseconds, state, ranks from then on), changes only, in at
/// most `bytes` bytes of a trace.
pub(super) fn counters(by_rank: &ByRank<'_>, bytes: u64) -> Vec<(i64, usize, u32)> {
    let most_rows = MOST_ROWS.min(bytes / (STATES.len() as u64 * EVENT_BYTES));
    let mut series = Series::new(STATES.len(), usize::try_from(most_rows).expect("it is at most 4096"));
    let edges = edges(by_rank);
    let mut ranks = [0.0; STATES.len()];
    let mut groups = edges.chunk_by(|a, b| a.0 == b.0).peekable();
    while let Some(group) = groups.next() {
        group.iter().for_each(|&(_, state, change)| ranks[state] += f64::from(change));
        let until_ns = groups.peek().map_or(i64::MAX, |next| next[0].0);
        if series.wants(until_ns as f64 * 1e-9) {
            series.add(group[0].0 as f64 * 1e-9, &ranks);
        }
    }
    let mut last = [0; STATES.len()];
    let mut changes = Vec::new();
    for (time_s, row) in series.rows() {
        for (state, (last, &ranks)) in last.iter_mut().zip(row).enumerate() {
            if *last != ranks as u32 {
                *last = ranks as u32;
                changes.push((nanoseconds(time_s), state, *last));
            }
        }
    }
    changes
}

/// When a rank enters a state (+1) or leaves it (-1), by time.
fn edges(by_rank: &ByRank<'_>) -> Vec<(i64, usize, i32)> {
    let state = |span: &Span| match span.lane {
        Lane::Compute => Some(0),
        Lane::Codec => Some(1),
        Lane::Tx | Lane::Rx => Some(2),
        Lane::Exchange | Lane::Control | Lane::Background | Lane::BackgroundControl => None,
    };
    let mut edges = Vec::new();
    for rank in by_rank.ranks() {
        let mut busy: [Vec<(f64, f64)>; STATES.len()] = Default::default();
        for span in by_rank.spans(rank) {
            if let Some(state) = state(span) {
                // Exact: a run is shorter than 2^53 ns.
                let slice = Slice::unplaced(span, by_rank.timeline());
                busy[state].push((slice.begin_ns as f64, slice.end_ns as f64));
            }
        }
        for (state, busy) in busy.into_iter().enumerate() {
            for &(begin_ns, end_ns) in Union::of(busy).parts() {
                edges.extend([(begin_ns as i64, state, 1), (end_ns as i64, state, -1)]);
            }
        }
    }
    edges.sort_unstable();
    edges
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chrome::tests::{both_ends, busy, compute, timeline};
    use zipwire_timeline::Timeline;

    fn counted(timeline: &Timeline, bytes: u64) -> Vec<(i64, usize, u32)> {
        counters(&ByRank::of(timeline), bytes)
    }

    #[test]
    fn a_rank_counts_once_however_many_transfers_it_has() {
        let mut spans = vec![compute(3, 0.0, 2e-6)];
        spans.extend(both_ends(0, 1, 1e-6, 4e-6));
        spans.extend(both_ends(0, 2, 2e-6, 3e-6));
        spans.extend(both_ends(0, 2, 4e-6, 5e-6));
        let expected = [(0, 0, 1), (1000, 2, 2), (2000, 0, 0), (2000, 2, 3), (3000, 2, 2), (5000, 2, 0)];
        let mut found = counted(&timeline(spans), 1 << 20);
        found.retain(|&(ns, ..)| ns != 4000);
        assert_eq!(found, expected, "at 4 us rank 1 leaves and rank 2 comes back");
    }

    #[test]
    fn no_more_events_than_fit() {
        let timeline = busy(1);
        let all = counted(&timeline, 1 << 20);
        let few = counted(&timeline, 20_000);
        assert!(few.len() * 128 <= 20_000 && few.len() < all.len(), "{} of {}", few.len(), all.len());
        assert_eq!(few.last().map(|change| change.2), Some(0), "at the end nobody does anything");
    }
}
