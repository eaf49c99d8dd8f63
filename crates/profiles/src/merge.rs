//! Ranks of a job put together: calls matched by group and number, clocks aligned, missing ranks named.

use std::collections::{BTreeMap, BTreeSet};

use crate::clocks::{Offset, offsets};
use crate::error::ProfileError;
use crate::intervals::{Busy, RESUMED_NS};
use crate::op::CollectiveOp;
use crate::profile::{
    GroupRecord, MissingRanks, NotUsed, OpRecord, PROFILE_VERSION, Profile, RankRecord, Timing,
};
use crate::trace::{RankTrace, TraceGroup, TraceOp};

/// Offset of a clock that is worth a note.
const OFFSET_NOTED_NS: u64 = 1_000_000;

/// Mean distance of ends of collectives from which on the clocks of two ranks do not fit together.
const SPREAD_NOTED_NS: i64 = 1_000_000;

/// Puts the ranks of one job together.
///
/// A trace that does not say its rank is of rank 0 if it is the only one.
///
/// # Errors
/// If ranks are unknown or there twice, are of jobs of unlike size, or have nothing in common; if no call is there at all.
pub fn merge(mut traces: Vec<RankTrace>) -> Result<Profile, ProfileError> {
    let mut notes = Vec::new();
    rank_all(&mut traces, &mut notes)?;
    let world_size = world_size(&traces)?;
    if traces.iter().all(|trace| trace.ops.is_empty()) {
        return Err(no_calls(&traces));
    }
    let groups = Groups::of(&traces);
    let mut calls = match_calls(&traces, &groups);
    let disagreeing = split_disagreeing(&traces, &mut calls)?;
    if disagreeing > 0 {
        notes.push(format!(
            "{disagreeing} calls are not matched: ranks that have the same group and number do not agree in operation or bytes"
        ));
    }
    // Elsewhere ends are not those of kernels, and tell nothing of clocks.
    let is_timed = least_timing(&traces) == Timing::Kernels;
    let clocks = if is_timed { align(&traces, &calls) } else { vec![None; traces.len()] };
    if is_timed {
        note_clocks(&traces, &clocks, &mut notes);
    }
    let ranks_missing = missing(&traces, world_size);
    if !ranks_missing.is_empty() {
        let absent: u64 = ranks_missing.iter().map(|range| u64::from(range.to - range.from) + 1).sum();
        notes.push(format!(
            "{absent} of {world_size} ranks are missing: each has a twin that stands for it, and waiting for those is not told from \
             moving bytes"
        ));
    }
    let not_used = traces.iter().flat_map(|trace| NotUsed::all(&trace.file, &trace.not_used)).collect();
    for trace in &traces {
        let repaired = trace.repaired.iter();
        notes.extend(repaired.map(|(what, count)| format!("{}: {count} {what}", trace.file)));
    }
    let (ranks, ops) = Assembly { traces: &traces, groups: &groups, clocks: &clocks }.rows(&calls);
    Ok(Profile {
        zipwire_profile: PROFILE_VERSION,
        format: traces[0].format,
        timing: least_timing(&traces),
        is_compute_known: traces.iter().all(|trace| trace.is_compute_known),
        gpu: agreed(traces.iter().filter_map(|trace| trace.gpu.clone())),
        gpus_per_node: agreed(traces.iter().filter_map(|trace| trace.gpus_per_node)),
        world_size,
        ranks,
        ranks_missing,
        groups: groups.records,
        ops,
        not_used,
        notes,
    })
}

/// The value on which all that say one agree; none if they differ.
fn agreed<T: PartialEq>(mut said: impl Iterator<Item = T>) -> Option<T> {
    let first = said.next()?;
    said.all(|other| other == first).then_some(first)
}

/// Meaning that times of all traces have.
fn least_timing(traces: &[RankTrace]) -> Timing {
    let order = [Timing::Kernels, Timing::Durations, Timing::Issued, Timing::Order];
    let place = |trace: &RankTrace| order.iter().position(|timing| *timing == trace.timing);
    order[traces.iter().filter_map(place).max().unwrap_or_default()]
}

fn no_calls(traces: &[RankTrace]) -> ProfileError {
    let mut not_used: BTreeMap<&str, u64> = BTreeMap::new();
    for (what, count) in traces.iter().flat_map(|trace| &trace.not_used) {
        *not_used.entry(what).or_default() += count;
    }
    let lines = not_used.iter().map(|(what, count)| format!("\nnot used: {count} {what}"));
    ProfileError::NoCalls {
        kernels: traces.iter().map(|trace| trace.kernels).sum(),
        not_used: lines.collect(),
    }
}

/// Gives every trace its rank, and sorts them by it.
fn rank_all(traces: &mut [RankTrace], notes: &mut Vec<String>) -> Result<(), ProfileError> {
    if let [only] = traces
        && only.rank.is_none()
    {
        notes.push(format!("{}: does not say its rank, so it is taken for rank 0", only.file));
        only.rank = Some(0);
    }
    for trace in &*traces {
        if trace.rank.is_none() {
            return Err(ProfileError::NoRank { file: trace.file.clone() });
        }
    }
    traces.sort_by_key(|trace| trace.rank);
    for pair in traces.windows(2) {
        if let [first, second] = pair
            && let (Some(rank), true) = (first.rank, first.rank == second.rank)
        {
            return Err(ProfileError::TwoTraces {
                rank,
                first: first.file.clone(),
                second: second.file.clone(),
            });
        }
    }
    Ok(())
}

/// Ranks of the job: as traces say, or as many as their groups show.
fn world_size(traces: &[RankTrace]) -> Result<u32, ProfileError> {
    let mut said: Option<(&RankTrace, u32)> = None;
    for trace in traces {
        let Some(ranks) = trace.world_size else { continue };
        let (first, first_ranks) = *said.get_or_insert((trace, ranks));
        if first_ranks != ranks {
            let (first, second) = (first.file.clone(), trace.file.clone());
            return Err(ProfileError::OtherJob { first, first_ranks, second, second_ranks: ranks });
        }
    }
    let last = traces.iter().filter_map(|trace| trace.rank.map(|rank| (trace, rank))).next_back();
    if let (Some((_, ranks)), Some((trace, rank))) = (said, last)
        && rank >= ranks
    {
        return Err(ProfileError::BeyondJob { file: trace.file.clone(), rank, ranks });
    }
    let groups = traces.iter().flat_map(|trace| &trace.groups);
    let shown = groups.filter_map(|group| group.size.max(group.ranks.iter().max().map(|rank| rank + 1)));
    let least = last.map_or(1, |(_, rank)| rank.saturating_add(1));
    Ok(said.map_or_else(|| shown.max().unwrap_or(1).max(least), |(_, ranks)| ranks))
}

/// Groups of all traces: the same if name and ranks are.
struct Groups {
    records: Vec<GroupRecord>,
    /// By trace, the place of each of its groups.
    places: Vec<Vec<usize>>,
}

impl Groups {
    fn of(traces: &[RankTrace]) -> Self {
        let mut known: BTreeMap<(&str, &[u32]), usize> = BTreeMap::new();
        let mut records: Vec<GroupRecord> = Vec::new();
        let mut place = |group| {
            let TraceGroup { name, ranks, size, description }: &TraceGroup = group;
            *known.entry((name, ranks)).or_insert_with(|| {
                let counted = u32::try_from(ranks.len()).ok().filter(|count| *count > 0);
                records.push(GroupRecord {
                    name: name.clone(),
                    description: description.clone(),
                    size: size.or(counted),
                    ranks: (!ranks.is_empty()).then(|| ranks.clone()),
                });
                records.len() - 1
            })
        };
        let mut places = Vec::new();
        for trace in traces {
            places.push(trace.groups.iter().map(&mut place).collect());
        }
        Self { records, places }
    }
}

/// Way in which calls of a group are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Lane {
    /// Calls of all of the group.
    Together,
    /// Transfers from one rank to another.
    Pair(u32, u32),
    /// Calls that are matched with no other, of the trace of this place.
    Alone(usize),
    /// The same, of calls that do not agree with those that they were matched with.
    Split(usize),
}

/// Everything that calls of ranks have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct CallKey {
    group: usize,
    lane: Lane,
    seq: u64,
    /// Place among calls of the same number: one number may be several kernels.
    repetition: u64,
}

/// Calls, and by trace and index the ranks that made them.
type Calls = BTreeMap<CallKey, Vec<(usize, usize)>>;

fn match_calls(traces: &[RankTrace], groups: &Groups) -> Calls {
    // Numbers of the library count only if everyone in the group has them.
    let mut by_order = BTreeSet::new();
    for (index, trace) in traces.iter().enumerate() {
        let places = &groups.places[index];
        let unnumbered = trace.ops.iter().filter(|op| op.seq.is_none() && !op.op.is_between_two());
        by_order.extend(unnumbered.map(|op| places[op.group]));
    }
    let mut calls = Calls::new();
    for (index, trace) in traces.iter().enumerate() {
        let mut counts: BTreeMap<CallKey, u64> = BTreeMap::new();
        for (row, op) in trace.ops.iter().enumerate() {
            let group = groups.places[index][op.group];
            let lane = lane_of(index, trace, op);
            // Transfers between two have no number that both ends share: the first is the first.
            let is_counted = lane != Lane::Together || by_order.contains(&group);
            let number = if is_counted { 0 } else { op.seq.unwrap_or_default() };
            let mut key = CallKey { group, lane, seq: number, repetition: 0 };
            let counted = counts.entry(key).or_default();
            let place = if is_counted { &mut key.seq } else { &mut key.repetition };
            *place = *counted;
            *counted += 1;
            calls.entry(key).or_default().push((index, row));
        }
    }
    calls
}

fn lane_of(index: usize, trace: &RankTrace, op: &TraceOp) -> Lane {
    use crate::op::CollectiveOp::{Recv, Send};
    let group = &trace.groups[op.group];
    // Nobody knows who else has made it.
    if group.name.is_empty() && group.ranks.is_empty() {
        return Lane::Alone(index);
    }
    let ends = match op.op {
        Send => (op.src.or(trace.rank), op.dst),
        Recv => (op.src, op.dst.or(trace.rank)),
        other if other.is_between_two() => (None, None),
        _ => return Lane::Together,
    };
    if let (Some(src), Some(dst)) = ends { Lane::Pair(src, dst) } else { Lane::Alone(index) }
}

/// Takes calls apart whose ranks do not agree in what they do; gives their number.
fn split_disagreeing(traces: &[RankTrace], calls: &mut Calls) -> Result<u64, ProfileError> {
    let op = |&(trace, row): &(usize, usize)| &traces[trace].ops[row];
    let agree = |first: &TraceOp, second: &TraceOp| {
        let is_even = first.op.is_even() && first.splits_in.is_empty();
        let is_pair = first.op.is_between_two() && second.op.is_between_two();
        is_pair
            || first.op == second.op
                && (!is_even || first.bytes_in == second.bytes_in || first.bytes_in.is_none())
    };
    let shared: Vec<CallKey> = calls.iter().filter(|(_, rows)| rows.len() > 1).map(|(key, _)| *key).collect();
    let mut disagreeing = Vec::new();
    for key in &shared {
        let rows = &calls[key];
        if rows[1..].iter().any(|row| !agree(op(&rows[0]), op(row))) {
            disagreeing.push(*key);
        }
    }
    if let Some(key) = disagreeing.first()
        && disagreeing.len() == shared.len()
    {
        let [first, second] = [0, 1].map(|index| traces[calls[key][index].0].file.clone());
        return Err(ProfileError::NothingMatches { first, second, calls: shared.len() as u64 });
    }
    for key in &disagreeing {
        for row in calls.remove(key).unwrap_or_default() {
            calls.insert(CallKey { lane: Lane::Split(row.0), ..*key }, vec![row]);
        }
    }
    Ok(disagreeing.len() as u64)
}

fn align(traces: &[RankTrace], calls: &Calls) -> Vec<Option<Offset>> {
    let end = |&(trace, row): &(usize, usize)| {
        let end = traces[trace].ops[row].end_ns.saturating_add(traces[trace].base_ns);
        (trace, end)
    };
    let together = calls.values().filter(|rows| {
        let (trace, row) = rows[0];
        rows.len() > 1 && traces[trace].ops[row].op.ends_together()
    });
    let ends: Vec<Vec<(usize, i64)>> = together.map(|rows| rows.iter().map(end).collect()).collect();
    offsets(traces.len(), &ends)
}

fn note_clocks(traces: &[RankTrace], clocks: &[Option<Offset>], notes: &mut Vec<String>) {
    for (trace, clock) in traces.iter().zip(clocks) {
        let rank = trace.rank.unwrap_or_default();
        match clock {
            None => notes.push(format!(
                "{}: no collective of rank {rank} is matched with others, so its clock is taken as it is",
                trace.file
            )),
            Some(Offset { spread_ns, ends, .. }) if *spread_ns > SPREAD_NOTED_NS => notes.push(format!(
                "{}: {ends} collectives of rank {rank} end {:.3} ms apart from others in the mean, after its clock was aligned: are \
                 these the same steps?",
                trace.file,
                *spread_ns as f64 / 1e6
            )),
            Some(Offset { ahead_ns, ends, .. }) if ahead_ns.unsigned_abs() > OFFSET_NOTED_NS => {
                let side = if *ahead_ns > 0 { "ahead of" } else { "behind" };
                notes.push(format!(
                    "{}: the clock of rank {rank} is {:.6} s {side} that of the lowest rank, after {ends} ends of collectives: taken out",
                    trace.file,
                    ahead_ns.unsigned_abs() as f64 / 1e9
                ));
            }
            Some(_) => {}
        }
    }
}

/// Ranks between those that are there, each with the next lower one as its twin.
fn missing(traces: &[RankTrace], world_size: u32) -> Vec<MissingRanks> {
    let ranks: Vec<u32> = traces.iter().filter_map(|trace| trace.rank).collect();
    let mut missing = Vec::new();
    let first = ranks.first().copied().unwrap_or_default();
    if first > 0 {
        missing.push(MissingRanks { from: 0, to: first - 1, twin: first });
    }
    let next = ranks.iter().skip(1).copied().chain([world_size]);
    for (twin, next) in ranks.iter().copied().zip(next) {
        if next > twin + 1 {
            missing.push(MissingRanks { from: twin + 1, to: next - 1, twin });
        }
    }
    missing
}

/// Everything of which the rows of a profile are made.
struct Assembly<'a> {
    traces: &'a [RankTrace],
    groups: &'a Groups,
    clocks: &'a [Option<Offset>],
}

impl Assembly<'_> {
    fn rows(&self, calls: &Calls) -> (Vec<RankRecord>, Vec<OpRecord>) {
        let mut matched: Vec<Vec<(u64, i64, u32)>> =
            self.traces.iter().map(|trace| vec![(0, 0, 1); trace.ops.len()]).collect();
        for (key, rows) in calls {
            let durations = rows.iter().map(|&(trace, row)| {
                let op = &self.traces[trace].ops[row];
                op.end_ns.saturating_sub(op.begin_ns)
            });
            let transfer_ns = durations.min().unwrap_or_default();
            for &(trace, row) in rows {
                let seen = u32::try_from(rows.len()).unwrap_or(u32::MAX);
                matched[trace][row] = (key.seq, transfer_ns, seen);
            }
        }
        let bounds: Vec<_> = self.traces.iter().map(bounds).collect();
        let shifts: Vec<i64> = self.traces.iter().zip(self.clocks).map(shift).collect();
        let begins = bounds.iter().zip(&shifts);
        let origin_ns = begins
            .filter_map(|(bounds, shift)| bounds.map(|(begin, _)| begin.saturating_add(*shift)))
            .min()
            .unwrap_or_default();
        let mut ops = Vec::new();
        let mut ranks = Vec::new();
        for (index, trace) in self.traces.iter().enumerate() {
            let shift = shifts[index].saturating_sub(origin_ns);
            let begin = ops.len();
            ops.extend(self.ops(index, &matched[index], shift));
            let busy = Busy::of(trace.ops.iter().map(|op| (op.begin_ns, op.end_ns)));
            let covered: i64 = busy.intervals().iter().map(|interval| trace.compute.within(*interval)).sum();
            let before: i64 = ops[begin..].iter().map(|op: &OpRecord| op.compute_before_ns).sum();
            ranks.push(RankRecord {
                rank: trace.rank.unwrap_or_default(),
                source: trace.file.clone(),
                span_ns: bounds[index].map_or(0, |(begin, end)| end.saturating_sub(begin)),
                communication_ns: busy.total(),
                exposed_ns: busy.total() - covered,
                compute_ns: trace.compute.total(),
                compute_after_ns: trace.compute.total() - before,
                wait_ns: ops[begin..].iter().map(|op| op.duration_ns - op.transfer_ns).sum(),
                clock_offset_ns: self.clocks[index].map(|clock| clock.ahead_ns),
                clock_spread_ns: self.clocks[index].map(|clock| clock.spread_ns),
            });
        }
        (ranks, ops)
    }

    fn ops<'a>(
        &'a self,
        index: usize,
        matched: &'a [(u64, i64, u32)],
        shift: i64,
    ) -> impl Iterator<Item = OpRecord> + 'a {
        let trace = &self.traces[index];
        let mut previous = i64::MIN / 2;
        // Begin of the calls that follow one another on a stream, and the end of the last one.
        let mut chains: BTreeMap<u64, (i64, i64)> = BTreeMap::new();
        trace.ops.iter().zip(matched).map(move |(op, &(seq, transfer_ns, ranks_seen))| {
            let compute_before_ns = trace.compute.within((previous, op.begin_ns));
            previous = op.begin_ns;
            let chain = chains.entry(op.stream).or_insert((op.begin_ns, op.begin_ns));
            let follows = op.begin_ns.saturating_sub(chain.1) <= RESUMED_NS;
            *chain = (if follows { chain.0 } else { op.begin_ns }, op.end_ns);
            OpRecord {
                rank: trace.rank.unwrap_or_default(),
                group: self.groups.places[index][op.group],
                seq,
                op: op.op,
                bytes_in: op.bytes_in,
                bytes_out: op.bytes_out,
                splits_in: op.splits_in.clone(),
                splits_out: op.splits_out.clone(),
                peer: if op.op == CollectiveOp::Send {
                    op.dst
                } else {
                    op.src.filter(|_| op.op == CollectiveOp::Recv)
                },
                dtype: op.dtype.to_string(),
                start_ns: op.begin_ns.saturating_add(shift),
                duration_ns: op.end_ns.saturating_sub(op.begin_ns),
                transfer_ns,
                ranks_seen,
                stream: op.stream,
                stall_ns: trace.compute.stall(*chain),
                coded_share: op.coded_share,
                compute_before_ns,
                compute_beside_ns: trace.compute.within((op.begin_ns, op.end_ns)),
                source: index,
            }
        })
    }
}

/// First begin and last end of a kernel.
fn bounds(trace: &RankTrace) -> Option<(i64, i64)> {
    let ops = trace.ops.iter().map(|op| (op.begin_ns, op.end_ns));
    let all = ops.chain(trace.compute.bounds());
    all.reduce(|(begin, end), (next_begin, next_end)| (begin.min(next_begin), end.max(next_end)))
}

/// Nanoseconds that take times of a trace to the clock of the first one.
fn shift((trace, clock): (&RankTrace, &Option<Offset>)) -> i64 {
    trace.base_ns.saturating_sub(clock.map_or(0, |clock| clock.ahead_ns))
}
