//! Runs with ranks that are threads of this process, or processes; the coordinator is on a thread beside them, or beside rank 0.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use zipwire_kv::KvError;
use zipwire_schedule::{Failure, FailureKind, Rank, RankEnd};
use zipwire_serving::{Census, Recorder, RequestId};
use zipwire_timeline::{IterationTime, Span, Timeline};

use super::coordinator::{Decided, coordinate};
use super::groups::stream_of;
use super::message::Totals;
use super::rank::run_rank;
use super::setup::{Job, ROOM};
use super::{Instance, ServingSetup};
use crate::control::{Control, give_up, refusal, run_all};
use crate::host::Permits;
use crate::memory::Memory;
use crate::report::{RankReport, first_failure};
use crate::sync::mpsc::channel;
use crate::transport::filter::Filtered;
use crate::transport::local::{self, Local};
use crate::transport::paced::{Paced, Wire};
use crate::transport::{Meeting, Transport};

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
            let thread = std::thread::Builder::new().name("links".to_owned());
            let run = move || links.run(&parcels, process.control);
            if let Err(error) = thread.spawn_scoped(scope, run) {
                give_up(&control, Rank(0)..Rank(job.ranks), &error);
                return (Err(refused(&error)), Vec::new());
            }
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
            let filter = Paced::of_streams(wire.clone(), stream_of);
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

    fn size(&self) -> u32;

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
    let detail = format!("the system refuses a thread for the coordinator: {}", refusal(error));
    Failure::new(Rank(0), None, FailureKind::Device, detail)
}

/// Result of a run without errors: requests may have failed and ranks may have been lost as the scenario says, but no byte was wrong.
#[derive(Debug)]
pub struct Served {
    /// When things happened to requests, in seconds of the cluster if the run was paced, and of this machine otherwise.
    pub recorder: Recorder,
    /// Spans of ranks, in the same seconds.
    pub timeline: Timeline,
    /// States of all requests at the end.
    pub census: Census,
    /// Bytes of caches that have moved, before coding.
    pub bytes_raw: u64,
    /// Bytes of the same caches on the wire.
    pub bytes_wire: u64,
    /// Counters summed over ranks.
    pub totals: Totals,
    /// Requests whose answer had not begun when the last one had arrived.
    pub unanswered_at_last_arrival: u32,
    /// Instances that were declared lost.
    pub lost: Vec<Lost>,
    /// When the run ended, in the same seconds as all else.
    pub end_s: f64,
    /// Seconds that it took on this machine.
    pub real_s: f64,
}

/// An instance that was declared lost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lost {
    /// The instance.
    pub instance: Instance,
    /// The rank that fell silent.
    pub rank: Rank,
    /// When that was noticed.
    pub noticed_s: f64,
}

/// Merges the results of the coordinator and of all ranks.
///
/// # Errors
/// If one of them has failed: the first failure, other than of ranks that were told to end.
pub(super) fn conclude(
    job: &Job<'_>,
    decided: Result<Decided, Failure>,
    mut reports: Vec<RankReport>,
    is_stopped: bool,
) -> Result<Served, ServeError> {
    let gone = (0..job.ranks).map(Rank).find(|rank| !reports.iter().any(|report| report.rank == *rank));
    if let Err(failure) = &decided
        && failure.kind != FailureKind::Cancelled
    {
        // It is not later than the ranks that it has told to end.
        let end = RankEnd { failure: failure.clone(), status: None };
        reports.push(RankReport::failed(failure.rank, 0.0, end));
    }
    match (first_failure(&reports, gone), gone, decided) {
        (Some(failure), ..) if failure.kind == FailureKind::Cancelled && is_stopped => {
            Err(ServeError::Stopped)
        }
        (Some(failure), ..) => Err(failure.into()),
        (None, Some(rank), _) => {
            let detail = "it is gone and has reported nothing";
            Err(Failure::new(rank, None, FailureKind::PeerLost, detail).into())
        }
        (None, None, Err(_)) if is_stopped => Err(ServeError::Stopped),
        (None, None, Err(failure)) => Err(failure.into()),
        (None, None, Ok(decided)) => Ok(served(job, decided, reports)),
    }
}

fn served(job: &Job<'_>, decided: Decided, reports: Vec<RankReport>) -> Served {
    let Decided { recorder, census, bytes_raw, bytes_wire, unanswered_at_last_arrival, lost, totals, end_s } =
        decided;
    let begin_s = reports.iter().map(|report| report.begin_s).fold(f64::INFINITY, f64::min);
    let real_s = reports.iter().map(|report| report.end_s).fold(begin_s, f64::max) - begin_s;
    let mut spans: Vec<Span> = reports.into_iter().flat_map(|report| report.spans).collect();
    spans.sort_by(|a, b| a.end_s.total_cmp(&b.end_s).then_with(|| (a.rank, a.op).cmp(&(b.rank, b.op))));
    // Most runs have far more requests than spans: what no span is of needs no name.
    let named = spans.iter().map(|span| span.segment.index()).max().unwrap_or(0);
    let names = (0..named).map(|request| Arc::from(format!("request {request}")));
    let timeline = Timeline {
        spans,
        rank_count: job.ranks,
        segments: std::iter::once(Arc::from("steps")).chain(names).collect(),
        iterations: vec![IterationTime { begin_s: 0.0, length_s: end_s }],
        ..Timeline::default()
    };
    Served {
        recorder,
        timeline,
        census,
        bytes_raw,
        bytes_wire,
        totals,
        unanswered_at_last_arrival,
        lost,
        end_s,
        real_s,
    }
}

/// Why serving ends without a result.
#[allow(missing_docs, reason = "fields are named by the messages")]
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Parts of the setup contradict each other.
    #[error("{0}")]
    Setup(String),
    /// The cache cannot be coded so.
    #[error(transparent)]
    Kv(#[from] KvError),
    /// The user wants it to end.
    #[error("stopped by the user")]
    Stopped,
    /// A rank, or the coordinator on its behalf, has failed.
    #[error("rank {rank} {}{}: {detail}", kind.describe(), of(*request))]
    Failed { rank: Rank, request: Option<RequestId>, kind: FailureKind, detail: String },
}

fn of(request: Option<RequestId>) -> String {
    request.map_or_else(String::new, |request| format!(" with the cache of request {request}"))
}

impl From<Failure> for ServeError {
    fn from(failure: Failure) -> Self {
        let request = failure.transfer.and_then(|key| key.segment.0.checked_sub(1)).map(RequestId);
        let Failure { rank, kind, detail, .. } = failure;
        Self::Failed { rank, request, kind, detail }
    }
}
