//! Reports of ranks to the coordinator.

use std::time::Instant;

use zipwire_schedule::{Failure, Rank};

use super::Coordinator;
use crate::serving::message::Report;

impl Coordinator<'_> {
    pub(super) fn hear(&mut self, rank: Rank, report: Report) -> Result<(), Failure> {
        self.heard[rank.index()] = Some(Instant::now());
        match report {
            // Others have been told that it is gone.
            _ if self.gone[rank.index()] => Ok(()),
            Report::Alive => Ok(()),
            Report::Computed { work, part, at_s } => self.computed(rank, work, part, at_s),
            Report::Arrived { shard, at_s, bytes_wire } => self.arrived(shard, at_s, bytes_wire),
            Report::Ended(totals) => {
                self.said_goodbye[rank.index()] = true;
                self.decided.totals.add(&totals);
                Ok(())
            }
        }
    }
}
