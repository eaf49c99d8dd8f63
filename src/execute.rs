//! Runs one variant of an experiment on one executor.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use zipwire_engine::{EngineError, threads};
use zipwire_kernels::Device;
use zipwire_scenarios::{Experiment, Variant};
use zipwire_schedule::plan::OpKind;
use zipwire_schedule::{
    Capabilities, Checked, Choice, Deadlines, FailureKind, Fault, FiredFaults, NetworkModel, Plan, PlanError,
    Protocol, Readiness, RunFailure, TransferOrder, TransferStart,
};
use zipwire_sim::{Room, SimError, SizeCache, SizeError, SizeTable};
use zipwire_traces::{Payload, SwitcherSummary, Timeline};

use crate::adaptive::Arms;
use crate::footprint::Footprint;
use crate::memory::{self, MemoryLimit};
use crate::simulate::Simulator;
use crate::slots;
use crate::{Cancel, Executor};

/// What the simulator imitates: an executor that completes ops and lets the machine order transfers.
pub const SIMULATED: Capabilities =
    Capabilities { readiness: Readiness::Completed, transfer_order: TransferOrder::Machine, timed: true };

/// Why a variant has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExecuteError {
    /// The user asked to stop.
    #[error("stopped")]
    Cancelled,
    /// The executor cannot run here.
    #[error("executor `{0}` is not available here: {1}")]
    Unavailable(Executor, String),
    /// The experiment holds no bytes to run with.
    #[error(
        "variant `{0}` cannot run on `{1}`: the scenario states a ratio and no payload\n\
         help: add `payload` to `[workload]`, for instance `payload = {{ gaussian = 0.02 }}`"
    )]
    NoPayload(String, Executor),
    /// The plan is not executable.
    #[error("variant `{0}` has no executable plan: {1}")]
    Plan(String, PlanError),
    /// A stated ratio that the frames of a variant cannot have.
    #[error(
        "variant `{variant}` cannot have the ratio {ratio} that `[codec]` states: its static sections alone make {limit:.3}\n\
         help: state at most {limit:.3}, or leave `ratio` out to have the payload encoded"
    )]
    Ratio {
        /// The variant.
        variant: String,
        /// The stated ratio.
        ratio: f64,
        /// The largest ratio that its static sections allow.
        limit: f64,
    },
    /// More memory than there is.
    #[error(
        "variant `{variant}` on `{executor}` needs {} of memory, {limit}\n\
         help: use fewer iterations, fewer ranks or a smaller model",
        memory::gigabytes(*.needed)
    )]
    Memory {
        /// The variant.
        variant: String,
        /// The executor.
        executor: Executor,
        /// Bytes.
        needed: u64,
        /// How much there is, in words.
        limit: String,
    },
    /// More memory than there is, known before anything is planned.
    #[error(
        "the plans of all variants take {} of memory, checking the largest {}, and the longest timeline {}: {limit}\n\
         help: use fewer ranks, fewer iterations, or one variant at a time (`--variant`)",
        memory::gigabytes(*.plans), memory::gigabytes(*.check), memory::gigabytes(*.timeline)
    )]
    TooLarge {
        /// Bytes.
        plans: u64,
        /// Bytes, beside the plans, before anything is run.
        check: u64,
        /// Bytes; none where nothing is run.
        timeline: u64,
        /// How much there is, in words.
        limit: String,
    },
    /// A real run that would not do what was simulated.
    #[error(
        "`--real-set`: variant `{variant}` would have another {what} in the real run than in the simulation\n\
         help: let only the cluster's links and latencies, host and codec costs, compute and start times, and faults differ"
    )]
    OtherWork {
        /// The variant.
        variant: String,
        /// What differs.
        what: &'static str,
    },
    /// A paced run that this machine could not keep up with.
    #[error(
        "a dilation of {asked} is too small: this machine would set the pace\n\
         help: {needed} would do; leave it out to have it chosen"
    )]
    Dilation {
        /// What was asked for.
        asked: f64,
        /// What would do.
        needed: f64,
    },
    /// A paced run of a cluster whose links are not to share as links do.
    #[error(
        "links of a real run are shared by all transfers that cross them, and network model `{}` says otherwise\n\
         help: set `cluster.model` to `{}`; `zipwire validate` takes it as \
         `--real-set cluster.model={}`, and then shows how wrong `{}` is",
        .0.name(), NetworkModel::MaxMin.name(), NetworkModel::MaxMin.name(), .0.name()
    )]
    Model(NetworkModel),
    /// A real run in which transfers are to wait for ranks that they do not concern.
    #[error(
        "`cluster.start` is `barrier`, and on `{0}` each transfer starts when its two ranks are there\n\
         help: run it on `sim`; `zipwire validate` takes it as \
         `--real-set cluster.start=rendezvous`, and then shows how wrong it is"
    )]
    Start(Executor),
    /// Nothing to be slowed down.
    #[error(
        "variant `{0}` takes no time in the simulation: there is nothing to hold a measurement against\n\
         help: give the workload bytes to move or time to compute"
    )]
    NoTime(String),
    /// A run ended well although not all bytes were compared: a defect of the program.
    #[error("variant `{0}`: not every received byte was compared with what was sent")]
    Unverified(String),
    /// The payload could not be encoded.
    #[error(transparent)]
    Size(#[from] SizeError),
    /// The simulation has no result.
    #[error("variant `{0}` on `sim` failed in {1}")]
    Sim(String, SimError),
    /// The executor does not take the plan.
    #[error("variant `{0}` cannot run on `{1}`: {2}")]
    Refused(String, Executor, EngineError),
    /// The real run failed.
    #[error("variant `{0}` on `{1}` failed in {2}")]
    Run(String, Executor, Box<RunFailure>),
    /// A cluster that changes and is not simulated.
    #[error(
        "`{0}` cannot let the cluster or the codec change in the course of a run, as `drift` says\n\
         help: run the scenario on `sim`, or remove `drift`"
    )]
    Drift(Executor),
    /// A switcher where none can be.
    #[error(
        "variant `{0}` is adaptive: it runs on `sim` and `threads`, and not with faults\n\
         help: choose other variants with `--variant`; those that are its arms run everywhere"
    )]
    Adaptive(String),
    /// A fault that can hit nothing, in any variant.
    #[error(
        "`fault.{index}` hits no transfer of any variant\n\
         help: `zipwire plan` lists the transfers; `segment` and `stage` can be left out"
    )]
    Fault {
        /// Its position in the scenario, from 0 as in paths of `--set`.
        index: usize,
    },
}

impl ExecuteError {
    /// Whether a rank failed during the run.
    pub fn is_run_failure(&self) -> bool {
        matches!(self, Self::Sim(_, SimError::Failed(_)) | Self::Run(..))
    }
}

/// A variant's plan and its digest.
#[derive(Debug)]
pub struct Planned {
    /// The plan, validated.
    pub plan: Plan,
    /// Its digest.
    pub digest: String,
}

/// What one variant did on one executor.
#[derive(Debug)]
pub struct Outcome {
    /// What happened when.
    pub timeline: Timeline,
    /// Whether every received byte was compared with what was sent and found equal; `None` where no bytes move.
    pub verified: Option<bool>,
    /// Whether its times stand for a cluster's: speedups and bandwidths are given only then.
    pub is_timed: bool,
    /// What the switcher of an adaptive variant did.
    pub switcher: Option<SwitcherSummary>,
    /// Faults of the scenario that had no effect, by their positions. `sim` knows all of them; other executors know those that
    /// find nothing to hit in the plan.
    pub unfired: Vec<usize>,
}

/// What goes wrong in a run, and when that is noticed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trouble<'a> {
    pub(crate) faults: &'a [Fault],
    pub(crate) deadlines: Option<&'a Deadlines>,
    /// Where it is noted which faults had an effect.
    pub(crate) fired: Option<&'a FiredFaults>,
}

impl Trouble<'_> {
    pub(crate) const NONE: Self = Self { faults: &[], deadlines: None, fired: None };
}

/// A run on threads.
pub(crate) struct Real<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) payload: &'a Payload,
    pub(crate) iterations: Range<u32>,
    /// The cluster that it stands for; without one, links are as fast as memory.
    pub(crate) pace: Option<&'a threads::Pace>,
    pub(crate) trouble: Trouble<'a>,
}

/// An experiment that is ready to run: one valid plan per variant.
#[derive(Debug)]
pub struct Prepared<'a> {
    pub(crate) experiment: &'a Experiment,
    planned: Vec<Planned>,
    /// Lengths of frames by codec, measured once for all variants and iterations.
    sizes: BTreeMap<String, SizeTable>,
    shared: Arc<Shared>,
    /// Bytes of all plans.
    plan_bytes: u64,
    /// The GPUs, once they are needed: opening one takes a while.
    pub(crate) gpus: OnceLock<Vec<Device>>,
}

/// What experiments that run one after the other, or at the same time, share.
#[derive(Debug)]
pub struct Shared {
    sizes: SizeCache,
    /// What each run, or all that run at the same time, may take.
    pub(crate) memory: MemoryLimit,
    /// How many run at the same time, at most.
    sharers: u64,
}

impl Default for Shared {
    fn default() -> Self {
        Self::with_memory(None)
    }
}

impl Shared {
    /// For runs that take at most so many bytes of memory; by default what the system could give now.
    pub fn with_memory(bytes: Option<u64>) -> Self {
        Self { sizes: SizeCache::default(), memory: MemoryLimit::new(bytes), sharers: 1 }
    }

    /// For so many runs at the same time.
    pub(crate) fn among(self, runs: usize) -> Self {
        Self { sharers: runs as u64, ..self }
    }
}

impl<'a> Prepared<'a> {
    /// Plans every variant and checks the plans.
    ///
    /// # Errors
    /// If a plan is not executable (explicit flows can make ranks wait for one another), or the user stops it.
    pub fn new(experiment: &'a Experiment, cancel: &Cancel) -> Result<Self, ExecuteError> {
        Self::planned_only(experiment, Arc::default(), cancel)
    }

    /// As [`new`](Self::new), within the memory that is shared.
    ///
    /// # Errors
    /// As [`new`](Self::new), and if plans take too much memory, before anything is planned.
    pub fn planned_only(
        experiment: &'a Experiment,
        shared: Arc<Shared>,
        cancel: &Cancel,
    ) -> Result<Self, ExecuteError> {
        let plan_bytes = check_memory(experiment, false, shared.memory)?;
        Self::plan(experiment, shared, plan_bytes, cancel)
    }

    /// As [`new`](Self::new), for an experiment that will be run and shares what it can with others.
    ///
    /// # Errors
    /// As [`new`](Self::new), and if plans and timelines take too much memory, before anything is planned.
    pub fn with(
        experiment: &'a Experiment,
        shared: Arc<Shared>,
        cancel: &Cancel,
    ) -> Result<Self, ExecuteError> {
        let plan_bytes = check_memory(experiment, true, shared.memory)?;
        Self::plan(experiment, shared, plan_bytes, cancel)
    }

    fn plan(
        experiment: &'a Experiment,
        shared: Arc<Shared>,
        plan_bytes: u64,
        cancel: &Cancel,
    ) -> Result<Self, ExecuteError> {
        let prepare = |variant: &Variant| {
            if cancel.is_cancelled() {
                return Err(ExecuteError::Cancelled);
            }
            let name = &variant.name;
            let plan = tracing::info_span!("plan", variant = %name).in_scope(|| plan(experiment, variant));
            let _span = tracing::info_span!("check plan", variant = %name).entered();
            let checked = plan.validate_while(&|| !cancel.is_cancelled());
            match checked.map_err(|error| ExecuteError::Plan(variant.name.clone(), error))? {
                Checked::Valid => {}
                Checked::Stopped => return Err(ExecuteError::Cancelled),
            }
            let digest = plan.digest();
            Ok(Planned { plan, digest })
        };
        let planned = experiment.variants.iter().map(prepare).collect::<Result<_, ExecuteError>>()?;
        if cancel.is_cancelled() {
            return Err(ExecuteError::Cancelled);
        }
        let sizes = BTreeMap::new();
        let prepared = Self { experiment, planned, sizes, shared, plan_bytes, gpus: OnceLock::new() };
        let hits = |fault: &Fault| prepared.planned.iter().any(|planned| fault.hits(&planned.plan));
        match experiment.faults.iter().position(|fault| !hits(fault)) {
            Some(index) => Err(ExecuteError::Fault { index }),
            None => Ok(prepared),
        }
    }

    /// Variants and their plans, in the scenario's order.
    pub fn variants(&self) -> impl Iterator<Item = (&'a Variant, &Planned)> {
        self.experiment.variants.iter().zip(&self.planned)
    }

    /// The plan of the variant at `index`.
    pub fn planned(&self, index: usize) -> &Planned {
        &self.planned[index]
    }

    /// Whether every variant can run on `executor`, without running any.
    ///
    /// # Errors
    /// What is missing.
    pub fn check(&self, executor: Executor) -> Result<(), ExecuteError> {
        self.check_plans(executor)?;
        check_start(self.experiment, executor)
    }

    /// The same without a look at the cluster's `start`, for real runs that have another.
    ///
    /// # Errors
    /// What is missing.
    pub fn check_plans(&self, executor: Executor) -> Result<(), ExecuteError> {
        (0..self.planned.len()).try_for_each(|index| self.check_variant(index, executor))
    }

    /// Bytes of memory that the variants take, one after the other, at the least.
    pub(crate) fn memory(&self, executors: &[Executor]) -> u64 {
        let of = |index| executors.iter().map(move |&executor| self.needed(index, executor));
        (0..self.planned.len()).flat_map(of).max().unwrap_or(0)
    }

    /// Bytes that the variant at `index` takes at the least, beside the plans.
    fn needed(&self, index: usize, executor: Executor) -> u64 {
        let (variant, plan) = (&self.experiment.variants[index], &self.planned[index].plan);
        let is_encoded = executor == Executor::Sim && self.experiment.largest_ratio(variant).is_none();
        let encoding = if is_encoded { zipwire_sim::encoding_bytes(plan) } else { 0 };
        memory::needed(plan, self.experiment.iterations, executor) + encoding
    }

    /// What is left for encoding beside the plans and the longest timeline.
    fn room(&self) -> Room {
        let iterations = self.experiment.iterations;
        let timelines =
            self.planned.iter().map(|planned| memory::needed(&planned.plan, iterations, Executor::Sim));
        let taken = self.plan_bytes + timelines.max().unwrap_or(0);
        let bytes = self.shared.memory.bytes().map(|bytes| bytes.saturating_sub(taken));
        Room { bytes, sharers: self.shared.sharers }
    }

    fn check_variant(&self, index: usize, executor: Executor) -> Result<(), ExecuteError> {
        if let Some(missing) = executor.missing() {
            return Err(ExecuteError::Unavailable(executor, missing));
        }
        let (variant, plan) = (&self.experiment.variants[index], &self.planned[index].plan);
        if executor.is_real() && self.experiment.payload.is_none() {
            return Err(ExecuteError::NoPayload(variant.name.clone(), executor));
        }
        if executor.is_real() && !self.experiment.drifts.is_empty() {
            return Err(ExecuteError::Drift(executor));
        }
        let can_adapt =
            matches!(executor, Executor::Sim | Executor::Threads) && self.experiment.faults.is_empty();
        if variant.is_adaptive() && !can_adapt {
            return Err(ExecuteError::Adaptive(variant.name.clone()));
        }
        if executor == Executor::Sim {
            check_ratio(self.experiment, variant, plan)?;
        }
        if executor == Executor::Cuda {
            self.check_gpus(index)?;
        }
        let needed = self.plan_bytes + self.needed(index, executor);
        let limit = self.shared.memory;
        if limit.allows(needed) {
            return Ok(());
        }
        let (variant, limit) = (variant.name.clone(), limit.to_string());
        Err(ExecuteError::Memory { variant, executor, needed, limit })
    }

    /// Runs the variant at `index`.
    ///
    /// # Errors
    /// If the executor is not available, the run fails, or the user stops it.
    pub fn run(
        &mut self,
        index: usize,
        executor: Executor,
        cancel: &Cancel,
    ) -> Result<Outcome, ExecuteError> {
        self.check_variant(index, executor)?;
        check_start(self.experiment, executor)?;
        let name = &self.experiment.variants[index].name;
        let _span = tracing::info_span!("variant", %name, %executor).entered();
        match executor {
            Executor::Sim if self.experiment.variants[index].is_adaptive() => {
                let (timeline, switcher) = self.simulate_adaptive(index, cancel)?;
                Ok(Outcome {
                    timeline,
                    verified: None,
                    is_timed: true,
                    switcher: Some(switcher),
                    unfired: Vec::new(),
                })
            }
            Executor::Sim if self.experiment.faults.is_empty() => {
                let timeline = self.simulate(index, Trouble::NONE, cancel)?;
                Ok(Outcome { timeline, verified: None, is_timed: true, switcher: None, unfired: Vec::new() })
            }
            Executor::Sim => self.simulate_faults(index, cancel),
            Executor::Threads if self.experiment.variants[index].is_adaptive() => {
                let (report, switcher) = self.measure_adaptive(index, None, cancel)?;
                let timeline = report.timeline;
                Ok(Outcome {
                    timeline,
                    verified: Some(true),
                    is_timed: false,
                    switcher: Some(switcher),
                    unfired: Vec::new(),
                })
            }
            Executor::Threads if self.experiment.faults.is_empty() => {
                let report = self.measure(index, self.experiment.iterations, None, Trouble::NONE, cancel)?;
                Ok(Outcome {
                    timeline: report.timeline,
                    verified: Some(true),
                    is_timed: false,
                    switcher: None,
                    unfired: Vec::new(),
                })
            }
            Executor::Threads => self.measure_faults(index, cancel),
            Executor::Cuda => self.run_on_gpus(index, cancel),
            Executor::Mpi | Executor::Nccl => unreachable!("refused by the check"),
        }
    }

    /// What simulations need, and the plans.
    pub(crate) fn simulator<'s>(&'s mut self, cancel: &'s Cancel) -> (Simulator<'s>, &'s [Planned]) {
        let room = self.room();
        let Self { experiment, planned, sizes, shared, .. } = self;
        (Simulator { experiment, sizes, cache: &shared.sizes, room, cancel }, planned)
    }

    /// Runs a variant that is not adaptive on threads, paced or as fast as memory.
    pub(crate) fn measure(
        &self,
        index: usize,
        iterations: u32,
        pace: Option<&threads::Pace>,
        trouble: Trouble<'_>,
        cancel: &Cancel,
    ) -> Result<threads::Report, ExecuteError> {
        let variant = &self.experiment.variants[index];
        let payload = self.experiment.payload.as_ref();
        let payload =
            payload.ok_or_else(|| ExecuteError::NoPayload(variant.name.clone(), Executor::Threads))?;
        let plan = &self.planned[index].plan;
        self.run_on_threads(index, &Real { plan, payload, iterations: 0..iterations, pace, trouble }, cancel)
    }

    /// Runs a plan of a variant on threads. What it returns is verified: as many bytes were compared as the plan moves.
    pub(crate) fn run_on_threads(
        &self,
        index: usize,
        real: &Real<'_>,
        cancel: &Cancel,
    ) -> Result<threads::Report, ExecuteError> {
        let iterations = real.iterations.len() as u64;
        let setup = threads::Setup {
            plan: real.plan,
            payload: real.payload,
            iterations: real.iterations.clone(),
            stuck_after: threads::STUCK_AFTER,
            cores: cores(),
            pace: real.pace,
            faults: real.trouble.faults,
            deadlines: real.trouble.deadlines,
        };
        let run = threads::run(&setup, cancel.flag());
        let report = run.map_err(|failure| self.failed(index, Executor::Threads, failure))?;
        self.check_verified(index, real.plan, iterations, report.bytes_verified)?;
        Ok(report)
    }

    /// What becomes of a real run that has failed.
    pub(crate) fn failed(&self, index: usize, executor: Executor, failure: Box<RunFailure>) -> ExecuteError {
        if failure.first.kind == FailureKind::Cancelled {
            return ExecuteError::Cancelled;
        }
        ExecuteError::Run(self.experiment.variants[index].name.clone(), executor, failure)
    }

    /// As many bytes were compared as the plan delivers and adds up.
    pub(crate) fn check_verified(
        &self,
        index: usize,
        plan: &Plan,
        iterations: u64,
        bytes: u64,
    ) -> Result<(), ExecuteError> {
        if bytes == plan.bytes_verified() * iterations {
            return Ok(());
        }
        Err(ExecuteError::Unverified(self.experiment.variants[index].name.clone()))
    }
}

/// Whether plans, which are held together, and beside them the check of one at a time or, if they are run, its timeline fit into
/// memory. Gives the bytes of the plans.
fn check_memory(experiment: &Experiment, is_run: bool, limit: MemoryLimit) -> Result<u64, ExecuteError> {
    let footprints = experiment.variants.iter().map(|variant| Footprint::of(experiment, variant));
    let all = footprints.fold(Footprint::default(), |all, of| Footprint {
        plan: all.plan + of.plan,
        check: all.check.max(of.check),
        timeline: all.timeline.max(of.timeline),
    });
    let Footprint { plan: plans, check, timeline } = all;
    let timeline = if is_run { timeline } else { 0 };
    if limit.allows(plans + check.max(timeline)) {
        return Ok(plans);
    }
    Err(ExecuteError::TooLarge { plans, check, timeline, limit: limit.to_string() })
}

/// Cores of this machine.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Raw bytes over those of the static sections: no frames of the plan can do better. `None` without static sections.
fn largest_ratio(plan: &Plan) -> Option<f64> {
    let ops = plan.programs.iter().flat_map(|program| &program.ops);
    let blocks = ops.filter_map(|op| match &op.kind {
        OpKind::Encode(batch) => Some(&batch.blocks),
        OpKind::Compute(_)
        | OpKind::Split(_)
        | OpKind::Decode(_)
        | OpKind::Exchange(_)
        | OpKind::Reduce(_)
        | OpKind::Library(_)
        | OpKind::Copy(_) => None,
    });
    let (raw, fixed) = blocks
        .flatten()
        .fold((0, 0), |(raw, fixed), block| (raw + block.values.len, fixed + block.known_len()));
    (fixed > 0).then(|| raw as f64 / fixed as f64)
}

/// Ranks of a real run that have a transfer between them wait for nobody else.
pub(crate) fn check_start(experiment: &Experiment, executor: Executor) -> Result<(), ExecuteError> {
    match experiment.start {
        TransferStart::Barrier if executor.is_real() => Err(ExecuteError::Start(executor)),
        TransferStart::Barrier | TransferStart::Rendezvous => Ok(()),
    }
}

/// Whether frames of a plan can have the ratios that are stated for a variant.
pub(crate) fn check_ratio(
    experiment: &Experiment,
    variant: &Variant,
    plan: &Plan,
) -> Result<(), ExecuteError> {
    match (experiment.largest_ratio(variant), largest_ratio(plan)) {
        (Some(ratio), Some(limit)) if ratio > limit => {
            Err(ExecuteError::Ratio { variant: variant.name.clone(), ratio, limit })
        }
        _ => Ok(()),
    }
}

fn plan(experiment: &Experiment, variant: &Variant) -> Plan {
    if variant.is_adaptive() {
        return Arms::new(experiment, variant).first_plan();
    }
    let choices: Vec<Choice> =
        (0..experiment.job.segments.len()).map(|segment| choice(experiment, variant, segment)).collect();
    zipwire_schedule::plan_each(&experiment.job, &choices.iter().collect::<Vec<_>>())
}

/// How a variant lets the call of a segment travel.
pub(crate) fn choice(experiment: &Experiment, variant: &Variant, segment: usize) -> Choice {
    let protocol = variant.protocol_of(&experiment.job.segments[segment].work);
    let is_speculative = protocol == Protocol::Speculative;
    Choice {
        protocol,
        form: variant.form,
        layout: variant.layout,
        order: variant.order,
        window: variant.window,
        codec: experiment.codec_of(variant).map(|choice| choice.spec.clone()),
        selection: variant.selection,
        parts: variant.chunks,
        ranks_per_node: experiment.topology.gpus_per_node,
        dedup: variant.dedup,
        slot: is_speculative.then(|| slots::slot(experiment, variant, segment)).flatten(),
    }
}
