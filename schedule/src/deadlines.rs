//! When the ops of a run must have ended.
//!
//! A deadline counts from the expected completion of an op, not from its beginning: what merely waits for a stalled rank
//! is expected later than what stalled, so the culprit is noticed first.

use std::sync::Arc;

use crate::plan::Plan;
use crate::{OpId, Rank};

/// By how much two simulations of the same may differ because one of them looks at its clock more often.
const ROUNDING: f64 = 1e-9;

/// How much later than expected an op may end: `factor` x expected + `floor_s`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slack {
    /// At least 1.
    pub factor: f64,
    /// Seconds, not negative.
    pub floor_s: f64,
}

/// Deadlines of all ops, by iteration and rank, in seconds since the start of the iteration. Outside the plan and its
/// digest: the same plan is expected to take different times on different clusters.
#[derive(Clone, Debug, PartialEq)]
pub struct Deadlines {
    rank_count: usize,
    programs: Vec<Arc<[f64]>>,
}

impl Deadlines {
    /// Deadlines of `iterations` iterations of a plan. `expected` lists iteration, rank, op and expected seconds from the
    /// start of the iteration to the end of the op; an op that it leaves out has no deadline.
    ///
    /// # Panics
    /// If `expected` names what is not in the plan.
    pub fn new(
        plan: &Plan,
        iterations: u32,
        slack: Slack,
        expected: impl IntoIterator<Item = (u32, Rank, OpId, f64)>,
    ) -> Self {
        let rank_count = plan.programs.len();
        let none = plan.programs.iter().map(|program| vec![f64::INFINITY; program.ops.len()]);
        let none: Vec<Vec<f64>> = none.collect();
        let mut seconds: Vec<Vec<f64>> = (0..iterations).flat_map(|_| none.iter().cloned()).collect();
        for (iteration, rank, op, expected_s) in expected {
            let deadline_s = slack.factor * expected_s * (1.0 + ROUNDING) + slack.floor_s;
            seconds[iteration as usize * rank_count + rank.index()][op.index()] = deadline_s;
        }
        Self { rank_count, programs: seconds.into_iter().map(Arc::from).collect() }
    }

    /// Deadlines of one rank in one iteration, by [`OpId`]; infinite where there is none.
    pub fn of(&self, iteration: u32, rank: Rank) -> Arc<[f64]> {
        Arc::clone(&self.programs[iteration as usize * self.rank_count + rank.index()])
    }

    /// When the last op of an iteration must have ended, on any rank.
    pub fn last_s(&self, iteration: u32) -> f64 {
        let first = iteration as usize * self.rank_count;
        let programs = &self.programs[first..first + self.rank_count];
        programs.iter().flat_map(|seconds| seconds.iter().copied()).fold(0.0, f64::max)
    }
}
