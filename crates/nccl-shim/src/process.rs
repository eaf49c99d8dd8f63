//! State of the process, begun anew in a child that `fork` has made: there the thread that writes the journal is gone, and locks may be held
//! by threads that are gone as well.

#![allow(unsafe_code, reason = "functions of C are registered")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use crate::communicators::Communicators;
use crate::journal::Journal;
use crate::sample::Sampler;
use crate::sync::Gpus;

/// State of the process. It is never dropped.
pub(crate) struct Process {
    pub(crate) communicators: Communicators,
    pub(crate) journal: Journal,
    pub(crate) sampler: Sampler,
    pub(crate) gpus: Gpus,
    /// Whether a parent had such a state.
    pub(crate) is_forked: bool,
}

static PROCESS: AtomicPtr<Process> = AtomicPtr::new(null_mut());
static IS_FORKED: AtomicBool = AtomicBool::new(false);

impl Process {
    /// The state of this process.
    pub(crate) fn get() -> &'static Self {
        let known = PROCESS.load(Ordering::Acquire);
        // SAFETY: it is null or a state that is never freed.
        unsafe { known.as_ref() }.unwrap_or_else(Self::begin)
    }

    fn begin() -> &'static Self {
        static REGISTERED: Once = Once::new();
        REGISTERED.call_once(|| {
            // SAFETY: both functions take nothing and are there as long as the process, which does not unload this library.
            unsafe {
                libc::pthread_atfork(None, None, Some(after_fork));
                libc::atexit(at_exit);
            }
        });
        let (journal, written) = Journal::new();
        let is_forked = IS_FORKED.load(Ordering::Relaxed);
        let (communicators, sampler, gpus) = (Communicators::default(), Sampler::default(), Gpus::default());
        let own = Self { communicators, journal, sampler, gpus, is_forked };
        let own = Box::into_raw(Box::new(own));
        match PROCESS.compare_exchange(null_mut(), own, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                // SAFETY: it is never freed.
                let own: &'static Self = unsafe { &*own };
                own.journal.start(own, written);
                own
            }
            Err(other) => {
                // SAFETY: nobody else has seen this one; the other is never freed.
                unsafe {
                    drop(Box::from_raw(own));
                    &*other
                }
            }
        }
    }
}

extern "C" fn after_fork() {
    if !PROCESS.swap(null_mut(), Ordering::AcqRel).is_null() {
        IS_FORKED.store(true, Ordering::Relaxed);
    }
}

extern "C" fn at_exit() {
    // SAFETY: it is null or a state that is never freed.
    if let Some(process) = unsafe { PROCESS.load(Ordering::Acquire).as_ref() } {
        guarded(|| process.journal.finish());
    }
}

/// Runs what must not end the process, whatever happens in it.
pub(crate) fn guarded<T>(work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()
}

/// Writes a line to stderr, if it can be written. It goes there directly: a process may have been forked while another thread had the lock of
/// the standard library's.
pub(crate) fn tell(text: &str) {
    let line = format!("zipwire-nccl: {text}\n");
    // SAFETY: there are so many bytes.
    unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) };
}
