//! Numbers of transfers: how both ends of a transfer know which one it is, each from its own program.

use std::cmp::Reverse;

use super::{Exchange, Plan, PlanError, Transfer};
use crate::Rank;

/// Numbers the transfers of one rank: to each peer, and from each peer, 0, 1, 2, ... in the order of its program, and
/// within one exchange in the order of the chunks. All ranks have the exchanges between two of them in the same order,
/// so both ends come to the same number without asking one another. The order in which an exchange lists its transfers
/// has no part in it: that is a matter of each end.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    sends: Next,
    receives: Next,
}

/// Defect in the numbers of an exchange.
#[derive(Debug)]
pub(crate) enum Misnumbered {
    /// The same chunk is listed twice for this peer: nothing says which comes first.
    Twice(Rank),
    /// A transfer with this peer has another number than its place gives it.
    Number { peer: Rank, found: u32, expected: u32 },
}

impl Numbers {
    /// Numbers the transfers of the next exchange of the program.
    pub(crate) fn assign(&mut self, exchange: &mut Exchange) {
        for (next, transfers) in
            [(&mut self.sends, &mut exchange.sends), (&mut self.receives, &mut exchange.receives)]
        {
            for index in by_chunk(transfers) {
                transfers[index].number = next.take(transfers[index].peer);
            }
        }
    }

    /// Whether the transfers of the next exchange of the program have the numbers that [`Self::assign`] would give them.
    pub(crate) fn check(&mut self, exchange: &Exchange) -> Result<(), Misnumbered> {
        for (next, transfers) in
            [(&mut self.sends, &exchange.sends), (&mut self.receives, &exchange.receives)]
        {
            let order = by_chunk(transfers);
            let place = |index: usize| (transfers[index].peer, &transfers[index].chunk);
            if let Some(pair) = order.windows(2).find(|pair| place(pair[0]) == place(pair[1])) {
                return Err(Misnumbered::Twice(transfers[pair[0]].peer));
            }
            for Transfer { peer, number: found, .. } in order.into_iter().map(|index| &transfers[index]) {
                let (peer, found, expected) = (*peer, *found, next.take(*peer));
                if found != expected {
                    return Err(Misnumbered::Number { peer, found, expected });
                }
            }
        }
        Ok(())
    }
}

/// The next number of one direction, by peer.
#[derive(Debug, Default)]
struct Next(Vec<u32>);

impl Next {
    fn take(&mut self, peer: Rank) -> u32 {
        if self.0.len() <= peer.index() {
            self.0.resize(peer.index() + 1, 0);
        }
        let next = &mut self.0[peer.index()];
        *next += 1;
        *next - 1
    }
}

/// Positions of transfers, by peer and then by chunk.
fn by_chunk(transfers: &[Transfer]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..transfers.len()).collect();
    // As a rule they are listed in a rotation of the ranks, which a stable sort takes in one pass.
    order.sort_by(|&a, &b| {
        let (a, b) = (&transfers[a], &transfers[b]);
        a.peer.cmp(&b.peer).then_with(|| a.chunk.cmp(&b.chunk))
    });
    order
}

impl Plan {
    /// The largest tag that every MPI library accepts: the least that the standard allows for the attribute `MPI_TAG_UB`
    /// (MPI 4.1, "Environmental Inquiries").
    pub const MPI_TAG_LIMIT: u32 = 32_767;

    /// How many numbers its transfers need: one more than the largest that a transfer has, 0 without transfers. It is the
    /// number of transfers that the busiest pair of ranks has, in one direction, in one iteration.
    pub fn transfer_numbers(&self) -> u32 {
        self.busiest_pair().map_or(0, |(_, _, count)| count)
    }

    /// Checks that an executor whose messages carry tags from 0 to `largest` can tell all transfers of an iteration apart
    /// that go from one rank to another: each travels under its number. [`Self::MPI_TAG_LIMIT`] is what any MPI library
    /// has.
    ///
    /// # Errors
    /// [`PlanError::TooManyTransfers`] for the pair of ranks that has the most of them.
    pub fn check_tags(&self, largest: u32) -> Result<(), PlanError> {
        match self.busiest_pair() {
            Some((src, dst, count)) if count - 1 > largest => {
                Err(PlanError::TooManyTransfers { src, dst, count, largest })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Sender and receiver of the transfer with the largest number, and that number plus one; of several the first.
    fn busiest_pair(&self) -> Option<(Rank, Rank, u32)> {
        let exchanges = self.programs.iter().flat_map(|program| {
            program.ops.iter().filter_map(|op| Some((program.rank, op.segment, op.kind.exchange()?)))
        });
        let keys = exchanges.flat_map(|(rank, segment, exchange)| {
            let sends = exchange.sends.iter().map(move |t| exchange.key_of_send(rank, segment, t));
            sends.chain(exchange.receives.iter().map(move |t| exchange.key_of_receive(rank, segment, t)))
        });
        let last = keys.max_by_key(|key| (key.number, Reverse((key.src, key.dst))))?;
        Some((last.src, last.dst, last.number + 1))
    }
}
