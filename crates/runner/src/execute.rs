//! Prepares an experiment: plans its variants, and checks whether executors can run them.

mod error;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use zipwire_cluster::TransferStart;
use zipwire_engine::EngineError;
use zipwire_kernels::Device;
use zipwire_payload::Payload;
use zipwire_scenarios::{Experiment, ExperimentWork, Variant};
use zipwire_schedule::{
    Capabilities, Checked, FailureKind, Fault, Job, Plan, Readiness, RunFailure, TransferOrder,
};
use zipwire_sim::{Room, SizeCache, SizeTable};
use zipwire_timeline::Timeline;
use zipwire_traces::SwitcherSummary;

pub use self::error::ExecuteError;

use crate::adaptive::Arms;
use crate::choices::choices;
use crate::executors::{FaultSupport, SIM};
use crate::folded::Folded;
use crate::memory::{self, Footprint, MemoryLimit};
use crate::serving::{self, Served};
use crate::simulate::Simulator;
use crate::{Cancel, Executor, executors};

/// Capabilities of the executor that the simulator imitates: it completes ops and lets the machine order transfers.
pub const SIMULATED: Capabilities =
    Capabilities { readiness: Readiness::Completed, transfer_order: TransferOrder::Machine, timed: true };

/// A variant's plan and its digest.
#[derive(Debug)]
pub struct Planned {
    /// The plan, validated.
    pub plan: Arc<Plan>,
    /// Its digest.
    pub digest: String,
}

impl Planned {
    fn new(
        experiment: &Experiment,
        variant: &Variant,
        folded: Option<&Folded>,
        cancel: &Cancel,
    ) -> Result<Self, ExecuteError> {
        if cancel.is_cancelled() {
            return Err(ExecuteError::Cancelled);
        }
        let name = &variant.name;
        let plan = {
            let _span = tracing::info_span!("plan", variant = %name).entered();
            let goes_on = || !cancel.is_cancelled();
            let topology = &experiment.topology;
            folded.map_or_else(|| Some(plan(experiment, variant)), |folded| folded.plan(topology, goes_on))
        };
        let plan = plan.ok_or(ExecuteError::Cancelled)?;
        let digest = match &experiment.work {
            ExperimentWork::Serving(serving) => serving::digest(experiment, serving, variant),
            ExperimentWork::Iterations(iterations) => {
                let _span = tracing::info_span!("check plan", variant = %name).entered();
                let job = folded.map_or(&iterations.job, |folded| &folded.job);
                let checked = plan.validate_while(job, &|| !cancel.is_cancelled());
                match checked.map_err(|error| ExecuteError::Plan(name.clone(), error))? {
                    Checked::Valid => plan.digest(),
                    Checked::Stopped => return Err(ExecuteError::Cancelled),
                }
            }
        };
        Ok(Self { plan: Arc::new(plan), digest })
    }
}

/// Result of one variant on one executor.
#[derive(Debug)]
pub struct Outcome {
    /// Spans of all ranks.
    pub timeline: Timeline,
    /// Whether every received byte was compared with what was sent and found equal; `None` where no bytes move.
    pub verified: Option<bool>,
    /// Whether its times stand for a cluster's: speedups and bandwidths are given only then.
    pub is_timed: bool,
    /// Decisions of the switcher of an adaptive variant.
    pub switcher: Option<SwitcherSummary>,
    /// Outcome of the requests of workload `serving`.
    pub served: Option<Served>,
    /// Faults of the scenario that had no effect, by their positions. `sim` knows all of them; other executors know those that
    /// find nothing to hit in the plan.
    pub unfired: Vec<usize>,
}

/// An experiment that is ready to run: one valid plan per variant.
#[derive(Debug)]
pub struct Prepared<'a> {
    pub(crate) experiment: &'a Experiment,
    planned: Vec<Planned>,
    /// Lengths of frames by codec, measured once for all variants and iterations.
    sizes: BTreeMap<String, SizeTable>,
    pub(crate) shared: Arc<Shared>,
    /// Bytes of all plans.
    plan_bytes: u64,
    /// The GPUs, once they are needed: opening one takes a while.
    pub(crate) gpus: OnceLock<Vec<Device>>,
}

/// State shared by experiments that run in sequence or at the same time: frame lengths and the memory limit.
#[derive(Debug)]
pub struct Shared {
    sizes: SizeCache,
    /// Limit for each run, or for all that run at the same time.
    pub(crate) memory: MemoryLimit,
    /// How many run at the same time, at most.
    sharers: u64,
    /// Whether executors that move bytes compare them.
    verifies: bool,
    /// Whether ranks that are alike are planned and simulated once.
    pub(crate) folds: bool,
}

impl Default for Shared {
    fn default() -> Self {
        Self::with_memory(None)
    }
}

impl Shared {
    /// For runs that take at most so many bytes of memory; by default what the system could give now.
    pub fn with_memory(bytes: Option<u64>) -> Self {
        Self {
            sizes: SizeCache::default(),
            memory: MemoryLimit::new(bytes),
            sharers: 1,
            verifies: true,
            folds: false,
        }
    }

    /// Turns verification of received bytes on or off, on host executors. It is on by default; off, times are those of a run that
    /// trusts its links.
    #[must_use]
    pub fn verifying(self, verifies: bool) -> Self {
        Self { verifies, ..self }
    }

    /// For runs that are simulated only: in large jobs, ranks that are alike are planned and simulated once. Off by default.
    #[must_use]
    pub fn folding(self, folds: bool) -> Self {
        Self { folds, ..self }
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

    /// [`new`](Self::new) within the memory limit of `shared`.
    ///
    /// # Errors
    /// See [`new`](Self::new); and if plans take too much memory, before anything is planned.
    pub fn planned_only(
        experiment: &'a Experiment,
        shared: Arc<Shared>,
        cancel: &Cancel,
    ) -> Result<Self, ExecuteError> {
        Self::plan(experiment, shared, false, cancel)
    }

    /// [`planned_only`](Self::planned_only) for an experiment that will be run, so that timelines must fit into memory, too.
    ///
    /// # Errors
    /// See [`new`](Self::new); and if plans and timelines take too much memory, before anything is planned.
    pub fn with(
        experiment: &'a Experiment,
        shared: Arc<Shared>,
        cancel: &Cancel,
    ) -> Result<Self, ExecuteError> {
        Self::plan(experiment, shared, true, cancel)
    }

    fn plan(
        experiment: &'a Experiment,
        shared: Arc<Shared>,
        is_run: bool,
        cancel: &Cancel,
    ) -> Result<Self, ExecuteError> {
        let folding = shared.folds.then_some(cancel);
        let (footprint, folded) = Footprint::of(experiment, folding, is_run, shared.memory);
        // What was counted until then says nothing.
        if cancel.is_cancelled() {
            return Err(ExecuteError::Cancelled);
        }
        footprint.check(experiment.variants.len(), shared.memory)?;
        let plan_bytes = footprint.plans;
        let prepare =
            |(variant, folded): (_, &Option<_>)| Planned::new(experiment, variant, folded.as_ref(), cancel);
        let variants = experiment.variants.iter().zip(&folded);
        let planned = variants.map(prepare).collect::<Result<_, ExecuteError>>()?;
        if cancel.is_cancelled() {
            return Err(ExecuteError::Cancelled);
        }
        let sizes = BTreeMap::new();
        let prepared = Self { experiment, planned, sizes, shared, plan_bytes, gpus: OnceLock::new() };
        let hits = |fault: &Fault| prepared.planned.iter().any(|planned| fault.hits(&planned.plan));
        match experiment.faults().iter().position(|fault| !hits(fault)) {
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
    /// The first thing that is missing.
    pub fn check(&self, executor: &dyn Executor) -> Result<(), ExecuteError> {
        self.check_plans(executor)?;
        check_start(self.experiment, executor)
    }

    /// [`check`](Self::check) without `cluster.start`, for real runs that replace it.
    ///
    /// # Errors
    /// The first thing that is missing.
    pub fn check_plans(&self, executor: &dyn Executor) -> Result<(), ExecuteError> {
        (0..self.planned.len()).try_for_each(|index| self.check_variant(index, executor))
    }

    /// Bytes of memory that the variants take, one after the other, at the least.
    pub(crate) fn memory(&self, executors: &[&dyn Executor]) -> u64 {
        let of = |index| executors.iter().map(move |executor| executor.memory_bytes(self, index));
        (0..self.planned.len()).flat_map(of).max().unwrap_or(0)
    }

    /// Memory left for encoding beside the plans and the longest timeline.
    fn room(&self) -> Room {
        let iterations = self.experiment.iterations;
        let timelines = self.planned.iter().map(|planned| memory::timeline_bytes(&planned.plan, iterations));
        let taken = self.plan_bytes + timelines.max().unwrap_or(0);
        let bytes = self.shared.memory.bytes().map(|bytes| bytes.saturating_sub(taken));
        Room { bytes, sharers: self.shared.sharers }
    }

    pub(crate) fn check_variant(&self, index: usize, executor: &dyn Executor) -> Result<(), ExecuteError> {
        let name = executor.name();
        if let Some(missing) = executor.missing() {
            return Err(ExecuteError::Unavailable(name, missing));
        }
        let (experiment, capabilities) = (self.experiment, executor.capabilities());
        let variant = &experiment.variants[index];
        if experiment.as_serving().is_some() && !capabilities.serves {
            return Err(ExecuteError::NoServing(name, executors::serving()));
        }
        if capabilities.is_real {
            self.payload(index, executor)?;
            if !experiment.drifts().is_empty() {
                return Err(ExecuteError::Drift(name));
            }
        }
        if variant.is_adaptive() && !(capabilities.adapts && experiment.faults().is_empty()) {
            return Err(ExecuteError::Adaptive(variant.name.clone(), executors::adapting()));
        }
        if !experiment.faults().is_empty() && capabilities.faults == FaultSupport::None {
            return Err(ExecuteError::Refused(variant.name.clone(), name, EngineError::Faults));
        }
        executor.check(self, index)?;
        if !experiment.faults().is_empty() && capabilities.faults == FaultSupport::Deadlines {
            // A simulation sets the deadlines.
            SIM.check(self, index)?;
        }
        let needed = self.plan_bytes + executor.memory_bytes(self, index);
        let limit = self.shared.memory;
        if limit.allows(needed) {
            return Ok(());
        }
        let (variant, limit) = (variant.name.clone(), limit.to_string());
        Err(ExecuteError::Memory { variant, executor: name, needed, limit })
    }

    /// The experiment.
    pub fn experiment(&self) -> &'a Experiment {
        self.experiment
    }

    /// The bytes that the ranks of a variant have, for executors that move them.
    ///
    /// # Errors
    /// If the experiment has none.
    pub fn payload(&self, index: usize, executor: &dyn Executor) -> Result<&'a Payload, ExecuteError> {
        let payload = self.experiment.payload.as_ref();
        let variant = || self.experiment.variants[index].name.clone();
        payload.ok_or_else(|| ExecuteError::NoPayload(variant(), executor.name()))
    }

    /// The simulator of this experiment, and the plans.
    pub(crate) fn simulator<'s>(&'s mut self, cancel: &'s Cancel) -> (Simulator<'s>, &'s [Planned]) {
        let room = self.room();
        let Self { experiment, planned, sizes, shared, .. } = self;
        (Simulator { experiment, sizes, cache: &shared.sizes, room, cancel }, planned)
    }

    /// Whether what is received is compared.
    pub(crate) fn verifies(&self) -> bool {
        self.shared.verifies
    }

    /// Error of a real run that has failed.
    pub(crate) fn failed(
        &self,
        index: usize,
        executor: &dyn Executor,
        failure: Box<RunFailure>,
    ) -> ExecuteError {
        if failure.first.kind == FailureKind::Cancelled {
            return ExecuteError::Cancelled;
        }
        ExecuteError::Run(self.experiment.variants[index].name.clone(), executor.name(), failure)
    }
}

/// Refuses `cluster.start = "barrier"` on real ranks: their transfers start when both ends are there.
pub(crate) fn check_start(experiment: &Experiment, executor: &dyn Executor) -> Result<(), ExecuteError> {
    match experiment.start {
        TransferStart::Barrier if executor.capabilities().is_real => {
            Err(ExecuteError::Start(executor.name()))
        }
        TransferStart::Barrier | TransferStart::Rendezvous => Ok(()),
    }
}

/// The plan of a variant, not yet checked; of an adaptive one that of its first iteration. Serving has none, and so one without ops.
pub(crate) fn plan(experiment: &Experiment, variant: &Variant) -> Plan {
    let Some(iterations) = experiment.as_iterations() else { return without_ops(experiment) };
    if variant.is_adaptive() {
        return Arms::new(experiment, variant).first_plan();
    }
    let choices = choices(experiment, variant);
    zipwire_schedule::plan_each(&iterations.job, &choices.iter().collect::<Vec<_>>())
}

/// A plan of all ranks in which they do nothing.
fn without_ops(experiment: &Experiment) -> Plan {
    let (name, rank_count) = (experiment.workload_name(), experiment.topology.ranks());
    zipwire_schedule::plan_each(&Job { name, rank_count, slots: Vec::new(), segments: Vec::new() }, &[])
}
