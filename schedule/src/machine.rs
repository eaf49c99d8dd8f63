//! The rank machine: decides what one rank does next, without doing it.
//!
//! It owns readiness, the order and window of transfers, and failure; it performs no I/O and reads no clock.
//! Every executor, simulated or real, drives the same machine, so a simulated policy *is* the deployed one.
//!
//! Contract: after each [`Machine::handle`], call [`Machine::poll`] until it returns [`Step::Wait`] or a
//! final step, and carry out what it returns.
//!
//! # Windows and progress
//!
//! An end that is on offer occupies its rank's window until the transfer has ended, whether or not the other end is on
//! offer too.
//!
//! Where ends are offered in listed order, they get to the end of their lists with W = 1 already if both ends of every
//! transfer rank it alike, as all [`Order`]s do: of the transfers that are left, the first comes next at both of its
//! ends.
//!
//! Exchanges that are open together share a window. Their transfers are listed exchange by exchange, alike at both
//! ends, because an exchange that joins the one before is not opened before that is. Those with a peer for which an earlier
//! exchange has something left are passed over until that has ended, which frees room for them; so the first of all that are
//! left is on offer at both of its ends.
//!
//! Under [`Order::AnyReady`] receivers choose. A rank announces all sends of an exchange when it opens it
//! ([`Step::Announce`]), which occupies no window. A machine with room offers the first receive, in listed order, that
//! its sender has announced, and the first send that its receiver has on offer; it knows of both by
//! [`Input::PeerReady`]. So late ranks occupy nobody's window. Nothing stands still, with any window and whenever the
//! news comes: a receive on offer that did not move would wait for room at its sender, whose open sends all have their
//! receivers and move; and where no receive is on offer, all windows have room for the next one that is announced.

mod exchanges;
mod interface;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use self::exchanges::Open;
use crate::plan::{Content, Exchange, Library, Maximum, Op, OpKind, Program, Transfer, TransferKey};
use crate::{Failure, FailureKind, Lane, OpId, Order, SizeId};

pub use self::interface::{
    Capabilities, Direction, Input, Pending, RankStatus, Readiness, Step, TransferId, TransferOrder,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Pending,
    Issued,
    Completed,
}

/// Drives one program once. See the module documentation.
#[derive(Debug)]
pub struct Machine {
    program: Arc<Program>,
    capabilities: Capabilities,
    start_s: f64,
    /// When each op is due, in seconds since the start.
    deadlines_s: Option<Arc<[f64]>>,
    states: Vec<State>,
    /// Dependencies of each op that do not allow it yet.
    blockers: Vec<usize>,
    dependents: Vec<Vec<OpId>>,
    ready: Ready,
    /// Ops in flight, by lane.
    in_flight: [u32; Lane::ALL.len()],
    /// Where devices order ops: exchanges and calls of a library that have not been issued, in program order, by lane.
    calls: [VecDeque<OpId>; Lane::ALL.len()],
    exchanges: Vec<Open>,
    has_joins: bool,
    /// Whether the order of any exchange follows peers ([`Order::follows_peers`]).
    follows_peers: bool,
    /// Transfers that peers have on offer in exchanges that this rank has not opened yet.
    early: BTreeSet<TransferKey>,
    sizes: Sizes,
    completed: usize,
    failure: Option<Failure>,
}

impl Machine {
    /// A machine at the beginning of its program; `start_s` is when the iteration starts.
    ///
    /// # Panics
    /// If the capabilities contradict one another: a device that orders ops by itself cannot have its transfers
    /// ordered by the host. Or if the program reorders messages ([`Order::reorders`]) where a library orders them: it
    /// matches them by that order.
    pub fn new(program: Arc<Program>, capabilities: Capabilities, start_s: f64) -> Self {
        let Capabilities { readiness, transfer_order, .. } = capabilities;
        assert!(
            readiness == Readiness::Completed || transfer_order == TransferOrder::Library,
            "the machine orders transfers only where ops are issued after their dependencies have completed"
        );
        assert!(
            transfer_order == TransferOrder::Machine || !orders(&program).any(Order::reorders),
            "messages are reordered only where the machine orders transfers"
        );
        let follows_peers = orders(&program).any(Order::follows_peers);
        let has_joins = exchanges(&program).any(|exchange| exchange.joins_previous);
        let mut calls: [VecDeque<OpId>; Lane::ALL.len()] = Default::default();
        let is_queued = |op: &&Op| readiness == Readiness::Issued && is_call(&op.kind);
        for op in program.ops.iter().filter(is_queued) {
            calls[op.kind.lane() as usize].push_back(op.id);
        }
        let mut dependents = vec![Vec::new(); program.ops.len()];
        for op in &program.ops {
            for dep in &op.deps {
                dependents[dep.index()].push(op.id);
            }
        }
        let mut machine = Self {
            states: vec![State::Pending; program.ops.len()],
            blockers: program.ops.iter().map(|op| op.deps.len()).collect(),
            ready: Ready::default(),
            in_flight: [0; Lane::ALL.len()],
            calls,
            exchanges: Vec::new(),
            has_joins,
            follows_peers,
            early: BTreeSet::new(),
            sizes: Sizes::of(&program),
            completed: 0,
            failure: None,
            dependents,
            program,
            capabilities,
            start_s,
            deadlines_s: None,
        };
        let free = machine.program.ops.iter().filter(|op| op.deps.is_empty()).map(|op| op.id);
        free.collect::<Vec<_>>().into_iter().for_each(|op| machine.make_ready(op));
        machine
    }

    /// Capabilities of its executor, as given.
    pub fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    /// Ops that have ended.
    pub fn completed(&self) -> usize {
        self.completed
    }

    /// The program that it drives.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// An op of the program.
    pub fn op(&self, id: OpId) -> &Op {
        &self.program.ops[id.index()]
    }

    /// The transfer and the exchange that it belongs to.
    pub fn transfer(&self, id: TransferId) -> (&Transfer, &Exchange) {
        let exchange = self.exchange(id.op);
        (&list(exchange, id.direction)[id.index as usize], exchange)
    }

    /// Key of a transfer, on which both ends agree.
    pub fn key(&self, id: TransferId) -> TransferKey {
        let (transfer, exchange) = self.transfer(id);
        let (rank, segment) = (self.program.rank, self.op(id.op).segment);
        match id.direction {
            Direction::Send => exchange.key_of_send(rank, segment, transfer),
            Direction::Receive => exchange.key_of_receive(rank, segment, transfer),
        }
    }

    /// A size, once it is known. Any op or transfer that the machine hands out may read the sizes it uses.
    pub fn size(&self, id: SizeId) -> Option<u64> {
        self.sizes.get(id)
    }

    /// Bytes that a transfer moves; the sizes that it needs are known when it is handed out.
    pub fn transfer_bytes(&self, transfer: &Transfer) -> u64 {
        self.content_bytes(&transfer.content)
    }

    /// Bytes of a content of a transfer or a call that has been handed out.
    pub fn content_bytes(&self, content: &Content) -> u64 {
        content.bytes(|size| self.known_size(size))
    }

    /// Bytes that each rank moves, around a ring, in a call of a library that has been handed out. A call of nothing takes no
    /// time: all ranks know that.
    ///
    /// # Panics
    /// If the op is no such call.
    pub fn ring_bytes(&self, op: OpId) -> u64 {
        self.library(op).ring_bytes(|size| self.known_size(size))
    }

    /// The call of a library that an op is.
    ///
    /// # Panics
    /// If it is none.
    pub fn library(&self, op: OpId) -> &Library {
        self.op(op).kind.library().unwrap_or_else(|| panic!("op {op} is no call of a library"))
    }

    fn known_size(&self, size: SizeId) -> u64 {
        self.size(size).expect("sizes are known before their bytes move")
    }

    /// Takes in what happened. News that comes again has no effect, also when its exchange is long over; if it says another size than
    /// before, the rank fails ([`Step::Abort`]).
    ///
    /// # Panics
    /// If the executor reports what was never handed out, or if two ends define the same size.
    pub fn handle(&mut self, input: Input) {
        match input {
            Input::Completed { op, sizes } => self.op_has_ended(op, sizes),
            Input::Transferred { transfer, size } => self.transfer_has_ended(transfer, size),
            Input::PeerReady { key } => {
                if self.follows_peers && !self.exchanges.iter_mut().any(|open| open.peer_ready(key)) {
                    self.early.insert(key);
                }
            }
            Input::Failed(failure) => {
                assert_eq!(failure.rank, self.program.rank, "ranks report their own failures");
                self.failure.get_or_insert(failure);
            }
        }
    }

    /// Next step, at `now_s`.
    pub fn poll(&mut self, now_s: f64) -> Step {
        self.check_deadlines(now_s);
        if let Some(failure) = &self.failure {
            return Step::Abort(failure.clone());
        }
        let start_s = self.look_at_clock(now_s);
        if let Some(op) = self.issuable() {
            self.issue(op);
            return Step::Issue(op);
        }
        let mut wake_s = earliest(self.next_deadline().map(|(due_s, _)| due_s), start_s);
        let ordered = match self.capabilities.transfer_order {
            TransferOrder::Machine => self.exchanges.len(),
            TransferOrder::Library => 0,
        };
        for index in 0..ordered {
            if self.exchanges[index].is_idle {
                continue;
            }
            match self.advance(index, now_s) {
                Some(Step::Wait { until_s }) => wake_s = earliest(wake_s, until_s),
                Some(step) => return step,
                None => self.exchanges[index].is_idle = true,
            }
        }
        if self.completed == self.states.len() { Step::Done } else { Step::Wait { until_s: wake_s } }
    }

    fn issue(&mut self, op: OpId) {
        self.take_ready(op);
        self.states[op.index()] = State::Issued;
        let lane = self.op(op).kind.lane() as usize;
        self.in_flight[lane] += 1;
        if self.calls[lane].front() == Some(&op) {
            self.calls[lane].pop_front();
        }
        if matches!(self.op(op).kind, OpKind::Exchange(_)) {
            self.open(op);
        }
        if self.capabilities.readiness == Readiness::Issued {
            self.unblock(op);
        }
    }

    /// Whether nothing moves in an exchange whose sizes are known: executors need not even begin it.
    pub fn moves_nothing(&self, op: OpId) -> bool {
        let exchange = self.exchange(op);
        exchange.sends.iter().chain(&exchange.receives).all(|transfer| self.transfer_bytes(transfer) == 0)
    }

    /// Whether an exchange is a further step of a kernel, without a launch of its own ([`Exchange::fused`]).
    pub fn is_fused(&self, op: OpId) -> bool {
        self.exchange(op).fused
    }

    /// Whether an exchange whose sizes are known has a launch of its own: one that moves nothing has none, either.
    pub fn is_launched(&self, op: OpId) -> bool {
        !self.is_fused(op) && !self.moves_nothing(op)
    }

    fn exchange(&self, op: OpId) -> &Exchange {
        self.op(op).kind.exchange().unwrap_or_else(|| panic!("op {op} is not an exchange"))
    }

    fn unblock(&mut self, op: OpId) {
        for dependent in std::mem::take(&mut self.dependents[op.index()]) {
            let blockers = &mut self.blockers[dependent.index()];
            *blockers -= 1;
            if *blockers == 0 {
                self.make_ready(dependent);
            }
        }
    }
}

/// Deadlines: a machine whose op is overdue fails by itself, whatever its executor waits for.
impl Machine {
    /// The same machine with a deadline for each op, in seconds since the start of the iteration; infinite for none.
    ///
    /// # Panics
    /// If there are not as many deadlines as ops.
    #[must_use]
    pub fn with_deadlines(mut self, deadlines_s: Arc<[f64]>) -> Self {
        assert_eq!(deadlines_s.len(), self.program.ops.len(), "every op has a deadline");
        self.deadlines_s = Some(deadlines_s);
        self
    }

    /// When the iteration started, in the executor's seconds.
    pub fn start_s(&self) -> f64 {
        self.start_s
    }

    /// When the last op of the program is due, in the executor's seconds; infinite without deadlines.
    pub fn last_deadline_s(&self) -> f64 {
        let deadlines_s = self.deadlines_s.iter().flat_map(|deadlines_s| deadlines_s.iter().copied());
        self.start_s + deadlines_s.reduce(f64::max).unwrap_or(f64::INFINITY)
    }

    /// The op in flight that is due first, and when.
    ///
    /// Ops that have not been issued need no look: they wait for something in flight, which is due earlier.
    fn next_deadline(&self) -> Option<(f64, OpId)> {
        let deadlines_s = self.deadlines_s.as_ref()?;
        let in_flight = self.program.ops.iter().filter(|op| self.states[op.id.index()] == State::Issued);
        let due = in_flight.map(|op| (self.start_s + deadlines_s[op.id.index()], op.id));
        due.filter(|(due_s, _)| due_s.is_finite()).min_by(|a, b| a.0.total_cmp(&b.0))
    }

    fn check_deadlines(&mut self, now_s: f64) {
        if self.failure.is_some() {
            return;
        }
        if let Some((due_s, op)) = self.next_deadline().filter(|(due_s, _)| *due_s <= now_s) {
            let rank = self.program.rank;
            let detail = format!("it was due {:.3} ms after the start", 1e3 * (due_s - self.start_s));
            self.failure = Some(Failure::new(rank, Some(op), FailureKind::Timeout, detail));
        }
    }
}

/// News that comes again changes nothing, whenever it comes: transports that deliver at least once report some of it twice. News that
/// contradicts earlier news is a failure of the rank. An op or a transfer that was never handed out cannot have ended: that is a bug of the
/// executor.
impl Machine {
    fn op_has_ended(&mut self, op: OpId, sizes: Vec<(SizeId, u64)>) {
        match self.states[op.index()] {
            State::Issued => {}
            State::Completed => {
                let other = sizes.into_iter().find(|&(size, value)| self.size(size) != Some(value));
                if let Some((size, value)) = other {
                    let detail = format!(
                        "it has ended twice, with {} and {value} bytes of size {size}",
                        self.known_size(size)
                    );
                    self.contradicted(op, None, FailureKind::Device, detail);
                }
                return;
            }
            State::Pending => panic!("op {op} completed without being issued"),
        }
        sizes.into_iter().for_each(|(size, value)| self.sizes.define(size, value));
        self.states[op.index()] = State::Completed;
        self.completed += 1;
        self.in_flight[self.op(op).kind.lane() as usize] -= 1;
        self.exchanges.retain(|open| open.op != op);
        if self.capabilities.readiness == Readiness::Completed {
            self.unblock(op);
        }
    }

    fn transfer_has_ended(&mut self, id: TransferId, value: Option<u64>) {
        let brings = self.transfer(id).0.content.brings();
        let brought =
            value.map(|value| (brings.unwrap_or_else(|| panic!("transfer {id:?} carries no size")), value));
        assert_ne!(
            self.states[id.op.index()],
            State::Pending,
            "transfer {id:?} ended without being on offer"
        );
        // Of an exchange that is over, all transfers have ended.
        let open = self.exchanges.iter_mut().find(|open| open.op == id.op);
        let progress = open.map(|open| open.progress(id.direction));
        let Some(progress) = progress.filter(|progress| !progress.has_ended(id.index)) else {
            if let Some((size, value)) = brought.filter(|&(size, value)| self.size(size) != Some(value)) {
                let known = self.size(size).map_or("no".to_owned(), |known| known.to_string());
                let detail = format!("a transfer has ended twice, with {known} and {value} bytes of a size");
                self.contradicted(id.op, Some(self.key(id)), FailureKind::Transport, detail);
            }
            return;
        };
        assert!(progress.has_offered(id.index), "transfer {id:?} ended without being on offer");
        progress.open -= 1;
        progress.ended[id.index as usize] = true;
        if let Some((size, value)) = brought {
            self.sizes.define(size, value);
        }
        self.stir(id);
        if self.has_joins {
            self.release(id);
        }
    }

    /// Something was reported twice, and not alike.
    fn contradicted(&mut self, op: OpId, transfer: Option<TransferKey>, kind: FailureKind, detail: String) {
        let failure = Failure::new(self.program.rank, Some(op), kind, detail);
        self.failure.get_or_insert(Failure { transfer, ..failure });
    }
}

fn is_call(kind: &OpKind) -> bool {
    matches!(kind, OpKind::Exchange(_) | OpKind::Library(_))
}

fn orders(program: &Program) -> impl Iterator<Item = Order> {
    exchanges(program).map(|exchange| exchange.order)
}

fn exchanges(program: &Program) -> impl Iterator<Item = &Exchange> {
    program.ops.iter().filter_map(|op| op.kind.exchange())
}

fn list(exchange: &Exchange, direction: Direction) -> &[Transfer] {
    match direction {
        Direction::Send => &exchange.sends,
        Direction::Receive => &exchange.receives,
    }
}

fn earliest(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (time, None) | (None, time) => time,
    }
}

/// Ops whose dependencies allow them and that have not been issued.
#[derive(Debug, Default)]
struct Ready {
    /// Ops that may be issued, by lane: ops that wait for a busy lane, such as the coding of many flows, need not be looked at.
    of_lane: [BTreeSet<OpId>; Lane::ALL.len()],
    /// Ops whose time has not come, by the bits of that time: non-negative floats sort like their bits.
    later: BTreeSet<(u64, OpId)>,
}

impl Machine {
    /// Makes an op ready: everything that it depends on is done.
    fn make_ready(&mut self, op: OpId) {
        let Op { kind, not_before_s, .. } = self.op(op);
        let (lane, not_before_s) = (kind.lane(), *not_before_s);
        if not_before_s > 0.0 && self.capabilities.timed {
            self.ready.later.insert((not_before_s.to_bits(), op));
        } else {
            self.ready.of_lane[lane as usize].insert(op);
        }
    }

    /// Moves ops whose time has come to the issuable ones, and returns when the next one may be issued.
    fn look_at_clock(&mut self, now_s: f64) -> Option<f64> {
        while let Some(&(bits, op)) = self.ready.later.first() {
            let start_s = self.start_s + f64::from_bits(bits);
            if start_s > now_s {
                return Some(start_s);
            }
            self.ready.later.pop_first();
            let lane = self.op(op).kind.lane();
            self.ready.of_lane[lane as usize].insert(op);
        }
        None
    }

    /// The first ready op, in program order, that its lane and the host's knowledge of sizes allow.
    fn issuable(&self) -> Option<OpId> {
        let of_lane = |(lane, ready): (Lane, &BTreeSet<OpId>)| match self.capabilities.readiness {
            // Dependencies keep exchanges of a channel apart, and channels of flows share a lane.
            Readiness::Completed if lane.is_exchange() => {
                ready.iter().copied().find(|&op| self.may_be_opened(op))
            }
            Readiness::Completed => ready.first().copied().filter(|_| self.in_flight[lane as usize] == 0),
            Readiness::Issued => ready.iter().copied().find(|&op| {
                self.is_next_call(op)
                    && self.op(op).kind.host_sizes().iter().all(|&size| self.size(size).is_some())
            }),
        };
        Lane::ALL.into_iter().zip(&self.ready.of_lane).filter_map(of_lane).min()
    }

    fn take_ready(&mut self, op: OpId) {
        let lane = self.op(op).kind.lane();
        self.ready.of_lane[lane as usize].remove(&op);
    }

    /// Whether no exchange or call of the same lane is left before an op that is one. Devices carry out a lane in the order of issue, and
    /// two ranks that had different orders, as sizes reach their hosts at different times, would wait for one another.
    fn is_next_call(&self, op: OpId) -> bool {
        let kind = &self.op(op).kind;
        !is_call(kind) || self.calls[kind.lane() as usize].front() == Some(&op)
    }

    /// Whether an exchange that joins the one before it on its channel can do so: that is open, or has ended.
    fn may_be_opened(&self, op: OpId) -> bool {
        let OpKind::Exchange(exchange) = &self.op(op).kind else { return true };
        if !exchange.joins_previous {
            return true;
        }
        let is_before =
            |other: &&Op| other.kind.exchange().is_some_and(|other| other.channel == exchange.channel);
        let before = self.program.ops[..op.index()].iter().rev().find(is_before);
        before.is_none_or(|before| self.states[before.id.index()] != State::Pending)
    }
}

/// Values of the sizes of a program, as far as they are known.
/// They are those of one rank in one iteration: each is assigned once, and maxima follow from them.
#[derive(Debug)]
pub(crate) struct Sizes {
    values: Vec<Option<u64>>,
    /// Which maxima each size is an operand of; empty in programs without maxima.
    operand_of: Vec<Vec<usize>>,
    maxima: Vec<Partial>,
}

/// A maximum of which some operands are still unknown.
#[derive(Debug)]
struct Partial {
    size: SizeId,
    /// Operands that are not defined yet.
    left: usize,
    largest: u64,
}

impl Sizes {
    pub(crate) fn of(program: &Program) -> Self {
        let count = program.size_count as usize;
        let mut operand_of = vec![Vec::new(); if program.maxima.is_empty() { 0 } else { count }];
        for (index, maximum) in program.maxima.iter().enumerate() {
            maximum.of.iter().for_each(|operand| operand_of[operand.index()].push(index));
        }
        let partial = |maximum: &Maximum| Partial { size: maximum.size, left: maximum.of.len(), largest: 0 };
        Self { values: vec![None; count], operand_of, maxima: program.maxima.iter().map(partial).collect() }
    }

    pub(crate) fn get(&self, size: SizeId) -> Option<u64> {
        self.values[size.index()]
    }

    /// Defines a size and every maximum of which it was the last unknown operand.
    ///
    /// # Panics
    /// If it has a value already.
    pub(crate) fn define(&mut self, size: SizeId, value: u64) {
        let Self { values, operand_of, maxima } = self;
        assign(values, size, value);
        for &index in operand_of.get(size.index()).into_iter().flatten() {
            let maximum = &mut maxima[index];
            maximum.left -= 1;
            maximum.largest = maximum.largest.max(value);
            if maximum.left == 0 {
                assign(values, maximum.size, maximum.largest);
            }
        }
    }
}

fn assign(values: &mut [Option<u64>], size: SizeId, value: u64) {
    let slot = &mut values[size.index()];
    assert!(slot.is_none(), "size {size} is assigned twice");
    *slot = Some(value);
}
