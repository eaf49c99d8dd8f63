//! Algorithms of collectives: along which edges they travel, and where reductions add up.

/// How the pieces of a collective travel: the blocks of an All-Gather or a broadcast, the contributions to a reduction. Sizes always go
/// straight from the origin to every rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Around a ring, in ranks - 1 steps. All-Gather: in each step every rank hands the block that it got last to the next rank; each
    /// block moves with its own length. Reduction: every rank hands on a partial sum, to which the next rank adds what it contributes;
    /// for values only, as a frame would have to be decoded before each addition (ZipCCL sec. 3.3). Broadcast: along a chain from the root
    /// on, in slices that follow one another.
    Ring,
    /// The same ring for All-Gathers of frames, every frame padded to the largest one, as a library wants it that takes equal
    /// counts (`ncclAllGather`).
    PaddedRing,
    /// Along a tree. Broadcast: a binomial one, ceil(log2 ranks) rounds, each of which doubles the ranks that have the block. All-Reduce:
    /// partial sums go up binary trees, and sums down; for values only.
    Tree,
    /// On two levels, within nodes and between the ranks of equal place in them. All-Gather: between nodes, then within. Reduction: an
    /// All-to-All and sums within each node, then between nodes, of the sums of nodes. Each node sends what one rank of a direct
    /// reduction would.
    Hierarchical,
    /// Every piece straight from its origin to every rank that wants it, as one group of sends and receives. Reductions add up at the
    /// end, over the ranks from 0 on (the All-to-All of ZipCCL sec. 3.3).
    Direct,
    /// One opaque call of a communication library: an All-Gather, which carries frames that are padded to the largest one, a broadcast to all
    /// ranks, or a reduction of values.
    Library,
}

impl Algorithm {
    /// All algorithms.
    pub const ALL: [Self; 6] =
        [Self::Ring, Self::PaddedRing, Self::Tree, Self::Hierarchical, Self::Direct, Self::Library];

    /// Algorithms of an All-Gather, the default first.
    pub const OF_ALL_GATHER: &'static [Self] =
        &[Self::Ring, Self::PaddedRing, Self::Hierarchical, Self::Direct, Self::Library];

    /// Algorithms of a broadcast, the default first.
    pub const OF_BROADCAST: &'static [Self] = &[Self::Tree, Self::Ring, Self::Direct, Self::Library];

    /// Algorithms of a Reduce-Scatter, the default of native ones first.
    pub const OF_REDUCE_SCATTER: &'static [Self] =
        &[Self::Ring, Self::Direct, Self::Hierarchical, Self::Library];

    /// Algorithms of an All-Reduce, the default of native ones first.
    pub const OF_ALL_REDUCE: &'static [Self] =
        &[Self::Ring, Self::Tree, Self::Direct, Self::Hierarchical, Self::Library];

    /// Name in scenarios and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ring => "ring",
            Self::PaddedRing => "padded-ring",
            Self::Tree => "tree",
            Self::Hierarchical => "hierarchical",
            Self::Direct => "direct",
            Self::Library => "library",
        }
    }

    /// Whether order and window of its transfers are up to the variant. Rings and trees say themselves what comes next, and a
    /// call of a library has no transfers.
    pub fn takes_order(self) -> bool {
        matches!(self, Self::Direct)
    }

    /// Whether it is what a communication library makes of its own calls: where costs of the library are known, they have it in
    /// them, and it is not planned op by op.
    pub fn is_of_libraries(self) -> bool {
        matches!(self, Self::Ring | Self::PaddedRing | Self::Tree)
    }

    /// Whether coded protocols can travel so; in reductions, what is added up on the way cannot be a frame.
    pub fn takes_frames(self, is_reduction: bool) -> bool {
        match self {
            Self::Ring | Self::Tree | Self::Library => !is_reduction,
            Self::PaddedRing | Self::Hierarchical | Self::Direct => true,
        }
    }
}
