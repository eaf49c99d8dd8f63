//! Where the ranks of one process meet: the barrier before an iteration, their inboxes, and the news that the run is over.
//! What ranks tell one another otherwise is up to the executor.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use zipwire_schedule::{Failure, Rank};

/// What comes into a rank's inbox.
#[derive(Debug)]
pub(crate) enum Mail<N> {
    /// A note from a peer.
    Note(N),
    /// The run has failed; the first failure is in [`Meeting`].
    Abort,
}

/// Shared by all ranks of one iteration.
pub(crate) struct Meeting<'a, N> {
    inboxes: Vec<Sender<Mail<N>>>,
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

impl<'a, N> Meeting<'a, N> {
    /// A meeting of `ranks`, and the inbox of each. Times count from `epoch`; setting `cancel` ends it.
    pub(crate) fn new(
        ranks: usize,
        epoch: Instant,
        cancel: &'a AtomicBool,
    ) -> (Self, Vec<Receiver<Mail<N>>>) {
        let (inboxes, receivers) = (0..ranks).map(|_| channel()).unzip();
        let (progress, state, started) = (AtomicU64::new(0), Mutex::default(), Condvar::new());
        (Self { inboxes, epoch, cancel, progress, state, started }, receivers)
    }

    pub(crate) fn now_s(&self) -> f64 {
        self.epoch.elapsed().as_secs_f64()
    }

    /// Puts a note into a rank's inbox; `false` if the rank is gone.
    pub(crate) fn send(&self, to: Rank, note: N) -> bool {
        self.inboxes[to.index()].send(Mail::Note(note)).is_ok()
    }

    /// Whether the user asked to stop.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }

    pub(crate) fn count_progress(&self) {
        self.progress.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn progress(&self) -> u64 {
        self.progress.load(Ordering::Relaxed)
    }

    /// Waits until all ranks have come here or the run has failed. Returns the failure.
    pub(crate) fn start(&self) -> Option<Failure> {
        let mut state = self.state();
        state.ready += 1;
        self.started.notify_all();
        while state.ready < self.inboxes.len() && state.first_failure.is_none() {
            state = self.started.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.first_failure.clone()
    }

    /// Ends the run on all ranks. The first failure wins.
    pub(crate) fn abort(&self, failure: &Failure) {
        self.state().first_failure.get_or_insert_with(|| failure.clone());
        self.started.notify_all();
        for inbox in &self.inboxes {
            // A rank that has ended needs no note.
            let _ = inbox.send(Mail::Abort);
        }
    }

    pub(crate) fn first_failure(&self) -> Option<Failure> {
        self.state().first_failure.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
