//! Iterations that do not end well: who waits for what, and how each rank ends.

use zipwire_schedule::plan::Op;
use zipwire_schedule::{Failure, FailureKind, OpId, Rank, RankEnd, RunFailure};

use super::Iteration;

impl Iteration<'_> {
    pub(super) fn waiting(&self) -> Vec<(Rank, Vec<OpId>)> {
        let unfinished = self.hosts.iter().filter(|host| !host.is_done);
        unfinished
            .map(|host| {
                let started =
                    |op: &&Op| host.begin_s[op.id.index()].is_finite() && !host.ended[op.id.index()];
                let program = host.machine.program();
                (program.rank, program.ops.iter().filter(started).map(|op| op.id).collect())
            })
            .collect()
    }

    /// Nobody waited for what the dead have not done. At the end of the iteration they are missed all the same.
    pub(super) fn miss_the_dead(&mut self) {
        let dead = self.hosts.iter().find(|host| host.is_dead && !host.is_done);
        if let Some(rank) = dead.map(|host| host.machine.program().rank) {
            self.first_failure.get_or_insert_with(|| Failure::died(rank));
        }
    }

    /// How a run ends that a rank has failed: every other rank is told.
    pub(super) fn fail(&self, first: &Failure) -> RunFailure {
        let (plan, deadlines) = (self.setup.plan, self.setup.deadlines);
        let unfinished = self.hosts.iter().filter(|host| !host.is_done);
        let ends = unfinished.map(|host| {
            let rank = host.machine.program().rank;
            let status = host.machine.status();
            let failure = if rank == first.rank {
                first.clone()
            } else if host.is_dead {
                Failure::died(rank)
            } else {
                let detail = format!("it {}", status.describe(&plan.segments));
                Failure::new(rank, None, FailureKind::Cancelled, detail)
            };
            RankEnd { failure, status: (!host.is_dead).then_some(status) }
        });
        RunFailure::new(plan, deadlines, self.index, self.now_s, first.clone(), ends.collect())
    }
}
