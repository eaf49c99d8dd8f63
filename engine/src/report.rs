//! Reports of ranks about an iteration, and how rank 0 turns them into a part of the timeline or a failure; the handshake before, and the words
//! for failures.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use zipwire_codec::Spec;
use zipwire_schedule::machine::Machine;
use zipwire_schedule::plan::{Plan, TransferKey};
use zipwire_schedule::{Deadlines, Failure, FailureKind, OpId, Rank, RankEnd, RunFailure};
use zipwire_timeline::{IterationTime, Span, Timeline};

use crate::chunks::Chunk;
use crate::pace::CodecWork;
use crate::run_program::failure;
use crate::transport::Ended;

/// A run in which nothing ends on any rank for this long has failed.
pub const STUCK_AFTER: Duration = Duration::from_secs(30);

/// Report of one rank about an iteration. Times are seconds of the transport's clock, in the time of the cluster if it is paced.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankReport {
    /// The rank.
    pub rank: Rank,
    /// When the iteration began here: behind the barrier.
    pub begin_s: f64,
    /// When it ended here, well or not.
    pub end_s: f64,
    /// Spans of the rank in this iteration.
    pub spans: Vec<Span>,
    /// Received bytes that were compared with what was sent.
    pub bytes_verified: u64,
    /// Measured time of codec ops.
    pub codec_work: CodecWork,
    /// Faults of the scenario that had no effect on this rank, by their positions.
    pub unfired: Vec<usize>,
    /// Why it did not end well; `None` if it did.
    pub failed: Option<RankEnd>,
}

impl RankReport {
    /// A rank that did nothing.
    pub fn idle(rank: Rank, at_s: f64) -> Self {
        Self {
            rank,
            begin_s: at_s,
            end_s: at_s,
            spans: Vec::new(),
            bytes_verified: 0,
            codec_work: CodecWork::default(),
            unfired: Vec::new(),
            failed: None,
        }
    }

    /// A rank that did nothing but fail.
    pub fn failed(rank: Rank, at_s: f64, end: RankEnd) -> Self {
        Self { failed: Some(end), ..Self::idle(rank, at_s) }
    }

    /// Whether this rank failed, other than because another one did.
    pub fn has_failed_itself(&self) -> bool {
        self.failed.as_ref().is_some_and(|end| end.failure.kind != FailureKind::Cancelled)
    }
}

/// The failure of a run before its first op.
pub(crate) fn ended_before(plan: &Plan, failure: Failure) -> Box<RunFailure> {
    let end = RankEnd { failure: failure.clone(), status: None };
    Box::new(RunFailure::new(plan, None, 0, 0.0, failure, vec![end]))
}

/// Adds what all ranks report of an iteration to a timeline: it begins when the first rank has passed the barrier.
///
/// # Errors
/// If a rank has failed, or does not report. The blame goes to a rank that does not report, or else to one that was suspended; else
/// to the first failure that is not merely a reaction to another one.
pub fn conclude(
    plan: &Plan,
    deadlines: Option<&Deadlines>,
    iteration: u32,
    reports: &mut Vec<RankReport>,
    timeline: &mut Timeline,
) -> Result<(), Box<RunFailure>> {
    let begin_s = reports.iter().map(|report| report.begin_s).fold(f64::INFINITY, f64::min);
    let end_s = reports.iter().map(|report| report.end_s).fold(begin_s, f64::max);
    let has_reported = |rank: &Rank| reports.iter().any(|report| report.rank == *rank);
    let gone: Vec<Rank> = (0..plan.rank_count()).map(Rank).filter(|rank| !has_reported(rank)).collect();
    for &rank in &gone {
        let failure = Failure::new(rank, None, FailureKind::PeerLost, "it is gone and has reported nothing");
        reports.push(RankReport::failed(rank, end_s, RankEnd { failure, status: None }));
    }
    reports.sort_by_key(|report| report.rank);
    if let Some(first) = first_failure(reports, gone.first().copied()) {
        let ends = std::mem::take(reports).into_iter().filter_map(|report| report.failed).collect();
        let after_s = end_s - begin_s;
        return Err(Box::new(RunFailure::new(plan, deadlines, iteration, after_s, first, ends)));
    }
    timeline.iterations.push(IterationTime { begin_s, length_s: end_s - begin_s });
    let relative = |span: Span| Span { begin_s: span.begin_s - begin_s, end_s: span.end_s - begin_s, ..span };
    let mut spans: Vec<Span> =
        reports.iter_mut().flat_map(|report| std::mem::take(&mut report.spans)).map(relative).collect();
    spans.sort_by(|a, b| a.end_s.total_cmp(&b.end_s).then_with(|| (a.rank, a.op).cmp(&(b.rank, b.op))));
    timeline.spans.extend(spans);
    Ok(())
}

/// The failure to blame: of a lost rank, else of a suspended one, else the first of a rank that was not told to end.
///
/// A dead rank is silent: it is told to end as others are, and may have ended before the one whose failure ended
/// the run has finished reporting it. So its silence is blamed only where nobody else has failed, as in the simulator.
pub(crate) fn first_failure(reports: &[RankReport], gone: Option<Rank>) -> Option<Failure> {
    let failed =
        || reports.iter().filter_map(|report| Some((report.end_s, &report.failed.as_ref()?.failure)));
    if let Some((_, failure)) = failed().find(|(_, failure)| Some(failure.rank) == gone) {
        return Some(failure.clone());
    }
    if let Some((_, failure)) = failed().find(|(_, failure)| failure.kind == FailureKind::StoodStill) {
        return Some(failure.clone());
    }
    let own = failed().filter(|(_, failure)| failure.kind != FailureKind::Cancelled);
    let is_silence = |failure: &Failure| *failure == Failure::died(failure.rank);
    let first = own.min_by(|a, b| is_silence(a.1).cmp(&is_silence(b.1)).then_with(|| a.0.total_cmp(&b.0)));
    first.or_else(|| failed().min_by(|a, b| a.0.total_cmp(&b.0))).map(|(_, failure)| failure.clone())
}

/// Checks the handshakes of all ranks, given as their words at the barrier.
pub(crate) fn compare(own: &Hello, rank: Rank, words: &[Vec<u8>]) -> Result<(), Failure> {
    (0..).map(Rank).zip(words).try_for_each(|(peer, word)| own.check(rank, peer, &Hello::of_word(word)))
}

pub(crate) fn panicked(rank: Rank, panic: &(dyn std::any::Any + Send)) -> RankEnd {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    let detail = format!("its thread panicked: {text}");
    RankEnd { failure: Failure::new(rank, None, FailureKind::Device, detail), status: None }
}

/// Words for the failures of a plan with these segments.
/// They are the same on all executors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FailureReport<'a> {
    pub(crate) segments: &'a [Arc<str>],
}

impl FailureReport<'_> {
    /// Nothing has ended on any rank for too long; `op` is the op that the rank is in.
    pub(crate) fn stuck(&self, machine: &Machine, op: Option<OpId>, stuck_after: Duration) -> Failure {
        let seconds = stuck_after.as_secs_f64();
        let detail = format!("nothing has ended on any rank for {seconds} s; it {}", self.waits(machine));
        failure(machine, op, FailureKind::Timeout, detail)
    }

    pub(crate) fn cancelled(&self, machine: &Machine) -> Failure {
        failure(machine, None, FailureKind::Cancelled, format!("it {}", self.waits(machine)))
    }

    /// The transport has ended; `op` is the op that the rank is in.
    pub(crate) fn ended(&self, machine: &Machine, op: Option<OpId>, ended: &Ended) -> Failure {
        match ended {
            Ended::Aborted => self.cancelled(machine),
            Ended::Stopped => stopped(machine),
            Ended::Lost(_) => failure(machine, op, FailureKind::PeerLost, ended.to_string()),
            Ended::Broken(_) => failure(machine, op, FailureKind::Transport, ended.to_string()),
        }
    }

    /// A transfer in a state that it cannot be in.
    pub(crate) fn confused(&self, machine: &Machine, key: &TransferKey, what: &str) -> Failure {
        let TransferKey { segment, stage, src, dst, number } = key;
        let segment = self.segments.get(segment.index()).map_or("an unknown segment", |name| name);
        let detail =
            format!("{} transfer {number} of {segment} from rank {src} to rank {dst} {what}", stage.name());
        failure(machine, None, FailureKind::Transport, detail)
    }

    /// A chunk differs from what its origin had.
    pub(crate) fn altered(&self, machine: &Machine, op: Option<OpId>, chunk: &Chunk, offset: u64) -> Failure {
        let segment = &self.segments[chunk.id.segment.index()];
        let src = chunk.id.chunk.origin;
        let detail = format!("byte {offset} of the {segment} chunk from rank {src} is not what was sent");
        failure(machine, op, FailureKind::Corrupt, detail)
    }

    /// Describes the ops and peers that this rank waits for.
    fn waits(&self, machine: &Machine) -> String {
        machine.status().describe(self.segments)
    }
}

/// The run has ended before a rank has a program under way.
pub(crate) fn ended_early(rank: Rank, ended: &Ended) -> Failure {
    let kind = match ended {
        Ended::Aborted | Ended::Stopped => FailureKind::Cancelled,
        Ended::Lost(_) => FailureKind::PeerLost,
        Ended::Broken(_) => FailureKind::Transport,
    };
    Failure::new(rank, None, kind, ended.to_string())
}

pub(crate) fn stopped(machine: &Machine) -> Failure {
    failure(machine, None, FailureKind::Cancelled, "stopped by the user")
}

/// The ends of a transfer have different lengths.
pub(crate) fn other_length(machine: &Machine, op: OpId, src: Rank, bytes: u64, expected: u64) -> Failure {
    let detail = format!("rank {src} sends {bytes} bytes where {expected} were announced");
    failure(machine, Some(op), FailureKind::Corrupt, detail)
}

/// One end of a transfer has bytes, the other one a size.
pub(crate) fn other_content(machine: &Machine, op: OpId, src: Rank) -> Failure {
    let detail = format!("rank {src} and this rank disagree about what moves");
    failure(machine, Some(op), FailureKind::Corrupt, detail)
}

pub(crate) struct Standstill {
    progress: u64,
    since: Instant,
}

impl Standstill {
    /// From now on; `progress` is what changes when something ends.
    pub(crate) fn new(progress: u64) -> Self {
        Self { progress, since: Instant::now() }
    }

    /// Whether nothing has ended for `limit`.
    pub(crate) fn lasts(&mut self, progress: u64, limit: Duration) -> bool {
        if progress != self.progress {
            *self = Self::new(progress);
        }
        self.since.elapsed() >= limit
    }
}

/// A codec in a handshake: its options, the id of its table among them, and the version that its frames have. What other versions a build
/// reads does not matter to the job.
pub(crate) fn announced(spec: &Spec) -> String {
    format!("{spec}, frames v{}", spec.frame_version())
}

/// Version, plan and codec that a rank is about to run.
/// Ranks check before the first op that they agree on these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Version of the program.
    pub version: String,
    /// Digest of the plan.
    pub plan: String,
    /// The codec with its options, the id of its table among them, and the version of its frames; empty without a codec.
    pub codec: String,
}

impl Hello {
    /// The handshake of this build for a plan.
    pub fn new(plan: &Plan) -> Self {
        let codec = plan.codec.as_ref();
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            plan: plan.digest(),
            codec: codec.map_or_else(String::new, announced),
        }
    }

    /// Encodes it as the word of a barrier.
    pub(crate) fn to_word(&self) -> Vec<u8> {
        let Self { version, plan, codec } = self;
        [version, plan, codec].map(String::as_str).join("\n").into_bytes()
    }

    /// Decodes a peer's word. Missing or unreadable parts become `(nothing)`, which equals no rank's own.
    pub(crate) fn of_word(word: &[u8]) -> Self {
        let text = String::from_utf8_lossy(word);
        let mut lines = text.splitn(3, '\n').map(str::to_owned);
        let mut next = || lines.next().unwrap_or_else(|| "(nothing)".to_owned());
        Self { version: next(), plan: next(), codec: next() }
    }

    /// Compares what `peer` says with what `rank` says.
    ///
    /// # Errors
    /// [`FailureKind::Mismatch`], with what both say.
    pub fn check(&self, rank: Rank, peer: Rank, other: &Self) -> Result<(), Failure> {
        let pairs = [
            ("version", &self.version, &other.version),
            // Another codec, or another table of it, makes another plan; who reads this wants to know which.
            ("codec", &self.codec, &other.codec),
            ("plan", &self.plan, &other.plan),
        ];
        match pairs.into_iter().find(|(_, own, others)| own != others) {
            None => Ok(()),
            Some((what, own, others)) => {
                let detail = format!("its {what} is `{own}`, that of rank {peer} is `{others}`");
                Err(Failure::new(rank, None, FailureKind::Mismatch, detail))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(rank: u32, end_s: f64, failure: impl Fn(Rank) -> Failure) -> RankReport {
        RankReport::failed(Rank(rank), end_s, RankEnd { failure: failure(Rank(rank)), status: None })
    }

    #[test]
    fn whoever_stood_still_comes_first() {
        let lost = |rank| Failure::new(rank, None, FailureKind::PeerLost, "");
        let still = |rank| Failure::new(rank, None, FailureKind::StoodStill, "");
        let reports = [report(0, 3.0, still), report(1, 1.0, lost)];
        assert_eq!(first_failure(&reports, None), Some(still(Rank(0))));
        assert_eq!(first_failure(&reports, Some(Rank(1))), Some(lost(Rank(1))));
    }

    #[test]
    fn the_silence_of_a_dead_rank_comes_first_only_alone() {
        let corrupt = |rank| Failure::new(rank, None, FailureKind::Corrupt, "");
        let cancelled = |rank| Failure::new(rank, None, FailureKind::Cancelled, "");
        let told = [report(0, 1.0, cancelled), report(1, 3.0, Failure::died), report(2, 4.0, corrupt)];
        assert_eq!(first_failure(&told, None), Some(corrupt(Rank(2))));
        assert_eq!(first_failure(&told[..2], None), Some(Failure::died(Rank(1))));
        let both = [report(0, 2.0, corrupt), report(1, 1.0, corrupt)];
        assert_eq!(first_failure(&both, None), Some(corrupt(Rank(1))));
    }

    #[test]
    fn a_handshake_has_the_version_of_the_frames_of_the_job() {
        for (spec, version) in [
            ("tiered", 1),
            ("delta+rans", 1),
            ("auto", 1),
            ("planes", 2),
            ("delta+planes", 2),
            ("auto:goal=size", 2),
        ] {
            assert_eq!(announced(&spec.parse().unwrap()), format!("{spec}, frames v{version}"));
        }
        let (own, other) = (hello("a", "planes, frames v2"), hello("a", "planes, frames v3"));
        let failure = own.check(Rank(0), Rank(1), &other).unwrap_err();
        assert!(failure.to_string().contains("that of rank 1 is `planes, frames v3`"), "{failure}");
    }

    fn hello(plan: &str, codec: &str) -> Hello {
        Hello { version: "1".to_owned(), plan: plan.to_owned(), codec: codec.to_owned() }
    }

    #[test]
    fn equals_agree_and_both_sides_of_a_difference_are_named() {
        let (own, same) = (hello("a", "window7"), Hello::of_word(&hello("a", "window7").to_word()));
        assert_eq!(own.check(Rank(0), Rank(1), &same), Ok(()));
        for (other, both) in [
            (hello("b", "window7"), ["`a`", "`b`"]),
            (hello("a", "raw"), ["`window7`", "`raw`"]),
            (hello("b", "rans:table=0a1b2c3d"), ["`window7`", "`rans:table=0a1b2c3d`"]),
        ] {
            let failure = own.check(Rank(0), Rank(3), &other).unwrap_err();
            assert_eq!((failure.rank, failure.kind), (Rank(0), FailureKind::Mismatch));
            let text = failure.to_string();
            assert!(both.iter().all(|part| text.contains(part)) && text.contains("rank 3"), "{text}");
        }
    }
}
