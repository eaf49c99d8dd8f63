//! Forms of a collective in which a block goes to many ranks: along which edges one stage of it travels.

/// How the blocks of an All-Gather or a broadcast travel. Sizes always go straight from the origin to every rank.
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
}

impl Form {
    /// All forms.
    pub const ALL: [Self; 4] = [Self::Exact, Self::Padded, Self::Grouped, Self::Tree];

    /// Forms of an All-Gather, the default first.
    pub const OF_ALL_GATHER: &'static [Self] = &[Self::Exact, Self::Padded, Self::Grouped];

    /// Forms of a broadcast, the default first.
    pub const OF_BROADCAST: &'static [Self] = &[Self::Tree, Self::Grouped];

    /// Name in scenarios.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Padded => "padded",
            Self::Grouped => "grouped",
            Self::Tree => "tree",
        }
    }

    /// Whether order and window of its transfers are up to the variant. Rings and trees say themselves what comes next.
    pub fn takes_order(self) -> bool {
        self == Self::Grouped
    }
}
