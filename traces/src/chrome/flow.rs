//! Arrows: which receive belongs to which send.

use zipwire_schedule::{Lane, Rank, SegmentId, Stage};
use zipwire_timeline::Span;

use super::track::Slice;

/// An arrow from a send to its receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flow {
    /// Index of the sending span.
    pub(super) send: usize,
    /// Index of the receiving span.
    pub(super) receive: usize,
    /// Where the arrow begins: when the send does.
    pub(super) begin_ns: i64,
    /// Where it ends: in the last nanosecond of the receive.
    pub(super) end_ns: i64,
}

/// Key on which both ends of a transfer agree: iteration, segment, stage, source, destination, number. Op ids are each rank's
/// own and not part of it.
type Key = (u32, SegmentId, Option<Stage>, Rank, Rank, u32);

/// Pairs the sends and receives on which both ends agree; should there be several, the k-th send with the k-th receive
/// by time. Ends without a counterpart (of a run that failed) have no arrow, nor have receives that end before the send
/// begins, which only clocks that disagree can produce.
pub(super) fn pair(spans: &[Span], slices: &[Slice]) -> Vec<Flow> {
    let sends = ends(spans, slices, Lane::Tx);
    let receives = ends(spans, slices, Lane::Rx);
    let mut receives = receives.chunk_by(|a, b| a.0 == b.0).peekable();
    let mut flows = Vec::with_capacity(sends.len());
    for group in sends.chunk_by(|a, b| a.0 == b.0) {
        while receives.next_if(|other| other[0].0 < group[0].0).is_some() {}
        let Some(counterpart) = receives.next_if(|other| other[0].0 == group[0].0) else { continue };
        for (&(_, begin_ns, send), &(_, _, receive)) in group.iter().zip(counterpart) {
            let end_ns = slices[receive].end_ns - 1;
            if begin_ns <= end_ns {
                flows.push(Flow { send, receive, begin_ns, end_ns });
            }
        }
    }
    flows
}

/// One end of every transfer, sorted by key and then by time: (key, begin, index of the span).
fn ends(spans: &[Span], slices: &[Slice], lane: Lane) -> Vec<(Key, i64, usize)> {
    let mut ends: Vec<_> = spans
        .iter()
        .enumerate()
        .filter(|(_, span)| span.lane == lane)
        .filter_map(|(index, span)| {
            let peer = span.peer?;
            let (src, dst) = if lane == Lane::Tx { (span.rank, peer) } else { (peer, span.rank) };
            Some((
                (span.iteration, span.segment, span.stage, src, dst, span.tag),
                slices[index].begin_ns,
                index,
            ))
        })
        .collect();
    ends.sort_unstable();
    ends
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chrome::tests::{both_ends, timeline, transfer};
    use crate::chrome::track::Tracks;

    fn paired(spans: Vec<Span>) -> Vec<(usize, usize)> {
        let timeline = timeline(spans);
        let flows = pair(&timeline.spans, &Tracks::assign(&timeline).slices);
        flows.iter().map(|flow| (flow.send, flow.receive)).collect()
    }

    #[test]
    fn by_source_and_destination() {
        let [a, b] = both_ends(0, 1, 0.0, 1e-6);
        let [c, d] = both_ends(1, 0, 0.0, 1e-6);
        assert_eq!(paired(vec![a, c, d, b]), [(0, 3), (1, 2)]);
    }

    #[test]
    fn by_iteration_segment_and_stage() {
        let [send, receive] = both_ends(0, 1, 0.0, 1e-6);
        let with = |iteration, stage, segment| {
            let change = |span: &Span| Span {
                iteration,
                stage: Some(stage),
                segment: SegmentId(segment),
                ..span.clone()
            };
            [change(&send), change(&receive)]
        };
        let [a0, a1] = with(0, Stage::Static, 0);
        let [b0, b1] = with(1, Stage::Static, 0);
        let [c0, c1] = with(0, Stage::Dynamic, 0);
        let [d0, d1] = with(0, Stage::Static, 1);
        assert_eq!(paired(vec![d1, c1, b1, a1, a0, b0, c0, d0]), [(4, 3), (6, 1), (7, 0), (5, 2)]);
    }

    #[test]
    fn repeated_transfers_pair_in_the_order_of_time() {
        let [a, b] = both_ends(0, 1, 5e-6, 6e-6);
        let [c, d] = both_ends(0, 1, 0.0, 1e-6);
        assert_eq!(paired(vec![a, d, c, b]), [(2, 1), (0, 3)]);
    }

    #[test]
    fn transfers_between_the_same_ranks_are_told_apart() {
        let [a, b] = both_ends(0, 1, 0.0, 1e-6);
        let [mut c, mut d] = both_ends(0, 1, 0.0, 1e-6);
        (c.tag, d.tag) = (1, 1);
        assert_eq!(paired(vec![a, c, d, b]), [(0, 3), (1, 2)]);
    }

    #[test]
    fn half_a_transfer_and_one_against_the_clock_have_no_arrow() {
        let [_, early] = both_ends(0, 1, 0.0, 1e-6);
        assert_eq!(paired(vec![transfer(0, 2, 0.0, 1e-6)]), []);
        assert_eq!(paired(vec![early.clone()]), []);
        assert_eq!(paired(vec![early, transfer(0, 1, 2e-6, 3e-6)]), []);
    }
}
