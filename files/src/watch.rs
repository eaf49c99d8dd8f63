//! How long work is watched and stopped.

use std::num::NonZero;

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

impl std::fmt::Debug for Watch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("threads", &self.threads).finish_non_exhaustive()
    }
}
