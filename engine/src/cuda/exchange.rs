//! Exchanges of one rank: its ends of transfers meet those of its peers.
//!
//! A sender posts where its bytes are and the event behind which they are ready; the receiver's stream waits for that event
//! and pulls; the sender's stream waits for the end of the pull, before what follows may overwrite the bytes. All waiting for
//! bytes is done by the devices. Hosts only wait for one another's notes: a stream cannot wait for what is not recorded yet.
//!
//! Notes are plain data that name places and events of a rank's plan. What these are on the device is looked up in the
//! state of the peer's device, which is in this process; nothing else here reaches beyond the own rank.

use std::collections::{HashMap, VecDeque};

use zipwire_kernels::{DeviceRegion, GpuError};
use zipwire_schedule::machine::{Direction, Machine, TransferId};
use zipwire_schedule::plan::{Content, OpKind, Region, TransferKey};
use zipwire_schedule::{Failure, Lane, OpId, Rank, SizeId};

use super::backend::CudaBackend;
use super::device_state::{DeviceState, Interval};
use crate::report::{other_content, other_length};
use crate::transport::Ended;

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

/// The bytes of one end of a transfer: a region, a size, or both.
#[derive(Clone, Copy, Debug)]
struct End {
    bytes: Option<Region>,
    size: Option<SizeId>,
}

/// The exchanges of a rank that have begun, and their transfers.
#[derive(Debug, Default)]
pub(super) struct Exchanges {
    /// Transfers of each open exchange that are not queued yet.
    left: HashMap<OpId, usize>,
    /// Receives that wait for a post.
    awaited: HashMap<TransferKey, TransferId>,
    /// Posts of peers that this rank does not wait for yet.
    early: HashMap<TransferKey, Post>,
    /// Sends that wait to be taken.
    posted: HashMap<TransferKey, TransferId>,
    /// Receives that are queued, in the order of their streams.
    pub(super) receiving: VecDeque<Moving>,
    /// Sends whose copies are queued at the receivers.
    pub(super) sending: VecDeque<Moving>,
}

#[derive(Debug)]
pub(super) struct Moving {
    pub(super) id: TransferId,
    pub(super) lane: Lane,
    pub(super) interval: Interval,
    /// On whose device the events are.
    pub(super) receiver: Rank,
}

impl Exchanges {
    pub(super) fn first_open(&self) -> Option<OpId> {
        self.left.keys().min().copied()
    }

    /// Whether transfers of this exchange have not been reported.
    pub(super) fn has_unreported(&self, op: OpId) -> bool {
        self.receiving.iter().chain(&self.sending).any(|moving| moving.id.op == op)
    }
}

impl CudaBackend<'_> {
    /// Posts what it sends and waits for what it receives. What its stream has to wait for is queued.
    pub(super) fn open(&mut self, machine: &Machine, op: OpId) -> Result<(), Failure> {
        let OpKind::Exchange(exchange) = &machine.op(op).kind else {
            unreachable!("only exchanges are opened")
        };
        let device_state = self.device_state();
        let recorded = device_state.stream(machine.op(op).kind.lane()).record(&device_state.op(op).ready);
        recorded.map_err(|error| self.broken(Some(op), &error))?;
        let lists = [(Direction::Send, &exchange.sends), (Direction::Receive, &exchange.receives)];
        let ids = lists.into_iter().flat_map(|(direction, transfers)| {
            let indices = (0..).zip(transfers);
            // Both ends know of empty ones, and leave them out.
            let moving = indices.filter(|(_, transfer)| machine.transfer_bytes(transfer) > 0);
            moving.map(move |(index, _)| TransferId { op, direction, index })
        });
        let ids: Vec<TransferId> = ids.collect();
        self.exchanges.left.insert(op, ids.len());
        for id in ids {
            let key = machine.key(id);
            match id.direction {
                Direction::Send => {
                    let post = Post { key, end: end(machine, id), op };
                    self.exchanges.posted.insert(key, id);
                    self.tell(machine, op, key.dst, PeerMessage::Post(post))?;
                }
                Direction::Receive => match self.exchanges.early.remove(&key) {
                    Some(post) => self.pull(machine, id, post)?,
                    None => {
                        self.exchanges.awaited.insert(key, id);
                    }
                },
            }
        }
        self.close_if_queued(machine, op)
    }

    pub(super) fn receive(&mut self, machine: &Machine, note: PeerMessage) -> Result<(), Failure> {
        match note {
            PeerMessage::Post(post) => match self.exchanges.awaited.remove(&post.key) {
                Some(id) => {
                    self.pull(machine, id, post)?;
                    self.close_if_queued(machine, id.op)
                }
                None => {
                    let key = post.key;
                    match self.exchanges.early.insert(key, post) {
                        None => Ok(()),
                        Some(_) => Err(self.failure_report.confused(machine, &key, "was offered twice")),
                    }
                }
            },
            PeerMessage::Taken(key, received) => {
                let Some(id) = self.exchanges.posted.remove(&key) else {
                    return Err(self.failure_report.confused(
                        machine,
                        &key,
                        "was taken without being offered",
                    ));
                };
                let interval =
                    self.peers[key.dst.index()].op(received.op).receives[received.index as usize].clone();
                let lane = machine.op(id.op).kind.lane();
                let waits = self.device_state().stream(lane).wait(&interval.end);
                waits.map_err(|error| self.broken(Some(id.op), &error))?;
                self.exchanges.sending.push_back(Moving { id, lane, interval, receiver: key.dst });
                self.has_queued(id.op);
                self.close_if_queued(machine, id.op)
            }
        }
    }

    fn pull(&mut self, machine: &Machine, id: TransferId, post: Post) -> Result<(), Failure> {
        let Post { key, end: from, op } = post;
        let to = end(machine, id);
        let shape = |end: End| (end.bytes.is_some(), end.size.is_some());
        if shape(from) != shape(to) {
            return Err(other_content(machine, id.op, key.src));
        }
        let sender = &self.peers[key.src.index()];
        let (from, to) = (from.places(sender), to.places(self.device_state()));
        let copies: Vec<_> = from.into_iter().zip(to).collect();
        if let Some((from, to)) = copies.iter().find(|(from, to)| from.len() != to.len()) {
            return Err(other_length(machine, id.op, key.src, from.len(), to.len()));
        }
        let lane = machine.op(id.op).kind.lane();
        let stream = self.device_state().stream(lane);
        let interval = self.device_state().op(id.op).receives[id.index as usize].clone();
        let queue = || -> Result<(), GpuError> {
            stream.wait(&sender.op(op).ready)?;
            stream.record(&interval.begin)?;
            copies.iter().try_for_each(|(from, to)| stream.copy(from, to))?;
            stream.record(&interval.end)
        };
        queue().map_err(|error| self.broken(Some(id.op), &error))?;
        self.exchanges.receiving.push_back(Moving { id, lane, interval, receiver: key.dst });
        self.has_queued(id.op);
        self.tell(machine, id.op, key.src, PeerMessage::Taken(key, id))
    }

    fn has_queued(&mut self, op: OpId) {
        *self.exchanges.left.get_mut(&op).expect("transfers belong to open exchanges") -= 1;
    }

    /// Once all its transfers are queued, the end of an exchange can be recorded, and others wait for it.
    fn close_if_queued(&mut self, machine: &Machine, op: OpId) -> Result<(), Failure> {
        if self.exchanges.left[&op] > 0 {
            return Ok(());
        }
        self.exchanges.left.remove(&op);
        self.end_queue(machine, op)
    }

    fn tell(&self, machine: &Machine, op: OpId, to: Rank, note: PeerMessage) -> Result<(), Failure> {
        if self.control.send(to, note) {
            return Ok(());
        }
        // Whoever has been told of a failure leaves at once; the note about it is on its way here.
        let ended = if self.control.is_aborted() { Ended::Aborted } else { Ended::Lost(to) };
        Err(self.failure_report.ended(machine, Some(op), &ended))
    }
}

fn end(machine: &Machine, id: TransferId) -> End {
    let transfer = machine.transfer(id).0;
    let bytes = match transfer.content {
        Content::Values(region) | Content::Whole(region) | Content::Announced(region, _) => Some(region),
        Content::Prefix(region, _) | Content::Overflow { region, .. } => {
            Some(Region { len: machine.transfer_bytes(transfer), ..region })
        }
        Content::Size(_) => None,
    };
    End { bytes, size: transfer.content.brings() }
}

impl End {
    fn places(self, device_state: &DeviceState) -> Vec<DeviceRegion> {
        let bytes = self.bytes.map(|region| device_state.place(&region));
        bytes.into_iter().chain(self.size.map(|size| device_state.size(size))).collect()
    }
}
