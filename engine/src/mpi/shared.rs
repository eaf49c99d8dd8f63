//! State that the rank's thread and the helper share: the link, driven by whoever holds its lock.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::link::Link;
use super::status::StatusFile;

/// How long a waiting thread polls without a pause after the last message: where each process of the host has a core, and where processes share
/// cores, which working ones need.
const EAGER: Duration = Duration::from_millis(2);
const EAGER_ON_SHARED_CORES: Duration = Duration::from_micros(50);
/// Longest pause between two polls.
const LONGEST_PAUSE: Duration = Duration::from_micros(500);
/// State shared by the rank's thread and the helper.
pub(super) struct Shared {
    pub(super) link: Mutex<Option<Link>>,
    /// Whether the rank's thread drives the link itself.
    pub(super) is_waiting: AtomicBool,
    pub(super) is_over: AtomicBool,
    /// Set when the user wants all to end.
    pub(super) cancel: Arc<AtomicBool>,
    pub(super) status: Mutex<Option<StatusFile>>,
    pub(super) cores: usize,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, Option<Link>> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the status of this process, if there is a status file; `doing` is called only then.
    pub(super) fn note(&self, doing: impl FnOnce() -> String) {
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(status) = status.as_mut() {
            status.write(&doing());
        }
    }

    pub(super) fn keeps_notes(&self) -> bool {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Runs `what` with the locked link.
    pub(super) fn with<R>(&self, what: impl FnOnce(&mut Link) -> R) -> R {
        what(self.lock().as_mut().expect("the link is there until the world ends"))
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }

    /// Drives the link until `found` finds something, or the time is over. `found` sees the link each time something may have come.
    pub(super) fn wait<R>(
        &self,
        limit: Duration,
        mut found: impl FnMut(&mut Link) -> Option<R>,
    ) -> Option<R> {
        self.is_waiting.store(true, Ordering::Relaxed);
        let begin = Instant::now();
        let mut quiet_since = begin;
        let result = loop {
            let (result, has_come, neighbours) = self.with(|link| {
                // What has ended is said by what `found` looks at.
                let has_come = link.advance().unwrap_or(false);
                (found(link), has_come, link.neighbours)
            });
            let now = Instant::now();
            if result.is_some() || now - begin >= limit {
                break result;
            }
            if has_come {
                quiet_since = now;
            }
            let quiet = now - quiet_since;
            let eager = if neighbours <= self.cores { EAGER } else { EAGER_ON_SHARED_CORES };
            if quiet < eager {
                std::thread::yield_now();
            } else {
                std::thread::sleep((quiet / 8).min(LONGEST_PAUSE).min(limit - (now - begin)));
            }
        };
        self.is_waiting.store(false, Ordering::Relaxed);
        result
    }

    /// Keeps messages moving while the rank's thread does something else.
    pub(super) fn help(&self) {
        while !self.is_over.load(Ordering::Relaxed) {
            std::thread::sleep(LONGEST_PAUSE);
            if self.is_waiting.load(Ordering::Relaxed) {
                continue;
            }
            if let Ok(mut link) = self.link.try_lock()
                && let Some(link) = link.as_mut()
            {
                // Whoever looks at the link next finds why.
                let _ = link.advance();
            }
        }
    }
}
