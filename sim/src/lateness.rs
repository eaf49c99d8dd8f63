//! Lengths of iterations in which ranks compute for times of their own, estimated from a simulation in which ranks that are alike compute for the
//! mean, and some stand for all.
//!
//! That simulation gives each op a length: from the moment when the ops that it waits for had ended, for an exchange or a call of a library on all ranks of
//! its group, to its own end. With other durations of compute phases, ends follow by recurrence: a sum and a maximum for each op and rank, as in an event graph
//! of max-plus algebra. Contention stays that of the simulation.
//!
//! Ends are between two assumptions. At the most, an exchange begins when its last rank is there, as if nothing had moved before, and meets as much on its
//! links as in the simulation. At the least, its ranks have moved their bytes meanwhile, and what would collide comes one after the other: it is shorter by as
//! much as idle links would make it, but not by more than groups of ranks are apart. Calls of a library and sends between stages of a pipeline need all
//! ranks at once; they can only meet less.

use std::collections::HashMap;
use std::ops::Range;

use zipwire_cluster::{Group, Groups, LinkId, Topology};
use zipwire_schedule::plan::{Op, OpKind, Program};
use zipwire_schedule::{Channel, Collective, CostModel, Durations, Lane, Plan, Rank, Symmetry};
use zipwire_timeline::{Bounds, Timeline};

use crate::SimError;

/// Part of an iteration by which contention of late ranks may change it, either way.
const CONTENTION: f64 = 0.005;

/// Part of the length of an exchange of all ranks by which it may be shorter if they come one after the other, because their transfers collide less.
const COLLISIONS: f64 = 0.04;

/// A simulation in which no rank is late.
#[derive(Clone, Copy, Debug)]
pub struct OnTime<'a> {
    /// The plan, of ranks that stand for others.
    pub plan: &'a Plan,
    /// The cluster.
    pub topology: &'a Topology,
    /// Durations that each rank of the plan and those for which it stands have in common.
    pub durations: &'a Durations,
    /// The timeline that it gave.
    pub timeline: &'a Timeline,
    /// Durations of other ops.
    pub costs: CostModel,
}

/// Bounds of the lengths of some iterations with other durations, within which they are nearly always (docs/benchmarks/sim.md says for which jobs). `proceed` is asked now and then.
///
/// # Errors
/// [`SimError::Cancelled`], if `proceed` says no.
///
/// # Panics
/// If the timeline is not one of the plan, or has another number of iterations.
pub fn lengths(
    on_time: &OnTime<'_>,
    durations: &Durations,
    iterations: Range<u32>,
    proceed: &dyn Fn() -> bool,
) -> Result<Vec<Bounds>, SimError> {
    let _span = tracing::info_span!("estimate lateness", iterations = iterations.len()).entered();
    assert_eq!(on_time.timeline.iterations.len(), iterations.len(), "the same iterations");
    let capacities = on_time.topology.capacities();
    let (mut calls, mut all) = (Calls::new(), Vec::new());
    let mut rest = &on_time.timeline.spans[..];
    for iteration in iterations {
        let (spans, later) = rest.split_at(rest.partition_point(|span| span.iteration <= iteration));
        rest = later;
        let programs = on_time.plan.programs.iter();
        let mut tracks: Vec<Track> = programs.map(|program| Track::new(program, on_time.plan)).collect();
        for span in spans {
            let op = &mut tracks[on_time.plan.symmetry.place(span.rank)].ops[span.op.index()];
            match (span.lane, span.peer) {
                (Lane::Rx, _) => {}
                (Lane::Tx, peer) => {
                    op.sent.extend(peer.map(|peer| (peer, span.bytes)));
                    op.moving_s = span.end_s - span.begin_s;
                }
                _ => (op.span_s, op.bytes) = ([span.begin_s, span.end_s], span.bytes),
            }
        }
        for (track, program) in tracks.iter_mut().zip(&on_time.plan.programs) {
            track.link(program);
            track.find_savings(program, on_time, &capacities, &mut calls);
        }
        let pass = Pass { on_time, durations, iteration, tracks, seats: seats(&on_time.plan.symmetry) };
        all.push(pass.run(proceed)?);
    }
    Ok(all)
}

/// Seconds of calls of a library on idle links, which layers share.
type Calls = HashMap<(Collective, Group, u64), f64>;

/// An op of a rank that stands for others.
#[derive(Default)]
struct Timed {
    /// Begin and end in the simulation.
    span_s: [f64; 2],
    /// When all that it waits for had ended.
    ready_s: f64,
    /// Ops that it waits for.
    after: Vec<usize>,
    /// Bytes that it sends, by receiver.
    sent: Vec<(Rank, u64)>,
    /// Seconds for which the last of these, or the call of a library, moved.
    moving_s: f64,
    bytes: u64,
    /// Seconds by which idle links would shorten it.
    saving_s: f64,
    /// Whether it is an exchange whose ranks need not all be there at once.
    is_loose: bool,
    /// The least and the largest end on each rank that it stands for.
    ends_s: Vec<[f64; 2]>,
}

/// Ops of a rank that stands for others.
struct Track {
    ops: Vec<Timed>,
    /// Ops of each segment.
    segments: Vec<Vec<usize>>,
    /// Ops for whose ends nothing asks behind each segment.
    over: Vec<Vec<usize>>,
}

impl Track {
    fn new(program: &Program, plan: &Plan) -> Self {
        let of_segments = || vec![Vec::new(); plan.segments.len()];
        let timed = |_: &Op| Timed::default();
        let mut segments = of_segments();
        program.ops.iter().enumerate().for_each(|(index, op)| segments[op.segment.index()].push(index));
        Self { ops: program.ops.iter().map(timed).collect(), segments, over: of_segments() }
    }

    /// Finds what ops waited for: their dependencies, and the one before on the same lane and channel if they began no earlier than that ended.
    fn link(&mut self, program: &Program) {
        let mut before: Vec<((Lane, Option<Channel>), usize)> = Vec::new();
        let mut asked: Vec<usize> = program.ops.iter().map(|op| op.segment.index()).collect();
        for (index, op) in program.ops.iter().enumerate() {
            let lane = (op.kind.lane(), op.kind.exchange().map(|exchange| exchange.channel));
            let mut after: Vec<usize> = op.deps.iter().map(|dep| dep.index()).collect();
            match before.iter_mut().find(|(other, _)| *other == lane) {
                Some((_, last)) => {
                    if self.ops[index].span_s[0] >= self.ops[*last].span_s[1] && !after.contains(last) {
                        after.push(*last);
                    }
                    *last = index;
                }
                None => before.push((lane, index)),
            }
            for &other in &after {
                asked[other] = asked[other].max(op.segment.index());
            }
            self.ops[index].ready_s =
                after.iter().map(|&other| self.ops[other].span_s[1]).fold(0.0, f64::max);
            self.ops[index].after = after;
        }
        asked.iter().enumerate().for_each(|(index, &segment)| self.over[segment].push(index));
    }
}

impl Track {
    /// Finds by how much ops would be shorter if nothing else crossed their links.
    fn find_savings(
        &mut self,
        program: &Program,
        on_time: &OnTime<'_>,
        capacities: &[f64],
        calls: &mut Calls,
    ) {
        let OnTime { topology, costs, .. } = *on_time;
        for (timed, op) in self.ops.iter_mut().zip(&program.ops) {
            let sent = std::mem::take(&mut timed.sent);
            let idle_s = alone_s(program.rank, &sent, topology, capacities);
            timed.saving_s = match &op.kind {
                OpKind::Compute(_) | OpKind::Local(_) => continue,
                // Nobody calls a library for nothing.
                OpKind::Library(_) if timed.bytes == 0 => continue,
                OpKind::Library(library) => {
                    let alone_s = calls.entry((library.collective, library.group, timed.bytes));
                    let alone_s = alone_s
                        .or_insert_with(|| costs.call(library, topology, timed.bytes).alone_s(capacities));
                    timed.moving_s - *alone_s
                }
                // A send between stages has two ends that both must be there.
                OpKind::Exchange(exchange) if exchange.channel.flow().is_some() => {
                    let latencies_s =
                        sent.iter().map(|(peer, _)| topology.route(program.rank, *peer).latency_s);
                    timed.moving_s - latencies_s.fold(0.0, f64::max) - idle_s
                }
                OpKind::Exchange(_) => {
                    timed.is_loose = true;
                    timed.span_s[1] - timed.ready_s - idle_s
                }
            }
            .max(0.0);
        }
    }
}

/// Seconds that the sends of a rank take if no other rank sends anything, latencies left out.
fn alone_s(rank: Rank, sent: &[(Rank, u64)], topology: &Topology, capacities: &[f64]) -> f64 {
    let mut busy_s: Vec<(LinkId, f64)> = Vec::new();
    for &(peer, bytes) in sent {
        for &link in topology.route(rank, peer).links() {
            let seconds = bytes as f64 / capacities[link.index()];
            match busy_s.iter_mut().find(|(other, _)| *other == link) {
                Some((_, sum_s)) => *sum_s += seconds,
                None => busy_s.push((link, seconds)),
            }
        }
    }
    busy_s.into_iter().map(|(_, seconds)| seconds).fold(0.0, f64::max)
}

/// Track of each rank, and its place among the ranks that the track stands for.
fn seats(symmetry: &Symmetry) -> Vec<(usize, usize)> {
    let mut taken = vec![0; symmetry.members() as usize];
    let seat = |rank| {
        let track = symmetry.place(Rank(rank));
        taken[track] += 1;
        (track, taken[track] - 1)
    };
    (0..symmetry.ranks()).map(seat).collect()
}

/// A rank of a group in a segment.
struct Walker {
    rank: Rank,
    track: usize,
    seat: usize,
    /// How many ops of the segment it has done.
    done: usize,
}

/// A rank that has come to an exchange or a call.
struct Arrival {
    walker: usize,
    at_s: [f64; 2],
}

/// One iteration.
struct Pass<'a> {
    on_time: &'a OnTime<'a>,
    durations: &'a Durations,
    iteration: u32,
    tracks: Vec<Track>,
    seats: Vec<(usize, usize)>,
}

impl Pass<'_> {
    fn run(mut self, proceed: &dyn Fn() -> bool) -> Result<Bounds, SimError> {
        let plan = self.on_time.plan;
        let alike = plan.symmetry.alike() as usize;
        let mut last_s = [0.0_f64; 2];
        for (segment, among) in plan.among.iter().enumerate() {
            if !proceed() {
                return Err(SimError::Cancelled);
            }
            for track in &mut self.tracks {
                let Track { ops, segments, .. } = track;
                segments[segment].iter().for_each(|&op| ops[op].ends_s = vec![[0.0; 2]; alike]);
            }
            let groups = among.unwrap_or_else(|| Groups::whole(plan.rank_count()));
            let spread_s = self.spread_s(segment, &groups);
            groups.all().for_each(|group| self.pass(segment, &group, spread_s, &mut last_s));
            for Track { ops, over, .. } in &mut self.tracks {
                over[segment].iter().for_each(|&op| ops[op].ends_s = Vec::new());
            }
        }
        let [low_s, high_s] = last_s;
        Ok(Bounds { low_s: low_s * (1.0 - CONTENTION), high_s: high_s * (1.0 + CONTENTION) })
    }

    /// Seconds by which groups of ranks come to a segment further apart than on time.
    fn spread_s(&self, segment: usize, groups: &Groups) -> f64 {
        let late_s = |rank: Rank| {
            let (track, seat) = self.seats[rank.index()];
            let op = *self.tracks[track].segments[segment].first()?;
            let ready_s = self.ready_s(&Walker { rank, track, seat, done: 0 }, op)[0];
            Some(ready_s - self.tracks[track].ops[op].ready_s)
        };
        let joined_s = groups.all().filter_map(|group| group.ranks().filter_map(late_s).reduce(f64::max));
        let ends_s = joined_s.fold([f64::INFINITY, f64::NEG_INFINITY], |[first, last], late_s| {
            [f64::min(first, late_s), f64::max(last, late_s)]
        });
        (ends_s[1] - ends_s[0]).max(0.0)
    }

    /// A segment on the ranks of a group: each goes on to its next exchange or call, where all meet.
    fn pass(&mut self, segment: usize, group: &Group, spread_s: f64, last_s: &mut [f64; 2]) {
        let walker = |rank: Rank| {
            let (track, seat) = self.seats[rank.index()];
            Walker { rank, track, seat, done: 0 }
        };
        let mut walkers: Vec<Walker> = group.ranks().map(walker).collect();
        loop {
            let mut arrivals = Vec::new();
            for (index, walker) in walkers.iter_mut().enumerate() {
                if let Some(at_s) = self.walk(segment, walker, last_s) {
                    arrivals.push(Arrival { walker: index, at_s });
                }
            }
            if arrivals.is_empty() {
                return;
            }
            self.meet(segment, &mut walkers, &arrivals, spread_s, last_s);
        }
    }

    /// Does a rank's ops until it comes to an exchange or a call. Returns the bounds of when that is.
    fn walk(&mut self, segment: usize, walker: &mut Walker, last_s: &mut [f64; 2]) -> Option<[f64; 2]> {
        let (plan, track) = (self.on_time.plan, walker.track);
        while let Some(&op) = self.tracks[track].segments[segment].get(walker.done) {
            let ready_s = self.ready_s(walker, op);
            let Timed { span_s, ready_s: usual_s, .. } = self.tracks[track].ops[op];
            let mut length_s = span_s[1] - usual_s;
            match plan.programs[track].ops[op].kind {
                OpKind::Exchange(_) | OpKind::Library(_) => return Some(ready_s),
                OpKind::Compute(_) => length_s += self.lateness_s(segment, walker.rank, length_s),
                OpKind::Local(_) => {}
            }
            self.end(walker, op, ready_s.map(|ready_s| ready_s + length_s), last_s);
        }
        None
    }

    /// Seconds by which a compute phase takes longer than the mean, for which it takes `length_s` with what slows it.
    fn lateness_s(&self, segment: usize, rank: Rank, length_s: f64) -> f64 {
        let mean_s = self.on_time.durations.get(self.iteration, segment, rank);
        let own_s = self.durations.get(self.iteration, segment, rank);
        let slowness =
            if mean_s > 0.0 { (length_s - self.on_time.costs.host.launch_s) / mean_s } else { 1.0 };
        (own_s - mean_s) * slowness.max(1.0)
    }

    /// Ranks of a group meet in an exchange or a call.
    fn meet(
        &mut self,
        segment: usize,
        walkers: &mut [Walker],
        arrivals: &[Arrival],
        spread_s: f64,
        last_s: &mut [f64; 2],
    ) {
        let op_of = |tracks: &[Track], walker: &Walker| tracks[walker.track].segments[segment][walker.done];
        let is_whole = walkers.len() == self.seats.len();
        let (mut early_s, mut joined_s, mut usual_s) = (f64::INFINITY, [0.0_f64; 2], 0.0_f64);
        for Arrival { walker, at_s } in arrivals {
            let walker = &walkers[*walker];
            let op = &self.tracks[walker.track].ops[op_of(&self.tracks, walker)];
            usual_s = usual_s.max(op.ready_s);
            early_s = early_s.min(at_s[0] - op.ready_s);
            joined_s = [0, 1].map(|bound| joined_s[bound].max(at_s[bound]));
        }
        // As if all were as early as the first one, next to when they are there on time.
        let first_s = joined_s[0].min(usual_s + early_s);
        for arrival in arrivals {
            let walker = &mut walkers[arrival.walker];
            let op = op_of(&self.tracks, walker);
            let timed = &self.tracks[walker.track].ops[op];
            let (length_s, saving_s) = (timed.span_s[1] - usual_s, timed.saving_s);
            let low_s = if timed.is_loose {
                let collided_s = if is_whole { saving_s.min(COLLISIONS * length_s) } else { saving_s };
                let together_s = length_s - collided_s.min(spread_s + joined_s[0] - first_s);
                (first_s + together_s).max(joined_s[0] + length_s - saving_s)
            } else {
                joined_s[0] + length_s - saving_s.min(spread_s)
            };
            self.end(walker, op, [low_s, joined_s[1] + length_s], last_s);
        }
    }

    /// When all that an op of a rank waits for has ended.
    fn ready_s(&self, walker: &Walker, op: usize) -> [f64; 2] {
        let ops = &self.tracks[walker.track].ops;
        let ends_s = ops[op].after.iter().map(|&other| ops[other].ends_s[walker.seat]);
        ends_s.fold([0.0; 2], |latest, end_s| [0, 1].map(|bound| f64::max(latest[bound], end_s[bound])))
    }

    fn end(&mut self, walker: &mut Walker, op: usize, end_s: [f64; 2], last_s: &mut [f64; 2]) {
        self.tracks[walker.track].ops[op].ends_s[walker.seat] = end_s;
        *last_s = [0, 1].map(|bound| last_s[bound].max(end_s[bound]));
        walker.done += 1;
    }
}
