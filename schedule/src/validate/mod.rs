//! Checks of a plan before anything runs: each program for itself, the transfers of all, and that all ranks get
//! to their ends.

mod library;
mod progress;
mod transfers;

pub(crate) use library::pair as pair_calls;
pub(crate) use transfers::{Pair, pair as pair_transfers};

use std::collections::{BTreeMap, HashMap};

use zipwire_cluster::{Group, Symmetry};
use zipwire_codec::DType;

use crate::hazards::Hazards;
use crate::plan::{
    Chunk, Content, Effects, Exchange, Local, Maximum, Op, OpKind, Plan, PlanError, Program, Region, Row,
    Transfer, Values,
};
use crate::rank_order::Members;
use crate::validate::library::is_collective;
use crate::{CallKind, Flow, Job, Rank, Segment, SegmentId, SizeId, Stage, Sum, Work};

/// Checks across ranks hold the whole plan; above this rank count only the checks of each program run.
pub const WHOLE_PLAN_RANKS: u32 = 256;

/// Outcome of a check that found nothing wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checked {
    /// The plan is executable.
    Valid,
    /// The caller ended the check before that was known.
    Stopped,
}

impl Plan {
    /// Checks the plan: regions, frames, dependencies, sizes, peers, windows and numbers of transfers of every program; and,
    /// up to 256 ranks of which each stands for itself, that every send has its receive under the same number, that all ranks call a library alike, and
    /// that all get to their ends.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn validate(&self) -> Result<(), PlanError> {
        self.check(None, &|| true).map(|_| ())
    }

    /// Checks like [`validate`](Self::validate), and that every rank gets what a job says, no more and no less.
    ///
    /// # Errors
    /// The first thing that is wrong.
    ///
    /// # Panics
    /// If the job has another number of ranks.
    pub fn validate_for(&self, job: &Job) -> Result<(), PlanError> {
        self.validate_while(job, &|| true).map(|_| ())
    }

    /// Checks like [`validate_for`](Self::validate_for), for as long as `proceed` returns true. It is asked now and then; `false`
    /// ends the check with [`Checked::Stopped`], and nothing is known of the plan.
    ///
    /// # Errors
    /// The first thing that is wrong.
    ///
    /// # Panics
    /// If the job has another number of ranks.
    pub fn validate_while(&self, job: &Job, proceed: &dyn Fn() -> bool) -> Result<Checked, PlanError> {
        assert_eq!(job.rank_count, self.rank_count(), "the plan is one of the job");
        self.check(Some(&Deliveries::new(job)), proceed)
    }

    fn check(
        &self,
        deliveries: Option<&Deliveries<'_>>,
        proceed: &dyn Fn() -> bool,
    ) -> Result<Checked, PlanError> {
        if self.merged.is_some() {
            // Programs of the job without repetitions were checked before transfers were merged.
            return Ok(Checked::Valid);
        }
        for (position, program) in self.programs.iter().enumerate() {
            if !proceed() {
                return Ok(Checked::Stopped);
            }
            check_program(position, program, &self.symmetry, deliveries)?;
        }
        if self.rank_count() <= WHOLE_PLAN_RANKS && self.symmetry.alike() == 1 {
            let transfers = transfers::pair(self)?;
            let calls = library::pair(self)?;
            if !proceed() {
                return Ok(Checked::Stopped);
            }
            progress::find_cycle(self, &transfers, &calls)?;
            drop(transfers);
            return progress::play(self, proceed);
        }
        Ok(Checked::Valid)
    }
}

pub(crate) fn check_program(
    position: usize,
    program: &Program,
    symmetry: &Symmetry,
    deliveries: Option<&Deliveries<'_>>,
) -> Result<(), PlanError> {
    let (rank, rank_count) = (program.rank, symmetry.ranks());
    let in_order = program.ops.iter().enumerate().all(|(index, op)| op.id.index() == index);
    if symmetry.member_at(position as u32) != rank || !in_order {
        return Err(PlanError::Misplaced { position, rank });
    }
    let effects: Vec<Effects> = program.ops.iter().map(|op| op.kind.effects()).collect();
    for (op, effects) in program.ops.iter().zip(&effects) {
        check_op(program, op, effects, rank_count)?;
        if let OpKind::Exchange(Exchange { window, .. }) = &op.kind
            && (window.sends == 0 || window.receives == 0)
        {
            return Err(PlanError::EmptyWindow { rank, op: op.id });
        }
    }
    check_sizes(program, &effects)?;
    check_forwards(program)?;
    if let Some(deliveries) = deliveries {
        deliveries.check(program)?;
    }
    check_dependencies(program, effects)?;
    transfers::check_numbers(program)
}

fn check_op(program: &Program, op: &Op, effects: &Effects, rank_count: u32) -> Result<(), PlanError> {
    let (rank, op_id) = (program.rank, op.id);
    let Effects { reads, writes, peers, .. } = effects;
    if let Some(&peer) = peers.iter().find(|&&peer| peer == rank || peer.0 >= rank_count) {
        return Err(PlanError::BadPeer { rank, op: op_id, peer });
    }
    for region in reads.iter().chain(writes) {
        let inside = program.buffers.get(region.buffer.index()).is_some_and(|b| region.end() <= b.capacity);
        if !inside {
            return Err(PlanError::OutOfBuffer { rank, op: op_id, region: region.to_string() });
        }
    }
    let mut writes: Vec<_> = writes.iter().filter(|region| region.len > 0).collect();
    writes.sort_unstable_by_key(|region| (region.buffer, region.offset));
    if let Some(pair) = writes.windows(2).find(|pair| pair[0].overlaps(pair[1])) {
        return Err(PlanError::WrittenTwice { rank, op: op_id, region: pair[1].to_string() });
    }
    let error = match &op.kind {
        OpKind::Local(local) => local.defect().map(|defect| PlanError::BadLocal { rank, op: op_id, defect }),
        OpKind::Library(library) => {
            (!is_collective(rank, library)).then_some(PlanError::BadCall { rank, op: op_id })
        }
        OpKind::Compute(_) | OpKind::Exchange(_) => None,
    };
    error.map_or(Ok(()), Err)
}

/// Sizes are single-assignment variables, defined before they are read.
fn check_sizes(program: &Program, effects: &[Effects]) -> Result<(), PlanError> {
    let rank = program.rank;
    let mut definitions = vec![0; program.size_count as usize];
    for Maximum { size, of } in &program.maxima {
        // What comes before a maximum is no maximum that depends on it.
        let is_plain = |operand: &SizeId| operand < size && program.operands(operand) == [*operand];
        match definitions.get_mut(size.index()) {
            Some(count) if !of.is_empty() && of.iter().all(is_plain) => *count += 1,
            Some(_) | None => return Err(PlanError::BadMaximum { rank, size: *size }),
        }
    }
    let mut defined = vec![false; program.size_count as usize];
    for (op, Effects { uses, defines, .. }) in program.ops.iter().zip(effects) {
        let is_known = |size: &SizeId| {
            program.operands(size).iter().all(|operand| defined.get(operand.index()) == Some(&true))
        };
        if let Some(&size) = uses.iter().find(|size| !is_known(size)) {
            return Err(PlanError::SizeNotDefined { rank, op: op.id, size });
        }
        for &size in defines {
            match definitions.get_mut(size.index()) {
                Some(count) => *count += 1,
                None => return Err(PlanError::SizeNotDefinedOnce { rank, size, definitions: 0 }),
            }
            defined[size.index()] = true;
        }
    }
    match (0..).map(SizeId).zip(&definitions).find(|&(_, &count)| count != 1) {
        None => Ok(()),
        Some((size, &definitions)) => Err(PlanError::SizeNotDefinedOnce { rank, size, definitions }),
    }
}

/// A rank sends what is its own, or hands on what it received in the same stage, as it received it, or what it has put
/// together as a gateway.
fn check_forwards(program: &Program) -> Result<(), PlanError> {
    let exchanges = program.ops.iter().filter_map(|op| op.kind.exchange());
    if exchanges.flat_map(|exchange| &exchange.sends).all(|t| t.chunk.origin == program.rank) {
        return Ok(());
    }
    let mut received: HashMap<(SegmentId, Stage, Chunk), Content> = HashMap::new();
    for op in &program.ops {
        if let OpKind::Local(Local::GatherRows(copy)) = &op.kind {
            let made = copy.gathers.iter();
            received.extend(
                made.map(|made| ((op.segment, Stage::Forward, made.chunk), Content::Values(made.to))),
            );
        }
        let OpKind::Exchange(exchange) = &op.kind else { continue };
        let key = |t: &Transfer| (op.segment, exchange.stage, t.chunk);
        let is_missing = |t: &&Transfer| {
            t.chunk.origin != program.rank
                && received.get(&key(t)).is_none_or(|content| *content != t.content)
        };
        if let Some(t) = exchange.sends.iter().find(is_missing) {
            return Err(PlanError::NotReceived { rank: program.rank, op: op.id, origin: t.chunk.origin });
        }
        received.extend(exchange.receives.iter().map(|t| (key(t), t.content)));
    }
    Ok(())
}

fn check_dependencies(program: &Program, effects: Vec<Effects>) -> Result<(), PlanError> {
    let mut hazards = Hazards::of_sizes(program.size_count);
    for (op, effects) in program.ops.iter().zip(effects) {
        let expected = hazards.depend(op.id, &op.kind, effects, &program.maxima);
        if expected != op.deps {
            let (rank, op, found) = (program.rank, op.id, op.deps.clone());
            return Err(PlanError::Dependencies { rank, op, found, expected });
        }
    }
    Ok(())
}

/// Bytes that the ranks of a job wait for: a plan must bring each exactly these, whatever the way.
pub(crate) struct Deliveries<'a> {
    job: &'a Job,
    segments: Vec<Awaited<'a>>,
}

/// Bytes that ranks wait for in a segment, by the rank that has them or, in reductions, whose shard they are.
enum Awaited<'a> {
    /// Bytes of every other rank, as the call says.
    Call(&'a CallKind),
    /// Sums of all shards, or only of the own one; in reductions.
    Sums { dtype: Option<DType>, shards: Vec<u64>, all: bool },
    /// Flows, by the rank that gets them.
    Flows(Vec<Vec<(Rank, u64)>>),
}

impl<'a> Awaited<'a> {
    fn new(segment: &'a Segment, rank_count: u32) -> Self {
        let (work, ranks) = (&segment.work, segment.groups(rank_count).size());
        match work {
            Work::Compute { .. } => Self::Flows(Vec::new()),
            Work::Transfers { flows, .. } => {
                let mut by_rank = vec![Vec::new(); rank_count as usize];
                flows
                    .iter()
                    .for_each(|&Flow { src, dst, bytes, .. }| by_rank[dst.index()].push((src, bytes)));
                Self::Flows(by_rank)
            }
            Work::Call { kind: CallKind::ReduceScatter { .. }, .. } => {
                Self::Sums { dtype: work.dtype(), shards: work.shards(ranks), all: false }
            }
            Work::Call { kind: CallKind::AllReduce { .. }, .. } => {
                Self::Sums { dtype: work.dtype(), shards: work.shards(ranks), all: true }
            }
            Work::Call { kind, .. } => Self::Call(kind),
        }
    }

    /// Bytes that a rank of a group waits for, in the order of ranks, without those of which it waits for nothing.
    fn within(&self, group: &Group, rank: Rank) -> Vec<(Rank, u64)> {
        let Some(position) = group.position(rank) else { return Vec::new() };
        let of_position = self.of(Rank(position));
        of_position.into_iter().map(|(origin, bytes)| (group.at(origin.0), bytes)).collect()
    }

    /// The same by positions in the group.
    fn of(&self, rank: Rank) -> Vec<(Rank, u64)> {
        let by_rank = |bytes: &mut dyn Iterator<Item = u64>| (0..).map(Rank).zip(bytes).collect::<Vec<_>>();
        let mut awaited =
            match self {
                Self::Call(CallKind::AllToAll { bytes, .. }) => {
                    by_rank(&mut bytes.column(rank.index()).iter().copied())
                }
                Self::Call(CallKind::AllGather { bytes }) => by_rank(&mut bytes.iter().copied()),
                Self::Call(CallKind::Send { bytes, from }) => vec![(*from, *bytes)],
                Self::Call(CallKind::Broadcast { bytes, root, to }) => {
                    if Members::new(*root, *to).gets(rank) { vec![(*root, *bytes)] } else { Vec::new() }
                }
                Self::Call(_) => unreachable!("reductions wait for sums"),
                Self::Sums { shards, all: true, .. } => by_rank(&mut shards.iter().copied()),
                Self::Sums { shards, all: false, .. } => vec![(rank, shards[rank.index()])],
                Self::Flows(by_rank) => {
                    let mut sums: BTreeMap<Rank, u64> = BTreeMap::new();
                    let flows = by_rank.get(rank.index()).into_iter().flatten();
                    flows.for_each(|&(src, bytes)| *sums.entry(src).or_default() += bytes);
                    sums.into_iter().collect()
                }
            };
        let is_of_another = |origin: Rank| !matches!(self, Self::Call(_)) || origin != rank;
        awaited.retain(|&(origin, bytes)| bytes > 0 && is_of_another(origin));
        awaited
    }

    /// Whether a row of values or sums brings a rank all that it waits for.
    fn is_row(&self, row: &Row) -> bool {
        match self {
            Self::Call(CallKind::AllGather { bytes }) => {
                row.chunk.sum.is_none() && row.lens.bytes() == &bytes[..]
            }
            // Sums of a library are as wide as what it adds up.
            Self::Sums { dtype, shards, all: true } => {
                row.chunk.sum.map(Sum::dtype) == *dtype
                    && dtype.is_some()
                    && row.chunk.destination.is_none()
                    && row.without.is_none()
                    && row.lens.bytes() == &shards[..]
            }
            Self::Sums { all: false, .. } | Self::Call(_) | Self::Flows(_) => false,
        }
    }
}

impl<'a> Deliveries<'a> {
    pub(crate) fn new(job: &'a Job) -> Self {
        let segments = job.segments.iter().map(|segment| Awaited::new(segment, job.rank_count));
        Self { job, segments: segments.collect() }
    }

    /// Checks that a program fills, of each output, as many bytes as the job wants, each of the rank that has them; a
    /// reduction, with sums of what all ranks contribute.
    fn check(&self, program: &Program) -> Result<(), PlanError> {
        let segments = &self.job.segments;
        let mut brought: Vec<Brought<'_>> = segments.iter().map(|_| Brought::default()).collect();
        for op in &program.ops {
            let Some(segment) = segments.get(op.segment.index()) else { continue };
            let Some([_, output]) = segment.work.slots() else { continue };
            let brought = &mut brought[op.segment.index()];
            let row = op.kind.library().and_then(|library| library.outputs.row());
            match row.filter(|row| row.buffer.index() == output.index()) {
                Some(row) => brought.rows.push((op, row)),
                None => brought.add(program.rank, op, segment, self.job.rank_count),
            }
        }
        for (index, (segment, brought)) in segments.iter().zip(brought).enumerate() {
            self.compare(program.rank, index, segment, brought)?;
        }
        Ok(())
    }

    fn compare(
        &self,
        rank: Rank,
        index: usize,
        segment: &Segment,
        mut brought: Brought<'_>,
    ) -> Result<(), PlanError> {
        let awaited = &self.segments[index];
        if brought.regions.is_empty()
            && let [(_, row)] = brought.rows[..]
            && Some(row.group) == segment.group(rank, self.job.rank_count)
            && awaited.is_row(row)
        {
            return Ok(());
        }
        for (op, _) in std::mem::take(&mut brought.rows) {
            brought.add(rank, op, segment, self.job.rank_count);
        }
        let group = segment.group(rank, self.job.rank_count);
        let expected = group.map_or_else(Vec::new, |group| awaited.within(&group, rank));
        let found = bytes_by_rank(brought.regions);
        if expected == found {
            return Ok(());
        }
        let bytes_of = |list: &[(Rank, u64)], of| {
            list.iter().find(|(rank, _)| *rank == of).map_or(0, |(_, bytes)| *bytes)
        };
        let ranks = (0..self.job.rank_count).map(Rank);
        let both = ranks.map(|of| (of, bytes_of(&expected, of), bytes_of(&found, of)));
        let differs = both.into_iter().find(|(_, expected, found)| expected != found);
        let (of, expected, found) = differs.expect("the lists differ for a rank of the job");
        Err(PlanError::Undelivered { rank, segment: segment.name.to_string(), of, expected, found })
    }
}

/// Regions that a program brings its rank in a segment.
#[derive(Default)]
struct Brought<'a> {
    /// Calls of a library whose outputs are a row in the segment's output.
    rows: Vec<(&'a Op, &'a Row)>,
    /// All else, by the rank that has it or, in reductions, whose shard it is.
    regions: Vec<(Rank, Region)>,
}

impl Brought<'_> {
    /// Adds what an op brings to the segment's output.
    fn add(&mut self, rank: Rank, op: &Op, segment: &Segment, rank_count: u32) {
        let (work, rank_count) = (&segment.work, segment.groups(rank_count).size());
        let Some([_, output]) = work.slots() else { return };
        let Values { delivers, sums, .. } = op.kind.values();
        let values = delivers
            .iter()
            .chain(&sums)
            .filter(|(chunk, region)| region.buffer.index() == output.index() && chunk.is_delivered(rank));
        if !work.is_reduction() {
            self.regions.extend(values.map(|(chunk, region)| (chunk.origin, *region)));
            return;
        }
        // Partial sums are on their way.
        let in_full = |count: usize| count == rank_count as usize;
        let totals = values.filter_map(|&(chunk, region)| Some((chunk.shard(), chunk.sum?, region)));
        let totals = totals.filter(|(_, sum, _)| in_full(sum.count()));
        // Sums may be wider than what is added up.
        let dtype = work.dtype().expect("reductions have values");
        self.regions.extend(totals.map(|(shard, sum, Region { buffer, offset, len })| {
            let as_given = |bytes: u64| bytes / sum.dtype().width() as u64 * dtype.width() as u64;
            (shard, Region { buffer, offset: as_given(offset), len: as_given(len) })
        }));
    }
}

/// Bytes of each rank's regions, in the order of ranks; those that it has several times count once.
fn bytes_by_rank(mut regions: Vec<(Rank, Region)>) -> Vec<(Rank, u64)> {
    regions.sort_unstable_by_key(|(rank, region)| (*rank, region.offset));
    let mut by_rank = Vec::new();
    for of_one in regions.chunk_by(|(first, _), (second, _)| first == second) {
        let (mut bytes, mut end) = (0, 0);
        for (_, region) in of_one {
            bytes += region.end().saturating_sub(end.max(region.offset));
            end = end.max(region.end());
        }
        by_rank.push((of_one[0].0, bytes));
    }
    by_rank.retain(|(_, bytes)| *bytes > 0);
    by_rank
}
