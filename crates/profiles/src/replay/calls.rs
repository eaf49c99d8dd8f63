//! Calls of ranks that can be replayed, and which of them are one call.

use std::collections::{BTreeMap, BTreeSet};

use zipwire_cluster::{Group, Rank};

use super::ReplayError;
use super::steps::Steps;
use crate::op::CollectiveOp;
use crate::profile::{GroupRecord, OpRecord, Profile, RankRecord};

/// Calls of all ranks in a step that are held at the most.
const MOST_CALLS: usize = 4 << 20;

/// A rank that is in the profile, with its calls in order that have all that a replay needs.
pub(super) struct RankCalls<'p> {
    pub(super) rank: u32,
    pub(super) calls: Vec<RankCall<'p>>,
    /// By call: end of the last one of those in front of it.
    pub(super) ended_ns: Vec<Option<i64>>,
    /// Time of compute from the begin of the last call on.
    pub(super) compute_after_ns: i64,
}

impl<'p> RankCalls<'p> {
    fn new(rank: &RankRecord) -> Self {
        let compute_after_ns = rank.compute_after_ns;
        Self { rank: rank.rank, calls: Vec::new(), ended_ns: Vec::new(), compute_after_ns }
    }

    fn push(&mut self, call: RankCall<'p>) {
        let end = |call: &RankCall<'_>| call.record.start_ns + call.record.duration_ns;
        let ended_ns = self.calls.last().map(end).max(self.ended_ns.last().copied().flatten());
        self.ended_ns.push(ended_ns);
        self.calls.push(call);
    }
}

#[derive(Clone, Copy)]
pub(super) struct RankCall<'p> {
    pub(super) record: &'p OpRecord,
    pub(super) group: Group,
    /// Bytes that the rank gives, and gets.
    pub(super) bytes: (u64, u64),
}

impl RankCall<'_> {
    /// Everything by which calls of a rank differ from step to step or not.
    pub(super) fn kind(&self) -> Kind {
        let is_uneven = !self.record.splits_in.is_empty() || !self.record.splits_out.is_empty();
        Kind {
            op: if self.record.op == CollectiveOp::Recv { CollectiveOp::Send } else { self.record.op },
            count: self.group.count,
            stride: self.group.stride,
            // Whom tokens go to changes from step to step.
            bytes: if is_uneven { (0, 0) } else { self.of_call() },
            from: self.from(),
        }
    }

    /// Bytes that the sender gives and the receiver gets, or any rank.
    fn of_call(&self) -> (u64, u64) {
        let (given, got) = self.bytes;
        if self.record.op.is_between_two() { (given.max(got), given.max(got)) } else { (given, got) }
    }

    /// Position of the sender of a send.
    fn from(&self) -> u32 {
        let sender = match self.record.op {
            CollectiveOp::Send => Some(self.record.rank),
            CollectiveOp::Recv => self.record.peer,
            _ => None,
        };
        sender.and_then(|rank| self.group.position(Rank(rank))).unwrap_or_default()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Kind {
    pub(super) op: CollectiveOp,
    pub(super) count: u32,
    pub(super) stride: u32,
    pub(super) bytes: (u64, u64),
    pub(super) from: u32,
}

/// Calls of each rank that can be replayed.
pub(super) fn of_ranks<'p>(
    profile: &'p Profile,
    notes: &mut Vec<String>,
) -> Result<Vec<RankCalls<'p>>, ReplayError> {
    let mut left_out: BTreeMap<String, u64> = BTreeMap::new();
    let mut assumed: BTreeSet<usize> = BTreeSet::new();
    let mut ranks: Vec<RankCalls<'p>> = profile.ranks.iter().map(RankCalls::new).collect();
    for record in &profile.ops {
        let call = call_of(profile, record, &mut assumed);
        match (call, ranks.get_mut(record.source)) {
            (Ok(Some(call)), Some(rank)) => rank.push(call),
            (Ok(_), _) => {}
            (Err(reason), _) => *left_out.entry(reason).or_default() += 1,
        }
    }
    for group in assumed {
        let GroupRecord { name, size, .. } = &profile.groups[group];
        notes.push(format!(
            "ranks of group `{name}` are not in the profile: {} ranks in a row are assumed",
            size.unwrap_or_default()
        ));
    }
    let reasons: Vec<String> =
        left_out.iter().map(|(reason, count)| format!("{count} calls are not replayed: {reason}")).collect();
    if ranks.iter().all(|rank| rank.calls.is_empty()) {
        let reasons = reasons.iter().map(|reason| format!("\n{reason}")).collect();
        return Err(ReplayError::NoCalls { reasons });
    }
    notes.extend(
        reasons
            .into_iter()
            .map(|reason| format!("{reason}; the time that ranks wait for them stays as it is")),
    );
    Ok(ranks)
}

/// The call of a record; none of a rank alone, which moves nothing. An error says why it is not replayed.
fn call_of<'p>(
    profile: &Profile,
    record: &'p OpRecord,
    assumed: &mut BTreeSet<usize>,
) -> Result<Option<RankCall<'p>>, String> {
    use CollectiveOp::{AllGather, AllReduce, AllToAll, Barrier, Broadcast, Recv, ReduceScatter, Send};
    let group = match record.op {
        Send | Recv => pair(profile, record)?,
        AllReduce | AllGather | AllToAll | Barrier | Broadcast | ReduceScatter => {
            group_of(profile, record, assumed)?
        }
        other => return Err(format!("`{}` is not modelled", other.name())),
    };
    if group.count < 2 {
        return Ok(None);
    }
    let ranks = u64::from(group.count);
    // What one side says, the other one has, times the ranks.
    let bytes = match (record.op, record.bytes_in, record.bytes_out) {
        (Barrier, ..) => Some((4, 4)),
        (_, Some(given), Some(got)) => Some((given, got)),
        (AllGather, Some(given), None) => Some((given, given * ranks)),
        (AllGather, None, Some(got)) => Some((got / ranks, got)),
        (ReduceScatter, Some(given), None) => Some((given, given / ranks)),
        (ReduceScatter, None, Some(got)) => Some((got * ranks, got)),
        (_, given, got) => given.or(got).map(|bytes| (bytes, bytes)),
    };
    let bytes = bytes.filter(|(given, got)| *given.max(got) > 0).ok_or("their sizes are not known")?;
    Ok(Some(RankCall { record, group, bytes }))
}

/// The two ranks of a send.
fn pair(profile: &Profile, record: &OpRecord) -> Result<Group, String> {
    let peer = record.peer.ok_or("who sends or receives is not known")?;
    if peer == record.rank || peer >= profile.world_size {
        return Err("they are of a rank with itself or with one that the job does not have".to_owned());
    }
    if !profile.ranks.iter().any(|rank| rank.rank == peer) {
        return Err("the other rank is missing".to_owned());
    }
    let (low, high) = (record.rank.min(peer), record.rank.max(peer));
    Ok(Group { first: Rank(low), count: 2, stride: high - low })
}

/// Ranks of a call, if they are equally far apart.
fn group_of(profile: &Profile, record: &OpRecord, assumed: &mut BTreeSet<usize>) -> Result<Group, String> {
    let GroupRecord { name, size, ranks, .. } = &profile.groups[record.group];
    let world = profile.world_size;
    if let Some(ranks) = ranks {
        let stride = ranks.get(1).map_or(1, |second| second.saturating_sub(ranks[0]));
        let group = Group { first: Rank(ranks[0]), count: ranks.len() as u32, stride: stride.max(1) };
        let is_it = group.ranks().map(|rank| rank.0).eq(ranks.iter().copied());
        let is_inside = ranks.last().is_some_and(|last| *last < world);
        return if is_it && is_inside {
            Ok(group)
        } else {
            Err(format!("ranks of group `{name}` are not equally far apart, or beyond the job"))
        };
    }
    match size {
        Some(size) if *size == world => Ok(Group::all(world)),
        Some(size) if *size > 0 && world.is_multiple_of(*size) => {
            assumed.insert(record.group);
            Ok(Group { first: Rank(record.rank / size * size), count: *size, stride: 1 })
        }
        _ => Err(format!("ranks of group `{name}` are not known")),
    }
}

/// One call of one group.
pub(super) struct Node {
    pub(super) group: Group,
    pub(super) kind: Kind,
    /// Place among the calls of its group and kind in a step.
    pub(super) occurrence: u32,
    /// Ranks that make it.
    pub(super) made_by: Vec<Maker>,
}

/// Rank that makes a call.
#[derive(Clone, Copy)]
pub(super) struct Maker {
    /// Place of the rank, or of its twin, among those that are present.
    pub(super) place: usize,
    /// Place of the call in the step.
    pub(super) index: usize,
    pub(super) is_present: bool,
}

/// Calls of a step, and who makes them.
pub(super) struct Nodes {
    pub(super) nodes: Vec<Node>,
    /// By rank of the job: the calls of a step in order.
    pub(super) of_rank: Vec<Vec<usize>>,
    /// By rank of the job: the place of the present rank that stands for it.
    pub(super) twins: Vec<usize>,
    /// By present rank and call of a step: whether it is replayed.
    pub(super) is_kept: Vec<Vec<bool>>,
}

impl Nodes {
    pub(super) fn of(
        profile: &Profile,
        ranks: &[RankCalls<'_>],
        steps: &Steps,
        chosen: &[usize],
        notes: &mut Vec<String>,
    ) -> Result<Self, ReplayError> {
        let twins = twins(profile, ranks);
        let first = chosen[0];
        let of_steps: Vec<&[RankCall<'_>]> =
            ranks.iter().enumerate().map(|(rank, own)| &own.calls[steps.of_rank(rank, first)]).collect();
        let total = chosen.len() * twins.iter().map(|twin| of_steps[*twin].len()).sum::<usize>();
        if total > MOST_CALLS {
            return Err(ReplayError::TooMany { calls: total, ranks: profile.world_size });
        }
        let mut found = Found::default();
        for (rank, twin) in twins.iter().enumerate() {
            found.add_rank(rank as u32, (*twin, &ranks[*twin], of_steps[*twin]), profile.world_size);
        }
        let (is_whole, is_kept) = found.kept(&twins, ranks.len());
        let lacking = is_whole.iter().filter(|is_whole| !**is_whole).count();
        if lacking > 0 {
            notes.push(format!(
                "{lacking} calls of a step are not replayed: not all of their ranks make them; the time that ranks wait for them stays as it is"
            ));
        }
        if is_kept.iter().flatten().all(|is_kept| !is_kept) {
            return Err(ReplayError::NoCalls { reasons: String::new() });
        }
        let of_rank = found.of_rank.iter().zip(&twins).map(|(calls, twin)| {
            calls
                .iter()
                .zip(&is_kept[*twin])
                .filter_map(|(node, is_kept)| node.filter(|_| *is_kept))
                .collect()
        });
        let of_rank = of_rank.collect();
        Ok(Self { nodes: found.nodes, of_rank, twins, is_kept })
    }
}

/// By rank of the job, the place of the rank that stands for it.
fn twins(profile: &Profile, ranks: &[RankCalls<'_>]) -> Vec<usize> {
    let place = |rank: u32| ranks.iter().position(|own| own.rank == rank);
    let twin = |rank: u32| {
        let range = profile.ranks_missing.iter().find(|range| (range.from..=range.to).contains(&rank));
        place(rank).or_else(|| place(range?.twin)).unwrap_or_default()
    };
    (0..profile.world_size).map(twin).collect()
}

#[derive(Default)]
struct Found {
    nodes: Vec<Node>,
    by_key: BTreeMap<(Group, Kind, u32), usize>,
    /// By rank of the job; none where a twin's call cannot be that of the rank.
    of_rank: Vec<Vec<Option<usize>>>,
}

impl Found {
    /// Adds calls of a rank, which are those of its twin in groups of its own.
    fn add_rank(
        &mut self,
        rank: u32,
        (place, twin, calls): (usize, &RankCalls<'_>, &[RankCall<'_>]),
        world: u32,
    ) {
        let mut counts: BTreeMap<(Group, Kind), u32> = BTreeMap::new();
        let mut own = Vec::with_capacity(calls.len());
        for (index, call) in calls.iter().enumerate() {
            let kind = call.kind();
            let Some(group) = translated(call.group, twin.rank, rank, world) else {
                own.push(None);
                continue;
            };
            let count = counts.entry((group, kind)).or_default();
            let key = (group, kind, *count);
            *count += 1;
            let node = *self.by_key.entry(key).or_insert_with(|| {
                let node = Node { group, kind, occurrence: key.2, made_by: Vec::new() };
                self.nodes.push(node);
                self.nodes.len() - 1
            });
            self.nodes[node].made_by.push(Maker { place, index, is_present: twin.rank == rank });
            own.push(Some(node));
        }
        self.of_rank.push(own);
    }
}

impl Found {
    /// Whether all ranks of each call make it, and which calls of each present rank are replayed: those that all ranks for which it stands can
    /// make, too.
    fn kept(&self, twins: &[usize], present: usize) -> (Vec<bool>, Vec<Vec<bool>>) {
        let mut is_whole: Vec<bool> =
            self.nodes.iter().map(|node| node.made_by.len() as u32 == node.group.count).collect();
        loop {
            let mut is_kept: Vec<Vec<bool>> = vec![Vec::new(); present];
            for (calls, twin) in self.of_rank.iter().zip(twins) {
                let kept = &mut is_kept[*twin];
                kept.resize(calls.len(), true);
                for (is_kept, node) in kept.iter_mut().zip(calls) {
                    *is_kept &= node.is_some_and(|node| is_whole[node]);
                }
            }
            let before = is_whole.clone();
            for (calls, twin) in self.of_rank.iter().zip(twins) {
                for (node, is_kept) in calls.iter().zip(&is_kept[*twin]) {
                    if let (Some(node), false) = (node, is_kept) {
                        is_whole[*node] = false;
                    }
                }
            }
            if before == is_whole {
                return (is_whole, is_kept);
            }
        }
    }
}

/// The group of a rank that is to it as a group is to the rank's twin: the same one, or its like.
fn translated(group: Group, twin: u32, rank: u32, world: u32) -> Option<Group> {
    if group.position(Rank(rank)).is_some() {
        return Some(group);
    }
    if twin == rank {
        return None;
    }
    let block = group.count.checked_mul(group.stride)?;
    let first = |rank: u32| rank / block * block + rank % group.stride;
    let is_one_of_equals = world.is_multiple_of(block) && first(twin) == group.first.0;
    is_one_of_equals.then(|| Group { first: Rank(first(rank)), ..group })
}
