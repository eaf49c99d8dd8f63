//! What connects the nodes of a cluster: which switches there are, and which of them a route crosses.

use std::sync::Arc;

use super::{FatTree, Graph, Rail};

/// What connects the GPUs and nodes of a cluster.
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
    /// As fast as all links below it together, divided by this; at least 1, and 1 limits nothing on the whole.
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
