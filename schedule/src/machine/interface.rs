//! Messages between a machine and its executor, and how far a machine is when its run has failed.

use std::sync::Arc;

use super::{Machine, State, list};
use crate::plan::{CallKey, OpKind, TransferKey};
use crate::{Failure, OpId, Rank, SizeId};

/// When an op may be issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Its dependencies have completed; one op of a lane is in flight at a time. Threads and MPI.
    Completed,
    /// Its dependencies have been issued and the sizes that the host needs are known: the device orders the
    /// rest. CUDA streams.
    Issued,
}

/// Who decides when the transfers of an open exchange start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferOrder {
    /// The machine, one by one ([`Step::Transfer`]), within the window.
    Machine,
    /// The library: the exchange is one opaque call, such as an NCCL group.
    Library,
}

/// Abilities of an executor; the machine adapts to them, and the simulator imitates them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// When ops may be issued.
    pub readiness: Readiness,
    /// Who orders transfers.
    pub transfer_order: TransferOrder,
    /// Whether its clock means anything: if not, transfers and ops start without regard to `not_before_s`.
    pub timed: bool,
}

/// The end of a transfer that this rank holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// It leaves this rank.
    Send,
    /// It arrives at this rank.
    Receive,
}

/// A transfer of an open exchange, by position in its list of sends or receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransferId {
    /// The exchange.
    pub op: OpId,
    /// Which list.
    pub direction: Direction,
    /// Position in the list.
    pub index: u32,
}

/// News from the executor to the machine. It may tell anything again: see [`Machine::handle`](super::Machine::handle).
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// An op has ended. `sizes` holds those that it defines and that no transfer has brought yet.
    Completed {
        /// The op.
        op: OpId,
        /// Sizes that it defined.
        sizes: Vec<(SizeId, u64)>,
    },
    /// A transfer has ended at this rank. What a library moves need not be reported one by one.
    Transferred {
        /// The transfer.
        transfer: TransferId,
        /// The size that it brought, if it receives one.
        size: Option<u64>,
    },
    /// The peer has announced a send to this rank, or has its receive from this rank on offer. Needed where
    /// [`Order::follows_peers`](crate::Order::follows_peers), without effect elsewhere; may come before the exchange
    /// is open here.
    PeerReady {
        /// The transfer.
        key: TransferKey,
    },
    /// Something went wrong on this rank.
    Failed(Failure),
}

/// Next action of the executor.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Start the op. Under [`TransferOrder::Machine`] an exchange is only opened: its transfers follow.
    Issue(OpId),
    /// Tell the receiver of this send that it may offer its end: [`Input::PeerReady`] there.
    Announce(TransferId),
    /// Offer this end of a transfer. It starts when the other end is offered too. Where
    /// [`Order::follows_peers`](crate::Order::follows_peers), an offered receive is [`Input::PeerReady`] for its sender.
    Transfer(TransferId),
    /// All transfers of the exchange have ended: finish it (sizes reach the host) and report it completed.
    Close(OpId),
    /// Nothing to do before an input or, if given, this time in seconds.
    Wait {
        /// When to poll again without an input.
        until_s: Option<f64>,
    },
    /// The program has ended.
    Done,
    /// Release what is in flight, tell the peers, and stop.
    Abort(Failure),
}

/// How far a rank has come in its program.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct RankStatus {
    /// The rank.
    pub rank: Rank,
    /// Whether a device carries out what is issued on a lane in that order, so that ops in flight may wait for others.
    pub is_queued: bool,
    /// Whether each op has ended.
    pub ended: Vec<bool>,
    /// Ops that have begun and not ended, in program order.
    pub in_flight: Vec<OpId>,
    /// Calls of a library among them.
    pub calls: Vec<CallKey>,
    /// Transfers of exchanges in flight that have not ended at this rank.
    pub pending: Vec<Pending>,
    /// Transfers of exchanges that have begun in which nothing moves: that they are over says nothing of the peer.
    pub empty: Vec<TransferKey>,
}

/// One end of a transfer that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Pending {
    /// The exchange.
    pub op: OpId,
    /// The transfer.
    pub key: TransferKey,
    /// Whether this end is on offer.
    pub offered: bool,
}

/// Waits that a description names at the most.
const NAMED_WAITS: usize = 4;

impl RankStatus {
    /// Description of what the rank does or waits for, in words that follow its name; `segments` are the plan's.
    pub fn describe(&self, segments: &[Arc<str>]) -> String {
        let offered = || self.pending.iter().filter(|pending| pending.offered);
        let wait = |Pending { key, .. }: &Pending| {
            let (verb, peer) =
                if key.src == self.rank { ("send to", key.dst) } else { ("receive from", key.src) };
            format!("{verb} rank {peer} ({} of {})", key.stage.name(), segments[key.segment.index()])
        };
        let named: Vec<String> = offered().take(NAMED_WAITS).map(wait).collect();
        let more = offered().count().saturating_sub(NAMED_WAITS);
        if let (Some(call), true) = (self.calls.first(), named.is_empty()) {
            let segment = &segments[call.segment.index()];
            return format!(
                "is in a call of the library ({} of {segment}), which begins when all ranks are",
                call.stage.name()
            );
        }
        match (self.in_flight.as_slice(), named.is_empty(), more) {
            ([], ..) if self.ended.iter().all(|&ended| ended) => "has ended its program".to_owned(),
            ([], ..) => "is in no op".to_owned(),
            (ops, true, _) => {
                let ops: Vec<String> = ops.iter().map(|op| format!("`{op}`")).collect();
                format!("is in op {}", ops.join(", "))
            }
            (_, false, 0) => format!("waits to {}", named.join(", ")),
            (_, false, more) => format!("waits to {} and {more} more", named.join(", ")),
        }
    }
}

impl Machine {
    /// How far it is.
    pub fn status(&self) -> RankStatus {
        let ops = &self.program.ops;
        let state = |state| move |op: &OpId| self.states[op.index()] == state;
        let ids = || ops.iter().map(|op| op.id);
        RankStatus {
            rank: self.program.rank,
            is_queued: self.capabilities.readiness == Readiness::Issued,
            ended: ids().map(|op| state(State::Completed)(&op)).collect(),
            in_flight: ids().filter(state(State::Issued)).collect(),
            calls: ids().filter(state(State::Issued)).filter_map(|op| self.call_key(op)).collect(),
            pending: ids().filter(state(State::Issued)).flat_map(|op| self.pending(op)).collect(),
            empty: ids().filter(|op| !state(State::Pending)(op)).flat_map(|op| self.empty(op)).collect(),
        }
    }

    fn empty(&self, op: OpId) -> Vec<TransferKey> {
        let OpKind::Exchange(exchange) = &self.op(op).kind else { return Vec::new() };
        let all = [Direction::Send, Direction::Receive].into_iter().flat_map(|direction| {
            let transfers = (0..).zip(list(exchange, direction));
            transfers.map(move |(index, transfer)| (TransferId { op, direction, index }, transfer))
        });
        all.filter(|(_, transfer)| self.transfer_bytes(transfer) == 0).map(|(id, _)| self.key(id)).collect()
    }

    fn call_key(&self, op: OpId) -> Option<CallKey> {
        let op = self.op(op);
        op.kind.library().map(|library| library.key(op.segment))
    }

    fn pending(&self, op: OpId) -> Vec<Pending> {
        let OpKind::Exchange(exchange) = &self.op(op).kind else { return Vec::new() };
        // One that is being closed has moved everything.
        let Some(open) = self.exchanges.iter().find(|open| open.op == op) else { return Vec::new() };
        let mut pending = Vec::new();
        for direction in [Direction::Send, Direction::Receive] {
            let progress = open.side(direction);
            for (index, transfer) in (0..).zip(list(exchange, direction)) {
                if !progress.has_ended(index) && self.transfer_bytes(transfer) > 0 {
                    let key = self.key(TransferId { op, direction, index });
                    let offered = progress.has_offered(index);
                    pending.push(Pending { op, key, offered });
                }
            }
        }
        pending
    }
}
