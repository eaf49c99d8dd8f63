//! Deadlines: a machine whose op is overdue fails by itself, whatever its executor waits for.

use std::sync::Arc;

use super::{Machine, State};
use crate::{Failure, FailureKind, OpId};

impl Machine {
    /// The same machine with a deadline for each op, in seconds since the start of the iteration; infinite for none.
    ///
    /// # Panics
    /// If there are not as many deadlines as ops.
    #[must_use]
    pub fn with_deadlines(mut self, deadlines_s: Arc<[f64]>) -> Self {
        assert_eq!(deadlines_s.len(), self.program.ops.len(), "every op has a deadline");
        self.deadlines_s = Some(deadlines_s);
        self
    }

    /// When the iteration started, in the executor's seconds.
    pub fn start_s(&self) -> f64 {
        self.start_s
    }

    /// When the last op of the program is due, in the executor's seconds; infinite without deadlines.
    pub fn last_deadline_s(&self) -> f64 {
        let deadlines_s = self.deadlines_s.iter().flat_map(|deadlines_s| deadlines_s.iter().copied());
        self.start_s + deadlines_s.reduce(f64::max).unwrap_or(f64::INFINITY)
    }

    /// The op in flight that is due first, and when.
    ///
    /// What has not been issued waits for something in flight, which is due earlier.
    pub(super) fn next_deadline(&self) -> Option<(f64, OpId)> {
        let deadlines_s = self.deadlines_s.as_ref()?;
        let in_flight = self.program.ops.iter().filter(|op| self.states[op.id.index()] == State::Issued);
        let due = in_flight.map(|op| (self.start_s + deadlines_s[op.id.index()], op.id));
        due.filter(|(due_s, _)| due_s.is_finite()).min_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// Fails if an op is overdue.
    pub(super) fn check_deadlines(&mut self, now_s: f64) {
        if self.failure.is_some() {
            return;
        }
        if let Some((due_s, op)) = self.next_deadline().filter(|(due_s, _)| *due_s <= now_s) {
            let rank = self.program.rank;
            let detail = format!("it was due {:.3} ms after the start", 1e3 * (due_s - self.start_s));
            self.failure = Some(Failure::new(rank, Some(op), FailureKind::Timeout, detail));
        }
    }
}
