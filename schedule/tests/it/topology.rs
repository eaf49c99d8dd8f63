//! Routes and capacities of every topology, by the names of links.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use zipwire_cluster::{
    CrossRail, Fabric, FatTree, Graph, GraphError, GraphLink, Pods, Rail, Route, Topology, Uplink, Vertex,
};
use zipwire_schedule::Rank;

const INTRA_S: f64 = 1e-6;
const INTER_S: f64 = 2e-6;

/// NICs of 1 byte per second and GPU links of 4.
fn cluster(nodes: u32, gpus_per_node: u32, nics_per_node: u32, fabric: Fabric) -> Topology {
    Topology {
        nodes,
        gpus_per_node,
        nics_per_node,
        gpu_bandwidth: 4.0,
        nic_bandwidth: 1.0,
        latency_intra_s: INTRA_S,
        latency_inter_s: INTER_S,
        fabric,
        nodes_per_domain: 1,
        link_bandwidths: BTreeMap::new(),
    }
}

fn rail(oversubscription: f64, cross_rail: CrossRail) -> Fabric {
    Fabric::Rail(Rail { uplink: Uplink::Oversubscribed(oversubscription), cross_rail })
}

fn fat_tree(nodes_per_leaf: u32, oversubscription: f64, pods: Option<Pods>) -> Fabric {
    Fabric::FatTree(FatTree { nodes_per_leaf, uplink: Uplink::Oversubscribed(oversubscription), pods })
}

fn names(topology: &Topology, src: u32, dst: u32) -> Vec<String> {
    let route = topology.route(Rank(src), Rank(dst));
    route.links().iter().map(|&link| topology.link_name(link)).collect()
}

fn capacity(topology: &Topology, name: &str) -> f64 {
    let link = topology.links().find(|&link| topology.link_name(link) == name).unwrap();
    topology.capacities()[link.index()]
}

#[test]
fn flat_shares_nothing_but_gpus() {
    let topology = cluster(2, 4, 2, Fabric::Flat);
    assert_eq!(names(&topology, 0, 3), ["gpu 0 up", "gpu 3 down"]);
    assert_eq!(names(&topology, 1, 7), ["gpu 1 up", "gpu 7 down"]);
    assert_eq!(topology.route(Rank(0), Rank(3)).latency_s, INTRA_S);
    assert_eq!(topology.route(Rank(0), Rank(4)).latency_s, INTER_S, "nodes still tell latencies apart");
    assert_eq!(topology.capacities(), [4.0; 16]);
}

#[test]
fn nodes_cross_nics_only_between_nodes() {
    let topology = cluster(2, 4, 2, Fabric::Nodes);
    assert_eq!(names(&topology, 0, 3), ["gpu 0 up", "gpu 3 down"]);
    assert_eq!(names(&topology, 1, 7), ["gpu 1 up", "nic 0 up", "nic 3 down", "gpu 7 down"]);
    assert_eq!(topology.route(Rank(0), Rank(3)).latency_s, INTRA_S);
    assert_eq!(topology.route(Rank(0), Rank(4)).latency_s, INTER_S);
    assert_eq!((capacity(&topology, "gpu 7 up"), capacity(&topology, "nic 3 down")), (4.0, 1.0));
}

#[test]
fn a_host_is_crossed_within_a_node_only() {
    let topology = cluster(2, 4, 2, Fabric::Host { bandwidth: 9.0 });
    assert_eq!(names(&topology, 4, 7), ["gpu 4 up", "host 1 up", "host 1 down", "gpu 7 down"]);
    assert_eq!(names(&topology, 1, 7), ["gpu 1 up", "nic 0 up", "nic 3 down", "gpu 7 down"]);
    assert_eq!(topology.route(Rank(4), Rank(7)).latency_s, INTRA_S);
    assert_eq!((capacity(&topology, "host 1 up"), capacity(&topology, "host 0 down")), (9.0, 9.0));
}

#[test]
fn a_rail_is_a_switch_of_its_own() {
    // Two GPUs per rail: ranks 0, 1, 4, 5 on rail 0, the others on rail 1.
    let topology = cluster(2, 4, 2, rail(4.0, CrossRail::Spine));
    assert_eq!(names(&topology, 0, 3), ["gpu 0 up", "gpu 3 down"], "within a node no rail is crossed");
    assert_eq!(names(&topology, 0, 5), ["gpu 0 up", "nic 0 up", "nic 2 down", "gpu 5 down"]);
    assert_eq!(
        names(&topology, 1, 6),
        ["gpu 1 up", "nic 0 up", "rail 0 up", "rail 1 down", "nic 3 down", "gpu 6 down"]
    );
    assert_eq!(topology.route(Rank(1), Rank(6)).latency_s, INTER_S);
    assert_eq!(capacity(&topology, "rail 1 down"), 2.0 / 4.0, "two NICs below, four times oversubscribed");
    let declared = Rail { uplink: Uplink::Bandwidth(7.0), ..Rail::default() };
    assert_eq!(capacity(&cluster(2, 4, 2, Fabric::Rail(declared)), "rail 0 up"), 7.0);
}

#[test]
fn pxn_changes_rails_inside_the_node() {
    let topology = cluster(2, 4, 2, rail(1.0, CrossRail::Pxn));
    assert_eq!(names(&topology, 0, 5), ["gpu 0 up", "nic 0 up", "nic 2 down", "gpu 5 down"]);
    // Rank 6 is GPU 2 of its node, so rank 2 hands on.
    assert_eq!(
        names(&topology, 1, 6),
        ["gpu 1 up", "gpu 2 down", "gpu 2 up", "nic 1 up", "nic 3 down", "gpu 6 down"]
    );
    assert_eq!(topology.route(Rank(1), Rank(6)).latency_s, INTRA_S + INTER_S);
    assert_eq!(names(&topology, 7, 0)[1..3], ["gpu 4 down", "gpu 4 up"]);
}

#[test]
fn a_fat_tree_climbs_as_far_as_it_must() {
    // Leaves of 2, 2 and 1 nodes.
    let topology = cluster(5, 2, 1, fat_tree(2, 4.0, None));
    assert_eq!(names(&topology, 0, 1), ["gpu 0 up", "gpu 1 down"]);
    assert_eq!(names(&topology, 0, 3), ["gpu 0 up", "nic 0 up", "nic 1 down", "gpu 3 down"]);
    assert_eq!(
        names(&topology, 3, 8),
        ["gpu 3 up", "nic 1 up", "leaf 0 up", "leaf 2 down", "nic 4 down", "gpu 8 down"]
    );
    assert_eq!(capacity(&topology, "leaf 0 up"), 2.0 / 4.0);
    assert_eq!(capacity(&topology, "leaf 2 down"), 1.0 / 4.0, "the last leaf has one node below it");
}

#[test]
fn pods_are_a_second_level() {
    // Leaves of one node, pods of two leaves; the last pod has one.
    let pods = Pods { leaves_per_pod: 2, uplink: Uplink::Oversubscribed(8.0) };
    let topology = cluster(5, 2, 2, fat_tree(1, 2.0, Some(pods)));
    assert_eq!(
        names(&topology, 0, 3),
        ["gpu 0 up", "nic 0 up", "leaf 0 up", "leaf 1 down", "nic 3 down", "gpu 3 down"]
    );
    let far = names(&topology, 2, 9);
    assert_eq!(
        far,
        [
            "gpu 2 up",
            "nic 2 up",
            "leaf 1 up",
            "pod 0 up",
            "pod 2 down",
            "leaf 4 down",
            "nic 9 down",
            "gpu 9 down"
        ]
    );
    assert_eq!(far.len(), Route::MAX_LINKS);
    assert_eq!(capacity(&topology, "leaf 4 up"), 2.0 / 2.0);
    assert_eq!(capacity(&topology, "pod 0 up"), 2.0 / 8.0);
    assert_eq!(capacity(&topology, "pod 2 down"), 1.0 / 8.0);
}

fn both_ways(a: Vertex, b: Vertex) -> [GraphLink; 2] {
    let link = |src, dst| GraphLink { src, dst, bandwidth: 2.0, latency_s: 0.5 };
    [link(a, b), link(b, a)]
}

fn gpu(rank: u32) -> Vertex {
    Vertex::Gpu(Rank(rank))
}

#[test]
fn a_graph_has_the_shortest_routes_and_settles_ties_by_order() {
    // A square of switches with a GPU at each corner: two ways to the opposite one, and the link given first decides.
    let corner = Vertex::Switch;
    let mut links = Vec::new();
    for rank in 0..4 {
        links.extend(both_ways(gpu(rank), corner(rank)));
    }
    for (a, b) in [(0, 1), (0, 3), (2, 1), (2, 3)] {
        links.extend(both_ways(corner(a), corner(b)));
    }
    let switches = ["a", "b", "nic c", "d"].map(str::to_owned).to_vec();
    let graph = Graph::new(4, switches, links).unwrap();
    let topology = cluster(2, 2, 1, Fabric::Graph(Arc::new(graph)));
    assert_eq!(names(&topology, 0, 2), ["gpu 0 -> a", "a -> b", "b -> nic c", "nic c -> gpu 2"]);
    assert_eq!(names(&topology, 2, 0), ["gpu 2 -> nic c", "nic c -> b", "b -> a", "a -> gpu 0"]);
    assert_eq!(names(&topology, 0, 3), ["gpu 0 -> a", "a -> d", "d -> gpu 3"]);
    assert_eq!(topology.route(Rank(0), Rank(1)).latency_s, INTRA_S + 3.0 * 0.5);
    assert_eq!(topology.route(Rank(0), Rank(3)).latency_s, INTER_S + 3.0 * 0.5);
    assert_eq!(topology.capacities(), [2.0; 16]);
    let fabric: Vec<String> = topology
        .links()
        .filter(|&link| !topology.is_port(link))
        .map(|link| topology.link_name(link))
        .collect();
    assert_eq!(fabric, ["a -> b", "b -> a", "a -> d", "d -> a"], "the links of `nic c` are ports");
}

#[test]
fn a_graph_may_lead_through_gpus_and_one_way() {
    // A ring without switches, one way round.
    let link =
        |rank: u32| GraphLink { src: gpu(rank), dst: gpu((rank + 1) % 5), bandwidth: 1.0, latency_s: 0.0 };
    let graph = Graph::new(5, Vec::new(), (0..5).map(link).collect()).unwrap();
    let topology = cluster(1, 5, 1, Fabric::Graph(Arc::new(graph)));
    assert_eq!(names(&topology, 3, 1), ["gpu 3 -> gpu 4", "gpu 4 -> gpu 0", "gpu 0 -> gpu 1"]);
    assert_eq!(topology.route(Rank(1), Rank(0)).links().len(), 4);
}

#[test]
fn graphs_that_are_no_cluster() {
    let line = |ranks: u32| {
        let links = (1..ranks).flat_map(|rank| both_ways(gpu(rank - 1), gpu(rank))).collect();
        Graph::new(ranks, Vec::new(), links)
    };
    assert!(line(9).is_ok());
    assert_eq!(line(10), Err(GraphError::Long { src: Rank(9), dst: Rank(0), links: 9 }));
    let two_islands = [both_ways(gpu(0), gpu(1)), both_ways(gpu(2), gpu(3))].concat();
    let disconnected = Err(GraphError::Disconnected { src: Rank(2), dst: Rank(0) });
    assert_eq!(Graph::new(4, Vec::new(), two_islands), disconnected);
    let one_way = vec![both_ways(gpu(0), gpu(1))[0]];
    let disconnected = Err(GraphError::Disconnected { src: Rank(1), dst: Rank(0) });
    assert_eq!(Graph::new(2, Vec::new(), one_way), disconnected);
    assert_eq!(line(513), Err(GraphError::Ranks { ranks: 513 }));
}

/// Every preset, with odd numbers where it takes them.
fn presets() -> Vec<Topology> {
    let pods = Some(Pods { leaves_per_pod: 2, uplink: Uplink::default() });
    let fabrics = [
        Fabric::Flat,
        Fabric::Nodes,
        Fabric::Host { bandwidth: 9.0 },
        rail(2.0, CrossRail::Spine),
        rail(1.0, CrossRail::Pxn),
        fat_tree(2, 2.0, None),
        fat_tree(1, 3.0, pods),
        fat_tree(100, 1.0, None),
    ];
    let of = |fabric: Fabric| {
        [(7, 3, 2), (6, 4, 4), (4, 1, 1)]
            .map(|(nodes, gpus, nics)| cluster(nodes, gpus, nics, fabric.clone()))
    };
    fabrics.into_iter().flat_map(of).collect()
}

#[test]
fn every_link_has_a_name_of_its_own_and_a_capacity() {
    for topology in presets() {
        let names: BTreeSet<String> = topology.links().map(|link| topology.link_name(link)).collect();
        assert_eq!(names.len(), topology.links().count(), "{topology:?}");
        assert_eq!(names.len(), topology.capacities().len(), "{topology:?}");
        let kinds: Vec<(&str, u32)> = topology.kinds().collect();
        assert_eq!(names.len() as u32, kinds.iter().map(|(_, count)| 2 * count).sum::<u32>(), "{topology:?}");
        for link in topology.links() {
            let name = topology.link_name(link);
            assert_eq!(
                topology.is_port(link),
                name.starts_with("gpu ") || name.starts_with("nic "),
                "{name}"
            );
        }
    }
}

#[test]
fn every_route_leads_from_its_source_to_its_destination_and_back() {
    for topology in presets() {
        for (src, dst) in
            (0..topology.ranks()).flat_map(|src| (0..topology.ranks()).map(move |dst| (src, dst)))
        {
            if src == dst {
                continue;
            }
            let (there, back) = (names(&topology, src, dst), names(&topology, dst, src));
            assert_eq!(there.first(), Some(&format!("gpu {src} up")));
            assert_eq!(there.last(), Some(&format!("gpu {dst} down")));
            let mut distinct = there.clone();
            distinct.sort();
            distinct.dedup();
            assert_eq!(distinct.len(), there.len(), "{there:?} crosses a link twice");
            // The way back is the mirror image, except where ranks of the sender's node lend a hand.
            let mirrored: Vec<String> = back
                .iter()
                .rev()
                .map(|name| {
                    if name.ends_with("up") { name.replace("up", "down") } else { name.replace("down", "up") }
                })
                .collect();
            let is_pxn = matches!(&topology.fabric, Fabric::Rail(rail) if rail.cross_rail == CrossRail::Pxn);
            assert!(is_pxn || there == mirrored, "{there:?} and {back:?}");
        }
    }
}

#[test]
fn a_link_that_differs_is_the_only_one_that_does() {
    let mut topology = cluster(2, 4, 2, Fabric::Nodes);
    let equal = topology.capacities();
    let link = topology.links().find(|&link| topology.link_name(link) == "nic 3 down").unwrap();
    assert_eq!(topology.route(Rank(0), Rank(7)).links()[2], link);
    topology.link_bandwidths.insert(link, 0.5);
    let differing: Vec<usize> = (0..equal.len()).filter(|&i| topology.capacities()[i] != equal[i]).collect();
    assert_eq!((differing, topology.capacities()[link.index()]), (vec![link.index()], 0.5));
}
