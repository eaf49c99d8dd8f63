//! Load that flows which begin together put on the links of a cluster.

use std::cell::OnceCell;

use zipwire_cluster::{Fabric, LinkId, Route, Topology};

use crate::Rank;
use crate::tokens::node;

/// Bytes from one rank to another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    pub(super) src: Rank,
    pub(super) dst: Rank,
    pub(super) bytes: f64,
}

/// Time that a set of flows takes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Load {
    /// Seconds before the last of them moves.
    pub(super) latency_s: f64,
    /// Seconds in which the fullest link moves what crosses it.
    pub(super) moving_s: f64,
}

impl Load {
    /// One after the other.
    pub(super) fn seconds(self) -> f64 {
        self.latency_s + self.moving_s
    }
}

pub(super) struct Network<'a> {
    topology: &'a Topology,
    capacities: Vec<f64>,
    /// Whether all nodes are alike and share no link, so that what leaves one of them says what all links do.
    is_uniform: bool,
    /// Load of one byte from every rank to every other one, computed on first use.
    pairs: OnceCell<Load>,
}

impl<'a> Network<'a> {
    pub(super) fn new(topology: &'a Topology) -> Self {
        let shares_no_link = match topology.fabric {
            Fabric::Flat | Fabric::Nodes | Fabric::Host { .. } => true,
            Fabric::Rail(_) | Fabric::FatTree(_) | Fabric::Graph(_) => false,
        };
        let is_uniform = topology.link_bandwidths.is_empty() && shares_no_link;
        Self { topology, capacities: topology.capacities(), is_uniform, pairs: OnceCell::new() }
    }

    pub(super) fn ranks(&self) -> u32 {
        self.topology.ranks()
    }

    pub(super) fn links(&self) -> usize {
        self.capacities.len()
    }

    pub(super) fn capacity(&self, link: LinkId) -> f64 {
        self.capacities[link.index()]
    }

    pub(super) fn route(&self, flow: Flow) -> Route {
        self.topology.route(flow.src, flow.dst)
    }

    /// Seconds of flows that begin together.
    pub(super) fn load(&self, flows: impl Iterator<Item = Flow>) -> Load {
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
    pub(super) fn pairs(&self, bytes: f64) -> Load {
        if bytes <= 0.0 {
            return Load::default();
        }
        let Load { latency_s, moving_s } =
            *self.pairs.get_or_init(|| self.to_others(1.0, |_| 0..self.ranks()));
        Load { latency_s, moving_s: moving_s * bytes }
    }

    /// So many bytes from every rank to those of equal place in other nodes.
    pub(super) fn between(&self, bytes: f64) -> Load {
        let size = self.topology.gpus_per_node;
        self.to_others(bytes, |src| (src.0 % size..self.ranks()).step_by(size as usize))
    }

    /// So many bytes from every rank to the others of its node.
    pub(super) fn within(&self, bytes: f64) -> Load {
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

/// Ranks that go through the steps of a chain or a tree, each when it and its peers are through the one before: when each is through the
/// steps so far, in seconds.
pub(super) struct Lockstep<'a> {
    network: &'a Network<'a>,
    ready_s: Vec<f64>,
    /// Bytes over each link, all zero between two steps.
    bytes: Vec<f64>,
}

impl<'a> Lockstep<'a> {
    /// All ranks begin at the same time.
    pub(super) fn new(network: &'a Network<'a>, begin_s: f64) -> Self {
        let ready_s = vec![begin_s; network.ranks() as usize];
        Self { network, ready_s, bytes: vec![0.0; network.links()] }
    }

    /// One step: a flow begins when both its ends are there and `latencies` of its latency and `more_s` have passed; it takes what the
    /// fullest of its links takes for all flows of the step. A rank is through when its last flow is.
    pub(super) fn step(&mut self, flows: impl Iterator<Item = Flow>, latencies: f64, more_s: f64) {
        let flow = |flow: Flow| (flow, self.network.route(flow));
        let flows: Vec<(Flow, Route)> = flows.filter(|flow| flow.bytes > 0.0).map(flow).collect();
        for (flow, route) in &flows {
            route.links().iter().for_each(|link| self.bytes[link.index()] += flow.bytes);
        }
        let end_s = |(flow, route): &(Flow, Route)| {
            let moving_s =
                route.links().iter().map(|link| self.bytes[link.index()] / self.network.capacity(*link));
            let begin_s = self.ready_s[flow.src.index()].max(self.ready_s[flow.dst.index()]) + more_s;
            begin_s + latencies * route.latency_s + moving_s.fold(0.0, f64::max)
        };
        let ends: Vec<f64> = flows.iter().map(end_s).collect();
        for ((flow, route), end_s) in flows.iter().zip(ends) {
            for rank in [flow.src, flow.dst] {
                let ready_s = &mut self.ready_s[rank.index()];
                *ready_s = ready_s.max(end_s);
            }
            route.links().iter().for_each(|link| self.bytes[link.index()] = 0.0);
        }
    }

    /// A rank works for so many seconds before it goes on.
    pub(super) fn work(&mut self, rank: Rank, seconds: f64) {
        self.ready_s[rank.index()] += seconds;
    }

    /// When the last rank is through.
    pub(super) fn seconds(&self) -> f64 {
        self.ready_s.iter().copied().fold(0.0, f64::max)
    }
}
