//! Ranks as processes: each runs one, and the process of rank 0 has the coordinator on a thread beside it.

use std::sync::Arc;

use zipwire_schedule::{Failure, FailureKind, Rank};

use super::coordinator::coordinate;
use super::job::{Job, ROOM};
use super::rank::run_rank;
use super::served::conclude;
use super::{ServeError, Served, Setup};
use crate::host::Permits;
use crate::memory::Memory;
use crate::transport::Transport;

/// Transports of one MPI process: its rank's and, on rank 0, the coordinator's.
pub(crate) trait Process {
    /// Transport of the rank, in this memory.
    fn rank(&self, memory: Arc<Memory>) -> impl Transport;

    /// Transport of the coordinator, on rank 0. Its address is the number behind the last rank's, and it only sends and receives messages.
    fn coordinator(&self) -> impl Transport + Send;

    /// The number of processes.
    fn size(&self) -> u32;

    /// Whether the user wants the run to end.
    fn is_stopped(&self) -> bool;
}

/// Serves all requests, as one of several processes. Rank 0 returns the result, the others `None`.
///
/// # Errors
/// At rank 0 if any rank fails, elsewhere if this one does.
pub(crate) fn serve(setup: &Setup<'_>, process: &impl Process) -> Result<Option<Served>, ServeError> {
    let job = Job::new(setup)?;
    if setup.pace.is_some() {
        let why = "links of processes are what they are: paced runs are for ranks that are threads";
        return Err(ServeError::Setup(why.to_owned()));
    }
    if job.ranks != process.size() {
        let (ranks, processes) = (job.ranks, process.size());
        return Err(ServeError::Setup(format!("{ranks} ranks serve, and the job has {processes} processes")));
    }
    let (hello, job) = (job.hello(), &job);
    let mut beside = process.coordinator();
    let mut rank = process.rank(Arc::new(Memory::with_room(ROOM)));
    // A process has its rank's share of the machine.
    let permits = Permits::new(1);
    if rank.rank() != Rank(0) {
        return Ok(run_rank(job, &permits, &hello, &mut rank).map(|_| None)?);
    }
    let (decided, reports) = std::thread::scope(|scope| {
        let coordinator = std::thread::Builder::new().name("coordinator".to_owned());
        let coordinator = coordinator.spawn_scoped(scope, move || coordinate(job, &mut beside));
        if let Err(error) = &coordinator {
            rank.abort(&refused(error));
        }
        let reports = run_rank(job, &permits, &hello, &mut rank);
        let decided = match coordinator {
            Ok(coordinator) => coordinator.join().expect("the coordinator catches its panics"),
            Err(error) => Err(refused(&error)),
        };
        (decided, reports)
    });
    drop(rank);
    let reports = reports?.unwrap_or_default();
    conclude(job, decided, reports, process.is_stopped()).map(Some)
}

/// The system refuses a thread for the coordinator.
pub(super) fn refused(error: &std::io::Error) -> Failure {
    let detail = format!("the system refuses a thread for the coordinator: {error}");
    Failure::new(Rank(0), None, FailureKind::Device, detail)
}
