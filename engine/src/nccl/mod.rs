//! Ranks on GPUs that exchange by NCCL: threads of this process with a GPU each or several on one, or a process each.
//!
//! Work of a rank on its GPU is that of [`cuda`](crate::cuda); here the wire is a communicator for each lane. An exchange is a group of sends and
//! receives on the stream of its lane, a call of the plan one of NCCL's own collectives.

mod call;
mod connect;
mod kept;
mod timing;
mod wire;

use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use zipwire_kernels::{Device, GpuError};
use zipwire_nccl::Library;
use zipwire_payload::Payload;
use zipwire_schedule::plan::Plan;
use zipwire_schedule::{Failure, FailureKind, RankEnd, RunFailure};

use self::connect::Connections;
use self::wire::{Nccl, has_rounds};
use crate::control::{Control, run_all};
use crate::cuda::device_state::{DeviceState, Kernels};
use crate::cuda::rank::GpuRank;
use crate::cuda::{CudaSetup, abandon_if_busy, check_ops, set_up};
use crate::error::EngineError;
use crate::iterations::{Iterations, RunReport, RunResult, of_first};
use crate::report::{Hello, RankReport, ended_early};
use crate::transport::Meeting;
use crate::transport::local::Seat;

pub use self::kept::release;
pub use self::timing::{Timed, Timing, time_collective, time_collective_of_process};
pub use zipwire_nccl as library;

/// Whether ranks on GPUs can run a plan over NCCL, wherever there are GPUs.
///
/// # Errors
/// Where [`cuda::check`](crate::cuda::check) finds one, but for calls: NCCL has those of plans.
pub fn check(plan: &Plan) -> Result<(), EngineError> {
    check_ops(plan, call::is_known)
}

/// Runs a plan with all of its ranks as threads of this process; every received byte is compared with what was sent. Setting `cancel` ends
/// it early.
///
/// # Errors
/// If NCCL, a device or a rank fails, bytes are wrong, nothing happens for too long, or the user stops the run.
///
/// # Panics
/// If [`check`] refuses the plan, there are no devices, or the payload lacks a segment.
pub fn run(
    setup: &CudaSetup<'_>,
    library: &'static Library,
    cancel: &AtomicBool,
) -> Result<RunReport, Box<RunFailure>> {
    check(setup.plan).unwrap_or_else(|error| panic!("{error}"));
    let CudaSetup { plan, devices, .. } = *setup;
    let ranks = plan.programs.len();
    let (hello, has_rounds) = (Hello::new(plan), has_rounds(plan));
    let mut device_states = set_up(setup, cancel)?;
    let (control, inboxes) = Control::<()>::new(ranks, Instant::now(), cancel);
    let iterations = setup.iterations();
    let connections = Connections { library, plan, shares_gpus: ranks > devices.len() };
    let results = run_all(&control, inboxes, |rank, inbox| {
        let mut seat = Seat { control: &control, rank, inbox };
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
        run_connected(&gpu_rank, Nccl::new(&mut seat, &connections, has_rounds))
    });
    of_first(results, &iterations, || control.collect()).inspect_err(|_| abandon_if_busy(&mut device_states))
}

/// A process's rank of a plan.
#[derive(Debug)]
pub struct ProcessSetup<'a> {
    /// The plan, validated, and one that [`check`] lets pass.
    pub plan: &'a Plan,
    /// Contents of the chunks.
    pub payload: &'a Payload,
    /// The iterations, with a barrier before each.
    pub iterations: Range<u32>,
    /// The longest standstill.
    pub stuck_after: Duration,
    /// The library, which is of the same version in all processes.
    pub library: &'static Library,
    /// Name of this host, by which ranks share its GPUs: the n-th rank on it runs on the n-th of them modulo their number.
    pub host: &'a str,
}

/// Runs this process's rank of a plan, as all processes of a job run theirs, which meet by `meeting`. Rank 0 has the report of all.
///
/// # Errors
/// On rank 0 if any rank fails, elsewhere if this one does.
///
/// # Panics
/// If [`check`] refuses the plan, or the payload lacks a segment.
pub fn run_process(setup: &ProcessSetup<'_>, meeting: &mut dyn Meeting) -> RunResult {
    let ProcessSetup { plan, payload, library, stuck_after, .. } = *setup;
    check(plan).unwrap_or_else(|error| panic!("{error}"));
    let rank = meeting.rank();
    let iterations = Iterations { plan, deadlines: None, faults: 0, iterations: setup.iterations.clone() };
    let begun = begin_process(setup, meeting);
    let (device, device_state, here, shares_gpus) = match begun {
        Ok(begun) => begun,
        Err(failure) => {
            return iterations.run(meeting, |meeting, _| {
                meeting.abort(&failure);
                let end = RankEnd { failure: failure.clone(), status: None };
                RankReport::failed(rank, meeting.now_s(), end)
            });
        }
    };
    let gpu_rank = GpuRank {
        iterations: &iterations,
        hello: &Hello::new(plan),
        program: &plan.programs[rank.index()],
        device: &device,
        device_state: &device_state,
        payload,
        stuck_after,
        ranks_here: here,
    };
    let connections = Connections { library, plan, shares_gpus };
    let result = run_connected(&gpu_rank, Nccl::new(meeting, &connections, has_rounds(plan)));
    if result.is_err() {
        abandon_if_busy(&mut vec![device_state]);
    }
    result
}

/// Finds the GPU of this process, and lays out there what its rank has; with the ranks of this host, and whether they share GPUs.
fn begin_process(
    setup: &ProcessSetup<'_>,
    meeting: &mut dyn Meeting,
) -> Result<(Device, DeviceState, usize, bool), Failure> {
    let (plan, rank) = (setup.plan, meeting.rank());
    let (device, here, gpus) = process_gpu(setup.host, meeting)?;
    let program = &plan.programs[rank.index()];
    let built = DeviceState::build(&device, plan, program, setup.payload, &mut Kernels::default());
    let device_state =
        built.map_err(|error| Failure::new(rank, None, FailureKind::Device, error.to_string()))?;
    Ok((device, device_state, here, here > gpus))
}

/// The GPU of this process among those of its host, the ranks on the host, and its GPUs.
fn process_gpu<M: Meeting + ?Sized>(host: &str, meeting: &mut M) -> Result<(Device, usize, usize), Failure> {
    let rank = meeting.rank();
    let hosts = meeting.barrier(host.as_bytes()).map_err(|ended| ended_early(rank, &ended))?;
    let on_host =
        |ranks: usize| hosts[..ranks].iter().filter(|other| other.as_slice() == host.as_bytes()).count();
    let (before, here) = (on_host(rank.index()), on_host(hosts.len()));
    let open = || -> Result<_, GpuError> {
        let gpus = Device::count()?;
        Ok((Device::open(before % gpus)?, here, gpus))
    };
    open().map_err(|error| Failure::new(rank, None, FailureKind::Device, error.to_string()))
}

/// Runs a rank over a wire, and keeps its communicators or aborts them.
fn run_connected<M: Meeting + ?Sized>(gpu_rank: &GpuRank<'_>, mut wire: Nccl<'_, M>) -> RunResult {
    let result = gpu_rank.run(&mut wire);
    // A rank that has done its part knows here whether the others have.
    let has_succeeded = result.is_ok() && wire.barrier(&[]).is_ok();
    wire.end(has_succeeded);
    result
}
