//! The executors, which carry out plans. Each is a file here that implements [`Executor`] and a line in [`ALL`].
//!
//! Everything else asks the trait: what a run needs and refuses is decided in the executor's file, and the command line, the
//! outputs and the sweeps take whatever [`ALL`] holds, or an executor of a caller's own.

/// Methods of an [`Executor`] that give a constant, a line each.
macro_rules! says {
    ($($method:ident: $type:ty = $value:expr;)+) => {
        $(fn $method(&self) -> $type { $value })+
    };
}

mod cuda;
mod mpi;
mod nccl;
mod sim;
mod threads;

use std::fmt;
use std::ops::Range;

use zipwire_cluster::library::Operation;
use zipwire_codec::Table;
use zipwire_engine::mpi::{World, WorldError};
use zipwire_engine::serving::Pace as ServingPace;
use zipwire_engine::threads::{CodecWork, Pace, RunReport};
use zipwire_payload::Payload;
use zipwire_scenarios::{Experiment, Serving, nearest};
use zipwire_schedule::{Deadlines, Fault, Plan};
use zipwire_timeline::Timeline;

pub(crate) use self::threads::cores;
use crate::execute::{ExecuteError, Prepared};
use crate::launch::{Follower, JobError};
use crate::serving::Served;
use crate::{Cancel, memory};

/// The simulator, and so the source of all predictions: drivers name it for these, and no executor besides.
pub const SIM: &dyn Executor = &sim::Sim;
/// Ranks as threads of this process.
pub const THREADS: &dyn Executor = &threads::Threads;
/// Ranks on CUDA streams.
pub const CUDA: &dyn Executor = &cuda::Cuda;

/// Ranks as processes over MPI.
pub const MPI: &dyn Executor = &mpi::Mpi;

/// Ranks on GPUs over NCCL.
pub const NCCL: &dyn Executor = &nccl::Nccl;

/// All executors of this version, in the order in which they are listed.
pub const ALL: &[&dyn Executor] = &[SIM, THREADS, MPI, CUDA, NCCL];

/// Something that carries out plans.
///
/// [`Prepared`] checks what all executors have in common (payload, memory, what changes in the course of a run) by the [`Capabilities`] of
/// each, then asks it for its own conditions. Drivers above it (whole runs, adaptive variants, faults, validation, sweeps) ask it for runs of
/// single plans, or for requests to be served.
pub trait Executor: Sync {
    /// Name on the command line and in files: lower case, one word.
    fn name(&self) -> &'static str;

    /// Description in a few words, for help texts.
    fn summary(&self) -> &'static str;

    /// Which clock the times of its timelines are read from: `virtual`, `monotonic` or `device`.
    fn clock(&self) -> &'static str;

    /// Meaning of its times for a scenario, in words that follow a list of runs.
    fn times(&self, experiment: &Experiment) -> &'static str;

    /// Abilities that drivers decide by; those of [`Capabilities::REAL`] by default.
    fn capabilities(&self) -> Capabilities {
        Capabilities::REAL
    }

    /// Why it cannot run on this machine; `None` if it can.
    fn missing(&self) -> Option<String> {
        None
    }

    /// Bytes of memory of this machine that a run of the variant at `index` takes at the least, beside the plans.
    fn memory_bytes(&self, prepared: &Prepared<'_>, index: usize) -> u64 {
        memory::timeline_bytes(&prepared.planned(index).plan, prepared.experiment.iterations)
    }

    /// Decides what a scenario leaves open and this executor can do in one way only. All executors of a run then have it, so
    /// that they run the same plans. What it has decided for which variants, a line each.
    fn settle(&self, _: &mut Experiment) -> Vec<String> {
        Vec::new()
    }

    /// Whether it can run the variant at `index`, as far as that is not asked of every executor. Runs nothing.
    ///
    /// # Errors
    /// The thing that it refuses, or lacks.
    fn check(&self, _prepared: &Prepared<'_>, _index: usize) -> Result<(), ExecuteError> {
        Ok(())
    }

    /// Runs one plan of a variant that was checked.
    ///
    /// # Errors
    /// If the run fails, or the user stops it.
    fn run_plan(
        &self,
        prepared: &mut Prepared<'_>,
        run: &PlanRun<'_>,
        cancel: &Cancel,
    ) -> Result<PlanReport, ExecuteError>;

    /// Serves all requests of workload `serving` by a variant that was checked.
    ///
    /// # Errors
    /// If the run fails, the user stops it, or it serves none.
    fn serve(
        &self,
        _prepared: &Prepared<'_>,
        _run: &ServeRun<'_>,
        _cancel: &Cancel,
    ) -> Result<ServeReport, ExecuteError> {
        Err(ExecuteError::NoServing(self.name(), serving()))
    }

    /// Runs this process's rank of a plan, as rank 0 of the job runs its own in [`run_plan`](Self::run_plan). Only executors whose ranks are processes
    /// ([`Ranks::Processes`]) are asked.
    ///
    /// # Errors
    /// If the run fails, which rank 0 reports, or it has no ranks in processes.
    fn follow_plan(&self, _follower: &mut Follower<'_>, _run: &PlanRun<'_>) -> Result<(), JobError> {
        Err(no_task(self.name()))
    }

    /// Serves requests with this process's rank, as rank 0 does in [`serve`](Self::serve), likewise.
    ///
    /// # Errors
    /// If the run fails, which rank 0 reports, or it serves none.
    fn follow_serving(&self, _follower: &mut Follower<'_>, _run: &ServeRun<'_>) -> Result<(), JobError> {
        Err(no_task(self.name()))
    }

    /// Times a collective of the executor's own library, the mean of so many rounds; `None` if it has none. `bytes` are those that
    /// a rank has where it sends parts or contributes, and those that it gets where it gathers.
    ///
    /// # Errors
    /// If the library fails.
    fn time_library(
        &self,
        _operation: Operation,
        _ranks: u32,
        _bytes: u64,
        _rounds: u32,
        _cancel: &Cancel,
    ) -> Result<Option<LibraryTime>, ExecuteError> {
        Ok(None)
    }

    /// Takes part in a collective that rank 0 of the job times in [`time_library`](Self::time_library).
    ///
    /// # Errors
    /// If the library fails, or there is none.
    fn follow_library(
        &self,
        _world: &mut World,
        _operation: Operation,
        _bytes: u64,
        _rounds: u32,
    ) -> Result<(), JobError> {
        Err(no_task(self.name()))
    }
}

/// Whether a plan fits a job, in words of who started its processes.
fn fits(checked: Result<(), WorldError>) -> Result<(), ExecuteError> {
    match checked {
        Err(WorldError::Ranks { ranks, processes }) => Err(ExecuteError::Processes { ranks, processes }),
        checked => Ok(checked?),
    }
}

/// Refusal of a task by an executor that has no part in it.
fn no_task(executor: &str) -> JobError {
    JobError::task(format!("a task for executor `{executor}`, which has no part in it"))
}

/// Time of a collective of a library.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LibraryTime {
    /// The function, as the library calls it.
    pub function: &'static str,
    /// Mean seconds of a call.
    pub seconds: f64,
}

/// Abilities of an executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Whether it moves real bytes, which are compared with what was sent. It then needs a payload, and cannot let the cluster
    /// change in the course of a run, or transfers wait for ranks that they do not concern. One that moves none can repeat an iteration under
    /// other choices.
    pub is_real: bool,
    /// Placement of its ranks.
    pub ranks: Ranks,
    /// Whether ranks in processes move bytes by MPI: launchers that start no MPI cannot start them. Others only meet.
    pub needs_mpi: bool,
    /// Faults that it injects.
    pub faults: FaultSupport,
    /// Whether it runs plans of single iterations, as adaptive variants need them.
    pub adapts: bool,
    /// Whether it serves requests, workload `serving`.
    pub serves: bool,
    /// Predictions that can be held against its measurements.
    pub validation: ValidationSupport,
}

impl Capabilities {
    /// Runs whole plans with real bytes inside this process, and nothing else.
    pub const REAL: Self = Self {
        is_real: true,
        ranks: Ranks::Inside,
        needs_mpi: false,
        faults: FaultSupport::None,
        adapts: false,
        serves: false,
        validation: ValidationSupport::None("its links are not those of the cluster, slowed down"),
    };

    /// Whether its links can be those of the cluster, slowed down ([`RunConditions::pace`], [`ServeRun::pace`]).
    pub fn is_paced(&self) -> bool {
        self.validation == ValidationSupport::Paced
    }
}

/// Where ranks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ranks {
    /// In this process.
    Inside,
    /// A process each, which a launcher starts: the program has to be one of them ([`launch`](crate::launch)).
    Processes,
}

/// Which faults an executor injects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultSupport {
    /// None: scenarios with faults are refused.
    None,
    /// All, noticed by deadlines, which a simulation without faults sets; real links are paced then, as both are in the cluster's time.
    Deadlines,
    /// All, without deadlines: at the speed of these hosts.
    Unpaced,
}

/// How predictions are held against an executor's measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValidationSupport {
    /// Predictions for the scenario's cluster, on links that are paced as its links are.
    Paced,
    /// Predictions for a cluster whose constants were measured on the hosts of the run.
    Probed,
    /// No predictions; the reason, in words that follow the executor's name.
    None(&'static str),
}

/// A plan to run, and for what.
#[derive(Clone, Debug)]
pub struct PlanRun<'a> {
    /// Position of the variant in the scenario.
    pub index: usize,
    /// The plan, validated.
    pub plan: &'a Plan,
    /// How a process that has the experiment makes the same plan.
    pub recipe: Recipe<'a>,
    /// Contents of the chunks; `None` only for executors that move no bytes.
    pub payload: Option<&'a Payload>,
    /// The iterations, which all have this plan.
    pub iterations: Range<u32>,
    /// Faults, deadlines and pace.
    pub conditions: RunConditions<'a>,
}

/// Faults, deadlines and pace of a run.
#[derive(Clone, Copy, Debug)]
pub struct RunConditions<'a> {
    /// Faults to inject.
    pub faults: &'a [Fault],
    /// Latest ends of ops, by which faults are noticed; without them a run may take any time.
    pub deadlines: Option<&'a Deadlines>,
    /// The cluster whose speed links have, slowed down, on executors with paced links; without it, they are as fast as they are.
    pub pace: Option<&'a Pace>,
}

impl RunConditions<'_> {
    /// No faults, no deadlines, no pace.
    pub const NONE: Self = Self { faults: &[], deadlines: None, pace: None };
}

/// How a plan is made of an experiment and a variant.
#[derive(Clone, Copy, Debug)]
pub enum Recipe<'a> {
    /// It is the variant's own.
    Variant,
    /// It is that of one iteration of an adaptive variant.
    Adaptive {
        /// Arm of each segment, and whether statistics are exchanged.
        key: &'a (Vec<usize>, bool),
        /// The table that frames name, in place of the scenario's.
        table: Option<&'a Table>,
    },
}

/// Result of a [`PlanRun`].
#[derive(Clone, Debug, Default)]
pub struct PlanReport {
    /// Spans of all ranks.
    pub timeline: Timeline,
    /// Received bytes that were compared with what was sent, and found equal; `None` where no bytes move.
    pub bytes_verified: Option<u64>,
    /// Work of the codec and of sums, where it was measured.
    pub codec_work: CodecWork,
    /// Whether the times stand for a cluster's: speedups and bandwidths are given only then.
    pub is_timed: bool,
    /// Faults that had no effect, by their positions, as far as the executor knows.
    pub unfired: Vec<usize>,
}

impl PlanReport {
    /// Adds the iterations of another run behind these.
    pub(crate) fn append(&mut self, other: Self) {
        self.timeline.append(other.timeline);
        self.bytes_verified = other
            .bytes_verified
            .map_or(self.bytes_verified, |bytes| Some(bytes + self.bytes_verified.unwrap_or(0)));
        self.codec_work.merge(&other.codec_work);
        self.is_timed = other.is_timed;
        self.unfired.extend(other.unfired);
    }

    pub(crate) fn of_run(report: RunReport, is_timed: bool) -> Self {
        let RunReport { timeline, bytes_verified, codec_work, unfired } = report;
        Self { timeline, bytes_verified: Some(bytes_verified), codec_work, is_timed, unfired }
    }
}

/// Requests to serve, and by which variant.
#[derive(Clone, Copy, Debug)]
pub struct ServeRun<'a> {
    /// Position of the variant in the scenario.
    pub index: usize,
    /// Requests and pools of the scenario.
    pub serving: &'a Serving,
    /// The cluster whose speed links and coders have, slowed down, on executors with paced links; without it, they are as fast as they are.
    pub pace: Option<ServingPace<'a>>,
}

/// Result of serving all requests.
#[derive(Debug)]
pub struct ServeReport {
    /// Spans of all ranks.
    pub timeline: Timeline,
    /// Whether every received byte was compared with what was sent and found equal; `None` where no bytes move.
    pub verified: Option<bool>,
    /// Outcome of the requests.
    pub served: Served,
    /// Least dilation with which this machine would keep up with the cluster, by the work that it has done in this run; at least 1.
    pub least_dilation: f64,
    /// Groups that took longer than declared although the run was slowed down, and seconds of the cluster by which they did.
    pub late: (u64, f64),
}

impl fmt::Display for dyn Executor + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for dyn Executor + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Executors are told apart by their names.
impl PartialEq for dyn Executor + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for dyn Executor + '_ {}

/// The executor of this name.
///
/// # Errors
/// The names that there are.
pub fn named(name: &str) -> Result<&'static dyn Executor, String> {
    ALL.iter().find(|executor| executor.name() == name).copied().ok_or_else(|| {
        let meant = nearest(name, ALL.iter().map(|executor| executor.name()));
        let meant = meant.map_or_else(String::new, |meant| format!("did you mean `{meant}`? "));
        format!("unknown executor `{name}`: {meant}expected one of {}", names())
    })
}

/// Names of the executors that serve requests, joined by `or`.
pub(crate) fn serving() -> String {
    able(|capabilities| capabilities.serves)
}

/// Names of the executors that run adaptive variants, likewise.
pub(crate) fn adapting() -> String {
    able(|capabilities| capabilities.adapts)
}

fn able(is_able: impl Fn(&Capabilities) -> bool) -> String {
    let able = ALL.iter().filter(|executor| is_able(&executor.capabilities()));
    able.map(|executor| format!("`{executor}`")).collect::<Vec<_>>().join(" or ")
}

/// The names of all executors, separated by commas.
pub fn names() -> String {
    ALL.iter().map(|executor| executor.name()).collect::<Vec<_>>().join(", ")
}

/// Lets all executors of a run decide what the scenario leaves open ([`Executor::settle`]); what they have decided, a line
/// each.
pub fn settle(experiment: &mut Experiment, executors: &[&dyn Executor]) -> Vec<String> {
    executors.iter().flat_map(|executor| executor.settle(experiment)).collect()
}
