//! Work on several threads, with progress reports and cancellation.

use std::num::NonZero;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::file::FileError;

/// Threads, cancellation and progress of a piece of work.
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
    /// All threads of the machine, never cancelled, no progress reports.
    fn default() -> Self {
        let threads = std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
        Self { threads, cancelled: &|| false, done: &|_| () }
    }
}

impl Watch<'_> {
    /// Asks whether to stop.
    ///
    /// # Errors
    /// [`FileError::Cancelled`].
    pub fn go_on(&self) -> Result<(), FileError> {
        if (self.cancelled)() { Err(FileError::Cancelled) } else { Ok(()) }
    }

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
                self.go_on()?;
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
        let (turn, changed) =
            (Mutex::new(Turn { number: 0, common, is_over: false, failure: None }), Condvar::new());
        let run = || -> Result<(), E> {
            let _end = EndsAll { turn: &turn, changed: &changed };
            let mut workpiece = P::default();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count || lock(&turn).is_over {
                    return Ok(());
                }
                self.go_on()?;
                prepare(number, &mut workpiece)?;
                let is_waiting = |turn: &mut Turn<S, E>| turn.number != number && !turn.is_over;
                let guard = changed.wait_while(lock(&turn), is_waiting);
                let mut guard = guard.unwrap_or_else(PoisonError::into_inner);
                if guard.is_over {
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
                let mut turn = lock(&turn);
                turn.failure.get_or_insert(error);
                turn.is_over = true;
                changed.notify_all();
            }
        });
        let Turn { common, failure, .. } = turn.into_inner().unwrap_or_else(PoisonError::into_inner);
        failure.map_or(Ok(common), Err)
    }
}

/// Shared state of [`Watch::in_turn`]: the number whose turn it is, and what all have in common.
struct Turn<S, E> {
    number: u64,
    common: S,
    /// Whether one has failed or panicked: its turn never ends, so nobody waits for it.
    is_over: bool,
    failure: Option<E>,
}

/// Ends the others where its thread panics.
struct EndsAll<'a, S, E> {
    turn: &'a Mutex<Turn<S, E>>,
    changed: &'a Condvar,
}

impl<S, E> Drop for EndsAll<'_, S, E> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            lock(self.turn).is_over = true;
            self.changed.notify_all();
        }
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What a thread that panics has left is not used: the scope passes the panic on.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl std::fmt::Debug for Watch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("threads", &self.threads).finish_non_exhaustive()
    }
}

/// Runs `work` on so many threads, of which the caller's is one; on fewer, if the system refuses some.
pub(crate) fn on_threads(count: usize, work: impl Fn() + Sync) {
    std::thread::scope(|scope| {
        for _ in 1..count {
            if std::thread::Builder::new().spawn_scoped(scope, &work).is_err() {
                break;
            }
        }
        work();
    });
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    fn watch() -> Watch<'static> {
        Watch { threads: NonZero::new(4).unwrap(), ..Watch::default() }
    }

    #[test]
    fn work_is_taken_in_turn() {
        let prepare = |number, workpiece: &mut u64| {
            *workpiece = number * number;
            Ok(())
        };
        let take = |number, workpiece: &u64, all: &mut Vec<u64>| {
            all.push(*workpiece);
            Ok(number)
        };
        let finish = |workpiece: &u64, number: u64| {
            assert_eq!(*workpiece, number * number);
            Ok::<_, FileError>(())
        };
        for count in [0, 1, 2, 1000] {
            let all = watch().in_turn(count, Vec::new(), prepare, take, finish).unwrap();
            assert_eq!(all, (0..count).map(|number| number * number).collect::<Vec<_>>());
        }
    }

    /// Nobody waits for a turn that does not end.
    #[test]
    fn errors_and_panics_end_all() {
        let fail = |number: u64, _: &mut ()| match number {
            5 => Err(FileError::Cancelled),
            _ => Ok(()),
        };
        let (take, finish) = (|_, _: &(), _: &mut ()| Ok(()), |_: &(), ()| Ok(()));
        assert!(matches!(watch().in_turn(1000, (), fail, take, finish), Err(FileError::Cancelled)));
        let panic = |number: u64, _: &mut ()| {
            assert!(number != 5, "the fifth panics");
            Ok::<_, FileError>(())
        };
        let ends = AssertUnwindSafe(|| watch().in_turn(1000, (), panic, take, finish));
        assert!(catch_unwind(ends).is_err());
    }
}
