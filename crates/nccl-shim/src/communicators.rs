//! Communicators: names that all their ranks agree on, and where each stands.

use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use xxhash_rust::xxh3::Xxh3;

use crate::abi::{Comm, IN_PROGRESS, INTERNAL_ERROR, SUCCESS};
use crate::real::real;
use crate::sync::Link;

/// A communicator of this process.
#[derive(Debug, Default)]
pub(crate) struct Communicator {
    /// Hash of what it was made of, the same on all ranks; 0 if that is not known.
    pub(crate) id: u64,
    /// Rank in it and number of ranks, when NCCL has said them.
    ranks: OnceLock<(i32, i32)>,
    /// Whether calls of it block; `false` if that is not known.
    pub(crate) is_blocking: bool,
    /// Communicators that were made of it so far.
    children: AtomicU64,
    /// GPU and memory for its messages, if they are compressed.
    pub(crate) link: OnceLock<Link>,
    has_ended: AtomicBool,
    /// Held by calls that the library makes by itself, so that none of them has a handle that ends meanwhile.
    calls: Mutex<()>,
}

/// Time that the end of a communicator waits for calls of the library. It may be there to end one that hangs.
const PATIENCE: Duration = Duration::from_secs(5);

/// Communicators by their handles.
#[derive(Debug, Default)]
pub(crate) struct Communicators(RwLock<HashMap<usize, Arc<Communicator>>>);

impl Communicators {
    /// The communicator of a handle that the program uses, so that NCCL can say its ranks.
    pub(crate) fn get(&self, comm: Comm) -> Arc<Communicator> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner).get(&(comm as usize)).cloned();
        let known = known.unwrap_or_else(|| self.insert(comm, 0, false));
        known.ask(comm);
        known
    }

    /// Notes a communicator that was made. NCCL is not asked: it may still be at work on it.
    pub(crate) fn insert(&self, comm: Comm, id: u64, is_blocking: bool) -> Arc<Communicator> {
        let made = Arc::new(Communicator { id, is_blocking, ..Communicator::default() });
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(comm as usize, made.clone());
        made
    }

    /// Forgets a communicator that ends, if it is known. Its handle may come again.
    pub(crate) fn remove(&self, comm: Comm) -> Option<Arc<Communicator>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(&(comm as usize))
    }
}

impl Communicator {
    /// Rank in it; -1 while it is not known.
    pub(crate) fn rank(&self) -> i32 {
        self.ranks.get().map_or(-1, |(rank, _)| *rank)
    }

    /// Number of ranks; -1 while it is not known.
    pub(crate) fn rank_count(&self) -> i32 {
        self.ranks.get().map_or(-1, |(_, count)| *count)
    }

    /// Asks NCCL for the ranks, unless they are known. The communicator must be ready.
    pub(crate) fn ask(&self, comm: Comm) {
        if self.ranks.get().is_none()
            && let (Some(rank), Some(count)) = (number_of(comm, true), number_of(comm, false))
        {
            _ = self.ranks.set((rank, count));
        }
    }

    /// Notes that the communicator ends, and waits until no call has its handle.
    pub(crate) fn end(&self) {
        self.has_ended.store(true, Ordering::SeqCst);
        let begin = Instant::now();
        while matches!(self.calls.try_lock(), Err(TryLockError::WouldBlock)) && begin.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Keeps the communicator from ending; `None` if it has ended.
    pub(crate) fn hold(&self) -> Option<MutexGuard<'_, ()>> {
        let held = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        (!self.has_ended.load(Ordering::SeqCst)).then_some(held)
    }

    /// Error that NCCL has met beside the program, `ncclInternalError` if the communicator has ended, or else `ncclSuccess`.
    #[allow(unsafe_code, reason = "NCCL is asked")]
    pub(crate) fn state(&self, comm: Comm) -> c_int {
        let Some(_held) = self.hold() else { return INTERNAL_ERROR };
        let mut state = SUCCESS;
        let function = real!(c"ncclCommGetAsyncError", fn(Comm, *mut c_int));
        // SAFETY: the communicator does not end meanwhile, and there is room for the result.
        match unsafe { function(comm, &raw mut state) } {
            SUCCESS if state == IN_PROGRESS => SUCCESS,
            SUCCESS => state,
            failed => failed,
        }
    }

    /// Name for the next communicator that is made of this one: the same on all ranks that make it.
    pub(crate) fn child(&self, distinction: &[u8]) -> u64 {
        let number = self.children.fetch_add(1, Ordering::Relaxed);
        id_of(&[&self.id.to_le_bytes(), &number.to_le_bytes(), distinction])
    }
}

/// Hash of what a communicator is made of; never 0.
pub(crate) fn id_of(parts: &[&[u8]]) -> u64 {
    let mut hash = Xxh3::new();
    parts.iter().for_each(|part| hash.update(part));
    hash.digest().max(1)
}

/// Rank in a communicator, or its number of ranks; `None` where NCCL cannot say.
#[allow(unsafe_code, reason = "NCCL is asked")]
fn number_of(comm: Comm, is_rank: bool) -> Option<i32> {
    let ask = |number: *mut i32| {
        let function = if is_rank {
            real!(c"ncclCommUserRank", fn(Comm, *mut i32))
        } else {
            real!(c"ncclCommCount", fn(Comm, *mut i32))
        };
        // SAFETY: the handle is one that the program gives to NCCL, which checks it; there is room for the result.
        unsafe { function(comm, number) }
    };
    let mut number = -1;
    (ask(&raw mut number) == SUCCESS).then_some(number)
}
