//! Waits that tell, once, when they take long, and end when a communicator does.

use std::ffi::c_int;
use std::thread;
use std::time::{Duration, Instant};

use zipwire_kernels::{Event, GpuError};

use crate::abi::{CUDA_ERROR, Comm, SUCCESS};
use crate::communicators::Communicator;
use crate::process::tell;
use crate::settings::settings;

/// Time in which the wait looks without a pause.
const EAGER: Duration = Duration::from_millis(1);
/// Pause between two looks after that.
const PAUSE: Duration = Duration::from_micros(50);

/// Reason for which messages do not arrive, and the result of the call that waits for them.
pub(super) struct Failure {
    pub(super) result: c_int,
    pub(super) why: String,
}

impl From<GpuError> for Failure {
    fn from(error: GpuError) -> Self {
        Self { result: CUDA_ERROR, why: error.to_string().replace('\n', "; ") }
    }
}

/// Waits until the event has passed. After the time of `ZIPWIRE_NCCL_TIMEOUT` it tells what it waits for, and waits on.
///
/// # Errors
/// If the device has failed, or a communicator whose work is waited for has ended or met an error: then what is waited for may never come, or
/// has not come though the event has passed.
pub(super) fn wait_for(
    event: &Event,
    communicators: &[(Comm, &Communicator)],
    what: impl Fn() -> String,
) -> Result<(), Failure> {
    let begin = Instant::now();
    let mut is_told = false;
    loop {
        let has_passed = event.has_passed()?;
        let waited = begin.elapsed();
        if has_passed || waited >= EAGER {
            communicators.iter().try_for_each(|(comm, communicator)| check(*comm, communicator))?;
        }
        if has_passed {
            return Ok(());
        }
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
}

/// Whether a communicator still works.
fn check(comm: Comm, communicator: &Communicator) -> Result<(), Failure> {
    match communicator.state(comm) {
        SUCCESS => Ok(()),
        result => {
            let why =
                format!("communicator {:016x} has ended or failed (ncclResult_t {result})", communicator.id);
            Err(Failure { result, why })
        }
    }
}
