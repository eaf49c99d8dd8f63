//! Sizes of operations as nccl-tests rounds and prints them.

use zipwire_cluster::library::Operation;
use zipwire_codec::DType;

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

/// Bytes of the smallest size.
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
