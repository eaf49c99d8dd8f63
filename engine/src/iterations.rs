//! The iterations of a run on one rank: each ends with the reports of all ranks at rank 0, which makes a timeline of them or blames one.

use std::ops::Range;

use zipwire_schedule::plan::Plan;
use zipwire_schedule::{Deadlines, Failure, FailureKind, Rank, RankEnd, RunFailure};
use zipwire_timeline::Timeline;

use crate::pace::CodecWork;
use crate::report::{RankReport, conclude};
use crate::transport::Meeting;

/// A run in which all went well.
#[derive(Clone, Debug, PartialEq)]
pub struct RunReport {
    /// Spans of all ranks.
    pub timeline: Timeline,
    /// Received bytes that were compared with what was sent, over all ranks and iterations.
    pub bytes_verified: u64,
    /// Measured time of codec ops, where the host does them.
    pub codec_work: CodecWork,
    /// Faults that had no effect on any rank in any iteration, by their positions in the setup.
    pub unfired: Vec<usize>,
}

/// Outcome of a run on one rank: the report on rank 0, `None` elsewhere.
pub type RunResult = Result<Option<RunReport>, Box<RunFailure>>;

/// Plan and iterations of a run, as all ranks have them.
#[derive(Clone, Debug)]
pub(crate) struct Iterations<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) deadlines: Option<&'a Deadlines>,
    /// Number of faults to inject.
    pub(crate) faults: usize,
    pub(crate) iterations: Range<u32>,
}

impl Iterations<'_> {
    /// Runs one rank's part of every iteration by `run`, which tells the others if it fails.
    ///
    /// # Errors
    /// On rank 0 if any rank fails, elsewhere if this one does, or the user stops the run. All ranks have been told.
    pub(crate) fn run<M: Meeting + ?Sized>(
        &self,
        meeting: &mut M,
        mut run: impl FnMut(&mut M, u32) -> RankReport,
    ) -> RunResult {
        let rank = meeting.rank();
        let mut total = RunReport {
            timeline: Timeline::of(self.plan),
            bytes_verified: 0,
            codec_work: CodecWork::default(),
            unfired: (0..self.faults).collect(),
        };
        for iteration in self.iterations.clone() {
            let _span = tracing::info_span!("run", iteration).entered();
            let mut report = run(meeting, iteration);
            if meeting.is_stopped() && report.failed.is_none() {
                // Ranks that never wait do not look.
                let failure = Failure::new(rank, None, FailureKind::Cancelled, "stopped by the user");
                meeting.abort(&failure);
                report.failed = Some(RankEnd { failure, status: None });
            }
            let failed = report.failed.clone();
            if let Some(mut reports) = meeting.gather(report) {
                if !reports.iter().any(|report| report.rank == rank) {
                    let detail = "what the ranks report cannot be gathered";
                    let failure = Failure::new(rank, None, FailureKind::Transport, detail);
                    let end = failed.unwrap_or(RankEnd { failure, status: None });
                    return Err(self.alone(iteration, end, meeting));
                }
                conclude(self.plan, self.deadlines, iteration, &mut reports, &mut total.timeline)
                    .inspect_err(|failure| meeting.abort(&failure.first))?;
                for report in &reports {
                    total.bytes_verified += report.bytes_verified;
                    total.codec_work.merge(&report.codec_work);
                    total.unfired.retain(|fault| report.unfired.contains(fault));
                }
            } else if let Some(end) = failed {
                return Err(self.alone(iteration, end, meeting));
            }
        }
        Ok((rank == Rank(0)).then_some(total))
    }

    /// The failure of a run as one rank knows it that does not know of the others.
    fn alone<M: Meeting + ?Sized>(&self, iteration: u32, end: RankEnd, meeting: &mut M) -> Box<RunFailure> {
        meeting.abort(&end.failure);
        let first = end.failure.clone();
        Box::new(RunFailure::new(self.plan, self.deadlines, iteration, 0.0, first, vec![end]))
    }
}

/// The report of rank 0 of a run whose ranks are all in this process, given the results of those that were started.
pub(crate) fn of_first(
    results: Vec<RunResult>,
    iterations: &Iterations<'_>,
    collect: impl FnOnce() -> Vec<RankReport>,
) -> Result<RunReport, Box<RunFailure>> {
    // Rank 0 knows what has become of all.
    match results.into_iter().next() {
        Some(first) => first.map(|report| report.expect("rank 0 has the report of all")),
        None => {
            let Iterations { plan, deadlines, iterations, .. } = iterations;
            let concluded =
                conclude(plan, *deadlines, iterations.start, &mut collect(), &mut Timeline::of(plan));
            Err(concluded.expect_err("no rank was started, so all reports are of failures"))
        }
    }
}
