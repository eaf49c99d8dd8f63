//! Transports connect a rank with the others: they move bytes and words, and let all ranks begin and end together.
//!
//! Everything that ranks tell one another is plain data, so a transport may be shared memory (`local`), pipes, MPI. Only
//! `local` touches the memory of another rank. A `filter` changes what a transport reports without knowing which one it is:
//! `paced` lets bytes arrive when the links of a cluster would have brought them, and `Flips` damages some on the way.
//!
//! It knows neither ops nor codecs; what an event means to a program is up to [`host`](crate::host).

/// Methods of a [`Meeting`] that are those of a field, all but its barrier.
macro_rules! meets_by {
    ($field:ident) => {
        fn rank(&self) -> zipwire_schedule::Rank {
            self.$field.rank()
        }

        fn now_s(&self) -> f64 {
            self.$field.now_s()
        }

        fn rest(&mut self, timeout: std::time::Duration) -> Result<(), $crate::transport::Ended> {
            self.$field.rest(timeout)
        }

        fn keeps_notes(&self) -> bool {
            self.$field.keeps_notes()
        }

        fn note(&mut self, doing: &str) {
            self.$field.note(doing);
        }

        fn count_progress(&mut self) {
            self.$field.count_progress();
        }

        fn progress(&self) -> u64 {
            self.$field.progress()
        }

        fn abort(&mut self, failure: &zipwire_schedule::Failure) {
            self.$field.abort(failure);
        }

        fn is_stopped(&self) -> bool {
            self.$field.is_stopped()
        }

        fn gather(&mut self, report: $crate::report::RankReport) -> Option<Vec<$crate::report::RankReport>> {
            self.$field.gather(report)
        }
    };
}

pub(crate) mod filter;
pub(crate) mod local;
pub(crate) mod paced;

pub(crate) use meets_by;

use std::sync::Arc;
use std::time::Duration;

use zipwire_cluster::library::Activity;
use zipwire_schedule::plan::{CallKey, Region, TransferKey};
use zipwire_schedule::{Failure, Group, Rank};

use crate::memory::Memory;
use crate::report::RankReport;

/// The sender's end of a transfer: a region, a word behind it, or one of the two.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing {
    /// Key of the transfer.
    pub key: TransferKey,
    /// Bytes in the memory of this rank, which stay as they are until [`Event::Sent`].
    pub bytes: Option<Region>,
    /// Word behind the bytes, if there is one.
    pub word: Option<u64>,
    /// The sender's checksum of bytes and word. Transports carry it and do not look at it.
    pub checksum: u64,
}

/// The receiver's end of a transfer.
#[derive(Clone, Copy, Debug)]
pub struct Incoming {
    /// Key of the transfer.
    pub key: TransferKey,
    /// Where its bytes go in the memory of this rank, which is left alone until [`Event::Received`].
    pub bytes: Option<Region>,
    /// Whether a word comes, too.
    pub has_word: bool,
}

/// Transfers of a plan are numbered from 0; those that stand for a call of a library have numbers from this one on.
pub(crate) const CALLS: u32 = 1 << 31;

pub(crate) fn is_of_call(key: &TransferKey) -> bool {
    key.number >= CALLS
}

/// Length and kind of a transfer, on which both ends must agree.
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
    /// Shape of the transfer at the sender.
    pub fn shape(&self) -> Shape {
        Shape { bytes: self.bytes.map(|region| region.len), has_word: self.word.is_some() }
    }
}

impl Incoming {
    /// Shape of the transfer at the receiver.
    pub fn shape(&self) -> Shape {
        Shape { bytes: self.bytes.map(|region| region.len), has_word: self.has_word }
    }
}

/// A received transfer. Its bytes are where [`Incoming::bytes`] says.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// This rank's end of the transfer.
    pub transfer: Incoming,
    /// Word behind the bytes, if there is one.
    pub word: Option<u64>,
    /// The sender's checksum.
    pub checksum: u64,
    /// When both ends were on offer, in seconds.
    pub begin_s: f64,
    /// When the last byte arrived, in seconds.
    pub end_s: f64,
}

/// A message between ranks, outside of transfers.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub enum Message {
    /// A sender announces a transfer, or a receiver has its end on offer. Told where the order of the exchange follows peers.
    Ready(TransferKey),
    /// A rank has reached a meeting point of a library call; points of a call are counted from 0.
    Joined {
        /// The call.
        call: CallKey,
        /// The point.
        point: u32,
        /// When.
        at_s: f64,
    },
    /// From the paced links to both ends: the last byte of a transfer would have arrived.
    Arrived {
        /// The transfer.
        key: TransferKey,
        /// When.
        at_s: f64,
    },
    /// From the paced links to all ranks: the last byte of a call of a library would have moved.
    Moved {
        /// The call.
        call: CallKey,
        /// When.
        at_s: f64,
    },
    /// A message of whatever runs on top of the transport, such as a serving run; the number behind the last rank's may be the address of
    /// somebody who only listens.
    Client(Box<[u8]>),
}

/// A call of a library that all ranks have issued, for paced links.
#[derive(Clone, Debug)]
pub struct LibraryCall {
    /// The call.
    pub call: CallKey,
    /// The ranks that take part.
    pub group: Group,
    /// Its bytes on links, in seconds of the cluster.
    pub activity: Activity,
    /// When the last rank issued it, in seconds of the transport.
    pub begin_s: f64,
}

/// An event that a transport reports to its rank.
#[derive(Clone, Debug)]
pub enum Event {
    /// Both ends of a transfer are on offer, and it is under way. Only transports that can be paced (threads) must report this,
    /// at both ends.
    Begun {
        /// The transfer.
        key: TransferKey,
        /// Bytes under way.
        bytes: u64,
        /// When it began.
        at_s: f64,
    },
    /// A transfer is complete at its receiver.
    Received(Received),
    /// A send is complete: its bytes may be overwritten, as the receiver has them or they are on their way.
    Sent {
        /// The transfer.
        key: TransferKey,
        /// When both ends were on offer, in seconds.
        begin_s: f64,
        /// When the last byte had come.
        end_s: f64,
    },
    /// The ends of a transfer disagree about what moves; nothing has.
    Disagreed {
        /// The transfer.
        key: TransferKey,
        /// Shape of the transfer at the sender.
        offered: Shape,
        /// Shape at this rank.
        expected: Shape,
    },
    /// A transfer was offered twice.
    Repeated(TransferKey),
    /// A message from a peer, or from the paced links.
    Told(Message),
}

/// Why a transport has ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ended {
    /// A rank has aborted the run.
    #[error("another rank has failed")]
    Aborted,
    /// The user has stopped the run.
    #[error("stopped by the user")]
    Stopped,
    /// A rank has fallen silent.
    #[error("rank {0} is gone")]
    Lost(Rank),
    /// The transport has failed.
    #[error("{0}")]
    Broken(String),
}

/// One rank's place among all others: ranks begin together, end together, and hear of failures. Times are seconds of a clock that all ranks
/// share, as far as they can.
pub trait Meeting {
    /// The rank that owns this.
    fn rank(&self) -> Rank;

    /// Seconds since some moment before the first iteration.
    fn now_s(&self) -> f64;

    /// Waits until all ranks have come here as often as this one, and returns their words by rank. Need not look whether the user wants to
    /// stop.
    ///
    /// # Errors
    /// If the run ends instead.
    fn barrier(&mut self, word: &[u8]) -> Result<Vec<Vec<u8>>, Ended>;

    /// Waits for as long as `timeout`, or until the run ends: for ranks that hear of nothing else.
    ///
    /// # Errors
    /// If the run has ended.
    fn rest(&mut self, timeout: Duration) -> Result<(), Ended>;

    /// Whether notes of what this rank is doing are kept for later diagnosis.
    fn keeps_notes(&self) -> bool {
        false
    }

    /// Notes what this rank is doing, in words that follow its name.
    fn note(&mut self, _doing: &str) {}

    /// Counts an end on this rank as progress.
    fn count_progress(&mut self);

    /// Counter that changes whenever something ends on any rank, as far as is known here: if it stands still, the run is stuck.
    fn progress(&self) -> u64;

    /// Tells all ranks that this one has failed. The first failure that a rank hears of wins.
    fn abort(&mut self, failure: &Failure);

    /// Whether the user asked to stop.
    fn is_stopped(&self) -> bool;

    /// Brings the reports of all ranks to rank 0, in rank order; `None` elsewhere. Ranks that do not report in time are left out.
    fn gather(&mut self, report: RankReport) -> Option<Vec<RankReport>>;
}

/// One rank's connection with all others, by which transfers between host memories move.
///
/// An end of a transfer is on offer from [`Self::send`] or [`Self::receive`] on; the transfer begins when both ends are. How
/// much is on offer is up to the caller, so a transport must not wait in either. Regions on offer at the same time do not overlap.
///
/// Transfers are told apart by their whole keys. Those of a plan also by sender, receiver and number, which fit the tags of a message
/// ([`Plan::check_tags`](zipwire_schedule::Plan::check_tags)); those that stand for a call of a library have numbers from 2^31 on,
/// which segments and stages share.
pub trait Transport: Meeting {
    /// The memory of this rank.
    fn memory(&self) -> &Arc<Memory>;

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

    /// Whether a transfer may be [`Event::Sent`] before its receiver has it: callers that must not run ahead wait for an acknowledgement.
    fn sends_early(&self) -> bool {
        false
    }

    /// Lets the links know of a call of a library that all ranks have issued, once for all of them; ranks are told by [`Message::Moved`] when
    /// it has moved what it moves. Transports without paced links know of none.
    ///
    /// # Errors
    /// If the run has ended.
    fn begin_call(&mut self, _call: LibraryCall) -> Result<(), Ended> {
        Ok(())
    }

    /// Lets paced links know of sends of this rank that are a group of a library's: they have had their latency when they are offered, and count as
    /// so many bytes for each that they move.
    fn begin_group(&mut self, _losses: &mut dyn Iterator<Item = (TransferKey, f64)>) {}

    /// Sends a message to a peer. Messages between two ranks may overtake one another; none is under way at a barrier.
    ///
    /// # Errors
    /// If the run has ended.
    fn tell(&mut self, to: Rank, message: Message) -> Result<(), Ended>;

    /// The next event; `None` if there is none within the time. A timeout of zero only looks.
    ///
    /// # Errors
    /// If the run has ended.
    fn poll(&mut self, timeout: Duration) -> Result<Option<Event>, Ended>;
}
