//! What the rank threads share: their memory, and what they write to one another.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Instant;

use zipwire_schedule::plan::{CallKey, Library, Plan, Region, TransferKey};
use zipwire_schedule::{BufferId, OpId, Rank};

use crate::chunks::POISON;
use crate::meeting::{Mail, Meeting};

/// The sender's end of a transfer, on offer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    pub(super) key: TransferKey,
    pub(super) content: Offered,
    /// Of the content.
    pub(super) checksum: u64,
}

/// What the receiver takes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Offered {
    /// Bytes in the sender's memory.
    Bytes(Region),
    /// A size.
    Size(u64),
    /// Bytes in the sender's memory, and a size behind them.
    Announced(Region, u64),
}

/// A note from one rank to another.
#[derive(Debug)]
pub(super) enum Note {
    /// The sender is ready. Nothing moves before the receiver is too.
    Offer(Offer),
    /// A sender announces a transfer, or a receiver has its end on offer. Sent where the order of the exchange follows
    /// peers.
    Ready(TransferKey),
    /// The receiver has its end on offer, too: the transfer is under way. Sent where that slows the sender's compute.
    Begun { key: TransferKey, begin_s: f64 },
    /// The last byte has come over the paced links: the receiver takes the transfer.
    Arrived { key: TransferKey, begin_s: f64 },
    /// The receiver has taken the transfer.
    Taken { key: TransferKey, begin_s: f64, end_s: f64 },
    /// All ranks have come to the same point of a call of the library: the last one says so, to itself, too.
    Met { key: CallKey, at_s: f64, guests: Arc<[Guest]> },
}

/// A rank at a point of a call of the library.
#[derive(Clone, Copy, Debug)]
pub(super) struct Guest {
    pub(super) rank: Rank,
    pub(super) op: OpId,
    /// The size that goes with what it gives, if one does.
    pub(super) size: Option<u64>,
}

/// Buffers of one rank. A rank writes its own; peers read from them what was offered.
pub(super) struct Memory(Vec<RwLock<Box<[u8]>>>);

impl Memory {
    pub(super) fn new(capacities: impl Iterator<Item = u64>) -> Self {
        let buffer = |bytes| RwLock::new(vec![POISON; index(bytes)].into_boxed_slice());
        Self(capacities.map(buffer).collect())
    }

    pub(super) fn read(&self, buffer: BufferId) -> RwLockReadGuard<'_, Box<[u8]>> {
        self.0[buffer.index()].read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn write(&self, buffer: BufferId) -> RwLockWriteGuard<'_, Box<[u8]>> {
        self.0[buffer.index()].write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Overwrites a region, so that stale bytes cannot pass for new ones.
    pub(super) fn poison(&self, region: &Region) {
        self.write(region.buffer)[range(region)].fill(POISON);
    }
}

/// Byte range of a region in its buffer.
pub(super) fn range(region: &Region) -> std::ops::Range<usize> {
    index(region.offset)..index(region.end())
}

fn index(bytes: u64) -> usize {
    usize::try_from(bytes).expect("planned regions fit into memory")
}

/// A buffer to read from and one to write to.
pub(super) type Locked<'a> = (RwLockReadGuard<'a, Box<[u8]>>, RwLockWriteGuard<'a, Box<[u8]>>);

/// Shared by all ranks of one iteration.
pub(super) struct Fabric<'a> {
    meeting: Meeting<'a, Note>,
    plan: &'a Plan,
    pub(super) memories: &'a [Memory],
    /// Who has come to the next point of each call of the library.
    calls: Mutex<HashMap<CallKey, Vec<Guest>>>,
}

/// A buffer of a rank. The order of these is the order of locking.
pub(super) type Place = (Rank, BufferId);

impl<'a> Fabric<'a> {
    pub(super) fn new(
        plan: &'a Plan,
        memories: &'a [Memory],
        epoch: Instant,
        cancel: &'a AtomicBool,
    ) -> (Self, Vec<Receiver<Mail<Note>>>) {
        let (meeting, inboxes) = Meeting::new(plan.programs.len(), epoch, cancel);
        (Self { meeting, plan, memories, calls: Mutex::default() }, inboxes)
    }

    /// A rank comes to the next point of a call. All guests in rank order, if it is the last one.
    pub(super) fn join_call(&self, key: CallKey, guest: Guest) -> Option<Arc<[Guest]>> {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let guests = calls.entry(key).or_default();
        guests.push(guest);
        if guests.len() < self.memories.len() {
            return None;
        }
        let mut guests = calls.remove(&key).unwrap_or_default();
        guests.sort_unstable_by_key(|guest| guest.rank);
        Some(guests.into())
    }

    /// The guest's side of the call that it has come to.
    pub(super) fn library(&self, guest: &Guest) -> &'a Library {
        let kind = &self.plan.programs[guest.rank.index()].ops[guest.op.index()].kind;
        kind.library().expect("guests come to a call")
    }

    /// Locks one buffer for reading and another for writing, always in the same order on all ranks: otherwise two ranks
    /// could each hold what the other one waits for.
    ///
    /// # Panics
    /// If both are the same.
    pub(super) fn lock(&self, from: Place, to: Place) -> Locked<'_> {
        assert_ne!(from, to, "an op reads and writes different buffers");
        let read = || self.memories[from.0.index()].read(from.1);
        let write = || self.memories[to.0.index()].write(to.1);
        if from < to {
            let source = read();
            (source, write())
        } else {
            let target = write();
            (read(), target)
        }
    }
}

impl<'a> Deref for Fabric<'a> {
    type Target = Meeting<'a, Note>;

    fn deref(&self) -> &Meeting<'a, Note> {
        &self.meeting
    }
}
