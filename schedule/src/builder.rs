//! Builds a program and derives the dependencies of its ops from hazards; nobody writes them by hand.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use zipwire_cluster::Group;

use crate::hazards::Hazards;
use crate::plan::{Buffer, Maximum, Numbers, Op, OpKind, PlanSize, Program, Region};
use crate::{BufferId, Channel, OpId, Rank, SegmentId, SizeId};

/// Collects the ops of one rank.
#[derive(Debug, Default)]
pub struct ProgramBuilder {
    program: Program,
    segment: SegmentId,
    hazards: Hazards,
    /// Buffers that were asked for so far; those taken over from another program follow.
    buffers: usize,
    /// Part of a call that the next ops belong to.
    part: u32,
    /// Channels on which that part has exchanges already, those that were left out as idle included.
    used: BTreeSet<Channel>,
    /// Channels on which that part has exchanges in the program, and those on which earlier parts of the call have.
    pushed: BTreeSet<Channel>,
    pushed_before: BTreeSet<Channel>,
    /// A channel whose next exchange joins the one before.
    joined: Option<Channel>,
    numbers: Numbers,
    /// The ranks that take part in what is pushed; `None` if these are all.
    group: Option<Group>,
    /// Running count of the pushed ops and how often those of each segment count, if they are only counted and not kept.
    counted: Option<(PlanSize, Arc<[u64]>)>,
}

impl ProgramBuilder {
    /// An empty program.
    pub fn new(rank: Rank) -> Self {
        Self { program: Program { rank, ..Program::default() }, ..Self::default() }
    }

    /// Adds what is pushed to a size, for each segment so many times, and keeps nothing of it.
    pub(crate) fn counting(rank: Rank, size: PlanSize, times: Arc<[u64]>) -> Self {
        Self { counted: Some((size, times)), ..Self::new(rank) }
    }

    pub(crate) fn counted(&self) -> PlanSize {
        self.counted.as_ref().map_or_else(PlanSize::default, |(size, _)| *size)
    }

    /// The rank whose program is built: by its position in the group of what is pushed, as all ranks of what is pushed.
    pub fn rank(&self) -> Rank {
        let rank = self.program.rank;
        self.group.map_or(rank, |group| Rank(group.position(rank).expect("the rank takes part")))
    }

    /// From now on ops are of the ranks of a group, which they name by position; of all ranks without one.
    ///
    /// # Panics
    /// If the rank is none of the group.
    pub(crate) fn enter(&mut self, group: Option<Group>) {
        assert!(group.is_none_or(|group| group.position(self.program.rank).is_some()), "the rank takes part");
        self.group = group;
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
        is_asked || is_part && !self.hazards.ends_with_call(channel)
    }

    /// The part of a call that exchanges and calls of a library are pushed of.
    pub(crate) fn part(&self) -> u32 {
        self.part
    }

    /// A new buffer without capacity; [`Self::reserve`] gives it some. Of a program that has taken over the buffers of another one, the next of these.
    pub fn buffer(&mut self, name: impl Into<Cow<'static, str>>) -> BufferId {
        let (index, name) = (self.buffers, name.into());
        self.buffers += 1;
        match self.program.buffers.get(index) {
            Some(known) => assert_eq!(known.name, name, "buffers are asked for in the same order"),
            None => self.program.buffers.push(Buffer { name, capacity: 0 }),
        }
        BufferId(count(index))
    }

    /// Takes over the buffers of another program of the rank, with their capacity; they are asked for again, in the same order.
    pub(crate) fn adopt(&mut self, other: Self) {
        self.program.buffers = other.program.buffers;
    }

    pub(crate) fn is_counting(&self) -> bool {
        self.counted.is_some()
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
        self.hazards.add_size();
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

    /// Appends an op that is not issued before so many seconds after the start of the iteration; otherwise like
    /// [`push`](Self::push).
    pub fn push_at(&mut self, mut kind: OpKind, not_before_s: f64) {
        if kind.is_idle() {
            return;
        }
        if let Some((size, times)) = &mut self.counted {
            return size.add(&kind, times[self.segment.index()]);
        }
        if let Some(group) = &self.group {
            kind = kind.within(group);
        }
        if let OpKind::Exchange(exchange) = &mut kind {
            self.numbers.assign(exchange);
        }
        let id = OpId(count(self.program.ops.len()));
        match &kind {
            OpKind::Exchange(exchange) => _ = self.pushed.insert(exchange.channel),
            OpKind::Library(library) => {
                self.used.insert(library.channel);
                self.pushed.insert(library.channel);
                // A call joins nothing, and an exchange behind it does not join one before it.
                self.joined.take_if(|joined| *joined == library.channel);
            }
            OpKind::Compute(_) | OpKind::Local(_) => {}
        }
        let deps = self.hazards.depend(id, &kind, kind.effects(), &self.program.maxima);
        self.program.ops.push(Op { id, segment: self.segment, kind, not_before_s, deps });
    }

    /// Number of sizes that are maxima so far.
    pub(crate) fn maxima(&self) -> usize {
        self.program.maxima.len()
    }

    /// Gives the ops of the segment, which is complete, to `change`, and its sizes that are maxima: those behind so many.
    pub(crate) fn end(&mut self, maxima: usize, mut change: impl FnMut(&mut [Op], &[Maximum])) {
        let Self { program, segment, .. } = self;
        let first = program.ops.iter().rposition(|op| op.segment != *segment).map_or(0, |last| last + 1);
        change(&mut program.ops[first..], &program.maxima[maxima..]);
    }

    /// The finished program.
    pub fn finish(self) -> Program {
        self.program
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

    fn deps(builder: &ProgramBuilder) -> Vec<u32> {
        let op = builder.program.ops.last().expect("an op was pushed");
        op.deps.iter().map(|dep| dep.0).collect()
    }

    /// Pushes an op that the compute lane does not chain to the one before.
    fn push(builder: &mut ProgramBuilder, reads: &[Region], writes: &[Region]) {
        builder.hazards.last_compute = None;
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
