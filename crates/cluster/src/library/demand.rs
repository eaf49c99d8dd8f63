//! Demand of one call of a library: the links that it crosses, with how many bytes, and how fast it goes at most.
//!
//! A call is one activity on the network, and not the flows of its steps. Bytes over each link follow in closed form from the algorithm
//! that the library would take: rings and trees of all ranks in their order, domain by domain, and between domains over all NICs alike, of as
//! many nodes as both have. A broadcast counts as a closed ring, with one hop more than its chain has.
//! Flags of a protocol, and the part of a link that the library never fills, count as bytes of the call: nobody else gets them.

use std::collections::BTreeMap;

use super::constants::Constant;
use super::{
    Algorithm, Candidate, Collective, DeclaredCost, Hardware, LibraryModel, Operation, WireProtocol,
};
use crate::{Fabric, LinkId, Part, Rank, Route, Topology};

/// A call as the network sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Activity {
    /// Seconds from the arrival of the last rank until the first byte counts.
    pub latency_s: f64,
    /// Seconds from then on where no link holds the call back.
    pub moving_s: f64,
    /// Effective bytes over each directed link that is crossed, by ascending link; all positive.
    pub demand: Vec<(LinkId, f64)>,
}

impl Activity {
    /// Seconds of the call alone on links of these capacities, in bytes per second by [`LinkId`].
    pub fn alone_s(&self, capacities: &[f64]) -> f64 {
        let links = self.demand.iter().map(|&(link, bytes)| bytes / capacities[link.index()]);
        self.latency_s + links.fold(self.moving_s, f64::max)
    }
}

impl DeclaredCost {
    /// Activity of a collective among all ranks of a cluster, each of which moves `ring_bytes` around a ring.
    pub(super) fn activity(&self, topology: &Topology, ring_bytes: u64) -> Activity {
        let moving_s = ring_bytes as f64 / self.bytes_per_s;
        let whole = Part::whole(topology);
        let mut traffic = Traffic::new(topology, &whole);
        traffic.ring(ring_bytes as f64);
        let demand = traffic.demand(&Losses { gpu: 1.0, nic: 1.0, gpu_bytes: 0.0, nic_bytes: 0.0, moving_s });
        Activity { latency_s: self.seconds(topology.ranks(), 0), moving_s, demand }
    }
}

impl LibraryModel {
    /// Activity of a collective among some ranks of a cluster, each of which moves `ring_bytes` if they go around a ring.
    pub(super) fn activity(
        &self,
        collective: Collective,
        topology: &Topology,
        part: &Part,
        ring_bytes: u64,
    ) -> Activity {
        let (operation, ranks) = (Operation::from(collective), part.ranks());
        let size = ring_bytes as f64 / operation.bus_factor(ranks);
        let cost = self.cost(operation, ranks);
        let way = cost.best(size);
        let moving_s = way.seconds(size) - way.latency_s;
        let mut traffic = Traffic::new(topology, part);
        match way.algorithm {
            Algorithm::Ring | Algorithm::Peers => traffic.ring(ring_bytes as f64),
            Algorithm::Tree => traffic.trees(size),
            Algorithm::Nvls | Algorithm::NvlsTree => {
                traffic.multicast(size);
                traffic.between_trees(size);
            }
            Algorithm::NvlsSharp => {
                traffic.multicast(size);
                traffic.around(size);
            }
        }
        let demand = traffic.demand(&self.losses(way, part, moving_s));
        Activity { latency_s: way.latency_s, moving_s, demand }
    }

    fn losses(&self, way: &Candidate, part: &Part, moving_s: f64) -> Losses {
        let get = |constant| self.constants.get(constant);
        let wire = match way.protocol {
            WireProtocol::Ll => 2.0,
            WireProtocol::Ll128 => 16.0 / 15.0,
            WireProtocol::Simple => 1.0,
        };
        let link = get(Constant::LinkShare);
        let (gpu, nic) = match way.algorithm {
            Algorithm::Ring | Algorithm::Peers => (link, get(Constant::NicShare)),
            Algorithm::Tree => (link, get(Constant::TreeNicShare)),
            Algorithm::Nvls | Algorithm::NvlsTree => {
                (link * get(Constant::NvlsShare), get(Constant::TreeNicShare))
            }
            Algorithm::NvlsSharp => (link * get(Constant::NvlsShare), get(Constant::SharpShare)),
        };
        let Hardware { gpu_bytes_per_s, node_bytes_per_s, .. } = self.hardware;
        let nic_bytes = node_bytes_per_s / f64::from(part.nics_per_node) * moving_s;
        Losses {
            gpu: wire / gpu,
            nic: wire / nic,
            gpu_bytes: gpu_bytes_per_s * moving_s,
            nic_bytes,
            moving_s,
        }
    }
}

/// Effective bytes over links of GPUs and of NICs for each byte that moves, up to those that the links of the model's own hardware carry in
/// `moving_s`: losses are no reason for a call to take longer there.
struct Losses {
    gpu: f64,
    nic: f64,
    gpu_bytes: f64,
    nic_bytes: f64,
    moving_s: f64,
}

/// Bytes over each link that is crossed, without losses: few of a large cluster if few ranks take part.
struct Traffic<'a> {
    topology: &'a Topology,
    /// The ranks that take part; positions among them are ranks to the functions below.
    part: &'a Part,
    domains: u32,
    bytes: BTreeMap<LinkId, f64>,
}

impl<'a> Traffic<'a> {
    fn new(topology: &'a Topology, part: &'a Part) -> Self {
        let domains = part.nodes.div_ceil(part.nodes_per_domain);
        Self { topology, part, domains, bytes: BTreeMap::new() }
    }

    /// Effective bytes of all links that are crossed.
    fn demand(self, losses: &Losses) -> Vec<(LinkId, f64)> {
        let is_graph = matches!(self.topology.fabric, Fabric::Graph(_));
        let host_bytes = match self.topology.fabric {
            Fabric::Host { bandwidth } => bandwidth * losses.moving_s,
            _ => f64::INFINITY,
        };
        let links = self.bytes.into_iter().filter(|&(_, bytes)| bytes > 0.0);
        let effective = links.map(|(link, bytes)| {
            let (loss, most) = match self.topology.nic_of(link) {
                Some(_) => (losses.nic, losses.nic_bytes),
                // Links of a graph are of whatever speed it says.
                None if is_graph => (1.0, bytes),
                None if self.topology.is_port(link) => (losses.gpu, losses.gpu_bytes),
                None => return (link, bytes.min(host_bytes)),
            };
            (link, (bytes * loss).min(most).max(bytes))
        });
        effective.collect()
    }

    /// Rings through all ranks that carry so many bytes over each hop.
    fn ring(&mut self, bytes: f64) {
        let ranks = self.part.ranks();
        if matches!(self.topology.fabric, Fabric::Graph(_)) {
            (0..ranks).for_each(|rank| self.hop(Rank(rank), Rank((rank + 1) % ranks), bytes));
            return;
        }
        self.at_gpus(bytes);
        let is_closed = self.domains == 1 && self.part.nodes == 1;
        self.at_hosts(f64::from(self.part.gpus_per_node - u32::from(!is_closed)) * bytes);
        self.around(bytes);
    }

    /// Two trees, each of which carries half of the values up and down; a chain through the ranks of each domain hangs on them.
    fn trees(&mut self, size: f64) {
        if matches!(self.topology.fabric, Fabric::Graph(_)) {
            let ranks = self.part.ranks();
            (1..ranks).for_each(|rank| {
                self.hop(Rank(rank - 1), Rank(rank), size);
                self.hop(Rank(rank), Rank(rank - 1), size);
            });
            return;
        }
        self.at_gpus(2.0 * size);
        self.at_hosts(2.0 * f64::from(self.part.gpus_per_node - 1) * size);
        self.between_trees(size);
    }

    /// Values into switches that add, and sums of each rank's part back to them to be copied to all.
    fn multicast(&mut self, size: f64) {
        let ranks_per_domain = f64::from(self.part.ranks()) / f64::from(self.domains);
        self.at_gpus(size * (1.0 + 1.0 / ranks_per_domain));
    }

    /// From each domain to the next one, and from the last to the first.
    fn around(&mut self, bytes: f64) {
        if self.domains > 1 {
            let count = self.domains;
            (0..count).for_each(|domain| self.between(domain, (domain + 1) % count, bytes));
        }
    }

    /// Up and down two trees of domains, half of the values in each.
    fn between_trees(&mut self, size: f64) {
        for [child, parent] in double_tree(self.domains) {
            self.between(child, parent, size / 2.0);
            self.between(parent, child, size / 2.0);
        }
    }

    fn at_gpus(&mut self, bytes: f64) {
        if matches!(self.topology.fabric, Fabric::Graph(_)) {
            let ranks = self.part.ranks();
            for rank in 0..ranks {
                let route = self.route(Rank(rank), Rank((rank + 1) % ranks));
                let (first, last) = (route.links().first(), route.links().last());
                for link in first.into_iter().chain(last.filter(|last| Some(*last) != first)) {
                    self.add(*link, bytes);
                }
            }
            return;
        }
        for rank in self.part.group.ranks() {
            let up = 2 * rank.0;
            [up, up + 1].into_iter().for_each(|port| self.add(LinkId(port), bytes));
        }
    }

    /// Bytes that cross the host of each node, if GPUs have nothing better between them: at the most, as neighbours may have a switch of their own
    /// below it. So a call is never slower on a nominal host than its cost says, which was measured with those switches.
    fn at_hosts(&mut self, bytes: f64) {
        let gpus = self.part.gpus_per_node;
        if matches!(self.topology.fabric, Fabric::Host { .. }) && gpus > 1 {
            (0..self.part.nodes).for_each(|node| {
                self.inside(Rank(node * gpus), Rank(node * gpus + 1), bytes);
            });
        }
    }

    /// Bytes from one domain to another, spread evenly over the NICs of as many nodes as both have. What leaves by a NIC comes in at that of
    /// equal place: rings and trees do not change rails.
    fn between(&mut self, src: u32, dst: u32, bytes: f64) {
        let Part { nodes, gpus_per_node, nodes_per_domain, nics_per_node, .. } = *self.part;
        let first = |domain: u32| domain * nodes_per_domain;
        let size = |domain: u32| nodes_per_domain.min(nodes - first(domain));
        let (src_node, dst_node, pairs) = (first(src), first(dst), size(src).min(size(dst)));
        let part = bytes / f64::from(pairs * nics_per_node);
        for pair in 0..pairs {
            for nic in 0..nics_per_node {
                let gpu = (nic * gpus_per_node).div_ceil(nics_per_node);
                let rank = |node: u32| Rank((node + pair) * gpus_per_node + gpu);
                self.inside(rank(src_node), rank(dst_node), part);
            }
        }
    }

    fn add(&mut self, link: LinkId, bytes: f64) {
        *self.bytes.entry(link).or_default() += bytes;
    }

    /// Bytes over a route.
    fn hop(&mut self, src: Rank, dst: Rank, bytes: f64) {
        for link in self.route(src, dst).links() {
            self.add(*link, bytes);
        }
    }

    /// Bytes over a route between the ports of its GPUs.
    fn inside(&mut self, src: Rank, dst: Rank, bytes: f64) {
        let route = self.route(src, dst);
        let links = route.links();
        for link in links.get(1..links.len() - 1).unwrap_or_default() {
            self.add(*link, bytes);
        }
    }

    /// The route between two positions.
    fn route(&self, src: Rank, dst: Rank) -> Route {
        self.topology.route(self.part.group.at(src.0), self.part.group.at(dst.0))
    }
}

/// Edges of two binary trees over `count` domains, each as child and parent: who has children in one of them has none in the other, but for
/// one domain.
fn double_tree(count: u32) -> impl Iterator<Item = [u32; 2]> {
    let edges = (1..count).map(move |child| {
        let lowest = child & child.wrapping_neg();
        let below = child ^ lowest;
        let parent = below | lowest << 1;
        [child, if parent < count { parent } else { below }]
    });
    let other = move |domain: u32| {
        if count.is_multiple_of(2) { count - 1 - domain } else { (domain + 1) % count }
    };
    edges.clone().chain(edges.map(move |edge| edge.map(other)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tree_reaches_all_and_inner_domains_of_one_are_leaves_of_the_other() {
        for count in 1..=40 {
            let edges: Vec<_> = double_tree(count).collect();
            assert_eq!(edges.len() as u32, 2 * (count - 1));
            let mut is_inner = vec![0; count as usize];
            for tree in edges.chunks(count.max(2) as usize - 1) {
                let mut children: Vec<u32> = tree.iter().map(|[child, _]| *child).collect();
                children.sort_unstable();
                children.dedup();
                assert_eq!(children.len() as u32, count - 1, "one root");
                let mut parents: Vec<u32> = tree.iter().map(|[_, parent]| *parent).collect();
                assert!(parents.iter().all(|a| parents.iter().filter(|b| a == *b).count() <= 2));
                parents.sort_unstable();
                parents.dedup();
                parents.into_iter().for_each(|parent| is_inner[parent as usize] += 1);
            }
            assert!(is_inner.iter().filter(|trees| **trees > 1).count() <= 1, "{count}: {is_inner:?}");
        }
    }
}
