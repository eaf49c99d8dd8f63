//! Result of a serving run, or why it has none.

use std::sync::Arc;

use zipwire_kv::KvError;
use zipwire_schedule::{Failure, FailureKind, Rank, RankEnd};
use zipwire_serving::{Census, Recorder, RequestId};
use zipwire_timeline::{IterationTime, Span, Timeline};

use super::Instance;
use super::coordinator::Decided;
use super::job::Job;
use super::message::Totals;
use crate::report::{RankReport, first_failure};

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
