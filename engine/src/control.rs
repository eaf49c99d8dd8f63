//! Meeting place of the ranks of one process: their inboxes, barriers and reports, and the news that the run is over; and a thread for every rank.
//! The contents of envelopes are up to the executor.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use zipwire_schedule::{Failure, FailureKind, Rank, RankEnd};

use crate::report::RankReport;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::mpsc::{Receiver, Sender, channel};
use crate::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// An entry of a rank's inbox.
#[derive(Debug)]
pub(crate) enum Envelope<N> {
    Note(N),
    Abort,
}

/// Shared by all ranks of a run.
pub(crate) struct Control<'a, N> {
    inboxes: Vec<Sender<Envelope<N>>>,
    epoch: Instant,
    cancel: &'a AtomicBool,
    /// Counts everything that ends anywhere; a run in which it stands still is stuck.
    progress: AtomicU64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Words of the ranks that have reached the next barrier.
    words: Vec<Option<Vec<u8>>>,
    /// Words of all ranks at the last barrier.
    last: Vec<Vec<u8>>,
    barriers: u64,
    reports: Vec<Option<RankReport>>,
    is_aborted: bool,
}

impl<'a, N> Control<'a, N> {
    /// That of so many ranks, and the inbox of each. Times count from `epoch`; setting `cancel` ends it.
    pub(crate) fn new(
        ranks: usize,
        epoch: Instant,
        cancel: &'a AtomicBool,
    ) -> (Self, Vec<Receiver<Envelope<N>>>) {
        Self::with_listeners(ranks, 0, epoch, cancel)
    }

    /// Like [`Self::new`], with further inboxes behind those of ranks, for threads that take part in no barrier and report nothing.
    pub(crate) fn with_listeners(
        ranks: usize,
        others: usize,
        epoch: Instant,
        cancel: &'a AtomicBool,
    ) -> (Self, Vec<Receiver<Envelope<N>>>) {
        let (inboxes, receivers) = (0..ranks + others).map(|_| channel()).unzip();
        let state = State {
            words: vec![None; ranks],
            reports: (0..ranks).map(|_| None).collect(),
            ..State::default()
        };
        let (progress, state, changed) = (AtomicU64::new(0), Mutex::new(state), Condvar::new());
        (Self { inboxes, epoch, cancel, progress, state, changed }, receivers)
    }

    pub(crate) fn now_s(&self) -> f64 {
        self.epoch.elapsed().as_secs_f64()
    }

    /// Puts a note into a rank's inbox; `false` if the rank has ended.
    pub(crate) fn send(&self, to: Rank, note: N) -> bool {
        self.inboxes[to.index()].send(Envelope::Note(note)).is_ok()
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }

    pub(crate) fn count_progress(&self) {
        self.progress.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn progress(&self) -> u64 {
        self.progress.load(Ordering::Relaxed)
    }

    /// Waits until all ranks have come here as often as this one; what each said, or nothing if the run has failed.
    pub(crate) fn barrier(&self, rank: Rank, word: &[u8]) -> Option<Vec<Vec<u8>>> {
        let mut state = self.state();
        let number = state.barriers;
        state.words[rank.index()] = Some(word.to_vec());
        if state.words.iter().all(Option::is_some) {
            let State { words, last, barriers, .. } = &mut *state;
            *last = words.iter_mut().filter_map(Option::take).collect();
            *barriers += 1;
            self.changed.notify_all();
        }
        while state.barriers == number && !state.is_aborted {
            state = self.wait(state);
        }
        // Nobody comes to the next barrier before all have left this one: `last` is still what was said here.
        (state.barriers > number).then(|| state.last.clone())
    }

    pub(crate) fn abort(&self) {
        self.state().is_aborted = true;
        self.changed.notify_all();
        for inbox in &self.inboxes {
            // A rank that has ended needs no note.
            let _ = inbox.send(Envelope::Abort);
        }
    }

    pub(crate) fn is_aborted(&self) -> bool {
        self.state().is_aborted
    }

    /// Keeps what a rank reports of an iteration. If that of the one before has not been collected, the run has failed: then it
    /// counts if the rank has failed by itself, and not if it was told so.
    pub(crate) fn deposit(&self, report: RankReport) {
        let mut state = self.state();
        let kept = &mut state.reports[report.rank.index()];
        if kept.as_ref().is_none_or(|kept| kept.failed.is_none() && report.has_failed_itself()) {
            *kept = Some(report);
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Waits for the reports of all ranks of an iteration; in rank order.
    pub(crate) fn collect(&self) -> Vec<RankReport> {
        let mut state = self.state();
        while state.reports.iter().any(Option::is_none) {
            state = self.wait(state);
        }
        state.reports.iter_mut().filter_map(Option::take).collect()
    }

    fn wait<'s>(&self, state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs every rank on a thread of its own; what each returns. Should the system refuse a thread, the run ends, and ranks that
/// have none report why.
pub(crate) fn run_all<N: Send, R: Send>(
    control: &Control<'_, N>,
    inboxes: Vec<Receiver<Envelope<N>>>,
    run: impl Fn(Rank, Receiver<Envelope<N>>) -> R + Sync,
) -> Vec<R> {
    let run = &run;
    let rank_count = u32::try_from(inboxes.len()).expect("ranks are counted in 32 bits");
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for (rank, inbox) in (0..).map(Rank).zip(inboxes) {
            let thread = std::thread::Builder::new().name(format!("rank {rank}"));
            match thread.spawn_scoped(scope, move || run(rank, inbox)) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    give_up(control, rank..Rank(rank_count), &error);
                    break;
                }
            }
        }
        let join =
            |thread: std::thread::ScopedJoinHandle<'_, _>| thread.join().expect("ranks catch their panics");
        threads.into_iter().map(join).collect()
    })
}

/// Why there is no thread, and which limits there may be.
pub(crate) fn refusal(error: &std::io::Error) -> String {
    format!("{error}; `ulimit -u` or `ulimit -v`, or the container's limit of processes, leaves no room")
}

/// Ranks from the first one on, which the system refuses a thread, do not start.
pub(crate) fn give_up<N>(control: &Control<'_, N>, ranks: std::ops::Range<Rank>, error: &std::io::Error) {
    control.abort();
    for rank in (ranks.start.0..ranks.end.0).map(Rank) {
        let (kind, detail) = if rank == ranks.start {
            (FailureKind::Device, format!("the system refuses a thread for it: {}", refusal(error)))
        } else {
            (FailureKind::Cancelled, "it was not started".to_owned())
        };
        let end = RankEnd { failure: Failure::new(rank, None, kind, detail), status: None };
        control.deposit(RankReport::failed(rank, control.now_s(), end));
    }
}
