//! Exchanges of one rank: its ends of transfers meet those of its peers.
//!
//! A sender posts where its bytes are and the event behind which they are ready; the receiver's stream waits for that event
//! and pulls; the sender's stream waits for the end of the pull, before what follows may overwrite the bytes. All waiting for
//! bytes is done by the devices. Hosts only wait for one another's notes: a stream cannot wait for what is not recorded yet.
//!
//! Notes are plain data that name places and events of a rank's plan. What these are on the device is looked up in the
//! state of the peer's device, which is in this process; nothing else here reaches beyond the own rank.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use zipwire_kernels::GpuError;
use zipwire_schedule::machine::{Direction, Machine, TransferId};
use zipwire_schedule::plan::TransferKey;
use zipwire_schedule::{Failure, Lane, OpId, Rank};

use super::clock::Clock;
use super::device_state::{DeviceState, Interval};
use super::wire::{End, Moved, Own, Wire, transfers};
use crate::report::{other_content, other_length};
use crate::transport::local::Seat;
use crate::transport::{Ended, Meeting, meets_by};

#[derive(Clone, Copy, Debug)]
pub(super) enum PeerMessage {
    /// The sender's bytes are ready behind an event.
    Post(Post),
    /// The receiver's copy is queued between two events: those of this one of its receives.
    Taken(TransferKey, TransferId),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Post {
    key: TransferKey,
    end: End,
    /// The exchange of the sender, behind whose event the bytes are ready.
    op: OpId,
}

/// The exchanges of a rank that have begun, and their transfers.
#[derive(Debug, Default)]
struct Exchanges {
    /// Transfers of each open exchange that are not queued yet.
    left: HashMap<OpId, usize>,
    /// Receives that wait for a post.
    awaited: HashMap<TransferKey, TransferId>,
    /// Posts of peers that this rank does not wait for yet.
    early: HashMap<TransferKey, Post>,
    /// Sends that wait to be taken.
    posted: HashMap<TransferKey, TransferId>,
    /// Receives that are queued, in the order of their streams.
    receiving: VecDeque<Moving>,
    /// Sends whose copies are queued at the receivers.
    sending: VecDeque<Moving>,
    /// Exchanges whose transfers are all queued.
    queued: VecDeque<OpId>,
}

#[derive(Debug)]
struct Moving {
    id: TransferId,
    lane: Lane,
    interval: Interval,
    /// On whose device the events are.
    receiver: Rank,
}

/// The clock of a rank's GPU in an iteration.
pub(super) type ClockSlot = Mutex<Option<Arc<Clock>>>;

/// One rank's end of copies between the GPUs of a process.
pub(super) struct Copies<'a> {
    seat: Seat<'a, PeerMessage>,
    /// States of all ranks, which are in this process.
    peers: &'a [DeviceState],
    /// By GPU: where the first rank on it leaves its clock before an iteration.
    slots: &'a [ClockSlot],
    /// Clocks of all ranks in this iteration.
    clocks: Vec<Arc<Clock>>,
    exchanges: Exchanges,
}

impl<'a> Copies<'a> {
    pub(super) fn new(seat: Seat<'a, PeerMessage>, peers: &'a [DeviceState], slots: &'a [ClockSlot]) -> Self {
        Self { seat, peers, slots, clocks: Vec::new(), exchanges: Exchanges::default() }
    }

    fn pull(&mut self, own: &Own<'_>, machine: &Machine, id: TransferId, post: Post) -> Result<(), Failure> {
        let Post { key, end: from, op } = post;
        let to = End::of(machine, id);
        let shape = |end: End| (end.bytes.is_some(), end.size.is_some());
        if shape(from) != shape(to) {
            return Err(other_content(machine, id.op, key.src));
        }
        let sender = &self.peers[key.src.index()];
        let (from, to) = (from.places(sender), to.places(own.device_state));
        let copies: Vec<_> = from.into_iter().zip(to).collect();
        if let Some((from, to)) = copies.iter().find(|(from, to)| from.len() != to.len()) {
            return Err(other_length(machine, id.op, key.src, from.len(), to.len()));
        }
        let lane = machine.op(id.op).kind.lane();
        let stream = own.device_state.stream(lane);
        let interval = own.device_state.op(id.op).receives[id.index as usize].clone();
        let queue = || -> Result<(), GpuError> {
            stream.wait(&sender.op(op).ready)?;
            stream.record(&interval.begin)?;
            copies.iter().try_for_each(|(from, to)| stream.copy(from, to))?;
            stream.record(&interval.end)
        };
        queue().map_err(|error| own.broken(Some(id.op), &error))?;
        self.exchanges.receiving.push_back(Moving { id, lane, interval, receiver: key.dst });
        self.has_queued(id.op);
        self.tell(own, machine, id.op, key.src, PeerMessage::Taken(key, id))
    }

    fn receive(&mut self, own: &Own<'_>, machine: &Machine, note: PeerMessage) -> Result<(), Failure> {
        match note {
            PeerMessage::Post(post) => match self.exchanges.awaited.remove(&post.key) {
                Some(id) => self.pull(own, machine, id, post),
                None => {
                    let key = post.key;
                    match self.exchanges.early.insert(key, post) {
                        None => Ok(()),
                        Some(_) => Err(own.failure_report.confused(machine, &key, "was offered twice")),
                    }
                }
            },
            PeerMessage::Taken(key, received) => {
                let Some(id) = self.exchanges.posted.remove(&key) else {
                    let what = "was taken without being offered";
                    return Err(own.failure_report.confused(machine, &key, what));
                };
                let interval =
                    self.peers[key.dst.index()].op(received.op).receives[received.index as usize].clone();
                let lane = machine.op(id.op).kind.lane();
                let waits = own.device_state.stream(lane).wait(&interval.end);
                waits.map_err(|error| own.broken(Some(id.op), &error))?;
                self.exchanges.sending.push_back(Moving { id, lane, interval, receiver: key.dst });
                self.has_queued(id.op);
                Ok(())
            }
        }
    }

    /// Counts a transfer that is queued. Once all are, the end of the exchange can be recorded, and others wait for it.
    fn has_queued(&mut self, op: OpId) {
        let left = self.exchanges.left.get_mut(&op).expect("transfers belong to open exchanges");
        *left -= 1;
        if *left == 0 {
            self.exchanges.left.remove(&op);
            self.exchanges.queued.push_back(op);
        }
    }

    fn tell(
        &self,
        own: &Own<'_>,
        machine: &Machine,
        op: OpId,
        to: Rank,
        note: PeerMessage,
    ) -> Result<(), Failure> {
        self.seat.write(to, note).map_err(|ended| own.ended(machine, Some(op), &ended))
    }
}

impl Meeting for Copies<'_> {
    meets_by!(seat);

    fn barrier(&mut self, word: &[u8]) -> Result<Vec<Vec<u8>>, Ended> {
        let words = self.seat.barrier(word)?;
        let clock = |slot: &ClockSlot| slot.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // The first ranks have a GPU each, whose others go by their clocks.
        let firsts: Vec<_> =
            self.slots.iter().map(|slot| clock(slot).expect("ranks set their clocks first")).collect();
        self.clocks = firsts.iter().cycle().take(self.peers.len()).cloned().collect();
        Ok(words)
    }
}

impl Wire for Copies<'_> {
    fn offer_clock(&mut self, clock: &Arc<Clock>) {
        if let Some(slot) = self.slots.get(self.seat.rank.index()) {
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(clock));
        }
        self.exchanges = Exchanges::default();
    }

    fn clock(&self, _: Arc<Clock>) -> Arc<Clock> {
        Arc::clone(&self.clocks[self.seat.rank.index()])
    }

    /// Posts what it sends and waits for what it receives. What its stream has to wait for is queued.
    fn open(&mut self, own: &Own<'_>, machine: &Machine, op: OpId) -> Result<(), Failure> {
        let recorded =
            own.device_state.stream(machine.op(op).kind.lane()).record(&own.device_state.op(op).ready);
        recorded.map_err(|error| own.broken(Some(op), &error))?;
        let ids = transfers(machine, op);
        if ids.is_empty() {
            self.exchanges.queued.push_back(op);
            return Ok(());
        }
        self.exchanges.left.insert(op, ids.len());
        for id in ids {
            let key = machine.key(id);
            match id.direction {
                Direction::Send => {
                    let post = Post { key, end: End::of(machine, id), op };
                    self.exchanges.posted.insert(key, id);
                    self.tell(own, machine, op, key.dst, PeerMessage::Post(post))?;
                }
                Direction::Receive => match self.exchanges.early.remove(&key) {
                    Some(post) => self.pull(own, machine, id, post)?,
                    None => {
                        self.exchanges.awaited.insert(key, id);
                    }
                },
            }
        }
        Ok(())
    }

    fn listen(&mut self, own: &Own<'_>, machine: &Machine, timeout: Duration) -> Result<bool, Failure> {
        let read = self.seat.read(timeout).map_err(|ended| own.ended(machine, None, &ended))?;
        let Some(note) = read else { return Ok(false) };
        self.receive(own, machine, note)?;
        Ok(true)
    }

    fn take_queued(&mut self) -> Option<OpId> {
        self.exchanges.queued.pop_front()
    }

    fn first_open(&self) -> Option<OpId> {
        self.exchanges.left.keys().min().copied()
    }

    fn look(&mut self, _: &Own<'_>, moved: &mut Vec<Moved>) -> Result<(), GpuError> {
        let Self { exchanges: Exchanges { receiving, sending, .. }, clocks, .. } = self;
        for queue in [receiving, sending] {
            // Behind one that has not ended nothing is looked at on its lane.
            let mut busy = [false; Lane::ALL.len()];
            let mut index = 0;
            while let Some(moving) = queue.get(index) {
                let is_busy = &mut busy[moving.lane as usize];
                if *is_busy || !moving.interval.end.has_passed()? {
                    *is_busy = true;
                    index += 1;
                    continue;
                }
                let clock = &clocks[moving.receiver.index()];
                let Interval { begin, end } = &moving.interval;
                let (begin_s, end_s) = (clock.time_s(begin)?, clock.time_s(end)?);
                moved.push(Moved { id: moving.id, begin_s, end_s });
                queue.remove(index);
            }
        }
        Ok(())
    }

    fn has_unreported(&self, op: OpId) -> bool {
        let Exchanges { receiving, sending, .. } = &self.exchanges;
        receiving.iter().chain(sending).any(|moving| moving.id.op == op)
    }
}
