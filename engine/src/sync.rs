//! Locks, channels and atomics from one place: the standard library's, or in tests under `--cfg shuttle` those of a checker which decides at
//! every use which thread goes on ([`interleavings`](crate::interleavings)). There, waits have no timeouts: a thread that waits for nothing hangs,
//! and is found.

#[cfg(not(all(test, shuttle)))]
pub(crate) use std::sync::{
    Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic, mpsc,
};

#[cfg(all(test, shuttle))]
pub(crate) use shuttle::sync::{
    Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic, mpsc,
};
