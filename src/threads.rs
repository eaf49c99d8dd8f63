//! Threads that the program starts for itself: a system that refuses them is an error, and no panic.

use std::io;
use std::num::NonZero;
use std::sync::mpsc::channel;
use std::thread::{Builder, available_parallelism};

use rayon::{ThreadBuilder, ThreadPoolBuilder};

use crate::error::CliError;

/// Most threads of the pool, unless the machine has more cores: any others would only wait for their turn.
const MOST: usize = 256;
/// Asks for a number of threads, as rayon has it.
const VARIABLE: &str = "RAYON_NUM_THREADS";

/// Starts the pool of threads on which simulations and codecs work: as many as `RAYON_NUM_THREADS` says, at most [`MOST`], or one for
/// each core; fewer if `ulimit -v` leaves no room for so many, or the system refuses some; one alone in a rank that follows others. To be called once.
///
/// # Errors
/// If the system refuses all.
pub(crate) fn start_pool(alone: bool) -> Result<(), CliError> {
    let cores = available_parallelism().map_or(1, NonZero::get);
    let asked = std::env::var(VARIABLE).ok().and_then(|count| count.trim().parse().ok());
    let count = if alone { 1 } else { pool_threads(asked, cores).min(threads_with_room()) };
    // Each waits for its part of the pool: rayon itself would give up a pool of which one thread is refused.
    let mut waiting = Vec::new();
    while waiting.len() < count {
        let (part, taken) = channel::<ThreadBuilder>();
        let run = move || {
            if let Ok(part) = taken.recv() {
                part.run();
            }
        };
        match Builder::new().name(format!("pool {}", waiting.len())).spawn(run) {
            Ok(_) => waiting.push(part),
            Err(error) if waiting.is_empty() => return Err(CliError::Threads(error)),
            Err(_) => break,
        }
    }
    let pool = ThreadPoolBuilder::new().num_threads(waiting.len()).spawn_handler(|part| {
        let thread = waiting.pop().expect("there are as many as the pool has threads");
        thread.send(part).map_err(|_| io::ErrorKind::BrokenPipe.into())
    });
    pool.build_global().map_err(|error| CliError::Threads(io::Error::other(error)))
}

/// Address space that a thread takes for its stack and for what it allocates, at the most that allocators reserve.
const ROOM: u64 = 128 << 20;

/// Threads that the address space has room for, if `ulimit -v` is set.
fn threads_with_room() -> usize {
    #[cfg(unix)]
    if let Some(limit) = rustix::process::getrlimit(rustix::process::Resource::As).current {
        return usize::try_from(limit / ROOM).unwrap_or(usize::MAX).max(1);
    }
    usize::MAX
}

/// Threads of the pool, of which so many are asked for, on so many cores.
fn pool_threads(asked: Option<usize>, cores: usize) -> usize {
    asked.filter(|count| *count > 0).unwrap_or(cores).min(cores.max(MOST))
}

/// Whether the system gives a thread, for libraries that panic where it does not.
///
/// # Errors
/// If it does not.
pub(crate) fn one_can_start() -> io::Result<()> {
    let thread = Builder::new().spawn(|| ())?;
    // It does nothing that could fail.
    let _ = thread.join();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_pool_is_larger_than_it_can_be_of_use() {
        assert_eq!(pool_threads(None, 8), 8);
        assert_eq!(pool_threads(Some(0), 8), 8, "as rayon has it");
        assert_eq!(pool_threads(Some(3), 8), 3);
        assert_eq!(pool_threads(Some(100_000), 8), MOST);
        assert_eq!(pool_threads(Some(100_000), 2 * MOST), 2 * MOST);
    }
}
