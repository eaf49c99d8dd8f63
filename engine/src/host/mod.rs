//! Ranks whose memory is the host's, over any transport: what each rank does is the same whether its peers are threads of
//! this process or processes anywhere.
//!
//! A rank holds the whole plan and runs its own program. What it did comes to rank 0 as a report, which alone knows of all.

mod backend;
mod library;
mod worker;

use std::cell::OnceCell;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use zipwire_cluster::Slowdown;
use zipwire_payload::Payload;
use zipwire_schedule::plan::{Plan, Program};
use zipwire_schedule::{
    Deadlines, Durations, Failure, FailureKind, Fault, FaultPlan, FiredFaults, Machine, Rank, RankEnd,
    RunFailure,
};

use self::backend::{HostBackend, Overlap, capabilities};
use self::worker::{Coders, Worker};
use crate::chunks::Chunks;
use crate::faulty::Faulty;
use crate::iterations::Iterations;
use crate::memory::Memory;
use crate::report::{FailureReport, Hello, RankReport, STUCK_AFTER, compare, ended_before, panicked};
use crate::run_program::{Backend, run_program};
use crate::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use crate::transport::Transport;
use crate::transport::filter::{Filtered, Flips};

pub use self::worker::base_bytes;
pub use crate::iterations::{RunReport, RunResult};
pub use crate::pace::{CallWork, CodecWork, Coding, Pace};

/// Plan, payload and settings of a run: the same on all ranks.
#[derive(Debug)]
pub struct HostSetup<'a> {
    /// The plan, validated.
    pub plan: &'a Plan,
    /// Contents of the chunks.
    pub payload: &'a Payload,
    /// Iterations, with a barrier before each. Durations and faults are those of their numbers.
    pub iterations: Range<u32>,
    /// The longest standstill, usually [`STUCK_AFTER`].
    pub stuck_after: Duration,
    /// Codec ops that work at a time on this machine.
    pub cores: usize,
    /// The cluster that the run stands for; without one, links are as fast as memory and times mean nothing.
    pub pace: Option<&'a Pace>,
    /// Seconds for which compute phases wait in a run that is not paced: where ranks are on the cluster that the times are about. By
    /// default they take what it takes to write what the model would have computed.
    pub phases: Option<&'a Durations>,
    /// Whether what comes is held against its sender's checksum, and against what the origin had. Without it times are those of a run that
    /// trusts its links.
    pub verifies: bool,
    /// Faults to inject. Their times mean something in paced runs, and where phases have durations.
    pub faults: &'a [Fault],
    /// When ops must have ended, in seconds of the cluster: for paced runs.
    pub deadlines: Option<&'a Deadlines>,
}

impl<'a> HostSetup<'a> {
    /// Runs a plan as fast as it goes, on two cores at the most, compares all that is received, and gives up after the usual standstill.
    pub fn new(plan: &'a Plan, payload: &'a Payload, iterations: Range<u32>) -> Self {
        Self {
            plan,
            payload,
            iterations,
            stuck_after: STUCK_AFTER,
            cores: 2,
            pace: None,
            phases: None,
            verifies: true,
            faults: &[],
            deadlines: None,
        }
    }

    /// Plan and iterations, without what they are run by.
    pub(crate) fn iterations(&self) -> Iterations<'a> {
        let (plan, deadlines) = (self.plan, self.deadlines);
        Iterations { plan, deadlines, faults: self.faults.len(), iterations: self.iterations.clone() }
    }
}

/// Runs one rank of a plan to its end, over a transport that connects it with the others; every received byte is compared with
/// what was sent. Rank 0 has the report of all ranks, the others have none.
///
/// # Errors
/// On rank 0 if any rank fails, elsewhere if this one does: bytes are wrong, an op is overdue, nothing happens for too long, or
/// the user stops the run. All ranks have been told.
pub fn run_rank(setup: &HostSetup<'_>, permits: &Permits, transport: &mut dyn Transport) -> RunResult {
    run_rank_as(setup, permits, &Hello::new(setup.plan), transport)
}

/// Runs a rank that says `hello` of itself.
pub(crate) fn run_rank_as(
    setup: &HostSetup<'_>,
    permits: &Permits,
    hello: &Hello,
    transport: &mut dyn Transport,
) -> RunResult {
    let plan = setup.plan;
    let program = &plan.programs[transport.rank().index()];
    let (chunks, coders) = (OnceCell::new(), OnceCell::new());
    let job = RankJob { setup, permits, hello, program, chunks, coders };
    setup.iterations().run(transport, |transport, iteration| job.run_guarded(transport, iteration))
}

struct RankJob<'a> {
    setup: &'a HostSetup<'a>,
    permits: &'a Permits,
    hello: &'a Hello,
    program: &'a Arc<Program>,
    /// Made when they are first needed.
    chunks: OnceCell<Chunks>,
    /// Made before the first iteration.
    coders: OnceCell<Coders>,
}

impl RankJob<'_> {
    /// A panic ends the run like any other failure: with a typed error on every rank.
    fn run_guarded(&self, transport: &mut dyn Transport, iteration: u32) -> RankReport {
        let rank = self.program.rank;
        let dilation = self.setup.pace.map_or(1.0, |pace| pace.dilation);
        let entered_s = transport.now_s() / dilation;
        let ran = catch_unwind(AssertUnwindSafe(|| self.run(transport, iteration))).unwrap_or_else(|panic| {
            let end = panicked(rank, &*panic);
            transport.abort(&end.failure);
            Err(Box::new(end))
        });
        ran.unwrap_or_else(|end| {
            let end_s = transport.now_s() / dilation;
            RankReport { begin_s: entered_s, ..RankReport::failed(rank, end_s, *end) }
        })
    }

    fn run(&self, transport: &mut dyn Transport, iteration: u32) -> Result<RankReport, Box<RankEnd>> {
        let HostSetup { plan, pace, payload, stuck_after, .. } = *self.setup;
        let rank = self.program.rank;
        let faults = FaultPlan::new(plan, self.setup.faults, iteration);
        let mut transport = Filtered { inner: transport, filter: Flips(&faults) };
        let memory = Arc::clone(transport.memory());
        let failure_report = FailureReport { segments: &plan.segments };
        let worker = Worker {
            memory: &memory,
            coders: self.coders(&mut transport)?,
            payload,
            chunks: self.chunks.get_or_init(|| Chunks::of(self.program)),
            failure_report,
            verifies: self.setup.verifies,
            bytes_verified: 0,
        };
        worker.prepare();
        let machine = |start_s| Machine::new(Arc::clone(self.program), capabilities(pace.is_some()), start_s);
        self.shake_hands(&mut transport, failure_report, &machine(0.0))?;
        // Without links and declared times nothing could be slower.
        let slowdown = pace.map_or_else(Slowdown::default, |pace| pace.costs.host.compute_slowdown);
        let backend = HostBackend {
            rank,
            transport: &mut transport,
            worker,
            failure_report,
            stuck_after,
            permits: self.permits,
            pace,
            phases: self.setup.phases,
            iteration,
            opened: HashMap::new(),
            offered: HashMap::new(),
            events: VecDeque::new(),
            due: Vec::new(),
            overlap: Overlap::new(slowdown),
            calls: library::Calls::default(),
            sizes_s: HashMap::new(),
            codec_work: CodecWork::default(),
        };
        let fired = FiredFaults::new(self.setup.faults.len());
        let mut backend = Faulty::new(backend, &faults, &fired);
        let begin_s = backend.now_s();
        let mut machine = machine(begin_s);
        if let Some(deadlines) = self.setup.deadlines {
            machine = machine.with_deadlines(deadlines.of(iteration, rank));
        }
        let mut spans = Vec::new();
        let driven = run_program(&mut machine, &mut backend, iteration, &mut spans);
        // What has come is compared after that.
        let end_s = backend.now_s();
        let finished = driven.and_then(|()| {
            let HostBackend { worker, transport, .. } = backend.inner();
            worker.finish(&machine).inspect_err(|failure| transport.abort(failure))
        });
        finished.map_err(|failure| {
            let status = (!backend.is_dead()).then(|| machine.status());
            Box::new(RankEnd { failure, status })
        })?;
        let HostBackend { worker, codec_work, .. } = backend.inner();
        let (bytes_verified, codec_work) = (worker.bytes_verified, std::mem::take(codec_work));
        let unfired = fired.missing();
        Ok(RankReport { rank, begin_s, end_s, spans, bytes_verified, codec_work, unfired, failed: None })
    }

    /// Coders of this rank, made in the first iteration before the barrier.
    fn coders(&self, transport: &mut dyn Transport) -> Result<&Coders, Box<RankEnd>> {
        if let Some(coders) = self.coders.get() {
            return Ok(coders);
        }
        let rank = self.program.rank;
        let made = Coders::of(self.setup.plan, rank, self.setup.payload).map_err(|detail| {
            let failure = Failure::new(rank, None, FailureKind::Device, detail);
            transport.abort(&failure);
            Box::new(RankEnd { failure, status: None })
        })?;
        Ok(self.coders.get_or_init(|| made))
    }

    /// Waits for all ranks and makes sure that they are about to run the same.
    fn shake_hands(
        &self,
        transport: &mut dyn Transport,
        failure_report: FailureReport<'_>,
        machine: &Machine,
    ) -> Result<(), Box<RankEnd>> {
        let met = transport.barrier(&self.hello.to_word());
        let met = met.map_err(|ended| failure_report.ended(machine, None, &ended));
        let compared = met.and_then(|words| compare(self.hello, machine.program().rank, &words));
        let compared = compared.inspect_err(|failure| transport.abort(failure));
        compared.map_err(|failure| Box::new(RankEnd { failure, status: Some(machine.status()) }))
    }
}

/// The memory that a rank of a plan needs, to give to its transport.
///
/// # Errors
/// If the system refuses it.
pub fn memory(plan: &Plan, rank: Rank) -> Result<Arc<Memory>, Box<RunFailure>> {
    let program = &plan.programs[rank.index()];
    Memory::of(program).map(Arc::new).map_err(|error| {
        let bytes: u64 = program.buffers.iter().map(|buffer| buffer.capacity).sum();
        let detail = format!("the system refuses {bytes} bytes for its buffers: {error}");
        ended_before(plan, Failure::new(rank, None, FailureKind::Device, detail))
    })
}

/// Places that are free.
/// A codec op holds one, so that it has a core of its own while it is measured.
#[derive(Debug)]
pub struct Permits {
    free: Mutex<usize>,
    freed: Condvar,
}

/// A place that is taken until this is dropped.
#[derive(Debug)]
pub(crate) struct Permit<'a>(&'a Permits);

impl Permits {
    /// So many places, at least one.
    pub fn new(count: usize) -> Self {
        Self { free: Mutex::new(count.max(1)), freed: Condvar::new() }
    }

    pub(crate) fn take(&self) -> Permit<'_> {
        let mut free = self.lock();
        while *free == 0 {
            free = self.freed.wait(free).unwrap_or_else(PoisonError::into_inner);
        }
        *free -= 1;
        Permit(self)
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        *self.0.lock() += 1;
        self.0.freed.notify_one();
    }
}

/// Seconds for which the calling thread has run on a core. Only differences on one thread mean something.
#[cfg(unix)]
pub(crate) fn cpu_s() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Seconds that have passed: what comes nearest where the system is not asked how long a thread has run.
#[cfg(not(unix))]
pub(crate) fn cpu_s() -> f64 {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    START.get_or_init(std::time::Instant::now).elapsed().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn sleeping_is_no_work() {
        let begin_s = cpu_s();
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(cpu_s() - begin_s < 0.025, "slept, and took {} s of a core", cpu_s() - begin_s);
    }

    #[test]
    fn work_takes_time() {
        let begin_s = cpu_s();
        let sum = (0..10_000_000_u64).fold(0, |sum: u64, i| std::hint::black_box(sum.rotate_left(3) ^ i));
        assert!(cpu_s() > begin_s, "{sum} came for nothing");
    }
}
