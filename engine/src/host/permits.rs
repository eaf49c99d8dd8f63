//! A number of places to work at: so that a codec op has a core of its own while it is measured.

use crate::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Places that are free.
#[derive(Debug)]
pub struct Permits {
    free: Mutex<usize>,
    freed: Condvar,
}

/// A place that is taken until this is dropped.
#[derive(Debug)]
pub(crate) struct Permit<'a>(&'a Permits);

impl Permits {
    /// So many places, at least one.
    pub fn new(count: usize) -> Self {
        Self { free: Mutex::new(count.max(1)), freed: Condvar::new() }
    }

    /// Waits for a place.
    pub(crate) fn take(&self) -> Permit<'_> {
        let mut free = self.lock();
        while *free == 0 {
            free = self.freed.wait(free).unwrap_or_else(PoisonError::into_inner);
        }
        *free -= 1;
        Permit(self)
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        *self.0.lock() += 1;
        self.0.freed.notify_one();
    }
}
