//! Builds a program and derives the dependencies of its ops from hazards; nobody writes them by hand.

use crate::plan::{Buffer, Op, OpKind, Program, Region};
use crate::{BufferId, Lane, OpId, Rank, SegmentId, SizeId};

/// Collects the ops of one rank.
///
/// An op depends on the last writers of what it reads, on the last writers and readers of what it writes, on
/// the definers of sizes that it uses, and, if it is an exchange, on the previous exchange: a rank opens an
/// exchange when its previous one has completed. Compute phases follow one another likewise.
#[derive(Debug)]
pub struct ProgramBuilder {
    program: Program,
    segment: SegmentId,
    writers: Vec<(Region, OpId)>,
    readers: Vec<(Region, OpId)>,
    definers: Vec<Option<OpId>>,
    last_exchange: Option<OpId>,
    last_compute: Option<OpId>,
}

impl ProgramBuilder {
    /// An empty program.
    pub fn new(rank: Rank) -> Self {
        Self {
            program: Program { rank, ops: Vec::new(), buffers: Vec::new(), size_count: 0 },
            segment: SegmentId(0),
            writers: Vec::new(),
            readers: Vec::new(),
            definers: Vec::new(),
            last_exchange: None,
            last_compute: None,
        }
    }

    /// The rank whose program is built.
    pub fn rank(&self) -> Rank {
        self.program.rank
    }

    /// Ops that are pushed from now on belong to `segment`.
    pub fn begin(&mut self, segment: SegmentId) {
        self.segment = segment;
    }

    /// A new buffer without capacity; [`Self::reserve`] gives it some.
    pub fn buffer(&mut self, name: &'static str) -> BufferId {
        self.program.buffers.push(Buffer { name, capacity: 0 });
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
        self.definers.push(None);
        self.program.size_count += 1;
        SizeId(self.program.size_count - 1)
    }

    /// Appends an op after everything that it depends on.
    pub fn push(&mut self, kind: OpKind) -> OpId {
        let id = OpId(count(self.program.ops.len()));
        let (reads, writes) = (kind.reads(), kind.writes());
        let mut deps: Vec<OpId> = Vec::new();
        let conflicts = |list: &[(Region, OpId)], regions: &[Region], deps: &mut Vec<OpId>| {
            let hit = |(region, _): &&(Region, OpId)| regions.iter().any(|r| r.overlaps(region));
            deps.extend(list.iter().filter(hit).map(|&(_, op)| op));
        };
        conflicts(&self.writers, &reads, &mut deps);
        conflicts(&self.writers, &writes, &mut deps);
        conflicts(&self.readers, &writes, &mut deps);
        deps.extend(kind.uses().iter().filter_map(|size| self.definers[size.index()]));
        match kind.lane() {
            Lane::Exchange => deps.extend(self.last_exchange.replace(id)),
            Lane::Compute => deps.extend(self.last_compute.replace(id)),
            Lane::Codec | Lane::Tx | Lane::Rx => {}
        }
        deps.sort_unstable();
        deps.dedup();

        // A covering write supersedes what it covers: whoever comes next depends on it instead.
        let superseded = |(region, _): &(Region, OpId)| writes.iter().any(|w| w.covers(region));
        self.writers.retain(|entry| !superseded(entry));
        self.readers.retain(|entry| !superseded(entry));
        self.writers.extend(writes.iter().filter(|r| r.len > 0).map(|&region| (region, id)));
        self.readers.extend(reads.iter().filter(|r| r.len > 0).map(|&region| (region, id)));
        for size in kind.defines() {
            self.definers[size.index()] = Some(id);
        }
        self.program.ops.push(Op { id, segment: self.segment, kind, deps });
        id
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
        OpKind::Compute(Compute { name: "touch", reads: reads.to_vec(), writes: writes.to_vec() })
    }

    /// Dependencies of the last op, with the chain of the compute lane taken out.
    fn data_deps(builder: &ProgramBuilder) -> Vec<u32> {
        let op = builder.program.ops.last().expect("an op was pushed");
        op.deps.iter().map(|dep| dep.0).collect()
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
        builder.push(touch(&[], &[region(0, 50)])); // %0 writes the first half
        builder.push(touch(&[], &[region(50, 50)])); // %1 writes the second half
        builder.push(touch(&[region(0, 10)], &[])); // %2 reads what %0 wrote
        assert_eq!(data_deps(&builder), [0, 1]); // %1 by the lane
        builder.last_compute = None;
        builder.push(touch(&[], &[region(5, 10)])); // %3 overwrites what %2 read and %0 wrote
        assert_eq!(data_deps(&builder), [0, 2]);
    }

    #[test]
    fn a_covering_write_supersedes_what_it_covers() {
        let (mut builder, region) = builder_with(100);
        builder.push(touch(&[], &[region(0, 10)]));
        builder.last_compute = None;
        builder.push(touch(&[], &[region(0, 20)]));
        assert_eq!(data_deps(&builder), [0]);
        builder.last_compute = None;
        builder.push(touch(&[region(0, 10)], &[]));
        assert_eq!(data_deps(&builder), [1]);
    }

    #[test]
    fn empty_regions_make_no_hazard() {
        let (mut builder, region) = builder_with(100);
        builder.push(touch(&[], &[region(0, 0)]));
        builder.last_compute = None;
        builder.push(touch(&[region(0, 100)], &[]));
        assert_eq!(data_deps(&builder), [] as [u32; 0]);
    }
}
