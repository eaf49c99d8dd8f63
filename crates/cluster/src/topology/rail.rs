//! Rail-optimised fabrics: NIC `i` of every node hangs on switch `i`.
//!
//! So traffic between GPUs of the same rail crosses one switch. What goes to another rail either crosses the spine above the
//! rail switches, or changes rails inside its node and never sees the spine ("Doubling all2all Performance with NVIDIA
//! Collective Communication Library 2.12" describes both). There is one switch for each rail, however many nodes there are.

use super::{LinkId, Route, Topology, Uplink};
use crate::Rank;

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
