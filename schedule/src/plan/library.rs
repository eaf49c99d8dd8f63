//! Calls of a communication library's own collectives, of which a plan knows what goes in and what comes out.

use zipwire_cluster::library::Collective;

use super::{Chunk, Content, Effects};
use crate::{Channel, Rank, SegmentId, SizeId, Stage};

/// One call of a library's collective, in which all ranks take part. It begins when the last rank has issued it, and ends on
/// all ranks at the same time. No link of the cluster is occupied meanwhile, as far as plans and executors know.
#[derive(Clone, Debug, PartialEq)]
pub struct Library {
    /// Collective that is called.
    pub collective: Collective,
    /// Ranks that take part: all of the plan.
    pub ranks: u32,
    /// The exchanges and calls that it waits for are those of the same channel.
    pub channel: Channel,
    /// Stage that it carries.
    pub stage: Stage,
    /// Which part of a collective that is cut into parts it moves, counted from 0.
    pub part: u32,
    /// Shares of this rank that go in: into an All-Gather its own block, if it has one; into a reduction its values of each shard.
    pub inputs: Vec<Share>,
    /// Shares that come out: of an All-Gather the blocks of all other ranks; of a reduction the sums of this rank's shard, or of
    /// all. Sums are over all ranks, from rank 0 on, in FP32.
    pub outputs: Vec<Share>,
}

/// Input or output of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// The chunk that the content belongs to.
    pub chunk: Chunk,
    /// Bytes that move.
    pub content: Content,
}

/// Identity of a call, on which all its ranks agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct CallKey {
    /// The segment of the call.
    pub segment: SegmentId,
    /// Stage that the call carries.
    pub stage: Stage,
    /// The part that it moves.
    pub part: u32,
}

impl Library {
    /// Key of the call among those of its rank; `segment` is that of its op.
    pub fn key(&self, segment: SegmentId) -> CallKey {
        CallKey { segment, stage: self.stage, part: self.part }
    }

    /// All that goes in or comes out.
    pub fn shares(&self) -> impl Iterator<Item = &Share> {
        self.inputs.iter().chain(&self.outputs)
    }

    /// Bytes that the call counts, equal on all ranks: of an All-Gather the longest of what ranks give, to which the others are
    /// padded; of a Reduce-Scatter the longest shard; of an All-Reduce all shards. `value` is asked for sizes.
    pub fn count(&self, value: impl Fn(SizeId) -> u64) -> u64 {
        let bytes = |share: &Share| share.content.bytes(&value);
        match self.collective {
            Collective::AllGather => self.shares().map(bytes).max().unwrap_or(0),
            Collective::ReduceScatter => self.inputs.iter().map(bytes).max().unwrap_or(0),
            Collective::AllReduce => self.inputs.iter().map(bytes).sum(),
        }
    }

    /// Bytes that this rank sends, and gets, if the library moves them around a ring.
    pub fn ring_bytes(&self, value: impl Fn(SizeId) -> u64) -> u64 {
        self.collective.ring_bytes(self.ranks, self.count(value))
    }

    /// Bytes of values that this rank gets to add up, and sums that it gets from others, around a ring and without padding; none
    /// of an All-Gather, which delivers values.
    pub fn reduction_bytes(&self) -> u64 {
        match self.collective {
            Collective::AllGather => 0,
            // Partial sums of all shards but that of the rank before, whose sum begins here.
            Collective::ReduceScatter => {
                let before = |share: &Share| Rank((share.chunk.origin.0 + self.ranks - 1) % self.ranks);
                let passing = self.inputs.iter().filter(|share| share.chunk.shard() != before(share));
                passing.filter_map(|share| share.content.values()).map(|values| values.len).sum()
            }
            Collective::AllReduce => self.ring_bytes(|size| unreachable!("values have no size `{size}`")),
        }
    }

    pub(super) fn effects(&self) -> Effects {
        let Self { inputs, outputs, .. } = self;
        let given = inputs.iter().filter_map(|s| s.content.brings().or(s.content.measured_by()));
        let measured = |share: &Share| share.content.measured_by();
        let values =
            |shares: &[Share]| shares.iter().filter_map(|s| Some((s.chunk, s.content.values()?))).collect();
        let made = values(outputs);
        let (delivers, sums) =
            if self.collective.is_reduction() { (Vec::new(), made) } else { (made, Vec::new()) };
        Effects {
            reads: inputs.iter().filter_map(|s| s.content.region()).collect(),
            writes: outputs.iter().filter_map(|s| s.content.region()).collect(),
            defines: outputs.iter().filter_map(|s| s.content.brings()).collect(),
            uses: given.chain(outputs.iter().filter_map(measured)).collect(),
            // It names all ranks, its own too.
            peers: Vec::new(),
            takes: values(inputs),
            delivers,
            sums,
        }
    }
}
