//! Timeline reduced to a report's pictures of it: each rank's time by what it does, when some ranks do it in one iteration, and how busy links are.

use std::collections::BTreeMap;

use zipwire_schedule::Lane;
use zipwire_traces::Trace;

/// Ranks whose lanes are drawn, evenly spread over those of the trace.
pub(crate) const DRAWN_RANKS: usize = 12;
/// Ranks whose time is shown, likewise.
pub(crate) const TIMED_RANKS: usize = 16;
/// Links in the heat map: those that are used most.
const DRAWN_LINKS: usize = 24;
/// Columns of the heat map.
pub(crate) const LINK_COLUMNS: usize = 120;

/// Times of nanoseconds from and to, in order, without overlaps.
pub(crate) type Intervals = Vec<[i64; 2]>;

/// One variant on one executor, as much of it as pictures show.
#[derive(Clone, Debug, PartialEq)]
pub struct TimelineSketch {
    pub(crate) scenario: String,
    pub(crate) seed: u64,
    pub(crate) plan_digest: String,
    pub(crate) executor: String,
    pub(crate) variant: String,
    /// Codec of the plan, if it has one.
    pub(crate) codec: Option<String>,
    /// Part of the run that the trace holds, in words; `None` if it holds everything.
    pub(crate) sampled: Option<String>,
    /// Iterations of the trace.
    pub(crate) iterations: usize,
    /// Length of the slowest of them, which is drawn.
    pub(crate) drawn_ns: i64,
    pub(crate) rank_count: u32,
    pub(crate) times: Vec<RankTimes>,
    pub(crate) lanes: Vec<RankLanes>,
    pub(crate) links: Vec<LinkHeat>,
    /// Links of the trace, drawn here or not.
    pub(crate) link_count: usize,
    /// Work of the codec, by its kind: `encode`, `decode`.
    pub(crate) codec_work: BTreeMap<String, CodecWork>,
    /// Time in the codec, whatever else goes on, in the mean over all ranks and iterations that the trace holds: as `codec_s` of a run.
    pub(crate) codec_s: Option<f64>,
}

/// Time of a rank in the mean of iterations, by what it does, each moment once: seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct RankTimes {
    pub(crate) rank: u32,
    pub(crate) compute_s: f64,
    /// Data moves, while nothing is computed.
    pub(crate) moving_s: f64,
    /// A call is open, and none of the above.
    pub(crate) waiting_s: f64,
    /// In the codec, and none of the above.
    pub(crate) codec_s: f64,
    /// The rest of the iteration.
    pub(crate) idle_s: f64,
}

impl RankTimes {
    /// Communication that no compute hides.
    pub(crate) fn exposed_s(&self) -> f64 {
        self.moving_s + self.waiting_s
    }

    pub(crate) fn sum_s(&self) -> f64 {
        self.compute_s + self.codec_s + self.exposed_s() + self.idle_s
    }
}

/// Lanes of a rank in the drawn iteration.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RankLanes {
    pub(crate) rank: u32,
    pub(crate) compute: Intervals,
    pub(crate) codec: Intervals,
    pub(crate) moving: Intervals,
    /// A call is open.
    pub(crate) open: Intervals,
}

/// Use of a link over the drawn iteration, in parts of its capacity.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LinkHeat {
    pub(crate) name: String,
    /// `25 GB/s`
    pub(crate) capacity: String,
    pub(crate) mean: f64,
    pub(crate) columns: Vec<f64>,
}

/// Sums over all ranks and iterations that the trace holds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct CodecWork {
    pub(crate) count: u64,
    pub(crate) bytes: u64,
    pub(crate) bytes_coded: u64,
    pub(crate) seconds: f64,
}

impl TimelineSketch {
    /// Sketch of a timeline that was read back.
    pub fn of(trace: &Trace) -> Self {
        let held = held_iterations(trace);
        let longest = (0..held.len()).rev().max_by_key(|&index| trace.iterations_ns[index]);
        let mut ranks: BTreeMap<u32, Vec<RankLanes>> = BTreeMap::new();
        let mut codec_work: BTreeMap<String, CodecWork> = BTreeMap::new();
        for span in &trace.spans {
            let Ok(index) = held.binary_search(&span.iteration) else { continue };
            let rank = span.rank.0;
            let empty = || vec![RankLanes { rank, ..RankLanes::default() }; held.len()];
            let lanes = &mut ranks.entry(rank).or_insert_with(empty)[index];
            let lane = match span.lane {
                Lane::Compute => &mut lanes.compute,
                Lane::Codec => {
                    let work = codec_work.entry(span.name.to_string()).or_default();
                    work.count += 1;
                    work.bytes = work.bytes.saturating_add(span.bytes);
                    work.bytes_coded = work.bytes_coded.saturating_add(span.bytes_coded.unwrap_or(0));
                    work.seconds += span.end_ns.saturating_sub(span.begin_ns).max(0) as f64 / 1e9;
                    &mut lanes.codec
                }
                Lane::Tx | Lane::Rx => &mut lanes.moving,
                Lane::Exchange | Lane::Control | Lane::Background | Lane::BackgroundControl => {
                    &mut lanes.open
                }
            };
            lane.push([span.begin_ns, span.end_ns.max(span.begin_ns)]);
        }
        for lanes in ranks.values_mut().flatten() {
            for lane in [&mut lanes.compute, &mut lanes.codec, &mut lanes.moving, &mut lanes.open] {
                *lane = united(std::mem::take(lane));
            }
        }
        let all: Vec<&Vec<RankLanes>> = ranks.values().collect();
        let times = spread(&all, TIMED_RANKS).map(|lanes| mean_times(lanes, &trace.iterations_ns));
        let lanes = spread(&all, DRAWN_RANKS).filter_map(|lanes| Some(lanes[longest?].clone()));
        let [begin_ns, drawn_ns] =
            longest.map_or([0; 2], |index| [trace.begins_ns[index], trace.iterations_ns[index].max(0)]);
        let rank_count = trace.sampling.as_ref().map_or(trace.rank_count as usize, |drawn| drawn.ranks.len());
        let codec_s = mean_codec_s(&all, rank_count.max(all.len()) * held.len());
        Self {
            scenario: trace.meta.scenario.clone(),
            seed: trace.meta.seed,
            plan_digest: trace.meta.plan_digest.clone(),
            executor: trace.meta.executor.clone(),
            variant: trace.meta.variant.clone(),
            codec: trace.meta.codec.clone(),
            sampled: trace.sampling.as_ref().map(ToString::to_string),
            iterations: held.len(),
            drawn_ns,
            rank_count: trace.rank_count,
            times: times.collect(),
            lanes: lanes.collect(),
            links: links(trace, begin_ns, begin_ns.saturating_add(drawn_ns)),
            link_count: trace.links.len(),
            codec_work,
            codec_s,
        }
    }
}

/// Numbers of the iterations that the trace holds, ascending: at most as many as have times.
pub(crate) fn held_iterations(trace: &Trace) -> Vec<u32> {
    let count = trace.iterations_ns.len().min(trace.begins_ns.len());
    let all = || (0..count as u32).collect();
    let mut held: Vec<u32> = trace.sampling.as_ref().map_or_else(all, |drawn| drawn.iterations.clone());
    held.truncate(count);
    held
}

/// Length of all intervals together, which do not overlap.
fn sum_ns(intervals: &Intervals) -> i64 {
    let lengths = intervals.iter().map(|[begin, end]| end.saturating_sub(*begin));
    lengths.fold(0, i64::saturating_add)
}

/// Time in the codec, of `count` ranks times iterations.
fn mean_codec_s(ranks: &[&Vec<RankLanes>], count: usize) -> Option<f64> {
    let sum_s: f64 =
        ranks.iter().flat_map(|lanes| lanes.iter()).map(|lanes| sum_ns(&lanes.codec) as f64 / 1e9).sum();
    (count > 0).then(|| sum_s / count as f64)
}

/// At most `most` of the items, evenly spread, the first and the last among them.
pub(crate) fn spread<T>(items: &[T], most: usize) -> impl Iterator<Item = &T> {
    let count = items.len().min(most);
    (0..count).map(move |index| &items[index * (items.len() - 1) / (count - 1).max(1)])
}

/// The same times, in order and without overlaps.
pub(crate) fn united(mut intervals: Intervals) -> Intervals {
    intervals.sort_unstable();
    let mut united: Intervals = Vec::new();
    for [begin, end] in intervals {
        match united.last_mut() {
            Some(last) if begin <= last[1] => last[1] = last[1].max(end),
            _ => united.push([begin, end]),
        }
    }
    united
}

fn mean_times(iterations: &[RankLanes], lengths_ns: &[i64]) -> RankTimes {
    let mut sums_ns = [0_i64; 5];
    for (lanes, &length_ns) in iterations.iter().zip(lengths_ns) {
        // Each lane counts where none before it does.
        let (mut busy, mut before_ns) = (Vec::new(), 0_i64);
        for (index, lane) in
            [&lanes.compute, &lanes.moving, &lanes.open, &lanes.codec].into_iter().enumerate()
        {
            busy.extend_from_slice(lane);
            busy = united(busy);
            let busy_ns = sum_ns(&busy);
            sums_ns[index] = sums_ns[index].saturating_add(busy_ns.saturating_sub(before_ns));
            before_ns = busy_ns;
        }
        sums_ns[4] = sums_ns[4].saturating_add(length_ns.saturating_sub(before_ns).max(0));
    }
    let count = iterations.len().max(1) as f64;
    let [compute_s, moving_s, waiting_s, codec_s, idle_s] = sums_ns.map(|ns| ns as f64 / 1e9 / count);
    let rank = iterations.first().map_or(0, |lanes| lanes.rank);
    RankTimes { rank, compute_s, moving_s, waiting_s, codec_s, idle_s }
}

/// The busiest links of an iteration, in the order of the trace.
fn links(trace: &Trace, begin_ns: i64, end_ns: i64) -> Vec<LinkHeat> {
    let heat = |link: &zipwire_traces::TracedLink| {
        let columns = columns(&link.changes, begin_ns, end_ns);
        let mean = columns.iter().sum::<f64>() / columns.len() as f64;
        let capacity = link.unit.trim_start_matches("% of ").to_owned();
        LinkHeat { name: link.name.to_string(), capacity, mean, columns }
    };
    let mut all: Vec<(usize, LinkHeat)> = trace.links.iter().map(heat).enumerate().collect();
    all.sort_by(|a, b| b.1.mean.total_cmp(&a.1.mean).then(a.0.cmp(&b.0)));
    all.truncate(DRAWN_LINKS);
    all.sort_by_key(|(index, _)| *index);
    all.into_iter().map(|(_, heat)| heat).collect()
}

/// Mean use in each column, of percentages that hold until the next one.
fn columns(changes: &[(i64, f64)], begin_ns: i64, end_ns: i64) -> Vec<f64> {
    let end_ns = end_ns.max(begin_ns);
    let width_ns = (end_ns.saturating_sub(begin_ns) as f64 / LINK_COLUMNS as f64).max(1.0);
    let mut columns = vec![0.0; LINK_COLUMNS];
    for (index, &(from_ns, percent)) in changes.iter().enumerate() {
        let until_ns = changes.get(index + 1).map_or(end_ns, |&(ns, _)| ns);
        let at = |ns: i64| ns.clamp(begin_ns, end_ns).saturating_sub(begin_ns) as f64 / width_ns;
        let (from, until) = (at(from_ns), at(until_ns));
        for (column, used) in columns.iter_mut().enumerate().take(until.ceil() as usize).skip(from as usize) {
            let overlap = until.min(column as f64 + 1.0) - from.max(column as f64);
            *used += overlap.max(0.0) * percent / 100.0;
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use zipwire_schedule::{OpId, Rank};
    use zipwire_traces::{TraceMeta, TracedLink, TracedSpan};

    use super::*;

    #[test]
    fn every_moment_counts_once() {
        let lanes = RankLanes {
            rank: 3,
            compute: vec![[0, 400]],
            codec: vec![[300, 500]],
            moving: vec![[450, 700]],
            open: vec![[450, 900]],
        };
        let times = mean_times(&[lanes], &[1000]);
        let ns = [times.compute_s, times.moving_s, times.waiting_s, times.codec_s, times.idle_s]
            .map(|s| (s * 1e9).round() as i64);
        // Communication is exposed wherever nothing is computed, the codec or not.
        assert_eq!((times.rank, ns), (3, [400, 250, 200, 50, 100]));
        assert!((times.sum_s() - 1e-6).abs() < 1e-15 && (times.exposed_s() - 4.5e-7).abs() < 1e-15);
    }

    fn span(rank: u32, [begin_ns, end_ns]: [i64; 2]) -> TracedSpan {
        TracedSpan {
            iteration: 0,
            segment: "dispatch".into(),
            rank: Rank(rank),
            lane: Lane::Codec,
            op: OpId(0),
            stage: None,
            peer: None,
            tag: 0,
            name: "encode".into(),
            begin_ns,
            end_ns,
            bytes: u64::MAX,
            bytes_coded: Some(u64::MAX),
        }
    }

    /// A trace of two ranks and an iteration.
    fn trace(spans: Vec<TracedSpan>, length_ns: i64) -> Trace {
        let name = || "x".to_owned();
        let meta = TraceMeta {
            scenario: name(),
            variant: name(),
            executor: name(),
            seed: 0,
            plan_digest: name(),
            clock: "virtual",
            codec: None,
        };
        let changes = vec![(i64::MIN, 10.0), (5, 50.0), (i64::MAX, 0.0)];
        let link = TracedLink { name: "nic".into(), unit: "% of 1 GB/s".into(), changes };
        Trace {
            meta,
            rank_count: 2,
            sampling: None,
            begins_ns: vec![0],
            iterations_ns: vec![length_ns],
            spans,
            links: vec![link],
        }
    }

    #[test]
    fn codec_time_is_that_of_all_ranks_whatever_else_goes_on() {
        let compute = TracedSpan { lane: Lane::Compute, ..span(0, [0, 1000]) };
        let spans = vec![span(0, [0, 400]), span(0, [200, 600]), compute];
        let sketch = TimelineSketch::of(&trace(spans, 1000));
        assert_eq!((sketch.codec_s, sketch.times[0].codec_s), (Some(3e-7), 0.0));
    }

    #[test]
    fn iterations_without_times_are_left_out() {
        let mut damaged = trace(vec![span(0, [0, 400])], 1000);
        damaged.iterations_ns = vec![1000, 1000];
        assert_eq!(TimelineSketch::of(&damaged).iterations, 1);
        damaged.begins_ns.clear();
        assert_eq!(TimelineSketch::of(&damaged).iterations, 0);
    }

    #[test]
    fn ends_before_begins_take_no_time() {
        let sketch = TimelineSketch::of(&trace(vec![span(0, [400, 0])], -1000));
        assert_eq!(
            (sketch.drawn_ns, sketch.codec_s, sketch.codec_work["encode"].seconds),
            (0, Some(0.0), 0.0)
        );
    }

    #[test]
    fn sums_do_not_overflow() {
        let spans = vec![span(0, [i64::MIN, i64::MAX]), span(0, [0, 400]), span(1, [-5, i64::MAX])];
        let mut long = trace(spans, i64::MAX);
        long.begins_ns = vec![i64::MAX];
        let sketch = TimelineSketch::of(&long);
        let work = sketch.codec_work["encode"];
        assert_eq!((work.count, work.bytes, work.bytes_coded), (3, u64::MAX, u64::MAX));
        assert!(sketch.times.iter().all(|times| times.sum_s().is_finite()));
    }

    #[test]
    fn overlaps_are_united() {
        assert_eq!(united(vec![[5, 9], [0, 2], [2, 3], [6, 7]]), [[0, 3], [5, 9]]);
    }

    #[test]
    fn ranks_are_spread_evenly() {
        let all: Vec<u32> = (0..100).collect();
        assert_eq!(spread(&all, 4).copied().collect::<Vec<_>>(), [0, 33, 66, 99]);
        assert_eq!(spread(&all[..3], 4).copied().collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!((spread(&all[..0], 4).count(), spread(&all, 1).count()), (0, 1));
    }

    #[test]
    fn columns_are_means_of_what_holds_until_the_next_change() {
        let count = LINK_COLUMNS as i64;
        let columns = columns(&[(0, 100.0), (count, 0.0), (count + 5, 50.0)], count, 2 * count);
        assert_eq!(columns[..6], [0.0, 0.0, 0.0, 0.0, 0.0, 0.5]);
        assert_eq!(columns[LINK_COLUMNS - 1], 0.5);
    }
}
