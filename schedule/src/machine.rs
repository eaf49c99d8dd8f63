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
//! Exchanges that are open together share a window. Their transfers are listed one exchange behind the other, alike at both
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

mod deadline;
mod progress;
mod standing;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::plan::{Content, Exchange, Library, Op, OpKind, Program, Transfer, TransferKey};
use crate::sizes::Sizes;
use crate::{Channel, Failure, Lane, OpId, Order, Rank, SizeId};

pub use self::standing::{Pending, Standing};

use self::progress::{Open, Progress};

/// When an op may be issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Its dependencies have completed; one op of a lane is in flight at a time. Threads and MPI.
    Completed,
    /// Its dependencies have been issued and the sizes that the host needs are known: the device orders the
    /// rest. CUDA streams.
    Issued,
}

/// Who decides when the transfers of an open exchange start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferOrder {
    /// The machine, one by one ([`Step::Transfer`]), within the window.
    Machine,
    /// The library: the exchange is one opaque call, such as an NCCL group.
    Library,
}

/// What an executor can do; the machine adapts to it, and the simulator imitates it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// When ops may be issued.
    pub readiness: Readiness,
    /// Who orders transfers.
    pub transfer_order: TransferOrder,
    /// Whether its clock means anything: if not, transfers start without regard to `not_before_s`.
    pub timed: bool,
}

/// The end of a transfer that this rank holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// It leaves this rank.
    Send,
    /// It arrives at this rank.
    Receive,
}

/// A transfer of an open exchange, by position in its list of sends or receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransferId {
    /// The exchange.
    pub op: OpId,
    /// Which list.
    pub direction: Direction,
    /// Position in the list.
    pub index: u32,
}

/// What an executor tells the machine.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// An op has ended. `sizes` holds those that it defines and that no transfer has brought yet.
    Completed {
        /// The op.
        op: OpId,
        /// Sizes that it defined.
        sizes: Vec<(SizeId, u64)>,
    },
    /// A transfer has ended at this rank. What a library moves need not be reported one by one.
    Transferred {
        /// The transfer.
        transfer: TransferId,
        /// The size that it brought, if it receives one.
        size: Option<u64>,
    },
    /// The peer has announced a send to this rank, or has its receive from this rank on offer. Needed where
    /// [`Order::follows_peers`], without effect elsewhere; may come before the exchange is open here.
    PeerReady {
        /// The transfer.
        key: TransferKey,
    },
    /// Something went wrong on this rank.
    Failed(Failure),
}

/// What the executor does next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Start the op. Under [`TransferOrder::Machine`] an exchange is only opened: its transfers follow.
    Issue(OpId),
    /// Tell the receiver of this send that it may offer its end: [`Input::PeerReady`] there.
    Announce(TransferId),
    /// Offer this end of a transfer. It starts when the other end is offered too. Where [`Order::follows_peers`], an
    /// offered receive is [`Input::PeerReady`] for its sender.
    Transfer(TransferId),
    /// All transfers of the exchange have ended: finish it (sizes reach the host) and report it completed.
    Close(OpId),
    /// Nothing to do before an input or, if given, this time in seconds.
    Wait {
        /// When to poll again without an input.
        until_s: Option<f64>,
    },
    /// The program has ended.
    Done,
    /// Release what is in flight, tell the peers, and stop.
    Abort(Failure),
}

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
    ready: BTreeSet<OpId>,
    /// Ops in flight, by lane.
    in_flight: [u32; Lane::ALL.len()],
    exchanges: Vec<Open>,
    /// Whether exchanges of a channel are open together.
    has_joins: bool,
    /// Whether the order of any exchange does.
    follows_peers: bool,
    /// What peers have on offer in exchanges that this rank has not opened yet.
    early: Vec<TransferKey>,
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
        let mut dependents = vec![Vec::new(); program.ops.len()];
        for op in &program.ops {
            for dep in &op.deps {
                dependents[dep.index()].push(op.id);
            }
        }
        Self {
            states: vec![State::Pending; program.ops.len()],
            blockers: program.ops.iter().map(|op| op.deps.len()).collect(),
            ready: program.ops.iter().filter(|op| op.deps.is_empty()).map(|op| op.id).collect(),
            in_flight: [0; Lane::ALL.len()],
            exchanges: Vec::new(),
            has_joins,
            follows_peers,
            early: Vec::new(),
            sizes: Sizes::of(&program),
            completed: 0,
            failure: None,
            dependents,
            program,
            capabilities,
            start_s,
            deadlines_s: None,
        }
    }

    /// What it was told about its executor.
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

    /// What both ends of a transfer agree on.
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

    /// Takes in what happened.
    ///
    /// # Panics
    /// If the executor reports what was never handed out, or a size twice.
    pub fn handle(&mut self, input: Input) {
        match input {
            Input::Completed { op, sizes } => {
                assert_eq!(self.states[op.index()], State::Issued, "op {op} completed without being issued");
                sizes.into_iter().for_each(|(size, value)| self.sizes.define(size, value));
                self.states[op.index()] = State::Completed;
                self.completed += 1;
                self.in_flight[self.op(op).kind.lane() as usize] -= 1;
                self.exchanges.retain(|open| open.op != op);
                if self.capabilities.readiness == Readiness::Completed {
                    self.unblock(op);
                }
            }
            Input::Transferred { transfer, size } => {
                if let Some(value) = size {
                    let brought = self.transfer(transfer).0.content.brings();
                    let size = brought.unwrap_or_else(|| panic!("transfer {transfer:?} carries no size"));
                    self.sizes.define(size, value);
                }
                let open = self.exchanges.iter_mut().find(|open| open.op == transfer.op);
                let progress = open.expect("transfers belong to open exchanges").progress(transfer.direction);
                progress.open -= 1;
                progress.ended[transfer.index as usize] = true;
                if self.has_joins {
                    self.release(transfer);
                }
            }
            Input::PeerReady { key } => {
                if self.follows_peers && !self.exchanges.iter_mut().any(|open| open.peer_ready(key)) {
                    self.early.push(key);
                }
            }
            Input::Failed(failure) => {
                assert_eq!(failure.rank, self.program.rank, "ranks report their own failures");
                self.failure.get_or_insert(failure);
            }
        }
    }

    /// What to do next, at `now_s`.
    pub fn poll(&mut self, now_s: f64) -> Step {
        self.check_deadlines(now_s);
        if let Some(failure) = &self.failure {
            return Step::Abort(failure.clone());
        }
        if let Some(op) = self.issuable() {
            self.issue(op);
            return Step::Issue(op);
        }
        let mut wake_s = self.next_deadline().map(|(due_s, _)| due_s);
        let ordered = match self.capabilities.transfer_order {
            TransferOrder::Machine => self.exchanges.len(),
            TransferOrder::Library => 0,
        };
        for index in 0..ordered {
            match self.advance(index, now_s) {
                Some(Step::Wait { until_s }) => wake_s = earliest(wake_s, until_s),
                Some(step) => return step,
                None => {}
            }
        }
        if self.completed == self.states.len() { Step::Done } else { Step::Wait { until_s: wake_s } }
    }

    /// The first ready op, in program order, that its lane and the host's knowledge of sizes allow.
    fn issuable(&self) -> Option<OpId> {
        let allowed = |op: &&OpId| {
            let kind = &self.op(**op).kind;
            match self.capabilities.readiness {
                Readiness::Completed => match kind {
                    OpKind::Exchange(exchange) if exchange.joins_previous => self.may_join(**op),
                    _ => self.in_flight[kind.lane() as usize] == 0,
                },
                Readiness::Issued => kind.host_sizes().iter().all(|&size| self.size(size).is_some()),
            }
        };
        self.ready.iter().find(allowed).copied()
    }

    /// Whether an exchange can join the one before it on its channel: that is open, or has ended.
    fn may_join(&self, op: OpId) -> bool {
        let exchange = self.exchange(op);
        let is_before =
            |other: &&Op| other.kind.exchange().is_some_and(|other| other.channel == exchange.channel);
        let before = self.program.ops[..op.index()].iter().rev().find(is_before);
        before.is_none_or(|before| self.states[before.id.index()] != State::Pending)
    }

    fn issue(&mut self, op: OpId) {
        self.ready.remove(&op);
        self.states[op.index()] = State::Issued;
        self.in_flight[self.op(op).kind.lane() as usize] += 1;
        if matches!(self.op(op).kind, OpKind::Exchange(_)) {
            self.open(op);
        }
        if self.capabilities.readiness == Readiness::Issued {
            self.unblock(op);
        }
    }

    fn open(&mut self, op: OpId) {
        let exchange = self.exchange(op);
        let progress = match self.capabilities.transfer_order {
            TransferOrder::Machine => Progress::new,
            TransferOrder::Library => Progress::all_offered,
        };
        let (sends, receives) = (progress(&exchange.sends), progress(&exchange.receives));
        let send_count = u32::try_from(exchange.sends.len()).expect("transfers are counted in 32 bits");
        let mut open = Open { op, sends, receives, listed: HashMap::new(), announced: send_count };
        if exchange.order.follows_peers() {
            open.announced = 0;
            let ids = |direction| {
                let indices = (0..).zip(list(exchange, direction)).map(|(index, _)| index);
                indices.map(move |index| TransferId { op, direction, index })
            };
            let ids = ids(Direction::Send).chain(ids(Direction::Receive));
            open.listed = ids.map(|id| (self.key(id), id)).collect();
        }
        if self.has_joins {
            for direction in [Direction::Send, Direction::Receive] {
                let moving = (0..).zip(list(exchange, direction)).filter(|(_, t)| self.transfer_bytes(t) > 0);
                let moving: Vec<(Rank, u32)> = moving.map(|(index, t)| (t.peer, index)).collect();
                let earlier =
                    self.exchanges.iter().filter(|open| self.exchange(open.op).channel == exchange.channel);
                let is_busy = |peer| earlier.clone().any(|open| open.side(direction).has_left(peer));
                open.progress(direction).expect_all(&moving, is_busy);
            }
        }
        self.early.retain(|&key| !open.peer_ready(key));
        self.exchanges.push(open);
    }

    /// The next transfer of an open exchange, its end, or the time of its next transfer; `None` when it waits
    /// for transfers to end.
    fn advance(&mut self, index: usize, now_s: f64) -> Option<Step> {
        let op = self.exchanges[index].op;
        if let Some(send) = self.announcement(index) {
            return Some(Step::Announce(send));
        }
        let mut wake_s: Option<f64> = None;
        for direction in [Direction::Send, Direction::Receive] {
            self.pass(index, direction);
            match self.admitted(index, direction, now_s) {
                Admitted::Now(transfer) => {
                    self.exchanges[index].progress(direction).offer(transfer);
                    let id = TransferId { op, direction, index: transfer };
                    return Some(Step::Transfer(id));
                }
                Admitted::At(time_s) => wake_s = earliest(wake_s, Some(time_s)),
                Admitted::Nothing => {}
            }
        }
        if wake_s.is_some() {
            return Some(Step::Wait { until_s: wake_s });
        }
        let Open { sends, receives, .. } = &self.exchanges[index];
        let exchange = self.exchange(op);
        let over = |progress: &Progress, transfers: &[Transfer]| {
            progress.open == 0 && progress.next as usize == transfers.len()
        };
        if over(sends, &exchange.sends) && over(receives, &exchange.receives) {
            self.exchanges.remove(index);
            return Some(Step::Close(op));
        }
        None
    }

    /// The next send to announce; empty ones are left out.
    fn announcement(&mut self, index: usize) -> Option<TransferId> {
        let op = self.exchanges[index].op;
        let first = self.exchanges[index].announced;
        let sends = &self.exchange(op).sends;
        let mut left = (first..).zip(&sends[first as usize..]);
        let next = left.find(|(_, transfer)| self.transfer_bytes(transfer) > 0).map(|(send, _)| send);
        let end = u32::try_from(sends.len()).expect("transfers are counted in 32 bits");
        self.exchanges[index].announced = next.map_or(end, |send| send + 1);
        next.map(|index| TransferId { op, direction: Direction::Send, index })
    }

    /// Passes over transfers that were offered out of turn, and over empty ones: both ends know that nothing moves and
    /// leave these out.
    fn pass(&mut self, index: usize, direction: Direction) {
        let op = self.exchanges[index].op;
        loop {
            let next = self.exchanges[index].progress(direction).next;
            let Some(transfer) = list(self.exchange(op), direction).get(next as usize) else { return };
            let is_empty = self.transfer_bytes(transfer) == 0;
            let progress = self.exchanges[index].progress(direction);
            if !progress.ahead.remove(&next) && !is_empty {
                return;
            }
            progress.next += 1;
        }
    }

    /// What the window of one direction admits: the first transfer of those that may be next whose time has come.
    fn admitted(&self, index: usize, direction: Direction, now_s: f64) -> Admitted {
        let open = &self.exchanges[index];
        let exchange = self.exchange(open.op);
        let transfers = list(exchange, direction);
        let (progress, window) = match direction {
            Direction::Send => (&open.sends, exchange.window.sends),
            Direction::Receive => (&open.receives, exchange.window.receives),
        };
        if self.open_together(exchange.channel, direction) >= window
            || progress.next as usize == transfers.len()
        {
            return Admitted::Nothing;
        }
        let next = if exchange.order.follows_peers() {
            progress.awaited.first().copied()
        } else if self.has_joins {
            progress.free.first().copied()
        } else {
            Some(progress.next)
        };
        let Some(next) = next else { return Admitted::Nothing };
        let begin_s = self.start_s + transfers[next as usize].not_before_s;
        if begin_s <= now_s || !self.capabilities.timed { Admitted::Now(next) } else { Admitted::At(begin_s) }
    }

    /// A transfer has ended. If it was the last one of its exchange with its peer, those of the next one can be offered: parts
    /// of what two ranks have for each other move one behind the other.
    fn release(&mut self, id: TransferId) {
        let (transfer, exchange) = self.transfer(id);
        let (peer, channel) = (transfer.peer, exchange.channel);
        let program = Arc::clone(&self.program);
        let mut together = self.exchanges.iter_mut().skip_while(|open| open.op != id.op).filter(|open| {
            let kind = &program.ops[open.op.index()].kind;
            kind.exchange().is_some_and(|exchange| exchange.channel == channel)
        });
        let is_last = together.next().is_some_and(|open| open.progress(id.direction).end(peer));
        if is_last {
            let _ = together.any(|open| open.progress(id.direction).free(peer));
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

    /// Transfers that are open in the exchanges of a channel, which share a window.
    fn open_together(&self, channel: Channel, direction: Direction) -> u32 {
        let together = self.exchanges.iter().filter(|open| self.exchange(open.op).channel == channel);
        together.map(|open| open.side(direction).open).sum()
    }

    fn exchange(&self, op: OpId) -> &Exchange {
        self.op(op).kind.exchange().unwrap_or_else(|| panic!("op {op} is not an exchange"))
    }

    fn unblock(&mut self, op: OpId) {
        for &dependent in &self.dependents[op.index()] {
            let blockers = &mut self.blockers[dependent.index()];
            *blockers -= 1;
            if *blockers == 0 {
                self.ready.insert(dependent);
            }
        }
    }
}

/// See [`Machine::admitted`].
enum Admitted {
    /// A transfer, by its position.
    Now(u32),
    /// None before this time in seconds.
    At(f64),
    /// None before a transfer ends.
    Nothing,
}

/// The order of each exchange.
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
