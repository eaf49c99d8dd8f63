//! Tasks of a job: messages by which rank 0 says what is done together, and the loop in which the others do it.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use zipwire_cluster::library::Operation;
use zipwire_codec::Table;
use zipwire_engine::mpi::{World, WorldError};
use zipwire_engine::transport::Ended;
use zipwire_scenarios::{Experiment, Parcel, Variant};

use super::JobError;
use crate::adaptive::{Arms, Key, Plans};
use crate::execute::plan;
use crate::executors::{PlanRun, Recipe, RunConditions, ServeRun, named};

/// Something to do together.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Task {
    /// Take up an experiment, which the runs that follow are of.
    Load(Parcel),
    /// Run something of the experiment.
    Run(RunTask),
    /// Carry out a collective of an executor's own library.
    Library {
        executor: String,
        /// Name of the [`Operation`].
        operation: String,
        bytes: u64,
        rounds: u32,
    },
}

/// Something of an experiment to run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RunTask {
    /// Name of the executor whose ranks run it.
    pub(super) executor: String,
    pub(super) variant: String,
    /// Whether received bytes are compared.
    pub(super) verifies: bool,
    pub(super) work: Work,
}

/// Part of a variant that a task runs.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Work {
    /// Iterations of its own plan.
    Plan { iterations: Range<u32> },
    /// Iterations of a plan of an adaptive variant.
    Adaptive {
        iterations: Range<u32>,
        /// Arms of all segments, and whether statistics are exchanged.
        key: Key,
        /// Bytes of the table that frames name in place of the scenario's.
        table: Option<Vec<u8>>,
    },
    /// All of its requests.
    Serving,
}

impl Work {
    pub(super) fn of_plan(run: &PlanRun<'_>) -> Self {
        let iterations = run.iterations.clone();
        match run.recipe {
            Recipe::Variant => Self::Plan { iterations },
            Recipe::Adaptive { key, table } => {
                let table = table.map(|table| table.as_bytes().to_vec());
                Self::Adaptive { iterations, key: key.clone(), table }
            }
        }
    }
}

impl Task {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        postcard::to_allocvec(self).expect("tasks are plain data")
    }

    fn of_bytes(bytes: &[u8]) -> Result<Self, JobError> {
        postcard::from_bytes(bytes).map_err(JobError::task)
    }
}

/// A process of a job other than rank 0, with its part of what rank 0 runs.
#[derive(Debug)]
pub struct Follower<'a> {
    /// Connection with the other processes.
    pub world: &'a mut World,
    /// The experiment, as rank 0 has it.
    pub experiment: &'a Experiment,
    /// Whether received bytes are compared.
    pub verifies: bool,
}

/// Runs whatever rank 0 says, until it says that nothing is left.
pub(super) fn follow(mut world: World) -> Result<(), JobError> {
    let followed = tasks(&mut world);
    if followed.is_ok() {
        world.has_said_all(None);
    }
    // Rank 0 says what has gone wrong, to which each has reported.
    let finished = world.finish();
    followed.and(finished.map_err(JobError::from))
}

fn tasks(world: &mut World) -> Result<(), JobError> {
    let mut next = read(world)?;
    while let Some(task) = next {
        let Task::Load(parcel) = task else {
            return Err(JobError::task("a run before there is an experiment"));
        };
        let experiment = match parcel.unpack() {
            Ok(experiment) => experiment,
            Err(source) => {
                let host = world.members()[0].host.clone();
                world.refuse(&format!("on host `{host}` {}", source.render(false)));
                return Err(JobError::Failed);
            }
        };
        next = in_experiment(world, &experiment)?;
    }
    Ok(())
}

/// Runs what is said of one experiment; the task behind that.
fn in_experiment(world: &mut World, experiment: &Experiment) -> Result<Option<Task>, JobError> {
    let mut next = read(world)?;
    loop {
        let Some(Task::Run(first)) = next else { return Ok(next) };
        let index = experiment.variants.iter().position(|variant| variant.name == first.variant);
        let index =
            index.ok_or_else(|| JobError::task(format!("there is no variant `{}`", first.variant)))?;
        next = in_variant(world, experiment, index, first)?;
    }
}

/// Runs what is said of one variant; the task behind that.
fn in_variant(
    world: &mut World,
    experiment: &Experiment,
    index: usize,
    first: RunTask,
) -> Result<Option<Task>, JobError> {
    let variant = &experiment.variants[index];
    let arms = variant.is_adaptive().then(|| Arms::new(experiment, variant));
    let mut adaptive = None;
    let mut task = first;
    loop {
        let executor = named(&task.executor).map_err(JobError::task)?;
        let mut follower = Follower { world: &mut *world, experiment, verifies: task.verifies };
        match task.work {
            Work::Plan { iterations } => {
                let run = PlanRun {
                    index,
                    plan: &plan(experiment, variant),
                    recipe: Recipe::Variant,
                    payload: experiment.payload.as_ref(),
                    iterations,
                    conditions: RunConditions { faults: experiment.faults(), ..RunConditions::NONE },
                };
                executor.follow_plan(&mut follower, &run)?;
            }
            Work::Adaptive { iterations, key, table } => {
                let arms = arms.as_ref().ok_or_else(|| JobError::task("arms of a variant that has none"))?;
                if adaptive.is_none() {
                    adaptive = Some((Plans::new(arms), arms.payload(executor).map_err(JobError::task)?));
                }
                let (plans, payload) = adaptive.as_mut().expect("it was made just now");
                if let Some(table) = table.map(Table::new) {
                    check_table(experiment, variant, &table)?;
                    plans.use_table(&table);
                }
                let run = PlanRun {
                    index,
                    plan: &*plans.get(&key).map_err(JobError::task)?,
                    recipe: Recipe::Adaptive { key: &key, table: plans.table() },
                    payload: Some(payload),
                    iterations,
                    conditions: RunConditions::NONE,
                };
                executor.follow_plan(&mut follower, &run)?;
            }
            Work::Serving => {
                let serving = experiment.as_serving();
                let serving =
                    serving.ok_or_else(|| JobError::task("requests of a scenario that has none"))?;
                executor.follow_serving(&mut follower, &ServeRun { index, serving, pace: None })?;
            }
        }
        task = match read(world)? {
            Some(Task::Run(next)) if next.variant == variant.name => next,
            other => return Ok(other),
        };
    }
}

/// Whether the codec of a variant takes a table: it is rank 0's to calibrate, and this rank's to doubt.
fn check_table(experiment: &Experiment, variant: &Variant, table: &Table) -> Result<(), JobError> {
    let Some(choice) = experiment.codec_of(variant) else { return Ok(()) };
    choice.spec.clone().without_table().with_table(table).map(|_| ()).map_err(JobError::task)
}

/// The next task, behind what concerns no experiment, which is done.
fn read(world: &mut World) -> Result<Option<Task>, JobError> {
    loop {
        let next = world.next_task().map_err(|error| match error {
            // This process has done its part; rank 0 says what has failed.
            WorldError::Ended(Ended::Aborted) => JobError::Failed,
            error => error.into(),
        });
        let Some(bytes) = next? else { return Ok(None) };
        match Task::of_bytes(&bytes)? {
            Task::Library { executor, operation, bytes, rounds } => {
                let executor = named(&executor).map_err(JobError::task)?;
                let known = Operation::ALL.into_iter().find(|known| known.name() == operation);
                let known = known.ok_or(JobError::Task(operation))?;
                executor.follow_library(world, known, bytes, rounds)?;
            }
            task => return Ok(Some(task)),
        }
    }
}
