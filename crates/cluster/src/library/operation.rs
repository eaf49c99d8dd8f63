//! What nccl-tests measures: the operations of a library, and what their sizes and bandwidths mean.

use super::Collective;

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
