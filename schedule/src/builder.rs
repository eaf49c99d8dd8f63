//! Builds a program and derives the dependencies of its ops from hazards; nobody writes them by hand.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::accesses::{Accesses, union};
use crate::plan::{Buffer, Effects, Exchange, Maximum, Numbers, Op, OpKind, Program, Region};
use crate::{BufferId, Channel, OpId, PlanSize, Rank, SegmentId, SizeId, Stage};

/// Collects the ops of one rank.
///
/// An op depends on the last writers of what it reads, on the last writers and readers of what it writes, on
/// the definers of sizes that it uses (of all operands, if such a size is a maximum), and, if it is an exchange, on the
/// previous exchange of its channel: a rank opens an exchange when its previous one there has completed. Calls of a library
/// follow one another, and exchanges, likewise. Compute phases
/// follow one another likewise. Exchanges of explicit flows that have steps depend on those of the step before. Sizes are in no buffer: an exchange of sizes also depends on the last exclusive compute
/// phase, so that a rank is in no collective of the main channel during one.
#[derive(Debug, Default)]
pub struct ProgramBuilder {
    program: Program,
    segment: SegmentId,
    writers: Accesses,
    readers: Accesses,
    /// The ops that define each size; for a maximum, those that define its operands.
    definers: Vec<Vec<OpId>>,
    last_exchanges: BTreeMap<Channel, Exchanges>,
    steps: Steps,
    /// Which part of a call the next ops are of.
    part: u32,
    /// The channels on which that part has exchanges already, also such as are left out.
    used: BTreeSet<Channel>,
    /// The channels on which that part has exchanges in the program, and those on which earlier parts of the call have.
    pushed: BTreeSet<Channel>,
    pushed_before: BTreeSet<Channel>,
    /// A channel whose next exchange joins the one before.
    joined: Option<Channel>,
    /// Of the transfers that were pushed.
    numbers: Numbers,
    last_compute: Option<OpId>,
    /// The last exclusive compute phase.
    last_exclusive: Option<OpId>,
    /// What was pushed, if that is only counted.
    counted: Option<PlanSize>,
}

impl ProgramBuilder {
    /// An empty program.
    pub fn new(rank: Rank) -> Self {
        Self { program: Program { rank, ..Program::default() }, ..Self::default() }
    }

    /// Adds what is pushed to a size, and keeps nothing of it.
    pub(crate) fn counting(rank: Rank, size: PlanSize) -> Self {
        Self { counted: Some(size), ..Self::new(rank) }
    }

    /// What has been counted.
    pub(crate) fn counted(&self) -> PlanSize {
        self.counted.unwrap_or_default()
    }

    /// A program without ops that has the buffers and sizes of another one.
    pub(crate) fn without_ops_of(program: &Program) -> Self {
        let mut builder = Self::new(program.rank);
        builder.program.buffers.clone_from(&program.buffers);
        builder.definers = vec![Vec::new(); program.size_count as usize];
        builder.program.size_count = program.size_count;
        builder.program.maxima.clone_from(&program.maxima);
        builder
    }

    /// The rank whose program is built.
    pub fn rank(&self) -> Rank {
        self.program.rank
    }

    /// Ops that are pushed from now on belong to `segment`.
    pub fn begin(&mut self, segment: SegmentId) {
        self.segment = segment;
        self.begin_part(0);
    }

    /// Exchanges that are pushed from now on are of a part of a call that is cut into parts, counted from 0.
    pub(crate) fn begin_part(&mut self, part: u32) {
        self.used.clear();
        if part == 0 {
            self.pushed_before.clear();
        }
        let pushed = std::mem::take(&mut self.pushed);
        self.pushed_before.extend(pushed.into_iter().filter(|_| part > 0));
        self.part = part;
    }

    /// The next exchange on a channel joins the one before, which has just been pushed.
    pub(crate) fn join_next(&mut self, channel: Channel) {
        self.joined = Some(channel);
    }

    /// Whether the next exchange on a channel joins the one before ([`Exchange::joins_previous`](crate::plan::Exchange)): where
    /// that was asked for, and the first exchange of a part does not wait for the last one of the parts before. A rank that has nothing to
    /// do on the channel in those would join another call, and share a window with it that its peers do not share.
    pub(crate) fn joins_previous(&mut self, channel: Channel) -> bool {
        let is_first = self.used.insert(channel);
        let is_asked = self.joined.take_if(|joined| *joined == channel).is_some();
        // A call of a library has the channel for itself.
        let is_part = is_first && self.pushed_before.contains(&channel);
        let is_asked = is_asked && self.pushed.contains(&channel);
        is_asked || is_part && !self.last_exchanges.get(&channel).is_some_and(|last| last.is_call)
    }

    /// The part of a call that exchanges and calls of a library are pushed of.
    pub(crate) fn part(&self) -> u32 {
        self.part
    }

    /// A new buffer without capacity; [`Self::reserve`] gives it some.
    pub fn buffer(&mut self, name: impl Into<Cow<'static, str>>) -> BufferId {
        self.program.buffers.push(Buffer { name: name.into(), capacity: 0 });
        BufferId(count(self.program.buffers.len() - 1))
    }

    /// Makes sure that a buffer holds at least `capacity` bytes.
    pub fn reserve(&mut self, buffer: BufferId, capacity: u64) {
        let buffer = &mut self.program.buffers[buffer.index()];
        buffer.capacity = buffer.capacity.max(capacity);
    }

    /// All that is reserved of a buffer so far.
    pub fn whole(&self, buffer: BufferId) -> Region {
        Region { buffer, offset: 0, len: self.program.buffers[buffer.index()].capacity }
    }

    /// A new size.
    pub fn size(&mut self) -> SizeId {
        self.definers.push(Vec::new());
        self.program.size_count += 1;
        SizeId(self.program.size_count - 1)
    }

    /// A new size that is the largest of others.
    pub fn maximum(&mut self, of: Vec<SizeId>) -> SizeId {
        let size = self.size();
        self.program.maxima.push(Maximum { size, of });
        size
    }

    /// Appends an op after everything that it depends on; an op that has nothing to do on this rank is left out.
    ///
    /// The transfers of an exchange are numbered here ([`Transfer::number`](crate::plan::Transfer::number)): between two
    /// ranks in the order of their programs, and within an exchange in the order of the chunks, so that both ends come to
    /// the same numbers if they push their exchanges in the same order.
    pub fn push(&mut self, kind: OpKind) {
        self.push_at(kind, 0.0);
    }

    /// As [`push`](Self::push), an op that is not issued before so many seconds after the start of the iteration.
    pub fn push_at(&mut self, mut kind: OpKind, not_before_s: f64) {
        if kind.is_idle() {
            return;
        }
        if let Some(size) = &mut self.counted {
            return size.add(&kind);
        }
        if let OpKind::Exchange(exchange) = &mut kind {
            self.numbers.assign(exchange);
        }
        let id = OpId(count(self.program.ops.len()));
        let deps = self.depend(id, &kind, kind.effects());
        self.program.ops.push(Op { id, segment: self.segment, kind, not_before_s, deps });
    }

    /// What the next op depends on; those that follow know of it.
    pub(crate) fn depend(&mut self, id: OpId, kind: &OpKind, effects: Effects) -> Vec<OpId> {
        let Effects { reads, writes, defines, uses, .. } = effects;
        let (reads, writes) = (union(reads), union(writes));
        let mut deps: Vec<OpId> = Vec::new();
        self.writers.meet(&reads, &mut deps);
        self.writers.meet(&writes, &mut deps);
        self.readers.meet(&writes, &mut deps);
        deps.extend(uses.iter().flat_map(|size| &self.definers[size.index()]));
        match kind {
            OpKind::Exchange(exchange) => {
                let Exchange { channel, joins_previous, .. } = *exchange;
                self.pushed.insert(channel);
                let last = self.last_exchanges.entry(channel).or_default();
                deps.extend(last.follow(id, joins_previous, false));
                if let Some(step) = channel.flow().and_then(|flow| flow.step) {
                    deps.extend(self.steps.enter(step, id));
                }
                let waits = exchange.stage == Stage::Sizes && !exchange.channel.is_background();
                deps.extend(self.last_exclusive.filter(|_| waits));
            }
            OpKind::Compute(compute) => {
                deps.extend(self.last_compute.replace(id));
                if compute.is_exclusive {
                    self.last_exclusive = Some(id);
                }
            }
            OpKind::Library(library) => {
                self.used.insert(library.channel);
                self.pushed.insert(library.channel);
                // It joins nothing, and what comes behind it does not join what was before.
                self.joined.take_if(|joined| *joined == library.channel);
                let last = self.last_exchanges.entry(library.channel).or_default();
                deps.extend(last.follow(id, false, true));
            }
            OpKind::Local(_) => {}
        }
        deps.sort_unstable();
        deps.dedup();
        deps.shrink_to_fit();

        // A covering write supersedes what it covers: whoever comes next depends on it instead.
        for accesses in [&mut self.writers, &mut self.readers] {
            accesses.remove_covered(&writes);
        }
        self.writers.insert(id, &writes);
        self.readers.insert(id, &reads);
        self.define(id, &defines);
        deps
    }

    fn define(&mut self, op: OpId, sizes: &[SizeId]) {
        sizes.iter().for_each(|size| self.definers[size.index()].push(op));
        if sizes.is_empty() {
            return;
        }
        for Maximum { size, of } in &self.program.maxima {
            if of.iter().any(|operand| self.definers[operand.index()].last() == Some(&op)) {
                self.definers[size.index()].push(op);
            }
        }
    }

    /// The finished program.
    pub fn finish(self) -> Program {
        self.program
    }
}

/// The exchanges of a channel that are open together at the end of a program, or the call of a library there.
#[derive(Debug, Default)]
struct Exchanges {
    together: Vec<OpId>,
    /// Those before.
    before: Vec<OpId>,
    is_call: bool,
}

impl Exchanges {
    /// Adds an exchange or a call; those that must have completed before it is opened.
    fn follow(&mut self, id: OpId, joins_previous: bool, is_call: bool) -> &[OpId] {
        self.is_call = is_call;
        if !joins_previous {
            self.before = std::mem::take(&mut self.together);
        }
        self.together.push(id);
        &self.before
    }
}

/// The exchanges of explicit flows of the last step, and of the step before it.
#[derive(Debug, Default)]
struct Steps {
    last: Option<u32>,
    of_last: Vec<OpId>,
    before: Vec<OpId>,
}

impl Steps {
    /// Adds an exchange of a step; those that must have completed before it is opened.
    fn enter(&mut self, step: u32, id: OpId) -> &[OpId] {
        if self.last.replace(step) != Some(step) {
            self.before = std::mem::take(&mut self.of_last);
        }
        self.of_last.push(id);
        &self.before
    }
}

fn count(n: usize) -> u32 {
    u32::try_from(n).expect("programs are counted in 32 bits")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Compute;

    fn touch(reads: &[Region], writes: &[Region]) -> OpKind {
        let (reads, writes) = (reads.to_vec(), writes.to_vec());
        OpKind::Compute(Compute { name: "touch", reads, writes, is_exclusive: false })
    }

    /// Dependencies of the last op.
    fn deps(builder: &ProgramBuilder) -> Vec<u32> {
        let op = builder.program.ops.last().expect("an op was pushed");
        op.deps.iter().map(|dep| dep.0).collect()
    }

    /// Pushes an op that the compute lane does not chain to the one before.
    fn push(builder: &mut ProgramBuilder, reads: &[Region], writes: &[Region]) {
        builder.last_compute = None;
        builder.push(touch(reads, writes));
    }

    fn builder_with(len: u64) -> (ProgramBuilder, impl Fn(u64, u64) -> Region) {
        let mut builder = ProgramBuilder::new(Rank(0));
        let buffer = builder.buffer("data");
        builder.reserve(buffer, len);
        (builder, move |offset, len| Region { buffer, offset, len })
    }

    #[test]
    fn hazards_become_dependencies() {
        let (mut builder, region) = builder_with(100);
        push(&mut builder, &[], &[region(0, 50)]); // %0 writes the first half
        push(&mut builder, &[], &[region(50, 50)]); // %1 writes the second half
        push(&mut builder, &[region(0, 10)], &[]); // %2 reads what %0 wrote
        assert_eq!(deps(&builder), [0]);
        push(&mut builder, &[], &[region(5, 10)]); // %3 overwrites what %2 read and %0 wrote
        assert_eq!(deps(&builder), [0, 2]);
        push(&mut builder, &[region(40, 20)], &[]); // %4 reads from both halves
        assert_eq!(deps(&builder), [0, 1]);
    }

    #[test]
    fn phases_are_chained() {
        let (mut builder, _) = builder_with(100);
        builder.push(touch(&[], &[]));
        builder.push(touch(&[], &[]));
        assert_eq!(deps(&builder), [0]);
    }

    #[test]
    fn a_covering_write_supersedes_what_it_covers() {
        let (mut builder, region) = builder_with(100);
        push(&mut builder, &[], &[region(0, 10)]);
        push(&mut builder, &[], &[region(0, 20)]);
        assert_eq!(deps(&builder), [0]);
        push(&mut builder, &[region(0, 10)], &[]);
        assert_eq!(deps(&builder), [1]);
    }

    #[test]
    fn empty_regions_make_no_hazard() {
        let (mut builder, region) = builder_with(100);
        push(&mut builder, &[], &[region(0, 0)]);
        push(&mut builder, &[region(0, 100)], &[]);
        assert_eq!(deps(&builder), [] as [u32; 0]);
    }
}
