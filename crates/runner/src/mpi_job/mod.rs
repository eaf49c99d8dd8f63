//! A job of MPI processes, each of which is a rank of whatever is run: rank 0 does what a single process would do, and says to the others
//! what to run with it; these follow.
//!
//! There is one job in a process, as there is one MPI.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use zipwire_codec::Table;
use zipwire_engine::host::HostSetup;
use zipwire_engine::mpi::{World, WorldError};
use zipwire_engine::transport::Ended;
use zipwire_mpi::{MpiError, environment, library};
use zipwire_payload::Payload;
use zipwire_scenarios::{Experiment, Parcel, Variant};
use zipwire_schedule::{Plan, Rank};

use crate::adaptive::{Arms, Key, Plans};
use crate::execute::plan;
use crate::executors::{PlanRun, Recipe};
use crate::{Cancel, ExecuteError};

pub use zipwire_engine::mpi::Member;
pub use zipwire_mpi::Collective as MpiCollective;

/// Part of a process in a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Rank 0: does what a single process would do.
    First,
    /// Another rank: has carried out rank 0's tasks when [`join`] returns.
    Other,
}

/// A process cannot take part in a job.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "fields are named by the messages")]
#[non_exhaustive]
pub enum JobError {
    #[error(
        "this process was started by {by} as number {rank}, and that starts no MPI\n\
         help: start it by `mpirun -n N`, or by `srun --mpi=pmix`"
    )]
    Launcher { by: &'static str, rank: u32 },
    #[error(
        "{by} has started {launched} processes, and the MPI library `{library}` knows of {found}\n\
         help: launcher and library must belong together: `ZIPWIRE_MPI_LIB` names the library; variables that a launcher has left in a shell are to be unset"
    )]
    Strangers { by: &'static str, launched: u32, library: String, found: u32 },
    #[error(transparent)]
    World(#[from] WorldError),
    /// The run has failed, which rank 0 reports.
    #[error("the run has failed: rank 0 says how")]
    Failed,
    #[error("rank 0 has said what this process does not understand: {0}")]
    Task(String),
}

impl From<MpiError> for JobError {
    fn from(error: MpiError) -> Self {
        Self::World(error.into())
    }
}

impl JobError {
    /// Whether MPI cannot be had here.
    pub fn is_absence(&self) -> bool {
        matches!(self, Self::Launcher { .. })
            || matches!(self, Self::World(WorldError::Mpi(error)) if error.is_absence())
    }
}

/// The job of this process, at rank 0 of it.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) world: World,
    /// The experiment that all have, as it was sent.
    loaded: Option<Vec<u8>>,
    /// Seconds within which the clocks were aligned when it was worst.
    aligned_s: Option<f64>,
}

static JOB: Mutex<Option<Job>> = Mutex::new(None);

/// The job, if this process is rank 0 of one.
pub(crate) fn job() -> MutexGuard<'static, Option<Job>> {
    JOB.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Who took part in a job, and how well their clocks agree.
#[derive(Clone, Debug)]
pub struct Attendance {
    /// Who the processes are, by rank.
    pub members: Vec<Member>,
    /// Name and version of the MPI library.
    pub library: String,
    /// Seconds within which the clocks were aligned with rank 0's when it was worst; `None` if nothing was run.
    pub aligned_s: Option<f64>,
}

/// Who takes part in the job; `None` if this process is not rank 0 of one.
pub fn attendance() -> Option<Attendance> {
    let guard = job();
    let Job { world, aligned_s, .. } = guard.as_ref()?;
    let (members, library) = (world.members().to_vec(), world.library().to_owned());
    Some(Attendance { members, library, aligned_s: *aligned_s })
}

/// Seconds that a collective of MPI itself takes, the mean of so many rounds behind a first one; `bytes` are those that a process has where it
/// sends parts or contributes, and those that it gets where it gathers. At rank 0 of a job.
///
/// # Errors
/// If there is no job, the bytes are not equal parts, or MPI fails.
pub fn time_collective(collective: MpiCollective, bytes: u64, rounds: u32) -> Result<f64, ExecuteError> {
    let mut guard = job();
    let job = guard.as_mut().ok_or(ExecuteError::NoJob)?;
    job.world
        .tell(&Task::Collective { collective: collective.function().to_owned(), bytes, rounds }.to_bytes())?;
    let seconds = job.world.time_collective(collective, bytes, rounds + 1)?;
    Ok(seconds.iter().skip(1).sum::<f64>() / f64::from(rounds.max(1)))
}

/// Whether a launcher has started this process as one of a job.
pub fn is_launched() -> bool {
    environment::launched().is_some()
}

/// Takes part in the job that this process was started for, in which nothing may stand still for longer than `stall`, or else as long as
/// [`World::begin`] says. To be called once, on the main thread. Processes other than rank 0 come back when all is done.
///
/// # Errors
/// If there is no MPI, launcher and library do not fit, or, elsewhere than at rank 0, this process has failed.
pub fn join(stall: Option<Duration>, cancel: &Cancel) -> Result<Role, JobError> {
    let library = library()?;
    let launched = environment::launched();
    if let Some(launched) = launched.as_ref().filter(|launched| !launched.has_mpi) {
        return Err(JobError::Launcher { by: launched.by, rank: launched.rank });
    }
    let world = World::begin(library, stall, cancel.shared_flag())?;
    if let Some((by, size)) = launched.and_then(|launched| Some((launched.by, launched.size?)))
        && size != world.size()
    {
        let (library, found) = (library.path.display().to_string(), world.size());
        return Err(JobError::Strangers { by, launched: size, library, found });
    }
    if world.rank() == Rank(0) {
        *job() = Some(Job { world, loaded: None, aligned_s: None });
        return Ok(Role::First);
    }
    follow(world).map(|()| Role::Other)
}

/// Ends the job, at rank 0, which ends with an exit code and has said why: the others end.
///
/// # Errors
/// If MPI fails.
pub fn finish(code: u8) -> Result<(), JobError> {
    let ended = job().take();
    ended.map_or(Ok(()), |job| {
        job.world.has_said_all(Some(code));
        Ok(job.world.finish()?)
    })
}

impl Job {
    /// Aligns the clocks of all processes; where these are gone, the next run says so.
    pub(crate) fn align(&mut self) -> Result<(), ExecuteError> {
        if let Some(aligned_s) = self.world.align()? {
            self.aligned_s = Some(self.aligned_s.map_or(aligned_s, |worst_s| worst_s.max(aligned_s)));
        }
        Ok(())
    }

    /// Says to all others what comes next, in an experiment that they get first unless they have it.
    pub(crate) fn tell(&mut self, experiment: &Experiment, task: &Task) -> Result<(), ExecuteError> {
        let parcel = experiment.parcel().map_err(|error| ExecuteError::Parcel(Box::new(error)))?;
        let load = Task::Load(parcel).to_bytes();
        if self.loaded.as_ref() != Some(&load) {
            self.world.tell(&load)?;
            self.loaded = Some(load);
        }
        Ok(self.world.tell(&task.to_bytes())?)
    }
}

/// Something to do together.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Task {
    /// Take up an experiment, which all that follows is about.
    Load(Parcel),
    Run {
        variant: String,
        iterations: Range<u32>,
        /// Whether what is received is compared.
        verifies: bool,
    },
    /// Serve all requests as a variant says.
    Serve {
        variant: String,
        /// Whether what is received is compared.
        verifies: bool,
    },
    /// Carry out a collective of MPI itself.
    Collective {
        /// The function, as MPI calls it.
        collective: String,
        bytes: u64,
        rounds: u32,
    },
    /// Run iterations of an adaptive variant.
    Adapt {
        variant: String,
        iterations: Range<u32>,
        /// Arms of all segments in this iteration.
        key: Key,
        /// Bytes of the table that frames name in place of the scenario's.
        table: Option<Vec<u8>>,
        /// Whether what is received is compared.
        verifies: bool,
    },
}

impl Task {
    /// The task of other ranks in a run of a plan.
    pub(crate) fn of_run(variant: &str, run: &PlanRun<'_>, verifies: bool) -> Self {
        let (variant, iterations) = (variant.to_owned(), run.iterations.clone());
        match run.recipe {
            Recipe::Variant => Self::Run { variant, iterations, verifies },
            Recipe::Adaptive { key, table } => {
                let table = table.map(|table| table.as_bytes().to_vec());
                Self::Adapt { variant, iterations, key: key.clone(), table, verifies }
            }
        }
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        postcard::to_allocvec(self).expect("tasks are plain data")
    }

    fn of_bytes(bytes: &[u8]) -> Result<Self, JobError> {
        postcard::from_bytes(bytes).map_err(|error| JobError::Task(error.to_string()))
    }
}

/// Runs whatever rank 0 says, until it says that nothing is left.
fn follow(mut world: World) -> Result<(), JobError> {
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
            Some(Task::Run { variant, iterations, verifies }) => {
                let plan = plan(experiment, of(experiment, &variant)?);
                let payload = experiment.payload.as_ref();
                let payload = payload.ok_or_else(|| JobError::Task("a run without a payload".to_owned()))?;
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
            Some(Task::Adapt { variant, iterations, key, table, verifies }) if variant == own.name => {
                if let Some(table) = table.map(Table::new) {
                    // It is rank 0's to calibrate, and this rank's to doubt.
                    let codec = experiment.codec_of(own).map(|choice| choice.spec.clone().without_table());
                    let named = codec.map(|codec| codec.with_table(&table)).transpose();
                    named.map_err(|error| JobError::Task(error.to_string()))?;
                    plans.use_table(&table);
                }
                let plan = plans.get(&key).map_err(refused)?;
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
