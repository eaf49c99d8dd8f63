//! What an op does to the memory, the sizes and the peers of its rank.

use crate::plan::{Chunk, Region};
use crate::{Rank, SizeId};

/// All that hazards, checks, verification and estimates need to know of an op. Whoever adds a kind of op says this once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Effects {
    /// Regions whose content it needs.
    pub reads: Vec<Region>,
    /// Regions that it fills.
    pub writes: Vec<Region>,
    /// Sizes that it defines.
    pub defines: Vec<SizeId>,
    /// Sizes that it reads.
    pub uses: Vec<SizeId>,
    /// Ranks that it names, whether it moves something to them or codes it for them.
    pub peers: Vec<Rank>,
    /// Values that it takes from the model, or hands on, and where they are.
    pub takes: Vec<(Chunk, Region)>,
    /// Values of other ranks that it puts where the rank, or a gateway, wants them, and where that is.
    pub delivers: Vec<(Chunk, Region)>,
    /// Sums that it makes, and where it puts them.
    pub sums: Vec<(Chunk, Region)>,
}
