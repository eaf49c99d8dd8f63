//! How large a plan is, of a plan that is there or of one that could be made.

use super::{Choice, Planner};
use crate::builder::ProgramBuilder;
use crate::plan::{Block, Content, OpKind, Plan, Share, Transfer};
use crate::{Job, Rank};

/// What the ops of a plan are made of, over all ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlanSize {
    /// Ends of transfers: two of each.
    pub ends: u64,
    /// Blocks that are coded, at all who code them.
    pub blocks: u64,
    /// What goes into calls of a library and comes out.
    pub shares: u64,
    /// Spans of an iteration: of ops, of ends of transfers, and two of each call of a library. What slots might not hold is counted as if
    /// they did.
    pub spans: u64,
}

impl PlanSize {
    /// That of a plan.
    pub fn of(plan: &Plan) -> Self {
        let mut size = Self::default();
        plan.programs.iter().flat_map(|program| &program.ops).for_each(|op| size.add(&op.kind));
        size
    }

    /// That of the plan of a job ([`plan_each`](crate::plan_each)), which is not made: the planners run, rank by rank, and nothing is kept
    /// of what they push. `goes_on` is asked after each rank; after a no, what was counted so far is the answer.
    ///
    /// # Panics
    /// As [`plan_each`](crate::plan_each).
    pub fn count(job: &Job, choices: &[&Choice], mut goes_on: impl FnMut(&Self) -> bool) -> Self {
        let planner = Planner::new(job, choices);
        let mut size = Self::default();
        for rank in (0..job.rank_count).map(Rank) {
            let mut builder = ProgramBuilder::counting(rank, size);
            planner.build_program(&mut builder);
            size = builder.counted();
            if !goes_on(&size) {
                break;
            }
        }
        size
    }

    /// Bytes that the plan takes, at the least.
    pub fn bytes(&self) -> u64 {
        self.ends * size_of::<Transfer>() as u64
            + self.blocks * size_of::<Block>() as u64
            + self.shares * size_of::<Share>() as u64
    }

    pub(crate) fn add(&mut self, kind: &OpKind) {
        self.spans += 1;
        match kind {
            OpKind::Exchange(exchange) => {
                let ends = exchange.sends.iter().chain(&exchange.receives);
                self.ends += ends.clone().count() as u64;
                // What slots could not hold moves only if there is any.
                let moves = ends.filter(|end| !matches!(end.content, Content::Overflow { .. }));
                self.spans += moves.count() as u64;
            }
            OpKind::Library(library) => {
                self.shares += library.shares().count() as u64;
                self.spans += 2;
            }
            OpKind::Local(local) => {
                self.blocks += local.batch().map_or(0, |batch| batch.blocks.len() as u64);
            }
            OpKind::Compute(_) => {}
        }
    }
}
