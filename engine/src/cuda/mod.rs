//! Ranks on the streams of GPUs: kernels code, and copies between ranks are the wire.
//!
//! Rank r runs on GPU r modulo their number, so all ranks may share one. What it proves is that a plan does on GPUs what it
//! says, bit for bit; its times are those of the devices, not those of a cluster. It is no network: between GPUs of one
//! process, copies go the way that the driver finds.

mod backend;
mod clock;
mod copies;
mod device_state;
mod rank;
pub(crate) mod wire;

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use zipwire_codec::{DType, Layout, Spec};
use zipwire_kernels::{Coder, Device, GpuError, Summer};
use zipwire_payload::Payload;
use zipwire_schedule::plan::{Batch, Exchange, Local, OpKind, Plan, Program};
use zipwire_schedule::{Channel, Failure, FailureKind, Rank, RunFailure};

use self::copies::{ClockSlot, Copies};
use self::device_state::{DeviceState, Kernels};
use self::rank::GpuRank;
use crate::chunks::{Chunk, Chunks};
use crate::control::{Control, run_all};
use crate::error::EngineError;
use crate::iterations::{Iterations, RunReport, of_first};
use crate::report::{Hello, ended_before};
use crate::transport::local::Seat;

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
    fn iterations(&self) -> Iterations<'a> {
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
        let gpu_rank = GpuRank {
            iterations: &iterations,
            hello: &hello,
            program: &plan.programs[rank.index()],
            device: &devices[rank.index() % devices.len()],
            device_state: &device_states[rank.index()],
            payload: setup.payload,
            stuck_after: setup.stuck_after,
            ranks_here: ranks,
        };
        gpu_rank.run(&mut Copies::new(Seat { control: &control, rank, inbox }, &device_states, &clocks))
    });
    of_first(results, &iterations, || control.collect()).inspect_err(|_| abandon_if_busy(&mut device_states))
}

/// Compiles kernels, allocates the buffers of all ranks, and uploads what they contribute.
fn set_up(setup: &CudaSetup<'_>, cancel: &AtomicBool) -> Result<Vec<DeviceState>, Box<RunFailure>> {
    let _span = tracing::info_span!("set up devices").entered();
    let CudaSetup { plan, payload, devices, .. } = setup;
    assert!(!devices.is_empty(), "ranks run on devices");
    let mut device_states = Vec::with_capacity(plan.programs.len());
    let mut kernels: Vec<Kernels> = devices.iter().map(|_| Kernels::default()).collect();
    for program in &plan.programs {
        let rank = program.rank;
        if cancel.load(Ordering::Relaxed) {
            let failure = Failure::new(rank, None, FailureKind::Cancelled, "stopped by the user");
            return Err(ended_before(plan, failure));
        }
        let number = rank.index() % devices.len();
        let (device, kernels) = (&devices[number], &mut kernels[number]);
        let mut build = || -> Result<DeviceState, GpuError> {
            kernels.load(device, plan, program)?;
            DeviceState::new(device, program, &Chunks::of(program), payload, kernels)
        };
        device_states.push(build().map_err(|error| no_start(plan, rank, &error))?);
    }
    Ok(device_states)
}

/// Time between two looks at the device where nothing depends on when it is done.
const LOOK: Duration = Duration::from_micros(200);

/// How long a device may take to end what it does when a run has failed.
const ENDS_WITHIN: Duration = Duration::from_secs(5);

/// Memory can be freed only when the device is done, which it may never be. Better that it is lost than that the failure is
/// not told.
fn abandon_if_busy(device_states: &mut Vec<DeviceState>) {
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

fn no_start(plan: &Plan, rank: Rank, error: &GpuError) -> Box<RunFailure> {
    ended_before(plan, Failure::new(rank, None, FailureKind::Device, error.to_string()))
}

/// Whether the executor can run a plan, wherever there are GPUs.
///
/// # Errors
/// A codec, layout, op, channel or order that it does not have, or a call of a library.
pub fn check(plan: &Plan) -> Result<(), EngineError> {
    let exchanges = plan
        .programs
        .iter()
        .flat_map(|program| &program.ops)
        .filter_map(|op| Some((op, op.kind.exchange()?)));
    // Before frames: no layout helps a coded flow.
    for (op, Exchange { channel, stage, .. }) in exchanges {
        if matches!(channel, Channel::Flow(_) | Channel::FlowControl(_)) {
            return Err(EngineError::Flow { segment: op.segment.0, stage: *stage });
        }
    }
    for op in plan.programs.iter().flat_map(|program| &program.ops) {
        match &op.kind {
            OpKind::Local(Local::Encode(batch) | Local::Decode(batch)) => {
                let spec = plan.codec.as_ref().expect("coded plans name their codec");
                Coder::check(spec, batch.dtype)?;
                if batch.layout == Layout::Compact && Coder::check_compact(spec, batch.dtype).is_err() {
                    let protocol = plan.protocols[op.segment.index()].expect("only collectives code");
                    return Err(EngineError::Layout(protocol.name(), Box::new(spec.clone()), batch.dtype));
                }
            }
            OpKind::Local(local @ (Local::Split(_) | Local::GatherRows(_))) => {
                return Err(EngineError::NoKernel { segment: op.segment.0, kind: local.kind() });
            }
            OpKind::Local(Local::Reduce(_)) => {}
            OpKind::Exchange(exchange) if exchange.order.reorders() => {
                return Err(EngineError::Order(exchange.order));
            }
            OpKind::Library(_) => return Err(EngineError::Library { segment: op.segment.0 }),
            OpKind::Exchange(_) | OpKind::Compute(_) => {}
        }
    }
    Ok(())
}

/// Whether these GPUs have room for a plan: for its regions and what kernels keep, beside code and streams, and what the driver adds to large
/// allocations.
///
/// # Errors
/// The first one that has not, or a failure of its driver.
///
/// # Panics
/// If [`check`] refuses the plan.
pub fn check_memory(plan: &Plan, devices: &[Device]) -> Result<(), EngineError> {
    let mut needed = vec![0; devices.len()];
    for program in &plan.programs {
        needed[program.rank.index() % devices.len()] += bytes(plan, program)?;
    }
    for (device, needed) in devices.iter().zip(needed) {
        let (free, _) = device.memory()?;
        if needed > free {
            return Err(EngineError::Memory { device: device.ordinal(), needed, free });
        }
    }
    Ok(())
}

/// Bytes that a small allocation takes more than it was asked for, at the most.
const ROUNDING: u64 = 512;

/// Bytes that a rank takes on its GPU.
fn bytes(plan: &Plan, program: &Program) -> Result<u64, EngineError> {
    let chunks = Chunks::of(program);
    let total = |chunks: &mut dyn Iterator<Item = &Chunk>| -> u64 {
        chunks.map(|chunk| chunk.region.len + ROUNDING).sum()
    };
    let filled = total(&mut chunks.filled_by.values().flatten().chain(&chunks.filled_before));
    let kept = total(&mut chunks.checked_before.values().flatten());
    let buffers: u64 = program.buffers.iter().map(|buffer| buffer.capacity + ROUNDING).sum();
    let mut of_kernels = 0;
    for local in program.ops.iter().filter_map(|op| op.kind.local()) {
        of_kernels += match local {
            Local::Encode(batch) => of_frames(plan, batch, Coder::frame_len)?,
            Local::Decode(batch) => of_frames(plan, batch, Coder::decoded_frame_len)?,
            Local::Reduce(reduce) => {
                let terms = reduce.additions.iter().map(|addition| addition.terms.len()).sum();
                Summer::described_len(reduce.additions.len(), terms) + ROUNDING
            }
            Local::Split(_) | Local::GatherRows(_) => unreachable!("refused by the check"),
        };
    }
    Ok(filled + kept + buffers + of_kernels + 8 * u64::from(program.size_count) + ROUNDING)
}

/// Bytes that kernels take for the frames of an op, beside its regions.
fn of_frames(
    plan: &Plan,
    batch: &Batch,
    frame_len: impl Fn(&Spec, DType, u64) -> Result<u64, GpuError>,
) -> Result<u64, EngineError> {
    let spec = plan.codec.as_ref().expect("coded plans name their codec");
    let lens = batch.blocks.iter().map(|block| {
        let count = block.values.len / batch.dtype.width() as u64;
        Ok(frame_len(spec, batch.dtype, count)?)
    });
    Ok(lens.sum::<Result<u64, EngineError>>()? + 3 * ROUNDING)
}
