//! Ranks that are threads of one process: a transfer is a note from the sender and a copy by the receiver, out of the
//! sender's memory, once its own end is on offer. Nothing is sent eagerly, so windows mean what they mean in a simulation.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use zipwire_schedule::plan::{Region, TransferKey};
use zipwire_schedule::{Failure, Rank};

use super::{Ended, Event, Incoming, Meeting, Message, Outgoing, Received, Transport};
use crate::control::{Control, Envelope};
use crate::memory::Memory;
use crate::report::RankReport;
use crate::sync::mpsc::{Receiver, RecvTimeoutError};

#[derive(Clone, Debug)]
pub(crate) enum Note {
    /// The sender's end is on offer. Nothing moves before the receiver's is, too.
    Offer(Outgoing),
    /// The receiver's end is on offer, too.
    Begun {
        key: TransferKey,
        bytes: u64,
        at_s: f64,
    },
    Taken {
        key: TransferKey,
        begin_s: f64,
        end_s: f64,
    },
    Told(Message),
}

/// The memories of all ranks, and where they meet.
#[derive(Clone, Copy)]
pub(crate) struct Process<'a> {
    pub(crate) control: &'a Control<'a, Note>,
    pub(crate) memories: &'a [Arc<Memory>],
}

/// A rank's place among the threads of a process, which write notes to one another.
pub(crate) struct Seat<'a, N> {
    pub(crate) control: &'a Control<'a, N>,
    pub(crate) rank: Rank,
    pub(crate) inbox: Receiver<Envelope<N>>,
}

pub(crate) struct Local<'a> {
    seat: Seat<'a, Note>,
    memories: &'a [Arc<Memory>],
    /// Ends of this rank that wait for their senders.
    awaited: HashMap<TransferKey, Incoming>,
    /// Offers that this rank has not asked for yet.
    early: HashMap<TransferKey, Outgoing>,
    /// Transfers that have begun and are to be copied.
    begun: VecDeque<(Incoming, Outgoing, f64)>,
    events: VecDeque<Event>,
}

impl<N> Seat<'_, N> {
    pub(crate) fn write(&self, to: Rank, note: N) -> Result<(), Ended> {
        if self.control.send(to, note) {
            return Ok(());
        }
        // Whoever has been told of a failure leaves at once; the note about it is on its way here.
        Err(if self.control.is_aborted() { Ended::Aborted } else { Ended::Lost(to) })
    }

    /// The next note; `None` if none comes within the time.
    pub(crate) fn read(&self, timeout: Duration) -> Result<Option<N>, Ended> {
        match self.inbox.recv_timeout(timeout) {
            Ok(Envelope::Note(note)) => Ok(Some(note)),
            Ok(Envelope::Abort) => Err(Ended::Aborted),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(Ended::Broken("all peers are gone".to_owned())),
        }
    }
}

impl<N> Meeting for Seat<'_, N> {
    fn rank(&self) -> Rank {
        self.rank
    }

    fn now_s(&self) -> f64 {
        self.control.now_s()
    }

    fn barrier(&mut self, word: &[u8]) -> Result<Vec<Vec<u8>>, Ended> {
        self.control.barrier(self.rank, word).ok_or(Ended::Aborted)
    }

    fn rest(&mut self, timeout: Duration) -> Result<(), Ended> {
        if self.is_stopped() {
            return Err(Ended::Stopped);
        }
        match self.read(timeout)? {
            None => Ok(()),
            Some(_) => Err(Ended::Broken("a note for a rank that reads none".to_owned())),
        }
    }

    fn count_progress(&mut self) {
        self.control.count_progress();
    }

    fn progress(&self) -> u64 {
        self.control.progress()
    }

    fn abort(&mut self, _: &Failure) {
        self.control.abort();
    }

    fn is_stopped(&self) -> bool {
        self.control.is_cancelled()
    }

    fn gather(&mut self, report: RankReport) -> Option<Vec<RankReport>> {
        self.control.deposit(report);
        (self.rank == Rank(0)).then(|| self.control.collect())
    }
}

impl<'a> Local<'a> {
    pub(crate) fn new(process: Process<'a>, rank: Rank, inbox: Receiver<Envelope<Note>>) -> Self {
        let Process { control, memories } = process;
        Self {
            seat: Seat { control, rank, inbox },
            memories,
            awaited: HashMap::new(),
            early: HashMap::new(),
            begun: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    fn open(&mut self, note: Note) -> Result<(), Ended> {
        match note {
            Note::Offer(offer) => match self.awaited.remove(&offer.key) {
                Some(transfer) => self.begin(transfer, offer)?,
                None => {
                    if self.early.insert(offer.key, offer).is_some() {
                        self.events.push_back(Event::Repeated(offer.key));
                    }
                }
            },
            Note::Begun { key, bytes, at_s } => self.events.push_back(Event::Begun { key, bytes, at_s }),
            Note::Taken { key, begin_s, end_s } => {
                self.events.push_back(Event::Sent { key, begin_s, end_s });
            }
            Note::Told(message) => self.events.push_back(Event::Told(message)),
        }
        Ok(())
    }

    fn begin(&mut self, transfer: Incoming, offer: Outgoing) -> Result<(), Ended> {
        let (key, at_s) = (transfer.key, self.now_s());
        let (offered, expected) = (offer.shape(), transfer.shape());
        if offered != expected {
            self.events.push_back(Event::Disagreed { key, offered, expected });
            return Ok(());
        }
        // Both ends hear of it before this thread copies.
        let bytes = expected.len();
        self.events.push_back(Event::Begun { key, bytes, at_s });
        self.begun.push_back((transfer, offer, at_s));
        self.seat.write(key.src, Note::Begun { key, bytes, at_s })
    }

    fn take(&mut self, transfer: Incoming, offer: Outgoing, begin_s: f64) -> Result<(), Ended> {
        let key = transfer.key;
        if let (Some(from), Some(to)) = (offer.bytes, transfer.bytes) {
            self.copy(key.src, from, to);
        }
        let end_s = self.now_s();
        let Outgoing { word, checksum, .. } = offer;
        self.events.push_back(Event::Received(Received { transfer, word, checksum, begin_s, end_s }));
        self.seat.write(key.src, Note::Taken { key, begin_s, end_s })
    }

    /// Buffers are locked in the same order on all ranks: otherwise two ranks could each hold what the other one waits for.
    fn copy(&self, src: Rank, from: Region, to: Region) {
        let _span = tracing::info_span!("copy", bytes = from.len).entered();
        let (memories, rank) = (self.memories, self.seat.rank);
        let read = || memories[src.index()].read(&from);
        let write = || memories[rank.index()].write(&to);
        let (source, mut target) = if (src, from.buffer) < (rank, to.buffer) {
            let source = read();
            (source, write())
        } else {
            let target = write();
            (read(), target)
        };
        target.copy_from_slice(&source);
    }
}

impl Transport for Local<'_> {
    fn memory(&self) -> &Arc<Memory> {
        &self.memories[self.seat.rank.index()]
    }

    fn send(&mut self, transfer: Outgoing) -> Result<(), Ended> {
        self.seat.write(transfer.key.dst, Note::Offer(transfer))
    }

    fn receive(&mut self, transfer: Incoming) -> Result<(), Ended> {
        match self.early.remove(&transfer.key) {
            Some(offer) => self.begin(transfer, offer),
            None => {
                self.awaited.insert(transfer.key, transfer);
                Ok(())
            }
        }
    }

    fn tell(&mut self, to: Rank, message: Message) -> Result<(), Ended> {
        self.seat.write(to, Note::Told(message))
    }

    fn poll(&mut self, timeout: Duration) -> Result<Option<Event>, Ended> {
        if self.is_stopped() {
            return Err(Ended::Stopped);
        }
        let begin = Instant::now();
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(Some(event));
            }
            if let Some((transfer, offer, begin_s)) = self.begun.pop_front() {
                self.take(transfer, offer, begin_s)?;
                continue;
            }
            // Not every note is an event: offers may be early.
            match self.seat.read(timeout.saturating_sub(begin.elapsed()))? {
                Some(note) => self.open(note)?,
                None => return Ok(None),
            }
        }
    }
}

impl Meeting for Local<'_> {
    meets_by!(seat);

    fn barrier(&mut self, word: &[u8]) -> Result<Vec<Vec<u8>>, Ended> {
        self.seat.barrier(word)
    }
}
