//! Operations of a library: those that nccl-tests measures, and the collectives that plans call, with the meaning of their sizes and
//! bandwidths.

/// An operation of a library among equal ranks, as nccl-tests has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Every rank gets all sums; its size is that of the values of one rank.
    AllReduce,
    /// Every rank gets what each rank has; its size is that of what one rank gets.
    AllGather,
    /// Every rank gets the sum of its shard; its size is that of what one rank gives.
    ReduceScatter,
    /// Every rank sends an equal part to each rank, itself included; its size is that of what one rank gives.
    AllToAll,
    /// Every rank sends all to the next one.
    SendRecv,
    /// One rank's values go to all.
    Broadcast,
    /// One rank gets the sums.
    Reduce,
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::AllReduce,
        Self::AllGather,
        Self::ReduceScatter,
        Self::AllToAll,
        Self::SendRecv,
        Self::Broadcast,
        Self::Reduce,
    ];

    /// Name as nccl-tests has it: the program is `<name>_perf`.
    pub fn name(self) -> &'static str {
        match self {
            Self::AllReduce => "all_reduce",
            Self::AllGather => "all_gather",
            Self::ReduceScatter => "reduce_scatter",
            Self::AllToAll => "alltoall",
            Self::SendRecv => "sendrecv",
            Self::Broadcast => "broadcast",
            Self::Reduce => "reduce",
        }
    }

    /// The operation of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| operation.name() == name)
    }

    /// Bus over algorithm bandwidth (nccl-tests, `doc/PERFORMANCE.md`): algorithm bandwidth is size over time.
    pub fn bus_factor(self, ranks: u32) -> f64 {
        let n = f64::from(ranks);
        match self {
            Self::AllReduce => 2.0 * (n - 1.0) / n,
            Self::AllGather | Self::ReduceScatter | Self::AllToAll => (n - 1.0) / n,
            Self::SendRecv | Self::Broadcast | Self::Reduce => 1.0,
        }
    }

    /// Whether it adds values up.
    pub fn is_reduction(self) -> bool {
        matches!(self, Self::AllReduce | Self::ReduceScatter | Self::Reduce)
    }
}

impl From<Collective> for Operation {
    fn from(collective: Collective) -> Self {
        match collective {
            Collective::AllGather => Self::AllGather,
            Collective::ReduceScatter => Self::ReduceScatter,
            Collective::AllReduce => Self::AllReduce,
        }
    }
}

/// A collective that a library has as one call, of equal counts on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Collective {
    /// Every rank gets what each rank has (`ncclAllGather`).
    AllGather,
    /// Every rank gets the sum of its shard (`ncclReduceScatter`).
    ReduceScatter,
    /// Every rank gets all sums (`ncclAllReduce`).
    AllReduce,
}

impl Collective {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::AllGather, Self::ReduceScatter, Self::AllReduce];

    /// Lower-case name, as scenarios and texts of plans show it.
    pub fn name(self) -> &'static str {
        match self {
            Self::AllGather => "all-gather",
            Self::ReduceScatter => "reduce-scatter",
            Self::AllReduce => "all-reduce",
        }
    }

    /// Whether it adds values up.
    pub fn is_reduction(self) -> bool {
        match self {
            Self::AllGather => false,
            Self::ReduceScatter | Self::AllReduce => true,
        }
    }

    /// Bytes that each of `ranks` ranks sends, and gets, in an optimal ring: `(ranks - 1) count` for All-Gathers and
    /// Reduce-Scatters of `count` bytes per rank, `2 (ranks - 1) / ranks count` for All-Reduces of `count` bytes, rounded up.
    pub fn ring_bytes(self, ranks: u32, count: u64) -> u64 {
        let (ranks, steps) = (u64::from(ranks), u64::from(ranks) - 1);
        match self {
            Self::AllGather | Self::ReduceScatter => steps * count,
            Self::AllReduce => (2 * steps * count).div_ceil(ranks),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Factors of nccl-tests, `doc/PERFORMANCE.md`: bus over algorithm bandwidth, where an All-Gather has the size of what all get.
    #[test]
    fn bus_bandwidth_is_that_of_nccl_tests() {
        for ranks in [2, 3, 8, 64] {
            let (n, size) = (f64::from(ranks), 3 * 64 * u64::from(ranks));
            let shard = size / u64::from(ranks);
            let factor =
                |collective: Collective, count| collective.ring_bytes(ranks, count) as f64 / size as f64;
            assert_eq!(factor(Collective::AllGather, shard), (n - 1.0) / n);
            assert_eq!(factor(Collective::ReduceScatter, shard), (n - 1.0) / n);
            assert_eq!(factor(Collective::AllReduce, size), 2.0 * (n - 1.0) / n);
        }
        assert_eq!(Collective::AllReduce.ring_bytes(3, 2), 3, "8 thirds, rounded up");
    }
}
