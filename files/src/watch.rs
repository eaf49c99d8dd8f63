//! Work on several threads that somebody watches and may stop.

use std::num::NonZero;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::FileError;

/// How work is done, and who looks on.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    /// Threads that code.
    pub threads: NonZero<usize>,
    /// Whether to stop: asked for each piece of about a MiB.
    pub cancelled: &'a (dyn Fn() -> bool + Sync),
    /// Told of bytes of the uncompressed file as they are done.
    pub done: &'a (dyn Fn(u64) + Sync),
}

impl Default for Watch<'_> {
    /// As many threads as the machine has, nobody looks on.
    fn default() -> Self {
        let threads = std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
        Self { threads, cancelled: &|| false, done: &|_| () }
    }
}

impl Watch<'_> {
    /// Does work of these numbers, each once, on as many threads as are asked for, each with a buffer of its own.
    ///
    /// # Errors
    /// The first one; the other threads then end with what they have begun.
    pub fn for_each<E: From<FileError> + Send>(
        &self,
        count: usize,
        work: impl Fn(usize, &mut Vec<u8>) -> Result<(), E> + Sync,
    ) -> Result<(), E> {
        let (next, failure) = (AtomicUsize::new(0), Mutex::new(None));
        let run = || -> Result<(), E> {
            let mut buffer = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    return Ok(());
                }
                if (self.cancelled)() {
                    return Err(FileError::Cancelled.into());
                }
                work(number, &mut buffer)?;
            }
        };
        on_threads(self.threads.get().min(count), || {
            if let Err(error) = run() {
                lock(&failure).get_or_insert(error);
                next.store(count, Ordering::Relaxed);
            }
        });
        failure.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }

    /// Does work of these numbers, each once, on as many threads as are asked for, each with a workpiece of its own: `prepare` in any order, then
    /// `take` in the order of the numbers, with what all have in common, and then `finish` in any order again, with what was taken. So what
    /// is written by several threads has its place by what is in front of it, and there are as many workpieces in memory as there are threads.
    ///
    /// # Errors
    /// The first one; the other threads then end with what they have begun.
    pub fn in_turn<P: Default, S: Send, T, E: From<FileError> + Send>(
        &self,
        count: u64,
        common: S,
        prepare: impl Fn(u64, &mut P) -> Result<(), E> + Sync,
        take: impl Fn(u64, &P, &mut S) -> Result<T, E> + Sync,
        finish: impl Fn(&P, T) -> Result<(), E> + Sync,
    ) -> Result<S, E> {
        let next = AtomicU64::new(0);
        let (turn, changed) = (Mutex::new(Turn { number: 0, common, failure: None }), Condvar::new());
        let run = || -> Result<(), E> {
            let mut workpiece = P::default();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count || lock(&turn).failure.is_some() {
                    return Ok(());
                }
                if (self.cancelled)() {
                    return Err(FileError::Cancelled.into());
                }
                prepare(number, &mut workpiece)?;
                let is_waiting = |turn: &mut Turn<S, E>| turn.number != number && turn.failure.is_none();
                let guard = changed.wait_while(lock(&turn), is_waiting);
                let mut guard = guard.unwrap_or_else(PoisonError::into_inner);
                if guard.failure.is_some() {
                    return Ok(());
                }
                let taken = take(number, &workpiece, &mut guard.common)?;
                guard.number += 1;
                drop(guard);
                changed.notify_all();
                finish(&workpiece, taken)?;
            }
        };
        on_threads(self.threads.get().min(usize::try_from(count).unwrap_or(usize::MAX)), || {
            if let Err(error) = run() {
                lock(&turn).failure.get_or_insert(error);
                changed.notify_all();
            }
        });
        let Turn { common, failure, .. } = turn.into_inner().unwrap_or_else(PoisonError::into_inner);
        failure.map_or(Ok(common), Err)
    }
}

/// Whose turn it is.
struct Turn<S, E> {
    number: u64,
    common: S,
    failure: Option<E>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A thread that panics ends them all: the scope passes it on.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl std::fmt::Debug for Watch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("threads", &self.threads).finish_non_exhaustive()
    }
}

/// Runs `work` on so many threads: on the caller's, if one is enough.
pub(crate) fn on_threads(count: usize, work: impl Fn() + Sync) {
    if count == 1 {
        return work();
    }
    std::thread::scope(|scope| {
        for _ in 0..count {
            scope.spawn(&work);
        }
    });
}
