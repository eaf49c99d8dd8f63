//! Processes of a job, each of which is a rank of whatever is run: rank 0 does what a single process would do, and says to the others
//! what to run with it; these follow.
//!
//! A process that no launcher has started starts all of them ([`start`]); one that a launcher has started ([`launched`]) takes part
//! ([`join`]), does what rank 0 says, and ends with it ([`finish`]). There is one job in a process. Which executor's ranks the
//! processes are is said by each task: that executor does a process's part of it ([`Executor::follow_plan`](crate::Executor::follow_plan)).

mod exit_report;
mod job;
mod start;
mod tasks;

use std::time::Duration;

use zipwire_engine::mpi::{TcpMeeting, World, WorldError};
use zipwire_mpi::{Library, MpiError, library};
use zipwire_schedule::Rank;

use self::tasks::follow;
use crate::Cancel;

pub use self::job::{Attendance, attendance};
pub(crate) use self::job::{Job, job};
pub use self::start::{RanksToStart, StartError, attended, program, set_program, start};
pub use self::tasks::Follower;
pub use zipwire_engine::mpi::Member;
pub use zipwire_mpi::environment::{Launched, launched};

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
    /// Refusal of a task, with the reason.
    #[allow(clippy::needless_pass_by_value, reason = "errors are handed over by `map_err`")]
    pub(crate) fn task(why: impl ToString) -> Self {
        Self::Task(why.to_string())
    }

    /// Whether MPI cannot be had here.
    pub fn is_absence(&self) -> bool {
        matches!(self, Self::Launcher { .. })
            || matches!(self, Self::World(WorldError::Mpi(error)) if error.is_absence())
    }
}

/// Takes part in the job that this process was started for, in which nothing may stand still for longer than `stall`, or else as long as
/// [`World::begin`] says. To be called once, on the main thread. Processes other than rank 0 come back when all is done. Processes meet by
/// MPI where their launcher starts it and there is a library, else by TCP unless ranks of an executor need MPI; by TCP first where the
/// environment [asks for it](TcpMeeting::is_preferred).
///
/// # Errors
/// If the processes cannot meet, launcher and library do not fit, or, elsewhere than at rank 0, this process has failed.
pub fn join(stall: Option<Duration>, needs_mpi: bool, cancel: &Cancel) -> Result<Role, JobError> {
    let meeting = || Ok::<_, WorldError>(TcpMeeting::from_environment()?.filter(|_| !needs_mpi));
    let meet = |meeting| take_part(World::begin(meeting, stall, cancel.shared_flag())?);
    if !needs_mpi
        && TcpMeeting::is_preferred()
        && let Some(meeting) = meeting()?
    {
        return meet(meeting);
    }
    let launched = launched();
    let without = launched.as_ref().filter(|launched| !launched.has_mpi);
    let no_mpi = match without.map(|launched| JobError::Launcher { by: launched.by, rank: launched.rank }) {
        Some(no_mpi) => no_mpi,
        None => match library() {
            Ok(library) => return take_part(by_library(library, launched, stall, cancel)?),
            Err(error) => error.into(),
        },
    };
    meeting()?.map_or(Err(no_mpi), meet)
}

fn take_part(world: World) -> Result<Role, JobError> {
    if world.rank() == Rank(0) {
        *job() = Some(Job::new(world));
        return Ok(Role::First);
    }
    follow(world).map(|()| Role::Other)
}

/// Meets the others by MPI.
fn by_library(
    library: &'static Library,
    launched: Option<Launched>,
    stall: Option<Duration>,
    cancel: &Cancel,
) -> Result<World, JobError> {
    let world = World::begin(library, stall, cancel.shared_flag())?;
    if let Some((by, size)) = launched.and_then(|launched| Some((launched.by, launched.size?)))
        && size != world.size()
    {
        let (library, found) = (library.path.display().to_string(), world.size());
        return Err(JobError::Strangers { by, launched: size, library, found });
    }
    Ok(world)
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
