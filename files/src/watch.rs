//! Work on several threads that somebody watches and may stop.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

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
                failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                next.store(count, Ordering::Relaxed);
            }
        });
        failure.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }
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
