//! Calls of processes whose groups are communicators: which ranks of the job they have, and messages that are an All-to-All.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::ProfileError;
use crate::op::CollectiveOp;
use crate::profile::Timing;
use crate::trace::{RankTrace, TraceOp};

/// Ranks of a communicator for each message at the most, where messages of no bytes are left out.
const MOST_PEERS_BY_MESSAGE: usize = 64;

/// Calls of one process. Which ranks its communicators have is known when the other processes are, by [`place`].
#[derive(Debug)]
pub struct ProcessLog {
    /// Its groups are named by their communicators, and ranks of senders and receivers are those of the communicator.
    pub(crate) trace: RankTrace,
    /// Host and number: logs of the same process are put together.
    pub(crate) process: String,
    /// Rank of the process within each group.
    pub(crate) seats: Vec<Option<u32>>,
}

impl ProcessLog {
    /// Calls of collectives and transfers that it has.
    pub fn calls(&self) -> usize {
        self.trace.calls()
    }
}

/// Members of a communicator: by rank within it, the places of the logs that have it.
#[derive(Default)]
struct Members {
    size: u32,
    seats: BTreeMap<u32, BTreeSet<usize>>,
}

/// Finds out which ranks of the job processes are of, and which ranks their communicators have.
///
/// A process that does not say its rank has that within the largest communicator of all. Processes without calls are left out if others have some.
///
/// # Errors
/// If a process of unknown rank is not in the largest communicator.
pub fn place(logs: Vec<ProcessLog>) -> Result<Vec<RankTrace>, ProfileError> {
    let mut logs = joined(logs);
    if logs.iter().any(|log| !log.trace.ops.is_empty()) {
        // A forked child has a log of its own.
        logs.retain(|log| !log.trace.ops.is_empty());
    }
    let members = members(&logs);
    let largest = members.iter().max_by_key(|(_, members)| (members.size, members.seats.len()));
    for (index, log) in logs.iter_mut().enumerate() {
        if log.trace.rank.is_some() {
            continue;
        }
        let Some((name, largest)) = largest else { continue };
        let seat = largest.seats.iter().find(|(_, logs)| logs.contains(&index)).map(|(seat, _)| *seat);
        if seat.is_none() {
            let (file, communicator) = (log.trace.file.clone(), name.clone());
            return Err(ProfileError::NotOfAll { file, communicator });
        }
        log.trace.rank = seat;
    }
    let ranks: Vec<Option<u32>> = logs.iter().map(|log| log.trace.rank).collect();
    let known: BTreeMap<&String, Vec<u32>> =
        members.iter().filter_map(|(name, members)| Some((name, members.ranks(&ranks)?))).collect();
    for log in &mut logs {
        for group in &mut log.trace.groups {
            if let Some(ranks) = known.get(&group.name) {
                group.ranks.clone_from(ranks);
            }
        }
        log.name_ends();
    }
    Ok(logs.into_iter().map(|log| log.trace).collect())
}

/// Logs of each process put together, in the order of the first of them.
fn joined(logs: Vec<ProcessLog>) -> Vec<ProcessLog> {
    let mut joined: Vec<ProcessLog> = Vec::new();
    for log in logs {
        match joined.iter_mut().find(|known| known.process == log.process) {
            Some(known) => known.extend(log),
            None => joined.push(log),
        }
    }
    joined
}

fn members(logs: &[ProcessLog]) -> BTreeMap<String, Members> {
    let mut all: BTreeMap<String, Members> = BTreeMap::new();
    for (index, log) in logs.iter().enumerate() {
        for (group, seat) in log.trace.groups.iter().zip(&log.seats) {
            let (Some(size), Some(seat), false) = (group.size, seat, group.name.is_empty()) else { continue };
            let members = all.entry(group.name.clone()).or_default();
            members.size = members.size.max(size);
            members.seats.entry(*seat).or_default().insert(index);
        }
    }
    all
}

impl Members {
    /// Ranks of the job in the order of the communicator, if all of them are known, and no two are the same.
    fn ranks(&self, of_logs: &[Option<u32>]) -> Option<Vec<u32>> {
        if self.seats.len() != self.size as usize {
            return None;
        }
        let rank = |logs: &BTreeSet<usize>| match logs.iter().copied().collect::<Vec<_>>()[..] {
            [only] => of_logs[only],
            _ => None,
        };
        let ranks: Vec<u32> = self.seats.values().map(rank).collect::<Option<_>>()?;
        let different: BTreeSet<&u32> = ranks.iter().collect();
        (different.len() == ranks.len()).then_some(ranks)
    }
}

impl ProcessLog {
    /// Adds calls of another log of the same process.
    fn extend(&mut self, other: Self) {
        let after = self.trace.ops.iter().map(|op| op.end_ns).max().unwrap_or_default();
        // Begins that are nothing but an order go on behind those that are there.
        let shift = if self.trace.timing == Timing::Durations { after } else { 0 };
        let groups = &mut self.trace.groups;
        let mut places = Vec::new();
        for (group, seat) in other.trace.groups.into_iter().zip(other.seats) {
            let place = groups.iter().position(|known| *known == group).unwrap_or_else(|| {
                groups.push(group);
                self.seats.push(seat);
                groups.len() - 1
            });
            places.push(place);
        }
        for op in other.trace.ops {
            let (begin_ns, end_ns) = (op.begin_ns.saturating_add(shift), op.end_ns.saturating_add(shift));
            self.trace.ops.push(TraceOp { group: places[op.group], begin_ns, end_ns, ..op });
        }
        self.trace.ops.sort_by_key(|op| op.begin_ns);
        if other.trace.timing == Timing::Durations {
            self.trace.timing = Timing::Durations;
        }
        for (what, count) in other.trace.not_used {
            *self.trace.not_used.entry(what).or_default() += count;
        }
        for (what, count) in other.trace.repaired {
            *self.trace.repaired.entry(what).or_default() += count;
        }
    }

    /// Turns senders and receivers within communicators into ranks of the job; those that are not known into none.
    fn name_ends(&mut self) {
        for op in &mut self.trace.ops {
            let ranks = &self.trace.groups[op.group].ranks;
            let named = |seat: u32| ranks.get(seat as usize).copied();
            op.src = op.src.and_then(named);
            op.dst = op.dst.and_then(named);
        }
    }
}

/// Puts messages of one group of calls together where they are an All-to-All: one to and one from each rank.
///
/// `batches` says for each call of which batch it is, none for calls that are in none; only messages of the same batch and communicator can be one
/// All-to-All. With `is_whole` each rank has to be there; without it a message to itself is enough, which nothing else has: programs leave out
/// messages of no bytes. Ranks of two that exchange messages without one to themselves are not told from others, and left as they are.
pub(crate) fn fold_all_to_all(
    ops: Vec<TraceOp>,
    batches: &[Option<u64>],
    groups: &[(Option<u32>, Option<u32>)],
    is_whole: bool,
) -> Vec<TraceOp> {
    let mut messages: BTreeMap<(u64, usize), Vec<usize>> = BTreeMap::new();
    for (index, (op, batch)) in ops.iter().zip(batches).enumerate() {
        if let Some(batch) = batch
            && op.op.is_between_two()
        {
            messages.entry((*batch, op.group)).or_default().push(index);
        }
    }
    let mut ops: Vec<Option<TraceOp>> = ops.into_iter().map(Some).collect();
    for ((_, group), indices) in messages {
        let (Some(seat), Some(size)) = groups[group] else { continue };
        for exchange in exchanges(&ops, &indices) {
            let parts: Vec<&TraceOp> = exchange.iter().filter_map(|index| ops[*index].as_ref()).collect();
            let Some(whole) = all_to_all(&parts, seat, size, is_whole) else { continue };
            for index in exchange {
                ops[*index] = None;
            }
            ops[exchange[0]] = Some(whole);
        }
    }
    ops.into_iter().flatten().collect()
}

/// Rank that a message goes to, or comes from, and whether it goes there.
fn peer(op: &TraceOp) -> Option<(bool, u32)> {
    let is_sent = op.op == CollectiveOp::Send;
    Some((is_sent, if is_sent { op.dst? } else { op.src? }))
}

/// Stretches of messages that have at most one to and one from each rank.
fn exchanges<'i>(ops: &[Option<TraceOp>], indices: &'i [usize]) -> Vec<&'i [usize]> {
    let (mut begin, mut seen, mut exchanges) = (0, BTreeSet::new(), Vec::new());
    for (place, index) in indices.iter().enumerate() {
        let peer = ops[*index].as_ref().and_then(peer);
        if !seen.insert(peer) {
            exchanges.push(&indices[begin..place]);
            begin = place;
            seen = BTreeSet::from([peer]);
        }
    }
    exchanges.push(&indices[begin..]);
    exchanges
}

fn all_to_all(parts: &[&TraceOp], seat: u32, size: u32, is_whole: bool) -> Option<TraceOp> {
    let mut bytes: BTreeMap<(bool, u32), u64> = BTreeMap::new();
    for part in parts {
        bytes.insert(peer(part).filter(|(_, rank)| *rank < size)?, part.bytes_in?);
    }
    let is_both = |rank: u32| bytes.contains_key(&(true, rank)) && bytes.contains_key(&(false, rank));
    // A size that is not true costs no time or memory.
    if size as usize > MOST_PEERS_BY_MESSAGE * parts.len() {
        return None;
    }
    let others = (0..size).all(|rank| rank == seat || is_both(rank));
    let is_one = if is_both(seat) { others || !is_whole } else { others && size > 2 };
    if !is_one {
        return None;
    }
    let splits = |is_sent: bool| -> Vec<u64> {
        (0..size).map(|rank| bytes.get(&(is_sent, rank)).copied().unwrap_or_default()).collect()
    };
    let even =
        |splits: Vec<u64>| if splits.iter().all(|part| *part == splits[0]) { Vec::new() } else { splits };
    let (splits_in, splits_out) = (splits(true), splits(false));
    let sampled: Vec<f64> = parts.iter().filter_map(|part| part.coded_share).collect();
    Some(TraceOp {
        op: CollectiveOp::AllToAll,
        seq: None,
        bytes_in: Some(splits_in.iter().fold(0, |sum, part| sum.saturating_add(*part))),
        bytes_out: Some(splits_out.iter().fold(0, |sum, part| sum.saturating_add(*part))),
        splits_in: even(splits_in),
        splits_out: even(splits_out),
        src: None,
        dst: None,
        begin_ns: parts.iter().map(|part| part.begin_ns).min()?,
        end_ns: parts.iter().map(|part| part.end_ns).max()?,
        coded_share: (!sampled.is_empty()).then(|| sampled.iter().sum::<f64>() / sampled.len() as f64),
        ..(*parts.first()?).clone()
    })
}
