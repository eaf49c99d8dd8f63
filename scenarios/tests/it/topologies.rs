//! `cluster.topology` and `cluster.model`: what they resolve to, and what is wrong with others.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use crate::common;

use common::{Folder, VALID, error};
use insta::assert_snapshot;
use zipwire_cluster::{
    CrossRail, Fabric, FatTree, NetworkModel, Pods, Rail, Topology, TransferStart, Uplink,
};
use zipwire_scenarios::Experiment;
use zipwire_schedule::Rank;

fn set(sets: &[&str]) -> Experiment {
    Folder::new().try_load(VALID, sets).unwrap_or_else(|error| panic!("{}", error.render(false)))
}

fn topology(value: &str) -> Topology {
    set(&[&format!("cluster.topology={value}")]).topology
}

fn route(topology: &Topology, src: u32, dst: u32) -> Vec<String> {
    let route = topology.route(Rank(src), Rank(dst));
    route.links().iter().map(|&link| topology.link_name(link)).collect()
}

#[test]
fn names_are_enough_where_nothing_else_is_to_say() {
    assert_eq!(set(&[]).topology.fabric, Fabric::Nodes);
    for (name, fabric) in [
        ("flat", Fabric::Flat),
        ("nodes", Fabric::Nodes),
        ("rail", Fabric::Rail(Rail { uplink: Uplink::Oversubscribed(1.0), cross_rail: CrossRail::Spine })),
    ] {
        assert_eq!(topology(name).fabric, fabric);
        assert_eq!(topology(&format!("{{ kind = '{name}' }}")).fabric, fabric);
    }
}

#[test]
fn sizes_of_switches() {
    let host = topology("{ kind = 'nodes', host_bandwidth = '40 GB/s' }");
    assert_eq!(host.fabric, Fabric::Host { bandwidth: 40e9 });
    let rail = topology("{ kind = 'rail', uplink_bandwidth = '80 Gb/s', cross_rail = 'pxn' }");
    assert_eq!(
        rail.fabric,
        Fabric::Rail(Rail { uplink: Uplink::Bandwidth(10e9), cross_rail: CrossRail::Pxn })
    );
    let tree = topology("{ kind = 'fat-tree', nodes_per_leaf = 4, oversubscription = 2 }");
    let uplink = Uplink::Oversubscribed(2.0);
    assert_eq!(tree.fabric, Fabric::FatTree(FatTree { nodes_per_leaf: 4, uplink, pods: None }));
    let pods = topology(
        "{ kind = 'fat-tree', nodes_per_leaf = 1, leaves_per_pod = 2, pod_uplink_bandwidth = '1 GB/s' }",
    );
    let of_pods = Pods { leaves_per_pod: 2, uplink: Uplink::Bandwidth(1e9) };
    let uplink = Uplink::Oversubscribed(1.0);
    assert_eq!(pods.fabric, Fabric::FatTree(FatTree { nodes_per_leaf: 1, uplink, pods: Some(of_pods) }));
}

#[test]
fn links_of_switches_may_differ() {
    let tree = "cluster.topology={ kind = 'fat-tree', nodes_per_leaf = 1 }";
    let experiment = set(&[tree, "cluster.links.'leaf 1 down'=3 GB/s"]);
    let link = experiment.topology.route(Rank(0), Rank(3)).links()[3];
    assert_eq!(experiment.topology.link_name(link), "leaf 1 down");
    assert_eq!(experiment.topology.capacities()[link.index()], 3e9);
}

#[test]
fn starts_of_transfers() {
    assert_eq!(set(&[]).start, TransferStart::Rendezvous);
    for start in TransferStart::ALL {
        assert_eq!(set(&[&format!("cluster.start={}", start.name())]).start, start);
    }
    assert_snapshot!(error(VALID, &["cluster.start=barier"]), @r"
    error: unknown start of transfers `barier`
     |
     | --set cluster.start=barier
     |                     ^^^^^^
     |
     = help: did you mean `barrier`? it must be one of `rendezvous` and `barrier`
    ");
}

#[test]
fn models() {
    assert_eq!(set(&[]).model, NetworkModel::MaxMin);
    for model in NetworkModel::ALL {
        assert_eq!(set(&[&format!("cluster.model={}", model.name())]).model, model);
    }
    assert_snapshot!(error(VALID, &["cluster.model=port"]), @r"
    error: unknown network model `port`
     |
     | --set cluster.model=port
     |                     ^^^^
     |
     = help: did you mean `ports`? it must be one of `max-min`, `ports` and `alpha-beta`
    ");
}

#[test]
fn keys_without_use_may_stay_and_are_not_needed() {
    let text = VALID.replace("nic_bandwidth = \"25 GB/s\"\n", "");
    assert!(Folder::new().try_load(&text, &["cluster.topology=flat"]).is_ok());
    assert_snapshot!(error(&text, &["cluster.topology=rail"]), @r#"
    error: missing key `nic_bandwidth` in `cluster`
     --> test.toml:3:1
      |
    3 | [cluster]
      | ^^^^^^^^^
      |
      = help: add `nic_bandwidth = "25 GB/s"` to `cluster`
    "#);
    let text = text.replace("gpu_bandwidth = \"25 GB/s\"\n", "");
    assert_snapshot!(error(&text, &["cluster.topology=flat"]), @r#"
    error: missing key `gpu_bandwidth` in `cluster`
     --> test.toml:3:1
      |
    3 | [cluster]
      | ^^^^^^^^^
      |
      = help: add `gpu_bandwidth = "25 GB/s"` to `cluster`
    "#);
    assert!(Folder::new().try_load(&text, &[RING]).is_ok());
    assert!(Folder::new().try_load(VALID, &[RING]).is_ok());
    let text = text.replace("latency_inter = \"10 us\"\n", "");
    assert_snapshot!(error(&text, &[RING]), @r#"
    error: missing key `latency_inter` in `cluster`
     --> test.toml:3:1
      |
    3 | [cluster]
      | ^^^^^^^^^
      |
      = help: add `latency_inter = "10 us"` to `cluster`
    "#);
}

const RING: &str = "cluster.topology={ kind = 'graph', edges = [\
    { from = 'gpu 0', to = 'gpu 1', bandwidth = '1 GB/s', latency = '1 us' }, \
    { from = 'gpu 1', to = 'gpu 2', bandwidth = '1 GB/s' }, \
    { from = 'gpu 2', to = 'gpu 3', bandwidth = '1 GB/s' }, \
    { from = 'gpu 3', to = 'gpu 0', bandwidth = '1 GB/s' }] }";

#[test]
fn a_graph_is_what_was_drawn() {
    let ring = set(&[RING, "cluster.links.'gpu 1 -> gpu 2'=2 GB/s"]).topology;
    assert_eq!(route(&ring, 3, 1), ["gpu 3 -> gpu 0", "gpu 0 -> gpu 1"]);
    assert_eq!(ring.capacities(), [1e9, 2e9, 1e9, 1e9]);
    let near_s = ring.route(Rank(0), Rank(1)).latency_s;
    assert_eq!(
        (near_s, ring.route(Rank(1), Rank(2)).latency_s),
        (5e-6 + 1e-6, 10e-6),
        "in a node, and between two"
    );
}

/// [`VALID`] with four GPUs and these edges and switches.
fn drawn(switches: &str, edges: &[&str]) -> String {
    let edges: String =
        edges.iter().map(|edge| format!("    {{ {edge}, bandwidth = \"25 GB/s\" }},\n")).collect();
    let graph = format!("kind = \"graph\"\nswitches = {switches}\nedges = [\n{edges}]");
    VALID.replace("[workload]", &format!("[cluster.topology]\n{graph}\n\n[workload]"))
}

const STAR: [&str; 4] = [
    "between = [\"gpu 0\", \"s 1\"]",
    "between = [\"s 1\", \"gpu 1\"]",
    "between = [\"gpu 2\", \"s 1\"]",
    "between = [\"gpu 3\", \"s 1\"]",
];

#[test]
fn graphs_that_are_disconnected() {
    let star = |edges: &[&str]| drawn("[\"s 1\"]", edges);
    assert!(Folder::new().try_load(&star(&STAR), &[]).is_ok());
    assert_snapshot!(error(&star(&STAR[..3]), &[]), @r#"
    error: no route leads from `gpu 3` to `gpu 0`
      --> test.toml:14:9
       |
    14 |   edges = [
       |  _________^
    15 | |     { between = ["gpu 0", "s 1"], bandwidth = "25 GB/s" },
    16 | |     { between = ["s 1", "gpu 1"], bandwidth = "25 GB/s" },
    17 | |     { between = ["gpu 2", "s 1"], bandwidth = "25 GB/s" },
    18 | | ]
       | |_^
       |
       = help: every rank must reach every other one; `between` is an edge in both directions, `from` and `to` in one
    "#);
    let one_way = [&STAR[..3], &["from = \"s 1\", to = \"gpu 3\""]].concat();
    assert_snapshot!(error(&star(&one_way), &[]), @r#"
    error: no route leads from `gpu 3` to `gpu 0`
      --> test.toml:14:9
       |
    14 |   edges = [
       |  _________^
    15 | |     { between = ["gpu 0", "s 1"], bandwidth = "25 GB/s" },
    16 | |     { between = ["s 1", "gpu 1"], bandwidth = "25 GB/s" },
    17 | |     { between = ["gpu 2", "s 1"], bandwidth = "25 GB/s" },
    18 | |     { from = "s 1", to = "gpu 3", bandwidth = "25 GB/s" },
    19 | | ]
       | |_^
       |
       = help: every rank must reach every other one; `between` is an edge in both directions, `from` and `to` in one
    "#);
}

#[test]
fn graphs_with_routes_that_are_too_long() {
    let names: Vec<String> = (0..8).map(|i| format!("s{i}")).collect();
    let mut edges: Vec<String> = (1..8).map(|i| format!("between = [\"s{}\", \"s{i}\"]", i - 1)).collect();
    for (gpu, switch) in [(0, 0), (1, 7), (2, 6), (3, 6)] {
        edges.push(format!("between = [\"gpu {gpu}\", \"s{switch}\"]"));
    }
    let edges: Vec<&str> = edges.iter().map(String::as_str).collect();
    let rendered = error(&drawn(&format!("{names:?}"), &edges), &[]);
    assert_snapshot!(rendered.lines().next().unwrap(), @"error: the route from `gpu 1` to `gpu 0` has `9` links, and at most `8` are possible");
    assert!(rendered.contains("test.toml:14"), "{rendered}");
}

#[test]
fn graphs_with_too_many_ranks() {
    assert_snapshot!(error(&drawn("[]", &[]), &["cluster.nodes=257"]), @r"
    error: a graph has at most `512` ranks, not `514`
      --> test.toml:11:1
       |
    11 | [cluster.topology]
       | ^^^^^^^^^^^^^^^^^^
       |
       = help: take fewer, or one of the topologies `flat`, `nodes`, `rail` and `fat-tree`
    ");
}

#[test]
fn vertices() {
    let with = |edge: &str| drawn("[\"s 1\"]", &[&STAR[..], &[edge]].concat());
    assert_snapshot!(error(&with("between = [\"gpu 0\", \"s1\"]"), &[]), @r#"
    error: the graph has no vertex `s1`
      --> test.toml:19:27
       |
    19 |     { between = ["gpu 0", "s1"], bandwidth = "25 GB/s" },
       |                           ^^^^
       |
       = help: did you mean `s 1`? there are `gpu 0` to `gpu 3` and the switches `s 1`
    "#);
    assert_snapshot!(error(&with("from = \"gpu 4\", to = \"gpu 0\""), &[]), @r#"
    error: the graph has no vertex `gpu 4`
      --> test.toml:19:14
       |
    19 |     { from = "gpu 4", to = "gpu 0", bandwidth = "25 GB/s" },
       |              ^^^^^^^
       |
       = help: did you mean `gpu 0`? there are `gpu 0` to `gpu 3` and the switches `s 1`
    "#);
    assert_snapshot!(error(&with("from = \"gpu 2\", to = \"gpu 2\""), &[]), @r#"
    error: an edge from `gpu 2` to itself
      --> test.toml:19:28
       |
    19 |     { from = "gpu 2", to = "gpu 2", bandwidth = "25 GB/s" },
       |                            ^^^^^^^
       |
       = help: leave it out: what stays where it is crosses no link
    "#);
    assert_snapshot!(error(&with("from = \"s 1\", to = \"gpu 1\""), &[]), @r#"
    error: two edges lead from `s 1` to `gpu 1`
      --> test.toml:19:5
       |
    16 |     { between = ["s 1", "gpu 1"], bandwidth = "25 GB/s" },
       |     ----------------------------------------------------- and here
    ...
    19 |     { from = "s 1", to = "gpu 1", bandwidth = "25 GB/s" },
       |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
       |
       = help: make them one with the bandwidth of both; `between` counts in both directions
    "#);
    assert_snapshot!(error(&with("between = [\"gpu 2\"]"), &[]), @r#"
    error: `cluster.topology.edges.4.between` names 1 ends of an edge, and it has two
      --> test.toml:19:17
       |
    19 |     { between = ["gpu 2"], bandwidth = "25 GB/s" },
       |                 ^^^^^^^^^
       |
       = help: like `between = ["gpu 0", "gpu 1"]`
    "#);
    assert_snapshot!(error(&with("from = \"gpu 2\""), &[]), @r#"
    error: missing key `to` in `cluster.topology.edges.4`
      --> test.toml:19:5
       |
    19 |     { from = "gpu 2", bandwidth = "25 GB/s" },
       |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
       |
       = help: add `to = "gpu 1"` to `cluster.topology.edges.4`
    "#);
    assert_snapshot!(error(&with("to = \"gpu 2\""), &[]), @r#"
    error: `cluster.topology.edges.4` needs exactly one of `between` and `from`, found none
      --> test.toml:19:5
       |
    19 |     { to = "gpu 2", bandwidth = "25 GB/s" },
       |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    "#);
    assert_snapshot!(error(&with("between = [\"gpu 2\", \"gpu 3\"], to = \"gpu 2\""), &[]), @r#"
    error: `cluster.topology.edges.4.to` has no effect: `between` names both ends
      --> test.toml:19:42
       |
    19 |     { between = ["gpu 2", "gpu 3"], to = "gpu 2", bandwidth = "25 GB/s" },
       |                                          ^^^^^^^
    "#);
    assert_snapshot!(error(&drawn("[\"gpu 9\"]", &STAR), &[]), @r#"
    error: a switch cannot be called `gpu 9`
      --> test.toml:13:13
       |
    13 | switches = ["gpu 9"]
       |             ^^^^^^^
       |
       = help: words of letters, digits, `-`, `_` and `.` with a blank between two of them; `gpu` is what ranks are called
    "#);
    assert_snapshot!(error(&drawn("[\"s 1\", \"s 1\"]", &STAR), &[]), @r#"
    error: two switches are called `s 1`
      --> test.toml:13:20
       |
    13 | switches = ["s 1", "s 1"]
       |                    ^^^^^
       |
       = help: give each switch a name of its own
    "#);
    assert_snapshot!(error(&drawn("[\"a -> b\"]", &STAR), &[]), @r#"
    error: a switch cannot be called `a -> b`
      --> test.toml:13:13
       |
    13 | switches = ["a -> b"]
       |             ^^^^^^^^
       |
       = help: words of letters, digits, `-`, `_` and `.` with a blank between two of them; `gpu` is what ranks are called
    "#);
}

#[test]
fn topologies_that_do_not_exist() {
    assert_snapshot!(error(VALID, &["cluster.topology=fattree"]), @r"
    error: unknown topology `fattree`
     |
     | --set cluster.topology=fattree
     |                        ^^^^^^^
     |
     = help: did you mean `fat-tree`? it must be one of `flat`, `nodes`, `rail`, `fat-tree` and `graph`
    ");
    assert_snapshot!(error(VALID, &["cluster.topology=fat-tree"]), @r#"
    error: `cluster.topology` cannot be the name `fat-tree` alone
     |
     | --set cluster.topology=fat-tree
     |                        ^^^^^^^^
     |
     = help: write it as a table, like `{ kind = "fat-tree", nodes_per_leaf = 4, oversubscription = 2.0 }`
    "#);
    assert_snapshot!(error(VALID, &["cluster.topology=graph"]), @r#"
    error: `cluster.topology` cannot be the name `graph` alone
     |
     | --set cluster.topology=graph
     |                        ^^^^^
     |
     = help: write it as a table, like `{ kind = "graph", switches = ["s"], edges = [{ between = ["gpu 0", "s"], bandwidth = "25 GB/s" }, ...] }`
    "#);
    assert_snapshot!(error(VALID, &["cluster.topology={ kind = 'torus' }"]), @r"
    error: unknown topology `torus`
     |
     | --set cluster.topology={ kind = 'torus' }
     |                                 ^^^^^^^
     |
     = help: it must be one of `flat`, `nodes`, `rail`, `fat-tree` and `graph`
    ");
    assert_snapshot!(error(VALID, &["cluster.topology={ oversubscription = 2.0 }"]), @r#"
    error: missing key `kind` in `cluster.topology`
     |
     | --set cluster.topology={ oversubscription = 2.0 }
     |                        ^^^^^^^^^^^^^^^^^^^^^^^^^^
     |
     = help: add `kind = "rail"` to `cluster.topology`
    "#);
    assert_snapshot!(error(VALID, &["cluster.topology={ kind = 'fat-tree', oversubscripton = 2.0 }"]), @r"
    error: unknown key `oversubscripton` in `cluster.topology`
     |
     | --set cluster.topology={ kind = 'fat-tree', oversubscripton = 2.0 }
     |                                             ^^^^^^^^^^^^^^^
     |
     = help: did you mean `oversubscription`? the valid keys are `kind`, `nodes_per_leaf`, `oversubscription`, `uplink_bandwidth`, `leaves_per_pod`, `pod_oversubscription` and `pod_uplink_bandwidth`
    ");
    assert_snapshot!(error(VALID, &["cluster.topology={ kind = 'fat-tree' }"]), @r"
    error: missing key `nodes_per_leaf` in `cluster.topology`
     |
     | --set cluster.topology={ kind = 'fat-tree' }
     |                        ^^^^^^^^^^^^^^^^^^^^^
     |
     = help: add `nodes_per_leaf = 4` to `cluster.topology`
    ");
    assert_snapshot!(error(VALID, &["cluster.topology={ kind = 'rail', cross_rail = 'nvlink' }"]), @r"
    error: unknown way between rails `nvlink`
     |
     | --set cluster.topology={ kind = 'rail', cross_rail = 'nvlink' }
     |                                                      ^^^^^^^^
     |
     = help: it must be one of `spine` and `pxn`
    ");
}

#[test]
fn keys_that_say_the_same_or_nothing() {
    assert_snapshot!(
        error(VALID, &["cluster.topology={ kind = 'rail', oversubscription = 2.0, uplink_bandwidth = '1 GB/s' }"]),
        @r"
    error: `cluster.topology.oversubscription` has no effect: the bandwidth of the uplink is given
     |
     | --set cluster.topology={ kind = 'rail', oversubscription = 2.0, uplink_bandwidth = '1 GB/s' }
     |                                                            ^^^
    "
    );
    assert_snapshot!(
        error(VALID, &["cluster.topology={ kind = 'fat-tree', nodes_per_leaf = 2, pod_oversubscription = 2.0 }"]),
        @r"
    error: `cluster.topology.pod_oversubscription` has no effect: without `leaves_per_pod` there are no pods
     |
     | --set cluster.topology={ kind = 'fat-tree', nodes_per_leaf = 2, pod_oversubscription = 2.0 }
     |                                                                                        ^^^
    "
    );
}

#[test]
fn links_that_the_topology_does_not_have() {
    let tree = "cluster.topology={ kind = 'fat-tree', nodes_per_leaf = 1 }";
    assert_snapshot!(error(VALID, &[tree, "cluster.links.'leave 1 up'=1 GB/s"]), @r"
    error: the cluster has no link `leave 1 up`
     |
     | --set cluster.links.'leave 1 up'=1 GB/s
     |                     ^^^^^^^^^^^^
     |
     = help: did you mean `leaf 1 up`? there are `gpu 0` to `gpu 3`, `nic 0` to `nic 1` and `leaf 0` to `leaf 1`, each `up` and `down`
    ");
    assert_snapshot!(error(VALID, &["cluster.topology=flat", "cluster.links.'nic 1 up'=1 GB/s"]), @r"
    error: the cluster has no link `nic 1 up`
     |
     | --set cluster.links.'nic 1 up'=1 GB/s
     |                     ^^^^^^^^^^
     |
     = help: there are `gpu 0` to `gpu 3`, each `up` and `down`
    ");
    assert_snapshot!(error(VALID, &[RING, "cluster.links.'gpu 1 -> gpu 0'=1 GB/s"]), @r"
    error: the cluster has no link `gpu 1 -> gpu 0`
     |
     | --set cluster.links.'gpu 1 -> gpu 0'=1 GB/s
     |                     ^^^^^^^^^^^^^^^^
     |
     = help: did you mean `gpu 1 -> gpu 2`? there are `gpu 0 -> gpu 1`, `gpu 1 -> gpu 2`, `gpu 2 -> gpu 3` and `gpu 3 -> gpu 0`
    ");
}
