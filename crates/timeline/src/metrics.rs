//! Metrics of a timeline: the few numbers that variants are compared by, their parts by rank, and what an iteration is bound by.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use zipwire_schedule::{Channel, Lane};

use crate::{Bounds, Imbalance, IterationTime, Span, Timeline};

/// The numbers of one variant on one executor. Times in seconds.
///
/// `comm_s`, `wait_s`, `codec_s`, `reduce_s` and `compute_s` are taken per rank and iteration and averaged over both. Lanes
/// overlap, so they need not add up to the iteration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Metrics {
    /// Length of an iteration: from the barrier to the last rank's end.
    pub iteration_s: Spread,
    /// Half of the interval in which the mean of `iteration_s` lies, where lateness is estimated: the mean over iterations. Its key is absent elsewhere.
    #[serde(rename = "iteration_margin_s", skip_serializing_if = "Option::is_none")]
    pub margin_s: Option<f64>,
    /// A transfer of the rank is in latency or moving.
    pub comm_s: f64,
    /// An exchange of the rank is open and none of its transfers is, or all its spans have ended and other ranks are
    /// still in the iteration. Sends between stages of a pipeline are open early: they count only while the rank does not compute.
    pub wait_s: f64,
    /// The rank encodes or decodes, puts rows together, or adds values up: its codec's lane is busy.
    pub codec_s: f64,
    /// The part of `codec_s` in which it adds values up, which uncompressed reductions do, too.
    pub reduce_s: f64,
    /// The rank does the model's own work.
    pub compute_s: f64,
    /// Bytes to be sent before coding, summed over ranks, per iteration, what ranks send to themselves excluded.
    pub bytes_raw: u64,
    /// Bytes that were sent, headers, sizes and padding included: summed over ranks, mean of the iterations, rounded
    /// to the nearest byte.
    pub bytes_wire: u64,
    /// `bytes_raw` / `bytes_wire`: above 1 is good. `None` if nothing was sent.
    pub ratio: Option<f64>,
}

/// Mean and spread of a time over iterations, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// Arithmetic mean.
    pub mean: f64,
    /// Sample standard deviation (divisor: iterations - 1), 0 for one iteration.
    pub sd: f64,
    /// Shortest.
    pub min: f64,
    /// Longest.
    pub max: f64,
}

/// The numbers of each rank, in the order of ranks: means over iterations. Times as in [`Metrics`], in seconds; the mean of
/// one over ranks is the number of the same name there.
///
/// `summary.json` has the waiting and the imbalance.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ByRank {
    /// The rank does the model's own work.
    #[serde(skip)]
    pub compute_s: Vec<f64>,
    /// A transfer of the rank is in latency or moving.
    #[serde(skip)]
    pub comm_s: Vec<f64>,
    /// An exchange of the rank is open and none of its transfers is, or the rank is done and others are not.
    #[serde(rename = "wait_s_by_rank")]
    pub wait_s: Vec<f64>,
    /// The rank encodes or decodes.
    #[serde(skip)]
    pub codec_s: Vec<f64>,
    /// Bytes that the rank received, headers, sizes and padding included, rounded to the nearest.
    #[serde(skip)]
    pub bytes_received: Vec<u64>,
    /// How uneven they are.
    pub imbalance: Imbalances,
}

/// How uneven ranks are; `None` where all have none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Imbalances {
    /// Imbalance of received bytes, all exchanges of an iteration together.
    pub received: Option<Imbalance>,
    /// Imbalance of compute time.
    pub compute: Option<Imbalance>,
    /// Imbalance of waiting.
    pub wait: Option<Imbalance>,
}

/// The chain of ops and transfers that leads from the start of an iteration to its end without a gap, as seconds of a mean iteration. The
/// names are those of the keys of `summary.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CriticalPath {
    /// Seconds by cause: `compute` (as far as a phase takes no longer than the mean of all ranks), `skew` (the rest of it),
    /// `codec`, `sums`, `links` (moving bytes), `latency` (of transfers), `host` (launches, and sizes on their way to the host),
    /// `library` (its calls), `start` (waiting for the given time of an explicit flow) and `other` (delays of faults). Causes that
    /// take no time are absent. Their sum is the mean iteration.
    pub critical_path_s: BTreeMap<&'static str, f64>,
    /// The link to which most of `links` goes; its key is absent where none does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busiest_link: Option<BusiestLink>,
}

impl CriticalPath {
    /// Causes, in the order of tables.
    pub const NAMES: [&str; 10] =
        ["compute", "skew", "links", "latency", "codec", "sums", "host", "library", "start", "other"];
}

/// A link, and the seconds of a mean iteration for which the chain waits for its bytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BusiestLink {
    /// Its name: `nic 1 down`.
    pub name: String,
    /// Seconds.
    pub seconds: f64,
}

impl Metrics {
    /// The metrics of `timeline`, whose plan moves `bytes_raw` raw bytes per iteration. All zero without iterations.
    ///
    /// # Panics
    /// If a span names an iteration or a rank that the timeline does not have.
    pub fn of(timeline: &Timeline, bytes_raw: u64) -> Self {
        Self::with_ranks(timeline, bytes_raw).0
    }

    /// [`of`](Self::of), and the same of each rank.
    ///
    /// # Panics
    /// If a span names an iteration or a rank that the timeline does not have.
    pub fn with_ranks(timeline: &Timeline, bytes_raw: u64) -> (Self, ByRank) {
        let iterations = &timeline.iterations;
        let times_of = |(cell, spans): (usize, &Vec<&Span>)| {
            Times::of(timeline, spans, iterations[cell / ranks(timeline)])
        };
        let times: Vec<_> = cells(timeline).iter().enumerate().map(times_of).collect();
        let mean = |of: fn(&Times) -> f64| times.iter().map(of).sum::<f64>() / times.len().max(1) as f64;

        let late = &timeline.with_lateness;
        let lengths: Vec<_> = if late.is_empty() {
            iterations.iter().map(|iteration| iteration.length_s).collect()
        } else {
            late.iter().map(Bounds::middle_s).collect()
        };
        let margins: Vec<_> = late.iter().map(Bounds::margin_s).collect();
        let iteration_s = Spread::of(&lengths);
        let sent =
            timeline.spans.iter().filter(|span| span.lane == Lane::Tx).map(|span| u128::from(span.bytes));
        let sent = sent.sum::<u128>() * u128::from(timeline.alike());
        let bytes_wire = rounded_mean(sent, iterations.len());
        let metrics = Self {
            iteration_s,
            margin_s: (!late.is_empty()).then(|| Spread::of(&margins).mean),
            comm_s: mean(|times| times.comm_s),
            wait_s: mean(|times| times.wait_s),
            codec_s: mean(|times| times.codec_s),
            reduce_s: mean(|times| times.reduce_s),
            compute_s: mean(|times| times.compute_s),
            bytes_raw,
            bytes_wire,
            ratio: (bytes_wire > 0).then(|| bytes_raw as f64 / bytes_wire as f64),
        };
        (metrics, by_rank(timeline, &times))
    }
}

/// Means over iterations; `times` are of every rank in every iteration, iterations first.
fn by_rank(timeline: &Timeline, times: &[Times]) -> ByRank {
    let mean = |of: fn(&Times) -> f64| -> Vec<f64> {
        let of_rank = |rank| times.iter().skip(rank).step_by(ranks(timeline)).map(of).collect::<Vec<_>>();
        (0..ranks(timeline)).map(|rank| Spread::of(&of_rank(rank)).mean).collect()
    };
    let mut received = vec![0_u128; ranks(timeline)];
    for span in timeline.spans.iter().filter(|span| span.lane == Lane::Rx) {
        received[timeline.place(span.rank)] += u128::from(span.bytes);
    }
    let received = received.into_iter().map(|sum| rounded_mean(sum, timeline.iterations.len()));
    let mut by_rank = ByRank {
        compute_s: mean(|times| times.compute_s),
        comm_s: mean(|times| times.comm_s),
        wait_s: mean(|times| times.wait_s),
        codec_s: mean(|times| times.codec_s),
        bytes_received: received.collect(),
        imbalance: Imbalances::default(),
    };
    let knows_each = timeline.with_lateness.is_empty();
    by_rank.imbalance = Imbalances {
        received: Imbalance::of_counts(&by_rank.bytes_received),
        compute: Imbalance::of(&by_rank.compute_s).filter(|_| knows_each),
        wait: Imbalance::of(&by_rank.wait_s).filter(|_| knows_each),
    };
    by_rank
}

/// Waiting time of each rank in some iterations together, as [`Metrics::wait_s`] defines it; seconds by rank.
pub fn waits_s(timeline: &Timeline, iterations: &BTreeSet<u32>) -> Vec<f64> {
    let mut waits_s = vec![0.0; ranks(timeline)];
    for &iteration in iterations {
        let mut spans = vec![Vec::new(); ranks(timeline)];
        timeline
            .spans
            .iter()
            .filter(|span| span.iteration == iteration)
            .for_each(|span| spans[timeline.place(span.rank)].push(span));
        for (wait_s, spans) in waits_s.iter_mut().zip(&spans) {
            *wait_s += Times::of(timeline, spans, timeline.iterations[iteration as usize]).wait_s;
        }
    }
    waits_s
}

/// Ranks that have spans: others are like them.
fn ranks(timeline: &Timeline) -> usize {
    timeline.members() as usize
}

/// The spans of every rank in every iteration, iterations first.
fn cells(timeline: &Timeline) -> Vec<Vec<&Span>> {
    let mut cells = vec![Vec::new(); timeline.iterations.len() * ranks(timeline)];
    for span in &timeline.spans {
        let place = timeline.place(span.rank);
        assert!(place < ranks(timeline), "a span names rank {}", span.rank);
        cells[span.iteration as usize * ranks(timeline) + place].push(span);
    }
    cells
}

/// Mean of `count` integers with the sum `sum`, rounded to the nearest; 0 if there are none.
fn rounded_mean(sum: u128, count: usize) -> u64 {
    let count = count.max(1) as u128;
    u64::try_from((sum + count / 2) / count).expect("the mean of 64-bit numbers fits 64 bits")
}

/// The times of one rank in one iteration, in seconds.
struct Times {
    comm_s: f64,
    wait_s: f64,
    codec_s: f64,
    reduce_s: f64,
    compute_s: f64,
}

/// The name of spans in which values are added up.
const REDUCE: &str = "reduce";

impl Times {
    fn of(timeline: &Timeline, spans: &[&Span], iteration: IterationTime) -> Self {
        let union_where = |is_part: &dyn Fn(&Span) -> bool| {
            let parts = spans.iter().filter(|span| is_part(span));
            Union::of(parts.map(|span| (span.begin_s, span.end_s)))
        };
        let union = |lanes: &[Lane]| union_where(&|span| lanes.contains(&span.lane));
        let is_send = |span: &Span| timeline.sends.get(span.segment.index()) == Some(&true);
        let is_exchange = |span: &Span| Channel::OF_CALLS.iter().any(|channel| channel.lane() == span.lane);
        let calls = union_where(&|span| is_exchange(span) && !is_send(span));
        let sends = union_where(&|span| is_exchange(span) && is_send(span));
        let computing = union(&[Lane::Compute]);
        let moving = union(&[Lane::Tx, Lane::Rx]);
        // A rank without spans is idle from the barrier on.
        let last_end_s = spans.iter().map(|span| span.end_s).fold(0.0, f64::max);
        Self {
            comm_s: moving.length(),
            wait_s: calls.length_without(&moving)
                + sends.without(&calls).without(&computing).length_without(&moving)
                + (iteration.length_s - last_end_s).max(0.0),
            codec_s: union(&[Lane::Codec]).length(),
            reduce_s: union_where(&|span| span.lane == Lane::Codec && span.name == REDUCE).length(),
            compute_s: computing.length(),
        }
    }
}

impl Spread {
    /// Spread of these times; all zero without any.
    pub fn of(times: &[f64]) -> Self {
        if times.is_empty() {
            return Self::default();
        }
        let count = times.len() as f64;
        // Relative to the first, so that equal times have exactly that mean and no deviation.
        let mean = times[0] + times.iter().map(|time| time - times[0]).sum::<f64>() / count;
        let squares: f64 = times.iter().map(|time| (time - mean) * (time - mean)).sum();
        Self {
            mean,
            sd: (squares / (count - 1.0).max(1.0)).sqrt(),
            min: times.iter().copied().fold(f64::INFINITY, f64::min),
            max: times.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        }
    }
}

/// Disjoint half-open intervals in order, in seconds unless its user says otherwise.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Union {
    parts: Vec<(f64, f64)>,
}

impl Union {
    /// The union of `intervals`, in any order; they may overlap, touch, or be empty.
    pub fn of(intervals: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let mut intervals: Vec<_> = intervals.into_iter().filter(|(begin, end)| begin < end).collect();
        intervals.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut parts: Vec<(f64, f64)> = Vec::new();
        for (begin, end) in intervals {
            match parts.last_mut() {
                Some(last) if begin <= last.1 => last.1 = last.1.max(end),
                _ => parts.push((begin, end)),
            }
        }
        Self { parts }
    }

    /// Its intervals, in order.
    pub fn parts(&self) -> &[(f64, f64)] {
        &self.parts
    }

    /// Total length in seconds.
    pub fn length(&self) -> f64 {
        self.parts.iter().fold(0.0, |length, (begin, end)| length + (end - begin))
    }

    /// Length in seconds of the part of `self` that is not in `other`.
    pub fn length_without(&self, other: &Self) -> f64 {
        let mut length = 0.0;
        self.each_without(other, |begin, end| length += end - begin);
        length
    }

    /// Part of `self` that is not in `other`.
    pub fn without(&self, other: &Self) -> Self {
        let mut parts = Vec::new();
        self.each_without(other, |begin, end| parts.push((begin, end)));
        Self { parts }
    }

    /// The intervals of the part of `self` that is not in `other`, in order.
    fn each_without(&self, other: &Self, mut each: impl FnMut(f64, f64)) {
        let mut holes = other.parts.iter().peekable();
        for &(mut begin, end) in &self.parts {
            // Holes that end here can touch no later part; one that reaches beyond may.
            while let Some(&&(hole_begin, hole_end)) = holes.peek() {
                if hole_begin >= end {
                    break;
                }
                if hole_begin > begin {
                    each(begin, hole_begin);
                }
                begin = begin.max(hole_end);
                if hole_end > end {
                    break;
                }
                holes.next();
            }
            if end > begin {
                each(begin, end);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A span of `rank` in iteration 0; 100 bytes if it is a send.
    fn span(rank: u32, lane: Lane, begin_s: f64, end_s: f64) -> Span {
        let bytes = if lane == Lane::Tx { 100 } else { 7 };
        Span { bytes, ..Span::plain(rank, lane, begin_s, end_s) }
    }

    /// `iterations` are begins and ends.
    fn timeline(rank_count: u32, iterations: &[(f64, f64)], spans: Vec<Span>) -> Timeline {
        let time = |&(begin_s, end_s): &(f64, f64)| IterationTime { begin_s, length_s: end_s - begin_s };
        let iterations = iterations.iter().map(time).collect();
        let segments = vec!["dispatch".into()];
        Timeline { spans, rank_count, segments, iterations, ..Timeline::default() }
    }

    #[test]
    fn one_rank_by_hand() {
        let spans = vec![
            span(0, Lane::Compute, 0.0, 2.0),
            span(0, Lane::Codec, 1.0, 2.0),
            span(0, Lane::Exchange, 2.0, 7.0),
            span(0, Lane::Tx, 2.5, 4.0),
            span(0, Lane::Rx, 3.0, 5.0),
            span(0, Lane::Tx, 3.25, 3.5),
            span(0, Lane::Codec, 7.0, 8.0),
        ];
        let metrics = Metrics::of(&timeline(1, &[(0.0, 8.5)], spans), 300);
        assert_eq!(metrics.comm_s, 2.5, "2.5 to 5, overlapping and nested transfers once");
        assert_eq!(metrics.wait_s, 3.0, "2 to 2.5, 5 to 7, 8 to 8.5");
        assert_eq!((metrics.codec_s, metrics.compute_s), (2.0, 2.0));
        assert_eq!((metrics.bytes_raw, metrics.bytes_wire, metrics.ratio), (300, 200, Some(1.5)));
        assert_eq!(metrics.iteration_s, Spread { mean: 8.5, sd: 0.0, min: 8.5, max: 8.5 });
    }

    #[test]
    fn ranks_and_iterations_are_averaged() {
        let mut late = span(1, Lane::Compute, 0.0, 4.0);
        late.iteration = 1;
        let spans = vec![span(0, Lane::Compute, 0.0, 2.0), late];
        let metrics = Metrics::of(&timeline(2, &[(0.0, 2.0), (10.0, 14.0)], spans), 0);
        // Rank and iteration:   (0, 0)  (0, 1)  (1, 0)  (1, 1)
        // computes              2       0       0       4
        // waits                 0       4       2       0
        assert_eq!((metrics.compute_s, metrics.wait_s), (1.5, 1.5));
        let sd = 2.0_f64.sqrt();
        assert_eq!(metrics.iteration_s, Spread { mean: 3.0, sd, min: 2.0, max: 4.0 });
    }

    #[test]
    fn each_rank_has_its_own_mean_over_iterations() {
        let at = |iteration, span| Span { iteration, ..span };
        let spans = vec![
            span(0, Lane::Compute, 0.0, 2.0),
            span(0, Lane::Rx, 2.0, 3.0),
            span(1, Lane::Codec, 0.0, 1.0),
            at(1, span(0, Lane::Tx, 0.0, 1.0)),
            at(1, Span { bytes: 22, ..span(1, Lane::Rx, 0.0, 4.0) }),
        ];
        let (metrics, ranks) = Metrics::with_ranks(&timeline(2, &[(0.0, 3.0), (5.0, 9.0)], spans), 0);
        assert_eq!(metrics.reduce_s, 0.0, "nothing is added up");
        // Iteration and rank:   (0, 0)  (0, 1)  (1, 0)  (1, 1)
        // waits                 0       2       3       0
        assert_eq!(ranks.wait_s, [1.5, 1.0]);
        assert_eq!(ranks.compute_s, [1.0, 0.0]);
        assert_eq!(ranks.comm_s, [1.0, 2.0]);
        assert_eq!(ranks.codec_s, [0.0, 0.5]);
        assert_eq!(ranks.bytes_received, [4, 11], "3.5 rounded, 11");
        assert_eq!(metrics.wait_s, 1.25, "the mean of both");
        let of = |max_over_mean, gini| Some(Imbalance { max_over_mean, gini });
        assert_eq!(ranks.imbalance.wait, of(1.2, 0.1));
        assert_eq!(ranks.imbalance.compute, of(2.0, 0.5));
        assert_eq!(ranks.imbalance.received, Imbalance::of_counts(&[4, 11]));
    }

    #[test]
    fn a_rank_without_spans_waits_all_the_time() {
        let metrics = Metrics::of(&timeline(2, &[(1.0, 4.0)], vec![span(0, Lane::Compute, 0.0, 3.0)]), 0);
        assert_eq!((metrics.compute_s, metrics.wait_s), (1.5, 1.5));
    }

    #[test]
    fn nothing_sent_has_no_ratio() {
        let metrics = Metrics::of(&timeline(1, &[(0.0, 1.0)], vec![span(0, Lane::Compute, 0.0, 1.0)]), 10);
        assert_eq!((metrics.bytes_wire, metrics.ratio, metrics.comm_s), (0, None, 0.0));
    }

    #[test]
    fn receives_are_not_counted_as_bytes_twice() {
        let spans = vec![span(0, Lane::Tx, 0.0, 1.0), span(1, Lane::Rx, 0.0, 1.0)];
        assert_eq!(Metrics::of(&timeline(2, &[(0.0, 1.0)], spans), 100).bytes_wire, 100);
    }

    #[test]
    fn bytes_are_the_mean_over_iterations() {
        let mut second = span(0, Lane::Tx, 0.0, 1.0);
        (second.iteration, second.bytes) = (1, 103);
        let spans = vec![span(0, Lane::Tx, 0.0, 1.0), second];
        assert_eq!(Metrics::of(&timeline(1, &[(0.0, 1.0), (1.0, 2.0)], spans), 100).bytes_wire, 102, "101.5");
    }

    #[test]
    fn transfers_that_outlast_their_exchange_do_not_shorten_the_wait() {
        let spans = vec![
            span(0, Lane::Exchange, 0.0, 1.0),
            span(0, Lane::Exchange, 2.0, 4.0),
            span(0, Lane::Rx, 0.5, 3.0),
            span(0, Lane::Codec, 4.0, 4.0),
        ];
        let metrics = Metrics::of(&timeline(1, &[(0.0, 4.0)], spans), 0);
        assert_eq!((metrics.comm_s, metrics.wait_s, metrics.codec_s), (2.5, 1.5, 0.0));
    }

    #[test]
    fn no_iterations_is_all_zero() {
        let (metrics, ranks) = Metrics::with_ranks(&timeline(4, &[], vec![]), 0);
        assert_eq!(metrics, Metrics::default());
        assert_eq!((ranks.wait_s, ranks.bytes_received), (vec![0.0; 4], vec![0; 4]));
        assert_eq!(ranks.imbalance, Imbalances::default());
    }

    #[test]
    #[should_panic(expected = "a span names rank 5")]
    fn unknown_rank_is_a_programmer_error() {
        Metrics::of(&timeline(2, &[(0.0, 1.0)], vec![span(5, Lane::Tx, 0.0, 1.0)]), 0);
    }

    #[test]
    fn sums_are_a_part_of_the_codec_s_lane() {
        let sum = Span { name: "reduce", ..span(0, Lane::Codec, 2.0, 2.5) };
        // A model may call a phase like that.
        let phase = Span { name: "reduce", ..span(0, Lane::Compute, 0.0, 3.0) };
        let spans = vec![span(0, Lane::Codec, 0.0, 1.0), sum, phase];
        let metrics = Metrics::of(&timeline(1, &[(0.0, 3.0)], spans), 0);
        assert_eq!((metrics.codec_s, metrics.reduce_s, metrics.compute_s), (1.5, 0.5, 3.0));
    }

    fn union(intervals: &[(f64, f64)]) -> Union {
        Union::of(intervals.iter().copied())
    }

    #[test]
    fn merges_nested_overlapping_and_touching() {
        let nested = union(&[(0.0, 10.0), (2.0, 3.0)]);
        assert_eq!(nested.parts, [(0.0, 10.0)]);
        let mixed = union(&[(7.0, 9.0), (0.0, 2.0), (2.0, 3.0), (1.0, 2.5), (5.0, 5.0)]);
        assert_eq!(mixed.parts, [(0.0, 3.0), (7.0, 9.0)]);
        assert_eq!(mixed.length(), 5.0);
        assert_eq!(union(&[]).length(), 0.0);
    }

    #[test]
    fn difference_by_hand() {
        let base = union(&[(0.0, 4.0), (6.0, 10.0)]);
        assert_eq!(
            base.without(&union(&[(1.0, 2.0), (3.0, 7.0)])).parts,
            [(0.0, 1.0), (2.0, 3.0), (7.0, 10.0)]
        );
        let without = |holes: &[(f64, f64)]| base.length_without(&union(holes));
        assert_eq!(without(&[]), 8.0);
        assert_eq!(without(&[(1.0, 2.0)]), 7.0, "inside");
        assert_eq!(without(&[(3.0, 7.0)]), 6.0, "across two parts");
        assert_eq!(without(&[(-5.0, 20.0)]), 0.0, "all");
        assert_eq!(without(&[(4.0, 6.0)]), 8.0, "in the gap");
        assert_eq!(without(&[(-1.0, 1.0), (2.0, 3.0), (9.0, 12.0)]), 5.0, "several");
    }

    /// Against counting unit cells, on all pairs of pairs of intervals of a small grid.
    #[test]
    fn difference_agrees_with_counting() {
        const CELLS: u8 = 5;
        let all: Vec<(f64, f64)> =
            (0..CELLS).flat_map(|b| (b + 1..=CELLS).map(move |e| (f64::from(b), f64::from(e)))).collect();
        let covers = |set: &[(f64, f64)], cell: u8| {
            let middle = f64::from(cell) + 0.5;
            set.iter().any(|&(begin, end)| begin < middle && middle < end)
        };
        for a in &all {
            for b in &all {
                for c in &all {
                    for d in &all {
                        let (base, holes) = ([*a, *b], [*c, *d]);
                        let cells = (0..CELLS).filter(|&x| covers(&base, x) && !covers(&holes, x)).count();
                        let length = union(&base).length_without(&union(&holes));
                        assert_eq!(length, cells as f64, "{base:?} without {holes:?}");
                    }
                }
            }
        }
    }
}
