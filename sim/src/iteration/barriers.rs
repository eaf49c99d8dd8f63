//! Transfers that wait for ranks that are no end of them ([`TransferStart::Barrier`](zipwire_cluster::TransferStart)).
//!
//! A stage of a call may be several exchanges on a rank, such as the steps of a ring. The rank is there when it has opened the
//! first of them: it cannot open the others before bytes have moved. A coded flow is a call of its own, whose two ranks are the ends of all
//! its transfers, so it has no barriers.

use std::collections::{HashMap, HashSet};

use zipwire_schedule::plan::{Program, TransferKey};
use zipwire_schedule::{OpId, Rank, SegmentId, Stage};

use super::transfers::End;

/// Transfers that start together: segment, stage and part.
type Key = (SegmentId, Stage, u32);

/// All stages of all calls of an iteration.
pub(super) struct Barriers {
    barriers: HashMap<Key, Barrier>,
    /// The stages that a rank enters with an exchange; absent where it is in all of that exchange already.
    entered: HashMap<(Rank, OpId), Vec<Key>>,
}

#[derive(Default)]
struct Barrier {
    /// Ranks that take part and are not there.
    missing: u32,
    /// Both ends, the sending one first, of transfers that wait for them.
    held: Vec<(End, End)>,
}

impl Barriers {
    pub(super) fn new<'p>(programs: impl Iterator<Item = &'p Program>) -> Self {
        let mut all = Self { barriers: HashMap::new(), entered: HashMap::new() };
        for program in programs {
            let mut known = HashSet::new();
            for op in &program.ops {
                let exchange = op.kind.exchange().filter(|exchange| exchange.channel.flow().is_none());
                let Some(exchange) = exchange else { continue };
                let transfers = exchange.sends.iter().chain(&exchange.receives);
                let keys = transfers.map(|transfer| (op.segment, exchange.stage, transfer.chunk.part));
                let new: Vec<Key> = keys.filter(|&key| known.insert(key)).collect();
                for &key in &new {
                    all.barriers.entry(key).or_default().missing += 1;
                }
                if !new.is_empty() {
                    all.entered.insert((program.rank, op.id), new);
                }
            }
        }
        all
    }

    /// A rank has opened an exchange. The transfers that waited for nobody else, in the order in which they came.
    pub(super) fn enter(&mut self, rank: Rank, op: OpId) -> Vec<(End, End)> {
        let mut released = Vec::new();
        for key in self.entered.remove(&(rank, op)).into_iter().flatten() {
            let barrier = self.barriers.get_mut(&key).expect("every stage has a barrier");
            barrier.missing -= 1;
            if barrier.missing == 0 {
                released.append(&mut barrier.held);
            }
        }
        released
    }

    /// Whether a transfer whose ends are both offered has to wait. If so, it is kept until the last rank enters.
    pub(super) fn holds(&mut self, key: &TransferKey, part: u32, ends: (End, End)) -> bool {
        let stage = (key.segment, key.stage, part);
        let barrier = self.barriers.get_mut(&stage).expect("every stage has a barrier");
        let waits = barrier.missing > 0;
        if waits {
            barrier.held.push(ends);
        }
        waits
    }
}
