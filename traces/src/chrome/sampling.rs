//! Ranks and iterations of a large timeline that are drawn.
//!
//! The choice depends on the timeline alone, so the same run gives the same trace. [`Sizes`] bounds from above what is drawn, so a trace
//! stays below its limit, mostly by some percent. Metrics do not depend on the choice.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};
use zipwire_schedule::Lane;
use zipwire_timeline::{Span, Timeline, waits_s};

use super::TraceMeta;
use super::event::CALL;
use super::track::{Call, Slice, Tracks, calls_of};

/// Part of a run that a trace holds, if it does not hold everything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sampling {
    /// Ranks of the run.
    pub rank_count: u32,
    /// Ranks that are drawn with all their spans, ascending.
    pub ranks: Vec<u32>,
    /// Ranks that are too large for that: slices stand for several successive spans. Ascending.
    pub merged: Vec<u32>,
    /// Iterations of the run.
    pub iteration_count: u32,
    /// Iterations that are drawn, ascending.
    pub iterations: Vec<u32>,
}

impl fmt::Display for Sampling {
    /// `24 of 1024 ranks and 3 of 100 iterations`; what is complete is not mentioned.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rank_count, ranks, merged, iteration_count, iterations } = self;
        let (rank_drawn, iteration_drawn) = (ranks.len() + merged.len(), iterations.len());
        let has_all_iterations = iteration_drawn == *iteration_count as usize;
        if rank_drawn < *rank_count as usize || !merged.is_empty() || has_all_iterations {
            write!(f, "{rank_drawn} of {rank_count} ranks")?;
            if !merged.is_empty() {
                write!(f, " ({} of them with merged spans)", merged.len())?;
            }
            if !has_all_iterations {
                f.write_str(" and ")?;
            }
        }
        if !has_all_iterations {
            write!(f, "{iteration_drawn} of {iteration_count} iterations")?;
        }
        Ok(())
    }
}

/// Bytes of an iteration's begin and end, and of its number in the list of those that are drawn.
const ITERATION: u64 = 320;

/// Upper bounds of the bytes that events take: numbers count as wide as the widest of the timeline.
pub(super) struct Sizes<'t> {
    timeline: &'t Timeline,
    segments: Vec<usize>,
    codec: usize,
    /// Digits of the largest rank; op, tag or iteration; thread, arrow or count of spans; number of bytes; time.
    rank: usize,
    op: usize,
    id: usize,
    bytes: usize,
    time: usize,
}

impl<'t> Sizes<'t> {
    pub(super) fn of(timeline: &'t Timeline, meta: &TraceMeta) -> Self {
        let spans = &timeline.spans;
        let ops = spans.iter().map(|span| span.op.0.max(span.tag).max(span.iteration)).max();
        // A span has an arrow, a thread and a call of its own at the most.
        let ids = 2 * spans.len() as u64 + u64::from(timeline.rank_count);
        let of_span = |span: &Span| span.bytes.max(span.bytes_coded.unwrap_or(0));
        let slices = spans.iter().map(|span| Slice::unplaced(span, timeline));
        let longest_ns =
            slices.map(|slice| slice.begin_ns.unsigned_abs().max(slice.end_ns.unsigned_abs())).max();
        Self {
            timeline,
            segments: timeline.segments.iter().map(|name| text(name)).collect(),
            codec: meta.codec.as_deref().map_or(0, text),
            rank: digits(timeline.rank_count.into()),
            op: digits(ops.unwrap_or(0).into()),
            id: digits(ids),
            bytes: digits(spans.iter().fold(0, |sum, span| sum.saturating_add(of_span(span)))),
            time: "-.000".len() + digits(longest_ns.unwrap_or(0) / 500),
        }
    }

    /// A span that stands for `count` spans, with its end of an arrow and its changes of a counter.
    pub(super) fn span(&self, span: &Span, count: u32) -> u64 {
        const SLICE: &str = r#",.{"ph":"X","pid":,"tid":,"ts":,"dur":,"cat":"","name":"","args":{"iteration":,"segment":"","op":,"bytes":}}"#;
        const ARROW: &str =
            r#"."peer":,{"ph":"s","bp":"e","id":,"pid":,"tid":,"ts":,"cat":"transfer","name":"transfer"},."#;
        const COUNTER: &str = r#",.{"ph":"C","pid":,"ts":,"name":"bytes in flight","args":{"tx":}}"#;
        let segment = self.segments.get(span.segment.index()).copied().unwrap_or(0);
        let mut size = SLICE.len() + self.rank + self.id + 2 * self.op + 2 * self.time + self.bytes;
        size += span.lane.name().len() + text(span.name) + segment;
        if count > 1 {
            size += r#"merged (merged)"spans":,"#.len() + self.id;
        }
        if let Some(stage) = span.stage {
            size += r#" "stage":"","#.len() + 2 * stage.name().len();
        }
        if span.tag > 0 {
            size += r#""tag":,"#.len() + self.op;
        }
        if span.bytes_coded.is_some() {
            let longest_ratio = 24;
            size += r#""bytes_coded":,"ratio":,"codec":"","#.len() + self.bytes + longest_ratio + self.codec;
        }
        if span.peer.is_some() {
            size += ARROW.len() + 2 * self.rank + 2 * self.id + self.time;
            if span.lane == Lane::Tx {
                size += 2 * (COUNTER.len() + self.rank + self.time + self.bytes);
            }
        }
        size as u64
    }

    fn call(&self, call: &Call) -> u64 {
        let slice =
            r#",.{"ph":"X","pid":,"tid":,"ts":,"dur":,"cat":"","name":"","args":{"iteration":}}"#.len();
        let segment = self.segments.get(call.segment.index()).copied().unwrap_or(0);
        (slice + CALL.len() + segment + self.rank + self.id + self.op + 2 * self.time) as u64
    }

    /// The process of a rank, and its number in the list of those that are drawn.
    pub(super) fn process(&self) -> u64 {
        let text = r#",.{"ph":"M","name":"process_name","pid":,"args":{"name":"rank  (spans merged)"}},.{"ph":"M","name":"process_sort_index","pid":,"args":{"sort_index":}},"#;
        (text.len() + 5 * self.rank) as u64
    }

    /// All threads and calls.
    pub(super) fn tracks(&self, tracks: &Tracks) -> u64 {
        let text = r#",.{"ph":"M","name":"thread_name","pid":,"tid":,"args":{"name":" "}},.{"ph":"M","name":"thread_sort_index","pid":,"tid":,"args":{"sort_index":}}"#;
        let thread = |name: &str| (text.len() + name.len() + 2 * self.rank + 4 * self.id) as u64;
        let threads: u64 = tracks.tracks.iter().map(|track| thread(track.row.name())).sum();
        threads + tracks.calls.iter().map(|call| self.call(call)).sum::<u64>()
    }

    /// All ranks and iterations, without spans, threads and calls.
    pub(super) fn frame(&self) -> u64 {
        ITERATION * self.timeline.iterations.len() as u64
            + self.process() * u64::from(self.timeline.members())
    }

    /// A rank with these spans.
    fn rank<'s>(&self, drawn: impl Iterator<Item = (&'s Span, u32)> + Clone) -> u64 {
        let tracks = Tracks::of(drawn.clone().map(|(span, _)| span), self.timeline);
        let spans: u64 = drawn.map(|(span, count)| self.span(span, count)).sum();
        self.process() + spans + self.tracks(&tracks)
    }
}

fn digits(number: u64) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 1
}

/// At least the bytes of a string in JSON, without its quotation marks.
fn text(string: &str) -> usize {
    let is_escaped = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
    string.bytes().map(|byte| if is_escaped(byte) { "\\u0000".len() } else { 1 }).sum()
}

/// A span, and the number of spans that it stands for.
pub(super) type Merged = (Span, u32);

pub(super) struct Choice {
    /// Ascending.
    pub(super) iterations: BTreeSet<u32>,
    pub(super) ranks: BTreeSet<u32>,
    /// Spans of the ranks that do not fit with all of theirs, by rank.
    pub(super) merged: Vec<(u32, Vec<Merged>)>,
}

/// Chooses the part of a large timeline that fits into `bytes`.
///
/// Among many iterations the first, the last and the slowest come first, then an even sample. If these three do not fit with
/// all ranks, they are what is drawn, of rank 0, of the rank that ends last in the slowest iteration, of the one that waits
/// most, and of an even sample of whole nodes, or of ranks where no whole node fits.
pub(super) fn choose(
    sizes: &Sizes<'_>,
    by_rank: &[Vec<&Span>],
    mut bytes: u64,
    ranks_per_node: u32,
) -> Choice {
    let timeline = sizes.timeline;
    let slowest = slowest_iteration(timeline);
    let mut iterations: BTreeSet<u32> =
        [0, slowest, timeline.iterations.len().saturating_sub(1) as u32].into();
    iterations.retain(|&iteration| (iteration as usize) < timeline.iterations.len());
    if let Some(iterations) = with_all_ranks(sizes, iterations.clone(), bytes) {
        let ranks = (0..timeline.members()).map(|place| timeline.member_at(place).0).collect();
        return Choice { iterations, ranks, merged: Vec::new() };
    }
    bytes = bytes.saturating_sub(ITERATION * iterations.len() as u64);
    // Ranks are places among those that have spans.
    let spans = |rank: u32| {
        by_rank[rank as usize].iter().copied().filter(|span| iterations.contains(&span.iteration))
    };
    let size = |rank: u32| sizes.rank(spans(rank).map(|span| (span, 1)));
    let notable = notable_ranks(timeline, slowest, &iterations);
    let (ranks, too_large) = choose_ranks(timeline.members(), size, &notable, bytes, ranks_per_node);
    let merged = too_large
        .into_iter()
        .filter_map(|(place, bytes)| Some((place, merge(spans(place).cloned().collect(), sizes, bytes)?)));
    let rank = |place| timeline.member_at(place).0;
    let merged = merged.map(|(place, spans)| (rank(place), spans)).collect();
    Choice { iterations, ranks: ranks.into_iter().map(rank).collect(), merged }
}

/// `kept` and an even sample of other iterations, as many as fit with all ranks; `None` if not even `kept` fits.
fn with_all_ranks(sizes: &Sizes<'_>, mut kept: BTreeSet<u32>, bytes: u64) -> Option<BTreeSet<u32>> {
    let timeline = sizes.timeline;
    let count = timeline.iterations.len() as u32;
    let mut by_iteration = vec![ITERATION; count as usize];
    let unplaced = || timeline.spans.iter().map(|span| (span, Slice::unplaced(span, timeline)));
    timeline.spans.iter().for_each(|span| by_iteration[span.iteration as usize] += sizes.span(span, 1));
    calls_of(unplaced()).iter().for_each(|call| by_iteration[call.iteration as usize] += sizes.call(call));
    let spans: u64 = kept.iter().map(|&iteration| by_iteration[iteration as usize]).sum();
    let mut left = bytes.checked_sub(u64::from(timeline.members()) * sizes.process() + spans)?;
    // Where that is too much already, no threads need be counted.
    let Tracks { tracks, slices, .. } = Tracks::assign(timeline);
    left = left.checked_sub(sizes.tracks(&Tracks { tracks, slices, calls: Vec::new() }))?;
    for iteration in spread(count) {
        if !kept.contains(&iteration) {
            let Some(after) = left.checked_sub(by_iteration[iteration as usize]) else { break };
            left = after;
            kept.insert(iteration);
        }
    }
    Some(kept)
}

/// The longest iteration, the first of equal ones.
fn slowest_iteration(timeline: &Timeline) -> u32 {
    let lengths = (0..).zip(&timeline.iterations).map(|(index, iteration)| (index, iteration.length_s));
    let longest =
        lengths.reduce(|longest, other| if other.1.total_cmp(&longest.1).is_gt() { other } else { longest });
    longest.map_or(0, |(index, _)| index)
}

/// Rank 0, the one that ends last in the slowest iteration, and the one that waits most; of equal ones the first.
fn notable_ranks(timeline: &Timeline, slowest: u32, iterations: &BTreeSet<u32>) -> Vec<u32> {
    let mut ends_s = vec![0.0_f64; timeline.members() as usize];
    for span in timeline.spans.iter().filter(|span| span.iteration == slowest) {
        let end_s = &mut ends_s[timeline.place(span.rank)];
        *end_s = end_s.max(span.end_s);
    }
    let mut notable = vec![0];
    for times in [ends_s, waits_s(timeline, iterations)] {
        let first = (0..timeline.members())
            .reduce(|a, b| if times[b as usize].total_cmp(&times[a as usize]).is_gt() { b } else { a });
        notable.extend(first.filter(|rank| !notable.contains(rank)));
    }
    notable
}

/// Ranks that fit into `left` bytes, and notable ones that do not, with the bytes that they may take: the notable ones first, each with an
/// equal share at least, then whole nodes until one does not fit, or if none does, single ranks.
fn choose_ranks(
    ranks: u32,
    size: impl Fn(u32) -> u64,
    notable: &[u32],
    mut left: u64,
    ranks_per_node: u32,
) -> (BTreeSet<u32>, Vec<(u32, u64)>) {
    let (mut drawn, mut merged) = (BTreeSet::new(), Vec::new());
    for (index, &rank) in notable.iter().enumerate() {
        let (size, share) = (size(rank), left / (notable.len() - index) as u64);
        if size <= share {
            drawn.insert(rank);
        } else {
            merged.push((rank, share));
        }
        left -= size.min(share);
    }
    merged.sort_unstable();
    for per_group in [ranks_per_node, 1] {
        let mut is_first = true;
        for group in spread(ranks.div_ceil(per_group)) {
            let first = group * per_group;
            let others: Vec<u32> = (first..(first + per_group).min(ranks))
                .filter(|rank| !drawn.contains(rank) && merged.iter().all(|(other, _)| other != rank))
                .collect();
            if others.is_empty() {
                continue;
            }
            let Some(after) = left.checked_sub(others.iter().map(|&rank| size(rank)).sum()) else { break };
            (left, is_first) = (after, false);
            drawn.extend(others);
        }
        if !is_first {
            break;
        }
    }
    (drawn, merged)
}

/// The numbers below `count`, each first part of them spread evenly: 0, 1/2, 1/4, 3/4, 1/8, ... of the next power of two.
fn spread(count: u32) -> impl Iterator<Item = u32> {
    let bits = u64::from(count.max(1)).next_power_of_two().trailing_zeros();
    let reversed = move |index: u64| if bits == 0 { 0 } else { index.reverse_bits() >> (64 - bits) };
    (0..1_u64 << bits).map(reversed).filter_map(|index| u32::try_from(index).ok()).filter(move |&i| i < count)
}

/// The spans of one rank in at most `bytes` bytes: slices that stand for as few successive spans as a power of two allows; `None` if none are few
/// enough. Only spans of one lane, name, segment, stage and iteration are merged, so a slice still says what was done.
fn merge(mut spans: Vec<Span>, sizes: &Sizes<'_>, bytes: u64) -> Option<Vec<Merged>> {
    let kind = |span: &Span| (span.iteration, span.lane, span.segment, span.stage, span.name);
    spans.sort_by(|a, b| {
        let begins = a.begin_s.total_cmp(&b.begin_s);
        kind(a).cmp(&kind(b)).then(begins).then(a.op.cmp(&b.op)).then(a.peer.cmp(&b.peer))
    });
    let most = spans.chunk_by(|a, b| kind(a) == kind(b)).map(<[Span]>::len).max()?;
    for exponent in 1..=most.next_power_of_two().trailing_zeros() {
        let groups = spans.chunk_by(|a, b| kind(a) == kind(b));
        let merged: Vec<Merged> = groups.flat_map(|group| group.chunks(1 << exponent).map(one)).collect();
        if sizes.rank(merged.iter().map(|(span, count)| (span, *count))) <= bytes {
            return Some(merged);
        }
    }
    None
}

/// One span for several: from the first begin to the last end, with the sum of their bytes.
fn one(spans: &[Span]) -> Merged {
    let first = &spans[0];
    if spans.len() == 1 {
        return (first.clone(), 1);
    }
    let end_s = spans.iter().map(|span| span.end_s).fold(first.end_s, f64::max);
    let bytes = spans.iter().map(|span| span.bytes).sum();
    let bytes_coded = spans.iter().map(|span| span.bytes_coded).sum();
    let count = u32::try_from(spans.len()).expect("spans are counted in 32 bits");
    (Span { end_s, bytes, bytes_coded, peer: None, tag: 0, ..first.clone() }, count)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{UNLIMITED, busy, meta, timeline};
    use super::*;
    use crate::chrome::write_chrome;

    #[test]
    fn any_first_part_is_spread_evenly() {
        assert_eq!(spread(8).collect::<Vec<_>>(), [0, 4, 2, 6, 1, 5, 3, 7]);
        assert_eq!(spread(1).collect::<Vec<_>>(), [0]);
        assert_eq!(spread(0).count(), 0);
        for count in [2, 3, 100, 1000] {
            let mut all: Vec<u32> = spread(count).collect();
            all.sort_unstable();
            assert_eq!(all, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn notable_ranks_come_first_then_whole_nodes() {
        let (ranks, merged) = choose_ranks(32, |_| 10, &[0, 13], 150, 4);
        // 0 and 13, the rest of node 0, node 4, node 2; node 6 does not fit.
        assert_eq!((ranks, merged), ([0, 1, 2, 3, 8, 9, 10, 11, 13, 16, 17, 18, 19].into(), vec![]));
        let (ranks, _) = choose_ranks(32, |_| 10, &[0, 13], 79, 8);
        assert_eq!(ranks, [0, 4, 8, 13, 16, 20, 24].into(), "no whole node fits: an even sample of ranks");
    }

    #[test]
    fn a_notable_rank_that_does_not_fit_gets_its_share() {
        let sizes = [100, 10, 10, 500];
        let chosen = |bytes| choose_ranks(4, |rank| sizes[rank as usize], &[0, 3], bytes, 1);
        assert_eq!(chosen(250), ([0].into(), vec![(3, 150)]));
        assert_eq!(chosen(90).1, [(0, 45), (3, 45)]);
    }

    #[test]
    fn what_is_left_out_is_said() {
        let (ranks, iterations) = (vec![0, 8, 9], vec![0, 99]);
        let sampling = Sampling { rank_count: 1024, ranks, merged: vec![], iteration_count: 100, iterations };
        assert_eq!(sampling.to_string(), "3 of 1024 ranks and 2 of 100 iterations");
        let sampling = Sampling { merged: vec![7], ..sampling };
        assert!(sampling.to_string().starts_with("4 of 1024 ranks (1 of them with merged spans) and "));
        let all = Sampling { ranks: (0..1024).collect(), merged: vec![], ..sampling.clone() };
        assert_eq!(all.to_string(), "2 of 100 iterations");
        let all = Sampling { iterations: (0..100).collect(), ranks: vec![0], merged: vec![], ..sampling };
        assert_eq!(all.to_string(), "1 of 1024 ranks");
    }

    /// Bytes of a trace but for the counters of all ranks, and the bound of its ranks, iterations, spans, threads and calls.
    fn written_and_bound(timeline: &Timeline) -> (u64, u64) {
        let mut out = Vec::new();
        write_chrome(timeline, &meta(), &UNLIMITED, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let is_counter = |line: &&str| line.contains(r#""ph":"C""#) && line.contains(r#""name":"ranks "#);
        let counters: usize = text.lines().filter(is_counter).map(|line| line.len() + 1).sum();
        let meta = meta();
        let sizes = Sizes::of(timeline, &meta);
        let spans: u64 = timeline.spans.iter().map(|span| sizes.span(span, 1)).sum();
        ((text.len() - counters) as u64, spans + sizes.tracks(&Tracks::assign(timeline)) + sizes.frame())
    }

    /// Bytes of `otherData` and of the process of all ranks, which the bound leaves out.
    const REST: u64 = 400;

    #[test]
    fn bounds_are_what_is_written_or_a_little_more() {
        for seed in 0..5 {
            let (written, bound) = written_and_bound(&busy(seed));
            assert!(bound + REST >= written, "seed {seed}: {bound} for {written}");
            assert!(bound as f64 <= 1.15 * written as f64, "seed {seed}: {bound} for {written}");
        }
    }

    /// Strings that JSON escapes, numbers of all lengths, times of hours.
    #[test]
    fn no_span_takes_more_than_its_bound() {
        let empty = written_and_bound(&timeline(vec![])).0;
        for span in busy(7).spans.into_iter().take(50) {
            for (bytes, factor) in [(0, 1.0), (u64::MAX >> 1, 1e9), (12_345, -1e3)] {
                let (begin_s, end_s) = (factor * span.begin_s, factor * span.begin_s + factor.abs() * 1e-3);
                for bytes_coded in [None, Some(3), Some(u64::MAX >> 2)] {
                    let name = "a \"name\"\n";
                    let span = Span { begin_s, end_s, bytes, bytes_coded, name, tag: 7, ..span.clone() };
                    let timeline = timeline(vec![span]);
                    let (written, bound) = written_and_bound(&timeline);
                    let meta = meta();
                    let bound = bound - Sizes::of(&timeline, &meta).frame();
                    assert!(bound >= written - empty, "{bound} for {}", written - empty);
                }
            }
        }
    }
}
