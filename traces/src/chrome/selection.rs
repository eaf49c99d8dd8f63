//! Selection of the spans that are drawn: all, or those that fit.

use std::borrow::Cow;

use zipwire_timeline::{IterationTime, Note, Span, Timeline};

use super::links::{LinkTrack, LinkTracks};
use super::sampling::{Choice, Sampling, Sizes, choose};
use super::track::{Tracks, nanoseconds};
use super::{Limit, TraceMeta, flow, in_flight, rank_states};

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
        let rank_states = rank_states::counters(timeline, &by_rank, CROWD_BYTES.min(bytes / 16));
        let taken = FRAME_BYTES
            + rank_states::most_bytes(&rank_states)
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
            ranks: (0..timeline.rank_count).collect(),
            links: None,
            rank_states: Vec::new(),
            sampling: None,
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
        for (id, flow) in flow::pair(spans, slices).into_iter().enumerate() {
            events.push((flow.begin_ns, Event::FlowBegin { id, span: flow.send }));
            events.push((flow.end_ns, Event::FlowEnd { id, span: flow.receive }));
        }
        for (ns, rank, bytes) in in_flight::bytes_in_flight(spans, slices) {
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

/// The spans of each rank in the order of the timeline.
pub(super) fn by_rank(timeline: &Timeline) -> Vec<Vec<&Span>> {
    let mut by_rank = vec![Vec::new(); timeline.rank_count as usize];
    timeline.spans.iter().for_each(|span| by_rank[span.rank.index()].push(span));
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
