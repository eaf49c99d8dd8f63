//! Work without the lock of the interpreter, which Ctrl-C interrupts.

use std::num::NonZero;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, available_parallelism};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use zipwire::models::file::Watch;

use crate::errors::{Raise, raise};

/// Time between two looks at signals.
const BETWEEN: Duration = Duration::from_millis(20);
/// Bytes for each thread at least.
const LEAST: usize = 1 << 20;

/// Threads for so many bytes: those that are asked for, or one for each core.
pub(crate) fn threads(asked: Option<usize>, bytes: usize) -> NonZero<usize> {
    let most = asked
        .and_then(NonZero::new)
        .or_else(|| available_parallelism().ok())
        .unwrap_or(NonZero::<usize>::MIN);
    most.min(NonZero::new(bytes / LEAST).unwrap_or(NonZero::<usize>::MIN))
}

/// Does the work while other threads of Python run. A signal whose handler raises stops it, and that exception is the result.
pub(crate) fn watched<T: Send, E: Raise + Send>(
    py: Python<'_>,
    threads: NonZero<usize>,
    work: impl FnOnce(&Watch<'_>) -> Result<T, E> + Send,
) -> PyResult<T> {
    let (caller, stopped) = (thread::current().id(), AtomicBool::new(false));
    let (looked, interrupt) = (Mutex::new(Instant::now()), Mutex::new(None));
    let cancelled = || {
        // Handlers run in the thread of the interpreter; the others are told.
        if thread::current().id() == caller && !stopped.load(Ordering::Relaxed) {
            let mut looked = looked.lock().unwrap_or_else(PoisonError::into_inner);
            if looked.elapsed() >= BETWEEN {
                *looked = Instant::now();
                if let Err(error) = Python::attach(check_signals) {
                    *interrupt.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    stopped.store(true, Ordering::Relaxed);
                }
            }
        }
        stopped.load(Ordering::Relaxed)
    };
    let watch = Watch { threads, cancelled: &cancelled, done: &|_| () };
    let done = py.detach(|| work(&watch));
    match interrupt.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => done.map_err(|error| raise(&error)),
    }
}

/// Runs handlers of signals that have come.
fn check_signals(py: Python<'_>) -> PyResult<()> {
    py.check_signals()
}
