//! Where two timelines of one plan differ most: the op or transfer whose duration is furthest from the other's.
//!
//! A pointer for people and no explanation: [`Diff`](crate::Diff) lists every span.

use std::collections::BTreeMap;
use std::sync::Arc;

use zipwire_schedule::{Lane, OpId, Rank, Stage};

use crate::{Span, Timeline};

/// An op or one end of a transfer in both timelines, averaged over iterations.
#[derive(Clone, Debug, PartialEq)]
pub struct Deviation {
    /// Name of the collective call or compute phase.
    pub segment: Arc<str>,
    /// Where it ran.
    pub rank: Rank,
    /// The resource that it occupied.
    pub lane: Lane,
    /// The op of that rank's program.
    pub op: OpId,
    /// Its name, as [`Span::name`] defines it.
    pub name: &'static str,
    /// Stage of the exchange; `None` for compute and codec ops.
    pub stage: Option<Stage>,
    /// The other end of a transfer; `None` for everything else.
    pub peer: Option<Rank>,
    /// Mean duration in the first timeline, in seconds.
    pub a_s: f64,
    /// Mean duration in the second timeline, in seconds.
    pub b_s: f64,
}

/// Identity of a span, whatever the iteration.
type Key = (Rank, OpId, Lane, Option<Rank>, u32);

/// Durations of one op or transfer, summed over iterations.
struct Sums<'t> {
    span: &'t Span,
    a_s: f64,
    b_s: f64,
    /// Spans of the first timeline less those of the second.
    unpaired: i64,
    count: u32,
}

impl Deviation {
    /// The one whose mean duration differs most, of equal ones the first by rank and op; `None` if the timelines share no
    /// span.
    ///
    /// Open exchanges are left out: a rank that waits in one for another is where time is spent, not where it is lost.
    pub fn largest(a: &Timeline, b: &Timeline) -> Option<Self> {
        let mut all: BTreeMap<Key, Sums<'_>> = BTreeMap::new();
        for (timeline, is_a) in [(a, true), (b, false)] {
            for span in timeline.spans.iter().filter(|span| !span.lane.is_exchange()) {
                let sums = all.entry((span.rank, span.op, span.lane, span.peer, span.tag));
                let sums = sums.or_insert(Sums { span, a_s: 0.0, b_s: 0.0, unpaired: 0, count: 0 });
                let (sum_s, change) = if is_a { (&mut sums.a_s, 1) } else { (&mut sums.b_s, -1) };
                *sum_s += span.end_s - span.begin_s;
                sums.unpaired += change;
                sums.count += u32::from(is_a);
            }
        }
        let paired = all.into_values().filter(|sums| sums.unpaired == 0);
        let largest = paired.reduce(|largest, other| {
            let difference_s = |sums: &Sums<'_>| (sums.b_s - sums.a_s).abs() / f64::from(sums.count);
            if difference_s(&other) > difference_s(&largest) { other } else { largest }
        })?;
        let Span { segment, rank, lane, op, name, stage, peer, .. } = *largest.span;
        let mean_s = |sum_s: f64| sum_s / f64::from(largest.count);
        Some(Self {
            segment: Arc::clone(&a.segments[segment.index()]),
            rank,
            lane,
            op,
            name,
            stage,
            peer,
            a_s: mean_s(largest.a_s),
            b_s: mean_s(largest.b_s),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A span of op `op` of rank 0 that begins at 1 s.
    fn span(iteration: u32, op: u32, lane: Lane, length_s: f64) -> Span {
        let peer = (lane == Lane::Tx).then_some(Rank(1));
        Span { iteration, op: OpId(op), peer, name: lane.name(), ..Span::plain(0, lane, 1.0, 1.0 + length_s) }
    }

    fn timeline(spans: Vec<Span>) -> Timeline {
        Timeline { spans, rank_count: 2, segments: vec!["dispatch".into()], ..Timeline::default() }
    }

    #[test]
    fn the_mean_over_iterations_counts_and_waiting_does_not() {
        let [codec, tx, exchange] = [Lane::Codec, Lane::Tx, Lane::Exchange];
        let spans = |codec_s: f64, tx_s: [f64; 2], exchange_s: f64| {
            let first =
                [span(0, 0, codec, codec_s), span(0, 1, tx, tx_s[0]), span(0, 1, exchange, exchange_s)];
            let second = [span(1, 0, codec, codec_s), span(1, 1, tx, tx_s[1])];
            timeline([&first[..], &second].concat())
        };
        // The transfer is 4 s off once each way, the codec op 1 s both times.
        let (a, b) = (spans(2.0, [5.0, 5.0], 5.0), spans(3.0, [9.0, 1.0], 50.0));
        let largest = Deviation::largest(&a, &b).expect("they have spans");
        assert_eq!((largest.lane, largest.op, &*largest.segment), (codec, OpId(0), "dispatch"));
        assert_eq!((largest.a_s, largest.b_s), (2.0, 3.0));
        let swapped = Deviation::largest(&b, &a).expect("they have spans");
        assert_eq!((swapped.a_s, swapped.b_s), (3.0, 2.0));
    }

    #[test]
    fn spans_of_one_timeline_alone_have_no_deviation() {
        let (a, b) =
            (timeline(vec![span(0, 0, Lane::Codec, 1.0)]), timeline(vec![span(0, 1, Lane::Codec, 9.0)]));
        assert_eq!(Deviation::largest(&a, &b), None);
        assert_eq!(Deviation::largest(&a, &timeline(Vec::new())), None);
    }
}
