//! Ranks on GPUs that exchange by NCCL: threads of this process with a GPU each or several on one, or a process each.
//!
//! Work of a rank on its GPU is that of [`cuda`](crate::cuda); here the wire is a communicator for each lane. An exchange is a group of sends and
//! receives on the stream of its lane, a call of the plan one of NCCL's own collectives.

mod call;
mod connect;
mod gpus;
mod kept;
mod timing;
mod wire;

use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use zipwire_kernels::Device;
use zipwire_nccl_binding::Library;
use zipwire_payload::Payload;
use zipwire_schedule::plan::{Op, Plan};
use zipwire_schedule::{Failure, FailureKind, Rank, RankEnd, RunFailure};

use self::connect::{Connections, lanes};
use self::gpus::{Chosen, check_sharing};
use self::wire::{Nccl, has_rounds};
use crate::control::{Control, run_all};
use crate::cuda::device_state::{DeviceState, Kernels};
use crate::cuda::rank::GpuRank;
use crate::cuda::{CudaSetup, abandon_if_busy, check_ops, set_up};
use crate::error::EngineError;
use crate::iterations::{Iterations, RunReport, RunResult, of_first};
use crate::report::{Hello, RankReport};
use crate::transport::Meeting;
use crate::transport::local::Seat;

pub use self::kept::release;
pub use self::timing::{Timed, Timing, time_collective, time_collective_of_process};
pub use zipwire_nccl_binding as library;

/// Whether ranks on GPUs can run a plan over NCCL, wherever there are GPUs.
///
/// # Errors
/// Where [`cuda::check`](crate::cuda::check) finds one, but for calls: NCCL has those of plans.
pub fn check(plan: &Plan) -> Result<(), EngineError> {
    let mut ops = plan.programs.iter().flat_map(|program| &program.ops);
    let is_of_some = |op: &&Op| op.kind.library().is_some_and(|call| !call.group.is_all(plan.rank_count()));
    if let Some(op) = ops.find(is_of_some) {
        return Err(EngineError::LibraryGroup { segment: op.segment.0 });
    }
    check_ops(plan, call::is_known)
}

/// Whether ranks can share the GPUs of one process as a plan's do, if there are fewer GPUs than ranks.
///
/// # Errors
/// [`EngineError::Sharing`].
pub fn check_gpus(plan: &Plan, library: &Library, devices: &[Device]) -> Result<(), EngineError> {
    let ranks = plan.rank_count().div_ceil(devices.len().max(1) as u32);
    let shared =
        devices.iter().try_for_each(|device| check_sharing(library, device, ranks, lanes(plan).len(), true));
    shared.map_err(EngineError::Sharing)
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
    let hello = Hello::new(setup.plan);
    run_with_hellos(setup, library, cancel, |_| hello.clone())
}

/// [`run`] with ranks that say something else of themselves than they should, for tests.
///
/// # Errors
/// Errors of [`run`].
#[doc(hidden)]
pub fn run_with_hellos(
    setup: &CudaSetup<'_>,
    library: &'static Library,
    cancel: &AtomicBool,
    hello: impl Fn(Rank) -> Hello + Sync,
) -> Result<RunReport, Box<RunFailure>> {
    check(setup.plan).unwrap_or_else(|error| panic!("{error}"));
    let CudaSetup { plan, devices, .. } = *setup;
    let ranks = plan.programs.len();
    let has_rounds = has_rounds(plan);
    kept::release_others(plan.rank_count());
    let mut device_states = set_up(setup, cancel)?;
    let (control, inboxes) = Control::<()>::new(ranks, Instant::now(), cancel);
    let iterations = setup.iterations();
    let connections = Connections { library, plan, shares_gpus: ranks > devices.len() };
    let results = run_all(&control, inboxes, |rank, inbox| {
        let mut seat = Seat { control: &control, rank, inbox };
        let hello = hello(rank);
        let gpu_rank = setup.rank(rank, &iterations, &hello, &device_states);
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
    /// Name of this host, whose ranks share its GPUs.
    pub host: &'a str,
}

/// Outcome of a run on one process.
#[derive(Debug)]
pub struct ProcessRun {
    /// The report on rank 0, `None` elsewhere.
    pub result: RunResult,
    /// Whether several ranks of the job have the same GPU, so that times are not those of links.
    pub shares_gpus: bool,
}

/// Runs this process's rank of a plan, as all processes of a job run theirs, which meet by `meeting`. Rank 0 has the report of all.
///
/// # Errors
/// On rank 0 if any rank fails, elsewhere if this one does.
///
/// # Panics
/// If [`check`] refuses the plan, or the payload lacks a segment.
pub fn run_process(setup: &ProcessSetup<'_>, meeting: &mut dyn Meeting) -> ProcessRun {
    let ProcessSetup { plan, payload, library, stuck_after, .. } = *setup;
    check(plan).unwrap_or_else(|error| panic!("{error}"));
    let rank = meeting.rank();
    let iterations = Iterations { plan, deadlines: None, faults: 0, iterations: setup.iterations.clone() };
    let (chosen, device_state) = match begin_process(setup, meeting) {
        Ok(begun) => begun,
        Err(failure) => {
            let result = iterations.run(meeting, |meeting, _| {
                meeting.abort(&failure);
                let end = RankEnd { failure: failure.clone(), status: None };
                RankReport::failed(rank, meeting.now_s(), end)
            });
            return ProcessRun { result, shares_gpus: false };
        }
    };
    let gpu_rank = GpuRank {
        iterations: &iterations,
        hello: &Hello::new(plan),
        program: &plan.programs[rank.index()],
        device: &chosen.device,
        device_state: &device_state,
        payload,
        stuck_after,
        ranks_here: chosen.here,
    };
    let shares_gpus = chosen.most > 1;
    let connections = Connections { library, plan, shares_gpus };
    let result = run_connected(&gpu_rank, Nccl::new(meeting, &connections, has_rounds(plan)));
    if result.is_err() {
        abandon_if_busy(&mut vec![device_state]);
    }
    ProcessRun { result, shares_gpus }
}

/// Takes a GPU for this process, and lays out there what its rank has.
fn begin_process(
    setup: &ProcessSetup<'_>,
    meeting: &mut dyn Meeting,
) -> Result<(Chosen, DeviceState), Failure> {
    let (plan, rank) = (setup.plan, meeting.rank());
    let failure = |detail: String| Failure::new(rank, None, FailureKind::Device, detail);
    let chosen = gpus::choose(setup.host, meeting)?;
    let lanes = lanes(plan).len();
    check_sharing(setup.library, &chosen.device, chosen.most, lanes, false).map_err(failure)?;
    let (program, kernels) = (&plan.programs[rank.index()], &mut Kernels::default());
    let built = DeviceState::build(&chosen.device, plan, program, setup.payload, kernels);
    Ok((chosen, built.map_err(|error| failure(error.to_string()))?))
}

/// Runs a rank over a wire, and keeps its communicators or aborts them.
fn run_connected<M: Meeting + ?Sized>(gpu_rank: &GpuRank<'_>, mut wire: Nccl<'_, M>) -> RunResult {
    let result = gpu_rank.run(&mut wire);
    // A rank that has done its part knows here whether the others have.
    let has_succeeded = result.is_ok() && wire.barrier(&[]).is_ok();
    wire.end(has_succeeded);
    result
}
