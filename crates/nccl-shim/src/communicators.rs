//! Communicators: names that all their ranks agree on, and where each stands.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use xxhash_rust::xxh3::Xxh3;

use crate::abi::{Comm, SUCCESS};
use crate::real::real;
use crate::sync::Link;

/// A communicator of this process.
#[derive(Debug)]
pub(crate) struct Communicator {
    /// Hash of what it was made of, the same on all ranks; 0 if that is not known.
    pub(crate) id: u64,
    /// Rank in it and number of ranks; -1 if NCCL cannot say yet.
    pub(crate) rank: i32,
    pub(crate) rank_count: i32,
    /// Communicators that were made of it so far.
    children: AtomicU64,
    /// GPU and memory for its messages, if they are compressed.
    pub(crate) link: OnceLock<Link>,
}

/// Communicators by their handles.
#[derive(Debug, Default)]
pub(crate) struct Communicators(RwLock<HashMap<usize, Arc<Communicator>>>);

impl Communicators {
    /// The communicator of a handle. One that is new here, or was not ready, is asked for its ranks.
    pub(crate) fn get(&self, comm: Comm) -> Arc<Communicator> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner).get(&(comm as usize)).cloned();
        match known {
            Some(known) if known.rank_count >= 0 => known,
            known => self.insert(comm, known.map_or(0, |known| known.id)),
        }
    }

    /// Notes a communicator that was made.
    pub(crate) fn insert(&self, comm: Comm, id: u64) -> Arc<Communicator> {
        let (rank, rank_count) = ranks_of(comm);
        let made = Arc::new(Communicator {
            id,
            rank,
            rank_count,
            children: AtomicU64::new(0),
            link: OnceLock::new(),
        });
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(comm as usize, made.clone());
        made
    }

    /// Forgets a communicator that ends. Its handle may come again.
    pub(crate) fn remove(&self, comm: Comm) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(&(comm as usize));
    }
}

impl Communicator {
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

/// Rank in a communicator and its number of ranks; -1 where NCCL cannot say.
fn ranks_of(comm: Comm) -> (i32, i32) {
    (number_of(comm, true), number_of(comm, false))
}

#[allow(unsafe_code, reason = "NCCL is asked")]
fn number_of(comm: Comm, is_rank: bool) -> i32 {
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
    if ask(&raw mut number) == SUCCESS { number } else { -1 }
}
