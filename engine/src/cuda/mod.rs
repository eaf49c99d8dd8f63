//! Ranks on the streams of GPUs: kernels code, and copies between ranks are the wire.
//!
//! Rank r runs on GPU r modulo their number, so all ranks may share one. What it proves is that a plan does on GPUs what it
//! says, bit for bit; its times are those of the devices, not those of a cluster. It is no network: between GPUs of one
//! process, copies go the way that the driver finds.

mod backend;
mod check;
pub(crate) mod clock;
mod copies;
pub(crate) mod device_state;
pub(crate) mod rank;
pub(crate) mod wire;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use zipwire_kernels::{Device, GpuError};
use zipwire_payload::Payload;
use zipwire_schedule::plan::{Plan, Program};
use zipwire_schedule::{Failure, FailureKind, Rank, RunFailure};

use self::copies::{ClockSlot, Copies};
use self::device_state::{DeviceState, Kernels};
use self::rank::GpuRank;
use crate::control::{Control, run_all};
use crate::iterations::{Iterations, RunReport, of_first};
use crate::report::{Hello, ended_before};
use crate::transport::local::Seat;

pub(crate) use self::check::check_ops;
pub use self::check::{check, check_memory};
pub use crate::report::STUCK_AFTER;
pub use zipwire_kernels as kernels;

/// Plan, payload and devices of a run.
#[derive(Debug)]
pub struct CudaSetup<'a> {
    /// The plan: validated, and one that [`check`] lets pass.
    pub plan: &'a Plan,
    /// Contents of the chunks.
    pub payload: &'a Payload,
    /// The iterations, with a barrier before each.
    pub iterations: Range<u32>,
    /// The longest standstill, usually [`STUCK_AFTER`].
    pub stuck_after: Duration,
    /// The GPUs, at least one. Rank r runs on number r modulo their number.
    pub devices: &'a [Device],
}

impl<'a> CudaSetup<'a> {
    /// A rank that is a thread of this process, as all others are.
    pub(crate) fn rank(
        &self,
        rank: Rank,
        iterations: &'a Iterations<'a>,
        hello: &'a Hello,
        device_states: &'a [DeviceState],
    ) -> GpuRank<'a> {
        GpuRank {
            iterations,
            hello,
            program: &self.plan.programs[rank.index()],
            device: &self.devices[rank.index() % self.devices.len()],
            device_state: &device_states[rank.index()],
            payload: self.payload,
            stuck_after: self.stuck_after,
            ranks_here: self.plan.programs.len(),
        }
    }

    pub(crate) fn iterations(&self) -> Iterations<'a> {
        Iterations { plan: self.plan, deadlines: None, faults: 0, iterations: self.iterations.clone() }
    }
}

/// The GPUs of this machine, the first ones if there are more than `ranks`.
///
/// # Errors
/// If there is no driver or no device.
pub fn devices(ranks: usize) -> Result<Vec<Device>, GpuError> {
    (0..Device::count()?.min(ranks)).map(Device::open).collect()
}

/// Runs a plan; every received byte is compared with what was sent. Setting `cancel` ends it early.
///
/// # Errors
/// If a device or rank fails, bytes are wrong, nothing happens for too long, or the user stops the run.
///
/// # Panics
/// If [`check`] refuses the plan, there are no devices, or the payload lacks a segment.
pub fn run(setup: &CudaSetup<'_>, cancel: &AtomicBool) -> Result<RunReport, Box<RunFailure>> {
    check(setup.plan).unwrap_or_else(|error| panic!("{error}"));
    let CudaSetup { plan, devices, .. } = *setup;
    let ranks = plan.programs.len();
    let hello = Hello::new(plan);
    let mut device_states = set_up(setup, cancel)?;
    let (control, inboxes) = Control::new(ranks, Instant::now(), cancel);
    let clocks: Vec<ClockSlot> = devices.iter().take(ranks).map(|_| Mutex::default()).collect();
    let iterations = setup.iterations();
    let results = run_all(&control, inboxes, |rank, inbox| {
        let gpu_rank = setup.rank(rank, &iterations, &hello, &device_states);
        gpu_rank.run(&mut Copies::new(Seat { control: &control, rank, inbox }, &device_states, &clocks))
    });
    of_first(results, &iterations, || control.collect()).inspect_err(|_| abandon_if_busy(&mut device_states))
}

/// Compiles kernels, allocates the buffers of all ranks, and uploads what they contribute.
pub(crate) fn set_up(
    setup: &CudaSetup<'_>,
    cancel: &AtomicBool,
) -> Result<Vec<DeviceState>, Box<RunFailure>> {
    let _span = tracing::info_span!("set up devices").entered();
    let CudaSetup { plan, payload, devices, .. } = setup;
    assert!(!devices.is_empty(), "ranks run on devices");
    let mut kernels: Vec<Kernels> = devices.iter().map(|_| Kernels::default()).collect();
    let build = |program: &Arc<Program>| {
        let rank = program.rank;
        if cancel.load(Ordering::Relaxed) {
            let failure = Failure::new(rank, None, FailureKind::Cancelled, "stopped by the user");
            return Err(ended_before(plan, failure));
        }
        let number = rank.index() % devices.len();
        let built = DeviceState::build(&devices[number], plan, program, payload, &mut kernels[number]);
        built.map_err(|error| no_start(plan, rank, &error))
    };
    plan.programs.iter().map(build).collect()
}

/// Time between two looks at the device where nothing depends on when it is done.
pub(crate) const LOOK: Duration = Duration::from_micros(200);

/// How long a device may take to end what it does when a run has failed.
const ENDS_WITHIN: Duration = Duration::from_secs(5);

/// Memory can be freed only when the device is done, which it may never be. Better that it is lost than that the failure is
/// not told.
pub(crate) fn abandon_if_busy(device_states: &mut Vec<DeviceState>) {
    let begin = Instant::now();
    while device_states.iter().any(DeviceState::is_busy) {
        if begin.elapsed() > ENDS_WITHIN {
            tracing::warn!("a GPU does not come to an end; its memory is not freed");
            std::mem::forget(std::mem::take(device_states));
            return;
        }
        std::thread::sleep(LOOK);
    }
}

pub(crate) fn no_start(plan: &Plan, rank: Rank, error: &GpuError) -> Box<RunFailure> {
    ended_before(plan, Failure::new(rank, None, FailureKind::Device, error.to_string()))
}
