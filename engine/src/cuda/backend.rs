//! The backend of one rank: it queues ops on the streams of its device, checks sizes and findings, and turns device time into that of the run.
//!
//! Ops are queued as soon as all that they depend on is queued; the device waits where they ran on other streams. The host
//! polls: nothing here waits for the device.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use zipwire_kernels::{Decoder, Event as DeviceEvent, GpuError};
use zipwire_payload::Payload;
use zipwire_schedule::machine::{Capabilities, Machine, Readiness, TransferOrder};
use zipwire_schedule::plan::{Batch, Local, Op, OpKind};
use zipwire_schedule::{Failure, FailureKind, Lane, OpId, SizeId};

use super::device_state::{CudaReport, DeviceState, Launch};
use super::wire::{Moved, Own, Wire};
use crate::chunks::Chunk;
use crate::report::{Standstill, stopped};
use crate::run_program::{Action, Backend, Call, Completion, Event, Outcome, failure};

/// How long a rank looks at its device again and again: with a core of its own, and without one. Sleeping costs as much as a small collective.
const EAGER: (Duration, Duration) = (Duration::from_millis(200), Duration::from_micros(100));
/// Shortest and longest sleep between two looks after that.
const SLEEP: (Duration, Duration) = (Duration::from_micros(20), Duration::from_millis(1));

pub(super) struct CudaBackend<'a, W> {
    own: Own<'a>,
    wire: &'a mut W,
    payload: &'a Payload,
    stuck_after: Duration,
    /// Time of looking without sleep in each wait.
    eager: Duration,
    /// Issued, and not queued on the device yet: they depend on others that are not.
    held: VecDeque<OpId>,
    is_queued: Vec<bool>,
    /// Queued, and not reported; in program order.
    running: Vec<OpId>,
    is_reported: Vec<bool>,
    events: VecDeque<Event>,
    pub(super) bytes_verified: u64,
}

/// Streams order what is issued, and an exchange is one call. Transfers do not wait for the times of the cluster.
pub(super) const CAPABILITIES: Capabilities =
    Capabilities { readiness: Readiness::Issued, transfer_order: TransferOrder::Library, timed: false };

impl<W: Wire> Backend for CudaBackend<'_, W> {
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn now_s(&self) -> f64 {
        self.wire.now_s()
    }

    fn submit(&mut self, machine: &Machine, action: Action) -> Result<(), Failure> {
        match action {
            Action::Issue(op) => {
                self.held.push_back(op);
                self.queue_all(machine)
            }
            Action::Announce(_) | Action::Transfer(_) | Action::Close(_) => {
                unreachable!("exchanges are opaque calls")
            }
        }
    }

    fn wait(&mut self, machine: &Machine, until_s: Option<f64>) -> Result<Option<Event>, Failure> {
        let mut standstill = Standstill::new(self.wire.progress());
        let mut begin = Instant::now();
        let mut sleeps = 0;
        loop {
            if self.wire.is_stopped() {
                return Err(stopped(machine));
            }
            self.look(machine)?;
            if let Some(event) = self.events.pop_front() {
                return Ok(Some(event));
            }
            if until_s.is_some_and(|until_s| self.now_s() >= until_s) {
                return Ok(None);
            }
            let pause = if begin.elapsed() < self.eager {
                Duration::ZERO
            } else {
                sleeps += 1;
                SLEEP.1.min(SLEEP.0 * sleeps)
            };
            if self.wire.listen(&self.own, machine, pause)? {
                self.end_queued(machine)?;
                self.queue_all(machine)?;
                (begin, sleeps) = (Instant::now(), 0);
            }
            if standstill.lasts(self.wire.progress(), self.stuck_after) {
                let op = self.wire.first_open().or(self.running.first().copied());
                return Err(self.own.failure_report.stuck(machine, op, self.stuck_after));
            }
        }
    }

    fn abort(&mut self, failure: &Failure) {
        self.wire.abort(failure);
    }
}

/// How long each of `ranks` in this process looks at its device before it sleeps between looks.
fn eager(ranks: usize) -> Duration {
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    // The driver has threads of its own.
    if ranks < cores { EAGER.0 } else { EAGER.1 }
}

impl<'a, W: Wire> CudaBackend<'a, W> {
    pub(super) fn new(
        own: Own<'a>,
        wire: &'a mut W,
        payload: &'a Payload,
        stuck_after: Duration,
        ranks_here: usize,
    ) -> Self {
        let ops = own.device_state.ops.len();
        Self {
            own,
            wire,
            payload,
            stuck_after,
            eager: eager(ranks_here),
            held: VecDeque::new(),
            is_queued: vec![false; ops],
            running: Vec::new(),
            is_reported: vec![false; ops],
            events: VecDeque::new(),
            bytes_verified: 0,
        }
    }

    /// Queues all ops on the device whose dependencies are queued. Exchanges and calls stay in their order on each lane.
    fn queue_all(&mut self, machine: &Machine) -> Result<(), Failure> {
        let mut blocked = [false; Lane::ALL.len()];
        // An op may allow others, which come later in the program.
        for _ in 0..self.held.len() {
            let op = self.held.pop_front().expect("as many were there");
            let Op { kind, deps, .. } = machine.op(op);
            let lane = kind.lane();
            let is_call = matches!(kind, OpKind::Exchange(_) | OpKind::Library(_));
            let may_begin = !is_call || !blocked[lane as usize] && self.wire.takes(lane);
            if may_begin && deps.iter().all(|dep| self.is_queued[dep.index()]) {
                self.queue(machine, op)?;
            } else {
                blocked[lane as usize] |= is_call;
                self.held.push_back(op);
            }
        }
        Ok(())
    }

    fn queue(&mut self, machine: &Machine, op: OpId) -> Result<(), Failure> {
        let Op { kind, deps, .. } = machine.op(op);
        let (lane, prepared) = (kind.lane(), self.device_state().op(op));
        let stream = self.device_state().stream(lane);
        let begin = || -> Result<(), GpuError> {
            let elsewhere = deps.iter().filter(|dep| machine.op(**dep).kind.lane() != lane);
            for &dep in elsewhere {
                stream.wait(&self.device_state().op(dep).done)?;
            }
            self.device_state().samples.keep_before(op, stream)?;
            stream.record(&prepared.begin)?;
            match &prepared.launch {
                Launch::None | Launch::Call(_) => self.device_state().samples.fill(op, stream),
                Launch::Split(splitter) => splitter.launch(stream),
                Launch::Encode(encoder) => encoder.launch(stream),
                Launch::Decode(decoder) => decoder.launch(stream),
                Launch::Add(sums) => sums.launch(stream),
            }
        };
        begin().map_err(|error| self.own.broken(Some(op), &error))?;
        match kind {
            OpKind::Exchange(_) | OpKind::Library(_) => {
                self.wire.open(&self.own, machine, op)?;
                self.end_queued(machine)
            }
            OpKind::Compute(_) | OpKind::Local(_) => self.end_queue(machine, op),
        }
    }

    /// Ends exchanges and calls that are on their streams as a whole.
    fn end_queued(&mut self, machine: &Machine) -> Result<(), Failure> {
        while let Some(op) = self.wire.take_queued() {
            self.end_queue(machine, op)?;
        }
        Ok(())
    }

    /// Records the end of an op whose work is queued, and lets the host know of it.
    fn end_queue(&mut self, machine: &Machine, op: OpId) -> Result<(), Failure> {
        let (lane, prepared) = (machine.op(op).kind.lane(), self.device_state().op(op));
        let end = || -> Result<(), GpuError> {
            self.device_state().stream(lane).record(&prepared.done)?;
            if let Some(CudaReport { from, to, arrived, .. }) = &prepared.report {
                let stream = self.device_state().report_stream(lane);
                stream.wait(&prepared.done)?;
                stream.download(from, to, 0)?;
                stream.record(arrived)?;
            }
            Ok(())
        };
        end().map_err(|error| self.own.broken(Some(op), &error))?;
        self.is_queued[op.index()] = true;
        let at = self.running.partition_point(|&running| running < op);
        self.running.insert(at, op);
        Ok(())
    }

    fn look(&mut self, machine: &Machine) -> Result<(), Failure> {
        self.look_at_transfers().map_err(|error| self.own.broken(self.wire.first_open(), &error))?;
        // Streams run in order, so behind an op that has not ended nothing on its lane has; and behind one that is not reported
        // nothing on its lane is.
        let mut busy = [false; Lane::ALL.len()];
        let mut index = 0;
        while let Some(&op) = self.running.get(index) {
            let lane = machine.op(op).kind.lane();
            // The machine hears of an op behind all that it depends on, and of an exchange behind its transfers.
            let is_next = machine.op(op).deps.iter().all(|dep| self.is_reported[dep.index()]);
            if busy[lane as usize] || !is_next || !self.has_ended(op)? || self.wire.has_unreported(op) {
                busy[lane as usize] = true;
                index += 1;
                continue;
            }
            self.running.remove(index);
            self.is_reported[op.index()] = true;
            self.report(machine, op)?;
        }
        Ok(())
    }

    fn has_ended(&self, op: OpId) -> Result<bool, Failure> {
        let prepared = self.device_state().op(op);
        let last = prepared.report.as_ref().map_or(&prepared.done, |report| &report.arrived);
        last.has_passed().map_err(|error| self.own.broken(Some(op), &error))
    }

    fn look_at_transfers(&mut self) -> Result<(), GpuError> {
        let mut moved = Vec::new();
        self.wire.look(&self.own, &mut moved)?;
        for Moved { id, begin_s, end_s } in moved {
            let outcome = Outcome::Transfer(id, None);
            self.events.push_back(Event::Ended(Completion { outcome, begin_s, end_s }));
            self.wire.count_progress();
        }
        Ok(())
    }

    fn report(&mut self, machine: &Machine, op: OpId) -> Result<(), Failure> {
        let kind = &machine.op(op).kind;
        let sizes = self.device_state().op(op).sizes(&kind.effects().defines);
        self.check_sizes(machine, op, &sizes)?;
        if let OpKind::Local(Local::Decode(batch)) = kind {
            self.check_frames(machine, op, batch)?;
        }
        let prepared = self.device_state().op(op);
        let end: &DeviceEvent = match (kind, &prepared.report) {
            // It ends when the host knows the sizes that it brings, as in a simulation.
            (OpKind::Exchange(_) | OpKind::Library(_), Some(report)) => &report.arrived,
            _ => &prepared.done,
        };
        let clock = self.own.clock;
        let times = clock.time_s(&prepared.begin).and_then(|begin_s| Ok((begin_s, clock.time_s(end)?)));
        let (begin_s, end_s) = times.map_err(|error| self.own.broken(Some(op), &error))?;
        self.wire.count_progress();
        let outcome = match kind {
            // All ranks know of a call that moves nothing: nobody calls.
            OpKind::Library(_) if machine.ring_bytes(op) > 0 => {
                Outcome::Call(Call { op, sizes, met_s: begin_s, moved_s: end_s })
            }
            _ => Outcome::Op(op, sizes),
        };
        self.events.push_back(Event::Ended(Completion { outcome, begin_s, end_s }));
        Ok(())
    }

    fn device_state(&self) -> &'a DeviceState {
        self.own.device_state
    }

    /// No size is larger than what it is the size of: what follows relies on it.
    fn check_sizes(&self, machine: &Machine, op: OpId, sizes: &[(SizeId, u64)]) -> Result<(), Failure> {
        let capacity = |size: SizeId| self.device_state().capacities[size.index()];
        let Some(&(size, value)) = sizes.iter().find(|(size, value)| *value > capacity(*size)) else {
            return Ok(());
        };
        let (kind, whose) = match &machine.op(op).kind {
            OpKind::Local(Local::Encode(_)) => (FailureKind::Device, "its encoder wrote".to_owned()),
            OpKind::Compute(_) | OpKind::Local(_) => {
                unreachable!("only encoders, exchanges and calls define sizes")
            }
            OpKind::Exchange(exchange) => {
                let peer = exchange.receives.iter().find(|receive| receive.content.brings() == Some(size));
                let peer = peer.expect("exchanges define the sizes that they receive").peer;
                (FailureKind::Corrupt, format!("rank {peer} announces"))
            }
            OpKind::Library(library) => {
                let share = library.outputs.iter().find(|share| share.content.brings() == Some(size));
                let origin = share.expect("calls define the sizes that they bring").chunk.origin;
                (FailureKind::Corrupt, format!("rank {origin} announces"))
            }
        };
        let detail = format!("{whose} a section of {value} bytes where {} have room", capacity(size));
        Err(failure(machine, Some(op), kind, detail))
    }

    /// Fails if a decoder of the batch has reported a fault.
    fn check_frames(&self, machine: &Machine, op: OpId, batch: &Batch) -> Result<(), Failure> {
        let report = self.device_state().op(op).report.as_ref().expect("decoders report");
        let mut states = vec![0; usize::try_from(report.to.len()).expect("it is in memory")];
        report.to.read(0, &mut states);
        let faults = Decoder::faults(&states);
        match batch.blocks.iter().zip(faults).find_map(|(block, fault)| Some((block, fault?))) {
            None => Ok(()),
            Some((block, fault)) => {
                let detail = format!("the frame from rank {}: {fault}", block.chunk.origin);
                Err(failure(machine, Some(op), FailureKind::Corrupt, detail))
            }
        }
    }

    /// Compares what this rank has received with what was sent. Waits for the device, which has nothing else to do.
    pub(super) fn finish(&mut self, machine: &Machine) -> Result<(), Failure> {
        let _span = tracing::info_span!("check").entered();
        for received in &self.device_state().samples.received {
            let bytes = received.kept.read().map_err(|error| self.own.broken(received.consumer, &error))?;
            let Chunk { id, is_librarys, .. } = received.chunk;
            let difference = if is_librarys {
                self.payload.beyond_rounding(id, &bytes)
            } else {
                self.payload.mismatch(id, &bytes)
            };
            if let Some(offset) = difference {
                return Err(self.own.failure_report.altered(
                    machine,
                    received.consumer,
                    &received.chunk,
                    offset,
                ));
            }
            self.bytes_verified += received.kept.len();
        }
        Ok(())
    }
}
