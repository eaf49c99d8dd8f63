//! How long launches take, by the device's clock.

use zipwire_kernels::{Event, GpuError, Stream};

/// Rounds that are measured, after one that is not; the median counts.
const ROUNDS: usize = 5;
/// Launches of a round at most: where they are so short, the queue is full before.
const MOST_LAUNCHES: usize = 2000;

/// Seconds of the device from one launch to the next, if one follows the other. `launch` gets a running number; a round
/// takes about `shortest_s`.
///
/// # Errors
/// If a launch fails.
pub(super) fn seconds_per_launch(
    stream: &Stream,
    [begin, end]: &[Event; 2],
    shortest_s: f64,
    launch: &dyn Fn(usize) -> Result<(), GpuError>,
) -> Result<f64, GpuError> {
    let mut next = 0;
    let mut round = |launches: usize| {
        stream.record(begin)?;
        for _ in 0..launches {
            launch(next)?;
            next += 1;
        }
        stream.record(end)?;
        end.wait()?;
        end.seconds_since(begin).map(|seconds| seconds / launches as f64)
    };
    // The first launches are slow, so the second round says how many there are in the others.
    round(2)?;
    let guess_s = round(4)?.max(1e-7);
    let launches = ((shortest_s / guess_s) as usize).clamp(1, MOST_LAUNCHES);
    let mut rounds = (0..ROUNDS).map(|_| round(launches)).collect::<Result<Vec<f64>, _>>()?;
    rounds.sort_unstable_by(f64::total_cmp);
    Ok(rounds[ROUNDS / 2])
}
