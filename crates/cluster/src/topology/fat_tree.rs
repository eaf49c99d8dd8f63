//! Fat trees: leaf switches above nodes, a spine above the leaves; with pods, a spine for each pod and a core above them.
//!
//! All links between two levels that belong to one switch are one pipe: traffic is spread over them perfectly. Real fabrics
//! hash flows onto links, and come near this with many flows or with adaptive routing.

use super::{LinkId, Route, Topology, Uplink};
use crate::Rank;

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
