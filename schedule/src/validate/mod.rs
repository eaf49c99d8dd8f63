//! Checks of a plan before anything runs: each program for itself, the transfers of all, and that all ranks get
//! to their ends.

mod deliveries;
mod library;
mod program;
mod progress;
mod transfers;

pub(crate) use library::pair as pair_calls;
pub(crate) use transfers::{Pair, pair as pair_transfers};

use crate::Job;
use crate::plan::{Plan, PlanError};
use deliveries::Deliveries;

/// Checks across ranks hold the whole plan; above this rank count only the checks of each program run.
pub const WHOLE_PLAN_RANKS: u32 = 256;

/// Outcome of a check that found nothing wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checked {
    /// The plan is executable.
    Valid,
    /// The caller ended the check before that was known.
    Stopped,
}

impl Plan {
    /// Checks the plan: regions, frames, dependencies, sizes, peers, windows and numbers of transfers of every program; and,
    /// up to 256 ranks, that every send has its receive under the same number, that all ranks call a library alike, and
    /// that all get to their ends.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn validate(&self) -> Result<(), PlanError> {
        self.check(None, &|| true).map(|_| ())
    }

    /// Checks like [`validate`](Self::validate), and that every rank gets what a job says, no more and no less.
    ///
    /// # Errors
    /// The first thing that is wrong.
    ///
    /// # Panics
    /// If the job has another number of ranks.
    pub fn validate_for(&self, job: &Job) -> Result<(), PlanError> {
        self.validate_while(job, &|| true).map(|_| ())
    }

    /// Checks like [`validate_for`](Self::validate_for), for as long as `proceed` returns true. It is asked now and then; `false`
    /// ends the check with [`Checked::Stopped`], and nothing is known of the plan.
    ///
    /// # Errors
    /// The first thing that is wrong.
    ///
    /// # Panics
    /// If the job has another number of ranks.
    pub fn validate_while(&self, job: &Job, proceed: &dyn Fn() -> bool) -> Result<Checked, PlanError> {
        assert_eq!(job.rank_count, self.rank_count(), "the plan is one of the job");
        self.check(Some(&Deliveries::new(job)), proceed)
    }

    fn check(
        &self,
        deliveries: Option<&Deliveries<'_>>,
        proceed: &dyn Fn() -> bool,
    ) -> Result<Checked, PlanError> {
        for (position, program) in self.programs.iter().enumerate() {
            if !proceed() {
                return Ok(Checked::Stopped);
            }
            program::check(position, program, self.rank_count(), deliveries)?;
        }
        if self.rank_count() <= WHOLE_PLAN_RANKS {
            let transfers = transfers::pair(self)?;
            let calls = library::pair(self)?;
            if !proceed() {
                return Ok(Checked::Stopped);
            }
            progress::find_cycle(self, &transfers, &calls)?;
            drop(transfers);
            return progress::play(self, proceed);
        }
        Ok(Checked::Valid)
    }
}
