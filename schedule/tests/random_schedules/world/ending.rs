//! How a schedule ends in which nothing happens any more: with the first op that is overdue.

use zipwire_schedule::machine::Step;
use zipwire_schedule::{Failure, FailureKind, Rank, RankEnd, RunFailure};

use super::{Fault, RankState, World};

impl World<'_> {
    /// Nothing happens any more: the first op that is overdue ends the run, and all ranks are told.
    pub(super) fn time_out(&mut self) -> Result<(RunFailure, Option<Rank>), String> {
        let lost = matches!(self.fault, Fault::Loses(_) | Fault::Kills(..));
        let Some(deadlines) = self.deadlines.filter(|_| lost) else {
            let standings = self.ranks.iter().map(|state| format!("{:?}\n", state.machine.standing()));
            return Err(format!("all stand still\n{}", standings.collect::<String>()));
        };
        let mut first: Option<(f64, usize)> = None;
        for rank in 0..self.ranks.len() {
            let state = &mut self.ranks[rank];
            if state.is_done || state.is_dead {
                continue;
            }
            match state.machine.poll(self.now as f64 * 1e-9) {
                Step::Wait { until_s: Some(until_s) } => {
                    if first.is_none_or(|(least, _)| until_s < least) {
                        first = Some((until_s, rank));
                    }
                }
                step => return Err(format!("rank {rank} has no deadline: {step:?}")),
            }
        }
        let first = match first {
            None => {
                let dead = self.ranks.iter().position(|state| state.is_dead).expect("somebody has not ended");
                Failure::died(Rank(dead as u32))
            }
            Some((due_s, rank)) => match self.ranks[rank].machine.poll(due_s) {
                Step::Abort(failure) => failure,
                step => return Err(format!("rank {rank} is overdue and goes on: {step:?}")),
            },
        };
        let mut ends = Vec::new();
        for (rank, state) in (0..).map(Rank).zip(&self.ranks) {
            let failure = match state {
                RankState { is_done: true, .. } => continue,
                RankState { is_dead: true, .. } => Failure::died(rank),
                _ if rank == first.rank => first.clone(),
                _ => {
                    let waits = state.machine.standing().describe(&self.plan.segments);
                    Failure::new(rank, None, FailureKind::Cancelled, waits)
                }
            };
            let standing = (!state.is_dead).then(|| state.machine.standing());
            ends.push(RankEnd { failure, standing });
        }
        let culprit = match self.fault {
            Fault::Kills(rank, _) => Some(Rank(rank as u32)),
            _ => self.lost,
        };
        Ok((RunFailure::new(self.plan, Some(deadlines), 0, 0.0, first, ends), culprit))
    }
}
