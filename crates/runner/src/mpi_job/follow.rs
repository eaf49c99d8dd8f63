//! Processes other than rank 0, which carry out rank 0's tasks.

use std::ops::Range;
use std::time::Duration;

use zipwire_codec::Table;
use zipwire_engine::host::HostSetup;
use zipwire_engine::mpi::{World, WorldError};
use zipwire_engine::transport::Ended;
use zipwire_payload::Payload;
use zipwire_scenarios::{Experiment, Variant};
use zipwire_schedule::Plan;

use super::{JobError, MpiCollective, Task};
use crate::adaptive::{Arms, Plans};
use crate::execute::plan;

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
            return Err(JobError::Task("a run before there is an experiment".to_owned()));
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

/// Runs what is said of one experiment; what comes after that.
fn in_experiment(world: &mut World, experiment: &Experiment) -> Result<Option<Task>, JobError> {
    let mut next = read(world)?;
    loop {
        next = match next {
            Some(Task::Run { variant, verifies }) => {
                let plan = plan(experiment, of(experiment, &variant)?);
                let payload = experiment.payload.as_ref();
                let payload = payload.ok_or_else(|| JobError::Task("a run without a payload".to_owned()))?;
                let iterations = 0..experiment.iterations;
                let setup = setup(experiment, &plan, payload, iterations, world.patience(), verifies);
                run(world, &variant, &setup)?;
                read(world)?
            }
            Some(Task::Serve { variant, verifies }) => {
                serve(world, experiment, of(experiment, &variant)?, verifies)?;
                read(world)?
            }
            Some(Task::Adapt { ref variant, .. }) => {
                let variant = of(experiment, variant)?;
                adaptive(world, experiment, variant, next)?
            }
            other => return Ok(other),
        };
    }
}

/// Runs iterations of one adaptive variant; what comes after that.
fn adaptive(
    world: &mut World,
    experiment: &Experiment,
    own: &Variant,
    mut next: Option<Task>,
) -> Result<Option<Task>, JobError> {
    let arms = Arms::new(experiment, own);
    let refused = |error: crate::ExecuteError| JobError::Task(error.to_string());
    let payload = arms.payload(crate::executors::MPI).map_err(refused)?;
    let mut plans = Plans::new(&arms);
    loop {
        match next {
            Some(Task::Adapt { variant, iteration, key, table, verifies }) if variant == own.name => {
                if let Some(table) = table.map(Table::new) {
                    // It is rank 0's to calibrate, and this rank's to doubt.
                    let codec = experiment.codec_of(own).map(|choice| choice.spec.clone().without_table());
                    let named = codec.map(|codec| codec.with_table(&table)).transpose();
                    named.map_err(|error| JobError::Task(error.to_string()))?;
                    plans.use_table(&table);
                }
                let plan = plans.get(&key).map_err(refused)?;
                let iterations = iteration..iteration + 1;
                let setup = setup(experiment, &plan, &payload, iterations, world.patience(), verifies);
                run(world, &own.name, &setup)?;
            }
            other => return Ok(other),
        }
        next = read(world)?;
    }
}

fn run(world: &mut World, name: &str, setup: &HostSetup<'_>) -> Result<(), JobError> {
    match world.run(name, setup)? {
        Ok(_) => Ok(()),
        // Rank 0 has the reports of all, and says which failure came first.
        Err(_) => Err(JobError::Failed),
    }
}

/// Serves requests with all others.
fn serve(
    world: &mut World,
    experiment: &Experiment,
    variant: &Variant,
    verifies: bool,
) -> Result<(), JobError> {
    let (serving, payload) = (experiment.serving.as_ref(), experiment.payload.as_ref());
    let (Some(serving), Some(payload)) = (serving, payload) else {
        return Err(JobError::Task("requests of a scenario that has none".to_owned()));
    };
    let patience = world.patience();
    let setup = crate::serving::setup(experiment, serving, variant, payload.sources(), patience, verifies);
    // Rank 0 says which failure came first.
    world.serve(&variant.name, &setup).map(|_| ()).map_err(|_| JobError::Failed)
}

/// How all processes run a plan.
pub(crate) fn setup<'a>(
    experiment: &'a Experiment,
    plan: &'a Plan,
    payload: &'a Payload,
    iterations: Range<u32>,
    stuck_after: Duration,
    verifies: bool,
) -> HostSetup<'a> {
    HostSetup {
        stuck_after,
        cores: 1,
        phases: Some(&experiment.durations),
        verifies,
        faults: &experiment.faults,
        ..HostSetup::new(plan, payload, iterations)
    }
}

/// The next thing to do, behind what concerns no experiment, which is done.
fn read(world: &mut World) -> Result<Option<Task>, JobError> {
    loop {
        let next = world.next_task().map_err(|error| match error {
            // This process has done its part; rank 0 says what has failed.
            WorldError::Ended(Ended::Aborted) => JobError::Failed,
            error => error.into(),
        });
        let Some(bytes) = next? else { return Ok(None) };
        match Task::of_bytes(&bytes)? {
            Task::Collective { collective, bytes, rounds } => {
                let known = MpiCollective::ALL.into_iter().find(|known| known.function() == collective);
                let known = known.ok_or(JobError::Task(collective))?;
                world.time_collective(known, bytes, rounds + 1)?;
            }
            task => return Ok(Some(task)),
        }
    }
}

fn of<'e>(experiment: &'e Experiment, name: &str) -> Result<&'e Variant, JobError> {
    let variant = experiment.variants.iter().find(|variant| variant.name == name);
    variant.ok_or_else(|| JobError::Task(format!("there is no variant `{name}`")))
}
