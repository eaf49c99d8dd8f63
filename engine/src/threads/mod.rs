//! Ranks as threads of this process: real bytes and the real codec over unpaced memory copies.
//!
//! What it proves is that a plan does what it says, bit for bit. Its times are not those of a cluster.

mod backend;
mod codec_work;
mod cpu_time;
mod fabric;
mod pace;

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use zipwire_codec::Codec;
use zipwire_schedule::plan::{Plan, Program};
use zipwire_schedule::{
    Deadlines, Failure, FailureKind, Fault, FaultPlan, Machine, Rank, RankEnd, RunFailure,
};
use zipwire_traces::{IterationTime, Payload, Span, Timeline};

use self::backend::{Pacing, Rendezvous};
use self::fabric::{Fabric, Memory, Note};
use self::pace::{Parcel, Permits, Wire};
use crate::chunks::Chunks;
use crate::drive::{Backend, drive};
use crate::faulty::Faulty;
use crate::hello::Hello;

pub use self::codec_work::{CallWork, CodecWork, Coding};
pub use self::pace::Pace;

/// A run in which nothing ends on any rank for this long has failed.
pub const STUCK_AFTER: Duration = Duration::from_secs(30);

/// What to run.
#[derive(Debug)]
pub struct Setup<'a> {
    /// The plan, validated.
    pub plan: &'a Plan,
    /// What the chunks hold.
    pub payload: &'a Payload,
    /// Iterations, with a barrier before each.
    pub iterations: u32,
    /// The longest standstill, usually [`STUCK_AFTER`].
    pub stuck_after: Duration,
    /// Codec ops that work at a time.
    pub cores: usize,
    /// The cluster that the run stands for; without one, links are as fast as memory and times mean nothing.
    pub pace: Option<&'a Pace>,
    /// What goes wrong. Times of faults mean something in paced runs only.
    pub faults: &'a [Fault],
    /// When ops must have ended, in seconds of the cluster: for paced runs.
    pub deadlines: Option<&'a Deadlines>,
}

/// A run in which all went well.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// What happened when.
    pub timeline: Timeline,
    /// Received bytes that were compared with what was sent, over all ranks and iterations.
    pub bytes_verified: u64,
    /// What the codec took.
    pub codec_work: CodecWork,
}

/// Runs a plan; every received byte is compared with what was sent. Setting `cancel` ends it early.
///
/// # Errors
/// If a rank fails, bytes are wrong, an op is overdue, nothing happens for too long, or the user stops the run.
pub fn run(setup: &Setup<'_>, cancel: &AtomicBool) -> Result<Report, Box<RunFailure>> {
    let hello = Hello::new(setup.plan);
    run_as(setup, &vec![hello; setup.plan.programs.len()], cancel)
}

/// Runs a plan of which each rank says what `hellos` holds.
fn run_as(setup: &Setup<'_>, hellos: &[Hello], cancel: &AtomicBool) -> Result<Report, Box<RunFailure>> {
    let plan = setup.plan;
    let codec = plan.codec.as_ref().map(zipwire_codec::Spec::codec);
    let chunks: Vec<Chunks> = plan.programs.iter().map(|program| Chunks::of(program)).collect();
    let memory = |program: &Program| Memory::new(program.buffers.iter().map(|buffer| buffer.capacity));
    let memories: Vec<Memory> = plan.programs.iter().map(|program| memory(program)).collect();
    let epoch = Instant::now();
    let timeline =
        Timeline { rank_count: plan.rank_count(), segments: plan.segments.clone(), ..Timeline::default() };
    let mut report = Report { timeline, bytes_verified: 0, codec_work: CodecWork::default() };
    let permits = Permits::new(setup.cores);
    for iteration in 0..setup.iterations {
        let _span = tracing::info_span!("run", iteration).entered();
        let (fabric, inboxes) = Fabric::new(plan, &memories, epoch, cancel);
        let faults = FaultPlan::new(plan, setup.faults, iteration);
        let job = RankJob {
            setup,
            hellos,
            fabric: &fabric,
            codec: codec.as_deref(),
            permits: &permits,
            faults: &faults,
            iteration,
        };
        let begin_s = fabric.now_s();
        let ranks = job.run_all(&chunks, inboxes);
        if fabric.is_cancelled() {
            // Ranks that never wait do not look.
            fabric.abort(&Failure::new(Rank(0), None, FailureKind::Cancelled, "stopped by the user"));
        }
        if let Some(first) = fabric.first_failure() {
            let after_s = (fabric.now_s() - begin_s) / setup.pace.map_or(1.0, |pace| pace.dilation);
            let ends = ranks.into_iter().filter_map(Result::err).map(|end| *end).collect();
            let failure = RunFailure::new(plan, setup.deadlines, iteration, after_s, first, ends);
            return Err(Box::new(failure));
        }
        append(&mut report, ranks.into_iter().filter_map(Result::ok).collect());
    }
    Ok(report)
}

/// Appends an iteration to a timeline: it begins when the first rank has passed the barrier.
fn append(report: &mut Report, ranks: Vec<RankRun>) {
    let timeline = &mut report.timeline;
    let begin_s = ranks.iter().map(|rank| rank.begin_s).fold(f64::INFINITY, f64::min);
    let end_s = ranks.iter().map(|rank| rank.end_s).fold(begin_s, f64::max);
    timeline.iterations.push(IterationTime { begin_s, length_s: end_s - begin_s });
    ranks.iter().for_each(|rank| report.codec_work.merge(&rank.codec_work));
    report.bytes_verified += ranks.iter().map(|rank| rank.bytes_verified).sum::<u64>();
    let relative = |span: Span| Span { begin_s: span.begin_s - begin_s, end_s: span.end_s - begin_s, ..span };
    let mut spans: Vec<Span> = ranks.into_iter().flat_map(|rank| rank.spans).map(relative).collect();
    spans.sort_by(|a, b| a.end_s.total_cmp(&b.end_s).then_with(|| (a.rank, a.op).cmp(&(b.rank, b.op))));
    timeline.spans.extend(spans);
}

/// One rank of one iteration, finished. Times since the start of the run.
struct RankRun {
    begin_s: f64,
    end_s: f64,
    spans: Vec<Span>,
    bytes_verified: u64,
    codec_work: CodecWork,
}

struct RankJob<'a> {
    setup: &'a Setup<'a>,
    hellos: &'a [Hello],
    fabric: &'a Fabric<'a>,
    codec: Option<&'a dyn Codec>,
    permits: &'a Permits,
    faults: &'a FaultPlan,
    iteration: u32,
}

impl RankJob<'_> {
    /// Runs every rank on a thread of its own. Should the system refuse one, the run fails like any other.
    fn run_all(&self, chunks: &[Chunks], inboxes: Vec<Receiver<Note>>) -> Vec<Result<RankRun, Box<RankEnd>>> {
        std::thread::scope(|scope| {
            let (wire, parcels) = channel();
            if let Some(pace) = self.setup.pace {
                // Ends when the last rank has dropped its end of the channel.
                scope.spawn(move || Wire::new(pace, self.setup.plan).run(&parcels, self.fabric));
            }
            let mut threads = Vec::new();
            for ((program, chunks), inbox) in self.setup.plan.programs.iter().zip(chunks).zip(inboxes) {
                let rank = program.rank;
                let thread = std::thread::Builder::new().name(format!("rank {rank}"));
                let pacing = self.pacing(&wire);
                match thread.spawn_scoped(scope, move || self.run_guarded(program, chunks, inbox, pacing)) {
                    Ok(thread) => threads.push(thread),
                    Err(error) => {
                        let detail = format!("the system refuses a thread for it: {error}");
                        self.fabric.abort(&Failure::new(rank, None, FailureKind::Device, detail));
                        break;
                    }
                }
            }
            drop(wire);
            let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
                thread.join().expect("ranks catch their panics")
            };
            threads.into_iter().map(join).collect()
        })
    }

    fn pacing(&self, wire: &Sender<Parcel>) -> Option<Pacing<'_>> {
        let iteration = self.iteration;
        self.setup.pace.map(|pace| Pacing { pace, wire: wire.clone(), iteration })
    }

    /// A panic ends the run like any other failure: with a typed error on every rank.
    fn run_guarded(
        &self,
        program: &Arc<Program>,
        chunks: &Chunks,
        inbox: Receiver<Note>,
        pacing: Option<Pacing<'_>>,
    ) -> Result<RankRun, Box<RankEnd>> {
        // Outlives the guarded work: were the inbox closed by unwinding, peers could fail before this rank says why.
        let rendezvous = Rendezvous {
            fabric: self.fabric,
            rank: program.rank,
            inbox,
            codec: self.codec,
            payload: self.setup.payload,
            chunks,
            segments: &self.setup.plan.segments,
            stuck_after: self.setup.stuck_after,
            opened_s: HashMap::new(),
            offered: HashMap::new(),
            early: HashMap::new(),
            events: VecDeque::new(),
            permits: self.permits,
            pacing,
            due: Vec::new(),
            moving: HashMap::new(),
            corrupted: HashMap::new(),
            sizes_s: HashMap::new(),
            bytes_verified: 0,
            codec_work: CodecWork::default(),
        };
        let mut backend = Faulty::new(rendezvous, self.faults);
        catch_unwind(AssertUnwindSafe(|| self.run(program, &mut backend))).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
            let detail = format!("its thread panicked: {text}");
            let failure = Failure::new(program.rank, None, FailureKind::Device, detail);
            self.fabric.abort(&failure);
            Err(Box::new(RankEnd { failure, standing: None }))
        })
    }

    fn run(
        &self,
        program: &Arc<Program>,
        backend: &mut Faulty<'_, Rendezvous<'_>>,
    ) -> Result<RankRun, Box<RankEnd>> {
        backend.inner().prepare();
        let rank = program.rank;
        let (capabilities, start_s) = (backend.capabilities(), backend.now_s());
        self.greet(rank).map_err(|failure| {
            let machine = Machine::new(Arc::clone(program), capabilities, start_s);
            Box::new(RankEnd { failure, standing: Some(machine.standing()) })
        })?;
        let begin_s = backend.now_s();
        let mut machine = Machine::new(Arc::clone(program), capabilities, begin_s);
        if let Some(deadlines) = self.setup.deadlines {
            machine = machine.with_deadlines(deadlines.of(self.iteration, rank));
        }
        let mut spans = Vec::new();
        let driven = drive(&mut machine, backend, self.iteration, &mut spans);
        let end_s = backend.now_s();
        let finished = driven.and_then(|()| {
            backend.inner().finish(&machine).inspect_err(|failure| self.fabric.abort(failure))
        });
        finished.map_err(|failure| {
            let standing = (!backend.is_dead()).then(|| machine.standing());
            Box::new(RankEnd { failure, standing })
        })?;
        let rendezvous = backend.inner();
        let codec_work = std::mem::take(&mut rendezvous.codec_work);
        Ok(RankRun { begin_s, end_s, spans, bytes_verified: rendezvous.bytes_verified, codec_work })
    }

    /// Waits for all ranks and makes sure that they are about to run the same plan.
    fn greet(&self, rank: Rank) -> Result<(), Failure> {
        if let Some(first) = self.fabric.start() {
            return Err(Failure::new(rank, None, FailureKind::Cancelled, first.to_string()));
        }
        let own = &self.hellos[rank.index()];
        let checked =
            (0..).map(Rank).zip(self.hellos).try_for_each(|(peer, hello)| own.check(rank, peer, hello));
        checked.inspect_err(|failure| self.fabric.abort(failure))
    }
}

#[cfg(test)]
mod tests {
    use zipwire_codec::DType;
    use zipwire_schedule::{Choice, Job, Order, Protocol, Segment, Slot, Work, plan};
    use zipwire_traces::Rows;

    use super::*;

    #[test]
    fn ranks_that_are_to_run_different_plans_run_nothing() {
        let bytes = ndarray::Array2::from_elem((3, 3), 64);
        let work = Work::AllToAll { dtype: DType::Bf16, bytes, input: Slot(0), output: Slot(1) };
        let segments = vec![Segment { name: "call", work }];
        let job = Job { name: "collective", rank_count: 3, slots: vec!["in", "out"], segments };
        let choice = Choice {
            protocol: Protocol::Native,
            form: None,
            order: Order::default(),
            window: None,
            codec: None,
        };
        let plan = plan(&job, &choice);
        let payload = Payload::new(1, vec![Arc::new(Rows::gaussian(1.0, 1))]);
        let setup = Setup {
            plan: &plan,
            payload: &payload,
            iterations: 1,
            stuck_after: STUCK_AFTER,
            cores: 1,
            pace: None,
            faults: &[],
            deadlines: None,
        };
        let own = Hello::new(&plan);
        let other = Hello { plan: "another".to_owned(), ..own.clone() };
        let failure = run_as(&setup, &[own.clone(), own, other], &AtomicBool::new(false)).unwrap_err();
        assert_eq!(failure.first.kind, FailureKind::Mismatch);
        assert_eq!(failure.ranks.len(), 3, "{failure}");
        let text = failure.to_string();
        assert!(text.contains("`another`") && text.contains(&plan.digest()), "{text}");
    }
}
