//! One rank on its GPU: its iterations, over whatever wire connects it with the others.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use zipwire_kernels::{Device, Event, GpuError};
use zipwire_payload::Payload;
use zipwire_schedule::plan::Program;
use zipwire_schedule::{Failure, FailureKind, Machine, RankEnd};
use zipwire_timeline::Span;

use super::LOOK;
use super::backend::{CAPABILITIES, CudaBackend};
use super::clock::Clock;
use super::device_state::DeviceState;
use super::wire::{Own, Wire};
use crate::iterations::{Iterations, RunResult};
use crate::pace::CodecWork;
use crate::report::{FailureReport, Hello, RankReport, compare, panicked, stopped};
use crate::run_program::{failure, run_program};

/// A rank of a plan, and what it has on its GPU for all iterations.
pub(crate) struct GpuRank<'a> {
    pub(crate) iterations: &'a Iterations<'a>,
    pub(crate) hello: &'a Hello,
    pub(crate) program: &'a Arc<Program>,
    pub(crate) device: &'a Device,
    pub(crate) device_state: &'a DeviceState,
    pub(crate) payload: &'a Payload,
    pub(crate) stuck_after: Duration,
    /// Ranks of this process, which share its cores.
    pub(crate) ranks_here: usize,
}

impl GpuRank<'_> {
    /// Runs all iterations; every received byte is compared with what was sent. Rank 0 has the report of all ranks.
    ///
    /// # Errors
    /// On rank 0 if any rank fails, elsewhere if this one does. All ranks have been told.
    pub(crate) fn run<W: Wire>(&self, wire: &mut W) -> RunResult {
        self.iterations.run(wire, |wire, iteration| self.run_guarded(wire, iteration))
    }

    /// A panic ends the run like any other failure: with a typed error on every rank.
    fn run_guarded<W: Wire>(&self, wire: &mut W, iteration: u32) -> RankReport {
        let rank = self.program.rank;
        let entered_s = wire.now_s();
        let run = AssertUnwindSafe(|| self.run_iteration(wire, iteration));
        let ran = catch_unwind(run).unwrap_or_else(|panic| Err(Box::new(panicked(rank, &*panic))));
        ran.unwrap_or_else(|end| {
            let end_s = wire.now_s();
            wire.abort(&end.failure);
            wire.give_up();
            RankReport { begin_s: entered_s, ..RankReport::failed(rank, end_s, *end) }
        })
    }

    fn run_iteration<W: Wire>(&self, wire: &mut W, iteration: u32) -> Result<RankReport, Box<RankEnd>> {
        let mut machine = Machine::new(Arc::clone(self.program), CAPABILITIES, 0.0);
        let mut spans = Vec::new();
        let ended = self.run_ops(wire, &mut machine, iteration, &mut spans);
        let (begin_s, bytes_verified) =
            ended.map_err(|failure| Box::new(RankEnd { failure, status: Some(machine.status()) }))?;
        let end_s = spans.iter().map(|span| span.end_s).fold(begin_s, f64::max);
        let (rank, codec_work) = (self.program.rank, CodecWork::default());
        let (unfired, failed) = (Vec::new(), None);
        Ok(RankReport { rank, begin_s, end_s, spans, bytes_verified, codec_work, unfired, failed })
    }

    /// Returns when the iteration began, and how many bytes were compared.
    fn run_ops<W: Wire>(
        &self,
        wire: &mut W,
        machine: &mut Machine,
        iteration: u32,
        spans: &mut Vec<Span>,
    ) -> Result<(f64, u64), Failure> {
        let (rank, device_state) = (self.program.rank, self.device_state);
        let broken = |error: GpuError| Failure::new(rank, None, FailureKind::Device, error.to_string());
        wire.connect(self.device, self.hello, self.stuck_after)?;
        let clock = Arc::new(Clock::set(self.device, || wire.now_s()).map_err(broken)?);
        wire.offer_clock(&clock);
        self.wait_for(wire, machine, device_state.lay_out().map_err(broken)?)?;
        let failure_report = FailureReport { segments: &self.iterations.plan.segments };
        let words = wire.barrier(&self.hello.to_word());
        let words = words.map_err(|ended| failure_report.ended(machine, None, &ended))?;
        compare(self.hello, rank, &words)?;
        let clock = wire.clock(clock);
        device_state.begin().map_err(broken)?;
        let own = Own { rank, device_state, failure_report, clock: &clock };
        let mut backend = CudaBackend::new(own, wire, self.payload, self.stuck_after, self.ranks_here);
        run_program(machine, &mut backend, iteration, spans)?;
        backend.finish(machine)?;
        // A rank without ops has not waited for anything yet.
        let began = device_state.began.wait().and_then(|()| clock.time_s(&device_state.began));
        Ok((began.map_err(broken)?, backend.bytes_verified))
    }

    /// Waits for the device before the barrier. Looks for the end of the run, as everywhere.
    fn wait_for<W: Wire>(&self, wire: &mut W, machine: &Machine, event: &Event) -> Result<(), Failure> {
        let begin = Instant::now();
        let broken = |error: GpuError| failure(machine, None, FailureKind::Device, error.to_string());
        let failure_report = FailureReport { segments: &self.iterations.plan.segments };
        while !event.has_passed().map_err(broken)? {
            if wire.is_stopped() {
                return Err(stopped(machine));
            }
            if begin.elapsed() >= self.stuck_after {
                return Err(failure_report.stuck(machine, None, self.stuck_after));
            }
            wire.rest(LOOK).map_err(|ended| failure_report.ended(machine, None, &ended))?;
        }
        Ok(())
    }
}
