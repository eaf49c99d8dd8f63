//! Messages between a machine and its executor.

use crate::plan::TransferKey;
use crate::{Failure, OpId, SizeId};

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
