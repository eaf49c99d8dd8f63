//! Builds a program and derives the dependencies of its ops from hazards; nobody writes them by hand.

use crate::plan::{Buffer, Maximum, Op, OpKind, Program, Region};
use crate::{BufferId, OpId, Rank, SegmentId, SizeId, Stage};

/// Collects the ops of one rank.
///
/// An op depends on the last writers of what it reads, on the last writers and readers of what it writes, on
/// the definers of sizes that it uses (of all operands, if such a size is a maximum), and, if it is an exchange, on the
/// previous exchange: a rank opens an exchange when its previous one has completed. Compute phases follow one another
/// likewise. Sizes are in no buffer: an exchange of sizes also depends on the last compute phase that claimed all
/// buffers, so that a rank is in no collective during a phase that leaves no room for one.
#[derive(Debug)]
pub struct ProgramBuilder {
    program: Program,
    segment: SegmentId,
    writers: Vec<Access>,
    readers: Vec<Access>,
    definers: Vec<Option<OpId>>,
    last_exchange: Option<OpId>,
    last_compute: Option<OpId>,
    /// The last compute phase that claimed all memory.
    last_claim: Option<OpId>,
}

impl ProgramBuilder {
    /// An empty program.
    pub fn new(rank: Rank) -> Self {
        Self {
            program: Program {
                rank,
                ops: Vec::new(),
                buffers: Vec::new(),
                size_count: 0,
                maxima: Vec::new(),
            },
            segment: SegmentId(0),
            writers: Vec::new(),
            readers: Vec::new(),
            definers: Vec::new(),
            last_exchange: None,
            last_compute: None,
            last_claim: None,
        }
    }

    /// A program without ops that has the buffers and sizes of another one.
    pub(crate) fn without_ops_of(program: &Program) -> Self {
        let mut builder = Self::new(program.rank);
        builder.program.buffers.clone_from(&program.buffers);
        builder.definers = vec![None; program.size_count as usize];
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

    /// A new size that is the largest of others.
    pub fn maximum(&mut self, of: Vec<SizeId>) -> SizeId {
        let size = self.size();
        self.program.maxima.push(Maximum { size, of });
        size
    }

    /// Appends an op after everything that it depends on; an op that has nothing to do on this rank is left out.
    pub fn push(&mut self, kind: OpKind) {
        if kind.is_idle() {
            return;
        }
        let id = OpId(count(self.program.ops.len()));
        let (reads, writes) = (union(kind.reads()), union(kind.writes()));
        let mut deps: Vec<OpId> = Vec::new();
        let mut conflicts = |accesses: &[Access], regions: &[Region]| {
            deps.extend(
                accesses.iter().filter(|access| meet(&access.regions, regions)).map(|access| access.op),
            );
        };
        conflicts(&self.writers, &reads);
        conflicts(&self.writers, &writes);
        conflicts(&self.readers, &writes);
        for size in kind.uses() {
            deps.extend(self.program.operands(&size).iter().filter_map(|size| self.definers[size.index()]));
        }
        match &kind {
            OpKind::Exchange(exchange) => {
                deps.extend(self.last_exchange.replace(id));
                deps.extend(self.last_claim.filter(|_| exchange.stage == Stage::Sizes));
            }
            OpKind::Compute(_) => {
                deps.extend(self.last_compute.replace(id));
                let buffers = (0..count(self.program.buffers.len())).map(BufferId);
                let mut memory = buffers.map(|buffer| self.whole(buffer)).filter(|region| region.len > 0);
                if memory.all(|region| is_covered(&region, &writes)) {
                    self.last_claim = Some(id);
                }
            }
            OpKind::Encode(_) | OpKind::Decode(_) => {}
        }
        deps.sort_unstable();
        deps.dedup();

        // A covering write supersedes what it covers: whoever comes next depends on it instead.
        for accesses in [&mut self.writers, &mut self.readers] {
            accesses
                .iter_mut()
                .for_each(|access| access.regions.retain(|region| !is_covered(region, &writes)));
            accesses.retain(|access| !access.regions.is_empty());
        }
        self.writers.push(Access { op: id, regions: writes });
        self.readers.push(Access { op: id, regions: reads });
        for size in kind.defines() {
            self.definers[size.index()] = Some(id);
        }
        self.program.ops.push(Op { id, segment: self.segment, kind, deps });
    }

    /// The finished program.
    pub fn finish(self) -> Program {
        self.program
    }
}

/// What an op reads or writes, as [`union`] gives it.
#[derive(Debug)]
struct Access {
    op: OpId,
    regions: Vec<Region>,
}

/// The same bytes as disjoint regions in order, none of them empty.
fn union(mut regions: Vec<Region>) -> Vec<Region> {
    regions.retain(|region| region.len > 0);
    regions.sort_unstable_by_key(|region| (region.buffer, region.offset));
    let mut merged: Vec<Region> = Vec::with_capacity(regions.len());
    for region in regions {
        match merged.last_mut() {
            Some(last) if last.overlaps(&region) => last.len = last.end().max(region.end()) - last.offset,
            _ => merged.push(region),
        }
    }
    merged
}

/// Whether two unions have a byte in common. Linear, so that plans of many ranks are built in reasonable time.
fn meet(a: &[Region], b: &[Region]) -> bool {
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    while let (Some(x), Some(y)) = (a.peek(), b.peek()) {
        if x.overlaps(y) {
            return true;
        }
        let behind = if (x.buffer, x.offset) < (y.buffer, y.offset) { &mut a } else { &mut b };
        behind.next();
    }
    false
}

/// Whether one region of a union covers `region`.
fn is_covered(region: &Region, union: &[Region]) -> bool {
    let after = union.partition_point(|other| (other.buffer, other.offset) <= (region.buffer, region.offset));
    after.checked_sub(1).is_some_and(|index| union[index].covers(region))
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

    #[test]
    fn unions_meet_where_a_pair_of_their_regions_does() {
        let region = |buffer, offset, len| Region { buffer: BufferId(buffer), offset, len };
        // All sets of up to three short regions in two buffers, against the definition.
        let all: Vec<Region> = (0..2)
            .flat_map(|b| (0..5).flat_map(move |o| (1..3).map(move |l| region(b, 2 * o, 2 * l - 1))))
            .collect();
        for (i, &a) in all.iter().enumerate() {
            for (j, &b) in all.iter().enumerate() {
                let (left, right) =
                    (vec![a, all[(i * 7 + 3) % all.len()]], vec![b, all[(j * 5 + 1) % all.len()]]);
                let expected = left.iter().any(|x| right.iter().any(|y| x.overlaps(y)));
                assert_eq!(meet(&union(left.clone()), &union(right.clone())), expected, "{left:?} {right:?}");
            }
        }
    }
}
