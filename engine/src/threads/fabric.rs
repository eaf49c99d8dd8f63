//! What the rank threads share: their memory, their inboxes, and the news that the run is over.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Instant;

use zipwire_schedule::plan::{Plan, Region, TransferKey};
use zipwire_schedule::{BufferId, Failure, Rank};

/// Fills memory that nobody has written yet. Not zero: zeros are valid payload.
const POISON: u8 = 0xA5;

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
}

/// A note from one rank to another.
#[derive(Debug)]
pub(super) enum Note {
    /// The sender is ready. Nothing moves before the receiver is too.
    Offer(Offer),
    /// A sender announces a transfer, or a receiver has its end on offer. Sent where the order of the exchange follows
    /// peers.
    Ready(TransferKey),
    /// The last byte has come over the paced links: the receiver takes the transfer.
    Arrived { key: TransferKey, begin_s: f64 },
    /// The receiver has taken the transfer.
    Taken { key: TransferKey, begin_s: f64, end_s: f64 },
    /// The run has failed; the first failure is in [`Fabric`].
    Abort,
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
    pub(super) memories: &'a [Memory],
    inboxes: Vec<Sender<Note>>,
    epoch: Instant,
    cancel: &'a AtomicBool,
    /// Counts everything that ends anywhere; a run in which it stands still is stuck.
    progress: AtomicU64,
    state: Mutex<State>,
    started: Condvar,
}

/// What ranks wait for before they start, and why they end early.
#[derive(Default)]
struct State {
    /// Ranks that are ready to start.
    ready: usize,
    first_failure: Option<Failure>,
}

/// A buffer of a rank. The order of these is the order of locking.
pub(super) type Place = (Rank, BufferId);

impl<'a> Fabric<'a> {
    pub(super) fn new(
        plan: &Plan,
        memories: &'a [Memory],
        epoch: Instant,
        cancel: &'a AtomicBool,
    ) -> (Self, Vec<Receiver<Note>>) {
        let (inboxes, receivers) = plan.programs.iter().map(|_| channel()).unzip();
        let fabric = Self {
            memories,
            inboxes,
            epoch,
            cancel,
            progress: AtomicU64::new(0),
            state: Mutex::default(),
            started: Condvar::new(),
        };
        (fabric, receivers)
    }

    pub(super) fn now_s(&self) -> f64 {
        self.epoch.elapsed().as_secs_f64()
    }

    /// Puts a note into a rank's inbox; `false` if the rank is gone.
    pub(super) fn send(&self, to: Rank, note: Note) -> bool {
        self.inboxes[to.index()].send(note).is_ok()
    }

    /// Whether the user asked to stop.
    pub(super) fn is_cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }

    pub(super) fn count_progress(&self) {
        self.progress.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn progress(&self) -> u64 {
        self.progress.load(Ordering::Relaxed)
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

    /// Waits until all ranks have come here or the run has failed. Returns the failure.
    pub(super) fn start(&self) -> Option<Failure> {
        let mut state = self.state();
        state.ready += 1;
        self.started.notify_all();
        while state.ready < self.inboxes.len() && state.first_failure.is_none() {
            state = self.started.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.first_failure.clone()
    }

    /// Ends the run on all ranks. The first failure wins.
    pub(super) fn abort(&self, failure: &Failure) {
        self.state().first_failure.get_or_insert_with(|| failure.clone());
        self.started.notify_all();
        for inbox in &self.inboxes {
            // A rank that has ended needs no note.
            let _ = inbox.send(Note::Abort);
        }
    }

    pub(super) fn first_failure(&self) -> Option<Failure> {
        self.state().first_failure.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
