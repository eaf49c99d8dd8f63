//! The cluster that a paced run stands for: how long its ops are declared to take, and how much slower this machine plays them. The measured time
//! of codec ops says how far a run must be slowed down, and how well it kept up.

use std::collections::BTreeMap;

use zipwire_cluster::Topology;
use zipwire_schedule::plan::{LocalKind, Op, OpKind};
use zipwire_schedule::{CostModel, Durations, Rank, SegmentId};

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

/// Kind of work that a core of this machine did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub enum Coding {
    /// A local op of the plan.
    Local(LocalKind),
    /// The sums within a call of a library.
    Library,
}

/// The codec ops of one call, summed over ranks and iterations.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct CallWork {
    /// Ops.
    pub ops: u64,
    /// Raw bytes; of sums, those that they read.
    pub bytes_raw: u64,
    /// Seconds for which the codec had a core of this machine.
    pub work_s: f64,
    /// The fewest such seconds that each rank's op took in any iteration: what is left when the first touch of memory, the
    /// neighbours' use of caches and memory, and other disturbances have passed.
    pub least_s: BTreeMap<Rank, f64>,
    /// Seconds of this machine in which ops waited for a core.
    pub waiting_s: f64,
}

pub(crate) struct CodecOp {
    pub(crate) rank: Rank,
    pub(crate) segment: SegmentId,
    pub(crate) coding: Coding,
    pub(crate) bytes_raw: u64,
    /// Seconds for which it had a core.
    pub(crate) work_s: f64,
    /// Seconds for which it waited for one.
    pub(crate) waiting_s: f64,
}

/// The codec ops of a run, by call.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct CodecWork {
    /// Work by segment and direction.
    pub calls: BTreeMap<(SegmentId, Coding), CallWork>,
}

impl CodecWork {
    pub(crate) fn add(&mut self, op: &CodecOp) {
        let call = self.calls.entry((op.segment, op.coding)).or_default();
        call.ops += 1;
        call.bytes_raw += op.bytes_raw;
        call.work_s += op.work_s;
        call.waiting_s += op.waiting_s;
        call.keep_least(op.rank, op.work_s);
    }

    /// Adds the ops of the same calls in other iterations.
    pub fn merge(&mut self, other: &Self) {
        for (key, work) in &other.calls {
            let call = self.calls.entry(*key).or_default();
            call.ops += work.ops;
            call.bytes_raw += work.bytes_raw;
            call.work_s += work.work_s;
            call.waiting_s += work.waiting_s;
            work.least_s.iter().for_each(|(&rank, &work_s)| call.keep_least(rank, work_s));
        }
    }
}

impl CallWork {
    fn keep_least(&mut self, rank: Rank, work_s: f64) {
        let least_s = self.least_s.entry(rank).or_insert(work_s);
        *least_s = least_s.min(work_s);
    }
}
