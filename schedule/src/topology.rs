//! Links of a cluster and the routes of transfers over them. Capacities only: no time passes here.

use std::collections::BTreeMap;

use crate::Rank;

/// Directed links and latencies of a cluster of equal nodes, some of whose links may differ.
///
/// Every GPU has one up and one down link; every node has `nics_per_node` NICs, each with an up and a
/// down link that the node's GPUs share. GPU `g` of a node uses NIC `g * nics_per_node / gpus_per_node`.
#[derive(Clone, Debug, PartialEq)]
pub struct Topology {
    /// Nodes in the cluster, at least 1.
    pub nodes: u32,
    /// GPUs (ranks) per node, at least 1; rank `r` is on node `r / gpus_per_node`.
    pub gpus_per_node: u32,
    /// NICs per node, from 1 to `gpus_per_node`.
    pub nics_per_node: u32,
    /// Bytes per second of a GPU's link, each direction.
    pub gpu_bandwidth: f64,
    /// Bytes per second of one NIC, each direction.
    pub nic_bandwidth: f64,
    /// Seconds before the first byte moves between GPUs of one node.
    pub latency_intra_s: f64,
    /// Seconds before the first byte moves between nodes.
    pub latency_inter_s: f64,
    /// Bytes per second of the links that differ from the others of their kind; each a link of this cluster.
    pub link_bandwidths: BTreeMap<LinkId, f64>,
}

/// A directed link, by position in [`Topology::capacities`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u32);

impl LinkId {
    /// Position in a table of links.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The links that a transfer crosses, in order, and its latency.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Route {
    links: [LinkId; 4],
    count: u8,
    /// Seconds before the first byte moves.
    pub latency_s: f64,
}

impl Route {
    /// The links crossed: 2 within a node, 4 between nodes.
    pub fn links(&self) -> &[LinkId] {
        &self.links[..usize::from(self.count)]
    }
}

impl Topology {
    /// Ranks in the cluster.
    pub fn ranks(&self) -> u32 {
        self.nodes * self.gpus_per_node
    }

    /// The node of a rank.
    pub fn node(&self, rank: Rank) -> u32 {
        rank.0 / self.gpus_per_node
    }

    /// Bytes per second of every link, by [`LinkId`]: GPU up and down links first, then NICs.
    ///
    /// # Panics
    /// If a link that differs is none of this cluster's.
    pub fn capacities(&self) -> Vec<f64> {
        let mut capacities = vec![self.gpu_bandwidth; 2 * self.ranks() as usize];
        capacities.resize(self.link_count() as usize, self.nic_bandwidth);
        for (link, &bandwidth) in &self.link_bandwidths {
            capacities[link.index()] = bandwidth;
        }
        capacities
    }

    /// Every link of the cluster.
    pub fn links(&self) -> impl Iterator<Item = LinkId> + use<> {
        (0..self.link_count()).map(LinkId)
    }

    fn link_count(&self) -> u32 {
        2 * (self.ranks() + self.nodes * self.nics_per_node)
    }

    /// What a link is, in scenarios, messages and counters: `gpu 3 up`, `nic 1 down`. GPUs and NICs are counted over
    /// the whole cluster; `up` leaves the GPU or the node.
    pub fn link_name(&self, link: LinkId) -> String {
        let gpus = 2 * self.ranks();
        let (kind, index) = if link.0 < gpus { ("gpu", link.0) } else { ("nic", link.0 - gpus) };
        let direction = if index.is_multiple_of(2) { "up" } else { "down" };
        format!("{kind} {} {direction}", index / 2)
    }

    /// The route from `src` to `dst`, which must differ.
    pub fn route(&self, src: Rank, dst: Rank) -> Route {
        assert!(src != dst, "rank {src} sends to itself: such chunks never reach the network");
        let up = LinkId(2 * src.0);
        let down = LinkId(2 * dst.0 + 1);
        if self.node(src) == self.node(dst) {
            return Route { links: [up, down, down, down], count: 2, latency_s: self.latency_intra_s };
        }
        let links = [up, LinkId(self.nic(src)), LinkId(self.nic(dst) + 1), down];
        Route { links, count: 4, latency_s: self.latency_inter_s }
    }

    /// The up link of the NIC that a rank uses; its down link follows it.
    fn nic(&self, rank: Rank) -> u32 {
        let local = rank.0 % self.gpus_per_node;
        let nic = self.node(rank) * self.nics_per_node + local * self.nics_per_node / self.gpus_per_node;
        2 * (self.ranks() + nic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_nodes() -> Topology {
        Topology {
            nodes: 2,
            gpus_per_node: 4,
            nics_per_node: 2,
            gpu_bandwidth: 4.0,
            nic_bandwidth: 1.0,
            latency_intra_s: 1e-6,
            latency_inter_s: 2e-6,
            link_bandwidths: BTreeMap::new(),
        }
    }

    fn names(topology: &Topology, src: u32, dst: u32) -> Vec<String> {
        let route = topology.route(Rank(src), Rank(dst));
        route.links().iter().map(|&link| topology.link_name(link)).collect()
    }

    #[test]
    fn routes_cross_the_nics_only_between_nodes() {
        let topology = two_nodes();
        assert_eq!(names(&topology, 0, 3), ["gpu 0 up", "gpu 3 down"]);
        assert_eq!(names(&topology, 1, 7), ["gpu 1 up", "nic 0 up", "nic 3 down", "gpu 7 down"]);
        assert_eq!(topology.route(Rank(0), Rank(3)).latency_s, 1e-6);
        assert_eq!(topology.route(Rank(0), Rank(4)).latency_s, 2e-6);
    }

    #[test]
    fn capacities_cover_every_link() {
        let topology = two_nodes();
        let capacities = topology.capacities();
        assert_eq!(capacities.len(), 2 * 8 + 2 * 4);
        assert_eq!(capacities[topology.route(Rank(7), Rank(0)).links()[1].index()], 1.0);
    }

    #[test]
    fn a_link_that_differs_is_the_only_one_that_does() {
        let mut topology = two_nodes();
        let equal = topology.capacities();
        let link = topology.links().find(|&link| topology.link_name(link) == "nic 3 down");
        let link = link.expect("two NICs on each of two nodes");
        assert_eq!(topology.route(Rank(0), Rank(7)).links()[2], link);
        topology.link_bandwidths.insert(link, 0.5);
        let differing: Vec<usize> =
            (0..equal.len()).filter(|&i| topology.capacities()[i] != equal[i]).collect();
        assert_eq!((differing, topology.capacities()[link.index()]), (vec![link.index()], 0.5));
    }
}
