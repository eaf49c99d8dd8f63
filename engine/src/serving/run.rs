//! Runs with ranks that are threads of this process, or processes; the coordinator is on a thread beside them, or beside rank 0.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use zipwire_schedule::{Failure, FailureKind, Rank};

use super::coordinator::coordinate;
use super::job::{Job, ROOM};
use super::lanes::stream;
use super::rank::run_rank;
use super::served::conclude;
use super::{ServeError, Served, ServingSetup};
use crate::control::{Control, run_all};
use crate::host::Permits;
use crate::memory::Memory;
use crate::sync::mpsc::channel;
use crate::transport::Transport;
use crate::transport::filter::Filtered;
use crate::transport::local::{self, Local};
use crate::transport::paced::{Paced, Wire};

/// Serves all requests with ranks that are threads. Setting `cancel` ends it early.
///
/// # Errors
/// If the setup does not fit together, a rank fails, bytes are wrong, nothing happens for too long, or the user stops the run.
pub fn run(setup: &ServingSetup<'_>, cancel: &AtomicBool) -> Result<Served, ServeError> {
    let _span = tracing::info_span!("serve", requests = setup.requests.len()).entered();
    let job = Job::new(setup)?;
    let ranks = job.ranks as usize;
    let memories: Vec<Arc<Memory>> = (0..ranks).map(|_| Arc::new(Memory::with_room(ROOM))).collect();
    let (control, mut inboxes) = Control::with_listeners(ranks, 1, Instant::now(), cancel);
    let own = inboxes.pop().expect("there is one for the coordinator");
    let process = local::Process { control: &control, memories: &memories };
    let (permits, hello, job) = (Permits::new(setup.cores), job.hello(), &job);
    let (decided, results) = std::thread::scope(|scope| {
        let (wire, parcels) = channel();
        if let Some(pace) = setup.pace {
            let mean_bytes = job.raw_bytes(setup.geometry.group_tokens());
            let links = Wire::new(pace.topology, pace.dilation, mean_bytes);
            // Ends when the last end of the channel is dropped, behind all ranks.
            scope.spawn(move || links.run(&parcels, process.control));
        }
        let coordinator = std::thread::Builder::new().name("coordinator".to_owned());
        let coordinator = coordinator
            .spawn_scoped(scope, move || coordinate(job, &mut Local::new(process, job.coordinator(), own)));
        if coordinator.is_err() {
            control.abort();
        }
        let results = run_all(&control, inboxes, |rank, inbox| {
            let mut local = Local::new(process, rank, inbox);
            if setup.pace.is_none() {
                return run_rank(job, &permits, &hello, &mut local);
            }
            let filter = Paced::of_streams(wire.clone(), stream);
            run_rank(job, &permits, &hello, &mut Filtered { inner: &mut local, filter })
        });
        let decided = match coordinator {
            Ok(coordinator) => coordinator.join().expect("the coordinator catches its panics"),
            Err(error) => Err(refused(&error)),
        };
        (decided, results)
    });
    // Rank 0 knows what has become of all.
    let first = results.into_iter().next().and_then(Result::ok).flatten();
    let reports = first.unwrap_or_else(|| control.collect());
    conclude(job, decided, reports, cancel.load(Ordering::Relaxed))
}

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
pub(crate) fn serve(setup: &ServingSetup<'_>, process: &impl Process) -> Result<Option<Served>, ServeError> {
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
