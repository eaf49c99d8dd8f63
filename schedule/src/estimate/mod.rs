//! How long a collective takes in each algorithm, in closed form: what the choice between algorithms rests on.
//!
//! All ranks are taken to come at the same time. Where blocks are alike, so are all steps of a ring, and a ring of
//! thousands of ranks costs as much as one of its steps. Chains and trees, whose steps differ, are gone through step by step (`Lockstep`), and
//! so are calls whose blocks differ (`uneven`), each rank at its own pace.
//! A step takes the latency of its flows and the time in which the fullest link moves what crosses it; so what is predicted is exact where
//! the flows on that link are equal and begin together. What a simulation knows besides, skew and neighbours, is left out.
//! `cargo test -p zipwire-sim --test it algorithms::` holds both against one another.

mod broadcast;
mod reduction;
mod rounds;
mod sharing;
mod uneven;

use std::cell::OnceCell;

use zipwire_cluster::{CodecCost, Fabric, HostCost, LinkId, Route, Topology};
use zipwire_codec::{DType, FrameShape, Layout, Spec};

use crate::planner::{Choice, PART_ALIGN, range};
use crate::rank_order::{Members, RankOrder};
use crate::tokens::node;
use crate::{Algorithm, CallKind, Protocol, Rank, Work};

/// Cluster and codec figures that an estimate rests on.
#[derive(Clone, Copy, Debug)]
pub struct Costs<'a> {
    /// Its links.
    pub topology: &'a Topology,
    /// Host overheads of an op, and costs of a library's calls.
    pub host: &'a HostCost,
    /// The codec; needed by coded protocols.
    pub codec: Option<CodecCost>,
    /// Raw bytes over coded bytes.
    pub ratio: f64,
}

/// The way in which a call travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// Its algorithm.
    pub algorithm: Algorithm,
    /// See [`Choice::channels`].
    pub channels: u32,
    /// See [`Choice::slices`].
    pub slices: u32,
}

/// Slices between which a choice is made.
const SLICES: [u32; 5] = [1, 2, 4, 8, 16];

/// The way that takes least time, and the seconds; `None` for work that has only one way. What `choice` says of
/// the algorithm is kept, and so is what `channels` and `slices` say.
///
/// Where the cluster has costs of a library for the collective, native calls are the library's, and frames travel in calls of the library,
/// hierarchically or straight: rings and trees are what the library makes of its calls. Where it has none, the least of all that can be
/// planned is taken. `Choice::channels` and `Choice::slices` are not asked.
pub fn best(
    work: &Work,
    choice: &Choice,
    costs: &Costs<'_>,
    (channels, slices): (Option<u32>, Option<u32>),
    may_call: bool,
) -> Option<(Way, f64)> {
    let is_coded = choice.protocol.is_coded();
    let ranks = costs.topology.ranks();
    let library = work.collective(ranks).filter(|of| may_call && costs.host.library.knows(*of));
    let is_candidate = |algorithm: &Algorithm| match (choice.algorithm, algorithm) {
        _ if is_coded && !algorithm.takes_frames(work.is_reduction()) => false,
        (_, Algorithm::PaddedRing) if !is_coded => false,
        (Some(chosen), _) if can_be(work, chosen, is_coded) => chosen == *algorithm,
        (_, Algorithm::Library) => library.is_some(),
        _ if library.is_none() => true,
        // The library's own rings and trees are in its costs: planned ones, on links that lose nothing, would not be alike.
        _ => is_coded && !algorithm.is_of_libraries(),
    };
    let network = Network::new(costs.topology);
    let channels = channels.unwrap_or_else(|| costs.topology.ring_channels());
    let candidates = work.algorithms().iter().copied().filter(is_candidate);
    let ways = candidates.flat_map(|algorithm| {
        let takes = takes_slices(work, algorithm);
        let all: Vec<u32> = match slices {
            Some(slices) if takes => vec![slices],
            None if takes => SLICES.to_vec(),
            _ => vec![1],
        };
        all.into_iter().map(move |slices| Way { algorithm, channels, slices })
    });
    let timed = ways.map(|way| (way, Call { work, choice, costs, network: &network, way }.seconds()));
    // The first of equals: lists of algorithms begin with the plainest, and fewer slices are fewer steps.
    timed.reduce(|best, other| if other.1 < best.1 { other } else { best })
}

fn can_be(work: &Work, algorithm: Algorithm, is_coded: bool) -> bool {
    work.algorithms().contains(&algorithm) && (!is_coded || algorithm.takes_frames(work.is_reduction()))
}

fn takes_slices(work: &Work, algorithm: Algorithm) -> bool {
    match algorithm {
        Algorithm::Ring => {
            work.is_reduction() || matches!(work, Work::Call { kind: CallKind::Broadcast { .. }, .. })
        }
        Algorithm::Tree => work.is_reduction(),
        _ => false,
    }
}

struct Call<'a> {
    work: &'a Work,
    choice: &'a Choice,
    costs: &'a Costs<'a>,
    network: &'a Network<'a>,
    way: Way,
}

impl Call<'_> {
    fn seconds(&self) -> f64 {
        let ranks = self.ranks();
        if ranks == 1 {
            return 0.0;
        }
        match self.work {
            Work::Call { dtype, kind: CallKind::AllGather { bytes }, .. } if uneven::differ(bytes) => {
                self.uneven_gather(*dtype, bytes)
            }
            Work::Call { kind: CallKind::AllGather { bytes }, .. } => self.coded_gather(longest(bytes)),
            Work::Call { kind: CallKind::Broadcast { bytes, root, to }, .. } => {
                let (members, sizes) = (Members::new(*root, *to), 8.0 * self.pieces(*bytes));
                self.broadcast(*bytes, members)
                    + self.coding(*bytes, *bytes, || self.root_to_all(members, sizes))
            }
            Work::Call { dtype, kind: CallKind::ReduceScatter { bytes }, .. } if uneven::differ(bytes) => {
                self.uneven_scatter(*dtype, bytes)
            }
            Work::Call { dtype, kind: CallKind::ReduceScatter { bytes }, .. } => {
                self.scatter(*dtype, longest(bytes))
            }
            Work::Call { dtype, kind: CallKind::AllReduce { bytes }, .. } => self.all_reduce(*dtype, *bytes),
            Work::Call { kind: CallKind::AllToAll { .. } | CallKind::Send { .. }, .. }
            | Work::Transfers { .. }
            | Work::Compute { .. } => 0.0,
        }
    }

    fn ranks(&self) -> u32 {
        self.costs.topology.ranks()
    }

    /// Seconds of encoding and decoding so many raw bytes, and of the sizes that travel before; none if nothing is coded.
    fn coding(&self, encoded: u64, decoded: u64, sizes: impl Fn() -> Load) -> f64 {
        let Some(codec) = self.costs.codec.filter(|_| self.choice.protocol.is_coded()) else { return 0.0 };
        let HostCost { launch_s, sync_s, .. } = self.costs.host;
        let sizes_s = match self.choice.protocol {
            Protocol::SizeFirst | Protocol::StaticFirst => launch_s + sizes().seconds() + sync_s,
            _ => 0.0,
        };
        let code = |bytes: u64, speed: f64| codec.launch_s + bytes as f64 / speed;
        code(encoded, codec.encode_bytes_per_s) + sizes_s + code(decoded, codec.decode_bytes_per_s)
    }

    /// Bytes on the way of so many raw ones.
    fn wire(&self, len: f64) -> f64 {
        let ratio = if self.choice.protocol.is_coded() { self.costs.ratio } else { 1.0 };
        len / ratio
    }

    /// Exchanges in which a block travels: those of its sections.
    fn stages(&self) -> f64 {
        if self.choice.protocol == Protocol::StaticFirst { 2.0 } else { 1.0 }
    }

    /// Seconds of `steps` exchanges of a load, each for every stage of a protocol.
    fn steps(&self, steps: u32, is_kernel: bool, load: Load) -> f64 {
        let stages = self.stages();
        let launches = if is_kernel { 1.0 } else { f64::from(steps) };
        stages * launches * self.costs.host.launch_s
            + f64::from(steps) * (stages * load.latency_s + load.moving_s)
    }

    /// An All-Gather of blocks of so many raw bytes, with what coding takes.
    fn coded_gather(&self, block: u64) -> f64 {
        let sizes = 8.0 * self.pieces(block);
        self.gather(block)
            + self.coding(block, block * u64::from(self.ranks() - 1), || self.network.pairs(sizes))
    }

    fn gather(&self, block: u64) -> f64 {
        let (ranks, wire) = (self.ranks(), self.wire(block as f64));
        match self.way.algorithm {
            Algorithm::Library => self.call_s(wire, u64::from(ranks - 1)),
            Algorithm::Ring | Algorithm::PaddedRing => {
                let is_padded = self.way.algorithm == Algorithm::PaddedRing;
                // All slices of a channel move at once.
                let slices = self.parts(block, self.way.slices);
                let of_channel = |channel: usize| slices.iter().map(|slice| slice[channel]).sum();
                let mut parts: Vec<f64> = (0..slices[0].len()).map(of_channel).collect();
                if is_padded {
                    // All parts are padded to the first one, if they are there.
                    let first = parts[0];
                    parts.iter_mut().filter(|part| **part > 0.0).for_each(|part| *part = first);
                }
                self.steps(ranks - 1, is_padded || !self.choice.protocol.is_coded(), self.around(&parts))
            }
            Algorithm::Hierarchical if self.has_levels() => {
                let within = wire * f64::from(self.costs.topology.nodes);
                self.steps(1, false, self.network.between(wire))
                    + self.steps(1, false, self.network.within(within))
            }
            _ => self.steps(1, false, self.network.pairs(wire)),
        }
    }

    fn rings(&self) -> Vec<RankOrder> {
        let topology = self.costs.topology;
        let size = topology.gpus_per_node;
        let channels = if topology.nodes > 1 { self.way.channels.clamp(1, size) } else { 1 };
        (0..channels).map(|channel| RankOrder::of_ring(channel, channels, size)).collect()
    }

    /// Raw bytes of each part of a block, by slice and then by channel. Short blocks have fewer parts.
    fn parts(&self, block: u64, slices: u32) -> Vec<Vec<f64>> {
        let channels = self.rings().len() as u32;
        let part = |slice: u32, channel: u32| {
            let (begin, end) = range(block, channel * slices + slice, channels * slices, PART_ALIGN);
            (end - begin) as f64
        };
        (0..slices).map(|slice| (0..channels).map(|channel| part(slice, channel)).collect()).collect()
    }

    /// Pieces of a block, each of which has a size.
    fn pieces(&self, block: u64) -> f64 {
        if !matches!(self.way.algorithm, Algorithm::Ring | Algorithm::PaddedRing) {
            return 1.0;
        }
        self.parts(block, self.way.slices).iter().flatten().filter(|&&part| part > 0.0).count() as f64
    }

    /// One step around all rings, of so many raw bytes on each.
    fn around(&self, bytes: &[f64]) -> Load {
        let ranks = self.ranks();
        let rings = self.rings();
        let flows = rings.iter().zip(bytes).flat_map(|(order, &bytes)| {
            (0..ranks).map(move |position| Flow {
                src: order.rank(position, ranks),
                dst: order.rank((position + 1) % ranks, ranks),
                bytes: self.wire(bytes),
            })
        });
        self.network.load(flows)
    }

    fn has_levels(&self) -> bool {
        let topology = self.costs.topology;
        topology.nodes > 1 && topology.gpus_per_node > 1
    }

    /// Seconds of calls of a library, one for each stage, in which each rank moves so many blocks.
    fn call_s(&self, block: f64, blocks: u64) -> f64 {
        let collective = self
            .work
            .collective(self.ranks())
            .expect("libraries have the collectives that have this algorithm");
        let of_stage = |share: f64| {
            let ring_bytes = (block * blocks as f64 * share) as u64;
            let activity = self.costs.host.library.activity(collective, self.costs.topology, ring_bytes);
            let activity = activity.expect("it is a candidate only where there is a cost");
            activity.alone_s(&self.network.capacities)
        };
        stages(self.choice, self.work.dtype(), self.costs.ratio).into_iter().map(of_stage).sum()
    }
}

/// Shares of the bytes of a call that its stages move, of frames of a ratio: of `static-first` the static sections, which depend on the number of
/// values alone, and what is left; half of it each if the codec is not known.
pub fn stages(choice: &Choice, dtype: Option<DType>, ratio: f64) -> Vec<f64> {
    const VALUES: usize = 1 << 20;
    if choice.protocol != Protocol::StaticFirst {
        return vec![1.0];
    }
    let codec = choice.codec.as_ref().map(Spec::codec).zip(dtype).filter(|(codec, of)| codec.supports(*of));
    let first = codec.map_or(0.5, |(codec, dtype)| {
        let len = codec.static_len(FrameShape::new(Layout::Split, dtype, VALUES));
        len as f64 * ratio / (VALUES * dtype.width()) as f64
    });
    vec![first, (1.0 - first).max(0.0)]
}

fn longest(bytes: &[u64]) -> u64 {
    bytes.iter().copied().max().unwrap_or(0)
}

/// Bytes from one rank to another.
#[derive(Clone, Copy, Debug)]
struct Flow {
    src: Rank,
    dst: Rank,
    bytes: f64,
}

/// Time of flows that begin together.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    /// Seconds before the last of them moves.
    latency_s: f64,
    /// Seconds in which the fullest link moves what crosses it.
    moving_s: f64,
}

impl Load {
    fn seconds(self) -> f64 {
        self.latency_s + self.moving_s
    }
}

struct Network<'a> {
    topology: &'a Topology,
    capacities: Vec<f64>,
    /// Whether all nodes are alike and share no link, so that what leaves one of them says what all links do.
    is_uniform: bool,
    /// Load of one byte from every rank to every other one, computed on first use.
    pairs: OnceCell<Load>,
}

impl<'a> Network<'a> {
    fn new(topology: &'a Topology) -> Self {
        let shares_no_link = match topology.fabric {
            Fabric::Flat | Fabric::Nodes | Fabric::Host { .. } => true,
            Fabric::Rail(_) | Fabric::FatTree(_) | Fabric::Graph(_) => false,
        };
        let are_alike = topology.nodes.is_multiple_of(topology.nodes_per_domain);
        let is_uniform = topology.link_bandwidths.is_empty() && shares_no_link && are_alike;
        Self { topology, capacities: topology.capacities(), is_uniform, pairs: OnceCell::new() }
    }

    fn ranks(&self) -> u32 {
        self.topology.ranks()
    }

    fn links(&self) -> usize {
        self.capacities.len()
    }

    fn capacity(&self, link: LinkId) -> f64 {
        self.capacities[link.index()]
    }

    fn route(&self, flow: Flow) -> Route {
        self.topology.route(flow.src, flow.dst)
    }

    fn load(&self, flows: impl Iterator<Item = Flow>) -> Load {
        let mut bytes = vec![0.0; self.capacities.len()];
        let mut latency_s = 0.0_f64;
        for flow in flows.filter(|flow| flow.bytes > 0.0) {
            let route = self.topology.route(flow.src, flow.dst);
            latency_s = latency_s.max(route.latency_s);
            route.links().iter().for_each(|link| bytes[link.index()] += flow.bytes);
        }
        let seconds = bytes.iter().zip(&self.capacities).map(|(bytes, capacity)| bytes / capacity);
        Load { latency_s, moving_s: seconds.fold(0.0, f64::max) }
    }

    /// The ranks whose flows say what all links do, if every rank does the same: those of a node.
    fn typical(&self) -> impl Iterator<Item = Rank> + use<> {
        let topology = self.topology;
        let ranks = if self.is_uniform { topology.gpus_per_node } else { topology.ranks() };
        (0..ranks).map(Rank)
    }

    /// So many bytes from every rank to every other one.
    fn pairs(&self, bytes: f64) -> Load {
        if bytes <= 0.0 {
            return Load::default();
        }
        let Load { latency_s, moving_s } =
            *self.pairs.get_or_init(|| self.to_others(1.0, |_| 0..self.ranks()));
        Load { latency_s, moving_s: moving_s * bytes }
    }

    /// So many bytes from every rank to those of equal place in other nodes.
    fn between(&self, bytes: f64) -> Load {
        let size = self.topology.gpus_per_node;
        self.to_others(bytes, |src| (src.0 % size..self.ranks()).step_by(size as usize))
    }

    /// So many bytes from every rank to the others of its node.
    fn within(&self, bytes: f64) -> Load {
        self.to_others(bytes, |src| node(src, self.topology.gpus_per_node))
    }

    /// So many bytes from every rank to the others of those that `peers` gives it.
    fn to_others<I: Iterator<Item = u32>>(&self, bytes: f64, peers: impl Fn(Rank) -> I) -> Load {
        self.load(self.typical().flat_map(|src| {
            let others = peers(src).map(Rank).filter(move |&dst| dst != src);
            others.map(move |dst| Flow { src, dst, bytes })
        }))
    }
}

/// Most flows over a link that are told apart; of more, each is over when all are.
const MOST_SHARING: usize = 64;

/// Ranks that go through the steps of a chain or a tree, each when it and its peers are through the one before: when each is through the
/// steps so far, in seconds.
struct Lockstep<'a> {
    network: &'a Network<'a>,
    ready_s: Vec<f64>,
    /// Flows over each link, none between two steps.
    crossing: Vec<Crossing>,
}

/// Flows of a step that cross a link.
#[derive(Clone, Default)]
struct Crossing {
    /// Bytes of each flow; one more than [`MOST_SHARING`] of them at the most.
    each: Vec<f64>,
    /// Bytes of all.
    total: f64,
}

impl Crossing {
    fn add(&mut self, bytes: f64) {
        self.total += bytes;
        if self.each.len() <= MOST_SHARING {
            self.each.push(bytes);
        }
    }

    /// Bytes that have crossed when a flow of so many is over, if all began together and have equal shares.
    fn until(&self, bytes: f64) -> f64 {
        if self.each.len() > MOST_SHARING {
            return self.total;
        }
        self.each.iter().map(|other| other.min(bytes)).sum()
    }

    fn clear(&mut self) {
        self.each.clear();
        self.total = 0.0;
    }
}

impl<'a> Lockstep<'a> {
    /// All ranks begin at the same time.
    fn new(network: &'a Network<'a>, begin_s: f64) -> Self {
        let ready_s = vec![begin_s; network.ranks() as usize];
        Self { network, ready_s, crossing: vec![Crossing::default(); network.links()] }
    }

    /// One step: a flow begins when both its ends are there and `latencies` of its latency and `more_s` have passed; it takes what it would
    /// on the fullest of its links if all flows of the step began together and had equal shares. A rank is through when its last flow is.
    fn step(&mut self, flows: impl Iterator<Item = Flow>, latencies: f64, more_s: f64) {
        let flow = |flow: Flow| (flow, self.network.route(flow));
        let flows: Vec<(Flow, Route)> = flows.filter(|flow| flow.bytes > 0.0).map(flow).collect();
        for (flow, route) in &flows {
            route.links().iter().for_each(|link| self.crossing[link.index()].add(flow.bytes));
        }
        let end_s = |(flow, route): &(Flow, Route)| {
            let moving_s = route
                .links()
                .iter()
                .map(|link| self.crossing[link.index()].until(flow.bytes) / self.network.capacity(*link));
            let begin_s = self.ready_s[flow.src.index()].max(self.ready_s[flow.dst.index()]) + more_s;
            begin_s + latencies * route.latency_s + moving_s.fold(0.0, f64::max)
        };
        let ends: Vec<f64> = flows.iter().map(end_s).collect();
        for ((flow, route), end_s) in flows.iter().zip(ends) {
            for rank in [flow.src, flow.dst] {
                let ready_s = &mut self.ready_s[rank.index()];
                *ready_s = ready_s.max(end_s);
            }
            route.links().iter().for_each(|link| self.crossing[link.index()].clear());
        }
    }

    /// No rank goes on before a time of its own.
    fn wait(&mut self, until_s: &[f64]) {
        self.ready_s.iter_mut().zip(until_s).for_each(|(ready_s, &until_s)| *ready_s = ready_s.max(until_s));
    }

    /// All ranks wait for the last one, and so many seconds more.
    fn meet(&mut self, more_s: f64) {
        let all_s = self.seconds() + more_s;
        self.ready_s.fill(all_s);
    }

    /// Each rank works for so many seconds before it goes on.
    fn work_all(&mut self, seconds: &[f64]) {
        self.ready_s.iter_mut().zip(seconds).for_each(|(ready_s, seconds)| *ready_s += seconds);
    }

    /// A rank works for so many seconds before it goes on.
    fn work(&mut self, rank: Rank, seconds: f64) {
        self.ready_s[rank.index()] += seconds;
    }

    fn seconds(&self) -> f64 {
        self.ready_s.iter().copied().fold(0.0, f64::max)
    }
}
