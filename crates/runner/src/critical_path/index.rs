//! The spans of an iteration, by what the chain asks for.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use zipwire_cluster::{LinkId, Topology};
use zipwire_schedule::plan::{CallKey, Op, OpKind, Plan, Program};
use zipwire_schedule::{Lane, OpId, Rank, SegmentId};
use zipwire_timeline::{LinkUsage, Span};

use super::{Ended, last};

/// Fraction of the length of an iteration by which equal times may differ.
const ROUNDING: f64 = 1e-12;

/// A transfer that has moved something.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moved {
    pub(super) src: Rank,
    pub(super) dst: Rank,
    pub(super) send: OpId,
    pub(super) receive: OpId,
    number: u32,
    pub(super) begin_s: f64,
    latency_s: f64,
    pub(super) end_s: f64,
}

impl Moved {
    /// When its first byte moves.
    pub(super) fn moves_s(&self) -> f64 {
        (self.begin_s + self.latency_s).min(self.end_s)
    }
}

pub(super) struct Index<'a> {
    plan: &'a Plan,
    topology: &'a Topology,
    usage: Option<&'a LinkUsage>,
    /// Seconds from the start of the run to that of the iteration.
    barrier_s: f64,
    /// Begin and end, by rank and op.
    ops: Vec<Vec<Option<(f64, f64)>>>,
    /// By rank and lane, in the order of their ends.
    lanes: Vec<[Vec<OpId>; Lane::ALL.len()]>,
    pub(super) transfers: Vec<Moved>,
    /// Transfers of each rank, by the lane of their exchange at that end, in the order of their ends.
    left: HashMap<(Rank, Lane), Vec<usize>>,
    of_exchange: HashMap<(Rank, OpId), Vec<usize>>,
    /// Transfers over each link, in the order of their ends.
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
    pub(super) fn new(
        plan: &'a Plan,
        spans: &[Span],
        (topology, usage): (&'a Topology, Option<&'a LinkUsage>),
        computing: u32,
        barrier_s: f64,
    ) -> Self {
        let last_s = spans.last().map_or(0.0, |span| span.end_s);
        let mut index = Self {
            plan,
            topology,
            usage,
            barrier_s,
            ops: plan.programs.iter().map(|program| vec![None; program.ops.len()]).collect(),
            lanes: plan.programs.iter().map(|_| Default::default()).collect(),
            transfers: Vec::new(),
            left: HashMap::new(),
            of_exchange: HashMap::new(),
            on_link: vec![Vec::new(); topology.links().count()],
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
                    let send = sends.get(&(peer, span.rank, span.tag));
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
        self.ops[rank.index()][op.index()] = Some((begin_s, end_s));
        self.lanes[rank.index()][lane as usize].push(op);
        match &self.planned(rank, op).kind {
            OpKind::Library(library) => {
                self.issuers.entry(library.key(segment)).or_default().push((rank, op));
            }
            OpKind::Compute(_) if rank.0 < self.computing => {
                let (seconds, count) = self.compute.entry(segment).or_default();
                (*seconds, *count) = (*seconds + end_s - begin_s, *count + 1);
            }
            OpKind::Compute(_) | OpKind::Local(_) | OpKind::Exchange(_) => {}
        }
    }

    fn add_transfer(&mut self, span: &Span, src: Rank, send: OpId) {
        let number = self.transfers.len();
        let route = self.topology.route(src, span.rank);
        let latency_s = route.latency_s;
        route.links().iter().for_each(|link| self.on_link[link.index()].push(number));
        self.transfers.push(Moved {
            src,
            dst: span.rank,
            send,
            receive: span.op,
            number: span.tag,
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

    /// An op of the plan.
    pub(super) fn planned(&self, rank: Rank, op: OpId) -> &'a Op {
        &self.plan.programs[rank.index()].ops[op.index()]
    }

    /// Begin and end of an op.
    pub(super) fn op(&self, rank: Rank, op: OpId) -> Option<(f64, f64)> {
        self.ops[rank.index()][op.index()]
    }

    pub(super) fn end_s(&self, ended: Ended) -> Option<f64> {
        match ended {
            Ended::Op(rank, op) => self.op(rank, op).map(|(_, end_s)| end_s),
            Ended::Transfer(transfer) => Some(self.transfers[transfer].end_s),
        }
    }

    /// The op that ends last.
    pub(super) fn last_op(&self) -> Option<Ended> {
        let ops = self.ops.iter().zip(0..).flat_map(|(ops, rank)| {
            let timed = ops.iter().zip(0..).filter_map(|(times, op)| Some(((*times)?.1, op)));
            timed.map(move |(end_s, op)| (end_s, Ended::Op(Rank(rank), OpId(op))))
        });
        last(ops).map(|(_, ended)| ended)
    }

    /// Whether a time is not behind another.
    pub(super) fn is_before(&self, time_s: f64, other_s: f64) -> bool {
        time_s <= other_s + self.rounding_s
    }

    /// The op that ended last on the lane of another, before that began.
    pub(super) fn ended_on_lane(&self, rank: Rank, op: OpId, seen: &HashSet<Ended>) -> Option<Ended> {
        let (begin_s, _) = self.op(rank, op)?;
        let lane = &self.lanes[rank.index()][self.planned(rank, op).kind.lane() as usize];
        let ended = |op: &OpId| self.op(rank, *op).is_some_and(|(_, end_s)| self.is_before(end_s, begin_s));
        let before = &lane[..lane.partition_point(ended)];
        before.iter().rev().map(|&op| Ended::Op(rank, op)).find(|ended| !seen.contains(ended))
    }

    /// The op in front of another on its lane, if both began at once.
    pub(super) fn begun_with(&self, rank: Rank, op: OpId) -> Option<OpId> {
        let lane = self.planned(rank, op).kind.lane();
        let earlier = self.plan.programs[rank.index()].ops[..op.index()].iter().rev();
        let front = earlier.filter(|other| other.kind.lane() == lane).map(|other| other.id).next()?;
        let (front_s, begin_s) = (self.op(rank, front)?.0, self.op(rank, op)?.0);
        self.is_before(begin_s, front_s).then_some(front)
    }

    /// The transfer of an exchange that ended last.
    pub(super) fn last_transfer(&self, rank: Rank, op: OpId, seen: &HashSet<Ended>) -> Option<usize> {
        let all = self.of_exchange.get(&(rank, op))?;
        all.iter().rev().copied().find(|&transfer| !seen.contains(&Ended::Transfer(transfer)))
    }

    /// The transfer that left the window of an exchange last before a time.
    pub(super) fn left_before(
        &self,
        rank: Rank,
        op: OpId,
        time_s: f64,
        seen: &HashSet<Ended>,
    ) -> Option<usize> {
        let lane = self.planned(rank, op).kind.lane();
        let all = self.left.get(&(rank, lane))?;
        let ended =
            &all[..all.partition_point(|&transfer| self.is_before(self.transfers[transfer].end_s, time_s))];
        ended.iter().rev().copied().find(|&transfer| !seen.contains(&Ended::Transfer(transfer)))
    }

    pub(super) fn call(&self, rank: Rank, op: OpId) -> Option<(f64, f64)> {
        self.calls.get(&(rank, op)).copied()
    }

    pub(super) fn issuers(&self, key: CallKey) -> impl Iterator<Item = &(Rank, OpId)> {
        self.issuers.get(&key).into_iter().flatten()
    }

    /// The first exchange of each rank of the segment and stage of one; none of a coded flow, which waits for its own ends only.
    pub(super) fn exchanges_like(&self, rank: Rank, op: OpId) -> Vec<(Rank, OpId)> {
        let one = self.planned(rank, op);
        if one.kind.exchange().is_some_and(|exchange| exchange.channel.flow().is_some()) {
            return Vec::new();
        }
        let is_like = |other: &&Op| {
            other.kind.exchange().is_some()
                && (other.segment, other.kind.stage()) == (one.segment, one.kind.stage())
        };
        let first = |program: &Arc<Program>| Some((program.rank, program.ops.iter().find(is_like)?.id));
        self.plan.programs.iter().filter_map(first).collect()
    }

    /// Mean seconds of the compute phase of an op's segment, over the ranks that have a part in it.
    pub(super) fn mean_compute_s(&self, rank: Rank, op: OpId) -> f64 {
        let segment = self.planned(rank, op).segment;
        self.compute.get(&segment).map_or(0.0, |&(seconds, count)| seconds / f64::from(count))
    }

    /// Whether an op began no later than it might.
    pub(super) fn begins_late(&self, rank: Rank, op: OpId) -> bool {
        let (not_before_s, begun) = (self.planned(rank, op).not_before_s, self.op(rank, op));
        not_before_s > 0.0 && begun.is_some_and(|(begin_s, _)| self.is_before(begin_s, not_before_s))
    }

    /// Whether a transfer began no later than it might.
    pub(super) fn starts_late(&self, moved: &Moved) -> bool {
        let sends = self.planned(moved.src, moved.send).kind.exchange().map(|exchange| &exchange.sends);
        let planned = sends.into_iter().flatten().find(|t| (t.peer, t.number) == (moved.dst, moved.number));
        planned.is_some_and(|t| t.not_before_s > 0.0 && self.is_before(moved.begin_s, t.not_before_s))
    }

    /// The earliest transfer over a link that began before `moved` and ended after that began, until a time.
    pub(super) fn shared_before(&self, link: LinkId, moved: &Moved, until_s: f64) -> Option<usize> {
        let all = &self.on_link[link.index()];
        let ended = |time_s: f64| all.partition_point(|&other| self.transfers[other].end_s <= time_s);
        let shared = all[ended(moved.moves_s())..ended(until_s)].iter().copied();
        let begins = shared.map(|other| (self.transfers[other].moves_s(), other));
        let first = begins.reduce(|a, b| if b.0 < a.0 { b } else { a });
        first.filter(|&(begin_s, _)| begin_s < moved.moves_s()).map(|(_, other)| other)
    }

    /// The link on a transfer's way that carries most of what it can while the transfer moves; `None` if nothing is known.
    pub(super) fn busiest(&self, moved: &Moved) -> Option<LinkId> {
        let usage = self.usage?;
        let (begin_s, end_s) = (self.barrier_s + moved.moves_s(), self.barrier_s + moved.end_s);
        let route = self.topology.route(moved.src, moved.dst);
        let shares = route.links().iter().map(|&link| (usage.share(link.index(), begin_s, end_s), link));
        last(shares).map(|(_, link)| link)
    }
}
