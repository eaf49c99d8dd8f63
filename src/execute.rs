//! Runs one variant of an experiment on one executor.

use zipwire_engine::threads;
use zipwire_scenarios::{Experiment, Variant};
use zipwire_schedule::{Capabilities, Choice, Plan, PlanError, Readiness, TransferOrder};
use zipwire_sim::{FrameSizes, SimError, SizeError, SizeTable};
use zipwire_traces::Timeline;

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
    Unavailable(Executor, &'static str),
    /// The experiment holds no bytes to run with.
    #[error(
        "variant `{0}` cannot run on `{1}`: the scenario states a ratio and no payload\n\
         help: add `payload` to `[workload]`, for instance `payload = {{ gaussian = 0.02 }}`"
    )]
    NoPayload(String, Executor),
    /// The plan is not executable.
    #[error("variant `{0}` has no executable plan: {1}")]
    Plan(String, PlanError),
    /// The payload could not be encoded.
    #[error(transparent)]
    Size(#[from] SizeError),
    /// The simulation has no result.
    #[error("variant `{0}` on `sim`: {1}")]
    Sim(String, SimError),
    /// The real run failed.
    #[error("variant `{0}` on `threads` failed in {1}")]
    Threads(String, threads::RunError),
}

/// An experiment that is ready to run: one valid plan per variant.
#[derive(Debug)]
pub struct Prepared<'a> {
    experiment: &'a Experiment,
    plans: Vec<Plan>,
    /// Lengths of frames, measured once for all variants and iterations.
    sizes: SizeTable,
}

impl<'a> Prepared<'a> {
    /// Plans every variant and checks the plans.
    ///
    /// # Errors
    /// If a plan is not executable: explicit flows can make ranks wait for one another.
    pub fn new(experiment: &'a Experiment) -> Result<Self, ExecuteError> {
        let plan = |variant: &Variant| {
            let plan = plan(experiment, variant);
            plan.validate().map_err(|error| ExecuteError::Plan(variant.name.clone(), error))?;
            Ok(plan)
        };
        let plans = experiment.variants.iter().map(plan).collect::<Result<_, ExecuteError>>()?;
        Ok(Self { experiment, plans, sizes: SizeTable::default() })
    }

    /// Variants and their plans, in the scenario's order.
    pub fn variants(&self) -> impl Iterator<Item = (&'a Variant, &Plan)> {
        self.experiment.variants.iter().zip(&self.plans)
    }

    /// The plan of the variant at `index`.
    pub fn plan(&self, index: usize) -> &Plan {
        &self.plans[index]
    }

    /// Whether every variant can run on `executor`, without running any.
    ///
    /// # Errors
    /// What is missing.
    pub fn check(&self, executor: Executor) -> Result<(), ExecuteError> {
        if let Some(missing) = executor.missing() {
            return Err(ExecuteError::Unavailable(executor, missing));
        }
        match self.experiment.variants.iter().find(|variant| variant.protocol.is_coded()) {
            Some(variant) if executor.is_real() && self.experiment.payload.is_none() => {
                Err(ExecuteError::NoPayload(variant.name.clone(), executor))
            }
            Some(_) | None => Ok(()),
        }
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
    ) -> Result<Timeline, ExecuteError> {
        self.check(executor)?;
        match executor {
            Executor::Sim => self.simulate(index, cancel),
            Executor::Threads => self.run_threads(index, cancel),
            Executor::Mpi | Executor::Cuda | Executor::Nccl => unreachable!("refused by the check"),
        }
    }

    fn simulate(&mut self, index: usize, cancel: &Cancel) -> Result<Timeline, ExecuteError> {
        let (experiment, plan) = (self.experiment, &self.plans[index]);
        let sizes = match (&plan.codec, &experiment.codec) {
            (Some(spec), Some(choice)) => match (choice.ratio, &experiment.payload) {
                (Some(ratio), _) => FrameSizes::Ratio(ratio),
                (None, Some(payload)) => {
                    if !self.sizes.measure(plan, spec, payload, || !cancel.is_cancelled())? {
                        return Err(ExecuteError::Cancelled);
                    }
                    FrameSizes::Measured(&self.sizes)
                }
                (None, None) => unreachable!("scenarios with coded variants have a payload or a ratio"),
            },
            _ => FrameSizes::None,
        };
        let setup = zipwire_sim::Setup {
            plan,
            topology: &experiment.topology,
            host: experiment.host,
            codec: experiment.codec.as_ref().map(|choice| choice.cost),
            sizes,
            durations: &experiment.durations,
            iterations: experiment.iterations,
            capabilities: SIMULATED,
        };
        zipwire_sim::run(&setup, &|| !cancel.is_cancelled()).map_err(|error| match error {
            SimError::Cancelled => ExecuteError::Cancelled,
            error => ExecuteError::Sim(experiment.variants[index].name.clone(), error),
        })
    }

    fn run_threads(&self, index: usize, cancel: &Cancel) -> Result<Timeline, ExecuteError> {
        let (experiment, variant) = (self.experiment, &self.experiment.variants[index]);
        let payload = experiment.payload.as_ref();
        let setup = threads::Setup {
            plan: &self.plans[index],
            payload: payload
                .ok_or_else(|| ExecuteError::NoPayload(variant.name.clone(), Executor::Threads))?,
            iterations: experiment.iterations,
            stuck_after: threads::STUCK_AFTER,
        };
        threads::run(&setup, cancel.flag()).map_err(|error| {
            if cancel.is_cancelled() {
                return ExecuteError::Cancelled;
            }
            ExecuteError::Threads(variant.name.clone(), error)
        })
    }
}

fn plan(experiment: &Experiment, variant: &Variant) -> Plan {
    let choice = Choice {
        protocol: variant.protocol,
        order: variant.order,
        window: variant.window,
        codec: experiment.codec.as_ref().map(|choice| choice.spec.clone()),
    };
    zipwire_schedule::plan(&experiment.job, &choice)
}
