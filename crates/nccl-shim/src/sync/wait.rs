//! Waits that tell, once, when they take long.

use std::thread;
use std::time::{Duration, Instant};

use zipwire_kernels::{Event, GpuError};

use crate::process::tell;
use crate::settings::settings;

/// Time in which the wait looks without a pause.
const EAGER: Duration = Duration::from_millis(1);
/// Pause between two looks after that.
const PAUSE: Duration = Duration::from_micros(50);

/// Waits until the event has passed. After the time of `ZIPWIRE_NCCL_TIMEOUT` it tells what it waits for, and waits on.
pub(super) fn wait_for(event: &Event, what: impl Fn() -> String) -> Result<(), GpuError> {
    let begin = Instant::now();
    let mut is_told = false;
    while !event.has_passed()? {
        let waited = begin.elapsed();
        if waited >= settings().timeout && !is_told {
            is_told = true;
            tell(&format!("after {} s, still waiting for {}", settings().timeout.as_secs_f64(), what()));
        }
        if waited < EAGER {
            thread::yield_now();
        } else {
            thread::sleep(PAUSE);
        }
    }
    Ok(())
}
