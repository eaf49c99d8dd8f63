//! How a schedule ends in which nothing happens any more: with the first op that is overdue.

use zipwire_schedule::machine::{RankStatus, Step};
use zipwire_schedule::{Failure, FailureKind, Rank, RankEnd, RunFailure};

use super::{Defect, Fault, RankState, Silence, World};

impl World<'_> {
    /// Nothing happens any more: the first op that is overdue ends the run, and all ranks are told.
    pub(super) fn time_out(&mut self) -> Result<(RunFailure, Vec<Rank>), String> {
        let may_end = match self.fault {
            Fault::None | Fault::Silences(_, _, Silence::Until(_)) => false,
            Fault::Loses(_) | Fault::Kills(..) | Fault::Silences(..) => true,
        };
        let Some(deadlines) = self.deadlines.filter(|_| may_end) else {
            let statuses = self.ranks.iter().map(|state| format!("{:?}\n", state.machine.status()));
            return Err(format!("all stand still\n{}", statuses.collect::<String>()));
        };
        let first = self.first_failure()?;
        let mut ends = Vec::new();
        for (rank, state) in (0..).map(Rank).zip(&self.ranks) {
            let is_mute = self.is_mute(rank.index());
            let failure = match state {
                RankState { is_done: true, .. } => continue,
                _ if is_mute => Failure::died(rank),
                _ if rank == first.rank => first.clone(),
                _ => {
                    let waits = state.machine.status().describe(&self.plan.segments);
                    Failure::new(rank, None, FailureKind::Cancelled, waits)
                }
            };
            let status = (!is_mute).then(|| self.status(state));
            ends.push(RankEnd { failure, status });
        }
        let culprits = self.culprits();
        Ok((RunFailure::new(self.plan, Some(deadlines), 0, 0.0, first, ends), culprits))
    }

    /// Whether a rank reports nothing in the end.
    fn is_mute(&self, rank: usize) -> bool {
        let is_silent = matches!(self.fault, Fault::Silences(silent, _, Silence::ForEver) if silent == rank);
        self.ranks[rank].is_dead || is_silent
    }

    fn status(&self, state: &RankState) -> RankStatus {
        let mut status = state.machine.status();
        if self.defect == Defect::ForgetsWaits {
            status.pending.clear();
        }
        status
    }

    /// Failure of the op that is overdue first, or, if all others have ended, of the rank that says nothing.
    fn first_failure(&mut self) -> Result<Failure, String> {
        let mut first: Option<(f64, usize)> = None;
        for rank in 0..self.ranks.len() {
            if self.ranks[rank].is_done || self.is_mute(rank) {
                continue;
            }
            match self.ranks[rank].machine.poll(self.now as f64 * 1e-9) {
                Step::Wait { until_s: Some(until_s) } => {
                    if first.is_none_or(|(least, _)| until_s < least) {
                        first = Some((until_s, rank));
                    }
                }
                step => return Err(format!("rank {rank} has no deadline: {step:?}")),
            }
        }
        match first {
            None => {
                let mute =
                    (0..self.ranks.len()).find(|&rank| self.is_mute(rank) && !self.ranks[rank].is_done);
                Ok(Failure::died(Rank(mute.expect("somebody has not ended") as u32)))
            }
            Some((due_s, rank)) => match self.ranks[rank].machine.poll(due_s) {
                Step::Abort(failure) => Ok(failure),
                step => Err(format!("rank {rank} is overdue and goes on: {step:?}")),
            },
        }
    }

    /// Who may be blamed, the culprit first; nobody if that is not known.
    ///
    /// A rank that has heard of nothing and reports what it waits for cannot be told from one that messages were lost on the way to: so
    /// the peers that it waits for may be blamed as well. Reports do not say which announcements a rank has heard, so it is not known who
    /// is blamed where orders follow peers.
    fn culprits(&self) -> Vec<Rank> {
        match self.fault {
            Fault::Kills(rank, _) | Fault::Silences(rank, _, Silence::ForEver) => vec![Rank(rank as u32)],
            Fault::Silences(..) if self.follows_peers() => Vec::new(),
            Fault::Silences(rank, ..) => {
                let pending = self.ranks[rank].machine.status().pending;
                let ends = pending.into_iter().flat_map(|pending| [pending.key.src, pending.key.dst]);
                let peers = ends.filter(|end| end.index() != rank);
                std::iter::once(Rank(rank as u32)).chain(peers).collect()
            }
            Fault::None | Fault::Loses(_) => self.lost.into_iter().collect(),
        }
    }
    fn follows_peers(&self) -> bool {
        let ops = self.plan.programs.iter().flat_map(|program| &program.ops);
        ops.filter_map(|op| op.kind.exchange()).any(|exchange| exchange.order.follows_peers())
    }
}
