//! Whole plans on every topology against closed forms: an All-to-All of N ranks that each send S bytes to every other one, all
//! at once, on G GPUs per node. Which link is the narrowest follows from how many flows cross it.

use std::sync::Arc;

use crate::common::{self, all_to_all, assert_close, job, setup};
use ndarray::Array2;
use zipwire_cluster::{CrossRail, Fabric, FatTree, Graph, GraphLink, Pods, Rail, Topology, Uplink, Vertex};
use zipwire_schedule::{Choice, Durations, Protocol, Rank, plan};

/// Bytes from each rank to each other.
const S: u64 = 1 << 20;
/// Bytes per second of a NIC; GPU links are faster than all NICs of a node.
const NIC: f64 = 25e9;
const GPU: f64 = 400e9;
/// Seconds; within a node there is no latency, so that all flows between nodes set out together.
const INTER_S: f64 = 10e-6;

fn cluster(nodes: u32, gpus_per_node: u32, nics_per_node: u32, fabric: Fabric) -> Topology {
    Topology { nics_per_node, fabric, ..common::nodes(nodes, gpus_per_node, [GPU, NIC], [0.0, INTER_S]) }
}

/// Seconds of one native All-to-All in which `bytes` go from each rank to each other.
fn seconds(topology: &Topology, bytes: impl Fn(u32, u32) -> u64) -> f64 {
    let ranks = topology.ranks();
    let bytes =
        Array2::from_shape_fn((ranks as usize, ranks as usize), |(src, dst)| bytes(src as u32, dst as u32));
    let job = job(ranks, [("exchange", all_to_all(bytes))]);
    let plan = plan(&job, &Choice::of(Protocol::Native, None));
    let durations = Durations::zeros(1, 1, ranks);
    common::seconds(&setup(&plan, topology, &durations))
}

fn burst(topology: &Topology) -> f64 {
    seconds(topology, |_, _| S)
}

fn over(chunks: u32, bandwidth: f64) -> f64 {
    f64::from(chunks) * S as f64 / bandwidth
}

#[test]
fn flat_bursts() {
    // a + (N - 1) S / B: every GPU sends and receives N - 1 chunks, whatever node they are on.
    for (nodes, gpus) in [(1, 8), (4, 4)] {
        let topology = Topology { latency_intra_s: INTER_S, ..cluster(nodes, gpus, 1, Fabric::Flat) };
        assert_close(burst(&topology), INTER_S + over(nodes * gpus - 1, GPU));
    }
}

#[test]
fn two_level_bursts() {
    // a + 8 (N - 8) S / B: the NIC carries what 8 GPUs send to N - 8 others. With k NICs, 8 / k GPUs share each.
    for (nodes, nics) in [(2, 1), (4, 1), (3, 2), (2, 8)] {
        let topology = cluster(nodes, 8, nics, Fabric::Nodes);
        assert_close(burst(&topology), INTER_S + over(8 / nics * (8 * nodes - 8), NIC));
    }
}

#[test]
fn a_host_limits_what_stays_in_a_node() {
    // a + 8 x 7 S / H within a node; between two nodes its NIC has 8 x 8 chunks to move, and the host 8 x 7.
    for (nodes, host, expected) in
        [(1, 2.0 * GPU, over(56, 2.0 * GPU)), (1, 100.0 * GPU, over(7, GPU)), (2, NIC, over(64, NIC))]
    {
        let latency_s = if nodes == 1 { 0.0 } else { INTER_S };
        let topology = cluster(nodes, 8, 1, Fabric::Host { bandwidth: host });
        assert_close(burst(&topology), latency_s + expected);
    }
}

#[test]
fn a_fat_tree_limits_where_its_oversubscription_outweighs_the_traffic_that_stays_below() {
    // L nodes per leaf and one NIC each. A leaf sends L G (N - L G) chunks up, at L B / o: o G (N - L G) S / B. A NIC sends
    // G (N - G) chunks at B. The larger of both is the end, as all flows of the narrower link have equal rates from start to end.
    let gpus = 4;
    for (nodes, nodes_per_leaf, factor) in [(4, 2, 1.0), (4, 2, 2.0), (6, 2, 1.25), (6, 3, 4.0), (6, 2, 1.1)]
    {
        let uplink = Uplink::Oversubscribed(factor);
        let tree = Fabric::FatTree(FatTree { nodes_per_leaf, uplink, pods: None });
        let ranks = nodes * gpus;
        let leaf_s = factor * over(gpus * (ranks - nodes_per_leaf * gpus), NIC);
        let nic_s = over(gpus * (ranks - gpus), NIC);
        assert_close(burst(&cluster(nodes, gpus, 1, tree)), INTER_S + f64::max(leaf_s, nic_s));
    }
}

#[test]
fn pods_limit_what_leaves_them() {
    // P leaves per pod, oversubscribed only above the pods: a pod sends P L G (N - P L G) chunks up, at P L B / o.
    let (nodes, gpus, nodes_per_leaf, leaves_per_pod, factor) = (8, 2, 2, 2, 3.0);
    let uplink = Uplink::Oversubscribed(factor);
    let pods = Some(Pods { leaves_per_pod, uplink });
    let tree = Fabric::FatTree(FatTree { nodes_per_leaf, uplink: Uplink::default(), pods });
    let (ranks, below) = (nodes * gpus, leaves_per_pod * nodes_per_leaf * gpus);
    assert_close(burst(&cluster(nodes, gpus, 1, tree)), INTER_S + factor * over(gpus * (ranks - below), NIC));
}

#[test]
fn traffic_of_one_rail_never_sees_the_spine() {
    // M nodes whose GPUs send to their like: M - 1 chunks over each NIC, and a spine that carries next to nothing is no matter.
    let nodes = 4;
    let uplink = Uplink::Bandwidth(1.0);
    for cross_rail in CrossRail::ALL {
        let topology = cluster(nodes, 4, 4, Fabric::Rail(Rail { uplink, cross_rail }));
        let same_rail = |src, dst| if src % 4 == dst % 4 { S } else { 0 };
        assert_close(seconds(&topology, same_rail), INTER_S + over(nodes - 1, NIC));
    }
}

#[test]
fn what_changes_rails_shares_the_spine() {
    // G rails of one GPU per node: a rail switch sends M (M - 1)(G - 1) chunks up, at M B / o; a NIC (M - 1) G chunks at B.
    let (nodes, gpus) = (3, 4);
    for factor in [1.0, 2.0, 5.0] {
        let rail = Rail { uplink: Uplink::Oversubscribed(factor), cross_rail: CrossRail::Spine };
        let spine_s = factor * over((nodes - 1) * (gpus - 1), NIC);
        let nic_s = over((nodes - 1) * gpus, NIC);
        let got = burst(&cluster(nodes, gpus, gpus, Fabric::Rail(rail)));
        assert_close(got, INTER_S + f64::max(spine_s, nic_s));
    }
}

#[test]
fn pxn_trades_the_spine_for_links_inside_the_node() {
    // Every chunk leaves through the NIC of its receiver's rail: (M - 1) G chunks for each NIC, without any spine.
    let (nodes, gpus) = (3, 4);
    let rail = Rail { uplink: Uplink::Bandwidth(1.0), cross_rail: CrossRail::Pxn };
    let topology = cluster(nodes, gpus, gpus, Fabric::Rail(rail));
    assert_close(burst(&topology), INTER_S + over((nodes - 1) * gpus, NIC));
    // With GPU links as slow as NICs they are the limit. A GPU sends (M - 1) G chunks to other nodes, of which M - 1 stay in
    // its rail, and G - 1 within the node; and it hands on what the G - 1 others have for its rail, (M - 1)(G - 1) chunks.
    let slow = Topology {
        gpu_bandwidth: NIC,
        latency_intra_s: INTER_S / 2.0,
        latency_inter_s: INTER_S / 2.0,
        ..topology
    };
    let chunks = (nodes - 1) * gpus + (gpus - 1) + (nodes - 1) * (gpus - 1);
    let crossing =
        |src: u32, dst: u32| if src / gpus != dst / gpus && src % gpus != dst % gpus { S } else { 0 };
    // Only what crosses both: then all flows set out together. Each is sent once and handed on once.
    let both = 2 * (nodes - 1) * (gpus - 1);
    assert_close(seconds(&slow, crossing), INTER_S + over(both, NIC));
    // No GPU can be done with everything before its own link has carried it all.
    assert!(burst(&slow) >= over(chunks, NIC));
}

#[test]
fn a_graph_drawn_like_nodes_is_as_fast_as_nodes() {
    let (nodes, gpus) = (3, 2);
    let link = |src, dst, bandwidth| GraphLink { src, dst, bandwidth, latency_s: 0.0 };
    let mut links = Vec::new();
    let core = Vertex::Switch(nodes);
    for node in 0..nodes {
        for rank in node * gpus..(node + 1) * gpus {
            let (gpu, own) = (Vertex::Gpu(Rank(rank)), Vertex::Switch(node));
            links.extend([link(gpu, own, GPU), link(own, gpu, GPU)]);
        }
        links.extend([link(Vertex::Switch(node), core, NIC), link(core, Vertex::Switch(node), NIC)]);
    }
    let switches = ["node 0", "node 1", "node 2", "core"].map(str::to_owned).to_vec();
    let graph = Graph::new(nodes * gpus, switches, links).unwrap();
    let drawn = cluster(nodes, gpus, 1, Fabric::Graph(Arc::new(graph)));
    let preset = cluster(nodes, gpus, 1, Fabric::Nodes);
    assert_close(burst(&drawn), INTER_S + over(gpus * gpus * (nodes - 1), NIC));
    assert_eq!(burst(&drawn), burst(&preset));
    let uneven = |src: u32, dst: u32| u64::from(1 + src * 7 + dst * 3) * 2000;
    assert_eq!(seconds(&drawn, uneven), seconds(&preset, uneven));
}
