//! Selection of what is drawn: all spans or those that fit, arrows from sends to receives, bytes in flight, and how many ranks do what.

use std::borrow::Cow;

use zipwire_schedule::{Lane, Rank, SegmentId, Stage};
use zipwire_timeline::{IterationTime, Note, Series, Span, Timeline, Union};

use super::links::{LinkTrack, LinkTracks};
use super::sampling::{Choice, Sampling, Sizes, choose};
use super::track::{Slice, Tracks, nanoseconds};
use super::{Limit, TraceMeta};

/// Most bytes of the counters of links.
const LINK_BYTES: u64 = 6_000_000;
/// Most bytes of the counters of all ranks.
const CROWD_BYTES: u64 = 1_500_000;
/// More bytes than everything else takes that is there once: first and last lines, `otherData`, names of processes.
const FRAME_BYTES: u64 = 4096;

pub(super) struct Selection<'t> {
    pub(super) timeline: &'t Timeline,
    pub(super) spans: Cow<'t, [Span]>,
    /// How many spans each stands for; empty if all stand for themselves.
    counts: Vec<u32>,
    pub(super) tracks: Tracks,
    /// Ascending.
    pub(super) ranks: Vec<u32>,
    pub(super) links: Option<LinkTracks>,
    /// Changes of the counters of all ranks.
    rank_states: Vec<(i64, usize, u32)>,
    /// `None` if everything is drawn.
    pub(super) sampling: Option<Sampling>,
}

/// Event at one instant. Events of the same instant come in the order of the variants: a slice is open
/// before an arrow is bound to it, and an arrow begins before it ends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    IterationEnd { iteration: u32 },
    IterationBegin { iteration: u32 },
    Call { call: usize },
    Slice { end_ns: i64, span: usize },
    FlowBegin { id: usize, span: usize },
    FlowEnd { id: usize, span: usize },
    InFlight { rank: u32, bytes: u64 },
    Link { track: usize, used: u32 },
    RankStates { state: usize, ranks: u32 },
    Note { note: usize },
}

impl<'t> Selection<'t> {
    /// Selects as much of `timeline` as fits into the limit.
    pub(super) fn of(timeline: &'t Timeline, meta: &TraceMeta, limit: &Limit) -> Self {
        let bytes = limit.bytes.max(1 << 16);
        let link_bytes = LINK_BYTES.min(bytes / 8);
        let links = timeline.link_usage.as_ref().map(|usage| LinkTracks::of(usage, link_bytes));
        let links = links.filter(|links| !links.tracks.is_empty());
        let by_rank = by_rank(timeline);
        let rank_states = counters(timeline, &by_rank, CROWD_BYTES.min(bytes / 16));
        let taken = FRAME_BYTES
            + most_bytes(&rank_states)
            + links.as_ref().map_or(0, LinkTracks::most_bytes)
            + notes_bytes(drawn_notes(timeline));
        let sizes = Sizes::of(timeline, meta);
        let left = bytes - taken;
        let spans = sizes.frame() + timeline.spans.iter().map(|span| sizes.span(span, 1)).sum::<u64>();
        // Placing spans takes longer than seeing that far too many of them are there.
        if spans <= left {
            let tracks = Tracks::assign(timeline);
            if spans + sizes.tracks(&tracks) <= left {
                return Self { rank_states, links, ..Self::whole(timeline, tracks) };
            }
        }
        let choice = choose(&sizes, &by_rank, left, limit.ranks_per_node);
        Self { rank_states, links, ..Self::part(timeline, choice) }
    }

    fn whole(timeline: &'t Timeline, tracks: Tracks) -> Self {
        Self {
            timeline,
            spans: Cow::Borrowed(&timeline.spans),
            counts: Vec::new(),
            tracks,
            ranks: all_ranks(timeline),
            links: None,
            rank_states: Vec::new(),
            // Others are like those that have spans.
            sampling: (timeline.members() < timeline.rank_count).then(|| Sampling {
                rank_count: timeline.rank_count,
                ranks: all_ranks(timeline),
                merged: Vec::new(),
                iteration_count: timeline.iterations.len() as u32,
                iterations: (0..timeline.iterations.len() as u32).collect(),
            }),
        }
    }

    fn part(timeline: &'t Timeline, choice: Choice) -> Self {
        let Choice { iterations, ranks, merged } = choice;
        let is_drawn = |span: &&Span| ranks.contains(&span.rank.0) && iterations.contains(&span.iteration);
        let merged_ranks: Vec<u32> = merged.iter().map(|&(rank, _)| rank).collect();
        let drawn = timeline.spans.iter().filter(is_drawn).map(|span| (span.clone(), 1));
        let (spans, counts): (Vec<Span>, Vec<u32>) =
            drawn.chain(merged.into_iter().flat_map(|(_, spans)| spans)).unzip();
        let mut all_ranks: Vec<u32> = ranks.iter().chain(&merged_ranks).copied().collect();
        all_ranks.sort_unstable();
        let sampling = Sampling {
            rank_count: timeline.rank_count,
            ranks: ranks.into_iter().collect(),
            merged: merged_ranks,
            iteration_count: timeline.iterations.len() as u32,
            iterations: iterations.into_iter().collect(),
        };
        let whole = Self::whole(timeline, Tracks::of(spans.iter(), timeline));
        Self { spans: Cow::Owned(spans), counts, ranks: all_ranks, sampling: Some(sampling), ..whole }
    }

    /// How many spans of the run a span that is drawn stands for.
    pub(super) fn count(&self, span: usize) -> u32 {
        self.counts.get(span).copied().unwrap_or(1)
    }

    pub(super) fn is_merged(&self, rank: u32) -> bool {
        self.sampling.as_ref().is_some_and(|sampling| sampling.merged.contains(&rank))
    }

    pub(super) fn link_tracks(&self) -> &[LinkTrack] {
        self.links.as_ref().map_or(&[], |links| &links.tracks)
    }

    /// All events with their times in nanoseconds, in the order of time.
    pub(super) fn events(&self) -> Vec<(i64, Event)> {
        let mut events = Vec::with_capacity(4 * self.spans.len());
        let all = 0..self.timeline.iterations.len() as u32;
        let drawn: Vec<u32> =
            self.sampling.as_ref().map_or_else(|| all.collect(), |sampling| sampling.iterations.clone());
        for iteration in drawn {
            let IterationTime { begin_s, length_s } = self.timeline.iterations[iteration as usize];
            let begin_ns = nanoseconds(begin_s);
            events.push((begin_ns, Event::IterationBegin { iteration }));
            let end_ns = nanoseconds(begin_s + length_s).max(begin_ns + 1);
            events.push((end_ns, Event::IterationEnd { iteration }));
        }
        for (index, call) in self.tracks.calls.iter().enumerate() {
            events.push((call.slice.begin_ns, Event::Call { call: index }));
        }
        let (spans, slices) = (&self.spans, &self.tracks.slices);
        for (span, slice) in slices.iter().enumerate() {
            events.push((slice.begin_ns, Event::Slice { end_ns: slice.end_ns, span }));
        }
        for (id, flow) in pair(spans, slices).into_iter().enumerate() {
            events.push((flow.begin_ns, Event::FlowBegin { id, span: flow.send }));
            events.push((flow.end_ns, Event::FlowEnd { id, span: flow.receive }));
        }
        for (ns, rank, bytes) in bytes_in_flight(spans, slices) {
            // Of a rank whose sends are merged, nobody knows when which began.
            if !self.is_merged(rank) {
                events.push((ns, Event::InFlight { rank, bytes }));
            }
        }
        for (track, link) in self.link_tracks().iter().enumerate() {
            events.extend(link.changes.iter().map(|&(ns, used)| (ns, Event::Link { track, used })));
        }
        events.extend(
            self.rank_states.iter().map(|&(ns, state, ranks)| (ns, Event::RankStates { state, ranks })),
        );
        for (note, Note { at_s, .. }) in self.notes().iter().enumerate() {
            events.push((nanoseconds(*at_s), Event::Note { note }));
        }
        events.sort_unstable();
        events
    }

    pub(super) fn notes(&self) -> &'t [Note] {
        drawn_notes(self.timeline)
    }
}

/// Ranks that have spans.
fn all_ranks(timeline: &Timeline) -> Vec<u32> {
    (0..timeline.members()).map(|place| timeline.member_at(place).0).collect()
}

/// The spans of each rank that has some, in the order of the timeline.
pub(super) fn by_rank(timeline: &Timeline) -> Vec<Vec<&Span>> {
    let mut by_rank = vec![Vec::new(); timeline.members() as usize];
    timeline.spans.iter().for_each(|span| by_rank[timeline.place(span.rank)].push(span));
    by_rank
}

/// Most notes that are drawn; of more, the first ones are.
const MOST_DRAWN: usize = 4096;

fn drawn_notes(timeline: &Timeline) -> &[Note] {
    &timeline.notes[..timeline.notes.len().min(MOST_DRAWN)]
}

/// At least as many bytes as events of notes take.
fn notes_bytes(notes: &[Note]) -> u64 {
    let of = |note: &Note| 200 + note.name.len() + note.args.len();
    notes.iter().map(|note| of(note) as u64).sum()
}

/// An arrow from a send to its receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flow {
    pub(super) send: usize,
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

/// Every change of the counter as (time in nanoseconds, rank, bytes of the sends that are open from then on), by
/// rank and time. A change at an instant is one, however many sends begin and end there.
fn bytes_in_flight(spans: &[Span], slices: &[Slice]) -> Vec<(i64, u32, u64)> {
    let mut edges: Vec<(u32, i64, i128)> = spans
        .iter()
        .zip(slices)
        .filter(|(span, _)| span.lane == Lane::Tx && span.bytes > 0)
        .flat_map(|(span, slice)| {
            let (rank, bytes) = (span.rank.0, i128::from(span.bytes));
            [(rank, slice.begin_ns, bytes), (rank, slice.end_ns, -bytes)]
        })
        .collect();
    edges.sort_unstable();

    let mut changes = Vec::new();
    for of_rank in edges.chunk_by(|a, b| a.0 == b.0) {
        let mut open: i128 = 0;
        for at_once in of_rank.chunk_by(|a, b| a.1 == b.1) {
            let before = open;
            open += at_once.iter().map(|&(_, _, change)| change).sum::<i128>();
            if open != before {
                let bytes = u64::try_from(open).expect("a send ends after it begins");
                changes.push((at_once[0].1, at_once[0].0, bytes));
            }
        }
    }
    changes
}

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
    use super::super::tests::{both_ends, busy, compute, timeline, transfer};
    use super::super::track::Tracks;
    use super::*;

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

    fn counted(spans: Vec<Span>) -> Vec<(i64, u32, u64)> {
        let timeline = timeline(spans);
        bytes_in_flight(&timeline.spans, &Tracks::assign(&timeline).slices)
    }

    #[test]
    fn sums_the_open_sends_of_each_rank() {
        let spans = vec![transfer(0, 1, 0.0, 3e-6), transfer(0, 2, 1e-6, 2e-6), transfer(1, 0, 1e-6, 2e-6)];
        let expected =
            [(0, 0, 1000), (1000, 0, 2000), (2000, 0, 1000), (3000, 0, 0), (1000, 1, 1000), (2000, 1, 0)];
        assert_eq!(counted(spans), expected);
    }

    #[test]
    fn relay_of_equal_sends_does_not_flicker() {
        let spans = vec![transfer(0, 1, 0.0, 1e-6), transfer(0, 2, 1e-6, 2e-6)];
        assert_eq!(counted(spans), [(0, 0, 1000), (2000, 0, 0)]);
    }

    #[test]
    fn receives_do_not_count() {
        let [_, receive] = both_ends(0, 1, 0.0, 1e-6);
        assert_eq!(counted(vec![receive]), []);
    }

    fn rank_states_counted(timeline: &Timeline, bytes: u64) -> Vec<(i64, usize, u32)> {
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
            rank_states_counted(&timeline(spans), 1 << 20),
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
        let mut waiting = rank_states_counted(&timeline(spans), 1 << 20);
        waiting.retain(|&(_, state, _)| state == WAITING);
        let expected = [(1000, 1), (2000, 0), (3000, 1), (5000, 0), (6000, 1), (8000, 0)];
        assert_eq!(waiting, expected.map(|(ns, ranks)| (ns, WAITING, ranks)));
    }

    #[test]
    fn no_more_events_than_fit() {
        let timeline = busy(1);
        let all = rank_states_counted(&timeline, 1 << 20);
        let few = rank_states_counted(&timeline, 20_000);
        assert!(few.len() * 128 <= 20_000 && few.len() < all.len(), "{} of {}", few.len(), all.len());
        assert_eq!(few.last().map(|change| change.2), Some(0), "at the end nobody does anything");
    }
}
