//! One rank of a serving run: it obeys the coordinator, and moves groups to and from its peers.
//!
//! It has one thread and one coder. Work with a declared duration becomes an event that is due later and carries the time at which it should happen: waking
//! late delays messages, not the run.

mod coder;
mod receive;
mod send;

use std::collections::{BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use zipwire_schedule::plan::TransferKey;
use zipwire_schedule::{BufferId, Failure, FailureKind, Lane, OpId, Rank, RankEnd, SegmentId, Stage};
use zipwire_serving::{Computing, RequestId};
use zipwire_timeline::Span;

use self::coder::Coder;
use self::receive::Receiving;
use self::send::{Made, Sending};
use super::groups::{Buffers, Lanes};
use super::message::{self, Command, Message, Offer, ServingReport, ShardId, Totals};
use super::setup::{Job, ROOM};
use crate::event_queue::EventQueue;
use crate::host::Permits;
use crate::report::{Hello, RankReport, compare, panicked};
use crate::serving::segment;
use crate::transport::{Ended, Event, Transport};

/// Longest sleep between two looks at whether the run is over.
const LOOK: Duration = Duration::from_millis(50);
/// How long transfers under way at the end of a run may take.
const LAST: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug)]
enum Due {
    /// A shard may be begun.
    Ready(ShardId),
    Encoded(Made),
    Decoded(ShardId),
    /// All groups of a shard are decoded, and the last launch is over.
    Arrived(ShardId),
    /// A part of the instance's work is computed, unless its end has moved (the number is a version).
    Computed(u32),
}

struct Run<'a> {
    job: &'a Job<'a>,
    permits: &'a Permits,
    rank: Rank,
    transport: &'a mut dyn Transport,
    /// The transport's time when the run began; none before that.
    origin_s: Option<f64>,
    death_s: f64,
    is_dead: bool,
    is_told_to_end: Option<Instant>,
    has_said_idle: bool,
    may_leave: bool,
    said: Instant,
    queue: EventQueue<Due>,
    buffers: Buffers,
    coder: Coder,
    compute: Compute,
    sending: HashMap<ShardId, Sending>,
    /// Shards that wait until others are sent.
    waiting: std::collections::VecDeque<ShardId>,
    receiving: HashMap<ShardId, Receiving>,
    /// Groups on offer to others, with their shards and buffers.
    offered: HashMap<TransferKey, (ShardId, BufferId)>,
    asked: HashMap<TransferKey, (Offer, BufferId)>,
    lanes: HashMap<Rank, Lanes>,
    lost: BTreeSet<Rank>,
    /// Groups that came after this rank died and that have not been acknowledged.
    owed: Vec<(Rank, ShardId)>,
    span_log: SpanLog,
    totals: Totals,
}

/// Serves as one rank until the coordinator ends the run. Returns the reports of all ranks at rank 0.
///
/// # Errors
/// Elsewhere than at rank 0, if this rank has failed.
pub(super) fn run_rank(
    job: &Job<'_>,
    permits: &Permits,
    hello: &Hello,
    transport: &mut dyn Transport,
) -> Result<Option<Vec<RankReport>>, Failure> {
    let rank = transport.rank();
    let ran = catch_unwind(AssertUnwindSafe(|| serve(job, permits, hello, transport)));
    let ran = ran.unwrap_or_else(|panic| Err(panicked(rank, &*panic).failure));
    let report = ran.unwrap_or_else(|failure| {
        transport.abort(&failure);
        RankReport::failed(rank, transport.now_s(), RankEnd { failure, status: None })
    });
    let failed = report.failed.as_ref().map(|end| end.failure.clone());
    match (transport.gather(report), failed) {
        (Some(reports), _) => Ok(Some(reports)),
        (None, None) => Ok(None),
        (None, Some(failure)) => Err(failure),
    }
}

fn serve(
    job: &Job<'_>,
    permits: &Permits,
    hello: &Hello,
    transport: &mut dyn Transport,
) -> Result<RankReport, Failure> {
    let rank = transport.rank();
    let words = transport.barrier(&hello.to_word()).map_err(|why| ended(rank, &why))?;
    compare(hello, rank, &words)?;
    let begin_s = transport.now_s();
    let mut run = Run {
        job,
        permits,
        rank,
        buffers: Buffers::new(Arc::clone(transport.memory()), job.buffer_bytes(), ROOM),
        transport,
        origin_s: None,
        death_s: job.death_s(job.instance_of(rank)),
        is_dead: false,
        is_told_to_end: None,
        has_said_idle: false,
        may_leave: false,
        said: Instant::now(),
        queue: EventQueue::new(),
        coder: Coder::new(job),
        compute: Compute::default(),
        sending: HashMap::new(),
        waiting: std::collections::VecDeque::new(),
        receiving: HashMap::new(),
        offered: HashMap::new(),
        asked: HashMap::new(),
        lanes: HashMap::new(),
        lost: BTreeSet::new(),
        owed: Vec::new(),
        span_log: SpanLog::new(rank, job.setup.span_limit / job.ranks as usize),
        totals: Totals::default(),
    };
    run.report(ServingReport::Alive)?;
    run.serve()?;
    let SpanLog { spans, left_out, .. } = std::mem::replace(&mut run.span_log, SpanLog::new(rank, 0));
    run.totals.spans_left_out = left_out;
    run.totals.buffer_bytes = run.buffers.most_bytes();
    run.totals.buffers_in_use = run.buffers.in_use();
    run.report(ServingReport::Ended(run.totals))?;
    let (bytes_verified, end_s) = (run.totals.bytes_verified, run.transport.now_s());
    // Nobody leaves while others may have a word for it.
    run.transport.barrier(&[]).map_err(|why| ended(rank, &why))?;
    Ok(RankReport { begin_s, spans, bytes_verified, ..RankReport::idle(rank, end_s) })
}

impl Run<'_> {
    fn serve(&mut self) -> Result<(), Failure> {
        loop {
            while let Some((at_s, due)) = self.next_due(self.now_s()) {
                self.happen(at_s, due)?;
            }
            if !self.is_dead && self.now_s() >= self.death_s {
                self.die()?;
            }
            if let Some(since) = self.is_told_to_end {
                let is_idle = self.is_idle();
                if is_idle && self.may_leave {
                    return Ok(());
                }
                // Others may not have been told yet, and have groups on the way to this rank.
                if is_idle && !self.has_said_idle {
                    self.has_said_idle = true;
                    self.report(ServingReport::Idle)?;
                }
                if !is_idle && since.elapsed() > LAST {
                    return Err(self.failure(FailureKind::Timeout, self.under_way()));
                }
            }
            self.stay_alive()?;
            let mut wait = if self.code_next()? { Duration::ZERO } else { self.sleep() };
            while let Some(event) = self.poll(wait)? {
                self.take(event)?;
                wait = Duration::ZERO;
            }
            if !self.queue.is_empty() || !self.coder.sharing.is_empty() {
                // Something is going to happen here: no standstill.
                self.transport.count_progress();
            }
        }
    }

    fn next_due(&mut self, now_s: f64) -> Option<(f64, Due)> {
        let coder = &mut self.coder.sharing;
        if coder.next_s() <= self.queue.next_s() { coder.pop(now_s) } else { self.queue.pop(now_s) }
    }

    fn happen(&mut self, at_s: f64, due: Due) -> Result<(), Failure> {
        match due {
            Due::Ready(shard) => self.begin_shard(shard, at_s),
            Due::Encoded(made) => self.made(made, at_s),
            Due::Decoded(shard) => self.group_decoded(shard, at_s),
            Due::Arrived(shard) => self.arrived(shard, at_s),
            Due::Computed(version) => self.computed(version, at_s),
        }
    }

    fn take(&mut self, event: Event) -> Result<(), Failure> {
        match event {
            Event::Sent { key, end_s, .. } => self.sent(key, end_s),
            Event::Received(received) => self.received(&received),
            Event::Begun { .. } => Ok(()),
            Event::Told(told) => match message::unwrap(&told) {
                Some(message) => self.hear(message),
                None => Err(self.nonsense(&Event::Told(told))),
            },
            Event::Disagreed { .. } | Event::Repeated(_) => Err(self.nonsense(&event)),
        }
    }

    fn nonsense(&self, event: &Event) -> Failure {
        self.failure(FailureKind::Transport, format!("it cannot make sense of {event:?}"))
    }

    fn hear(&mut self, message: Message) -> Result<(), Failure> {
        match message {
            Message::Command(command) => self.obey(command),
            Message::Offer(offer) => self.offer_made(offer),
            Message::Taken { .. } if self.is_dead => Ok(()),
            Message::Taken { shard } => self.taken(shard, self.now_s()),
            Message::Withdrawn { shard, src, offered } => self.withdrawn(shard, src, offered),
            Message::Report(..) => {
                Err(self.failure(FailureKind::Transport, "it is told what is meant for the coordinator"))
            }
        }
    }

    fn obey(&mut self, command: Command) -> Result<(), Failure> {
        match command {
            Command::Begin { origin_s } => self.origin_s = Some(origin_s),
            Command::End => {
                self.is_told_to_end = Some(Instant::now());
                if self.is_dead {
                    // The run is over, and what others have under way with this rank is to end.
                    self.drop_all()?;
                }
            }
            Command::Leave => self.may_leave = true,
            // The dead do nothing that they are told.
            _ if self.is_dead => {}
            Command::Prefill { at_s, work, request, tokens } => {
                self.begin_prefill(at_s, work, request, tokens);
            }
            Command::Decode { at_s, work, sequences, context_tokens } => {
                self.begin_step(at_s, work, sequences, context_tokens);
            }
            Command::Send(order) => self.accept(order),
            Command::Stop(shard) => self.stop(shard)?,
            Command::Lost(rank) => {
                self.lost.insert(rank);
                self.drop_shards_of(rank)?;
            }
        }
        Ok(())
    }

    /// Kills this rank: from here on it does nothing and is silent.
    fn die(&mut self) -> Result<(), Failure> {
        self.is_dead = true;
        self.death_s = f64::INFINITY;
        // What is half done comes to nothing.
        let half_done: Vec<Due> = self.coder.sharing.drain().collect();
        let due = std::iter::from_fn(|| self.queue.pop(f64::INFINITY)).map(|(_, due)| due);
        for due in due.chain(half_done) {
            if let Due::Encoded(made) = due {
                self.buffers.give(made.buffer);
            }
        }
        self.empty_coder();
        if self.is_told_to_end.is_some() { self.drop_all() } else { Ok(()) }
    }

    fn is_idle(&self) -> bool {
        self.sending.is_empty()
            && self.receiving.is_empty()
            && self.offered.is_empty()
            && self.asked.is_empty()
            && self.coder.is_idle()
    }

    /// Says what has not come to an end.
    fn under_way(&self) -> String {
        let [sending, receiving] = [self.sending.len(), self.receiving.len()];
        let [offered, asked] = [self.offered.len(), self.asked.len()];
        let coder = if self.coder.is_idle() { "idle" } else { "busy" };
        format!(
            "what it had under way has not come to an end: {sending} shards to send and {receiving} to receive, \
             {offered} groups on offer and {asked} asked for, and the coder is {coder}"
        )
    }

    /// Sends a heartbeat, eight times within the silence after which a rank is declared lost.
    fn stay_alive(&mut self) -> Result<(), Failure> {
        if self.is_dead || self.said.elapsed() < self.job.setup.lost_after / 8 {
            return Ok(());
        }
        self.said = Instant::now();
        self.report(ServingReport::Alive)
    }

    fn sleep(&self) -> Duration {
        let next_s = self.queue.next_s().min(self.coder.sharing.next_s()).min(self.death_s);
        let seconds = (next_s - self.now_s()).max(0.0) * self.job.dilation();
        Duration::try_from_secs_f64(seconds).unwrap_or(LOOK).min(LOOK)
    }

    /// Seconds of the run; none have passed before it begins.
    fn now_s(&self) -> f64 {
        self.run_s(self.transport.now_s())
    }

    /// A time of the transport as one of the run.
    fn run_s(&self, at_s: f64) -> f64 {
        self.origin_s.map_or(f64::NEG_INFINITY, |origin_s| (at_s - origin_s) / self.job.dilation())
    }

    fn poll(&mut self, timeout: Duration) -> Result<Option<Event>, Failure> {
        self.transport.poll(timeout).map_err(|why| ended(self.rank, &why))
    }

    fn report(&mut self, report: ServingReport) -> Result<(), Failure> {
        self.tell(self.job.coordinator(), Message::Report(self.rank, report))
    }

    fn tell(&mut self, to: Rank, message: Message) -> Result<(), Failure> {
        let told = self.transport.tell(to, message::wrap(&message));
        told.map_err(|why| ended(self.rank, &why))
    }

    fn failure(&self, kind: FailureKind, detail: impl Into<String>) -> Failure {
        Failure::new(self.rank, None, kind, detail)
    }

    /// A failure in a transfer, whose key names the request.
    fn failure_of(&self, key: TransferKey, kind: FailureKind, detail: impl Into<String>) -> Failure {
        Failure { transfer: Some(key), ..self.failure(kind, detail) }
    }

    fn buffer(&mut self) -> Result<BufferId, Failure> {
        self.buffers.take().map_err(|why| Failure::new(self.rank, None, FailureKind::Device, why))
    }
}

/// Failure of a rank, or of the coordinator, whose transport has ended.
pub(super) fn ended(rank: Rank, why: &Ended) -> Failure {
    let kind = match why {
        Ended::Aborted | Ended::Stopped => FailureKind::Cancelled,
        Ended::Lost(_) => FailureKind::PeerLost,
        Ended::Broken(_) => FailureKind::Transport,
    };
    Failure::new(rank, None, kind, why.to_string())
}

// Compute phases of the rank's instance. Nothing is computed: a phase takes its declared time, and longer while the rank codes and
// moves.

#[derive(Default)]
struct Compute {
    computing: Computing,
    work: u32,
    part: u32,
    /// Segment, name and begin of its span.
    note: Option<(SegmentId, &'static str, f64)>,
}

impl Run<'_> {
    fn begin_prefill(&mut self, at_s: f64, work: u32, request: RequestId, tokens: [u32; 2]) {
        let (shards, groups) = (self.job.setup.shards, self.job.setup.config.layer_groups);
        let seconds = self.job.compute_s(self.job.setup.compute.prefill.seconds(&(tokens[0]..tokens[1])));
        let share = |group| shards.layers_of(group, groups).len() as f64 / f64::from(shards.layers());
        let parts = (0..groups).map(|group| seconds * share(group)).collect();
        self.begin_work(at_s, work, parts, (segment(request), "prefill"));
    }

    fn begin_step(&mut self, at_s: f64, work: u32, sequences: u32, context_tokens: u64) {
        let seconds = self.job.setup.compute.decode.seconds(sequences, context_tokens);
        let parts = vec![self.job.compute_s(seconds)];
        self.begin_work(at_s, work, parts, (SegmentId(0), "decode step"));
    }

    fn begin_work(
        &mut self,
        at_s: f64,
        work: u32,
        parts: Vec<f64>,
        (segment, name): (SegmentId, &'static str),
    ) {
        let host = &self.job.setup.host;
        (self.compute.work, self.compute.part) = (work, 0);
        self.compute.note = Some((segment, name, at_s));
        let begin_s = at_s + self.job.declared_s(host.launch_s);
        let (end_s, version) = self.compute.computing.begin(begin_s, parts, &host.compute_slowdown);
        self.queue.push(end_s, Due::Computed(version));
    }

    /// Ends a part of the work, unless its end has moved meanwhile.
    fn computed(&mut self, version: u32, at_s: f64) -> Result<(), Failure> {
        if !self.compute.computing.is_current(version) {
            return Ok(());
        }
        let (work, part) = (self.compute.work, self.compute.part);
        self.compute.part += 1;
        match self.compute.computing.next(at_s, &self.job.setup.host.compute_slowdown) {
            Some((end_s, version)) => self.queue.push(end_s, Due::Computed(version)),
            None => {
                let is_first = self.job.ranks_of(self.job.instance_of(self.rank)).start == self.rank.0;
                if let Some((segment, name, begin_s)) = self.compute.note.take().filter(|_| is_first) {
                    self.span_log.compute(segment, name, [begin_s, at_s]);
                }
            }
        }
        self.transport.count_progress();
        self.report(ServingReport::Computed { work, part, at_s })
    }

    /// Coding and transfers have begun or ended here, which changes the speed of computing. In unpaced runs nothing is
    /// slowed down.
    fn disturb(&mut self, at_s: f64, coding: i32, moving: i32) {
        if self.job.setup.pace.is_none() || self.is_dead {
            return;
        }
        let slowdown = &self.job.setup.host.compute_slowdown;
        if let Some((end_s, version)) = self.compute.computing.disturb(at_s, coding, moving, slowdown) {
            self.queue.push(end_s, Due::Computed(version));
        }
    }
}

/// Spans in the order in which they end, up to a limit.
/// They have the names that a simulation gives them.
struct SpanLog {
    rank: Rank,
    limit: usize,
    spans: Vec<Span>,
    left_out: u64,
}

struct MovedShard {
    request: RequestId,
    peer: Rank,
    /// Numbers of its flow, and of its transfer between the two ranks.
    numbers: [u32; 2],
    bytes_raw: u64,
    bytes_wire: u64,
}

impl SpanLog {
    fn new(rank: Rank, limit: usize) -> Self {
        Self { rank, limit, spans: Vec::new(), left_out: 0 }
    }

    fn compute(&mut self, segment: SegmentId, name: &'static str, time: [f64; 2]) {
        let span = self.span(segment, Lane::Compute, name, time);
        self.push(span);
    }

    fn coding(&mut self, passed: &MovedShard, name: &'static str, time: [f64; 2]) {
        let &MovedShard { request, numbers: [op, _], bytes_raw, bytes_wire, .. } = passed;
        let span = self.span(segment(request), Lane::Codec, name, time);
        self.push(Span { op: OpId(op), bytes: bytes_raw, bytes_coded: Some(bytes_wire), ..span });
    }

    fn transfer(&mut self, passed: &MovedShard, is_sender: bool, time: [f64; 2], is_coded: bool) {
        let &MovedShard { request, peer, numbers: [op, tag], bytes_wire, .. } = passed;
        let (lane, name) = if is_sender { (Lane::Tx, "send") } else { (Lane::Rx, "receive") };
        let stage = Some(if is_coded { Stage::Dynamic } else { Stage::Raw });
        let span = self.span(segment(request), lane, name, time);
        self.push(Span { op: OpId(op), stage, peer: Some(peer), tag, bytes: bytes_wire, ..span });
    }

    fn span(&self, segment: SegmentId, lane: Lane, name: &'static str, [begin_s, end_s]: [f64; 2]) -> Span {
        Span {
            iteration: 0,
            segment,
            rank: self.rank,
            lane,
            op: OpId(0),
            stage: None,
            peer: None,
            tag: 0,
            name,
            begin_s,
            end_s: end_s.max(begin_s),
            bytes: 0,
            bytes_coded: None,
        }
    }

    fn push(&mut self, span: Span) {
        if self.spans.len() < self.limit {
            self.spans.push(span);
        } else {
            self.left_out += 1;
        }
    }
}
