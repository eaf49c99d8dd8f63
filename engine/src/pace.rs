//! The cluster that a paced run stands for: how long its ops are declared to take, and how much slower this machine plays them.

use zipwire_cluster::Topology;
use zipwire_schedule::plan::{Op, OpKind};
use zipwire_schedule::{CostModel, Durations, Rank};

/// A cluster, and the factor by which a run on this machine is slower.
#[derive(Clone, Debug)]
pub struct Pace {
    /// Links and latencies.
    pub topology: Topology,
    /// Declared costs of local ops.
    pub costs: CostModel,
    /// Seconds of compute phases.
    pub durations: Durations,
    /// Seconds of this machine for a second of the cluster, at least 1.
    pub dilation: f64,
}

impl Pace {
    /// Seconds of the cluster that an op of a rank takes by itself; those of exchanges and of calls of a library depend on peers.
    pub(crate) fn op_s(&self, op: &Op, rank: Rank, iteration: u32) -> f64 {
        match &op.kind {
            // These are timed from event to event, their launches too.
            OpKind::Exchange(_) | OpKind::Library(_) => 0.0,
            kind => {
                let cost = self.costs.of(kind);
                let phase_s = if matches!(kind, OpKind::Compute(_)) {
                    self.durations.get(iteration, op.segment.index(), rank)
                } else {
                    0.0
                };
                cost.launch_s + cost.work_s + phase_s
            }
        }
    }
}
