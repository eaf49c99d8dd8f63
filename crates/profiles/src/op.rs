//! Operations of a communication library, and the names that kernels and profilers have for them.

use serde::{Deserialize, Serialize};

/// Operation of a communication library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CollectiveOp {
    /// Sums that all ranks get.
    AllReduce,
    /// Parts of all ranks that all ranks get.
    AllGather,
    /// Sums of which each rank gets a part.
    ReduceScatter,
    /// A part from each rank to each rank.
    #[serde(rename = "alltoall")]
    AllToAll,
    /// One rank's values to all.
    Broadcast,
    /// Sums that one rank gets.
    Reduce,
    /// Parts of all ranks that one rank gets.
    Gather,
    /// Parts that one rank has, one to each rank.
    Scatter,
    /// Values to one other rank.
    Send,
    /// Values from one other rank.
    Recv,
    /// Transfers between pairs, of which a profile says no more.
    #[serde(rename = "sendrecv")]
    SendRecv,
    /// Nothing but waiting for all.
    Barrier,
}

impl CollectiveOp {
    /// Its name in profiles and tables, as nccl-tests and the scenario language spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::AllReduce => "all_reduce",
            Self::AllGather => "all_gather",
            Self::ReduceScatter => "reduce_scatter",
            Self::AllToAll => "alltoall",
            Self::Broadcast => "broadcast",
            Self::Reduce => "reduce",
            Self::Gather => "gather",
            Self::Scatter => "scatter",
            Self::Send => "send",
            Self::Recv => "recv",
            Self::SendRecv => "sendrecv",
            Self::Barrier => "barrier",
        }
    }

    /// Operation that a name contains, whatever its case and underscores: `_allgather_base`, `nccl:all_reduce`,
    /// `ncclDevKernel_AllReduce_Sum_f32_RING_LL`.
    pub(crate) fn within(name: &str) -> Option<Self> {
        // Longer names before those that they contain.
        const NAMES: [(&str, CollectiveOp); 12] = [
            ("allreduce", CollectiveOp::AllReduce),
            ("allgather", CollectiveOp::AllGather),
            ("reducescatter", CollectiveOp::ReduceScatter),
            ("alltoall", CollectiveOp::AllToAll),
            ("sendrecv", CollectiveOp::SendRecv),
            ("broadcast", CollectiveOp::Broadcast),
            ("barrier", CollectiveOp::Barrier),
            ("reduce", CollectiveOp::Reduce),
            ("gather", CollectiveOp::Gather),
            ("scatter", CollectiveOp::Scatter),
            ("send", CollectiveOp::Send),
            ("recv", CollectiveOp::Recv),
        ];
        let letters = name.chars().filter(char::is_ascii_alphanumeric);
        let plain: String = letters.map(|letter| letter.to_ascii_lowercase()).collect();
        NAMES.iter().find(|(text, _)| plain.contains(text)).map(|(_, op)| *op)
    }

    /// Whether a rank's part ends only when all ranks have begun theirs, so that all end at about the same time.
    pub(crate) fn ends_together(self) -> bool {
        matches!(
            self,
            Self::AllReduce | Self::AllGather | Self::ReduceScatter | Self::AllToAll | Self::Barrier
        )
    }

    /// Whether all ranks give equally many bytes.
    pub(crate) fn is_even(self) -> bool {
        matches!(self, Self::AllReduce | Self::AllGather | Self::ReduceScatter | Self::Barrier)
    }

    /// Whether it is between two ranks.
    pub(crate) fn is_between_two(self) -> bool {
        matches!(self, Self::Send | Self::Recv | Self::SendRecv)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_profilers_are_operations() {
        for (name, op) in [
            ("allreduce", CollectiveOp::AllReduce),
            ("allreduce_coalesced", CollectiveOp::AllReduce),
            ("_allgather_base", CollectiveOp::AllGather),
            ("all_gather_into_tensor_coalesced", CollectiveOp::AllGather),
            ("_reduce_scatter_base", CollectiveOp::ReduceScatter),
            ("reduce_scatter_tensor_coalesced", CollectiveOp::ReduceScatter),
            ("all_to_allv", CollectiveOp::AllToAll),
            ("_broadcast_oop", CollectiveOp::Broadcast),
            ("_reduce_oop", CollectiveOp::Reduce),
            ("gather", CollectiveOp::Gather),
            ("scatter", CollectiveOp::Scatter),
            ("send", CollectiveOp::Send),
            ("nccl:recv 0<-1", CollectiveOp::Recv),
            ("barrier", CollectiveOp::Barrier),
            ("nccl::Allreduce", CollectiveOp::AllReduce),
        ] {
            assert_eq!(CollectiveOp::within(name), Some(op), "{name}");
        }
        for name in ["wait", "init", "coalesced", "ncclDevKernel_Generic"] {
            assert_eq!(CollectiveOp::within(name), None, "{name}");
        }
    }
}
