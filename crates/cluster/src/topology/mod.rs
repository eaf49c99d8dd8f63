//! Links of a cluster and the routes of transfers over them. Capacities only: no time passes here.

mod fabric;
mod graph;

use std::collections::BTreeMap;
use std::fmt;

pub use fabric::{CrossRail, Fabric, FatTree, Pods, Rail, Uplink};
pub use graph::{Graph, GraphError, GraphLink, Vertex};

use crate::Group;
use crate::library::Hardware;

/// Directed links and latencies of a cluster of equal nodes, some of whose links may differ.
///
/// Every GPU has one up and one down link; unless the fabric says otherwise, every node has `nics_per_node` NICs, each with an
/// up and a down link that some of the node's GPUs share. GPU `g` of a node uses NIC `g * nics_per_node / gpus_per_node`.
#[derive(Clone, Debug, PartialEq)]
pub struct Topology {
    /// Nodes in the cluster, at least 1.
    pub nodes: u32,
    /// GPUs (ranks) per node, at least 1; rank `r` is on node `r / gpus_per_node`.
    pub gpus_per_node: u32,
    /// Nodes whose GPUs are connected as those of one node are, as the trays of a rack by NVLink; 1 if each node is by itself.
    pub nodes_per_domain: u32,
    /// NICs per node, from 1 to `gpus_per_node`.
    pub nics_per_node: u32,
    /// Bytes per second of a GPU's link, each direction.
    pub gpu_bandwidth: f64,
    /// Bytes per second of one NIC, each direction.
    pub nic_bandwidth: f64,
    /// Seconds before the first byte moves between GPUs of one domain.
    pub latency_intra_s: f64,
    /// Seconds before the first byte moves between domains.
    pub latency_inter_s: f64,
    /// Fabric between GPUs and nodes. A graph has its own links and as many ranks as the cluster.
    pub fabric: Fabric,
    /// Bytes per second of the links that differ from the others of their kind; each a link of this cluster.
    pub link_bandwidths: BTreeMap<LinkId, f64>,
}

impl Topology {
    /// Ranks in the cluster.
    pub fn ranks(&self) -> u32 {
        self.nodes * self.gpus_per_node
    }

    /// The rings of a collective that use all NICs of a node alike: as many as these, or one where all ranks are of one domain.
    pub fn ring_channels(&self) -> u32 {
        if self.nodes > self.nodes_per_domain && self.fabric.has_nics() { self.nics_per_node } else { 1 }
    }

    /// Nominal hardware for a model of a library: without links that differ, and each node a domain.
    pub fn hardware(&self) -> Hardware {
        Hardware {
            nodes: self.nodes,
            gpus_per_node: self.gpus_per_node,
            gpu_bytes_per_s: self.gpu_bandwidth,
            node_bytes_per_s: self.nic_bandwidth * f64::from(self.nics_per_node),
            nvlink_domain: 0,
        }
    }

    /// The part of the cluster that a group of its ranks has; `None` if nodes or NICs do not share it evenly.
    pub fn part(&self, group: &Group) -> Option<Part> {
        let (gpus, Group { first, count, stride }) = (self.gpus_per_node, *group);
        if group.is_all(self.ranks()) {
            return Some(Part::whole(self));
        }
        let (nodes, in_node) = if (stride * (count - 1) + self.local(first)) / gpus == 0 {
            (1, count)
        } else if stride.is_multiple_of(gpus) {
            (count, 1)
        } else if gpus.is_multiple_of(stride)
            && (stride * count).is_multiple_of(gpus)
            && self.local(first) < stride
        {
            (stride * count / gpus, gpus / stride)
        } else {
            return None;
        };
        // Distance of nodes of the group, in nodes.
        let apart = (stride / gpus).max(1);
        let span = apart * nodes;
        if !span.is_multiple_of(self.nodes_per_domain) && !self.nodes_per_domain.is_multiple_of(span) {
            return None;
        }
        let nodes_per_domain = match self.nodes_per_domain {
            domain if domain.is_multiple_of(apart) => domain / apart,
            domain if apart.is_multiple_of(domain) => 1,
            _ => return None,
        };
        let mut rails: Vec<u32> =
            (0..in_node).map(|index| self.rail(Rank(self.local(first) + index * stride))).collect();
        rails.dedup();
        let nics_per_node = rails.len() as u32;
        let is_even = in_node.is_multiple_of(nics_per_node);
        is_even.then_some(Part {
            group: *group,
            nodes,
            gpus_per_node: in_node,
            nodes_per_domain,
            nics_per_node,
        })
    }

    /// A cluster of its own of what a group has: its ranks by position, and no links that differ. Switches between nodes are left out.
    #[must_use]
    pub fn of_part(&self, part: &Part) -> Self {
        let fabric = match &self.fabric {
            Fabric::Flat => Fabric::Flat,
            Fabric::Host { bandwidth } => Fabric::Host { bandwidth: *bandwidth },
            Fabric::Nodes | Fabric::Rail(_) | Fabric::FatTree(_) | Fabric::Graph(_) => Fabric::Nodes,
        };
        let &Part { nodes, gpus_per_node, nodes_per_domain, nics_per_node, .. } = part;
        let link_bandwidths = BTreeMap::new();
        Self { nodes, gpus_per_node, nodes_per_domain, nics_per_node, fabric, link_bandwidths, ..*self }
    }

    /// The node of a rank.
    pub fn node(&self, rank: Rank) -> u32 {
        rank.0 / self.gpus_per_node
    }

    /// Whether two ranks need no NIC between them.
    pub fn is_near(&self, a: Rank, b: Rank) -> bool {
        self.node(a) / self.nodes_per_domain == self.node(b) / self.nodes_per_domain
    }

    /// Bytes per second of every link, by [`LinkId`]: up and down links of GPUs first, then of NICs, then of switches; those of
    /// a graph in its own order.
    ///
    /// # Panics
    /// If a link that differs is none of this cluster's.
    pub fn capacities(&self) -> Vec<f64> {
        let mut capacities = match &self.fabric {
            Fabric::Graph(graph) => graph.bandwidths().collect(),
            fabric => {
                let mut capacities = vec![self.gpu_bandwidth; 2 * self.ranks() as usize];
                capacities.resize(self.first_fabric_link() as usize, self.nic_bandwidth);
                let switches = match fabric {
                    Fabric::Host { bandwidth } => vec![*bandwidth; self.nodes as usize],
                    Fabric::Rail(rail) => vec![rail.bandwidth(self); self.nics_per_node as usize],
                    Fabric::FatTree(tree) => tree.bandwidths(self),
                    Fabric::Flat | Fabric::Nodes | Fabric::Graph(_) => Vec::new(),
                };
                capacities.extend(switches.into_iter().flat_map(|bandwidth| [bandwidth; 2]));
                capacities
            }
        };
        for (link, &bandwidth) in &self.link_bandwidths {
            capacities[link.index()] = bandwidth;
        }
        capacities
    }

    /// Every link of the cluster.
    pub fn links(&self) -> impl Iterator<Item = LinkId> + use<> {
        let count = match &self.fabric {
            Fabric::Graph(graph) => graph.bandwidths().len() as u32,
            _ => self.families().iter().map(|family| family.links()).sum(),
        };
        (0..count).map(LinkId)
    }

    /// Name of a link in scenarios, messages and counters: `gpu 3 up`, `nic 1 down`, `leaf 0 up`. GPUs and NICs are counted over
    /// the whole cluster; `up` leads away from the GPU, `down` towards it. In a graph: `gpu 0 -> switch a`.
    ///
    /// # Panics
    /// If it is no link of this cluster.
    pub fn link_name(&self, link: LinkId) -> String {
        if let Fabric::Graph(graph) = &self.fabric {
            return graph.link_name(link);
        }
        let (family, index) = self.family(link);
        format!("{} {} {}", family.name, index / 2, direction(index))
    }

    /// Whether a link belongs to a GPU or a NIC, and not to a switch between nodes. In a graph: whether it begins or ends at a
    /// GPU, or at a switch whose name begins with the word `nic`.
    ///
    /// # Panics
    /// If it is no link of this cluster.
    pub fn is_port(&self, link: LinkId) -> bool {
        match &self.fabric {
            Fabric::Graph(graph) => graph.is_port(link),
            _ => self.family(link).0.is_port,
        }
    }

    /// The NIC that a link belongs to, counted over the whole cluster; `None` if it is no NIC's, and in a graph.
    ///
    /// # Panics
    /// If it is no link of this cluster.
    pub fn nic_of(&self, link: LinkId) -> Option<u32> {
        if matches!(self.fabric, Fabric::Graph(_)) {
            return None;
        }
        let (family, index) = self.family(link);
        (family.name == "nic").then_some(index / 2)
    }

    /// Kinds of things with links up and down, by name, and how many there are of each: `("gpu", 16)`, `("nic", 2)`. Empty for a
    /// graph.
    pub fn kinds(&self) -> impl Iterator<Item = (&'static str, u32)> + use<> {
        let families = self.families();
        families.into_iter().filter(|family| family.count > 0).map(|family| (family.name, family.count))
    }

    /// The route from `src` to `dst`, which must differ; at most [`Route::MAX_LINKS`] links.
    pub fn route(&self, src: Rank, dst: Rank) -> Route {
        assert!(src != dst, "rank {src} sends to itself: such chunks never reach the network");
        let is_near = self.is_near(src, dst);
        if let Fabric::Graph(graph) = &self.fabric {
            let class_s = if is_near { self.latency_intra_s } else { self.latency_inter_s };
            return graph.route(src, dst).later(class_s);
        }
        let gpus = [LinkId(2 * src.0), LinkId(2 * dst.0 + 1)];
        if is_near {
            return match &self.fabric {
                Fabric::Host { .. } if self.node(src) == self.node(dst) => {
                    let host = self.first_fabric_link() + 2 * self.node(src);
                    let [up, down] = gpus;
                    Route::over(&[up, LinkId(host), LinkId(host + 1), down], self.latency_intra_s)
                }
                _ => Route::over(&gpus, self.latency_intra_s),
            };
        }
        match &self.fabric {
            Fabric::Rail(rail) => rail.route(self, src, dst),
            Fabric::FatTree(tree) => tree.route(self, src, dst),
            Fabric::Flat => Route::over(&gpus, self.latency_inter_s),
            Fabric::Nodes | Fabric::Host { .. } | Fabric::Graph(_) => {
                let ([up, nic_up], [nic_down, down]) = self.ports(src, dst);
                Route::over(&[up, nic_up, nic_down, down], self.latency_inter_s)
            }
        }
    }

    /// The ports on the way out of the node of `src`, and on the way into that of `dst`.
    fn ports(&self, src: Rank, dst: Rank) -> ([LinkId; 2], [LinkId; 2]) {
        let up = [LinkId(2 * src.0), LinkId(self.nic(src))];
        (up, [LinkId(self.nic(dst) + 1), LinkId(2 * dst.0 + 1)])
    }

    fn local(&self, rank: Rank) -> u32 {
        rank.0 % self.gpus_per_node
    }

    /// NIC of its node that a rank uses.
    pub(crate) fn rail(&self, rank: Rank) -> u32 {
        self.local(rank) * self.nics_per_node / self.gpus_per_node
    }

    /// The up link of the NIC that a rank uses; its down link follows it.
    fn nic(&self, rank: Rank) -> u32 {
        2 * (self.ranks() + self.node(rank) * self.nics_per_node + self.rail(rank))
    }

    /// The first link behind those of GPUs and NICs.
    fn first_fabric_link(&self) -> u32 {
        let nics = if self.fabric.has_nics() { self.nodes * self.nics_per_node } else { 0 };
        2 * (self.ranks() + nics)
    }

    /// Families of links, in the order in which they are numbered. Empty ones in a graph, whose links are single ones.
    fn families(&self) -> [Family; 4] {
        let port = |name, count| Family { name, count, is_port: true };
        let switch = |name, count| Family { name, count, is_port: false };
        let (lowest, pods) = match &self.fabric {
            Fabric::Graph(_) => return [port("gpu", 0), port("nic", 0), switch("leaf", 0), switch("pod", 0)],
            Fabric::Host { .. } => (switch("host", self.nodes), 0),
            Fabric::Rail(_) => (switch("rail", self.nics_per_node), 0),
            Fabric::FatTree(tree) => (switch("leaf", tree.leaves(self)), tree.pod_count(self)),
            Fabric::Flat | Fabric::Nodes => (switch("leaf", 0), 0),
        };
        let nics = if self.fabric.has_nics() { self.nodes * self.nics_per_node } else { 0 };
        [port("gpu", self.ranks()), port("nic", nics), lowest, switch("pod", pods)]
    }

    pub(crate) fn family(&self, link: LinkId) -> (Family, u32) {
        let mut index = link.0;
        for family in self.families() {
            if index < family.links() {
                return (family, index);
            }
            index -= family.links();
        }
        panic!("link {} is none of this cluster's", link.0);
    }
}

/// Part of a cluster that a group of its ranks has: as many ranks of each node, and NICs that these use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The ranks.
    pub group: Group,
    /// Nodes that have some of them.
    pub nodes: u32,
    /// How many of them a node has.
    pub gpus_per_node: u32,
    /// How many of these nodes follow one another in a domain.
    pub nodes_per_domain: u32,
    /// How many NICs of a node they use.
    pub nics_per_node: u32,
}

impl Part {
    /// All of a cluster.
    pub fn whole(topology: &Topology) -> Self {
        let &Topology { nodes, gpus_per_node, nodes_per_domain, nics_per_node, .. } = topology;
        Self { group: Group::all(topology.ranks()), nodes, gpus_per_node, nodes_per_domain, nics_per_node }
    }

    /// How many ranks there are.
    pub fn ranks(&self) -> u32 {
        self.group.count
    }
}

/// The links that a transfer crosses, in order, and its latency.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Route {
    links: [LinkId; Self::MAX_LINKS],
    count: u8,
    /// Seconds before the first byte moves.
    pub latency_s: f64,
}

impl Route {
    /// Most links of a route: GPU, NIC, leaf and pod, up and down.
    pub const MAX_LINKS: usize = 8;

    /// A route over `links`, at most [`MAX_LINKS`](Self::MAX_LINKS).
    pub(super) fn over(links: &[LinkId], latency_s: f64) -> Self {
        // What is behind the route's end is the same in equal routes.
        let mut all = [LinkId(0); Self::MAX_LINKS];
        all[..links.len()].copy_from_slice(links);
        Self { links: all, count: links.len() as u8, latency_s }
    }

    /// The same way with `seconds` more before the first byte moves.
    pub(super) fn later(self, seconds: f64) -> Self {
        Self { latency_s: self.latency_s + seconds, ..self }
    }

    /// The links crossed.
    pub fn links(&self) -> &[LinkId] {
        &self.links[..usize::from(self.count)]
    }
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

/// Things of one kind that have a link up and a link down each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Family {
    /// Name of each: `gpu`, `nic`, `host`, `rail`, `leaf`, `pod`.
    pub(crate) name: &'static str,
    pub(crate) count: u32,
    /// Whether they are ports of ranks and nodes, and not switches between them.
    is_port: bool,
}

impl Family {
    /// Links of the family: each member's up link, then its down link.
    fn links(self) -> u32 {
        2 * self.count
    }
}

/// `up` leads away from the GPUs, `down` towards them.
fn direction(index: u32) -> &'static str {
    if index.is_multiple_of(2) { "up" } else { "down" }
}

/// A participant of the collective: one GPU. Ranks are numbered from zero, node by node.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct Rank(pub u32);

impl Rank {
    /// Position in a table that has one entry each.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
