//! Ranks that go through the steps of a chain or a tree, each when it and its peers are through the one before.

use zipwire_cluster::Route;

use super::network::{Flow, Network};
use crate::Rank;

/// When each rank is through the steps so far, in seconds.
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
