//! Lets points run at the same time as long as all of them together fit into memory.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Bytes that are free to be used.
#[derive(Debug)]
pub(crate) struct Admission {
    /// `None` if it is not known.
    total: Option<u64>,
    used: Mutex<u64>,
    released: Condvar,
}

/// Bytes in use, until this is dropped.
#[derive(Debug)]
pub(crate) struct Admitted<'a> {
    admission: &'a Admission,
    bytes: u64,
}

impl Admission {
    pub(crate) fn new(total: Option<u64>) -> Self {
        Self { total, used: Mutex::new(0), released: Condvar::new() }
    }

    /// Waits until `bytes` are free, or until nothing else is in use: what never fits is refused elsewhere.
    pub(crate) fn wait(&self, bytes: u64) -> Admitted<'_> {
        let mut used = self.used();
        while *used > 0 && self.total.is_some_and(|total| used.saturating_add(bytes) > total) {
            used = self.released.wait(used).unwrap_or_else(PoisonError::into_inner);
        }
        *used = used.saturating_add(bytes);
        Admitted { admission: self, bytes }
    }

    fn used(&self) -> MutexGuard<'_, u64> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        let mut used = self.admission.used();
        *used = used.saturating_sub(self.bytes);
        drop(used);
        self.admission.released.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn no_more_is_in_use_than_there_is() {
        let admission = Admission::new(Some(10));
        let (in_use, most) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let admitted = admission.wait(4);
                        let now = in_use.fetch_add(4, Ordering::SeqCst) + 4;
                        most.fetch_max(now, Ordering::SeqCst);
                        std::thread::yield_now();
                        in_use.fetch_sub(4, Ordering::SeqCst);
                        drop(admitted);
                    }
                });
            }
        });
        assert_eq!(most.into_inner(), 8, "two at once, never three");
    }

    #[test]
    fn what_never_fits_runs_alone() {
        let admission = Admission::new(Some(10));
        drop(admission.wait(11));
        drop(admission.wait(11));
        assert_eq!(*admission.used(), 0);
    }
}
