//! Root cause of a failed run: from how all ranks ended, to the op in which the failure began.
//!
//! The rank that notices a failure is seldom the one that caused it. The diagnosis follows the wait-for graph across ranks from the
//! op that failed to those that wait for nobody: an op that was not issued waits for its dependencies, an exchange for the
//! exchanges of the peers whose transfers it misses, a call of a library for the ranks that have not issued it. A rank that reports
//! nothing is judged by its peers: ops that they know to have ended have ended, and the first op of which they know nothing is
//! where it stopped.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use petgraph::algo::tarjan_scc;
use petgraph::graph::{DiGraph, NodeIndex};

use crate::machine::{Pending, RankStatus};
use crate::plan::{CallKey, Op, OpKind, Plan, Program, Transfer, TransferKey};
use crate::validate::{Pair, pair_calls, pair_transfers};
use crate::{OpId, Rank, SegmentId};

/// Ranks that the text of a failed run lists at the most.
const LISTED_RANKS: usize = 16;

/// How one rank of a failed run ended.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct RankEnd {
    /// Failure that the rank reported.
    pub failure: Failure,
    /// How far it was; `None` if it could not say.
    pub status: Option<RankStatus>,
}

/// The rank and the op in which a failure began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootCause {
    /// The rank.
    pub rank: Rank,
    /// Its op; `None` if it failed outside of any.
    pub op: Option<OpId>,
    /// The op in words: `dynamic exchange of combine`; empty without one.
    pub what: String,
    /// Predicate that follows "it" in the message: how the op ended, or did not.
    pub why: &'static str,
}

/// A run that failed. Every rank has ended, and nothing that it received counts.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub struct RunFailure {
    /// The iteration that failed, from 0.
    pub iteration: u32,
    /// Seconds from the start of that iteration to its end, in the executor's time.
    pub after_s: f64,
    /// Where it began.
    pub root_cause: RootCause,
    /// The failure that was reported first.
    pub first: Failure,
    /// How each rank that did not finish ended, in rank order.
    pub ranks: Vec<Failure>,
}

impl RunFailure {
    /// Finds the root cause. `ends` holds all ranks that did not finish, in rank order; ranks that are not there had finished the
    /// iteration.
    pub fn new(
        plan: &Plan,
        deadlines: Option<&Deadlines>,
        iteration: u32,
        after_s: f64,
        first: Failure,
        ends: Vec<RankEnd>,
    ) -> Self {
        let root_cause = diagnose(plan, deadlines, iteration, &first, &ends);
        let told = |failure| Failure { culprit: Some((root_cause.rank, root_cause.op)), ..failure };
        let ranks = ends.into_iter().map(|end| told(end.failure)).collect();
        Self { iteration, after_s, first: told(first), ranks, root_cause }
    }
}

impl fmt::Display for RunFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "iteration {}: {}\n  first report: {}", self.iteration, self.root_cause, self.first)?;
        let others = || self.ranks.iter().filter(|failure| **failure != self.first);
        for failure in others().take(LISTED_RANKS) {
            write!(f, "\n  {failure}")?;
        }
        match others().count().saturating_sub(LISTED_RANKS) {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more ranks"),
        }
    }
}

impl fmt::Display for RootCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} is to blame", self.rank)?;
        if let Some(op) = self.op {
            write!(f, ", in op `{op}` ({})", self.what)?;
        }
        write!(f, ": it {}", self.why)
    }
}

/// Predicate of a sender whose transfer has not arrived.
const SENT: &str = "sent what has not arrived";

type Node = (Rank, OpId);

fn diagnose(
    plan: &Plan,
    deadlines: Option<&Deadlines>,
    iteration: u32,
    first: &Failure,
    ends: &[RankEnd],
) -> RootCause {
    let at = |(rank, op): Node, why| RootCause { rank, op: Some(op), what: describe(plan, rank, op), why };
    let pairs = pair_transfers(plan).unwrap_or_default();
    let sender = |key: &TransferKey| pairs.get(key).map(|pair| (key.src, pair.send));
    match first.kind {
        FailureKind::Corrupt => {
            if let Some(node) = first.transfer.as_ref().and_then(sender) {
                return at(node, "sent, or its link delivered, bytes that are not what it had");
            }
        }
        FailureKind::Timeout => {
            let mut known = Known::new(plan, pairs, ends);
            let roots: Vec<Node> = match first.op {
                Some(op) if known.statuses.contains_key(&first.rank) => vec![(first.rank, op)],
                _ => known.unfinished(first.rank).into_iter().collect(),
            };
            let due_s = |(rank, op): Node| {
                deadlines.map_or(f64::INFINITY, |deadlines| deadlines.of(iteration, rank)[op.index()])
            };
            if let Some((node, why)) = known.culprit(&roots, due_s) {
                return at(node, why);
            }
        }
        _ => {}
    }
    match first.op {
        Some(op) => at((first.rank, op), first.kind.describe()),
        None => RootCause { rank: first.rank, op: None, what: String::new(), why: first.kind.describe() },
    }
}

fn joined_by(program: &Program, op: OpId) -> Option<OpId> {
    let exchange = program.ops[op.index()].kind.exchange().filter(|exchange| exchange.joins_previous)?;
    let is_before =
        |other: &&Op| other.kind.exchange().is_some_and(|other| other.channel == exchange.channel);
    program.ops[..op.index()].iter().rev().find(is_before).map(|op| op.id)
}

fn describe(plan: &Plan, rank: Rank, op: OpId) -> String {
    let op = &plan.program(rank).ops[op.index()];
    let SegmentId(segment) = op.segment;
    let segment = &*plan.segments[segment as usize];
    match &op.kind {
        OpKind::Exchange(exchange) => format!("{} exchange of {segment}", exchange.stage.name()),
        OpKind::Library(library) => {
            format!("{} {} of {segment}", library.stage.name(), library.collective.name())
        }
        kind if kind.name() == segment => segment.to_owned(),
        kind => format!("{} of {segment}", kind.name()),
    }
}

/// Knowledge about a failed run, from the reports of its ranks.
struct Known<'a> {
    plan: &'a Plan,
    pairs: BTreeMap<TransferKey, Pair>,
    calls: BTreeMap<CallKey, Vec<(Rank, OpId)>>,
    statuses: HashMap<Rank, &'a RankStatus>,
    /// First op of each silent rank that nobody who speaks knows to have ended; the last one where they know of all.
    silent: BTreeMap<Rank, OpId>,
}

impl<'a> Known<'a> {
    fn new(plan: &'a Plan, pairs: BTreeMap<TransferKey, Pair>, ends: &'a [RankEnd]) -> Self {
        let statuses: HashMap<Rank, &RankStatus> =
            ends.iter().filter_map(|end| Some((end.failure.rank, end.status.as_ref()?))).collect();
        let silent = || ends.iter().filter(|end| end.status.is_none()).map(|end| end.failure.rank);
        // All are known to be silent before any of them is asked about another.
        let mut known = Self {
            plan,
            pairs,
            calls: pair_calls(plan).unwrap_or_default(),
            statuses,
            silent: silent().map(|rank| (rank, OpId(0))).collect(),
        };
        known.silent = silent().filter_map(|rank| Some((rank, known.first_unknown(rank)?))).collect();
        known
    }

    /// The first op of a silent rank that its peers do not know to have ended.
    ///
    /// A transfer that has ended at a peer proves that the exchange had begun, and so that its dependencies had ended; an
    /// exchange whose transfers have all ended has ended. A call of a library ends on all ranks at the same time.
    fn first_unknown(&self, silent: Rank) -> Option<OpId> {
        let ops = &self.plan.program(silent).ops;
        let mut ended = vec![false; ops.len()];
        for op in ops.iter().rev() {
            if self.others_in_call(silent, op).any(|(peer, call)| self.has_op_ended_at(peer, call)) {
                ended[op.id.index()] = true;
                self.end_ancestors(ops, op.id, &mut ended);
            }
            let OpKind::Exchange(exchange) = &op.kind else { continue };
            let sends = exchange.sends.iter();
            let sends = sends.map(|t| (t.peer, exchange.key_of_send(silent, op.segment, t)));
            let receives = exchange.receives.iter();
            let receives = receives.map(|t| (t.peer, exchange.key_of_receive(silent, op.segment, t)));
            let arrived: Vec<bool> =
                sends.chain(receives).map(|(peer, key)| self.has_ended_at(peer, &key)).collect();
            ended[op.id.index()] |= arrived.iter().all(|&arrived| arrived);
            if ended[op.id.index()] || arrived.iter().any(|&arrived| arrived) {
                self.end_ancestors(ops, op.id, &mut ended);
            }
        }
        ops.iter().find(|op| !ended[op.id.index()]).or(ops.last()).map(|op| op.id)
    }

    fn end_ancestors(&self, ops: &[Op], op: OpId, ended: &mut [bool]) {
        for &dep in &ops[op.index()].deps {
            if !std::mem::replace(&mut ended[dep.index()], true) {
                self.end_ancestors(ops, dep, ended);
            }
        }
    }

    /// Whether a transfer has ended at the end that `rank` holds.
    fn has_ended_at(&self, rank: Rank, key: &TransferKey) -> bool {
        let Some(pair) = self.pairs.get(key) else { return false };
        let op = if key.src == rank { pair.send } else { pair.receive };
        match self.statuses.get(&rank) {
            // What it does not say may have been empty.
            None => self.has_finished(rank) && !self.may_be_empty(rank, op, key),
            // Where nothing moves, neither end needs the other one.
            Some(status) if status.empty.contains(key) => false,
            Some(status) if status.ended[op.index()] => true,
            Some(status) => {
                status.in_flight.contains(&op) && status.pending.iter().all(|pending| pending.key != *key)
            }
        }
    }

    fn has_finished(&self, rank: Rank) -> bool {
        !self.statuses.contains_key(&rank) && !self.silent.contains_key(&rank)
    }

    fn may_be_empty(&self, rank: Rank, op: OpId, key: &TransferKey) -> bool {
        let exchange = self.plan.program(rank).ops[op.index()].kind.exchange();
        let transfers =
            exchange.map(|exchange| if key.src == rank { &exchange.sends } else { &exchange.receives });
        let peer = if key.src == rank { key.dst } else { key.src };
        let is_it = |transfer: &&Transfer| transfer.peer == peer && transfer.number == key.number;
        let transfer = transfers.into_iter().flatten().find(is_it);
        transfer.is_some_and(|transfer| transfer.content.measured_by().is_some())
    }

    /// The ops of the other ranks in the same call of a library; none of an op that is no such call.
    fn others_in_call(&self, rank: Rank, op: &Op) -> impl Iterator<Item = Node> {
        let key = op.kind.library().map(|library| library.key(op.segment));
        let ops = key.and_then(|key| self.calls.get(&key)).into_iter().flatten();
        ops.copied().filter(move |(other, _)| *other != rank)
    }

    /// Whether an op of a rank that has said something has ended, or all of its program.
    fn has_op_ended_at(&self, rank: Rank, op: OpId) -> bool {
        match self.statuses.get(&rank) {
            None => !self.silent.contains_key(&rank),
            Some(status) => status.ended[op.index()],
        }
    }

    fn missing_in_call(&self, rank: Rank, op: &Op) -> Vec<Node> {
        let is_missing = |&(other, op): &Node| match self.statuses.get(&other) {
            None => self.silent.get(&other).is_some_and(|first_unknown| *first_unknown <= op),
            Some(status) => !status.ended[op.index()] && !status.in_flight.contains(&op),
        };
        let others = self.others_in_call(rank, op).filter(is_missing);
        others.map(|(other, op)| (other, self.silent.get(&other).copied().unwrap_or(op))).collect()
    }

    fn unfinished(&self, rank: Rank) -> Option<Node> {
        let status = self.statuses.get(&rank).and_then(|status| {
            status.ended.iter().zip(0..).find(|(ended, _)| !**ended).map(|(_, op)| OpId(op))
        });
        status.or_else(|| self.silent.get(&rank).copied()).map(|op| (rank, op))
    }

    fn waits_for(&self, (rank, op): Node) -> Vec<Node> {
        let Some(status) = self.statuses.get(&rank) else { return Vec::new() };
        let program = self.plan.program(rank);
        let lane = program.ops[op.index()].kind.lane();
        let same_lane =
            || status.in_flight.iter().filter(move |op| program.ops[op.index()].kind.lane() == lane);
        let deps = &program.ops[op.index()].deps;
        let open: Vec<Node> =
            deps.iter().filter(|dep| !status.ended[dep.index()]).map(|&dep| (rank, dep)).collect();
        if !status.in_flight.contains(&op) {
            if !open.is_empty() {
                return open;
            }
            // Ready, but its lane is taken, or what it joins has not begun.
            let joined = joined_by(program, op).filter(|joined| !status.ended[joined.index()]);
            return same_lane().copied().chain(joined).map(|other| (rank, other)).collect();
        }
        let pending = || status.pending.iter().filter(|pending| pending.op == op);
        let others = pending().filter_map(|pending| self.other_end(rank, &pending.key));
        // Exchanges of a channel that are open together share its window: what is not on offer waits for what is, and for what is left
        // of exchanges before.
        let is_send = |pending: &Pending| pending.key.src == rank;
        let fills = |offered: &&Pending| {
            let is_held = pending().any(|held| !held.offered && is_send(held) == is_send(offered));
            (offered.offered || offered.op < op) && offered.op != op && is_held
        };
        let filling = status.pending.iter().filter(fills).map(|pending| pending.op);
        let filling = filling.filter(|other| same_lane().any(|op| op == other)).map(|other| (rank, other));
        let call = self.missing_in_call(rank, &program.ops[op.index()]);
        // Where a device orders ops, what is issued may wait for others of its lane, or for what it depends on. It gets exchanges and
        // calls in program order.
        let is_call = |op: OpId| {
            let kind = &program.ops[op.index()].kind;
            kind.exchange().is_some() || kind.library().is_some()
        };
        let is_behind = |other: OpId| if is_call(op) { other < op } else { other != op };
        let queued = same_lane().filter(|other| status.is_queued && is_behind(**other));
        let queued = queued.map(|&other| (rank, other));
        let others: Vec<Node> = others.chain(filling).chain(call).collect();
        others.into_iter().chain(open).chain(queued).collect()
    }

    /// The peer's exchange of a transfer, unless it has ended.
    fn other_end(&self, rank: Rank, key: &TransferKey) -> Option<Node> {
        let pair = self.pairs.get(key)?;
        let (peer, op) = if key.src == rank { (key.dst, pair.receive) } else { (key.src, pair.send) };
        if let Some(&op) = self.silent.get(&peer) {
            return Some((peer, op));
        }
        let status = self.statuses.get(&peer)?;
        (!status.ended[op.index()]).then_some((peer, op))
    }

    /// Culprit among everything that `roots` wait for, directly or not: an op that waits for nobody else; of several, the one that
    /// was due first.
    fn culprit(&mut self, roots: &[Node], due_s: impl Fn(Node) -> f64) -> Option<(Node, &'static str)> {
        let mut graph: DiGraph<Node, ()> = DiGraph::new();
        let mut nodes: HashMap<Node, NodeIndex> = HashMap::new();
        let mut pending: Vec<Node> = roots.to_vec();
        for &root in roots {
            nodes.insert(root, graph.add_node(root));
        }
        while let Some(node) = pending.pop() {
            for next in self.waits_for(node) {
                let to = *nodes.entry(next).or_insert_with(|| {
                    pending.push(next);
                    graph.add_node(next)
                });
                graph.add_edge(nodes[&node], to, ());
            }
        }
        let components = tarjan_scc(&graph);
        let ends = components.into_iter().filter(|component| {
            let inside: BTreeSet<NodeIndex> = component.iter().copied().collect();
            component.iter().all(|&node| graph.neighbors(node).all(|next| inside.contains(&next)))
        });
        let candidates = ends.filter_map(|component| {
            let members: Vec<Node> = component.iter().map(|&node| graph[node]).collect();
            self.culprit_among(&members)
        });
        candidates.min_by(|(a, _), (b, _)| due_s(*a).total_cmp(&due_s(*b)).then_with(|| a.cmp(b)))
    }

    /// The culprit among ops that wait for nobody but one another: the sender of a transfer that both ends have on offer; else an
    /// end on offer whose transfer has ended at its receiver; else the sender of one that has ended for it, and that its receiver
    /// still has on offer; else an op that stands alone.
    fn culprit_among(&self, members: &[Node]) -> Option<(Node, &'static str)> {
        let first = *members.iter().min()?;
        if self.silent.contains_key(&first.0) {
            return Some((first, "has said nothing more"));
        }
        let statuses = members.iter().filter_map(|(rank, op)| Some((*op, *self.statuses.get(rank)?)));
        let on_offer: BTreeSet<(TransferKey, Rank)> = statuses
            .flat_map(|(op, status)| {
                let of_op = status.pending.iter().filter(move |pending| pending.op == op && pending.offered);
                of_op.map(|pending| (pending.key, status.rank))
            })
            .collect();
        let is_with = |key: &TransferKey, rank| on_offer.contains(&(*key, rank));
        let find = |fits: &dyn Fn(&TransferKey) -> bool| {
            let send = |key: &TransferKey| Some((key.src, self.pairs.get(key)?.send));
            on_offer.iter().map(|(key, _)| key).filter(|key| fits(key)).find_map(send)
        };
        let lost = find(&|key| is_with(key, key.src) && is_with(key, key.dst));
        // What one end has on offer is not empty.
        let has_ended = |key: &TransferKey, rank| self.has_finished(rank) || self.has_ended_at(rank, key);
        let unheard = || find(&|key| is_with(key, key.src) && has_ended(key, key.dst));
        let sent = || find(&|key| is_with(key, key.dst) && has_ended(key, key.src));
        let culprit = lost.map(|send| (send, SENT));
        let culprit = culprit.or_else(|| Some((unheard()?, "has not heard that what it sent has arrived")));
        culprit.or_else(|| Some((sent()?, SENT))).or(Some((first, "did not end in time")))
    }
}

// How a rank ends when it does not end well.

/// Kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub enum FailureKind {
    /// An op is overdue, or nothing happened for too long.
    Timeout,
    /// A peer is gone.
    PeerLost,
    /// Bytes that arrived are not what was sent.
    Corrupt,
    /// Ranks were about to run different plans, or the same plan with different codecs.
    Mismatch,
    /// The device or thread that carries out ops failed.
    Device,
    /// The wire failed.
    Transport,
    /// Its process did nothing for so long that others gave up.
    StoodStill,
    /// Somebody else failed first, or the user asked to stop.
    Cancelled,
}

impl FailureKind {
    /// Meaning in words, as the predicate of a sentence about the rank.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Timeout => "made no progress in time",
            Self::PeerLost => "lost a peer",
            Self::Corrupt => "received corrupt bytes",
            Self::Mismatch => "was to run something else",
            Self::Device => "had a device failure",
            Self::Transport => "had a transport failure",
            Self::StoodStill => "stood still",
            Self::Cancelled => "was cancelled",
        }
    }
}

/// The first thing that went wrong on a rank.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Failure {
    /// The rank that reports it.
    pub rank: Rank,
    /// The op that failed, if one did.
    pub op: Option<OpId>,
    /// The transfer that failed, if one did.
    pub transfer: Option<TransferKey>,
    /// Kind of the failure.
    pub kind: FailureKind,
    /// Details for people; may be empty.
    pub detail: String,
    /// The rank and the op in which it all began, once the reports of all ranks have been put together.
    pub culprit: Option<(Rank, Option<OpId>)>,
}

impl Failure {
    /// A failure that is not that of a transfer.
    pub fn new(rank: Rank, op: Option<OpId>, kind: FailureKind, detail: impl Into<String>) -> Self {
        Self { rank, op, transfer: None, kind, detail: detail.into(), culprit: None }
    }

    /// Failure of a transfer: the bytes that arrived at `rank` in exchange `op` are not those that were sent.
    pub fn corrupt_transfer(rank: Rank, op: OpId, key: TransferKey) -> Self {
        let detail = format!("the checksum of what rank {} sent does not fit", key.src);
        Self { transfer: Some(key), ..Self::new(rank, Some(op), FailureKind::Corrupt, detail) }
    }

    /// A rank that has said nothing until all deadlines were over.
    pub fn died(rank: Rank) -> Self {
        Self::new(rank, None, FailureKind::Timeout, "it has said nothing until all deadlines were over")
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} {}", self.rank, self.kind.describe())?;
        if let Some(op) = self.op {
            write!(f, " in op `{op}`")?;
        }
        if !self.detail.is_empty() {
            write!(f, ": {}", self.detail)?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}

// When the ops of a run must have ended.
//
// A deadline counts from the expected completion of an op, not from its beginning: what merely waits for a stalled rank
// is expected later than what stalled, so the culprit is noticed first.

/// By how much two simulations of the same may differ because one of them looks at its clock more often.
const ROUNDING: f64 = 1e-9;

/// How much later than expected an op may end: `factor` x expected + `floor_s`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slack {
    /// At least 1.
    pub factor: f64,
    /// Seconds, not negative.
    pub floor_s: f64,
}

/// Deadlines of all ops, by iteration and rank, in seconds since the start of the iteration. Outside the plan and its
/// digest: the same plan is expected to take different times on different clusters.
#[derive(Clone, Debug, PartialEq)]
pub struct Deadlines {
    rank_count: usize,
    programs: Vec<Arc<[f64]>>,
}

impl Deadlines {
    /// Deadlines of `iterations` iterations of a plan. `expected` lists iteration, rank, op and expected seconds from the
    /// start of the iteration to the end of the op; an op that it leaves out has no deadline.
    ///
    /// # Panics
    /// If `expected` names what is not in the plan.
    pub fn new(
        plan: &Plan,
        iterations: u32,
        slack: Slack,
        expected: impl IntoIterator<Item = (u32, Rank, OpId, f64)>,
    ) -> Self {
        let rank_count = plan.programs.len();
        let none = plan.programs.iter().map(|program| vec![f64::INFINITY; program.ops.len()]);
        let none: Vec<Vec<f64>> = none.collect();
        let mut seconds: Vec<Vec<f64>> = (0..iterations).flat_map(|_| none.iter().cloned()).collect();
        for (iteration, rank, op, expected_s) in expected {
            let deadline_s = slack.factor * expected_s * (1.0 + ROUNDING) + slack.floor_s;
            seconds[iteration as usize * rank_count + rank.index()][op.index()] = deadline_s;
        }
        Self { rank_count, programs: seconds.into_iter().map(Arc::from).collect() }
    }

    /// Deadlines of one rank in one iteration, by [`OpId`]; infinite where there is none.
    pub fn of(&self, iteration: u32, rank: Rank) -> Arc<[f64]> {
        Arc::clone(&self.programs[iteration as usize * self.rank_count + rank.index()])
    }

    /// When the last op of an iteration must have ended, on any rank.
    pub fn last_s(&self, iteration: u32) -> f64 {
        let first = iteration as usize * self.rank_count;
        let programs = &self.programs[first..first + self.rank_count];
        programs.iter().flat_map(|seconds| seconds.iter().copied()).fold(0.0, f64::max)
    }
}
