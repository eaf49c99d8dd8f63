//! One iteration in virtual time: starts what the machines issue, lets it take its time, and reports back.

mod transfers;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use transfers::{Barriers, Transit, Transits};
use zipwire_cluster::library::{Activity, Sends};
use zipwire_cluster::{FoldedLinks, LinkId, NetworkModel, Progress, Route, TransferStart};
use zipwire_schedule::machine::{Direction, Input, Machine, Readiness, Step, TransferId, TransferOrder};
use zipwire_schedule::plan::{CallKey, Chunk, Exchange, Local, Op, OpKind, Transfer, TransferKey};
use zipwire_schedule::{
    Collective, Failure, FailureKind, FaultPlan, Group, Lane, OpId, Rank, RankEnd, RunFailure, SizeId,
};
use zipwire_timeline::Span;

use crate::hash::Mixed;
use crate::network::{ActivityId, Network};
use crate::queue::{Event, Queue};
use crate::run::{Meter, SimError, SimSetup};

/// Events between two looks at whether the user wants to stop.
const EVENTS_PER_CHECK: u32 = 1024;

/// State that the imitated executor keeps of one rank.
struct Host {
    machine: Machine,
    /// Issued ops that have not started, by lane.
    waiting: [VecDeque<OpId>; Lane::ALL.len()],
    /// Ops that have started and not ended, by lane.
    busy: [u32; Lane::ALL.len()],
    ended: Vec<bool>,
    /// When each op started, and, for an exchange, when its transfers may be offered.
    begin_s: Vec<f64>,
    /// Ends of transfers that peers offer and that wait for this rank's, by what both agree on. Each rank has its own, so that
    /// those of a rank that offers many ends are near one another.
    offers: HashMap<TransferKey, TransferId, Mixed>,
    /// When the last size of each open exchange of sizes arrived.
    sizes_s: HashMap<OpId, f64>,
    /// Open exchanges that are grouped sends of the library.
    grouped: HashMap<OpId, Sends>,
    /// Transfers that are still to end in an exchange that the library drives, and sizes that came with it.
    library: HashMap<OpId, (u32, Vec<(SizeId, u64)>)>,
    computing: Option<Computing>,
    /// Calls of the library that all ranks have issued and that have not ended.
    calls: HashMap<OpId, Call>,
    /// Transfers of the rank, in either direction, that are in latency or moving, and calls of the library under way.
    moving: u32,
    is_done: bool,
    is_dead: bool,
}

pub(crate) struct Iteration<'a> {
    setup: &'a SimSetup<'a>,
    /// Links of the network: those that stand for all.
    links: &'a FoldedLinks,
    index: u32,
    hosts: Vec<Host>,
    network: Network,
    queue: Queue,
    transits: Transits,
    /// The ranks that have issued each call of the library which some have not.
    issued_calls: BTreeMap<CallKey, Vec<(Rank, OpId)>>,
    /// Ranks that stand for those of each group that calls the library.
    callers: HashMap<Group, Callers>,
    /// Calls of the library as links see them: layers are alike.
    activities: HashMap<(Collective, Group, u64), Activity>,
    /// Calls of the library that all ranks have issued, by number.
    calls: Vec<MovingCall>,
    /// The call that the network carries out as each activity.
    moving_calls: HashMap<ActivityId, u32>,
    /// A call under way that has not as many bytes on links that are one to the network: it must be alone.
    lone_call: Option<u32>,
    /// Whether it is not, so ranks are not alike.
    are_unlike: bool,
    /// `None` where transfers wait for nobody but their ends.
    barriers: Option<Barriers>,
    /// Ranks whose machines may have something to do.
    dirty: RankSet,
    faults: FaultPlan,
    first_failure: Option<Failure>,
    /// Seconds since the barrier before the iteration.
    now_s: f64,
    spans: &'a mut Vec<Span>,
    meter: &'a mut Meter,
}

impl<'a> Iteration<'a> {
    pub(crate) fn new(
        setup: &'a SimSetup<'a>,
        index: u32,
        machines: Vec<Machine>,
        links: &'a FoldedLinks,
        spans: &'a mut Vec<Span>,
        meter: &'a mut Meter,
    ) -> Self {
        let hosts: Vec<Host> = machines.into_iter().map(Host::new).collect();
        let faults = FaultPlan::new(setup.plan, setup.faults, index);
        Self {
            dirty: RankSet::of(setup.plan.rank_count(), setup.plan.symmetry.each_member()),
            network: network(links, setup.model),
            queue: faulty_queue(setup, &faults, index),
            faults,
            first_failure: None,
            transits: Transits::default(),
            issued_calls: BTreeMap::new(),
            callers: HashMap::new(),
            activities: HashMap::new(),
            calls: Vec::new(),
            moving_calls: HashMap::new(),
            lone_call: None,
            are_unlike: false,
            barriers: match setup.start {
                TransferStart::Rendezvous => None,
                TransferStart::Barrier => Some(Barriers::new(setup.plan)),
            },
            now_s: 0.0,
            setup,
            links,
            index,
            hosts,
            spans,
            meter,
        }
    }

    /// Runs to the end of the last rank and returns its time, in seconds since the barrier.
    pub(crate) fn run(mut self, proceed: &dyn Fn() -> bool) -> Result<f64, SimError> {
        let (mut ended, mut ended_calls) = (Vec::new(), Vec::new());
        // Whoever is dead from the start does not begin.
        while let Some(event) = self.queue.pop(self.now_s) {
            self.happen(event);
        }
        for count in 0_u32.. {
            if count.is_multiple_of(EVENTS_PER_CHECK) && !proceed() {
                return Err(SimError::Cancelled);
            }
            while let Some(rank) = self.dirty.pop_first() {
                self.drive(rank);
            }
            if self.are_unlike {
                return Err(SimError::Unlike);
            }
            if let Some(first) = self.first_failure.take() {
                return Err(SimError::Failed(Box::new(self.fail(&first))));
            }
            if self.hosts.iter().all(|host| host.is_done) {
                break;
            }
            let flow_in_s = self.network.next_in_s();
            let (flow_s, event_s) = (self.now_s + flow_in_s, self.queue.next_s());
            if flow_s.min(event_s).is_infinite() {
                return Err(SimError::Stalled { waiting: self.waiting() });
            }
            self.meter.pass(flow_s.min(event_s), &mut self.network);
            if flow_s <= event_s {
                self.network.advance(flow_in_s);
                self.now_s = flow_s;
            } else {
                self.network.advance(event_s - self.now_s);
                self.now_s = event_s;
            }
            self.network.take_ended(&mut ended);
            self.network.take_ended_activities(&mut ended_calls);
            if !ended.is_empty() || !ended_calls.is_empty() {
                self.meter.change(self.now_s);
            }
            for flow in ended.drain(..) {
                self.deliver(self.transits.of_flow(flow));
            }
            for activity in ended_calls.drain(..) {
                let call =
                    self.moving_calls.remove(&activity).expect("the network has activities of calls alone");
                self.end_call(call);
            }
            while let Some(event) = self.queue.pop(self.now_s) {
                self.happen(event);
            }
        }
        Ok(self.now_s)
    }

    fn drive(&mut self, rank: Rank) {
        let now_s = self.now_s;
        while !self.host(rank).is_dead {
            match self.host(rank).machine.poll(now_s) {
                Step::Issue(op) => {
                    let host = self.host(rank);
                    let lane = host.machine.op(op).kind.lane();
                    host.waiting[lane as usize].push_back(op);
                    self.start_ready(rank);
                }
                Step::Announce(transfer) => {
                    self.when_open(rank, Event::Announced { rank, transfer }, transfer.op);
                }
                Step::Transfer(transfer) => {
                    self.when_open(rank, Event::Offered { rank, transfer }, transfer.op);
                }
                Step::Close(op) => self.close(rank, op),
                Step::Wait { until_s } => {
                    if let Some(until_s) = until_s {
                        self.queue.push(until_s, Event::Wake { rank });
                    }
                    return;
                }
                Step::Done => {
                    self.host(rank).is_done = true;
                    return;
                }
                Step::Abort(failure) => {
                    self.first_failure.get_or_insert(failure);
                    return;
                }
            }
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Ended { rank, op } => {
                if self.ends_now(rank, op) {
                    self.complete(rank, op);
                }
            }
            Event::Opened { rank, op } => {
                let barriers = self.barriers.as_mut();
                let released = barriers.map_or_else(Vec::new, |barriers| barriers.enter(rank, op));
                released.into_iter().for_each(|(send, receive)| self.begin_transfer(send, receive));
            }
            Event::Announced { rank, transfer } => {
                let key = self.host(rank).machine.key(transfer);
                self.queue.push(self.now_s, Event::PeerReady { rank: key.dst, key });
            }
            Event::Offered { rank, transfer } => self.offer(rank, transfer),
            Event::PeerReady { rank, key } => {
                self.host(rank).machine.handle(Input::PeerReady { key });
                self.dirty.insert(rank);
            }
            Event::Moves { transit, .. } => {
                let Transit { send: (src, _), to: dst, bytes, times, .. } = *self.transits.get(transit);
                if bytes == 0 {
                    self.deliver(transit);
                } else {
                    let SimSetup { topology, model, .. } = self.setup;
                    let loss = self
                        .transits
                        .get(transit)
                        .grouped
                        .map_or(1.0, |sends| sends.loss(topology, src, dst));
                    let effective = bytes as f64 * loss;
                    let route = topology.route(src, dst);
                    let only_ports = *model == NetworkModel::Ports;
                    let crossed = route.links().iter().filter(|&&link| !only_ports || topology.is_port(link));
                    let mut places = [LinkId(0); Route::MAX_LINKS];
                    let count = places
                        .iter_mut()
                        .zip(crossed)
                        .map(|(place, &link)| *place = self.links.place(link))
                        .count();
                    let flow = self.network.add_several(&places[..count], effective, times);
                    self.are_unlike |= self.lone_call.is_some();
                    self.transits.move_as(transit, flow);
                    self.meter.change(self.now_s);
                }
            }
            Event::Arrives { transit, .. } => self.arrive(transit),
            Event::CallMoves { call, .. } => self.move_call(call),
            Event::Wake { rank } => {
                self.dirty.insert(rank);
            }
            Event::Dies { rank } => {
                if let Some(fired) =
                    self.setup.fired.filter(|_| !self.hosts[self.setup.plan.symmetry.place(rank)].is_done)
                {
                    self.faults.died(rank, fired);
                }
                self.host(rank).is_dead = true;
            }
            Event::LastDeadline => self.miss_the_dead(),
        }
    }

    /// Starts issued ops whose dependencies have ended, in the order of issue on each lane: what a device
    /// queue does. Executors that wait for completion issue nothing before.
    fn start_ready(&mut self, rank: Rank) {
        let is_queued = self.setup.capabilities.readiness == Readiness::Issued;
        for lane in Lane::ALL {
            let now_s = self.now_s;
            let host = self.host(rank);
            let Some(&op) = host.waiting[lane as usize].front() else { continue };
            let joins =
                matches!(&host.machine.op(op).kind, OpKind::Exchange(exchange) if exchange.joins_previous);
            // What is issued once all is done that it waits for does not queue: channels of explicit flows share a lane.
            let free = !is_queued || host.busy[lane as usize] == 0 || joins;
            if free && host.machine.op(op).deps.iter().all(|dep| host.ended[dep.index()]) {
                host.waiting[lane as usize].pop_front();
                host.busy[lane as usize] += 1;
                host.begin_s[op.index()] = now_s;
                self.start(rank, op);
            }
        }
    }

    fn start(&mut self, rank: Rank, op: OpId) {
        let (setup, iteration, now_s) = (self.setup, self.index, self.now_s);
        let machine = &self.host(rank).machine;
        let Op { segment, kind, .. } = machine.op(op);
        let seconds = match kind {
            OpKind::Compute(_) => {
                let seconds = setup.durations.get(iteration, segment.index(), rank);
                self.start_compute(rank, op, seconds);
                return;
            }
            OpKind::Library(_) => return self.call(rank, op),
            OpKind::Exchange(exchange) => {
                let bytes = |transfer: &Transfer| machine.transfer_bytes(transfer);
                let sends = setup.costs.sends(exchange, rank, setup.topology, bytes);
                let is_whole = setup.capabilities.transfer_order == TransferOrder::Library;
                let transfers = is_whole.then(|| library_transfers(machine, op, exchange));
                self.host(rank).grouped.extend(sends.map(|sends| (op, sends)));
                if let Some(transfers) = transfers {
                    self.start_library(rank, op, &transfers);
                }
                if self.barriers.is_some() {
                    self.when_open(rank, Event::Opened { rank, op }, op);
                }
                return;
            }
            local => setup.costs.of(local).seconds(),
        };
        self.note_work(rank, seconds);
        self.queue.push(now_s + seconds * self.faults.slowness(rank), Event::Ended { rank, op });
        self.adapt_compute(rank);
    }

    /// The library takes the whole exchange at once.
    fn start_library(&mut self, rank: Rank, op: OpId, transfers: &[TransferId]) {
        let count = u32::try_from(transfers.len()).expect("transfers are counted in 32 bits");
        self.host(rank).library.insert(op, (count, Vec::new()));
        for &transfer in transfers {
            self.when_open(rank, Event::Offered { rank, transfer }, op);
        }
        if transfers.is_empty() {
            self.close(rank, op);
        }
    }

    /// Lets something happen once the exchange that it belongs to has been launched.
    fn when_open(&mut self, rank: Rank, event: Event, exchange: OpId) {
        let host = self.host(rank);
        // It moves something: a further step of a kernel is the only one that has no launch.
        let launch_s = match host.grouped.get(&exchange) {
            Some(sends) => sends.latency_s,
            None if host.machine.is_fused(exchange) => 0.0,
            None => self.setup.costs.host.launch_s,
        };
        let open_s = self.host(rank).begin_s[exchange.index()] + launch_s;
        if open_s > self.now_s {
            self.queue.push(open_s, event);
        } else {
            self.happen(event);
        }
    }

    /// Notes that an op that faults may slow down has begun.
    fn note_work(&self, rank: Rank, seconds: f64) {
        if let Some(fired) = self.setup.fired.filter(|_| seconds > 0.0) {
            self.faults.worked(rank, fired);
        }
    }

    /// Finishes an exchange: it has lasted at least its launch, and sizes that arrived have reached the host.
    fn close(&mut self, rank: Rank, op: OpId) {
        let (now_s, cost) = (self.now_s, self.setup.costs.host);
        let host = self.host(rank);
        let known_s = host.sizes_s.remove(&op).map_or(now_s, |arrived_s| arrived_s + cost.sync_s);
        let grouped = host.grouped.remove(&op);
        let launch_s = match grouped {
            _ if !host.machine.is_launched(op) => 0.0,
            Some(sends) => sends.latency_s,
            None => cost.launch_s,
        };
        let launched_s = host.begin_s[op.index()] + launch_s;
        self.queue.push(now_s.max(launched_s).max(known_s), Event::Ended { rank, op });
    }

    fn complete(&mut self, rank: Rank, op: OpId) {
        let (now_s, index, setup) = (self.now_s, self.index, self.setup);
        let host = self.host(rank);
        if host.is_dead {
            return;
        }
        let sizes = match &host.machine.op(op).kind {
            OpKind::Local(Local::Encode(batch)) => {
                let segment = host.machine.op(op).segment;
                let size = |block| setup.sizes.dynamic_len(segment, batch.layout, block);
                batch.blocks.iter().map(|block| (block.size, size(block))).collect()
            }
            OpKind::Exchange(_) => host.library.remove(&op).map(|(_, sizes)| sizes).unwrap_or_default(),
            OpKind::Library(_) => host.calls.remove(&op).map(|call| call.sizes).unwrap_or_default(),
            OpKind::Compute(_) | OpKind::Local(_) => Vec::new(),
        };
        host.machine.handle(Input::Completed { op, sizes });
        host.ended[op.index()] = true;
        let lane = host.machine.op(op).kind.lane();
        host.busy[lane as usize] -= 1;
        let span = Span::of_op(&host.machine, index, host.machine.op(op), host.begin_s[op.index()], now_s);
        self.spans.push(span);
        self.adapt_compute(rank);
        self.start_ready(rank);
        self.dirty.insert(rank);
    }

    fn host(&mut self, rank: Rank) -> &mut Host {
        &mut self.hosts[self.setup.plan.symmetry.place(rank)]
    }
}

impl Host {
    fn new(machine: Machine) -> Self {
        let op_count = machine.program().ops.len();
        Self {
            machine,
            waiting: std::array::from_fn(|_| VecDeque::new()),
            busy: [0; Lane::ALL.len()],
            ended: vec![false; op_count],
            begin_s: vec![f64::INFINITY; op_count],
            offers: HashMap::default(),
            sizes_s: HashMap::new(),
            grouped: HashMap::new(),
            library: HashMap::new(),
            computing: None,
            calls: HashMap::new(),
            moving: 0,
            is_done: false,
            is_dead: false,
        }
    }
}

/// The network of links that stand for all.
fn network(links: &FoldedLinks, model: NetworkModel) -> Network {
    let (capacities, crossed): (Vec<f64>, Vec<u32>) =
        links.links().iter().map(|link| (link.bytes_per_s, link.crossed)).unzip();
    Network::folded(&capacities, &crossed, model)
}

/// A queue that knows when ranks die.
fn faulty_queue(setup: &SimSetup<'_>, faults: &FaultPlan, iteration: u32) -> Queue {
    let mut queue = Queue::default();
    let deaths =
        setup.plan.programs.iter().filter_map(|program| Some((program.rank, faults.death_s(program.rank)?)));
    for (rank, death_s) in deaths {
        queue.push(death_s, Event::Dies { rank });
        if let Some(deadlines) = setup.deadlines {
            queue.push(deadlines.last_s(iteration), Event::LastDeadline);
        }
    }
    queue
}

/// All transfers of an exchange that move something, in listed order.
fn library_transfers(machine: &Machine, op: OpId, exchange: &Exchange) -> Vec<TransferId> {
    let lists = [(Direction::Send, &exchange.sends), (Direction::Receive, &exchange.receives)];
    let ids = lists.iter().flat_map(|(direction, list)| {
        let moving = list.iter().zip(0..).filter(|(transfer, _)| machine.transfer_bytes(transfer) > 0);
        moving.map(|(_, index)| TransferId { op, direction: *direction, index })
    });
    ids.collect()
}

/// A call of the library that a rank takes part in. It begins when the last rank has issued it, and ends on all ranks at once.
struct Call {
    begin_s: f64,
    /// Sizes that come with what it moves.
    sizes: Vec<(SizeId, u64)>,
}

/// A call of the library on the network.
struct MovingCall {
    activity: Activity,
    issued: Vec<(Rank, OpId)>,
    /// See [`Callers::images`].
    images: u32,
}

/// Ranks that stand for those of a group.
#[derive(Clone, Copy)]
struct Callers {
    first: Rank,
    count: u32,
    /// Groups for which this one stands, itself among them.
    images: u32,
}

impl Iteration<'_> {
    fn callers(&mut self, group: Group) -> Callers {
        let symmetry = &self.setup.plan.symmetry;
        *self.callers.entry(group).or_insert_with(|| {
            let members: BTreeSet<Rank> = group.ranks().map(|rank| symmetry.member(rank)).collect();
            let count = members.len() as u32;
            let first = members.first().copied().unwrap_or(group.first);
            Callers { first, count, images: symmetry.alike() * count / group.count }
        })
    }

    fn call(&mut self, rank: Rank, op: OpId) {
        let machine = &self.hosts[self.setup.plan.symmetry.place(rank)].machine;
        let (library, ring_bytes) = (machine.library(op), machine.ring_bytes(op));
        let (collective, group) = (library.collective, library.group);
        let key = library.key(machine.op(op).segment);
        if ring_bytes == 0 {
            // All ranks know that: nobody calls.
            self.queue.push(self.now_s, Event::Ended { rank, op });
            return;
        }
        let SimSetup { costs, topology, .. } = self.setup;
        let activity = self.activities.entry((collective, group, ring_bytes));
        let activity = activity.or_insert_with(|| costs.call(library, topology, ring_bytes)).clone();
        let callers = self.callers(group);
        let key = CallKey { first: callers.first, ..key };
        let issued = self.issued_calls.entry(key).or_default();
        issued.push((rank, op));
        if issued.len() < callers.count as usize {
            return;
        }
        let issued = self.issued_calls.remove(&key).unwrap_or_default();
        let calls: Vec<Call> = issued
            .iter()
            .map(|&end| Call { begin_s: self.now_s, sizes: self.sizes_for(end, &issued) })
            .collect();
        for (&(rank, op), call) in issued.iter().zip(calls) {
            let host = self.host(rank);
            host.calls.insert(op, call);
            host.moving += 1;
            self.adapt_compute(rank);
        }
        let call = u32::try_from(self.calls.len()).expect("calls are counted in 32 bits");
        self.queue.push(self.now_s + activity.latency_s, Event::CallMoves { rank, op, call });
        self.calls.push(MovingCall { activity, issued, images: callers.images });
    }

    /// The first byte of a call moves.
    fn move_call(&mut self, call: u32) {
        let SimSetup { topology, model, .. } = self.setup;
        let MovingCall { activity: Activity { moving_s, demand, .. }, images, .. } =
            &mut self.calls[call as usize];
        let images = *images;
        let mut demand = std::mem::take(demand);
        if *model == NetworkModel::Ports {
            demand.retain(|&(link, _)| topology.is_port(link));
        }
        let (demand, is_like) = self.links.demand(&demand, images);
        self.are_unlike |= self.lone_call.is_some();
        if !is_like {
            self.are_unlike |= images > 1 || self.network.active() > 0 || !self.moving_calls.is_empty();
            self.lone_call = Some(call);
        }
        let activity = self.network.add_activity(&demand, *moving_s);
        self.moving_calls.insert(activity, call);
        self.meter.change(self.now_s);
    }

    /// The last byte of a call has moved.
    fn end_call(&mut self, call: u32) {
        self.lone_call.take_if(|lone| *lone == call);
        for (rank, op) in std::mem::take(&mut self.calls[call as usize].issued) {
            self.return_from_call(rank, op);
        }
    }

    /// The sizes that a rank gets in a call, as those know them who give them, or who stand for these.
    fn sizes_for(&self, (rank, op): (Rank, OpId), issued: &[(Rank, OpId)]) -> Vec<(SizeId, u64)> {
        let library = self.hosts[self.setup.plan.symmetry.place(rank)].machine.library(op);
        let received = library.outputs.listed().iter();
        let received = received.filter_map(|share| Some((share.chunk, share.content.brings()?)));
        let sizes = received.filter_map(|(chunk, size)| {
            issued.iter().find_map(|&(origin, op)| {
                let machine = &self.hosts[self.setup.plan.symmetry.place(origin)].machine;
                let mut given = machine.library(op).inputs.listed().iter();
                let given = given.find(|share| self.is_image(chunk, share.chunk))?;
                Some((size, machine.size(given.content.brings()?)?))
            })
        });
        sizes.collect()
    }

    /// Whether a chunk is one of another rank's for all, translated.
    fn is_image(&self, chunk: Chunk, of: Chunk) -> bool {
        let symmetry = &self.setup.plan.symmetry;
        let image = Chunk { origin: symmetry.member(chunk.origin), ..chunk };
        image == of && (chunk.destination.is_none() || symmetry.alike() == 1)
    }

    /// The library has done what it was called for; the host knows of sizes later.
    fn return_from_call(&mut self, rank: Rank, op: OpId) {
        let (now_s, index, sync_s) = (self.now_s, self.index, self.setup.costs.host.sync_s);
        let host = self.host(rank);
        host.moving -= 1;
        let call = &host.calls[&op];
        let known_s = if call.sizes.is_empty() { now_s } else { now_s + sync_s };
        let spans = Span::of_call(&host.machine, index, host.machine.op(op), call.begin_s, now_s);
        self.spans.extend(spans);
        self.queue.push(known_s, Event::Ended { rank, op });
        self.adapt_compute(rank);
    }

    fn waiting(&self) -> Vec<(Rank, Vec<OpId>)> {
        let unfinished = self.hosts.iter().filter(|host| !host.is_done);
        unfinished
            .map(|host| {
                let started =
                    |op: &&Op| host.begin_s[op.id.index()].is_finite() && !host.ended[op.id.index()];
                let program = host.machine.program();
                (program.rank, program.ops.iter().filter(started).map(|op| op.id).collect())
            })
            .collect()
    }

    /// Nobody waited for what the dead have not done. At the end of the iteration they are missed all the same.
    fn miss_the_dead(&mut self) {
        let dead = self.hosts.iter().find(|host| host.is_dead && !host.is_done);
        if let Some(rank) = dead.map(|host| host.machine.program().rank) {
            self.first_failure.get_or_insert_with(|| Failure::died(rank));
        }
    }

    /// How a run ends that a rank has failed: every other rank is told.
    fn fail(&self, first: &Failure) -> RunFailure {
        let (plan, deadlines) = (self.setup.plan, self.setup.deadlines);
        let unfinished = self.hosts.iter().filter(|host| !host.is_done);
        let ends = unfinished.map(|host| {
            let rank = host.machine.program().rank;
            let status = host.machine.status();
            let failure = if rank == first.rank {
                first.clone()
            } else if host.is_dead {
                Failure::died(rank)
            } else {
                let detail = format!("it {}", status.describe(&plan.segments));
                Failure::new(rank, None, FailureKind::Cancelled, detail)
            };
            RankEnd { failure, status: (!host.is_dead).then_some(status) }
        });
        RunFailure::new(plan, deadlines, self.index, self.now_s, first.clone(), ends.collect())
    }

    /// Begins a compute phase of `seconds` seconds, the launch not included.
    fn start_compute(&mut self, rank: Rank, op: OpId, seconds: f64) {
        let (now_s, launch_s) = (self.now_s, self.setup.costs.host.launch_s);
        let slowness = self.faults.slowness(rank);
        self.note_work(rank, launch_s + seconds);
        let factor = self.compute_factor(rank);
        let progress = Progress::begin(now_s + launch_s * slowness, seconds * slowness, factor);
        // One rounding where nothing slows it.
        let end_s = if factor == 1.0 { now_s + (launch_s + seconds) * slowness } else { progress.end_s() };
        self.host(rank).computing = Some(Computing { op, progress, end_s });
        self.queue.push(end_s, Event::Ended { rank, op });
    }

    /// Moves the end of a rank's compute phase, after a codec op or a transfer of the rank has begun or ended.
    fn adapt_compute(&mut self, rank: Rank) {
        if self.setup.costs.host.compute_slowdown.is_none() {
            return;
        }
        let (now_s, factor) = (self.now_s, self.compute_factor(rank));
        let Some(computing) = &mut self.host(rank).computing else { return };
        let before_s = computing.progress.end_s();
        computing.progress.change(now_s, factor);
        let (op, end_s) = (computing.op, computing.progress.end_s().max(now_s));
        if end_s != before_s {
            computing.end_s = end_s;
            self.queue.push(end_s, Event::Ended { rank, op });
        }
    }

    /// Whether an op ends now: always, but for compute phases whose end has moved.
    fn ends_now(&mut self, rank: Rank, op: OpId) -> bool {
        let now_s = self.now_s;
        let host = self.host(rank);
        match &host.computing {
            Some(computing) if computing.op == op => {
                let is_end = computing.end_s <= now_s;
                if is_end {
                    host.computing = None;
                }
                is_end
            }
            Some(_) | None => !host.ended[op.index()],
        }
    }

    fn compute_factor(&mut self, rank: Rank) -> f64 {
        let slowdown = self.setup.costs.host.compute_slowdown;
        let host = self.host(rank);
        slowdown.factor(host.busy[Lane::Codec as usize] > 0, host.moving > 0)
    }
}

// Compute phases whose end moves: other lanes of the rank slow them down.
//
// An end that has moved leaves its event in the queue; when that comes, it is no longer the end, and nothing happens.

struct Computing {
    op: OpId,
    progress: Progress,
    /// When it ends, as far as is known.
    end_s: f64,
}

/// A set of ranks that gives out the lowest first: one bit a rank.
pub(crate) struct RankSet {
    words: Vec<u64>,
    /// Words below this one are zero.
    first: usize,
}

impl RankSet {
    /// Some ranks, of so many that it has room for.
    pub(crate) fn of(count: u32, ranks: impl Iterator<Item = Rank>) -> Self {
        let mut all = Self { words: vec![0; count.div_ceil(u64::BITS) as usize], first: 0 };
        ranks.for_each(|rank| all.insert(rank));
        all
    }

    /// Adds a rank, below the count that the set was made for.
    pub(crate) fn insert(&mut self, rank: Rank) {
        let word = (rank.0 / u64::BITS) as usize;
        self.words[word] |= 1 << (rank.0 % u64::BITS);
        self.first = self.first.min(word);
    }

    pub(crate) fn pop_first(&mut self) -> Option<Rank> {
        let words = self.words[self.first..].iter().take_while(|&&word| word == 0);
        self.first += words.count();
        let word = self.words.get_mut(self.first)?;
        let bit = word.trailing_zeros();
        *word &= *word - 1;
        Some(Rank(self.first as u32 * u64::BITS + bit))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn as_a_sorted_set() {
        let mut set = RankSet::of(200, (0..200).map(Rank));
        let mut sorted: BTreeSet<Rank> = (0..200).map(Rank).collect();
        for step in 0..5000_u32 {
            if step % 7 < 3 {
                let rank = Rank(step.wrapping_mul(2_654_435_761) % 200);
                set.insert(rank);
                sorted.insert(rank);
            } else {
                assert_eq!(set.pop_first(), sorted.pop_first());
            }
        }
        assert!(std::iter::from_fn(|| set.pop_first()).eq(sorted));
        assert_eq!(set.pop_first(), None);
    }
}
