//! Forms of a collective that has several: along which edges it travels, and where reductions add up.

/// How the blocks of an All-Gather or a broadcast travel, and the contributions to a reduction. Sizes always go straight from the
/// origin to every rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// All-Gather around a ring in rank order: ranks - 1 steps, in each of which every rank hands the block that it got
    /// last to the next rank. Each block moves with its own length.
    Exact,
    /// The same ring, and every frame padded to the largest one, as a library wants it that takes equal counts
    /// (`ncclAllGather`). For frames only: their lengths are what differs.
    Padded,
    /// Every block straight from its origin to every other rank, as one group of sends and receives.
    Grouped,
    /// Broadcast along a binomial tree: ceil(log2 ranks) rounds, each of which doubles the ranks that have the block.
    Tree,
    /// Reduction around a ring in rank order: ranks - 1 steps, in each of which every rank hands on a partial sum in FP32, to which
    /// the next rank adds what it contributes. The sum of shard d begins with rank d + 1 and ends with rank d. For values
    /// only: a frame would have to be decoded before each addition (ZipCCL sec. 3.3).
    Ring,
    /// Reduction by an All-to-All of what is contributed, and a sum at its end, over the ranks from 0 on (ZipCCL sec. 3.3).
    AllToAll,
    /// Reduction by two All-to-Alls, each with a sum at its end: within each node, of what is contributed; then between nodes, among
    /// the ranks of equal place in them, of the sums of nodes, in FP32. Each node sends what one rank of another form would.
    Hierarchical,
    /// One opaque call of a communication library: an All-Gather, which carries frames that are padded to the largest one, or a
    /// reduction of values.
    Library,
}

impl Form {
    /// All forms.
    pub const ALL: [Self; 8] = [
        Self::Exact,
        Self::Padded,
        Self::Grouped,
        Self::Tree,
        Self::Ring,
        Self::AllToAll,
        Self::Hierarchical,
        Self::Library,
    ];

    /// Forms of an All-Gather, the default first.
    pub const OF_ALL_GATHER: &'static [Self] = &[Self::Exact, Self::Padded, Self::Grouped, Self::Library];

    /// Forms of a broadcast, the default first.
    pub const OF_BROADCAST: &'static [Self] = &[Self::Tree, Self::Grouped];

    /// Forms of a reduction, the default of native ones first.
    pub const OF_REDUCTION: &'static [Self] =
        &[Self::Ring, Self::AllToAll, Self::Hierarchical, Self::Library];

    /// Name in scenarios.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Padded => "padded",
            Self::Grouped => "grouped",
            Self::Tree => "tree",
            Self::Ring => "ring",
            Self::AllToAll => "all-to-all",
            Self::Hierarchical => "hierarchical",
            Self::Library => "library",
        }
    }

    /// Whether order and window of its transfers are up to the variant. Rings and trees say themselves what comes next, and a
    /// call of a library has no transfers.
    pub fn takes_order(self) -> bool {
        matches!(self, Self::Grouped | Self::AllToAll)
    }

    /// Whether coded protocols can travel so; in reductions, what is added up on the way cannot be a frame.
    pub fn takes_frames(self, is_reduction: bool) -> bool {
        match self {
            Self::Ring => false,
            Self::Library => !is_reduction,
            Self::Exact | Self::Padded | Self::Grouped | Self::Tree | Self::AllToAll | Self::Hierarchical => {
                true
            }
        }
    }
}
