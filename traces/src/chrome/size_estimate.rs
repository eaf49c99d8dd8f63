//! How many bytes of a trace something takes, before it is written: never fewer than it will take, and hardly more.

use zipwire_schedule::SegmentId;
use zipwire_timeline::{Span, Timeline};

use super::TraceMeta;
use super::calls::Call;
use super::event::{CALL, MERGED};
use super::track::{Slice, Track, Tracks};

/// Line breaks and commas between events.
const BREAK: usize = 2;
/// The lines of an iteration's begin and end, and its number in the list of those that are drawn.
const ITERATION: usize = 320;
/// The longest text of a ratio.
const RATIO: usize = 24;

/// What the prices of a timeline's events have in common.
pub(super) struct SizeEstimates<'a> {
    /// Digits of any process's, any thread's and any arrow's id.
    pid: usize,
    tid: usize,
    id: usize,
    /// Digits of any counter of bytes in flight.
    in_flight: usize,
    segments: Vec<usize>,
    codec: usize,
    timeline: &'a Timeline,
}

impl<'a> SizeEstimates<'a> {
    /// Prices where at most `tracks` threads are drawn.
    pub(super) fn of(timeline: &'a Timeline, tracks: usize, meta: &TraceMeta) -> Self {
        let count = u64::from(timeline.rank_count) + tracks as u64;
        Self {
            pid: digits(count + 3),
            tid: digits(count),
            id: digits(timeline.spans.len() as u64),
            in_flight: digits(timeline.spans.iter().fold(0, |sum, span| sum.saturating_add(span.bytes))),
            segments: timeline.segments.iter().map(|name| text(name)).collect(),
            codec: meta.codec.as_deref().map_or(0, text),
            timeline,
        }
    }

    /// A span with its ends of arrows and its changes of a counter.
    pub(super) fn span(&self, span: &Span, slice: &Slice) -> u64 {
        let Slice { begin_ns, end_ns, .. } = *slice;
        let stage = span.stage.map_or(0, |stage| stage.name().len());
        let number = |key: &str, value: u64| key.len() + digits(value);
        let mut bytes = BREAK
            + r#"{"ph":"X","pid":,"tid":,"ts":,"dur":,"cat":"","name":"","args":{}}"#.len()
            + self.pid
            + self.tid
            + micros(begin_ns)
            + micros(end_ns - begin_ns)
            + span.lane.name().len()
            + text(span.name)
            + stage
            + number("\"iteration\":,", span.iteration.into())
            + r#""segment":"","#.len()
            + self.segment(span.segment)
            + number("\"op\":,", span.op.0.into())
            + number("\"bytes\":,", span.bytes);
        if stage > 0 {
            bytes += r#" "stage":"","#.len() + stage;
        }
        if span.tag > 0 {
            bytes += number("\"tag\":,", span.tag.into());
        }
        if let Some(coded) = span.bytes_coded {
            bytes +=
                number("\"bytes_coded\":,", coded) + r#""ratio":,"codec":"","#.len() + RATIO + self.codec;
        }
        if let Some(peer) = span.peer {
            let sends = span.lane == zipwire_schedule::Lane::Tx;
            let arrow = r#"{"ph":"s","bp":"e","id":,"pid":,"tid":,"ts":,"cat":"transfer","name":"transfer"}"#;
            bytes += number("\"peer\":,", peer.0.into())
                + BREAK
                + arrow.len()
                + self.id
                + self.pid
                + self.tid
                + micros(if sends { begin_ns } else { end_ns });
            if sends && span.bytes > 0 {
                let counter = r#"{"ph":"C","pid":,"ts":,"name":"bytes in flight","args":{"tx":}}"#.len();
                bytes +=
                    2 * (BREAK + counter + self.pid + self.in_flight) + micros(begin_ns) + micros(end_ns);
            }
        }
        bytes as u64
    }

    /// A span that stands for `count` of them.
    pub(super) fn merged(&self, span: &Span, slice: &Slice, count: u32) -> u64 {
        let more = MERGED.len() + " (merged)\"spans\":,".len() + digits(count.into());
        self.span(span, slice) + more as u64
    }

    /// The slice of a call.
    pub(super) fn call(&self, call: &Call) -> u64 {
        let Slice { begin_ns, end_ns, .. } = call.slice;
        let line = r#"{"ph":"X","pid":,"tid":,"ts":,"dur":,"cat":"","name":"","args":{"iteration":}}"#;
        let ids = self.pid + self.tid + digits(call.iteration.into());
        let texts = CALL.len() + self.segment(call.segment);
        (BREAK + line.len() + ids + texts + micros(begin_ns) + micros(end_ns - begin_ns)) as u64
    }

    /// The name of a segment.
    fn segment(&self, segment: SegmentId) -> usize {
        self.segments.get(segment.index()).copied().unwrap_or(0)
    }

    /// A thread.
    pub(super) fn track(&self, track: &Track) -> u64 {
        let name = r#"{"ph":"M","name":"thread_name","pid":,"tid":,"args":{"name":""}}"#;
        let order = r#"{"ph":"M","name":"thread_sort_index","pid":,"tid":,"args":{"sort_index":}}"#;
        let ids = 2 * self.pid + 3 * self.tid;
        let number = if track.sub_row > 0 { " ".len() + digits(u64::from(track.sub_row) + 1) } else { 0 };
        (2 * BREAK + name.len() + order.len() + ids + track.row.name().len() + number) as u64
    }

    /// A rank's process, and its number in the list of those that are drawn.
    pub(super) fn process(&self) -> u64 {
        let name = r#"{"ph":"M","name":"process_name","pid":,"args":{"name":"rank  (spans merged)"}}"#;
        let order = r#"{"ph":"M","name":"process_sort_index","pid":,"args":{"sort_index":}}"#;
        (2 * BREAK + name.len() + order.len() + 5 * self.pid + 1) as u64
    }

    /// An iteration.
    pub(super) fn iteration() -> u64 {
        ITERATION as u64
    }

    /// Whether all ranks, iterations and spans take more than `bytes`, whatever threads and calls take.
    pub(super) fn exceed(&self, bytes: u64) -> bool {
        let mut left = bytes.checked_sub(self.frame());
        for span in &self.timeline.spans {
            let Some(before) = left else { return true };
            left = before.checked_sub(self.span(span, &Slice::unplaced(span, self.timeline)));
        }
        left.is_none()
    }

    /// All ranks, threads, iterations, spans and calls.
    pub(super) fn whole(&self, tracks: &Tracks) -> u64 {
        let spans = self.timeline.spans.iter().zip(&tracks.slices);
        let spans: u64 = spans.map(|(span, slice)| self.span(span, slice)).sum();
        spans + self.calls(tracks) + self.threads(tracks) + self.frame()
    }

    /// All calls.
    pub(super) fn calls(&self, tracks: &Tracks) -> u64 {
        tracks.calls.iter().map(|call| self.call(call)).sum()
    }

    /// All ranks and iterations.
    fn frame(&self) -> u64 {
        let iterations = self.timeline.iterations.len() as u64 * Self::iteration();
        iterations + u64::from(self.timeline.rank_count) * self.process()
    }

    /// All threads.
    pub(super) fn threads(&self, tracks: &Tracks) -> u64 {
        tracks.tracks.iter().map(|track| self.track(track)).sum()
    }

    /// What the timeline is.
    pub(super) fn timeline(&self) -> &'a Timeline {
        self.timeline
    }
}

fn digits(number: u64) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 1
}

/// Nanoseconds, shown as microseconds with three decimals.
fn micros(ns: i64) -> usize {
    usize::from(ns < 0) + digits(ns.unsigned_abs() / 1000) + ".000".len()
}

/// A string in JSON, without its quotation marks.
fn text(string: &str) -> usize {
    let escaped = |byte: u8| match byte {
        b'"' | b'\\' => 2,
        0..0x20 => "\\u0000".len(),
        _ => 1,
    };
    string.bytes().map(escaped).sum()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{UNLIMITED, busy, meta, timeline};
    use super::*;
    use crate::chrome::write_chrome;

    /// Bytes of a trace but for the counters of all ranks, which have a price of their own.
    fn written(timeline: &Timeline) -> u64 {
        let mut out = Vec::new();
        write_chrome(timeline, &meta(), &UNLIMITED, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let is_counter = |line: &&str| line.contains(r#""ph":"C""#) && line.contains(r#""name":"ranks "#);
        let counters: usize = text.lines().filter(is_counter).map(|line| line.len() + 1).sum();
        (text.len() - counters) as u64
    }

    #[test]
    fn prices_are_what_is_written_or_a_little_more() {
        for seed in 0..5 {
            let timeline = busy(seed);
            let tracks = Tracks::assign(&timeline);
            let meta = meta();
            let estimates = SizeEstimates::of(&timeline, tracks.tracks.len(), &meta);
            let (estimate, bytes) = (estimates.whole(&tracks), written(&timeline));
            // What remains is `otherData`.
            assert!(estimate + 400 >= bytes, "seed {seed}: {estimate} for {bytes}");
            assert!(estimate as f64 <= 1.08 * bytes as f64, "seed {seed}: {estimate} for {bytes}");
            let spans = estimate - estimates.threads(&tracks) - estimates.calls(&tracks);
            assert!(estimates.exceed(spans - 1) && !estimates.exceed(spans));
        }
    }

    /// Strings that JSON escapes, numbers of all lengths, times of hours.
    #[test]
    fn no_span_takes_more_than_its_price() {
        let empty = written(&timeline(vec![]));
        for span in busy(7).spans.into_iter().take(50) {
            for (bytes, factor) in [(0, 1.0), (u64::MAX >> 1, 1e9), (12_345, -1e3)] {
                let (begin_s, end_s) = (factor * span.begin_s, factor * span.begin_s + factor.abs() * 1e-3);
                for bytes_coded in [None, Some(3), Some(u64::MAX >> 2)] {
                    let name = "a \"name\"\n";
                    let span = Span { begin_s, end_s, bytes, bytes_coded, name, tag: 7, ..span.clone() };
                    let timeline = timeline(vec![span]);
                    let tracks = Tracks::assign(&timeline);
                    let meta = meta();
                    let estimates = SizeEstimates::of(&timeline, tracks.tracks.len(), &meta);
                    let estimate = estimates.span(&timeline.spans[0], &tracks.slices[0]);
                    let bytes = written(&timeline) - empty;
                    let estimate = estimate + estimates.calls(&tracks) + estimates.threads(&tracks);
                    assert!(estimate >= bytes, "{estimate} for {bytes}");
                }
            }
        }
    }
}
