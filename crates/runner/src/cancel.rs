//! Ctrl-C and SIGTERM: one flag that every long loop looks at, and the end of the process where nothing is to be cleaned up.

use std::io::{Write as _, stderr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Exit code of a process that Ctrl-C stopped, as shells count it: 128 + SIGINT.
pub const STOPPED: u8 = 130;

/// Whether the user asked to stop. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Cancel {
    flag: Arc<AtomicBool>,
    /// How many have something to clean up.
    holds: Arc<Mutex<usize>>,
}

/// Somebody has something to clean up: until this is dropped, a signal sets the flag and does not end the process.
#[derive(Debug)]
#[must_use = "dropped at once, it holds nothing"]
pub struct Hold {
    holds: Arc<Mutex<usize>>,
}

fn lock(holds: &Mutex<usize>) -> MutexGuard<'_, usize> {
    // A number is never half-changed.
    holds.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Hold {
    fn drop(&mut self) {
        *lock(&self.holds) -= 1;
    }
}

impl Cancel {
    /// A flag that nothing sets but [`Self::cancel`].
    pub fn new() -> Self {
        Self::default()
    }

    /// A flag that Ctrl-C and SIGTERM set. The process ends at once, with [`STOPPED`], if nothing [holds](Self::hold) it: while it
    /// reads, plans or prints there is nothing to clean up, and it may wait for a device that never answers. Otherwise a second
    /// signal ends it. To be called once per process.
    ///
    /// # Errors
    /// If the system refuses a signal handler.
    pub fn on_ctrl_c() -> Result<Self, ctrlc::Error> {
        let cancel = Self::new();
        let handler = cancel.clone();
        ctrlc::set_handler(move || {
            let is_second = handler.is_cancelled();
            handler.cancel();
            // Kept until the process has ended, so that nobody begins what would have to be cleaned up.
            let holds = lock(&handler.holds);
            if *holds == 0 && !is_second {
                // Whether anybody reads it does not matter.
                let _ = writeln!(stderr(), "error: stopped");
            }
            if *holds == 0 || is_second {
                std::process::exit(STOPPED.into());
            }
        })?;
        Ok(cancel)
    }

    /// Keeps a signal from ending the process until the returned guard is dropped: for code that leaves something behind
    /// otherwise, and looks at the flag.
    pub fn hold(&self) -> Hold {
        *lock(&self.holds) += 1;
        Hold { holds: Arc::clone(&self.holds) }
    }

    /// Asks everything to stop.
    pub fn cancel(&self) {
        self.flag.store(true, Ordering::Relaxed);
    }

    /// Whether the user asked to stop.
    pub fn is_cancelled(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }

    /// The flag itself, for threads that outlive this.
    pub(crate) fn shared_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.flag)
    }

    /// The flag itself, for executors.
    pub fn flag(&self) -> &AtomicBool {
        &self.flag
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_are_counted() {
        let cancel = Cancel::new();
        let (first, second) = (cancel.hold(), cancel.clone().hold());
        assert_eq!(*lock(&cancel.holds), 2);
        drop(first);
        drop(second);
        assert_eq!(*lock(&cancel.holds), 0);
        cancel.cancel();
        assert!(cancel.is_cancelled());
    }
}
