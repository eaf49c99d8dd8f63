//! Ranks on the streams of GPUs: kernels code, and copies between ranks are the wire.
//!
//! Rank r runs on GPU r modulo their number, so all ranks may share one. What it proves is that a plan does on GPUs what it
//! says, bit for bit; its times are those of the devices, not those of a cluster. It is no network: between GPUs of one
//! process, copies go the way that the driver finds.

mod backend;
mod device_state;
mod exchange;

use std::collections::VecDeque;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use zipwire_codec::{DType, Layout, Spec};
use zipwire_kernels::{Coder, Device, Event, GpuError, Summer};
use zipwire_payload::Payload;
use zipwire_schedule::plan::{Batch, Exchange, Local, OpKind, Plan, Program};
use zipwire_schedule::{Channel, Failure, FailureKind, Machine, Rank, RankEnd, RunFailure};
use zipwire_timeline::Timeline;

use self::backend::{CAPABILITIES, Clock, CudaBackend, eager};
use self::device_state::{DeviceState, Kernels};
use self::exchange::{Exchanges, PeerMessage};
use crate::chunks::{Chunk, Chunks};
use crate::control::{Control, Envelope, run_all};
use crate::error::EngineError;
use crate::pace::CodecWork;
use crate::report::{
    FailureReport, Hello, RankReport, compare, conclude, empty_timeline, ended_before, panicked, stopped,
};
use crate::run_program::{failure, run_program};
use crate::sync::mpsc::Receiver;
use crate::transport::Ended;

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

/// A run in which all went well.
#[derive(Clone, Debug, PartialEq)]
pub struct CudaReport {
    /// Spans of all ranks, by the clocks of the devices.
    pub timeline: Timeline,
    /// Received bytes that were compared with what was sent, over all ranks and iterations.
    pub bytes_verified: u64,
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
pub fn run(setup: &CudaSetup<'_>, cancel: &AtomicBool) -> Result<CudaReport, Box<RunFailure>> {
    check(setup.plan).unwrap_or_else(|error| panic!("{error}"));
    let plan = setup.plan;
    let hello = Hello::new(plan);
    let mut device_states = set_up(setup, cancel)?;
    let epoch = Instant::now();
    let mut report = CudaReport { timeline: empty_timeline(plan), bytes_verified: 0 };
    for iteration in setup.iterations.clone() {
        let _span = tracing::info_span!("run", iteration).entered();
        let (control, inboxes) = Control::new(plan.programs.len(), epoch, cancel);
        let clocks = setup.devices.iter().map(|device| Clock::set(device, || control.now_s()));
        let clocks =
            clocks.collect::<Result<Vec<_>, _>>().map_err(|error| no_start(plan, Rank(0), &error))?;
        let clocks: Vec<&Clock> = clocks.iter().cycle().take(plan.programs.len()).collect();
        let job = RankJob { setup, hello: &hello, control: &control, clocks: &clocks, iteration };
        run_all(&control, inboxes, |rank, inbox| {
            control.deposit(job.run_guarded(rank, &device_states, inbox));
        });
        let mut reports = control.collect();
        report.bytes_verified += reports.iter().map(|report| report.bytes_verified).sum::<u64>();
        let concluded = conclude(plan, None, iteration, &mut reports, &mut report.timeline);
        concluded.inspect_err(|_| abandon_if_busy(&mut device_states))?;
    }
    Ok(report)
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

struct RankJob<'a> {
    setup: &'a CudaSetup<'a>,
    hello: &'a Hello,
    control: &'a Control<'a, PeerMessage>,
    clocks: &'a [&'a Clock],
    iteration: u32,
}

impl RankJob<'_> {
    fn run_guarded(
        &self,
        rank: Rank,
        peers: &[DeviceState],
        inbox: Receiver<Envelope<PeerMessage>>,
    ) -> RankReport {
        let program = &self.setup.plan.programs[rank.index()];
        let mut backend = CudaBackend {
            rank: program.rank,
            control: self.control,
            inbox,
            peers,
            clocks: self.clocks,
            payload: self.setup.payload,
            failure_report: FailureReport { segments: &self.setup.plan.segments },
            stuck_after: self.setup.stuck_after,
            eager: eager(self.setup.plan.programs.len()),
            held: VecDeque::new(),
            is_queued: vec![false; program.ops.len()],
            running: Vec::new(),
            is_reported: vec![false; program.ops.len()],
            exchanges: Exchanges::default(),
            events: VecDeque::new(),
            bytes_verified: 0,
        };
        let entered_s = self.control.now_s();
        let run = AssertUnwindSafe(|| self.run(program, &peers[rank.index()], &mut backend));
        let ran = catch_unwind(run).unwrap_or_else(|panic| Err(Box::new(panicked(rank, &*panic))));
        ran.unwrap_or_else(|end| {
            self.control.abort();
            RankReport { begin_s: entered_s, ..RankReport::failed(rank, self.control.now_s(), *end) }
        })
    }

    fn run(
        &self,
        program: &Arc<Program>,
        device_state: &DeviceState,
        backend: &mut CudaBackend<'_>,
    ) -> Result<RankReport, Box<RankEnd>> {
        let mut machine = Machine::new(Arc::clone(program), CAPABILITIES, 0.0);
        let mut spans = Vec::new();
        let ended = self.run_ops(&mut machine, device_state, backend, &mut spans);
        let begin_s =
            ended.map_err(|failure| Box::new(RankEnd { failure, status: Some(machine.status()) }))?;
        let end_s = spans.iter().map(|span| span.end_s).fold(begin_s, f64::max);
        let (rank, bytes_verified, codec_work) = (program.rank, backend.bytes_verified, CodecWork::default());
        Ok(RankReport {
            rank,
            begin_s,
            end_s,
            spans,
            bytes_verified,
            codec_work,
            unfired: Vec::new(),
            failed: None,
        })
    }

    /// Returns when the iteration began.
    fn run_ops(
        &self,
        machine: &mut Machine,
        device_state: &DeviceState,
        backend: &mut CudaBackend<'_>,
        spans: &mut Vec<zipwire_timeline::Span>,
    ) -> Result<f64, Failure> {
        let rank = backend.rank;
        let broken = |error: GpuError| Failure::new(rank, None, FailureKind::Device, error.to_string());
        self.wait_for(machine, device_state.lay_out().map_err(broken)?)?;
        let words = self.control.barrier(rank, &self.hello.to_word());
        let words = words.ok_or_else(|| backend.failure_report.ended(machine, None, &Ended::Aborted))?;
        compare(self.hello, rank, &words)?;
        device_state.begin().map_err(broken)?;
        run_program(machine, backend, self.iteration, spans)?;
        backend.finish(machine)?;
        // A rank without ops has not waited for anything yet.
        let began =
            device_state.began.wait().and_then(|()| self.clocks[rank.index()].time_s(&device_state.began));
        began.map_err(broken)
    }

    /// Waits for the device before the barrier. Looks for the end of the run, as everywhere.
    fn wait_for(&self, machine: &Machine, event: &Event) -> Result<(), Failure> {
        let begin = Instant::now();
        let broken = |error: GpuError| failure(machine, None, FailureKind::Device, error.to_string());
        while !event.has_passed().map_err(broken)? {
            let failure_report = FailureReport { segments: &self.setup.plan.segments };
            if self.control.is_cancelled() {
                return Err(stopped(machine));
            }
            if self.control.is_aborted() {
                return Err(failure_report.cancelled(machine));
            }
            if begin.elapsed() >= self.setup.stuck_after {
                return Err(failure_report.stuck(machine, None, self.setup.stuck_after));
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
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
