//! Checks of a plan before anything runs: each program for itself, the transfers of all, and that all ranks get
//! to their ends.

mod library;
mod progress;
mod transfers;

pub(crate) use library::pair as pair_calls;
pub(crate) use transfers::{Pair, pair as pair_transfers};

use std::collections::HashMap;

use crate::hazards::Hazards;
use crate::plan::{
    Chunk, Content, Effects, Exchange, Local, Maximum, Op, OpKind, Plan, PlanError, Program, Region, Transfer,
};
use crate::rank_order::Members;
use crate::validate::library::is_collective;
use crate::{CallKind, Flow, Job, Rank, Segment, SegmentId, SizeId, Stage, Work};

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
    /// up to 256 ranks, that every send has its receive under the same number, that all ranks call a library alike, and
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
        for (position, program) in self.programs.iter().enumerate() {
            if !proceed() {
                return Ok(Checked::Stopped);
            }
            check_program(position, program, self.rank_count(), deliveries)?;
        }
        if self.rank_count() <= WHOLE_PLAN_RANKS {
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

fn check_program(
    position: usize,
    program: &Program,
    rank_count: u32,
    deliveries: Option<&Deliveries<'_>>,
) -> Result<(), PlanError> {
    let rank = program.rank;
    let in_order = program.ops.iter().enumerate().all(|(index, op)| op.id.index() == index);
    if rank.index() != position || !in_order {
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
        deliveries.check(program, &effects)?;
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
struct Deliveries<'a> {
    job: &'a Job,
    /// Flows that each rank gets, by segment; none for collectives.
    flows: Vec<Vec<Vec<(Rank, u64)>>>,
}

impl<'a> Deliveries<'a> {
    fn new(job: &'a Job) -> Self {
        let by_rank = |segment: &Segment| {
            let Work::Transfers { flows, .. } = &segment.work else { return Vec::new() };
            let mut by_rank = vec![Vec::new(); job.rank_count as usize];
            flows.iter().for_each(|&Flow { src, dst, bytes, .. }| by_rank[dst.index()].push((src, bytes)));
            by_rank
        };
        Self { job, flows: job.segments.iter().map(by_rank).collect() }
    }

    /// Checks that a program fills, of each output, as many bytes as the job wants, each of the rank that has them; a
    /// reduction, with sums of what all ranks contribute. `effects` are those of its ops.
    fn check(&self, program: &Program, effects: &[Effects]) -> Result<(), PlanError> {
        let segments = &self.job.segments;
        let mut brought: Vec<Vec<(Rank, Region)>> = vec![Vec::new(); segments.len()];
        for (op, Effects { delivers, sums, .. }) in program.ops.iter().zip(effects) {
            let Some(Segment { work, .. }) = segments.get(op.segment.index()) else { continue };
            let Some([_, output]) = work.slots() else { continue };
            let values = delivers.iter().chain(sums).filter(|(chunk, region)| {
                region.buffer.index() == output.index() && chunk.is_delivered(program.rank)
            });
            let brought = &mut brought[op.segment.index()];
            if work.is_reduction() {
                // Partial sums are on their way.
                let in_full = |count: usize| count == self.job.rank_count as usize;
                let totals = values.filter_map(|&(chunk, region)| Some((chunk.shard(), chunk.sum?, region)));
                let totals = totals.filter(|(_, sum, _)| in_full(sum.count()));
                // Sums may be wider than what is added up.
                let dtype = work.dtype().expect("reductions have values");
                brought.extend(totals.map(|(shard, sum, Region { buffer, offset, len })| {
                    let as_given = |bytes: u64| bytes / sum.dtype().width() as u64 * dtype.width() as u64;
                    (shard, Region { buffer, offset: as_given(offset), len: as_given(len) })
                }));
            } else {
                brought.extend(values.map(|(chunk, region)| (chunk.origin, *region)));
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
        brought: Vec<(Rank, Region)>,
    ) -> Result<(), PlanError> {
        let (expected, found) = (self.expected(rank, index), bytes_by_rank(brought, self.job.rank_count));
        match (0..).map(Rank).zip(expected.into_iter().zip(found)).find(|(_, (e, f))| e != f) {
            None => Ok(()),
            Some((of, (expected, found))) => {
                let segment = segment.name.to_string();
                Err(PlanError::Undelivered { rank, segment, of, expected, found })
            }
        }
    }

    /// Bytes that a rank waits for in a segment, by the rank that has them or, in reductions, whose shard they are.
    fn expected(&self, rank: Rank, segment: usize) -> Vec<u64> {
        let job = self.job;
        let mut expected = vec![0; job.rank_count as usize];
        let work = &job.segments[segment].work;
        let Some(call) = work.call() else {
            let flows = self.flows[segment].get(rank.index()).into_iter().flatten();
            flows.for_each(|&(src, bytes)| expected[src.index()] += bytes);
            return expected;
        };
        match call {
            CallKind::AllToAll { bytes, .. } => {
                expected.iter_mut().zip(bytes.column(rank.index())).for_each(|(all, &bytes)| *all = bytes);
                expected[rank.index()] = 0;
            }
            CallKind::AllGather { bytes } => {
                expected.copy_from_slice(bytes);
                expected[rank.index()] = 0;
            }
            CallKind::Broadcast { bytes, root, to } => {
                expected[root.index()] = if Members::new(*root, *to).gets(rank) { *bytes } else { 0 };
            }
            CallKind::ReduceScatter { bytes } => expected[rank.index()] = bytes[rank.index()],
            CallKind::AllReduce { .. } => expected = work.shards(job.rank_count),
        }
        expected
    }
}

/// Bytes of each rank's regions; those that it has several times count once.
fn bytes_by_rank(mut regions: Vec<(Rank, Region)>, rank_count: u32) -> Vec<u64> {
    regions.sort_unstable_by_key(|(rank, region)| (*rank, region.offset));
    let mut bytes = vec![0; rank_count as usize];
    for of_one in regions.chunk_by(|(first, _), (second, _)| first == second) {
        let mut end = 0;
        for (rank, region) in of_one {
            bytes[rank.index()] += region.end().saturating_sub(end.max(region.offset));
            end = end.max(region.end());
        }
    }
    bytes
}
