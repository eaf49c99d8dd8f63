//! What connects a rank with the others: it moves bytes and words, and lets all ranks begin and end together.
//!
//! Everything that ranks tell one another is plain data, so a transport may be shared memory (`local`), pipes, MPI. Only
//! `local` touches the memory of another rank. A `filter` changes what a transport reports without knowing which one it is:
//! `paced` lets bytes arrive when the links of a cluster would have brought them, `flips` damages some on the way.
//!
//! It knows neither ops nor codecs; what an event means to a program is up to [`host`](crate::host).

pub(crate) mod filter;
pub(crate) mod flips;
pub(crate) mod local;
pub(crate) mod paced;

use std::sync::Arc;
use std::time::Duration;

use zipwire_schedule::plan::{CallKey, Region, TransferKey};
use zipwire_schedule::{Failure, Rank};

use crate::memory::Memory;
use crate::report::RankReport;
use crate::serving;

/// The sender's end of a transfer: a region, a word behind it, or one of the two.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing {
    /// Which transfer.
    pub key: TransferKey,
    /// Bytes in the memory of this rank, which stay as they are until [`Event::Sent`].
    pub bytes: Option<Region>,
    /// The word.
    pub word: Option<u64>,
    /// Of both, in the sender's opinion. Transports carry it and do not look at it.
    pub checksum: u64,
}

/// The receiver's end of a transfer.
#[derive(Clone, Copy, Debug)]
pub struct Incoming {
    /// Which transfer.
    pub key: TransferKey,
    /// Where its bytes go in the memory of this rank, which is left alone until [`Event::Received`].
    pub bytes: Option<Region>,
    /// Whether a word comes, too.
    pub has_word: bool,
}

/// Transfers of a plan are numbered from 0; those that stand for a call of a library have numbers from this one on.
pub(crate) const CALLS: u32 = 1 << 31;

/// Whether a transfer is part of a call of a library.
pub(crate) fn is_of_call(key: &TransferKey) -> bool {
    key.number >= CALLS
}

/// What an end of a transfer says of it: what both ends must agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Shape {
    /// Length of the region, if there is one.
    pub bytes: Option<u64>,
    /// Whether there is a word.
    pub has_word: bool,
}

impl Shape {
    /// Bytes that move.
    pub fn len(&self) -> u64 {
        self.bytes.unwrap_or(0) + if self.has_word { u64::from(u64::BITS / 8) } else { 0 }
    }

    /// Whether nothing moves.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Outgoing {
    /// What the sender says.
    pub fn shape(&self) -> Shape {
        Shape { bytes: self.bytes.map(|region| region.len), has_word: self.word.is_some() }
    }
}

impl Incoming {
    /// What the receiver says.
    pub fn shape(&self) -> Shape {
        Shape { bytes: self.bytes.map(|region| region.len), has_word: self.has_word }
    }
}

/// A transfer that has come. Its bytes are where [`Incoming::bytes`] said.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// Where it is.
    pub transfer: Incoming,
    /// The word.
    pub word: Option<u64>,
    /// What the sender said.
    pub checksum: u64,
    /// When both ends were on offer.
    pub begin_s: f64,
    /// When the last byte was here.
    pub end_s: f64,
}

/// What one rank tells another at any time.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub enum Message {
    /// A sender announces a transfer, or a receiver has its end on offer. Told where the order of the exchange follows peers.
    Ready(TransferKey),
    /// A rank has come to a point of a call of a library at which all meet; points of a call are counted from 0.
    Joined {
        /// The call.
        call: CallKey,
        /// The point.
        point: u32,
        /// When.
        at_s: f64,
    },
    /// The links of a cluster would have brought the last byte of a transfer. Told by these, to both ends.
    Arrived {
        /// The transfer.
        key: TransferKey,
        /// When.
        at_s: f64,
    },
    /// Ranks that serve have words of their own. Those for the coordinator go to the number behind the last rank's.
    Serving(serving::Message),
}

/// What happens to a rank.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// Both ends of a transfer are on offer, and it takes its time. Need not be told, but where links are paced, which are those of
    /// threads: then at both ends.
    Begun {
        /// The transfer.
        key: TransferKey,
        /// Bytes that are on their way.
        bytes: u64,
        /// Since when.
        at_s: f64,
    },
    /// A transfer has come.
    Received(Received),
    /// What this rank sent may be overwritten: the receiver has it, or it is on its way.
    Sent {
        /// The transfer.
        key: TransferKey,
        /// When both ends were on offer.
        begin_s: f64,
        /// When the last byte had come.
        end_s: f64,
    },
    /// The ends of a transfer disagree about what moves; nothing has.
    Disagreed {
        /// The transfer.
        key: TransferKey,
        /// What the sender says.
        offered: Shape,
        /// What this rank says.
        expected: Shape,
    },
    /// A transfer is offered that is on offer already.
    Repeated(TransferKey),
    /// A peer, or the links, said something.
    Told(Message),
}

/// Why a transport does nothing any more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ended {
    /// Some rank has failed and said so.
    #[error("another rank has failed")]
    Aborted,
    /// The user wants the run to end.
    #[error("stopped by the user")]
    Stopped,
    /// A rank is gone without a word.
    #[error("rank {0} is gone")]
    Lost(Rank),
    /// The transport itself has failed.
    #[error("{0}")]
    Broken(String),
}

/// One rank's connection with all others. Times are seconds of a clock that all ranks share, as far as the transport can.
///
/// An end of a transfer is on offer from [`Self::send`] or [`Self::receive`] on; the transfer begins when both ends are. How
/// much is on offer is up to the caller, so a transport must not wait in either. Regions on offer at the same time do not overlap.
///
/// Transfers are told apart by their whole keys. Those of a plan also by sender, receiver and number, which fit the tags of a message
/// ([`Plan::check_tags`](zipwire_schedule::Plan::check_tags)); those that stand for a call of a library have numbers from 2^31 on,
/// which segments and stages share.
pub trait Transport {
    /// Whose it is.
    fn rank(&self) -> Rank;

    /// The memory of this rank.
    fn memory(&self) -> &Arc<Memory>;

    /// Seconds since some moment before the first iteration.
    fn now_s(&self) -> f64;

    /// Waits until all ranks have come here as often as this one; what each said, by rank. Need not look whether the user wants to
    /// stop.
    ///
    /// # Errors
    /// If the run ends instead.
    fn barrier(&mut self, word: &[u8]) -> Result<Vec<Vec<u8>>, Ended>;

    /// Puts the sender's end of a transfer on offer.
    ///
    /// # Errors
    /// If the run has ended.
    fn send(&mut self, transfer: Outgoing) -> Result<(), Ended>;

    /// Puts the receiver's end of a transfer on offer.
    ///
    /// # Errors
    /// If the run has ended.
    fn receive(&mut self, transfer: Incoming) -> Result<(), Ended>;

    /// Whether a transfer may be [`Event::Sent`] before its receiver has it: who is not to run ahead waits for the receiver's word.
    fn sends_early(&self) -> bool {
        false
    }

    /// Tells a peer something. Messages between two ranks may overtake one another; none is under way when the ranks meet.
    ///
    /// # Errors
    /// If the run has ended.
    fn tell(&mut self, to: Rank, message: Message) -> Result<(), Ended>;

    /// The next event; `None` if there is none within the time. A timeout of zero only looks.
    ///
    /// # Errors
    /// If the run has ended.
    fn poll(&mut self, timeout: Duration) -> Result<Option<Event>, Ended>;

    /// Whether what this rank is doing is kept for those who look when it is gone.
    fn keeps_notes(&self) -> bool {
        false
    }

    /// Keeps what this rank is doing, in words that follow its name.
    fn note(&mut self, _doing: &str) {}

    /// Something has ended on this rank.
    fn count_progress(&mut self);

    /// Changes whenever something ends on any rank, as far as is known here: if it stands still, the run is stuck.
    fn progress(&self) -> u64;

    /// Tells all ranks that this one has failed. Whoever is told first wins.
    fn abort(&mut self, failure: &Failure);

    /// Whether the user asked to stop.
    fn is_stopped(&self) -> bool;

    /// Brings the reports of all ranks to rank 0, in rank order; `None` elsewhere. Ranks that do not report in time are left out.
    fn gather(&mut self, report: RankReport) -> Option<Vec<RankReport>>;
}
