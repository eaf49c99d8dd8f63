//! Which span and which call of a rank is drawn where: threads of the trace, and times in whole nanoseconds.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use zipwire_schedule::{Lane, Rank, SegmentId};
use zipwire_timeline::{Span, Timeline};

/// Row of a rank, in the order of display.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Row {
    /// Calls and phases that the model waits for.
    Calls,
    /// Calls in the background.
    BackgroundCalls,
    /// Spans of a lane.
    Lane(Lane),
}

impl Row {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Calls => "calls",
            Self::BackgroundCalls => "background calls",
            Self::Lane(lane) => lane.name(),
        }
    }
}

/// A thread of the trace: a row of a rank, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Track {
    pub(super) rank: Rank,
    pub(super) row: Row,
    /// 0 for the row itself, counting up for the sub-rows that its overlapping slices need.
    pub(super) sub_row: u32,
    /// Thread id: unique in the whole trace, ascending in the order of display, and never the id of a process.
    /// (Perfetto orders threads by id, and shows one whose id is its process's as the main thread, first.)
    pub(super) tid: u64,
}

impl Track {
    /// `tx`, `tx 2`, `tx 3`, ...
    pub(super) fn name(&self) -> String {
        match self.sub_row {
            0 => self.row.name().to_owned(),
            index => format!("{} {}", self.row.name(), index + 1),
        }
    }
}

/// A span or a call, placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slice {
    /// Index into [`Tracks::tracks`].
    pub(super) track: usize,
    pub(super) begin_ns: i64,
    pub(super) end_ns: i64,
}

impl Slice {
    /// The times of a span, which is on no track yet: begin and end since the start of the run. A transfer takes a nanosecond
    /// at least: an arrow cannot be bound to less.
    pub(super) fn unplaced(span: &Span, timeline: &Timeline) -> Self {
        let iteration_s =
            timeline.iterations.get(span.iteration as usize).map_or(0.0, |iteration| iteration.begin_s);
        let begin_ns = nanoseconds(iteration_s + span.begin_s);
        let shortest = i64::from(span.peer.is_some());
        Self { track: 0, begin_ns, end_ns: nanoseconds(iteration_s + span.end_s).max(begin_ns + shortest) }
    }
}

/// Every span's place, and every call's.
pub(super) struct Tracks {
    /// In the order of display: by rank, row, sub-row.
    pub(super) tracks: Vec<Track>,
    /// Slices by index of the span.
    pub(super) slices: Vec<Slice>,
    pub(super) calls: Vec<Call>,
}

impl Tracks {
    pub(super) fn assign(timeline: &Timeline) -> Self {
        Self::of(timeline.spans.iter(), timeline)
    }

    /// The places of some spans of a timeline, which it need not hold itself, and of their calls.
    pub(super) fn of<'s>(spans: impl Iterator<Item = &'s Span> + Clone, timeline: &Timeline) -> Self {
        let mut slices: Vec<_> = spans.clone().map(|span| Slice::unplaced(span, timeline)).collect();
        let mut calls = calls_of(spans.clone().zip(slices.iter().copied()));
        let of_calls = calls.iter_mut().map(|call| (call.rank, call.row(), &mut call.slice));
        let of_spans = spans.zip(&mut slices).map(|(span, slice)| (span.rank, Row::Lane(span.lane), slice));
        let tracks = deal(of_calls.chain(of_spans).collect(), timeline.rank_count);
        Self { tracks, slices, calls }
    }
}

/// Deals the slices of each row of a rank, in the order in which they begin, to the first sub-row that is free; of those that
/// begin and end together in the order given. Returns the tracks.
fn deal(mut slices: Vec<(Rank, Row, &mut Slice)>, rank_count: u32) -> Vec<Track> {
    slices.sort_by_key(|(rank, row, slice)| (*rank, *row, slice.begin_ns, slice.end_ns));
    let mut tracks = Vec::new();
    for group in slices.chunk_by_mut(|a, b| (a.0, a.1) == (b.0, b.1)) {
        let first = tracks.len();
        // Sub-rows by the end of their last slice, and those whose last slice has ended.
        let mut busy: BinaryHeap<Reverse<(i64, u32)>> = BinaryHeap::new();
        let mut free: BinaryHeap<Reverse<u32>> = BinaryHeap::new();
        for (rank, row, slice) in group {
            while let Some(&Reverse((end_ns, sub_row))) = busy.peek()
                && end_ns <= slice.begin_ns
            {
                busy.pop();
                free.push(Reverse(sub_row));
            }
            let sub_row = free.pop().map_or_else(
                || {
                    let tid = u64::from(rank_count) + tracks.len() as u64;
                    let sub_row = (tracks.len() - first) as u32;
                    tracks.push(Track { rank: *rank, row: *row, sub_row, tid });
                    sub_row
                },
                |Reverse(sub_row)| sub_row,
            );
            busy.push(Reverse((slice.end_ns, sub_row)));
            slice.track = first + sub_row as usize;
        }
    }
    tracks
}

/// The nearest whole nanosecond.
pub(super) fn nanoseconds(seconds: f64) -> i64 {
    (seconds * 1e9).round() as i64
}

/// A collective call or compute phase on one rank, in one iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) rank: Rank,
    pub(super) iteration: u32,
    pub(super) segment: SegmentId,
    /// Whether it has a background channel: then it lasts while others come and go.
    pub(super) is_background: bool,
    /// From the first begin of its spans to their last end.
    pub(super) slice: Slice,
}

impl Call {
    fn of(span: &Span, slice: Slice) -> Self {
        let Span { rank, iteration, segment, .. } = *span;
        Self { rank, iteration, segment, is_background: false, slice }
    }

    fn add(&mut self, span: &Span, slice: &Slice) {
        self.slice.begin_ns = self.slice.begin_ns.min(slice.begin_ns);
        self.slice.end_ns = self.slice.end_ns.max(slice.end_ns);
        self.is_background |= matches!(span.lane, Lane::Background | Lane::BackgroundControl);
    }

    pub(super) fn row(&self) -> Row {
        if self.is_background { Row::BackgroundCalls } else { Row::Calls }
    }
}

/// The calls of some spans whose slices these are, by rank, iteration and segment; on no track yet. Those that take no time,
/// of a phase that has nothing to do, are left out: there is nothing to see above the span itself.
pub(super) fn calls_of<'s>(spans: impl IntoIterator<Item = (&'s Span, Slice)>) -> Vec<Call> {
    let mut calls: HashMap<(Rank, u32, SegmentId), Call> = HashMap::new();
    for (span, slice) in spans {
        let key = (span.rank, span.iteration, span.segment);
        calls.entry(key).or_insert_with(|| Call::of(span, slice)).add(span, &slice);
    }
    let takes_time = |call: &Call| call.slice.begin_ns < call.slice.end_ns;
    let mut calls: Vec<Call> = calls.into_values().filter(takes_time).collect();
    calls.sort_unstable_by_key(|call| (call.rank, call.iteration, call.segment));
    calls
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chrome::tests::{both_ends, compute, timeline, transfer};

    /// (track name, begin, end) of each span, in the order given.
    fn placed(spans: Vec<Span>) -> Vec<(String, i64, i64)> {
        let tracks = Tracks::assign(&timeline(spans));
        let place = |slice: &Slice| (tracks.tracks[slice.track].name(), slice.begin_ns, slice.end_ns);
        tracks.slices.iter().map(place).collect()
    }

    fn names(spans: Vec<Span>) -> Vec<String> {
        placed(spans).into_iter().map(|(name, ..)| name).collect()
    }

    #[test]
    fn one_after_the_other_is_one_track() {
        let spans = vec![transfer(0, 1, 1e-6, 2e-6), transfer(0, 2, 2e-6, 3e-6), transfer(0, 3, 0.0, 1e-6)];
        assert_eq!(names(spans), ["tx", "tx", "tx"]);
    }

    #[test]
    fn overlapping_spans_take_the_first_free_sub_row() {
        let spans = vec![
            transfer(0, 1, 0.0, 4e-6),
            transfer(0, 2, 1e-6, 2e-6),
            transfer(0, 3, 1.5e-6, 6e-6),
            transfer(0, 1, 2e-6, 3e-6),
            transfer(0, 2, 4e-6, 5e-6),
        ];
        assert_eq!(names(spans), ["tx", "tx 2", "tx 3", "tx 2", "tx"]);
    }

    #[test]
    fn ranks_and_lanes_do_not_share_sub_rows() {
        let spans = vec![transfer(0, 1, 0.0, 1e-6), transfer(1, 0, 0.0, 1e-6), compute(0, 0.0, 1e-6)];
        assert_eq!(names(spans), ["tx", "tx", "compute"]);
    }

    #[test]
    fn overlap_is_decided_after_rounding() {
        // 1.4 ns and 1.3 ns overlap as real numbers and not as whole nanoseconds; 1.6 and 1.7 the other way round.
        let overlap_lost = vec![transfer(0, 1, 0.0, 1.4e-9), transfer(0, 2, 1.3e-9, 9e-9)];
        assert_eq!(placed(overlap_lost), [("tx".to_owned(), 0, 1), ("tx".to_owned(), 1, 9)]);
        let overlap_made = vec![transfer(0, 1, 0.0, 0.4e-9), transfer(0, 2, 0.4e-9, 9e-9)];
        assert_eq!(placed(overlap_made), [("tx".to_owned(), 0, 1), ("tx 2".to_owned(), 0, 9)]);
    }

    #[test]
    fn a_zero_length_op_stays_and_occupies_nothing() {
        let spans = vec![compute(0, 0.0, 1e-6), compute(0, 1e-6, 1e-6), compute(0, 1e-6, 2e-6)];
        let kept: Vec<_> =
            [(0, 1000), (1000, 1000), (1000, 2000)].map(|(b, e)| ("compute".to_owned(), b, e)).into();
        assert_eq!(placed(spans), kept);
    }

    #[test]
    fn thread_ids_follow_the_order_of_display_and_are_no_process_ids() {
        let spans = vec![
            transfer(1, 0, 0.0, 1e-6),
            transfer(0, 1, 0.0, 1e-6),
            transfer(0, 2, 0.0, 1e-6),
            compute(0, 0.0, 1e-6),
        ];
        let tracks = Tracks::assign(&timeline(spans)).tracks;
        let shown: Vec<_> = tracks.iter().map(|track| (track.rank.0, track.name(), track.tid)).collect();
        let on_0 = [(0, "calls", 4), (0, "calls 2", 5), (0, "compute", 6), (0, "tx", 7), (0, "tx 2", 8)];
        let expected = on_0.into_iter().chain([(1, "calls", 9), (1, "tx", 10)]);
        let named = |(rank, name, tid): (u32, &str, u64)| (rank, name.to_owned(), tid);
        assert_eq!(shown, expected.map(named).collect::<Vec<_>>());
    }

    /// (Rank, segment, track, begin, end) of each call.
    fn drawn(spans: Vec<Span>) -> Vec<(u32, u32, String, i64, i64)> {
        let Tracks { tracks, calls, .. } = Tracks::assign(&timeline(spans));
        let shown = |Call { rank, segment, slice, .. }: &Call| {
            (rank.0, segment.0, tracks[slice.track].name(), slice.begin_ns, slice.end_ns)
        };
        calls.iter().map(shown).collect()
    }

    #[test]
    fn from_the_first_begin_to_the_last_end_on_each_rank() {
        let mut spans = vec![compute(0, 5e-6, 6e-6)];
        spans.extend(both_ends(0, 1, 2e-6, 4e-6));
        spans.extend(both_ends(0, 2, 1e-6, 3e-6));
        let calls = |end_ns| ("calls".to_owned(), 1000, end_ns);
        let [on_0, on_1] = [calls(4000), ("calls".to_owned(), 2000, 4000)];
        let phase = ("calls".to_owned(), 5000, 6000);
        let expected = [(0, 0, on_0), (0, 1, phase), (1, 0, on_1), (2, 0, calls(3000))];
        assert_eq!(drawn(spans), expected.map(|(rank, segment, (name, b, e))| (rank, segment, name, b, e)));
    }

    #[test]
    fn each_iteration_has_its_own() {
        let spans = vec![compute(0, 0.0, 1e-6), Span { iteration: 1, ..compute(0, 2e-6, 3e-6) }];
        assert_eq!(drawn(spans).len(), 2);
    }

    #[test]
    fn what_takes_no_time_is_left_out() {
        assert_eq!(drawn(vec![compute(0, 1e-6, 1e-6)]), []);
        assert_eq!(drawn(vec![compute(0, 1e-6, 1e-6), compute(0, 2e-6, 3e-6)]).len(), 1);
    }

    #[test]
    fn what_overlaps_gets_a_track_of_its_own_and_so_does_the_background() {
        let sums = |lane, begin_s, end_s| Span {
            segment: SegmentId(2),
            lane,
            ..both_ends(0, 1, begin_s, end_s)[0].clone()
        };
        let spans = vec![
            compute(0, 0.0, 4e-6),
            both_ends(0, 1, 2e-6, 6e-6)[0].clone(),
            sums(Lane::Codec, 1e-6, 2e-6),
            sums(Lane::Background, 2e-6, 9e-6),
        ];
        let expected = [
            (0, 0, "calls 2".to_owned(), 2000, 6000),
            (0, 1, "calls".to_owned(), 0, 4000),
            (0, 2, "background calls".to_owned(), 1000, 9000),
        ];
        assert_eq!(drawn(spans), expected);
    }
}
