//! Measured time of codec ops: it says how far a paced run must be slowed down, and how well it kept up.

use std::collections::BTreeMap;

use zipwire_schedule::plan::LocalKind;
use zipwire_schedule::{Rank, SegmentId};

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

/// A codec op that has ended.
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
    /// One op.
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
