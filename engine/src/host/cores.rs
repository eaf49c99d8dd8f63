//! Cores of this machine: permits, so that a codec op has a core of its own while it is measured, and the CPU time of a thread.

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

/// Seconds for which the calling thread has run on a core. Only differences on one thread mean something.
#[cfg(unix)]
pub(crate) fn cpu_s() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Seconds that have passed: what comes nearest where the system is not asked how long a thread has run.
#[cfg(not(unix))]
pub(crate) fn cpu_s() -> f64 {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    START.get_or_init(std::time::Instant::now).elapsed().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn sleeping_is_no_work() {
        let begin_s = cpu_s();
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(cpu_s() - begin_s < 0.025, "slept, and took {} s of a core", cpu_s() - begin_s);
    }

    #[test]
    fn work_takes_time() {
        let begin_s = cpu_s();
        let sum = (0..10_000_000_u64).fold(0, |sum: u64, i| std::hint::black_box(sum.rotate_left(3) ^ i));
        assert!(cpu_s() > begin_s, "{sum} came for nothing");
    }
}
