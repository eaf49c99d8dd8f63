//! A job of MPI processes, each of which is a rank of whatever is run: rank 0 does what a single process would do, and says to the others
//! what to run with it; these follow.
//!
//! There is one job in a process, as there is one MPI.

mod follow;
mod task;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use zipwire_engine::mpi::Member;
use zipwire_engine::mpi::{World, WorldError};
pub use zipwire_mpi::Collective as MpiCollective;
use zipwire_mpi::{MpiError, environment, library};
use zipwire_scenarios::Experiment;
use zipwire_schedule::Rank;

pub(crate) use self::follow::setup;
pub(crate) use self::task::Task;
use crate::{Cancel, ExecuteError};

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
    /// A launcher whose processes MPI does not know of.
    #[error(
        "this process was started by {by} as number {rank}, and that starts no MPI\n\
         help: start it by `mpirun -n N`, or by `srun --mpi=pmix`"
    )]
    Launcher { by: &'static str, rank: u32 },
    /// MPI knows of other processes than the launcher.
    #[error(
        "{by} has started {launched} processes, and the MPI library `{library}` knows of {found}\n\
         help: launcher and library must belong together: `ZIPWIRE_MPI_LIB` names the library"
    )]
    Strangers { by: &'static str, launched: u32, library: String, found: u32 },
    #[error(transparent)]
    World(#[from] WorldError),
    /// The run has failed, which rank 0 reports.
    #[error("the run has failed: rank 0 says how")]
    Failed,
    /// A task that this version does not know.
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

/// Takes part in the job that this process was started for, in which nothing may stand still for longer than `patience`. To be called
/// once, on the main thread. Processes other than rank 0 come back
/// when all is done.
///
/// # Errors
/// If there is no MPI, launcher and library do not fit, or, elsewhere than at rank 0, this process has failed.
pub fn join(patience: Duration, cancel: &Cancel) -> Result<Role, JobError> {
    let library = library()?;
    let launched = environment::launched();
    if let Some(launched) = launched.as_ref().filter(|launched| !launched.has_mpi) {
        return Err(JobError::Launcher { by: launched.by, rank: launched.rank });
    }
    let world = World::begin(library, patience, cancel.shared_flag())?;
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
    follow::follow(world).map(|()| Role::Other)
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
