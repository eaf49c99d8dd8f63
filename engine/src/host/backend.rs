//! One rank of one iteration: a worker, a transport, and the time that things are declared to take.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use zipwire_cluster::{Progress, Slowdown};
use zipwire_schedule::machine::{Capabilities, Direction, Machine, Readiness, TransferId, TransferOrder};
use zipwire_schedule::plan::{CallKey, Content, OpKind, Region, Transfer, TransferKey};
use zipwire_schedule::{Durations, Failure, FailureKind, Lane, OpId, Rank};

use super::library::Calls;
use super::worker::Worker;
use super::{Permits, cpu_s};
use crate::pace::{CodecOp, CodecWork, Coding, Pace};
use crate::report::{FailureReport, Standstill, other_content, other_length};
use crate::run_program::{Action, Backend, Completion, Event, Outcome, failure};
use crate::transport::{self, Incoming, Message, Outgoing, Received, Shape, Transport, is_of_call};

/// Longest sleep between two checks whether the run is over.
const LOOK: Duration = Duration::from_millis(50);
/// How long a rank waits before it notes for what: a description takes longer than a short wait.
const NOTE_AFTER_S: f64 = 5e-3;

/// A moment at which something happens on this rank.
#[derive(Debug)]
pub(super) enum Due {
    Completion(Completion),
    Announcement(TransferId),
    Offer(TransferId),
    Return { key: CallKey, moved_s: f64 },
}

pub(super) struct HostBackend<'a> {
    pub(super) rank: Rank,
    pub(super) transport: &'a mut dyn Transport,
    pub(super) worker: Worker<'a>,
    pub(super) failure_report: FailureReport<'a>,
    pub(super) stuck_after: Duration,
    /// Codec ops that may work at a time.
    pub(super) permits: &'a Permits,
    /// The cluster that the run stands for; `None` where links are as fast as memory.
    pub(super) pace: Option<&'a Pace>,
    /// Durations of compute phases in runs that are not paced, if they are given.
    pub(super) phases: Option<&'a Durations>,
    pub(super) iteration: u32,
    pub(super) opened: HashMap<OpId, Opened>,
    pub(super) offered: HashMap<TransferKey, TransferId>,
    pub(super) events: VecDeque<Event>,
    /// Scheduled events with their times in seconds; not sorted.
    pub(super) due: Vec<(f64, Due)>,
    pub(super) overlap: Overlap,
    pub(super) calls: Calls,
    /// When the last size of each open exchange arrived.
    pub(super) sizes_s: HashMap<OpId, f64>,
    pub(super) codec_work: CodecWork,
}

impl Backend for HostBackend<'_> {
    fn capabilities(&self) -> Capabilities {
        capabilities(self.pace.is_some())
    }

    /// Seconds of the cluster since the start of the run.
    fn now_s(&self) -> f64 {
        self.transport.now_s() / self.dilation()
    }

    fn submit(&mut self, machine: &Machine, action: Action) -> Result<(), Failure> {
        match action {
            Action::Issue(op) => self.issue(machine, op),
            Action::Announce(transfer) => self.when_open(machine, transfer.op, Due::Announcement(transfer)),
            Action::Transfer(transfer) => self.when_open(machine, transfer.op, Due::Offer(transfer)),
            Action::Close(op) => {
                self.close(machine, op);
                Ok(())
            }
        }
    }

    fn wait(&mut self, machine: &Machine, until_s: Option<f64>) -> Result<Option<Event>, Failure> {
        let until_s = until_s.map(|until_s| until_s * self.dilation());
        let mut standstill = Standstill::new(self.transport.progress());
        let mut note_s = self.transport.keeps_notes().then(|| self.transport.now_s() + NOTE_AFTER_S);
        loop {
            // What has begun while this thread was coding, and slows compute, comes before compute is found to have ended.
            while !self.overlap.is_none() && self.poll(machine, Duration::ZERO)? {}
            self.let_due_happen(machine)?;
            if let Some(event) = self.events.pop_front() {
                return Ok(Some(event));
            }
            let now_s = self.transport.now_s();
            if until_s.is_some_and(|until_s| now_s >= until_s) {
                return Ok(None);
            }
            if note_s.is_some_and(|note_s| now_s >= note_s) {
                note_s = None;
                let doing = machine.status().describe(self.failure_report.segments);
                self.transport.note(&format!("{doing}, iteration {},", self.iteration));
            }
            let due_s = self.due.iter().map(|(time_s, _)| *time_s).chain(self.overlap.end_s());
            let next_s = due_s.chain(until_s).chain(note_s).fold(f64::INFINITY, f64::min);
            let sleep = Duration::try_from_secs_f64((next_s - now_s).max(0.0)).unwrap_or(LOOK).min(LOOK);
            self.poll(machine, sleep)?;
            if until_s.is_some() || !self.due.is_empty() || self.overlap.end_s().is_some() {
                // Something is going to happen here, and others may wait for it: no standstill on any rank.
                self.transport.count_progress();
            }
            if standstill.lasts(self.transport.progress(), self.stuck_after) {
                let op = self.opened.keys().min().copied();
                return Err(self.failure_report.stuck(machine, op, self.stuck_after));
            }
        }
    }

    fn abort(&mut self, failure: &Failure) {
        self.transport.abort(failure);
    }
}

/// An exchange that is open.
#[derive(Clone, Copy, Debug)]
pub(super) struct Opened {
    /// When it was issued, in seconds of the transport.
    pub(super) begin_s: f64,
    /// Declared seconds from then on until its transfers may begin, of this machine.
    pub(super) launch_s: f64,
}

/// Ops are completed, and the machine orders transfers; without paced links the clock is no measure.
pub(super) fn capabilities(paced: bool) -> Capabilities {
    Capabilities { readiness: Readiness::Completed, transfer_order: TransferOrder::Machine, timed: paced }
}

impl HostBackend<'_> {
    fn issue(&mut self, machine: &Machine, op: OpId) -> Result<(), Failure> {
        let begin_s = self.transport.now_s();
        let kind = &machine.op(op).kind;
        if self.transport.keeps_notes() {
            let segment = self.failure_report.segments.get(machine.op(op).segment.index());
            let of = segment.map_or_else(String::new, |segment| format!(" of {segment}"));
            self.transport.note(&format!(
                "is in op `{op}` ({}{of}), iteration {},",
                kind.name(),
                self.iteration
            ));
        }
        // Whatever works on bytes has a core for itself: then the time that the codec takes is its own.
        let permit = tracing::info_span!("wait for a core").in_scope(|| self.permits.take());
        let waiting_s = self.transport.now_s() - begin_s;
        self.worker.check_before(machine, op)?;
        if kind.lane() == Lane::Codec {
            self.overlap.code(begin_s, true);
        }
        match kind {
            OpKind::Library(_) => {
                drop(permit);
                return self.call(machine, op, begin_s);
            }
            OpKind::Exchange(_) => {
                self.open(machine, op, begin_s);
                return Ok(());
            }
            OpKind::Compute(_) | OpKind::Local(_) => {}
        }
        let begin_cpu_s = cpu_s();
        let (worker, transport) = (&self.worker, &mut self.transport);
        let sizes = worker.carry_out(machine, machine.op(op), &mut || transport.count_progress())?;
        drop(permit);
        if let OpKind::Local(local) = kind {
            let (coding, bytes_raw) = (Coding::Local(local.kind()), local.bytes());
            let (rank, segment, work_s) = (self.rank, machine.op(op).segment, cpu_s() - begin_cpu_s);
            self.codec_work.add(&CodecOp { rank, segment, coding, bytes_raw, work_s, waiting_s });
        }
        let phase_s = self
            .phases
            .filter(|_| matches!(kind, OpKind::Compute(_)))
            .map_or(0.0, |phases| phases.get(self.iteration, machine.op(op).segment.index(), self.rank));
        let seconds = phase_s + self.declared_s(|pace| pace.op_s(machine.op(op), self.rank, self.iteration));
        if matches!(kind, OpKind::Compute(_)) && !self.overlap.is_none() {
            let work_s = begin_s + self.declared_s(|pace| pace.costs.host.launch_s);
            self.overlap.begin(op, begin_s, work_s, begin_s + seconds - work_s);
            return Ok(());
        }
        self.complete_at(machine, begin_s + seconds, Outcome::Op(op, sizes), begin_s);
        Ok(())
    }

    pub(super) fn happen(&mut self, machine: &Machine, due: Due) -> Result<(), Failure> {
        match due {
            Due::Offer(transfer) => self.offer(machine, transfer),
            Due::Announcement(transfer) => self.announce(machine, transfer),
            Due::Return { key, moved_s } => {
                self.return_from_call(key, moved_s);
                Ok(())
            }
            Due::Completion(completion) => {
                self.end_coding(machine, &completion);
                self.transport.count_progress();
                self.events.push_back(Event::Ended(completion));
                Ok(())
            }
        }
    }

    /// Lets the transport report an event, if there is one within the time.
    fn poll(&mut self, machine: &Machine, timeout: Duration) -> Result<bool, Failure> {
        let event = self.transport.poll(timeout);
        match event.map_err(|ended| self.failure_report.ended(machine, None, &ended))? {
            Some(event) => self.take(machine, &event).map(|()| true),
            None => Ok(false),
        }
    }

    fn take(&mut self, machine: &Machine, event: &transport::Event) -> Result<(), Failure> {
        match *event {
            transport::Event::Begun { key, .. } if is_of_call(&key) => Ok(()),
            transport::Event::Begun { key, at_s, .. } => {
                self.overlap.depart(at_s, key);
                Ok(())
            }
            transport::Event::Received(ref received) if is_of_call(&received.transfer.key) => {
                self.receive_in_call(machine, received)
            }
            transport::Event::Received(ref received) => self.arrive(machine, received),
            transport::Event::Sent { key, .. } if is_of_call(&key) => self.leave_in_call(machine, key),
            transport::Event::Sent { key, begin_s, end_s } => self.leave(machine, key, (begin_s, end_s)),
            transport::Event::Disagreed { key, offered, expected } => {
                self.disagree(machine, key, (offered, expected))
            }
            transport::Event::Repeated(key) => {
                Err(self.failure_report.confused(machine, &key, "was offered twice"))
            }
            transport::Event::Told(Message::Ready(key)) => {
                self.ready(key);
                Ok(())
            }
            transport::Event::Told(Message::Joined { call, point, at_s }) => {
                self.peer_joined(machine, call, point, at_s)
            }
            transport::Event::Told(Message::Moved { call, at_s }) => {
                self.moved(call, at_s);
                Ok(())
            }
            transport::Event::Told(Message::Client(_)) => {
                let detail = "a peer serves, and this rank runs a plan";
                Err(failure(machine, None, FailureKind::Transport, detail))
            }
            transport::Event::Told(Message::Arrived { key, .. }) => Err(self.failure_report.confused(
                machine,
                &key,
                "has come over links that this run does not have",
            )),
        }
    }

    pub(super) fn tell(&mut self, machine: &Machine, to: Rank, message: Message) -> Result<(), Failure> {
        self.transport.tell(to, message).map_err(|ended| self.failure_report.ended(machine, None, &ended))
    }

    /// Something has ended. Times in seconds of the transport.
    pub(super) fn complete(&mut self, outcome: Outcome, begin_s: f64, end_s: f64) {
        self.transport.count_progress();
        let dilation = self.dilation();
        let completion = Completion { outcome, begin_s: begin_s / dilation, end_s: end_s / dilation };
        self.events.push_back(Event::Ended(completion));
    }

    /// Something ends at `end_s`, or now if that is over.
    pub(super) fn complete_at(&mut self, machine: &Machine, end_s: f64, outcome: Outcome, begin_s: f64) {
        let (now_s, dilation) = (self.transport.now_s(), self.dilation());
        let completion =
            Completion { outcome, begin_s: begin_s / dilation, end_s: end_s.max(now_s) / dilation };
        if end_s <= now_s {
            self.end_coding(machine, &completion);
            return self.complete(completion.outcome, begin_s, now_s);
        }
        self.due.push((end_s, Due::Completion(completion)));
    }

    fn let_due_happen(&mut self, machine: &Machine) -> Result<(), Failure> {
        let now_s = self.transport.now_s();
        let (mut happening, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.due).into_iter().partition(|(time_s, _)| *time_s <= now_s);
        self.due = later;
        happening.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (time_s, due) in happening {
            self.end_compute(time_s);
            self.happen(machine, due)?;
        }
        self.end_compute(now_s);
        Ok(())
    }

    /// A compute phase that other lanes slow down has done its work by `now_s`.
    fn end_compute(&mut self, now_s: f64) {
        if let Some(phase) = self.overlap.take_ended(now_s) {
            self.complete(Outcome::Op(phase.op, Vec::new()), phase.begin_s, phase.end_s());
        }
    }

    /// If it is a codec op that has ended, compute is no longer slowed down by it.
    fn end_coding(&mut self, machine: &Machine, completion: &Completion) {
        if let Outcome::Op(op, _) = &completion.outcome
            && machine.op(*op).kind.lane() == Lane::Codec
        {
            self.overlap.code(completion.end_s * self.dilation(), false);
        }
    }

    /// Seconds of this machine for a second of the cluster.
    pub(super) fn dilation(&self) -> f64 {
        self.pace.map_or(1.0, |pace| pace.dilation)
    }

    /// Declared duration in seconds of this machine (dilated); 0 in a run that is not paced.
    pub(super) fn declared_s(&self, seconds: impl FnOnce(&Pace) -> f64) -> f64 {
        self.pace.map_or(0.0, |pace| seconds(pace) * pace.dilation)
    }

    /// Opens an exchange; links are told of grouped sends.
    fn open(&mut self, machine: &Machine, op: OpId, begin_s: f64) {
        let exchange = machine.op(op).kind.exchange().expect("an exchange is opened");
        let bytes = |send: &Transfer| machine.transfer_bytes(send);
        let rank = self.rank;
        let sends = self.pace.and_then(|pace| {
            let sends = pace.costs.sends(exchange, rank, &pace.topology, bytes)?;
            let segment = machine.op(op).segment;
            let loss = |send: &Transfer| sends.loss(&pace.topology, rank, send.peer);
            let losses = exchange.sends.iter().filter(|send| bytes(send) > 0);
            let mut losses = losses.map(|send| (exchange.key_of_send(rank, segment, send), loss(send)));
            self.transport.begin_group(&mut losses);
            Some(sends)
        });
        let launch_s = self.declared_s(|pace| match sends {
            Some(sends) => sends.latency_s,
            None if machine.is_fused(op) => 0.0,
            None => pace.costs.host.launch_s,
        });
        self.opened.insert(op, Opened { begin_s, launch_s });
    }

    /// Lets something happen once the exchange that it belongs to has been launched.
    pub(super) fn when_open(&mut self, machine: &Machine, exchange: OpId, due: Due) -> Result<(), Failure> {
        let Opened { begin_s, launch_s } = self.opened[&exchange];
        let open_s = begin_s + launch_s;
        if open_s > self.transport.now_s() {
            self.due.push((open_s, due));
            return Ok(());
        }
        self.happen(machine, due)
    }

    /// All transfers of an exchange have ended: it ends when its sizes have reached the host.
    pub(super) fn close(&mut self, machine: &Machine, op: OpId) {
        let opened = self.opened.remove(&op).expect("exchanges are opened before they are closed");
        let begin_s = opened.begin_s;
        let launch_s = if machine.is_launched(op) { opened.launch_s } else { 0.0 };
        let launched_s = begin_s + launch_s;
        let sync_s = self.declared_s(|pace| pace.costs.host.sync_s);
        let known_s = self.sizes_s.remove(&op).map_or(launched_s, |arrived_s| arrived_s + sync_s);
        self.complete_at(machine, launched_s.max(known_s), Outcome::Op(op, Vec::new()), begin_s);
    }

    pub(super) fn announce(&mut self, machine: &Machine, id: TransferId) -> Result<(), Failure> {
        let key = machine.key(id);
        self.tell(machine, key.dst, Message::Ready(key))
    }

    pub(super) fn offer(&mut self, machine: &Machine, id: TransferId) -> Result<(), Failure> {
        let (transfer, exchange) = machine.transfer(id);
        let (key, bytes) = (machine.key(id), moved(machine, transfer));
        self.offered.insert(key, id);
        let offered = match id.direction {
            Direction::Receive => {
                let has_word = transfer.content.brings().is_some();
                self.transport.receive(Incoming { key, bytes, has_word })
            }
            Direction::Send => {
                let size = |size| machine.size(size).expect("sizes are known before they are sent");
                let word = transfer.content.brings().map(size);
                let checksum = self.worker.checksum(bytes, word);
                self.transport.send(Outgoing { key, bytes, word, checksum })
            }
        };
        offered.map_err(|ended| self.failure_report.ended(machine, Some(id.op), &ended))?;
        if id.direction == Direction::Receive && exchange.order.follows_peers() {
            return self.tell(machine, key.src, Message::Ready(key));
        }
        Ok(())
    }

    pub(super) fn arrive(&mut self, machine: &Machine, received: &Received) -> Result<(), Failure> {
        let &Received { transfer: Incoming { key, bytes, .. }, word, checksum, begin_s, end_s } = received;
        let id = self.take_offered(machine, &key)?;
        if self.worker.checksum(bytes, word) != checksum {
            return Err(Failure::corrupt_transfer(self.rank, id.op, key));
        }
        if word.is_some() {
            self.sizes_s.insert(id.op, end_s);
        }
        self.overlap.arrive(end_s, key);
        self.complete(Outcome::Transfer(id, word), begin_s, end_s);
        Ok(())
    }

    pub(super) fn leave(
        &mut self,
        machine: &Machine,
        key: TransferKey,
        (begin_s, end_s): (f64, f64),
    ) -> Result<(), Failure> {
        let id = self.take_offered(machine, &key)?;
        self.overlap.arrive(end_s, key);
        self.complete(Outcome::Transfer(id, None), begin_s, end_s);
        Ok(())
    }

    pub(super) fn disagree(
        &mut self,
        machine: &Machine,
        key: TransferKey,
        (offered, expected): (Shape, Shape),
    ) -> Result<(), Failure> {
        let op = match self.calls.op_of(&key) {
            Some(op) => op,
            None => self.take_offered(machine, &key)?.op,
        };
        match (offered, expected) {
            (Shape { bytes: Some(bytes), .. }, Shape { bytes: Some(expected), .. }) if bytes != expected => {
                Err(other_length(machine, op, key.src, bytes, expected))
            }
            _ => Err(other_content(machine, op, key.src)),
        }
    }

    pub(super) fn ready(&mut self, key: TransferKey) {
        self.events.push_back(Event::PeerReady(key));
    }

    fn take_offered(&mut self, machine: &Machine, key: &TransferKey) -> Result<TransferId, Failure> {
        let id = self.offered.remove(key);
        id.ok_or_else(|| self.failure_report.confused(machine, key, "has ended without being on offer"))
    }
}

/// The bytes that move of a transfer whose sizes are known.
fn moved(machine: &Machine, transfer: &Transfer) -> Option<Region> {
    match transfer.content {
        Content::Size(_) => None,
        Content::Values(region) | Content::Whole(region) | Content::Announced(region, _) => Some(region),
        Content::Prefix(region, _) | Content::Overflow { region, .. } => {
            let len = machine.transfer_bytes(transfer);
            Some(Region { len, ..region })
        }
    }
}

/// The compute phase of a rank, and the work that slows it down in paced runs: codec ops for their declared times, transfers from when
/// both ends were ready until the last byte is here, calls of the library from when the last rank has issued them. Times are seconds
/// of this machine.
#[derive(Debug, Default)]
pub(super) struct Overlap {
    slowdown: Slowdown,
    phase: Option<Phase>,
    is_coding: bool,
    calls: u32,
    /// Both ends of a transfer can be at one rank only if it sends to itself, which it does not.
    moving: HashSet<TransferKey>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Phase {
    pub(super) op: OpId,
    pub(super) begin_s: f64,
    progress: Progress,
}

impl Phase {
    pub(super) fn end_s(&self) -> f64 {
        self.progress.end_s()
    }
}

impl Overlap {
    pub(super) fn new(slowdown: Slowdown) -> Self {
        Self { slowdown, ..Self::default() }
    }

    /// Whether nothing slows anything: then phases end when they are declared to.
    pub(super) fn is_none(&self) -> bool {
        self.slowdown.is_none()
    }

    /// A phase begins that works for `seconds` from `work_s` on.
    pub(super) fn begin(&mut self, op: OpId, begin_s: f64, work_s: f64, seconds: f64) {
        let progress = Progress::begin(work_s, seconds, self.factor());
        self.phase = Some(Phase { op, begin_s, progress });
    }

    /// The phase, if it has ended by `now_s` as far as is known.
    pub(super) fn take_ended(&mut self, now_s: f64) -> Option<Phase> {
        self.phase.take_if(|phase| phase.end_s() <= now_s)
    }

    pub(super) fn end_s(&self) -> Option<f64> {
        self.phase.as_ref().map(Phase::end_s)
    }

    pub(super) fn code(&mut self, at_s: f64, is_coding: bool) {
        self.is_coding = is_coding;
        self.adapt(at_s);
    }

    pub(super) fn depart(&mut self, at_s: f64, key: TransferKey) {
        self.moving.insert(key);
        self.adapt(at_s);
    }

    pub(super) fn arrive(&mut self, at_s: f64, key: TransferKey) {
        self.moving.remove(&key);
        self.adapt(at_s);
    }

    /// A call of the library begins, when the last rank has issued it.
    pub(super) fn begin_call(&mut self, at_s: f64) {
        self.calls += 1;
        self.adapt(at_s);
    }

    pub(super) fn end_call(&mut self, at_s: f64) {
        self.calls -= 1;
        self.adapt(at_s);
    }

    fn adapt(&mut self, at_s: f64) {
        let factor = self.factor();
        if let Some(phase) = &mut self.phase {
            phase.progress.change(at_s, factor);
        }
    }

    fn factor(&self) -> f64 {
        self.slowdown.factor(self.is_coding, self.calls > 0 || !self.moving.is_empty())
    }
}
