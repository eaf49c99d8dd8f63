//! Totals of a plan: bytes of memory, of values that are delivered and of sums; and counts of what it is made of.

use super::{Block, Chunk, Content, Library, Op, OpKind, Plan, Program, Region, Share, Transfer};
use crate::{Protocol, Rank};

impl Plan {
    /// Number of ranks.
    pub fn rank_count(&self) -> u32 {
        u32::try_from(self.programs.len()).expect("ranks are counted in 32 bits")
    }

    /// The protocol of all its collectives; native if it has none, `None` if they have different ones.
    pub fn protocol(&self) -> Option<Protocol> {
        let mut protocols = self.protocols.iter().copied().flatten();
        let first = protocols.next().unwrap_or(Protocol::Native);
        protocols.all(|other| other == first).then_some(first)
    }

    /// Bytes of all buffers of all ranks.
    pub fn buffer_bytes(&self) -> u64 {
        self.programs.iter().flat_map(|program| &program.buffers).map(|buffer| buffer.capacity).sum()
    }

    /// Bytes of values that all ranks get in one iteration, uncompressed; what a rank has itself is excluded. On
    /// whatever path it comes, a block counts once for each rank that gets it, and not at gateways, which hand it on.
    /// In reductions this is what ranks get to add up, and sums that they get from others; of those of a library, what these
    /// are around a ring.
    pub fn bytes_raw(&self) -> u64 {
        let calls = self.ops().filter_map(|op| op.kind.library());
        self.bytes_delivered() + calls.map(Library::reduction_bytes).sum::<u64>()
    }

    /// Bytes of values that executors compare with what they must be, in one iteration: what ranks get, and sums.
    pub fn bytes_verified(&self) -> u64 {
        self.bytes_delivered() + self.bytes_reduced()
    }

    fn bytes_delivered(&self) -> u64 {
        self.programs.iter().flat_map(|program| program.delivered()).map(|(_, region)| region.len).sum()
    }

    fn ops(&self) -> impl Iterator<Item = &Op> {
        self.programs.iter().flat_map(|program| &program.ops)
    }

    /// Bytes of sums that all ranks compute in one iteration.
    pub fn bytes_reduced(&self) -> u64 {
        self.ops().flat_map(|op| op.kind.effects().sums).map(|(_, region)| region.len).sum()
    }
}

impl Program {
    /// The values that the rank gets from others, and where, whether by a decoder, by a transfer, or put together from what
    /// it got as a gateway.
    pub fn delivered(&self) -> impl Iterator<Item = (Chunk, Region)> + '_ {
        self.ops.iter().flat_map(|op| op.kind.delivered(self.rank))
    }
}

impl OpKind {
    /// The values that it gives to the model of `rank`, which carries it out, and where it puts them.
    pub fn delivered(&self, rank: Rank) -> Vec<(Chunk, Region)> {
        let mut values = self.effects().delivers;
        values.retain(|(chunk, _)| chunk.is_delivered(rank));
        values
    }
}

/// Counts of the parts that make up a plan, over all ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlanSize {
    /// Ends of transfers: two of each.
    pub ends: u64,
    /// Blocks that are coded, at all who code them.
    pub blocks: u64,
    /// Inputs and outputs of calls of a library.
    pub shares: u64,
    /// Spans of an iteration: of ops, of ends of transfers, and two of each call of a library. Overflow of slots is counted as if
    /// it happened.
    pub spans: u64,
}

impl PlanSize {
    /// Size of a plan.
    pub fn of(plan: &Plan) -> Self {
        let mut size = Self::default();
        plan.programs.iter().flat_map(|program| &program.ops).for_each(|op| size.add(&op.kind));
        size
    }

    /// Bytes that the plan takes, at the least.
    pub fn bytes(&self) -> u64 {
        self.ends * size_of::<Transfer>() as u64
            + self.blocks * size_of::<Block>() as u64
            + self.shares * size_of::<Share>() as u64
    }

    pub(crate) fn add(&mut self, kind: &OpKind) {
        self.spans += 1;
        match kind {
            OpKind::Exchange(exchange) => {
                let ends = exchange.sends.iter().chain(&exchange.receives);
                self.ends += ends.clone().count() as u64;
                // What slots could not hold moves only if there is any.
                let moves = ends.filter(|end| !matches!(end.content, Content::Overflow { .. }));
                self.spans += moves.count() as u64;
            }
            OpKind::Library(library) => {
                self.shares += library.shares().count() as u64;
                self.spans += 2;
            }
            OpKind::Local(local) => {
                self.blocks += local.batch().map_or(0, |batch| batch.blocks.len() as u64);
            }
            OpKind::Compute(_) => {}
        }
    }
}
