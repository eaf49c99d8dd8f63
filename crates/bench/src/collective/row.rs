//! Rows of a benchmark of collectives, with sizes as nccl-tests rounds and prints them.

use serde::{Serialize, Serializer};
use zipwire_cluster::library::Operation;
use zipwire_codec::DType;
use zipwire_schedule::Protocol;
use zipwire_traces::Split;

/// How the time of a row is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Its plan was simulated.
    Simulation,
    /// The closed form of its plan.
    ClosedForm,
    /// The cluster's model of its library's own calls.
    Library,
    /// Real ranks carried its plan out, and every byte was compared unless that was left out: this machine's time, not the cluster's.
    Execution,
    /// The collective of the library of an executor, named here, between its ranks.
    Own(&'static str),
}

impl Serialize for By {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match self {
            Self::Simulation => "simulation",
            Self::ClosedForm => "closed-form",
            Self::Library => "library",
            Self::Execution => "execution",
            Self::Own(executor) => executor,
        })
    }
}

/// One operation of one size in one protocol.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CollectiveRow {
    /// The operation, as nccl-tests calls it.
    pub op: &'static str,
    /// The protocol.
    pub variant: &'static str,
    /// Algorithm: `library` and the library's own choice, or that of the plan.
    pub algorithm: String,
    /// Nodes.
    pub nodes: u32,
    /// GPUs of each.
    pub gpus_per_node: u32,
    /// Size in bytes, as nccl-tests counts it for the operation.
    pub bytes: u64,
    /// Seconds.
    pub time_s: f64,
    /// Algorithm bandwidth in GB/s: size over time.
    pub algbw: f64,
    /// Bus bandwidth in GB/s of the bytes that moved: that of nccl-tests over the ratio.
    pub busbw: f64,
    /// Bus bandwidth of nccl-tests in GB/s, of raw bytes: algorithm bandwidth times the operation's factor.
    pub effective_busbw: f64,
    /// Raw over moved bytes; 1 if nothing is coded.
    pub ratio: f64,
    /// Seconds in which a rank encodes or decodes, of the mean rank; part of the time.
    pub codec_s: f64,
    /// Seconds of the same call at ratio 1 with a codec that takes no time; `None` if it is not coded or not predicted.
    pub uncompressed_s: Option<f64>,
    /// Time of the row of the same operation and size that is not coded, over this one; `None` without one, or of real runs.
    pub speedup: Option<f64>,
    /// Shares of the speedup that are due to compression and to the protocol.
    pub split: Option<Split>,
    /// How the time is known.
    pub by: By,
}

/// Says of every row how much faster it is than the one that is not coded, and why.
pub(super) fn compare(rows: &mut [CollectiveRow]) {
    let native: Vec<CollectiveRow> =
        rows.iter().filter(|row| row.variant == Protocol::Native.name()).cloned().collect();
    for row in rows.iter_mut().filter(|row| !matches!(row.by, By::Execution | By::Own(_))) {
        let is_same = |other: &&CollectiveRow| (other.op, other.bytes) == (row.op, row.bytes);
        let Some(first) = native.iter().find(is_same) else { continue };
        row.speedup = Some(first.time_s / row.time_s);
        row.split = row.uncompressed_s.map(|uncompressed_s| Split {
            compression: uncompressed_s / row.time_s,
            algorithm: first.time_s / uncompressed_s,
        });
    }
}

/// Rows, and what they take for granted.
#[derive(Clone, Debug, Serialize)]
pub struct CollectiveReport {
    /// By operation, then size, then protocol.
    pub rows: Vec<CollectiveRow>,
    /// A sentence each, without a full stop.
    pub notes: Vec<String>,
}

/// Operations that can be benchmarked.
pub const OPERATIONS: [Operation; 6] = [
    Operation::AllReduce,
    Operation::AllGather,
    Operation::ReduceScatter,
    Operation::AllToAll,
    Operation::SendRecv,
    Operation::Broadcast,
];

/// Type of the values.
pub(super) const DTYPE: DType = DType::Bf16;

/// How nccl-tests calls that type.
pub const TYPE_NAME: &str = "bfloat16";

/// Bytes of which the part of each rank is a multiple.
const ALIGNED: u64 = 16;

/// Whether each rank has an equal part of what the size counts.
fn has_parts(operation: Operation) -> bool {
    matches!(operation, Operation::AllGather | Operation::ReduceScatter | Operation::AllToAll)
}

/// Bytes of an operation among so many ranks: at most `asked`, so that parts are equal and hold whole values; `None` if nothing is
/// left of it.
pub(super) fn size(operation: Operation, ranks: u32, asked: u64) -> Option<u64> {
    let unit = least(operation, ranks);
    Some(asked / unit * unit).filter(|bytes| *bytes > 0)
}

pub(super) fn least(operation: Operation, ranks: u32) -> u64 {
    if has_parts(operation) { u64::from(ranks) * ALIGNED } else { DTYPE.width() as u64 }
}

/// Values that nccl-tests prints for a size: of one rank's part, or all.
pub fn count(operation: Operation, ranks: u32, bytes: u64) -> u64 {
    let values = bytes / DTYPE.width() as u64;
    if has_parts(operation) { values / u64::from(ranks) } else { values }
}

/// Name of the reduction that nccl-tests prints; it prints one for `sendrecv`, too.
pub fn redop(operation: Operation) -> &'static str {
    if operation.is_reduction() || operation == Operation::SendRecv { "sum" } else { "none" }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Logs of 10 ranks (`traces/samples/nccl-tests/012` and `014`) have 1073741760 bytes for 1 GiB, and 33554400 for 32 MiB.
    #[test]
    fn sizes_are_those_of_logs() {
        for operation in [Operation::AllGather, Operation::ReduceScatter, Operation::AllToAll] {
            assert_eq!(size(operation, 10, 1 << 30), Some(1_073_741_760));
            assert_eq!(size(operation, 10, 32 << 20), Some(33_554_400));
            assert_eq!(size(operation, 8, 32 << 20), Some(32 << 20));
            assert_eq!((size(operation, 10, 159), least(operation, 10)), (None, 160));
        }
        for operation in [Operation::AllReduce, Operation::SendRecv, Operation::Broadcast] {
            assert_eq!(size(operation, 10, (1 << 30) + 1), Some(1 << 30));
            assert_eq!((size(operation, 10, 1), least(operation, 10)), (None, 2));
        }
    }

    /// `traces/samples/nccl-tests/009` and `015`.
    #[test]
    fn words_are_those_of_logs() {
        assert_eq!(OPERATIONS.map(redop), ["sum", "none", "sum", "none", "sum", "none"]);
    }

    #[test]
    fn counts_are_of_parts_where_there_are_some() {
        assert_eq!(count(Operation::AllGather, 8, 1 << 20), 1 << 16);
        assert_eq!(count(Operation::ReduceScatter, 8, 1 << 20), 1 << 16);
        assert_eq!(count(Operation::AllToAll, 8, 1 << 20), 1 << 16);
        assert_eq!(count(Operation::AllReduce, 8, 1 << 20), 1 << 19);
    }
}
