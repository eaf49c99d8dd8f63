//! What the codec really took: how far a paced run must be slowed down, and how well it kept up.

use std::collections::BTreeMap;

use zipwire_schedule::SegmentId;

/// One of the two directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Coding {
    /// Values to frames.
    Encode,
    /// Frames to values.
    Decode,
}

/// The codec ops of one call, summed over ranks and iterations.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CallWork {
    /// Ops.
    pub ops: u64,
    /// Raw bytes.
    pub bytes_raw: u64,
    /// Seconds of this machine in which the codec worked.
    pub work_s: f64,
    /// Seconds of this machine in which ops waited for a core.
    pub waiting_s: f64,
}

/// The codec ops of a run, by call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CodecWork {
    /// Work by segment and direction.
    pub calls: BTreeMap<(SegmentId, Coding), CallWork>,
}

impl CodecWork {
    /// One op: when it was issued, when it began to work and when it ended, in seconds.
    pub(super) fn add(&mut self, segment: SegmentId, coding: Coding, times_s: [f64; 3], bytes_raw: u64) {
        let [begin_s, work_s, end_s] = times_s;
        let call = self.calls.entry((segment, coding)).or_default();
        call.ops += 1;
        call.bytes_raw += bytes_raw;
        call.work_s += end_s - work_s;
        call.waiting_s += work_s - begin_s;
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (key, work) in &other.calls {
            let call = self.calls.entry(*key).or_default();
            call.ops += work.ops;
            call.bytes_raw += work.bytes_raw;
            call.work_s += work.work_s;
            call.waiting_s += work.waiting_s;
        }
    }
}
