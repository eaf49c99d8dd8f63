//! Ranks as threads of this process: real bytes and the real codec over unpaced memory copies.
//!
//! What it proves is that a plan does what it says, bit for bit. Its times are not those of a cluster.

mod backend;
mod call;
mod codec_work;
mod cpu_time;
mod fabric;
mod overlap;
mod pace;

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use zipwire_codec::Codec;
use zipwire_schedule::plan::{Plan, Program};
use zipwire_schedule::{Deadlines, Fault, FaultPlan, Machine, RankEnd, RunFailure, Slowdown};
use zipwire_traces::{Payload, Timeline};

use self::backend::{Pacing, Rendezvous};
use self::fabric::{Fabric, Memory, Note};
use self::overlap::Overlap;
use self::pace::{Parcel, Permits, Wire};
use crate::chunks::Chunks;
use crate::complaints::Complaints;
use crate::drive::{Backend, drive};
use crate::faulty::Faulty;
use crate::hello::Hello;
use crate::meeting::Mail;
use crate::ranks::{Ended, RankRun, append, conclude, empty_timeline, greet, guarded, run_all};

pub use self::codec_work::{CallWork, CodecWork, Coding};
pub use self::pace::Pace;
pub use crate::ranks::STUCK_AFTER;

/// What to run.
#[derive(Debug)]
pub struct Setup<'a> {
    /// The plan, validated.
    pub plan: &'a Plan,
    /// What the chunks hold.
    pub payload: &'a Payload,
    /// Iterations, with a barrier before each. Durations and faults are those of their numbers.
    pub iterations: Range<u32>,
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
    let mut report =
        Report { timeline: empty_timeline(plan), bytes_verified: 0, codec_work: CodecWork::default() };
    let permits = Permits::new(setup.cores);
    for iteration in setup.iterations.clone() {
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
        let ended = job.run_all(&chunks, inboxes);
        let after_s = (fabric.now_s() - begin_s) / setup.pace.map_or(1.0, |pace| pace.dilation);
        let ranks = conclude(plan, setup.deadlines, &fabric, iteration, after_s, ended)?;
        let (ranks, works): (Vec<_>, Vec<_>) = ranks.into_iter().unzip();
        works.iter().for_each(|work| report.codec_work.merge(work));
        report.bytes_verified += ranks.iter().map(|rank: &RankRun| rank.bytes_verified).sum::<u64>();
        append(&mut report.timeline, ranks);
    }
    Ok(report)
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
    /// Runs every rank on a thread of its own, and the links beside them.
    fn run_all(
        &self,
        chunks: &[Chunks],
        inboxes: Vec<Receiver<Mail<Note>>>,
    ) -> Vec<Ended<(RankRun, CodecWork)>> {
        std::thread::scope(|scope| {
            let (wire, parcels) = channel();
            if let Some(pace) = self.setup.pace {
                // Ends when the last end of the channel is dropped, behind all ranks.
                scope.spawn(move || Wire::new(pace, self.setup.plan).run(&parcels, self.fabric));
            }
            run_all(self.setup.plan, self.fabric, inboxes, |program, inbox| {
                self.run_guarded(program, &chunks[program.rank.index()], inbox, self.pacing(&wire))
            })
        })
    }

    fn pacing(&self, wire: &Sender<Parcel>) -> Option<Pacing<'_>> {
        let iteration = self.iteration;
        self.setup.pace.map(|pace| Pacing { pace, wire: wire.clone(), iteration })
    }

    fn run_guarded(
        &self,
        program: &Arc<Program>,
        chunks: &Chunks,
        inbox: Receiver<Mail<Note>>,
        pacing: Option<Pacing<'_>>,
    ) -> Ended<(RankRun, CodecWork)> {
        // Without links and declared times nothing could be slower.
        let slowdown =
            pacing.as_ref().map_or_else(Slowdown::default, |pacing| pacing.pace.host.compute_slowdown);
        let rendezvous = Rendezvous {
            fabric: self.fabric,
            rank: program.rank,
            inbox,
            codec: self.codec,
            payload: self.setup.payload,
            chunks,
            complaints: Complaints { segments: &self.setup.plan.segments },
            stuck_after: self.setup.stuck_after,
            opened_s: HashMap::new(),
            offered: HashMap::new(),
            early: HashMap::new(),
            events: VecDeque::new(),
            permits: self.permits,
            pacing,
            due: Vec::new(),
            overlap: Overlap::new(slowdown),
            calls: HashMap::new(),
            moving: HashMap::new(),
            corrupted: HashMap::new(),
            sizes_s: HashMap::new(),
            bytes_verified: 0,
            codec_work: CodecWork::default(),
        };
        let mut backend = Faulty::new(rendezvous, self.faults);
        guarded(self.fabric, program.rank, || self.run(program, &mut backend))
    }

    fn run(
        &self,
        program: &Arc<Program>,
        backend: &mut Faulty<'_, Rendezvous<'_>>,
    ) -> Ended<(RankRun, CodecWork)> {
        backend.inner().prepare();
        let rank = program.rank;
        let (capabilities, start_s) = (backend.capabilities(), backend.now_s());
        greet(self.fabric, self.hellos, rank).map_err(|failure| {
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
        let bytes_verified = rendezvous.bytes_verified;
        Ok((RankRun { begin_s, end_s, spans, bytes_verified }, codec_work))
    }
}

#[cfg(test)]
mod tests {
    use zipwire_codec::DType;
    use zipwire_schedule::{Choice, FailureKind, Job, Protocol, Segment, Slot, Work, plan};
    use zipwire_traces::Rows;

    use super::*;

    #[test]
    fn ranks_that_are_to_run_different_plans_run_nothing() {
        let bytes = ndarray::Array2::from_elem((3, 3), 64);
        let work =
            Work::AllToAll { dtype: DType::Bf16, bytes, tokens: None, input: Slot(0), output: Slot(1) };
        let segments = vec![Segment::new("call", work)];
        let job = Job { name: "collective", rank_count: 3, slots: vec!["in", "out"], segments };
        let plan = plan(&job, &Choice::of(Protocol::Native, None));
        let payload = Payload::new(1, vec![Arc::new(Rows::gaussian(1.0, 1))]);
        let setup = Setup {
            plan: &plan,
            payload: &payload,
            iterations: 0..1,
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
