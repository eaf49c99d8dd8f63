//! Critical path of an iteration: the chain of ops and transfers that leads from its start to its end without a gap, found in the
//! simulated timeline, with a cause for each second of it.
//!
//! From the op that ends last the chain is followed backwards. An op began when the last thing ended that it waited for: a dependency, or
//! the op before it on its lane. A transfer began when the later of its two ends was on offer: an exchange had been opened, or another
//! transfer had left its window. Transfers that share a link are followed to the one that began first of those that ended before: its
//! bytes had to be moved, too. A call of a library began when the last rank issued it. Times are those of the timeline, so the parts
//! add up to the iteration.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use zipwire_cluster::{FoldedLinks, LinkId, Topology, TransferStart};
use zipwire_scenarios::{Experiment, Variant};
use zipwire_schedule::plan::{CallKey, Library, LocalKind, Op, OpKind, Plan, Program, Transfer};
use zipwire_schedule::{CostModel, Lane, OpId, Rank, SegmentId};
use zipwire_timeline::{BusiestLink, CriticalPath, LinkUsage, Span, Timeline};

use crate::choices::costs;

/// Cause of a second of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// A compute phase, as far as it is not longer than the mean of all ranks that have a part in it.
    Compute,
    /// The rest of a compute phase: ranks are uneven.
    Skew,
    /// Encoding, decoding and copies between.
    Codec,
    /// Adding up.
    Sums,
    /// Moving bytes, and the link of the way that is used most meanwhile.
    Link(LinkId),
    /// From the start of a transfer to its first byte.
    Latency,
    /// Launches, and waiting for sizes to reach the host.
    Host,
    /// A call of a library.
    Library,
    /// Waiting for the time before which an explicit flow does not start.
    Start,
    /// Time that nothing in the timeline explains: delays of faults.
    Other,
}

impl Cause {
    /// Its key in [`CriticalPath`].
    fn name(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Skew => "skew",
            Self::Codec => "codec",
            Self::Sums => "sums",
            Self::Link(_) => "links",
            Self::Latency => "latency",
            Self::Host => "host",
            Self::Library => "library",
            Self::Start => "start",
            Self::Other => "other",
        }
    }
}

/// Seconds of all iterations of a simulated run of a plan, by what they go to.
pub fn causes(
    experiment: &Experiment,
    variant: &Variant,
    plan: &Plan,
    timeline: &Timeline,
) -> BTreeMap<Cause, f64> {
    // Ranks that never train are not early.
    let computing =
        experiment.expect_iterations().cycle.map_or(experiment.topology.ranks(), |cycle| cycle.trainers);
    let mut seconds = BTreeMap::new();
    let mut rest = &timeline.spans[..];
    for (number, time) in (0..).zip(&timeline.iterations) {
        let count = rest.partition_point(|span| span.iteration <= number);
        let (spans, later) = rest.split_at(count);
        rest = later;
        let topology = experiment.conditions(number).topology;
        let walk = Walk {
            costs: costs(experiment, variant),
            start: experiment.start,
            index: Index::new(
                plan,
                spans,
                (&topology, timeline.link_usage.as_ref(), costs(experiment, variant)),
                computing,
                time.begin_s,
            ),
            seconds: &mut seconds,
            now_s: time.length_s,
            seen: HashSet::new(),
        };
        walk.run();
    }
    seconds
}

/// Critical path of the mean iteration of a simulated run.
pub fn critical_path(
    experiment: &Experiment,
    variant: &Variant,
    plan: &Plan,
    timeline: &Timeline,
) -> CriticalPath {
    let _span = tracing::info_span!("critical path", variant = %variant.name).entered();
    let mut path = CriticalPath::default();
    for (cause, seconds) in causes(experiment, variant, plan, timeline) {
        let seconds = seconds / timeline.iterations.len() as f64;
        *path.critical_path_s.entry(cause.name()).or_default() += seconds;
        if let Cause::Link(link) = cause
            && path.busiest_link.as_ref().is_none_or(|busiest| busiest.seconds < seconds)
        {
            path.busiest_link = Some(BusiestLink { name: experiment.topology.link_name(link), seconds });
        }
    }
    if timeline.lateness_s() > 0.0 {
        *path.critical_path_s.entry(Cause::Skew.name()).or_default() += timeline.lateness_s();
    }
    path
}

/// Link of the chain: an op or a transfer, at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Ended {
    Op(Rank, OpId),
    /// By its position in the index.
    Transfer(usize),
}

struct Walk<'a> {
    costs: CostModel,
    start: TransferStart,
    index: Index<'a>,
    seconds: &'a mut BTreeMap<Cause, f64>,
    /// Start of the part of the chain that has causes already.
    now_s: f64,
    /// Links that were visited: one that takes no time could otherwise wait for itself.
    seen: HashSet<Ended>,
}

impl Walk<'_> {
    fn run(mut self) {
        let mut next = self.index.last_op();
        while let Some(ended) = next.filter(|&ended| self.seen.insert(ended)) {
            next = match ended {
                Ended::Op(rank, op) => self.before_op(rank, op),
                Ended::Transfer(transfer) => self.before_transfer(transfer),
            };
        }
        self.take(Cause::Other, 0.0);
    }

    /// Assigns the time after `until_s` to a cause.
    fn take(&mut self, cause: Cause, until_s: f64) {
        if until_s < self.now_s {
            *self.seconds.entry(cause).or_default() += self.now_s - until_s;
            self.now_s = until_s;
        }
    }

    fn kind(&self, rank: Rank, op: OpId) -> &OpKind {
        &self.index.planned(rank, op).kind
    }

    fn launch_s(&self, rank: Rank, op: OpId) -> f64 {
        let kind = self.kind(rank, op);
        if kind.exchange().is_none_or(|exchange| exchange.grouped.is_none()) {
            return self.costs.of(kind).launch_s;
        }
        let sent = self.index.sent_bytes(rank, op);
        let of_all = |send: &Transfer| sent.get(&(send.peer, send.number)).copied().unwrap_or(0);
        let bytes = |send: &Transfer| of_all(send) / u64::from(send.times);
        let sends = kind.exchange().and_then(|of| self.costs.sends(of, rank, self.index.topology, bytes));
        sends.map_or_else(|| self.costs.of(kind).launch_s, |sends| sends.latency_s)
    }

    /// Cause of the time from the issue of an exchange until its transfers may begin.
    fn opening(&self, rank: Rank, op: OpId) -> Cause {
        let is_grouped = self.kind(rank, op).exchange().is_some_and(|exchange| exchange.grouped.is_some());
        if is_grouped { Cause::Latency } else { Cause::Host }
    }

    /// Assigns the time of an op, and gives the link that it waited for.
    fn before_op(&mut self, rank: Rank, op: OpId) -> Option<Ended> {
        let (begin_s, end_s) = self.index.op(rank, op)?;
        self.take(Cause::Other, end_s);
        let works_s = (begin_s + self.launch_s(rank, op)).min(end_s);
        match self.kind(rank, op) {
            OpKind::Compute(_) => {
                let usual_s = self.index.mean_compute_s(rank, op);
                self.take(Cause::Skew, end_s.min(begin_s + usual_s).max(works_s));
                self.take(Cause::Compute, works_s);
            }
            OpKind::Local(local) => {
                let is_sum = local.kind() == LocalKind::Reduce;
                self.take(if is_sum { Cause::Sums } else { Cause::Codec }, works_s);
            }
            OpKind::Library(library) => {
                let issuer = self.last_issuer(rank, op, library);
                if let Some((begin_s, end_s)) = self.index.call(rank, op) {
                    self.take(Cause::Host, end_s);
                    self.take(Cause::Library, begin_s);
                    return issuer.and_then(|(rank, op)| self.before(rank, op));
                }
            }
            OpKind::Exchange(_) => {
                let last = self.index.last_transfer(rank, op, &self.seen);
                if let Some(transfer) = last {
                    self.take(Cause::Host, self.index.transfers[transfer].end_s);
                    return Some(Ended::Transfer(transfer));
                }
            }
        }
        self.take(Cause::Host, begin_s);
        if self.index.begins_late(rank, op) {
            self.take(Cause::Start, 0.0);
            return None;
        }
        self.before(rank, op)
    }

    /// The link that an op waited for before it began.
    fn before(&mut self, rank: Rank, op: OpId) -> Option<Ended> {
        let deps = self.index.planned(rank, op).deps.iter().map(|&dep| Ended::Op(rank, dep));
        let ended = self.index.ended_on_lane(rank, op, &self.seen);
        let latest = self.latest(deps.chain(ended));
        // Exchanges that are open together begin in order: one may have waited only for another to begin.
        let (begin_s, _) = self.index.op(rank, op)?;
        let explains =
            |ended| self.index.end_s(ended).is_some_and(|end_s| self.index.is_before(begin_s, end_s));
        match self.index.begun_with(rank, op).filter(|_| !latest.is_some_and(explains)) {
            Some(other) => self.before(rank, other),
            None => latest,
        }
    }

    /// The link that ended last, of those that were not visited; the first among equals.
    fn latest(&self, ended: impl Iterator<Item = Ended>) -> Option<Ended> {
        let new = ended.filter(|ended| !self.seen.contains(ended));
        let timed = new.filter_map(|ended| Some((self.index.end_s(ended)?, ended)));
        last(timed).map(|(_, ended)| ended)
    }

    /// The rank that came last to a call of a library, and its op.
    fn last_issuer(&self, rank: Rank, op: OpId, library: &Library) -> Option<(Rank, OpId)> {
        let key = self.index.key(library, self.index.planned(rank, op).segment);
        let issued =
            self.index.issuers(key).filter_map(|&(rank, op)| Some((self.index.op(rank, op)?.0, (rank, op))));
        last(issued).map(|(_, issuer)| issuer)
    }

    /// Assigns the time of a transfer, and gives the link that it waited for.
    fn before_transfer(&mut self, transfer: usize) -> Option<Ended> {
        let mut moved = self.index.transfers[transfer];
        self.take(Cause::Other, moved.end_s);
        if let Some(link) = self.index.busiest(&moved) {
            // Had those been earlier that it shared the link with and that are over, it would have been, too.
            let end_s = moved.end_s;
            while let Some(earlier) = self.index.shared_before(link, &moved, end_s) {
                moved = self.index.transfers[earlier];
                self.seen.insert(Ended::Transfer(earlier));
            }
            self.take(Cause::Link(link), moved.moves_s());
        }
        self.take(Cause::Latency, moved.begin_s);
        if self.index.starts_late(&moved) {
            self.take(Cause::Start, 0.0);
            return None;
        }
        let ends = [(moved.src, moved.send), (moved.dst, moved.receive)];
        let all = match self.start {
            TransferStart::Rendezvous => Vec::new(),
            TransferStart::Barrier => self.index.exchanges_like(moved.src, moved.send),
        };
        let opened = ends.iter().chain(&all).filter_map(|&(rank, op)| {
            let open_s = self.index.op(rank, op)?.0 + self.launch_s(rank, op);
            self.index.is_before(open_s, moved.begin_s).then_some((open_s, (rank, op)))
        });
        let opened = last(opened);
        let left = ends.iter().filter_map(|&(rank, op)| {
            let left = self.index.left_before(rank, op, moved.begin_s, &self.seen)?;
            Some((self.index.transfers[left].end_s, left))
        });
        match (opened, last(left)) {
            (Some((open_s, _)), Some((left_s, left))) if left_s > open_s => Some(Ended::Transfer(left)),
            (None, Some((_, left))) => Some(Ended::Transfer(left)),
            (Some((open_s, (rank, op))), _) => {
                self.take(Cause::Other, open_s);
                self.take(self.opening(rank, op), self.index.op(rank, op)?.0);
                self.before(rank, op)
            }
            (None, None) => None,
        }
    }
}

/// Item with the largest time; the first among equals.
pub(crate) fn last<T>(timed: impl Iterator<Item = (f64, T)>) -> Option<(f64, T)> {
    timed.reduce(|a, b| if b.0 > a.0 { b } else { a })
}

/// Fraction of the length of an iteration by which equal times may differ.
const ROUNDING: f64 = 1e-12;

/// A transfer that has moved something.
#[derive(Clone, Copy, Debug)]
struct Moved {
    src: Rank,
    /// The rank that the sender sends to, and the one that stands for it.
    to: Rank,
    dst: Rank,
    send: OpId,
    receive: OpId,
    number: u32,
    bytes: u64,
    begin_s: f64,
    latency_s: f64,
    end_s: f64,
}

impl Moved {
    /// When its first byte moves.
    fn moves_s(&self) -> f64 {
        (self.begin_s + self.latency_s).min(self.end_s)
    }
}

struct Index<'a> {
    plan: &'a Plan,
    topology: &'a Topology,
    costs: CostModel,
    usage: Option<&'a LinkUsage>,
    /// Seconds from the start of the run to that of the iteration.
    barrier_s: f64,
    /// Begin and end, by rank and op.
    ops: Vec<Vec<Option<(f64, f64)>>>,
    /// By rank and lane, in the order of their ends.
    lanes: Vec<[Vec<OpId>; Lane::ALL.len()]>,
    transfers: Vec<Moved>,
    /// Transfers of each rank, by the lane of their exchange at that end, in the order of their ends.
    left: HashMap<(Rank, Lane), Vec<usize>>,
    of_exchange: HashMap<(Rank, OpId), Vec<usize>>,
    /// Links that stand for all.
    links: FoldedLinks,
    /// Transfers over each of them, in the order of their ends.
    on_link: Vec<Vec<usize>>,
    /// Calls of a library: from the last rank's coming to their end.
    calls: HashMap<(Rank, OpId), (f64, f64)>,
    issuers: HashMap<CallKey, Vec<(Rank, OpId)>>,
    computing: u32,
    /// Seconds and number of the compute phases of a segment.
    compute: HashMap<SegmentId, (f64, u32)>,
    rounding_s: f64,
}

impl<'a> Index<'a> {
    /// `spans` are those of an iteration that began at `barrier_s`, in the order of their ends. The first `computing` ranks have a part in
    /// compute phases.
    fn new(
        plan: &'a Plan,
        spans: &[Span],
        (topology, usage, costs): (&'a Topology, Option<&'a LinkUsage>, CostModel),
        computing: u32,
        barrier_s: f64,
    ) -> Self {
        let links = topology.folded(&plan.symmetry);
        let last_s = spans.last().map_or(0.0, |span| span.end_s);
        let mut index = Self {
            plan,
            topology,
            costs,
            usage,
            barrier_s,
            ops: plan.programs.iter().map(|program| vec![None; program.ops.len()]).collect(),
            lanes: plan.programs.iter().map(|_| Default::default()).collect(),
            transfers: Vec::new(),
            left: HashMap::new(),
            of_exchange: HashMap::new(),
            on_link: vec![Vec::new(); links.links().len()],
            links,
            calls: HashMap::new(),
            issuers: HashMap::new(),
            computing,
            compute: HashMap::new(),
            rounding_s: last_s * ROUNDING,
        };
        let mut sends: HashMap<(Rank, Rank, u32), OpId> = HashMap::new();
        for span in spans {
            match (span.lane, span.peer) {
                (Lane::Tx, Some(peer)) => {
                    sends.insert((span.rank, peer, span.tag), span.op);
                }
                (Lane::Rx, Some(peer)) => {
                    // Those of a transfer that stands for the receiver's.
                    let (src, dst) = plan.symmetry.pair(peer, span.rank);
                    let send = sends.get(&(src, dst, span.tag));
                    let send = *send.expect("the sender's span is in front of the receiver's");
                    index.add_transfer(span, peer, send);
                }
                (Lane::Tx | Lane::Rx, None) => {
                    index.calls.insert((span.rank, span.op), (span.begin_s, span.end_s));
                }
                _ => index.add_op(span),
            }
        }
        index
    }

    fn add_op(&mut self, span: &Span) {
        let &Span { rank, op, segment, begin_s, end_s, lane, .. } = span;
        self.ops[self.plan.symmetry.place(rank)][op.index()] = Some((begin_s, end_s));
        self.lanes[self.plan.symmetry.place(rank)][lane as usize].push(op);
        match &self.planned(rank, op).kind {
            OpKind::Library(library) => {
                let key = self.key(library, segment);
                self.issuers.entry(key).or_default().push((rank, op));
            }
            OpKind::Compute(_) if rank.0 < self.computing => {
                let (seconds, count) = self.compute.entry(segment).or_default();
                (*seconds, *count) = (*seconds + end_s - begin_s, *count + 1);
            }
            OpKind::Compute(_) | OpKind::Local(_) | OpKind::Exchange(_) => {}
        }
    }

    fn add_transfer(&mut self, span: &Span, peer: Rank, send: OpId) {
        let number = self.transfers.len();
        let (src, to) = self.plan.symmetry.pair(peer, span.rank);
        let route = self.topology.route(src, to);
        // A group of sends has its latency when it is opened.
        let is_grouped =
            self.planned(src, send).kind.exchange().is_some_and(|exchange| exchange.grouped.is_some());
        let latency_s =
            if is_grouped && self.costs.host.library.model.is_some() { 0.0 } else { route.latency_s };
        route.links().iter().for_each(|&link| self.on_link[self.links.place(link).index()].push(number));
        self.transfers.push(Moved {
            src,
            to,
            dst: span.rank,
            send,
            receive: span.op,
            number: span.tag,
            bytes: span.bytes,
            begin_s: span.begin_s,
            latency_s,
            end_s: span.end_s,
        });
        for (rank, op) in [(src, send), (span.rank, span.op)] {
            let lane = self.planned(rank, op).kind.lane();
            self.left.entry((rank, lane)).or_default().push(number);
            self.of_exchange.entry((rank, op)).or_default().push(number);
        }
    }

    /// Bytes of the sends of an exchange, by peer and number.
    fn sent_bytes(&self, rank: Rank, op: OpId) -> HashMap<(Rank, u32), u64> {
        let of_exchange = self.of_exchange.get(&(rank, op)).into_iter().flatten();
        let moved = of_exchange.map(|&number| &self.transfers[number]);
        let sent = moved.filter(|moved| moved.src == rank);
        sent.map(|moved| ((moved.to, moved.number), moved.bytes)).collect()
    }

    /// Key of a call and its images.
    fn key(&self, library: &Library, segment: SegmentId) -> CallKey {
        CallKey { first: self.plan.symmetry.lowest(&library.group), ..library.key(segment) }
    }

    /// An op of the plan.
    fn planned(&self, rank: Rank, op: OpId) -> &'a Op {
        &self.plan.program(rank).ops[op.index()]
    }

    fn op(&self, rank: Rank, op: OpId) -> Option<(f64, f64)> {
        self.ops[self.plan.symmetry.place(rank)][op.index()]
    }

    fn end_s(&self, ended: Ended) -> Option<f64> {
        match ended {
            Ended::Op(rank, op) => self.op(rank, op).map(|(_, end_s)| end_s),
            Ended::Transfer(transfer) => Some(self.transfers[transfer].end_s),
        }
    }

    /// The op that ends last.
    fn last_op(&self) -> Option<Ended> {
        let ops = self.ops.iter().zip(0..).flat_map(|(ops, place)| {
            let rank = self.plan.symmetry.member_at(place);
            let timed = ops.iter().zip(0..).filter_map(|(times, op)| Some(((*times)?.1, op)));
            timed.map(move |(end_s, op)| (end_s, Ended::Op(rank, OpId(op))))
        });
        last(ops).map(|(_, ended)| ended)
    }

    /// Whether a time is not behind another.
    fn is_before(&self, time_s: f64, other_s: f64) -> bool {
        time_s <= other_s + self.rounding_s
    }

    /// The op that ended last on the lane of another, before that began.
    fn ended_on_lane(&self, rank: Rank, op: OpId, seen: &HashSet<Ended>) -> Option<Ended> {
        let (begin_s, _) = self.op(rank, op)?;
        let lane = &self.lanes[self.plan.symmetry.place(rank)][self.planned(rank, op).kind.lane() as usize];
        let ended = |op: &OpId| self.op(rank, *op).is_some_and(|(_, end_s)| self.is_before(end_s, begin_s));
        let before = &lane[..lane.partition_point(ended)];
        before.iter().rev().map(|&op| Ended::Op(rank, op)).find(|ended| !seen.contains(ended))
    }

    /// The op in front of another on its lane, if both began at once.
    fn begun_with(&self, rank: Rank, op: OpId) -> Option<OpId> {
        let lane = self.planned(rank, op).kind.lane();
        let earlier = self.plan.program(rank).ops[..op.index()].iter().rev();
        let front = earlier.filter(|other| other.kind.lane() == lane).map(|other| other.id).next()?;
        let (front_s, begin_s) = (self.op(rank, front)?.0, self.op(rank, op)?.0);
        self.is_before(begin_s, front_s).then_some(front)
    }

    /// The transfer of an exchange that ended last.
    fn last_transfer(&self, rank: Rank, op: OpId, seen: &HashSet<Ended>) -> Option<usize> {
        let all = self.of_exchange.get(&(rank, op))?;
        all.iter().rev().copied().find(|&transfer| !seen.contains(&Ended::Transfer(transfer)))
    }

    /// The transfer that left the window of an exchange last before a time.
    fn left_before(&self, rank: Rank, op: OpId, time_s: f64, seen: &HashSet<Ended>) -> Option<usize> {
        let lane = self.planned(rank, op).kind.lane();
        let all = self.left.get(&(rank, lane))?;
        let ended =
            &all[..all.partition_point(|&transfer| self.is_before(self.transfers[transfer].end_s, time_s))];
        ended.iter().rev().copied().find(|&transfer| !seen.contains(&Ended::Transfer(transfer)))
    }

    fn call(&self, rank: Rank, op: OpId) -> Option<(f64, f64)> {
        self.calls.get(&(rank, op)).copied()
    }

    fn issuers(&self, key: CallKey) -> impl Iterator<Item = &(Rank, OpId)> {
        self.issuers.get(&key).into_iter().flatten()
    }

    /// The first exchange of each rank of the segment and stage of one; none of a coded flow, which waits for its own ends only.
    fn exchanges_like(&self, rank: Rank, op: OpId) -> Vec<(Rank, OpId)> {
        let one = self.planned(rank, op);
        if one.kind.exchange().is_some_and(|exchange| exchange.channel.flow().is_some()) {
            return Vec::new();
        }
        let is_like = |other: &&Op| {
            other.kind.exchange().is_some()
                && (other.segment, other.kind.stage()) == (one.segment, one.kind.stage())
        };
        // Those of its own group.
        let group = self.plan.among[one.segment.index()].and_then(|groups| groups.of(rank));
        let is_among = |other: Rank| group.is_none_or(|group| group.position(other).is_some());
        let first = |program: &Arc<Program>| {
            let rank = Some(program.rank).filter(|rank| is_among(*rank))?;
            Some((rank, program.ops.iter().find(is_like)?.id))
        };
        self.plan.programs.iter().filter_map(first).collect()
    }

    /// Mean seconds of the compute phase of an op's segment, over the ranks that have a part in it.
    fn mean_compute_s(&self, rank: Rank, op: OpId) -> f64 {
        let segment = self.planned(rank, op).segment;
        self.compute.get(&segment).map_or(0.0, |&(seconds, count)| seconds / f64::from(count))
    }

    /// Whether an op began no later than it might.
    fn begins_late(&self, rank: Rank, op: OpId) -> bool {
        let (not_before_s, begun) = (self.planned(rank, op).not_before_s, self.op(rank, op));
        not_before_s > 0.0 && begun.is_some_and(|(begin_s, _)| self.is_before(begin_s, not_before_s))
    }

    /// Whether a transfer began no later than it might.
    fn starts_late(&self, moved: &Moved) -> bool {
        let sends = self.planned(moved.src, moved.send).kind.exchange().map(|exchange| &exchange.sends);
        let planned = sends.into_iter().flatten().find(|t| (t.peer, t.number) == (moved.to, moved.number));
        planned.is_some_and(|t| t.not_before_s > 0.0 && self.is_before(moved.begin_s, t.not_before_s))
    }

    /// The earliest transfer over a link that began before `moved` and ended after that began, until a time.
    fn shared_before(&self, link: LinkId, moved: &Moved, until_s: f64) -> Option<usize> {
        let all = &self.on_link[self.links.place(link).index()];
        let ended = |time_s: f64| all.partition_point(|&other| self.transfers[other].end_s <= time_s);
        let shared = all[ended(moved.moves_s())..ended(until_s)].iter().copied();
        let begins = shared.map(|other| (self.transfers[other].moves_s(), other));
        let first = begins.reduce(|a, b| if b.0 < a.0 { b } else { a });
        first.filter(|&(begin_s, _)| begin_s < moved.moves_s()).map(|(_, other)| other)
    }

    /// The link on a transfer's way that carries most of what it can while the transfer moves; `None` if nothing is known.
    fn busiest(&self, moved: &Moved) -> Option<LinkId> {
        let usage = self.usage?;
        let (begin_s, end_s) = (self.barrier_s + moved.moves_s(), self.barrier_s + moved.end_s);
        let route = self.topology.route(moved.src, moved.to);
        let shares = route
            .links()
            .iter()
            .map(|&link| (usage.share(self.links.place(link).index(), begin_s, end_s), link));
        last(shares).map(|(_, link)| link)
    }
}
