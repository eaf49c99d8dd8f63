//! The cluster that a paced run stands for: how long its ops are declared to take, and how much slower this machine plays them.

use zipwire_schedule::plan::{Op, OpKind};
use zipwire_schedule::{CodecCost, Durations, HostCost, Rank, Topology};

/// A cluster, and the factor by which a run on this machine is slower.
#[derive(Clone, Debug)]
pub struct Pace {
    /// Links and latencies.
    pub topology: Topology,
    /// Launch and synchronisation cost.
    pub host: HostCost,
    /// Declared cost of codec ops; needed by coded plans.
    pub codec: Option<CodecCost>,
    /// Seconds of compute phases.
    pub durations: Durations,
    /// Seconds of this machine for a second of the cluster, at least 1.
    pub dilation: f64,
}

impl Pace {
    /// Seconds of the cluster that an op of a rank takes by itself; those of exchanges and of calls of a library depend on peers.
    pub(crate) fn op_s(&self, op: &Op, rank: Rank, iteration: u32) -> f64 {
        match &op.kind {
            OpKind::Compute(_) => {
                self.host.launch_s + self.durations.get(iteration, op.segment.index(), rank)
            }
            OpKind::Split(batch) => self.codec_s(batch.bytes_raw(), CodecCost::split_bytes_per_s),
            OpKind::Encode(batch) => self.codec_s(batch.bytes_raw(), |cost| cost.encode_bytes_per_s),
            OpKind::Decode(batch) => self.codec_s(batch.bytes_raw(), |cost| cost.decode_bytes_per_s),
            OpKind::Copy(copy) => self.codec_s(copy.bytes(), CodecCost::copy_bytes_per_s),
            OpKind::Reduce(reduce) => self.host.reduce_s(reduce),
            OpKind::Exchange(_) | OpKind::Library(_) => 0.0,
        }
    }

    /// Declared seconds of a codec op on `bytes` raw bytes at the speed that `speed` picks.
    fn codec_s(&self, bytes: u64, speed: impl FnOnce(&CodecCost) -> f64) -> f64 {
        let cost = self.codec.as_ref().expect("coded plans come with codec costs");
        cost.launch_s + bytes as f64 / speed(cost)
    }
}
