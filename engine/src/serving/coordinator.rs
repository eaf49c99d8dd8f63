//! The coordinator: it tells the machine of `zipwire-serving` what has happened, and ranks what to do.
//!
//! It holds no bytes of caches. Events carry the times that ranks report, so late messages do not delay what follows.

use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use zipwire_schedule::plan::TransferKey;
use zipwire_schedule::{Failure, FailureKind, Rank, Stage};
use zipwire_serving::{
    Census, DecodeStep, Flow, FlowId, Input, Loss, Machine, PrefillStep, Recorder, RequestId, Step,
};

use super::message::{self, Command, Message, Order, ServingReport, ShardId, Totals};
use super::rank::ended;
use super::setup::Job;
use super::{Instance, Lost, segment};
use crate::event_queue::EventQueue;
use crate::report::{Standstill, panicked};
use crate::transport::{Ended, Event, Transport};

/// Longest sleep between two checks whether all ranks are alive.
const LOOK: Duration = Duration::from_millis(50);
/// How long ranks may take, after the run is over, to say that they are idle; and then, that they have left.
const GOODBYE: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug)]
enum Due {
    Arrival(RequestId),
    Cancel(RequestId),
}

pub(super) struct Decided {
    pub(super) recorder: Recorder,
    pub(super) census: Census,
    pub(super) bytes_raw: u64,
    pub(super) bytes_wire: u64,
    pub(super) unanswered_at_last_arrival: u32,
    pub(super) lost: Vec<Lost>,
    pub(super) totals: Totals,
    pub(super) end_s: f64,
}

struct Coordinator<'a> {
    job: &'a Job<'a>,
    transport: &'a mut dyn Transport,
    machine: Machine<'a>,
    origin_s: f64,
    queue: EventQueue<Due>,
    arrivals_left: usize,
    /// Prefill instances, then those that decode.
    instances: Vec<Working>,
    /// Open shards of each flow.
    flows: Vec<Shards>,
    open: BTreeMap<ShardId, Open>,
    next_shard: u32,
    begun_flows: u32,
    /// When both ends of each request have agreed; nothing of it moves before.
    agreed_s: Vec<f64>,
    tags: HashMap<(Rank, Rank), u32>,
    /// When each rank was last heard; `None` before it is there.
    heard: Vec<Option<Instant>>,
    looked: Instant,
    /// Ranks that have said nothing for too long.
    gone: Vec<bool>,
    /// Ranks that have said, after the end, that they offer nothing more; and those that have left.
    said_idle: Vec<bool>,
    said_goodbye: Vec<bool>,
    /// Whether ranks have been told to end: from then on nothing is decided any more.
    is_ending: bool,
    decided: Decided,
}

/// Decides until all requests have ended.
///
/// # Errors
/// If a rank or the coordinator has failed; all ranks have been told.
pub(super) fn coordinate(job: &Job<'_>, transport: &mut dyn Transport) -> Result<Decided, Failure> {
    let ran = catch_unwind(AssertUnwindSafe(|| {
        let mut coordinator = Coordinator::new(job, transport);
        coordinator.serve().map(|()| coordinator.decided)
    }));
    let ran = ran.unwrap_or_else(|panic| {
        let failure = panicked(Rank(0), &*panic).failure;
        Err(Failure { detail: format!("the coordinator: {}", failure.detail), ..failure })
    });
    ran.inspect_err(|failure| transport.abort(failure))
}

impl<'a> Coordinator<'a> {
    fn new(job: &'a Job<'a>, transport: &'a mut dyn Transport) -> Self {
        let setup = job.setup;
        let ranks = job.ranks as usize;
        let decided = Decided {
            recorder: Recorder::new(setup.requests.len(), setup.config.decode.instances),
            census: Census::default(),
            bytes_raw: 0,
            bytes_wire: 0,
            unanswered_at_last_arrival: 0,
            lost: Vec::new(),
            totals: Totals::default(),
            end_s: 0.0,
        };
        Self {
            job,
            transport,
            machine: Machine::new(setup.requests, setup.config),
            origin_s: 0.0,
            queue: EventQueue::new(),
            arrivals_left: setup.requests.len(),
            instances: instances(job),
            flows: Vec::new(),
            open: BTreeMap::new(),
            next_shard: 0,
            begun_flows: 0,
            agreed_s: vec![0.0; setup.requests.len()],
            tags: HashMap::new(),
            heard: vec![None; ranks],
            looked: Instant::now(),
            gone: vec![false; ranks],
            said_idle: vec![false; ranks],
            said_goodbye: vec![false; ranks],
            is_ending: false,
            decided,
        }
    }

    fn serve(&mut self) -> Result<(), Failure> {
        self.begin()?;
        let mut standstill = Standstill::new(self.transport.progress());
        let until_s = self.job.setup.until_s.map_or(f64::INFINITY, |until_s| self.job.compute_s(until_s));
        while !self.is_over() {
            let wait_s = (self.queue.next_s().min(until_s) - self.now_s()).max(0.0) * self.job.dilation();
            self.listen(Duration::try_from_secs_f64(wait_s).unwrap_or(LOOK).min(LOOK))?;
            while let Some((at_s, due)) = self.queue.pop(self.now_s().min(until_s)) {
                self.happen(at_s, due)?;
            }
            if self.now_s() >= until_s {
                self.stop_all()?;
                break;
            }
            self.look_for_lost()?;
            if !self.queue.is_empty() {
                // Something is going to happen here: no standstill.
                self.transport.count_progress();
            }
            if standstill.lasts(self.transport.progress(), self.job.setup.stuck_after) {
                return Err(self.stuck());
            }
        }
        self.end()
    }

    /// Waits for all ranks, and begins with all at the same time.
    fn begin(&mut self) -> Result<(), Failure> {
        while self.heard.iter().any(Option::is_none) {
            // Ranks that are not there yet have met no one: who waits for them in vain says so.
            self.listen(LOOK)?;
        }
        self.origin_s = self.transport.now_s();
        self.tell_all(Command::Begin { origin_s: self.origin_s })?;
        for (id, request) in self.job.setup.requests.ids().zip(self.job.setup.requests.list()) {
            self.queue.push(self.job.compute_s(request.arrival_s), Due::Arrival(id));
        }
        for trouble in self.job.setup.troubles {
            // Who dies says nothing, and is missed.
            if let Loss::Request(request) = trouble.what {
                self.queue.push(self.job.compute_s(trouble.at_s), Due::Cancel(request));
            }
        }
        Ok(())
    }

    /// Ends the run at its latest end, even if requests are still being served.
    fn stop_all(&mut self) -> Result<(), Failure> {
        if self.arrivals_left > 0 {
            self.decided.unanswered_at_last_arrival = self.machine.census().unanswered;
        }
        for (shard, open) in std::mem::take(&mut self.open) {
            self.tell(open.src, Command::Stop(shard))?;
        }
        Ok(())
    }

    /// Tells ranks to end, and to leave when nothing is under way to any of them.
    fn end(&mut self) -> Result<(), Failure> {
        self.decided.end_s = self.now_s();
        self.decided.census = self.machine.census();
        // Also those that are gone: on a machine that plays them they are there.
        self.gone.fill(false);
        self.is_ending = true;
        self.tell_all(Command::End)?;
        self.hear_of_all(|coordinator| &coordinator.said_idle)?;
        self.tell_all(Command::Leave)?;
        self.hear_of_all(|coordinator| &coordinator.said_goodbye)
    }

    /// Waits until all ranks have said something.
    fn hear_of_all(&mut self, said: fn(&Self) -> &[bool]) -> Result<(), Failure> {
        let begin = Instant::now();
        while let Some(silent) = said(self).iter().position(|said| !said) {
            self.listen(LOOK)?;
            if begin.elapsed() > GOODBYE {
                let detail = "it has not said that it has ended";
                return Err(Failure::new(Rank(silent as u32), None, FailureKind::Timeout, detail));
            }
        }
        Ok(())
    }

    fn happen(&mut self, at_s: f64, due: Due) -> Result<(), Failure> {
        match due {
            Due::Arrival(request) => {
                self.machine.handle(Input::Arrived(request));
                self.arrivals_left -= 1;
            }
            Due::Cancel(request) => self.machine.handle(Input::Cancelled(request)),
        }
        self.decide(at_s)?;
        if matches!(due, Due::Arrival(_)) && self.arrivals_left == 0 {
            self.decided.unanswered_at_last_arrival = self.machine.census().unanswered;
        }
        Ok(())
    }

    /// Carries out the steps of the machine until it has no more.
    fn decide(&mut self, at_s: f64) -> Result<(), Failure> {
        while let Some(step) = self.machine.poll() {
            match step {
                Step::Prefill(step) => self.begin_prefill(&step, at_s)?,
                Step::Decode(step) => self.begin_step(step, at_s)?,
                Step::Move(id, flow) => self.begin_flow(id, &flow, at_s)?,
                Step::Stop(id) => self.stop_flow(id)?,
                Step::Tokens { instance, continuing } => {
                    self.decided.recorder.step(at_s, instance, continuing);
                }
                Step::Note(request, moment) => self.decided.recorder.note(at_s, request, moment),
            }
        }
        Ok(())
    }

    /// Whether all requests have ended and no work is open.
    fn is_over(&self) -> bool {
        if !self.open.is_empty() || self.instances.iter().any(|instance| instance.is_busy) {
            return false;
        }
        let left = if self.arrivals_left == 0 { self.machine.census().in_flight } else { 1 };
        let is_over = left == 0 || self.queue.is_empty();
        assert!(!is_over || left == 0, "nothing happens any more, and {left} requests are not served");
        is_over
    }

    /// Handles messages of ranks: waits `timeout` for the first, and takes all that are there.
    fn listen(&mut self, timeout: Duration) -> Result<(), Failure> {
        let mut wait = timeout;
        loop {
            let event = self.transport.poll(wait).map_err(|why| self.ended(&why))?;
            match event {
                Some(Event::Told(message)) => {
                    if let Some(Message::Report(rank, report)) = message::unwrap(&message) {
                        self.hear(rank, report)?;
                    }
                }
                Some(_) => {}
                None => return Ok(()),
            }
            wait = Duration::ZERO;
        }
    }

    /// Declares ranks lost that have been silent for too long.
    fn look_for_lost(&mut self) -> Result<(), Failure> {
        let limit = self.job.setup.lost_after;
        if self.looked.elapsed() > limit / 2 {
            // It was this process that stood still.
            self.heard.iter_mut().flatten().for_each(|heard| *heard = Instant::now());
        }
        self.looked = Instant::now();
        for index in 0..self.gone.len() {
            let is_silent = self.heard[index].is_some_and(|heard| heard.elapsed() > limit);
            if is_silent && !self.gone[index] {
                self.lose(Rank(index as u32))?;
            }
        }
        Ok(())
    }

    /// Failure of a standstill: it names the receiver and the sender of the oldest shard on its way.
    fn stuck(&self) -> Failure {
        let seconds = self.job.setup.stuck_after.as_secs_f64();
        let nothing = format!("nothing has ended on any rank for {seconds} s");
        let Some(open) = self.open.values().next() else {
            return Failure::new(Rank(0), None, FailureKind::Timeout, nothing);
        };
        let &Open { src, dst, request, .. } = open;
        let detail = format!("{nothing}; it waits for what rank {src} sends");
        let key = TransferKey { segment: segment(request), stage: Stage::Raw, src, dst, number: 0 };
        Failure { transfer: Some(key), ..Failure::new(dst, None, FailureKind::Timeout, detail) }
    }

    fn now_s(&self) -> f64 {
        (self.transport.now_s() - self.origin_s) / self.job.dilation()
    }

    fn tell(&mut self, to: Rank, command: Command) -> Result<(), Failure> {
        if self.gone[to.index()] {
            return Ok(());
        }
        let told = self.transport.tell(to, message::wrap(&Message::Command(command)));
        told.map_err(|why| self.ended(&why))
    }

    fn tell_all(&mut self, command: Command) -> Result<(), Failure> {
        (0..self.job.ranks).try_for_each(|rank| self.tell(Rank(rank), command))
    }

    fn ended(&self, why: &Ended) -> Failure {
        ended(Rank(0), why)
    }
}

#[derive(Clone, Copy, Debug)]
struct Open {
    flow: FlowId,
    request: RequestId,
    src: Rank,
    dst: Rank,
    bytes_raw: u64,
}

/// Shards of a flow that have not arrived, and when the last of the arrived ones did.
#[derive(Clone, Debug, Default)]
struct Shards {
    shards: Vec<ShardId>,
    at_s: f64,
}

impl Coordinator<'_> {
    fn begin_flow(&mut self, id: FlowId, flow: &Flow, at_s: f64) -> Result<(), Failure> {
        let setup = self.job.setup;
        let layers = setup.shards.layers_of(flow.group, setup.config.layer_groups);
        let layers = [layers.start, layers.end];
        let tokens = [flow.tokens.start, flow.tokens.end];
        let bytes_raw = self.job.raw_bytes(tokens[1] - tokens[0]) * u64::from(layers[1] - layers[0]);
        let agreed_s = &mut self.agreed_s[flow.request.index()];
        if flow.is_first {
            *agreed_s = at_s + self.job.declared_s(setup.handshake_s);
        }
        // A coded flow is launched with its first kernel.
        let launch_s = if setup.coding.is_some() { 0.0 } else { setup.host.launch_s };
        let at_s = at_s.max(*agreed_s) + self.job.declared_s(launch_s);
        let number = self.begun_flows;
        self.begun_flows = self.begun_flows.wrapping_add(1);
        if self.flows.len() <= id.index() {
            self.flows.resize_with(id.index() + 1, Shards::default);
        }
        self.flows[id.index()] = Shards { shards: Vec::new(), at_s };
        if bytes_raw == 0 {
            // More groups of layers than layers.
            self.machine.handle(Input::Moved(id));
            return Ok(());
        }
        for (part, &shard) in (0..).zip(setup.shards.list()) {
            let [src, dst] = setup.shards.ends(shard, flow.prefill, flow.decode);
            let tag = self.tags.entry((src, dst)).or_default();
            *tag += 1;
            let (shard, numbers) = (ShardId(self.next_shard), [number, *tag]);
            self.next_shard = self.next_shard.wrapping_add(1);
            self.open.insert(shard, Open { flow: id, request: flow.request, src, dst, bytes_raw });
            self.flows[id.index()].shards.push(shard);
            let request = flow.request;
            let order = Order { shard, request, part, dst, layers, tokens, at_s, numbers };
            self.tell(src, Command::Send(order))?;
        }
        Ok(())
    }

    fn arrived(&mut self, id: ShardId, at_s: f64, bytes_wire: u64) -> Result<(), Failure> {
        let Some(open) = self.open.remove(&id) else {
            // Nobody waited for it any more.
            return Ok(());
        };
        self.decided.bytes_raw += open.bytes_raw;
        self.decided.bytes_wire += bytes_wire;
        let flow = &mut self.flows[open.flow.index()];
        flow.shards.retain(|other| *other != id);
        flow.at_s = flow.at_s.max(at_s);
        if !flow.shards.is_empty() {
            return Ok(());
        }
        let at_s = flow.at_s;
        self.machine.handle(Input::Moved(open.flow));
        self.decide(at_s)
    }

    /// A flow is cancelled: its senders are told to stop.
    fn stop_flow(&mut self, id: FlowId) -> Result<(), Failure> {
        let shards = std::mem::take(&mut self.flows[id.index()].shards);
        shards.into_iter().try_for_each(|shard| {
            let open = self.open.remove(&shard);
            open.map_or(Ok(()), |open| self.tell(open.src, Command::Stop(shard)))
        })
    }
}

#[derive(Debug)]
struct Working {
    instance: Instance,
    is_busy: bool,
    is_lost: bool,
    /// First rank of the instance.
    first: u32,
    work: u32,
    /// Parts of it, and those that the machine was told.
    parts: u32,
    told: u32,
    /// Parts that each rank has done, and when the last of them was.
    done: Vec<u32>,
    at_s: f64,
}

/// All instances of a job, those that prefill first.
fn instances(job: &Job<'_>) -> Vec<Working> {
    let config = &job.setup.config;
    let prefill = (0..config.prefill.instances).map(Instance::Prefill);
    let working = |instance| {
        let ranks = job.ranks_of(instance);
        let done = vec![0; ranks.len()];
        let (is_busy, is_lost, first) = (false, false, ranks.start);
        Working { instance, is_busy, is_lost, first, work: 0, parts: 0, told: 0, done, at_s: 0.0 }
    };
    prefill.chain((0..config.decode.instances).map(Instance::Decode)).map(working).collect()
}

impl Working {
    /// Begins work of `parts` parts; returns its start and its number.
    fn begin(&mut self, at_s: f64, parts: u32) -> (f64, u32) {
        self.work += 1;
        (self.parts, self.told, self.is_busy) = (parts, 0, true);
        self.done.fill(0);
        self.at_s = self.at_s.max(at_s);
        (self.at_s, self.work)
    }

    fn ranks(&self) -> impl Iterator<Item = Rank> + use<> {
        (self.first..self.first + self.done.len() as u32).map(Rank)
    }
}

impl Coordinator<'_> {
    fn begin_prefill(&mut self, step: &PrefillStep, at_s: f64) -> Result<(), Failure> {
        let parts = self.job.setup.config.layer_groups;
        let working = &mut self.instances[step.instance as usize];
        let (at_s, work) = working.begin(at_s, parts);
        let tokens = [step.tokens.start, step.tokens.end];
        let command = Command::Prefill { at_s, work, request: step.request, tokens };
        working.ranks().try_for_each(|rank| self.tell(rank, command))
    }

    fn begin_step(&mut self, step: DecodeStep, at_s: f64) -> Result<(), Failure> {
        let DecodeStep { instance, sequences, context_tokens } = step;
        let index = self.job.setup.config.prefill.instances + instance;
        let working = &mut self.instances[index as usize];
        let (at_s, work) = working.begin(at_s, 1);
        let command = Command::Decode { at_s, work, sequences, context_tokens };
        working.ranks().try_for_each(|rank| self.tell(rank, command))
    }

    fn computed(&mut self, rank: Rank, work: u32, part: u32, at_s: f64) -> Result<(), Failure> {
        let index = self.index_of(rank);
        let working = &mut self.instances[index];
        if working.is_lost || working.work != work {
            return Ok(());
        }
        working.done[(rank.0 - working.first) as usize] = part + 1;
        working.at_s = working.at_s.max(at_s);
        loop {
            let working = &mut self.instances[index];
            let done = working.done.iter().copied().min().unwrap_or(0);
            if working.work != work || working.told >= done {
                return Ok(());
            }
            working.told += 1;
            working.is_busy = working.told < working.parts;
            let at_s = working.at_s;
            self.machine.handle(match working.instance {
                Instance::Prefill(instance) => Input::Computed { instance },
                Instance::Decode(instance) => Input::Stepped { instance },
            });
            self.decide(at_s)?;
        }
    }

    /// A rank is declared lost, and its instance with it.
    fn lose(&mut self, rank: Rank) -> Result<(), Failure> {
        self.gone[rank.index()] = true;
        self.tell_all(Command::Lost(rank))?;
        let index = self.index_of(rank);
        let working = &mut self.instances[index];
        if std::mem::replace(&mut working.is_lost, true) {
            return Ok(());
        }
        working.is_busy = false;
        let instance = working.instance;
        let at_s = self.now_s();
        self.decided.lost.push(Lost { instance, rank, noticed_s: at_s });
        self.machine.handle(match instance {
            Instance::Prefill(instance) => Input::PrefillLost { instance },
            Instance::Decode(instance) => Input::DecodeLost { instance },
        });
        self.decide(at_s)
    }

    fn index_of(&self, rank: Rank) -> usize {
        // Ranks of instances follow one another.
        self.instances.partition_point(|working| working.first <= rank.0) - 1
    }

    fn hear(&mut self, rank: Rank, report: ServingReport) -> Result<(), Failure> {
        self.heard[rank.index()] = Some(Instant::now());
        match report {
            ServingReport::Idle => {
                self.said_idle[rank.index()] = true;
                Ok(())
            }
            ServingReport::Ended(totals) => {
                self.said_goodbye[rank.index()] = true;
                self.decided.totals.add(&totals);
                Ok(())
            }
            // Others have been told that a rank is gone; and what a run with a time has under way at its end does not count.
            _ if self.gone[rank.index()] || self.is_ending => Ok(()),
            ServingReport::Alive => Ok(()),
            ServingReport::Computed { work, part, at_s } => self.computed(rank, work, part, at_s),
            ServingReport::Arrived { shard, at_s, bytes_wire } => self.arrived(shard, at_s, bytes_wire),
        }
    }
}
