//! Main lane of a rank in a step: when it makes calls, and which of them it waits for.

use std::collections::BTreeMap;
use std::ops::Range;

use super::Queued;
use super::calls::RankCalls;
use crate::intervals::{Busy, RESUMED_NS};
use crate::profile::{Profile, Timing};

/// A rank in a step. Times are nanoseconds of the main lane from the begin of the step on; calls are counted in the step, those alone that are
/// replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lane {
    /// Time at which each call is made.
    pub(super) made_ns: Vec<i64>,
    /// Waits in order.
    pub(super) waits: Vec<Wait>,
    /// Time of the main lane until the end of the step.
    pub(super) end_ns: i64,
    /// The same as the clock shows it, with the time for which it waits.
    pub(super) span_ns: i64,
    /// Time for which it waits for calls.
    pub(super) stalled_ns: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    /// Call that is waited for.
    pub(super) call: usize,
    /// Calls that are made before.
    pub(super) behind: usize,
    pub(super) at_ns: i64,
}

/// Begin and end of a call, and the time before its end for which the main lane waits.
struct Span {
    begin: i64,
    end: i64,
    stall: i64,
    stream: u64,
}

impl Lane {
    pub(super) fn of(
        profile: &Profile,
        rank: &RankCalls<'_>,
        range: &Range<usize>,
        is_kept: &[bool],
        queued: Queued,
    ) -> Self {
        let spans = spans(profile, rank, range, is_kept);
        let bounds = bounds(profile, rank, range, &spans);
        let stalls = Busy::of(
            spans.iter().filter(|span| span.stall > 0).map(|span| (span.end - span.stall, span.end)),
        );
        let main = |time: i64| (time - bounds.0 - stalls.within((bounds.0, time))).max(0);
        let mut made = Vec::with_capacity(spans.len());
        let mut streams: BTreeMap<u64, (i64, i64)> = BTreeMap::new();
        let mut latest = bounds.0;
        for span in &spans {
            let before = streams.get(&span.stream).filter(|(_, end)| span.begin - end <= RESUMED_NS);
            let time = match (queued, before) {
                (Queued::Early, Some((made, _))) if profile.is_compute_known => *made,
                _ => span.begin,
            };
            // Calls stay in their order.
            latest = latest.max(time);
            made.push(latest);
            streams.insert(span.stream, (latest, span.end));
        }
        let wait = |(call, span): (usize, &Span)| Wait {
            call,
            behind: made.partition_point(|time| *time < span.end).max(call + 1),
            at_ns: main(span.end),
        };
        let mut waits: Vec<Wait> =
            spans.iter().enumerate().filter(|(_, span)| span.stall > 0).map(wait).collect();
        waits.sort_by_key(|wait| (wait.behind, wait.at_ns, wait.call));
        Self {
            made_ns: made.into_iter().map(main).collect(),
            waits,
            end_ns: main(bounds.1),
            span_ns: bounds.1 - bounds.0,
            stalled_ns: stalls.within(bounds),
        }
    }
}

impl Lane {
    /// Time at which it waits for a call, if that is behind so many calls.
    pub(super) fn waits_for(&self, call: usize, behind: usize) -> Option<i64> {
        let first = self.waits.partition_point(|wait| wait.behind < behind);
        let here = self.waits[first..].iter().take_while(|wait| wait.behind == behind);
        here.into_iter().find(|wait| wait.call == call).map(|wait| wait.at_ns)
    }
}

/// Calls that are replayed. Where begins are not known, one comes after the other, and all are waited for.
fn spans(profile: &Profile, rank: &RankCalls<'_>, range: &Range<usize>, is_kept: &[bool]) -> Vec<Span> {
    let kept = rank.calls[range.clone()].iter().zip(is_kept).filter(|(_, is_kept)| **is_kept);
    let mut ended = 0;
    let span = kept.map(|(call, _)| {
        let record = call.record;
        let begin = if profile.timing == Timing::Kernels { record.start_ns } else { ended };
        // Without any time, waits are told by their order.
        let lasts = if profile.timing.has_durations() { record.duration_ns.max(1) } else { 1 };
        ended = begin + lasts;
        let stall = if profile.is_compute_known { record.stall_ns } else { lasts };
        Span { begin, end: ended, stall, stream: record.stream }
    });
    span.collect()
}

/// Begin and end of a step of a rank: steps meet where the last call of one ends.
fn bounds(profile: &Profile, rank: &RankCalls<'_>, range: &Range<usize>, spans: &[Span]) -> (i64, i64) {
    let (Some(first), Some(last)) = (spans.first(), spans.iter().map(|span| span.end).max()) else {
        return (0, 0);
    };
    if profile.timing != Timing::Kernels {
        return (first.begin, last);
    }
    let calls = &rank.calls;
    let before =
        rank.ended_ns[range.start].unwrap_or(first.begin - calls[range.start].record.compute_before_ns);
    // Behind the last call of a profile, compute is all that is known.
    let is_whole = range.start == 0 && range.end == calls.len();
    let after = calls[range.clone()].last().filter(|_| is_whole);
    let after = after.map_or(i64::MIN, |call| call.record.start_ns + rank.compute_after_ns);
    (before.min(first.begin), last.max(after))
}
