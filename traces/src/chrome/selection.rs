//! What of a timeline is drawn, and where: everything, or what fits.

use std::borrow::Cow;
use std::collections::BTreeSet;

use zipwire_timeline::{IterationTime, Note, Span, Timeline};

use super::by_rank::ByRank;
use super::links::{LinkTrack, LinkTracks};
use super::merge::{Merged, merge};
use super::sampling::{Choice, Sampling, choose};
use super::size_estimate::SizeEstimates;
use super::track::{Tracks, nanoseconds};
use super::{Limit, TraceMeta, flow, in_flight, rank_states};

/// Most bytes of the counters of links.
const LINK_BYTES: u64 = 6_000_000;
/// Most bytes of the counters of all ranks.
const CROWD_BYTES: u64 = 1_500_000;
/// More bytes than everything else takes that is there once: first and last lines, `otherData`, names of processes.
const FRAME_BYTES: u64 = 4096;

pub(super) struct Selection<'t> {
    timeline: &'t Timeline,
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

/// What happens at one instant. Events of the same instant come in the order of the variants: a slice is open
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
    /// As much of `timeline` as fits into the limit.
    pub(super) fn of(timeline: &'t Timeline, meta: &TraceMeta, limit: &Limit) -> Self {
        let bytes = limit.bytes.max(1 << 16);
        let link_bytes = LINK_BYTES.min(bytes / 8);
        let links = timeline.link_usage.as_ref().map(|usage| LinkTracks::of(usage, link_bytes));
        let links = links.filter(|links| !links.tracks.is_empty());
        let by_rank = ByRank::of(timeline);
        let rank_states = rank_states::counters(&by_rank, CROWD_BYTES.min(bytes / 16));
        let taken = FRAME_BYTES
            + rank_states::most_bytes(&rank_states)
            + links.as_ref().map_or(0, LinkTracks::most_bytes)
            + notes_bytes(drawn_notes(timeline));
        // Placing spans takes longer than seeing that far too many of them are there.
        if !SizeEstimates::of(timeline, 0, meta).exceed(bytes - taken) {
            let tracks = Tracks::assign(timeline);
            let estimates = SizeEstimates::of(timeline, tracks.tracks.len(), meta);
            if estimates.whole(&tracks) + taken <= bytes {
                return Self { rank_states, links, ..Self::whole(timeline, tracks) };
            }
        }
        // A span is on a track and in a call, each at the most on one of its own.
        let estimates = SizeEstimates::of(timeline, 2 * timeline.spans.len(), meta);
        let choice = choose(&estimates, &by_rank, bytes - taken, limit.ranks_per_node);
        Self { rank_states, links, ..Self::reduced(&by_rank, &choice, &estimates) }
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

    fn reduced(by_rank: &ByRank<'t>, choice: &Choice, estimates: &SizeEstimates<'_>) -> Self {
        let timeline = by_rank.timeline();
        let iterations: BTreeSet<u32> = choice.iterations.iter().copied().collect();
        let mut is_drawn = vec![false; timeline.rank_count as usize];
        choice.ranks.iter().for_each(|&rank| is_drawn[rank as usize] = true);
        let is_kept = |span: &&Span| iterations.contains(&span.iteration);
        let spans = timeline.spans.iter().filter(|span| is_drawn[span.rank.index()]).filter(is_kept);
        let mut drawn: Vec<Merged> = spans.map(|span| (span.clone(), 1)).collect();
        let mut merged_ranks = Vec::new();
        for &(rank, bytes) in &choice.merged {
            if let Some(merged) =
                merge(by_rank.spans(rank).filter(is_kept).cloned().collect(), estimates, bytes)
            {
                drawn.extend(merged);
                merged_ranks.push(rank);
            }
        }
        let (spans, counts): (Vec<Span>, Vec<u32>) = drawn.into_iter().unzip();
        let mut ranks = [&choice.ranks[..], &merged_ranks].concat();
        ranks.sort_unstable();
        Self {
            timeline,
            tracks: Tracks::of(&spans, timeline),
            spans: Cow::Owned(spans),
            counts,
            ranks,
            sampling: Some(Sampling {
                rank_count: timeline.rank_count,
                ranks: choice.ranks.clone(),
                merged: merged_ranks,
                iteration_count: timeline.iterations.len() as u32,
                iterations: choice.iterations.clone(),
            }),
            links: None,
            rank_states: Vec::new(),
        }
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
