//! Ranks on threads of this process: how they begin, how they end whatever happens, and what an iteration of them adds to a
//! timeline. What a rank does in between is up to the executor.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use zipwire_schedule::plan::{Plan, Program};
use zipwire_schedule::{Deadlines, Failure, FailureKind, Rank, RankEnd, RunFailure};
use zipwire_traces::{IterationTime, Span, Timeline};

use crate::hello::Hello;
use crate::meeting::{Mail, Meeting};

/// A run in which nothing ends on any rank for this long has failed.
pub const STUCK_AFTER: Duration = Duration::from_secs(30);

/// One rank of one iteration, finished. Times since the start of the run.
pub(crate) struct RankRun {
    pub(crate) begin_s: f64,
    pub(crate) end_s: f64,
    pub(crate) spans: Vec<Span>,
    /// Received bytes that were compared with what was sent.
    pub(crate) bytes_verified: u64,
}

/// How a rank ended: with a result, or not well.
pub(crate) type Ended<R> = Result<R, Box<RankEnd>>;

/// Runs every rank on a thread of its own. Should the system refuse one, the run fails like any other.
pub(crate) fn run_all<N: Send, R: Send>(
    plan: &Plan,
    meeting: &Meeting<'_, N>,
    inboxes: Vec<Receiver<Mail<N>>>,
    run: impl Fn(&Arc<Program>, Receiver<Mail<N>>) -> Ended<R> + Sync,
) -> Vec<Ended<R>> {
    let run = &run;
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for (program, inbox) in plan.programs.iter().zip(inboxes) {
            let rank = program.rank;
            let thread = std::thread::Builder::new().name(format!("rank {rank}"));
            match thread.spawn_scoped(scope, move || run(program, inbox)) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    let detail = format!("the system refuses a thread for it: {error}");
                    meeting.abort(&Failure::new(rank, None, FailureKind::Device, detail));
                    break;
                }
            }
        }
        let join =
            |thread: std::thread::ScopedJoinHandle<'_, _>| thread.join().expect("ranks catch their panics");
        threads.into_iter().map(join).collect()
    })
}

/// A panic ends the run like any other failure: with a typed error on every rank. The rank's inbox must outlive `work`: were
/// it closed by unwinding, peers could fail before this rank says why.
pub(crate) fn guarded<N, R>(
    meeting: &Meeting<'_, N>,
    rank: Rank,
    work: impl FnOnce() -> Ended<R>,
) -> Ended<R> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        let detail = format!("its thread panicked: {text}");
        let failure = Failure::new(rank, None, FailureKind::Device, detail);
        meeting.abort(&failure);
        Err(Box::new(RankEnd { failure, standing: None }))
    })
}

/// Waits for all ranks and makes sure that they are about to run the same plan.
pub(crate) fn greet<N>(meeting: &Meeting<'_, N>, hellos: &[Hello], rank: Rank) -> Result<(), Failure> {
    if let Some(first) = meeting.start() {
        return Err(Failure::new(rank, None, FailureKind::Cancelled, first.to_string()));
    }
    let own = &hellos[rank.index()];
    let checked = (0..).map(Rank).zip(hellos).try_for_each(|(peer, hello)| own.check(rank, peer, hello));
    checked.inspect_err(|failure| meeting.abort(failure))
}

/// The results of all ranks, or why the iteration has failed after `after_s`.
pub(crate) fn conclude<N, R>(
    plan: &Plan,
    deadlines: Option<&Deadlines>,
    meeting: &Meeting<'_, N>,
    iteration: u32,
    after_s: f64,
    ranks: Vec<Ended<R>>,
) -> Result<Vec<R>, Box<RunFailure>> {
    if meeting.is_cancelled() {
        // Ranks that never wait do not look.
        meeting.abort(&Failure::new(Rank(0), None, FailureKind::Cancelled, "stopped by the user"));
    }
    let Some(first) = meeting.first_failure() else {
        return Ok(ranks.into_iter().filter_map(Result::ok).collect());
    };
    let ends = ranks.into_iter().filter_map(Result::err).map(|end| *end).collect();
    Err(Box::new(RunFailure::new(plan, deadlines, iteration, after_s, first, ends)))
}

/// A timeline of `plan` without iterations.
pub(crate) fn empty_timeline(plan: &Plan) -> Timeline {
    Timeline { rank_count: plan.rank_count(), segments: plan.segments.clone(), ..Timeline::default() }
}

/// Appends an iteration to a timeline: it begins when the first rank has passed the barrier.
pub(crate) fn append(timeline: &mut Timeline, ranks: Vec<RankRun>) {
    let begin_s = ranks.iter().map(|rank| rank.begin_s).fold(f64::INFINITY, f64::min);
    let end_s = ranks.iter().map(|rank| rank.end_s).fold(begin_s, f64::max);
    timeline.iterations.push(IterationTime { begin_s, length_s: end_s - begin_s });
    let relative = |span: Span| Span { begin_s: span.begin_s - begin_s, end_s: span.end_s - begin_s, ..span };
    let mut spans: Vec<Span> = ranks.into_iter().flat_map(|rank| rank.spans).map(relative).collect();
    spans.sort_by(|a, b| a.end_s.total_cmp(&b.end_s).then_with(|| (a.rank, a.op).cmp(&(b.rank, b.op))));
    timeline.spans.extend(spans);
}
