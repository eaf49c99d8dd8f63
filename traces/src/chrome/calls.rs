//! Calls of each rank: a slice per segment, from its first span to its last, above the lanes.

use std::collections::HashMap;

use zipwire_schedule::{Lane, Rank, SegmentId};
use zipwire_timeline::Span;

use super::track::{Row, Slice};

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

    /// Where it is drawn.
    pub(super) fn row(&self) -> Row {
        if self.is_background { Row::BackgroundCalls } else { Row::Calls }
    }
}

/// The calls of some spans whose slices these are, by rank, iteration and segment; on no track yet. Those that take no time,
/// of a phase that has nothing to do, are left out: there is nothing to see above the span itself.
pub(super) fn of<'s>(spans: impl IntoIterator<Item = (&'s Span, Slice)>) -> Vec<Call> {
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
    use crate::chrome::tests::{both_ends, compute, timeline};
    use crate::chrome::track::Tracks;

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
