//! Critical path of an iteration: the chain of ops and transfers that leads from its start to its end without a gap, found in the
//! simulated timeline, with a cause for each second of it.
//!
//! From the op that ends last the chain is followed backwards. An op began when the last thing ended that it waited for: a dependency, or
//! the op before it on its lane. A transfer began when the later of its two ends was on offer: an exchange had been opened, or another
//! transfer had left its window. Transfers that share a link are followed to the one that began first of those that ended before: its
//! bytes had to be moved, too. A call of a library began when the last rank issued it. Times are those of the timeline, so the parts
//! add up to the iteration.

mod index;

use std::collections::{BTreeMap, HashSet};

use zipwire_cluster::{LinkId, TransferStart};
use zipwire_scenarios::{Experiment, Variant};
use zipwire_schedule::plan::{Library, LocalKind, OpKind, Plan};
use zipwire_schedule::{CostModel, OpId, Rank};
use zipwire_timeline::{BusiestLink, CriticalPath, Timeline};

use self::index::Index;
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
    let computing = experiment.cycle.map_or(experiment.topology.ranks(), |cycle| cycle.trainers);
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
                (&topology, timeline.link_usage.as_ref()),
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
        self.costs.of(self.kind(rank, op)).launch_s
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
        let key = library.key(self.index.planned(rank, op).segment);
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
                self.take(Cause::Host, self.index.op(rank, op)?.0);
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
