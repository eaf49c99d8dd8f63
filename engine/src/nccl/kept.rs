//! Communicators that a process keeps from one run to the next: NCCL takes up to a second to begin one.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use zipwire_nccl_binding::Communicator;
use zipwire_schedule::{Lane, Rank};

/// How long communicators may take to end.
const ENDS_WITHIN: Duration = Duration::from_secs(5);

/// A communicator is used again by the same rank of as many on the same GPU, for the same lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) rank: Rank,
    pub(super) ranks: u32,
    pub(super) gpu: usize,
    pub(super) shares_gpu: bool,
    pub(super) lane: Lane,
}

/// A communicator, and a hash of its id, by which ranks know whether they have kept the same one.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) id: u64,
    pub(super) communicator: Communicator,
}

static KEPT: Mutex<Vec<(Key, Known)>> = Mutex::new(Vec::new());

fn kept() -> MutexGuard<'static, Vec<(Key, Known)>> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps a communicator that all of its ranks keep.
pub(super) fn keep(key: Key, known: Known) {
    kept().push((key, known));
}

pub(super) fn take(key: Key) -> Option<Known> {
    let mut kept = kept();
    let place = kept.iter().position(|(other, _)| *other == key)?;
    Some(kept.swap_remove(place).1)
}

/// Ends the kept communicators of other numbers of ranks, before any rank runs: they take memory of GPUs.
pub(super) fn release_others(ranks: u32) {
    let mut kept = kept();
    let (others, same) = std::mem::take(&mut *kept).into_iter().partition(|(key, _)| key.ranks != ranks);
    *kept = same;
    drop(kept);
    end(others);
}

/// Ends the communicators that this process has kept from its runs over NCCL. The other processes of a job must do so, too.
pub fn release() {
    let kept = std::mem::take(&mut *kept());
    end(kept);
}

fn end(kept: Vec<(Key, Known)>) {
    // Ranks of one process wait for one another.
    std::thread::scope(|scope| {
        for (key, Known { communicator, .. }) in kept {
            scope.spawn(move || {
                if let Err(error) = communicator.finish(Instant::now() + ENDS_WITHIN) {
                    tracing::warn!("the communicator of {key:?} does not end well: {error}");
                }
            });
        }
    });
}
