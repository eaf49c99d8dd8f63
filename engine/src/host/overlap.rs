//! A compute phase whose declared time passes more slowly while other lanes of its rank are busy, in paced runs.
//!
//! A lane is busy during the rank's own spans: codec ops for their declared times, transfers from when both ends were
//! ready until the last byte is here, calls of the library from when the last rank has issued them. Times are seconds of this machine.

use std::collections::HashSet;

use zipwire_cluster::{Progress, Slowdown};
use zipwire_schedule::OpId;
use zipwire_schedule::plan::TransferKey;

/// The compute phase of a rank, and the work that slows it down.
#[derive(Debug, Default)]
pub(super) struct Overlap {
    slowdown: Slowdown,
    phase: Option<Phase>,
    is_coding: bool,
    /// Calls of the library under way.
    calls: u32,
    /// Both ends of a transfer can be at one rank only if it sends to itself, which it does not.
    moving: HashSet<TransferKey>,
}

/// The compute phase that is under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Phase {
    pub(super) op: OpId,
    pub(super) begin_s: f64,
    progress: Progress,
}

impl Phase {
    /// When it ends, as far as is known.
    pub(super) fn end_s(&self) -> f64 {
        self.progress.end_s()
    }
}

impl Overlap {
    pub(super) fn new(slowdown: Slowdown) -> Self {
        Self { slowdown, ..Self::default() }
    }

    /// Whether nothing slows anything: then phases end when they are declared to.
    pub(super) fn is_none(&self) -> bool {
        self.slowdown.is_none()
    }

    /// A phase begins that works for `seconds` from `work_s` on.
    pub(super) fn begin(&mut self, op: OpId, begin_s: f64, work_s: f64, seconds: f64) {
        let progress = Progress::begin(work_s, seconds, self.factor());
        self.phase = Some(Phase { op, begin_s, progress });
    }

    /// The phase, if it has ended by `now_s` as far as is known.
    pub(super) fn take_ended(&mut self, now_s: f64) -> Option<Phase> {
        self.phase.take_if(|phase| phase.end_s() <= now_s)
    }

    /// When the phase ends, as far as is known.
    pub(super) fn end_s(&self) -> Option<f64> {
        self.phase.as_ref().map(Phase::end_s)
    }

    /// A codec op begins or ends.
    pub(super) fn code(&mut self, at_s: f64, is_coding: bool) {
        self.is_coding = is_coding;
        self.adapt(at_s);
    }

    /// A transfer of this rank is under way.
    pub(super) fn depart(&mut self, at_s: f64, key: TransferKey) {
        self.moving.insert(key);
        self.adapt(at_s);
    }

    /// A transfer of this rank has ended.
    pub(super) fn arrive(&mut self, at_s: f64, key: TransferKey) {
        self.moving.remove(&key);
        self.adapt(at_s);
    }

    /// A call of the library begins, when the last rank has issued it.
    pub(super) fn begin_call(&mut self, at_s: f64) {
        self.calls += 1;
        self.adapt(at_s);
    }

    /// A call of the library has moved everything.
    pub(super) fn end_call(&mut self, at_s: f64) {
        self.calls -= 1;
        self.adapt(at_s);
    }

    fn adapt(&mut self, at_s: f64) {
        let factor = self.factor();
        if let Some(phase) = &mut self.phase {
            phase.progress.change(at_s, factor);
        }
    }

    fn factor(&self) -> f64 {
        self.slowdown.factor(self.is_coding, self.calls > 0 || !self.moving.is_empty())
    }
}
