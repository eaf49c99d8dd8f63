//! An executor of no particular speed: what ranks do takes random times, news of peers are late and out of order, and
//! messages may be lost and ranks die. Nothing runs; time is a number.

mod conditions;
mod transfers;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zipwire_schedule::machine::{
    Direction, Input, Machine, RankStatus, Readiness, Step, TransferId, TransferOrder,
};
use zipwire_schedule::plan::{CallKey, Chunk, Local, OpKind, Plan, Region, TransferKey};
use zipwire_schedule::{
    Capabilities, Channel, Deadlines, Failure, FailureKind, Lane, OpId, Rank, RankEnd, RunFailure, SegmentId,
    SizeId,
};

use crate::random_schedules::memory::{Memory, Tag, tag};

pub(crate) use self::conditions::{Conditions, Defect, Fault, Silence};

#[derive(Debug)]
pub(crate) struct Outcome {
    /// Digest of the memory of all ranks in the end.
    pub(crate) digest: Tag,
    /// When each op ended, by rank and op, in seconds.
    pub(crate) ends_s: Vec<(Rank, OpId, f64)>,
    pub(crate) begun: u64,
    /// When the last thing happened, in nanoseconds.
    pub(crate) now: u64,
    pub(crate) repeated: u64,
    /// How it failed, and who may be blamed for it, the culprit first; nobody where that is not known.
    pub(crate) failure: Option<(RunFailure, Vec<Rank>)>,
}

struct RankState {
    machine: Machine,
    memory: Memory,
    accesses: Vec<Access>,
    /// Where devices order ops: what is issued, by lane, and what has ended.
    lanes: Vec<VecDeque<OpId>>,
    running: HashSet<OpId>,
    ended: HashSet<OpId>,
    /// Transfers of an exchange that a library moves, which have not ended.
    left: HashMap<OpId, usize>,
    /// Ends of transfers that the machine has on offer.
    open: HashMap<(Channel, Direction), u32>,
    is_done: bool,
    is_dead: bool,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    LocalEnd(usize, OpId),
    Closed(usize, OpId),
    Moved(TransferKey),
    Told(usize, TransferId),
    News(usize, TransferKey),
    CallEnd(CallKey),
    /// News of this number is told again, or at last.
    Again(usize),
    /// Something may begin on this rank that might not before.
    Start(usize),
}

pub(crate) struct World<'p> {
    plan: &'p Plan,
    capabilities: Capabilities,
    fault: Fault,
    defect: Defect,
    deadlines: Option<&'p Deadlines>,
    repeats: bool,
    random: ChaCha8Rng,
    now: u64,
    next_id: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    ranks: Vec<RankState>,
    offers: HashMap<TransferKey, (usize, TransferId)>,
    moving: HashMap<TransferKey, [(usize, TransferId); 2]>,
    moved: HashSet<TransferKey>,
    calls: HashMap<CallKey, Vec<(usize, OpId)>>,
    /// Live bytes of each frame, wherever it is.
    coded: HashMap<(SegmentId, Chunk), u64>,
    ends_s: Vec<(Rank, OpId, f64)>,
    begun: u64,
    /// News that is told again, with whom it is told.
    again: Vec<(usize, Input)>,
    repeated: u64,
    lost: Option<Rank>,
}

/// Plays a plan once. `Err` says what was wrong with how it went.
pub(crate) fn play(plan: &Plan, conditions: Conditions<'_>) -> Result<Outcome, String> {
    World::new(plan, conditions).play()
}

impl<'p> World<'p> {
    fn new(plan: &'p Plan, conditions: Conditions<'p>) -> Self {
        let Conditions { capabilities, timing, fault, repeats, defect, deadlines } = conditions;
        let rank = |program: &Arc<_>| {
            let program = match defect {
                Defect::WidensWindows => Arc::new(conditions::with_wider_windows(program)),
                _ => Arc::clone(program),
            };
            let mut machine = Machine::new(program, capabilities, 0.0);
            if let Some(deadlines) = deadlines {
                let rank = machine.program().rank;
                machine = machine.with_deadlines(deadlines.of(0, rank));
            }
            RankState {
                machine,
                memory: Memory::default(),
                accesses: Vec::new(),
                lanes: vec![VecDeque::new(); Lane::ALL.len()],
                running: HashSet::new(),
                ended: HashSet::new(),
                left: HashMap::new(),
                open: HashMap::new(),
                is_done: false,
                is_dead: false,
            }
        };
        let ops = plan.programs.iter().flat_map(|program| &program.ops);
        let encodes = ops.filter_map(|op| match &op.kind {
            OpKind::Local(Local::Encode(batch)) => Some((op.segment, batch)),
            _ => None,
        });
        // The same in all schedules; some are empty, and some do not fit into their slots.
        let live = |chunk: &Chunk, most: u64| tag((chunk.origin, chunk.destination, chunk.part)) % (most + 1);
        let coded = encodes.flat_map(|(segment, batch)| {
            let blocks = batch.blocks.iter();
            blocks.map(move |block| ((segment, block.chunk), live(&block.chunk, block.dynamic_section.len)))
        });
        Self {
            plan,
            capabilities,
            fault,
            defect,
            deadlines,
            repeats,
            random: ChaCha8Rng::seed_from_u64(timing),
            now: 0,
            next_id: 0,
            events: BinaryHeap::new(),
            ranks: plan.programs.iter().map(rank).collect(),
            offers: HashMap::new(),
            moving: HashMap::new(),
            moved: HashSet::new(),
            calls: HashMap::new(),
            coded: coded.collect(),
            ends_s: Vec::new(),
            begun: 0,
            again: Vec::new(),
            repeated: 0,
            lost: None,
        }
    }

    fn play(mut self) -> Result<Outcome, String> {
        for (rank, start) in starts(self.plan) {
            self.at(start, Event::Start(rank));
        }
        for rank in 0..self.ranks.len() {
            self.poll(rank)?;
        }
        while let Some(Reverse((at, _, event))) = self.events.pop() {
            self.now = at;
            self.happen(&event)?;
        }
        let failure = if self.ranks.iter().all(|rank| rank.is_done) { None } else { Some(self.time_out()?) };
        let digests: Vec<Tag> = self.ranks.iter().map(|rank| rank.memory.digest()).collect();
        let Self { ends_s, begun, now, repeated, .. } = self;
        Ok(Outcome { digest: tag(digests), ends_s, begun, now, repeated, failure })
    }

    fn after(&mut self, event: Event) {
        // Most things take about as long, and some take very long.
        let most = if self.random.random_bool(0.1) { 100_000 } else { 1_000 };
        let at = self.now + self.random.random_range(1..=most);
        self.at(at, event);
    }

    fn at(&mut self, at: u64, event: Event) {
        self.next_id += 1;
        self.events.push(Reverse((at, self.next_id, event)));
    }

    fn is_dead(&mut self, rank: usize) -> bool {
        self.ranks[rank].is_dead |=
            matches!(self.fault, Fault::Kills(dead, at) if dead == rank && at <= self.now);
        self.ranks[rank].is_dead
    }

    fn happen(&mut self, event: &Event) -> Result<(), String> {
        match *event {
            // The dead notice nothing.
            Event::LocalEnd(rank, _)
            | Event::Closed(rank, _)
            | Event::Told(rank, _)
            | Event::News(rank, _)
                if self.is_dead(rank) =>
            {
                Ok(())
            }
            Event::LocalEnd(rank, op) => {
                let state = &mut self.ranks[rank];
                let kind = &state.machine.op(op).kind;
                let read: Vec<_> =
                    kind.effects().reads.iter().map(|region| state.memory.read(region)).collect();
                for (index, region) in kind.effects().writes.iter().enumerate() {
                    state.memory.write(region, tag((rank, op, index, &read)));
                }
                let sizes = self.sizes(rank, op);
                self.op_ended(rank, op, sizes)
            }
            Event::Closed(rank, op) => self.op_ended(rank, op, Vec::new()),
            Event::Moved(key) => self.arrived(key),
            Event::Told(rank, id) => {
                if self.capabilities.transfer_order == TransferOrder::Library {
                    return self.library_moved(rank, id);
                }
                let machine = &self.ranks[rank].machine;
                let (transfer, exchange) = machine.transfer(id);
                let (channel, brings) = (exchange.channel, transfer.content.brings());
                let receives = id.direction == Direction::Receive;
                let size = brings.filter(|_| receives).map(|_| self.coded[&self.frame(rank, id)]);
                let is_altered = self.defect == Defect::AltersSizes;
                let size = size.map(|size| if is_altered { size.saturating_sub(1) } else { size });
                *self.ranks[rank].open.get_mut(&(channel, id.direction)).expect("it was open") -= 1;
                self.tell(rank, Input::Transferred { transfer: id, size })
            }
            Event::News(rank, key) => self.tell(rank, Input::PeerReady { key }),
            // The clock is no news: those who hear of nothing have it, too.
            Event::Start(rank) => self.poll(rank),
            Event::CallEnd(key) => self.call_ended(key),
            Event::Again(number) => {
                let (rank, input) = self.again[number].clone();
                if self.is_dead(rank) { Ok(()) } else { self.hear(rank, input) }
            }
        }
    }

    /// An end of a transfer of a library has ended, which ends its exchange if it was the last one.
    fn library_moved(&mut self, rank: usize, id: TransferId) -> Result<(), String> {
        let Some(left) = self.ranks[rank].left.get_mut(&id.op) else {
            if self.defect == Defect::CountsTwice {
                return Ok(());
            }
            return Err(format!("rank {rank} hears of {id:?} when its exchange is over"));
        };
        *left -= 1;
        if *left == 0 { self.exchange_ended(rank, id.op) } else { Ok(()) }
    }

    /// Brings news to a rank, and some of it once more.
    fn tell(&mut self, rank: usize, input: Input) -> Result<(), String> {
        if self.repeats && self.random.random_bool(0.1) {
            self.repeated += 1;
            self.again(rank, input.clone());
        }
        self.hear(rank, input)
    }

    fn again(&mut self, rank: usize, input: Input) {
        self.again.push((rank, input));
        self.after(Event::Again(self.again.len() - 1));
    }

    fn hear(&mut self, rank: usize, input: Input) -> Result<(), String> {
        match self.fault {
            Fault::Silences(silent, from, silence) if silent == rank && from <= self.now => match silence {
                Silence::ForEver | Silence::UntilDue => return Ok(()),
                Silence::Until(end) if self.now < end => {
                    self.again.push((rank, input));
                    self.at(end, Event::Again(self.again.len() - 1));
                    return Ok(());
                }
                Silence::Until(_) => {}
            },
            _ => {}
        }
        self.ranks[rank].machine.handle(input);
        self.poll(rank)
    }

    fn poll(&mut self, rank: usize) -> Result<(), String> {
        if self.is_dead(rank) {
            return Ok(());
        }
        loop {
            match self.ranks[rank].machine.poll(self.now as f64 * 1e-9) {
                Step::Issue(op) => match self.capabilities.readiness {
                    Readiness::Completed => self.begin(rank, op)?,
                    Readiness::Issued => {
                        let state = &mut self.ranks[rank];
                        let lane = state.machine.op(op).kind.lane();
                        state.lanes[lane as usize].push_back(op);
                        if self.defect == Defect::ReversesLanes && rank == 0 {
                            self.reverse(lane);
                        }
                        self.begin_ready(rank)?;
                    }
                },
                Step::Announce(id) => {
                    let key = self.ranks[rank].machine.key(id);
                    self.after(Event::News(key.dst.index(), key));
                }
                Step::Transfer(id) => self.offer_in_window(rank, id)?,
                Step::Close(op) => self.after(Event::Closed(rank, op)),
                Step::Wait { .. } => return Ok(()),
                Step::Done => {
                    self.ranks[rank].is_done = true;
                    return Ok(());
                }
                Step::Abort(failure) => return Err(format!("{failure}, before anything was overdue")),
            }
        }
    }

    /// Begins the first op of each lane whose dependencies have ended.
    fn begin_ready(&mut self, rank: usize) -> Result<(), String> {
        for lane in 0..Lane::ALL.len() {
            let state = &self.ranks[rank];
            let Some(&op) = state.lanes[lane].front() else { continue };
            let deps = &state.machine.op(op).deps;
            if !state.running.contains(&op) && deps.iter().all(|dep| state.ended.contains(dep)) {
                self.ranks[rank].running.insert(op);
                self.begin(rank, op)?;
            }
        }
        Ok(())
    }

    fn begin(&mut self, rank: usize, op: OpId) -> Result<(), String> {
        let planned = self.ranks[rank].machine.op(op);
        if self.capabilities.timed && (self.now as f64 * 1e-9) < planned.not_before_s {
            return Err(format!("rank {rank} begins {op} before its time"));
        }
        let kind = planned.kind.clone();
        match &kind {
            OpKind::Exchange(_) if self.capabilities.transfer_order == TransferOrder::Machine => Ok(()),
            OpKind::Exchange(exchange) => {
                let machine = &self.ranks[rank].machine;
                let list = |direction, count: usize| {
                    (0..count as u32).map(move |index| TransferId { op, direction, index })
                };
                let all = list(Direction::Send, exchange.sends.len())
                    .chain(list(Direction::Receive, exchange.receives.len()));
                let moving: Vec<TransferId> =
                    all.filter(|&id| machine.transfer_bytes(machine.transfer(id).0) > 0).collect();
                self.ranks[rank].left.insert(op, moving.len());
                if moving.is_empty() {
                    return self.exchange_ended(rank, op);
                }
                moving.into_iter().try_for_each(|id| self.offer(rank, id))
            }
            OpKind::Library(library) => {
                let key = library.key(self.ranks[rank].machine.op(op).segment);
                self.access(rank, op, &kind.effects().reads, &kind.effects().writes)?;
                let there = self.calls.entry(key).or_default();
                there.push((rank, op));
                if there.len() == self.ranks.len() {
                    self.after(Event::CallEnd(key));
                }
                Ok(())
            }
            _ => {
                self.access(rank, op, &kind.effects().reads, &kind.effects().writes)?;
                self.after(Event::LocalEnd(rank, op));
                Ok(())
            }
        }
    }

    /// Sizes that an op defines when it ends and that no transfer has brought.
    fn sizes(&self, rank: usize, op: OpId) -> Vec<(SizeId, u64)> {
        let machine = &self.ranks[rank].machine;
        let (op, by_machine) = (machine.op(op), self.capabilities.transfer_order == TransferOrder::Machine);
        let of = |chunk: Chunk| self.coded[&(op.segment, chunk)];
        match &op.kind {
            OpKind::Local(Local::Encode(batch)) => {
                batch.blocks.iter().map(|block| (block.size, of(block.chunk))).collect()
            }
            OpKind::Exchange(exchange) if !by_machine => {
                let brought =
                    exchange.receives.iter().filter_map(|t| Some((t.content.brings()?, of(t.chunk))));
                brought.collect()
            }
            OpKind::Library(library) => {
                let brought =
                    library.outputs.listed().iter().filter_map(|s| Some((s.content.brings()?, of(s.chunk))));
                brought.collect()
            }
            _ => Vec::new(),
        }
    }

    fn exchange_ended(&mut self, rank: usize, op: OpId) -> Result<(), String> {
        self.ranks[rank].left.remove(&op);
        let sizes = self.sizes(rank, op);
        self.op_ended(rank, op, sizes)
    }

    fn op_ended(&mut self, rank: usize, op: OpId, sizes: Vec<(SizeId, u64)>) -> Result<(), String> {
        let state = &mut self.ranks[rank];
        state.accesses.retain(|access| access.id != Self::id_of(op));
        self.ends_s.push((state.machine.program().rank, op, self.now as f64 * 1e-9));
        if self.capabilities.readiness == Readiness::Issued {
            let lane = state.machine.op(op).kind.lane();
            assert_eq!(state.lanes[lane as usize].pop_front(), Some(op), "lanes are in order");
            state.running.remove(&op);
            state.ended.insert(op);
        }
        self.tell(rank, Input::Completed { op, sizes })?;
        if self.capabilities.readiness == Readiness::Issued { self.begin_ready(rank) } else { Ok(()) }
    }

    fn call_ended(&mut self, key: CallKey) -> Result<(), String> {
        let there = self.calls.remove(&key).expect("the call has begun");
        if there.iter().any(|(rank, _)| self.is_dead(*rank)) {
            return Ok(());
        }
        let mut inputs: Vec<(usize, Vec<_>)> = Vec::new();
        for &(rank, op) in &there {
            let state = &self.ranks[rank];
            let reads = state.machine.op(op).kind.effects().reads;
            inputs.push((rank, reads.iter().map(|region| state.memory.read(region)).collect()));
        }
        inputs.sort();
        for (rank, op) in there {
            let state = &mut self.ranks[rank];
            let library = state.machine.library(op);
            for share in library.outputs.iter() {
                if let Some(region) = share.content.region() {
                    state.memory.write(&region, tag((key, share.chunk, &inputs)));
                }
            }
            let sizes = self.sizes(rank, op);
            self.op_ended(rank, op, sizes)?;
        }
        Ok(())
    }
}

/// When, in nanoseconds, ranks may begin what has a time of its own.
fn starts(plan: &Plan) -> Vec<(usize, u64)> {
    let ops = plan.programs.iter().flat_map(|program| program.ops.iter().map(|op| (program.rank, op)));
    let starts_s = ops.flat_map(|(rank, op)| {
        let exchanges = op.kind.exchange().into_iter();
        let transfers = exchanges.flat_map(|exchange| exchange.sends.iter().chain(&exchange.receives));
        let all = std::iter::once(op.not_before_s).chain(transfers.map(|transfer| transfer.not_before_s));
        all.map(move |start_s| (rank.index(), start_s))
    });
    let late = starts_s.filter(|(_, start_s)| *start_s > 0.0);
    late.map(|(rank, start_s)| (rank, (start_s * 1e9).ceil() as u64)).collect()
}

/// Something that a rank reads or writes while something else may happen.
struct Access {
    id: u64,
    region: Region,
    writes: bool,
    by: String,
}

impl World<'_> {
    fn id_of(op: OpId) -> u64 {
        u64::from(op.0) << 34
    }

    fn id_of_transfer(id: TransferId) -> u64 {
        Self::id_of(id.op) | 1 << 33 | u64::from(id.direction == Direction::Send) << 32 | u64::from(id.index)
    }

    fn transfer_access(&self, rank: usize, id: TransferId, region: Region) -> Access {
        let key = self.ranks[rank].machine.key(id);
        let (writes, by) = (id.direction == Direction::Receive, format!("{key:?}"));
        Access { id: Self::id_of_transfer(id), region, writes, by }
    }

    /// Notes the regions that an op reads and writes from now on until it ends.
    fn access(&mut self, rank: usize, op: OpId, reads: &[Region], writes: &[Region]) -> Result<(), String> {
        let by = format!("op {op}");
        let all =
            reads.iter().map(|region| (region, false)).chain(writes.iter().map(|region| (region, true)));
        for (&region, writes) in all {
            self.add(rank, Access { id: Self::id_of(op), region, writes, by: by.clone() })?;
        }
        Ok(())
    }

    fn add(&mut self, rank: usize, access: Access) -> Result<(), String> {
        let clashes = |other: &&Access| {
            other.id != access.id && (other.writes || access.writes) && other.region.overlaps(&access.region)
        };
        let accesses = &mut self.ranks[rank].accesses;
        if let Some(other) = accesses.iter().find(clashes) {
            return Err(format!("on rank {rank} {} and {} use the same bytes", other.by, access.by));
        }
        accesses.push(access);
        Ok(())
    }

    /// Nothing happens any more: the first op that is overdue ends the run, and all ranks are told.
    fn time_out(&mut self) -> Result<(RunFailure, Vec<Rank>), String> {
        let may_end = match self.fault {
            Fault::None | Fault::Silences(_, _, Silence::Until(_)) => false,
            Fault::Loses(_) | Fault::Kills(..) | Fault::Silences(..) => true,
        };
        let Some(deadlines) = self.deadlines.filter(|_| may_end) else {
            let statuses = self.ranks.iter().map(|state| format!("{:?}\n", state.machine.status()));
            return Err(format!("all stand still\n{}", statuses.collect::<String>()));
        };
        let first = self.first_failure()?;
        let mut ends = Vec::new();
        for (rank, state) in (0..).map(Rank).zip(&self.ranks) {
            let is_mute = self.is_mute(rank.index());
            let failure = match state {
                RankState { is_done: true, .. } => continue,
                _ if is_mute => Failure::died(rank),
                _ if rank == first.rank => first.clone(),
                _ => {
                    let waits = state.machine.status().describe(&self.plan.segments);
                    Failure::new(rank, None, FailureKind::Cancelled, waits)
                }
            };
            let status = (!is_mute).then(|| self.status(state));
            ends.push(RankEnd { failure, status });
        }
        let culprits = self.culprits();
        Ok((RunFailure::new(self.plan, Some(deadlines), 0, 0.0, first, ends), culprits))
    }

    fn is_mute(&self, rank: usize) -> bool {
        let is_silent = matches!(self.fault, Fault::Silences(silent, _, Silence::ForEver) if silent == rank);
        self.ranks[rank].is_dead || is_silent
    }

    fn status(&self, state: &RankState) -> RankStatus {
        let mut status = state.machine.status();
        if self.defect == Defect::ForgetsWaits {
            status.pending.clear();
        }
        status
    }

    /// Failure of the op that is overdue first, or, if all others have ended, of the rank that says nothing.
    fn first_failure(&mut self) -> Result<Failure, String> {
        let mut first: Option<(f64, usize)> = None;
        for rank in 0..self.ranks.len() {
            if self.ranks[rank].is_done || self.is_mute(rank) {
                continue;
            }
            match self.ranks[rank].machine.poll(self.now as f64 * 1e-9) {
                Step::Wait { until_s: Some(until_s) } => {
                    if first.is_none_or(|(least, _)| until_s < least) {
                        first = Some((until_s, rank));
                    }
                }
                step => return Err(format!("rank {rank} has no deadline: {step:?}")),
            }
        }
        match first {
            None => {
                let mute =
                    (0..self.ranks.len()).find(|&rank| self.is_mute(rank) && !self.ranks[rank].is_done);
                Ok(Failure::died(Rank(mute.expect("somebody has not ended") as u32)))
            }
            Some((due_s, rank)) => match self.ranks[rank].machine.poll(due_s) {
                Step::Abort(failure) => Ok(failure),
                step => Err(format!("rank {rank} is overdue and goes on: {step:?}")),
            },
        }
    }

    /// Who may be blamed, the culprit first; nobody if that is not known.
    ///
    /// A rank that has heard of nothing and reports what it waits for cannot be told from one that messages were lost on the way to: so
    /// the peers that it waits for may be blamed as well. Reports do not say which announcements a rank has heard, so it is not known who
    /// is blamed where orders follow peers.
    fn culprits(&self) -> Vec<Rank> {
        match self.fault {
            Fault::Kills(rank, _) | Fault::Silences(rank, _, Silence::ForEver) => vec![Rank(rank as u32)],
            Fault::Silences(..) if self.follows_peers() => Vec::new(),
            Fault::Silences(rank, ..) => {
                let pending = self.ranks[rank].machine.status().pending;
                let ends = pending.into_iter().flat_map(|pending| [pending.key.src, pending.key.dst]);
                let peers = ends.filter(|end| end.index() != rank);
                std::iter::once(Rank(rank as u32)).chain(peers).collect()
            }
            Fault::None | Fault::Loses(_) => self.lost.into_iter().collect(),
        }
    }
    fn follows_peers(&self) -> bool {
        let ops = self.plan.programs.iter().flat_map(|program| &program.ops);
        ops.filter_map(|op| op.kind.exchange()).any(|exchange| exchange.order.follows_peers())
    }
}
