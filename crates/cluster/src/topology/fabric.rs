//! Fabrics between the nodes of a cluster: which switches there are, and which of them a route crosses.
//!
//! *Rail-optimised*: NIC `i` of every node hangs on switch `i`, so traffic between GPUs of the same rail crosses one switch. Traffic to
//! another rail either crosses the spine above the rail switches, or changes rails inside its node and never sees the spine ("Doubling
//! all2all Performance with NVIDIA Collective Communication Library 2.12" describes both). There is one switch for each rail, however many
//! nodes there are.
//!
//! *Fat trees*: leaf switches above nodes, a spine above the leaves; with pods, a spine for each pod and a core above them. All links
//! between two levels that belong to one switch are one pipe: traffic is spread over them perfectly. Real fabrics hash flows onto links, and
//! come near this with many flows or with adaptive routing.

use std::sync::Arc;

use super::{Graph, LinkId, Route, Topology};
use crate::Rank;

/// Connection of the GPUs and nodes of a cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Fabric {
    /// Nothing is shared but the ports of the GPUs, not even a NIC: a route is GPU up, GPU down. Nodes only tell latencies
    /// apart.
    Flat,
    /// Nodes share their NICs, and what is between the NICs limits nothing: GPU up, NIC up, NIC down, GPU down.
    #[default]
    Nodes,
    /// The same, and what GPUs of a node send to one another crosses its host: GPU up, host up, host down, GPU down. PCIe trees are
    /// like that: each GPU has its link, and all together have less than that many links.
    Host {
        /// Bytes per second of a node's host, each direction, shared by all transfers between its GPUs.
        bandwidth: f64,
    },
    /// A switch for each NIC of a node, which it shares with that NIC of all other nodes.
    Rail(Rail),
    /// A tree of switches above the nodes.
    FatTree(FatTree),
    /// Whatever the scenario draws.
    Graph(Arc<Graph>),
}

impl Fabric {
    /// Name in scenarios.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Flat => "flat",
            Self::Nodes | Self::Host { .. } => "nodes",
            Self::Rail(_) => "rail",
            Self::FatTree(_) => "fat-tree",
            Self::Graph(_) => "graph",
        }
    }

    /// Whether transfers between nodes cross NICs of [`Topology::nic_bandwidth`](super::Topology::nic_bandwidth).
    pub fn has_nics(&self) -> bool {
        !matches!(self, Self::Flat | Self::Graph(_))
    }
}

/// How fast a switch's way up is, and its way down: one pipe each, as if traffic were spread over the parallel links of a
/// real switch without loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Uplink {
    /// Speed of all links below it together, divided by this; at least 1, and 1 limits nothing on the whole.
    Oversubscribed(f64),
    /// Bytes per second.
    Bandwidth(f64),
}

impl Default for Uplink {
    fn default() -> Self {
        Self::Oversubscribed(1.0)
    }
}

impl Uplink {
    /// Bytes per second above links of `below` bytes per second together.
    pub(super) fn bandwidth(self, below: f64) -> f64 {
        match self {
            Self::Oversubscribed(factor) => below / factor,
            Self::Bandwidth(bandwidth) => bandwidth,
        }
    }
}

/// A switch for each NIC of a node, and a spine above them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rail {
    /// The way of each rail switch to the spine and back; below it is a NIC of every node.
    pub uplink: Uplink,
    /// The way of what changes rails.
    pub cross_rail: CrossRail,
}

/// Where traffic between nodes changes rails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CrossRail {
    /// Above the rail switches: GPU up, NIC up, rail up, rail down, NIC down, GPU down.
    #[default]
    Spine,
    /// Inside the sending node (NCCL's PXN): over the node's own links to the GPU that sits where the receiver sits in its
    /// node, and out through the NIC of that one: GPU up, GPU down, GPU up, NIC up, NIC down, GPU down. The first byte waits
    /// for both hops.
    Pxn,
}

impl CrossRail {
    /// Both ways.
    pub const ALL: [Self; 2] = [Self::Spine, Self::Pxn];

    /// Name in scenarios.
    pub fn name(self) -> &'static str {
        match self {
            Self::Spine => "spine",
            Self::Pxn => "pxn",
        }
    }
}

impl Rail {
    /// Up links of the rail switches, and their down links, in bytes per second.
    pub(super) fn bandwidth(&self, topology: &Topology) -> f64 {
        self.uplink.bandwidth(f64::from(topology.nodes) * topology.nic_bandwidth)
    }

    /// Between nodes.
    pub(super) fn route(&self, topology: &Topology, src: Rank, dst: Rank) -> Route {
        let (src_rail, dst_rail) = (topology.rail(src), topology.rail(dst));
        let ([up, nic_up], [nic_down, down]) = topology.ports(src, dst);
        let latency_s = topology.latency_inter_s;
        if src_rail == dst_rail {
            return Route::over(&[up, nic_up, nic_down, down], latency_s);
        }
        match self.cross_rail {
            CrossRail::Spine => {
                let rails = topology.first_fabric_link();
                let (rail_up, rail_down) = (LinkId(rails + 2 * src_rail), LinkId(rails + 2 * dst_rail + 1));
                Route::over(&[up, nic_up, rail_up, rail_down, nic_down, down], latency_s)
            }
            CrossRail::Pxn => {
                let proxy = Rank(src.0 - topology.local(src) + topology.local(dst));
                let ([proxy_up, nic_up], _) = topology.ports(proxy, dst);
                let proxy_down = LinkId(proxy_up.0 + 1);
                let links = [up, proxy_down, proxy_up, nic_up, nic_down, down];
                Route::over(&links, topology.latency_intra_s + latency_s)
            }
        }
    }
}

/// Leaf switches of so many nodes each, and what is above them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FatTree {
    /// Nodes below a leaf, at least 1; the last leaf may have fewer.
    pub nodes_per_leaf: u32,
    /// The way of each leaf to the spine and back; below it are all NICs of its nodes.
    pub uplink: Uplink,
    /// A second level of switches.
    pub pods: Option<Pods>,
}

/// Leaves in pods: inside a pod its own spine is enough.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pods {
    /// Leaves of a pod, at least 1; the last pod may have fewer.
    pub leaves_per_pod: u32,
    /// The way of each pod to the core and back; below it are the uplinks of its leaves.
    pub uplink: Uplink,
}

impl FatTree {
    pub(super) fn leaves(&self, topology: &Topology) -> u32 {
        topology.nodes.div_ceil(self.nodes_per_leaf)
    }

    /// 0 without pods.
    pub(super) fn pod_count(&self, topology: &Topology) -> u32 {
        self.pods.map_or(0, |pods| self.leaves(topology).div_ceil(pods.leaves_per_pod))
    }

    /// Bytes per second of each leaf's up link, which are those of its down link, and then of each pod's.
    pub(super) fn bandwidths(&self, topology: &Topology) -> Vec<f64> {
        let leaf = |leaf: u32| {
            let nodes = self.nodes_per_leaf.min(topology.nodes - leaf * self.nodes_per_leaf);
            let nics = f64::from(nodes) * f64::from(topology.nics_per_node);
            self.uplink.bandwidth(nics * topology.nic_bandwidth)
        };
        let mut bandwidths: Vec<f64> = (0..self.leaves(topology)).map(leaf).collect();
        if let Some(pods) = self.pods {
            let below: Vec<f64> =
                bandwidths.chunks(pods.leaves_per_pod as usize).map(|leaves| leaves.iter().sum()).collect();
            bandwidths.extend(below.into_iter().map(|below| pods.uplink.bandwidth(below)));
        }
        bandwidths
    }

    /// Between nodes: up to the first switch that is above both.
    pub(super) fn route(&self, topology: &Topology, src: Rank, dst: Rank) -> Route {
        let ([up, nic_up], [nic_down, down]) = topology.ports(src, dst);
        let [src_leaf, dst_leaf] = [src, dst].map(|rank| topology.node(rank) / self.nodes_per_leaf);
        let latency_s = topology.latency_inter_s;
        if src_leaf == dst_leaf {
            return Route::over(&[up, nic_up, nic_down, down], latency_s);
        }
        let leaves = topology.first_fabric_link();
        let (leaf_up, leaf_down) = (LinkId(leaves + 2 * src_leaf), LinkId(leaves + 2 * dst_leaf + 1));
        let pod = |leaf| self.pods.map_or(0, |pods| leaf / pods.leaves_per_pod);
        let (src_pod, dst_pod) = (pod(src_leaf), pod(dst_leaf));
        if src_pod == dst_pod {
            return Route::over(&[up, nic_up, leaf_up, leaf_down, nic_down, down], latency_s);
        }
        let pods = leaves + 2 * self.leaves(topology);
        let (pod_up, pod_down) = (LinkId(pods + 2 * src_pod), LinkId(pods + 2 * dst_pod + 1));
        Route::over(&[up, nic_up, leaf_up, pod_up, pod_down, leaf_down, nic_down, down], latency_s)
    }
}
