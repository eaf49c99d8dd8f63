//! All ranks at once: how many of them compute, code, send, receive and wait, over time.

use zipwire_schedule::Lane;
use zipwire_timeline::{Series, Span, Timeline, Union};

use super::track::{Slice, nanoseconds};

/// States in which ranks are counted, in the order in which viewers sort counters. A rank can be in several, but for the last one: it waits
/// if it is in a call and does none of the others.
pub(super) const STATES: [&str; 5] =
    ["ranks in codec", "ranks in compute", "ranks receiving", "ranks sending", "ranks waiting"];
/// The last of the [`STATES`].
const WAITING: usize = STATES.len() - 1;

/// At least as many bytes as a counter event takes.
const EVENT_BYTES: u64 = 128;
const MOST_ROWS: u64 = 4096;

/// Upper bound of the bytes that these changes take in a trace.
pub(super) fn most_bytes(changes: &[(i64, usize, u32)]) -> u64 {
    changes.len() as u64 * EVENT_BYTES
}

/// How many ranks are in each of the [`STATES`]: (time in nanoseconds, state, ranks from then on), changes only, in at
/// most `bytes` bytes of a trace.
pub(super) fn counters(timeline: &Timeline, by_rank: &[Vec<&Span>], bytes: u64) -> Vec<(i64, usize, u32)> {
    let most_rows = MOST_ROWS.min(bytes / (STATES.len() as u64 * EVENT_BYTES));
    let mut series = Series::new(STATES.len(), usize::try_from(most_rows).expect("it is at most 4096"));
    let edges = edges(timeline, by_rank);
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
fn edges(timeline: &Timeline, by_rank: &[Vec<&Span>]) -> Vec<(i64, usize, i32)> {
    let state = |span: &Span| match span.lane {
        Lane::Codec => 0,
        Lane::Compute => 1,
        Lane::Rx => 2,
        Lane::Tx => 3,
        Lane::Exchange | Lane::Control | Lane::Background | Lane::BackgroundControl => WAITING,
    };
    let mut edges = Vec::new();
    for spans in by_rank {
        let mut busy: [Vec<(f64, f64)>; STATES.len()] = Default::default();
        for span in spans {
            // Exact: a run is shorter than 2^53 ns.
            let slice = Slice::unplaced(span, timeline);
            busy[state(span)].push((slice.begin_ns as f64, slice.end_ns as f64));
        }
        let mut busy = busy.map(Union::of);
        let works = Union::of(busy[..WAITING].iter().flat_map(|state| state.parts().iter().copied()));
        busy[WAITING] = busy[WAITING].without(&works);
        for (state, busy) in busy.iter().enumerate() {
            for &(begin_ns, end_ns) in busy.parts() {
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
    use crate::chrome::selection::by_rank;
    use crate::chrome::tests::{both_ends, busy, compute, timeline, transfer};

    fn counted(timeline: &Timeline, bytes: u64) -> Vec<(i64, usize, u32)> {
        counters(timeline, &by_rank(timeline), bytes)
    }

    #[test]
    fn a_rank_counts_once_however_many_transfers_it_has() {
        let mut spans = vec![compute(3, 0.0, 2e-6)];
        spans.extend(both_ends(0, 1, 1e-6, 4e-6));
        spans.extend(both_ends(0, 2, 2e-6, 3e-6));
        spans.extend(both_ends(0, 2, 4e-6, 5e-6));
        let [compute, receiving, sending] = [1, 2, 3];
        let expected = [
            (0, compute, 1),
            (1000, receiving, 1),
            (1000, sending, 1),
            (2000, compute, 0),
            (2000, receiving, 2),
            (3000, receiving, 1),
            (5000, receiving, 0),
            (5000, sending, 0),
        ];
        assert_eq!(
            counted(&timeline(spans), 1 << 20),
            expected,
            "at 4 us rank 1 stops receiving and rank 2 begins"
        );
    }

    /// In an exchange from 1 to 8 us a rank sends from 2 to 3 us and decodes from 5 to 6: it waits for the rest.
    #[test]
    fn a_rank_waits_in_calls_in_which_it_does_nothing() {
        let exchange = Span { lane: Lane::Exchange, peer: None, ..transfer(0, 1, 1e-6, 8e-6) };
        let codec = Span { lane: Lane::Codec, ..compute(0, 5e-6, 6e-6) };
        let spans = vec![exchange, transfer(0, 1, 2e-6, 3e-6), codec];
        let mut waiting = counted(&timeline(spans), 1 << 20);
        waiting.retain(|&(_, state, _)| state == WAITING);
        let expected = [(1000, 1), (2000, 0), (3000, 1), (5000, 0), (6000, 1), (8000, 0)];
        assert_eq!(waiting, expected.map(|(ns, ranks)| (ns, WAITING, ranks)));
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
