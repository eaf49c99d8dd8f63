//! `cluster.topology`, `cluster.model` and `cluster.links`: resolved values.

use insta::assert_snapshot;
use zipwire_cluster::{
    CrossRail, Fabric, FatTree, NetworkModel, Pods, Rail, Topology, TransferStart, Uplink,
};
use zipwire_scenarios::{Experiment, ScenarioError, Source, load_real};
use zipwire_schedule::Rank;

use crate::common::{Folder, VALID, valid_with};

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
}

#[test]
fn models() {
    assert_eq!(set(&[]).model, NetworkModel::MaxMin);
    for model in NetworkModel::ALL {
        assert_eq!(set(&[&format!("cluster.model={}", model.name())]).model, model);
    }
}

#[test]
fn keys_without_use_may_stay_and_are_not_needed() {
    let text = VALID.replace("nic_bandwidth = \"25 GB/s\"\n", "");
    assert!(Folder::new().try_load(&text, &["cluster.topology=flat"]).is_ok());
    let text = text.replace("gpu_bandwidth = \"25 GB/s\"\n", "");
    assert!(Folder::new().try_load(&text, &[RING]).is_ok());
    assert!(Folder::new().try_load(VALID, &[RING]).is_ok());
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

const LINKS: &str = "latency_inter = \"10 us\"\n\n[cluster.links]\n\"nic 1 down\" = \"12.5 GB/s\"";

/// Bytes per second of the links that differ from the others of their kind.
fn differing(experiment: &Experiment) -> Vec<(String, f64)> {
    let topology = &experiment.topology;
    topology.link_bandwidths.iter().map(|(&link, &bandwidth)| (topology.link_name(link), bandwidth)).collect()
}

fn really(text: &str, real_sets: &[&str]) -> Result<Experiment, ScenarioError> {
    let real_sets: Vec<String> = real_sets.iter().map(|&set| set.to_owned()).collect();
    load_real(
        &Source::from_text("test.toml", text, "."),
        &["cluster.launch=1 us".to_owned()],
        &real_sets,
        None,
    )
}

#[test]
fn a_link_that_differs_has_its_own_bandwidth() {
    let experiment = Folder::new().load(&valid_with("latency_inter = \"10 us\"", LINKS));
    assert_eq!(differing(&experiment), [("nic 1 down".to_owned(), 12.5e9)]);
    let capacities = experiment.topology.capacities();
    assert_eq!(capacities.iter().filter(|&&capacity| capacity == 12.5e9).count(), 1);
    assert_eq!(capacities.iter().filter(|&&capacity| capacity == 25e9).count(), capacities.len() - 1);
}

#[test]
fn a_path_creates_the_table() {
    let set = Folder::new().try_load(VALID, &["cluster.links.\"gpu 3 up\"=1 GB/s"]).unwrap();
    assert_eq!(differing(&set), [("gpu 3 up".to_owned(), 1e9)]);
    let both = really(VALID, &["cluster.links.\"nic 0 up\"=2 GB/s", "cluster.links.\"gpu 0 down\"=3 GB/s"]);
    assert_eq!(differing(&both.unwrap()), [("gpu 0 down".to_owned(), 3e9), ("nic 0 up".to_owned(), 2e9)]);
}

#[test]
fn a_real_set_comes_after_every_set() {
    let experiment = really(VALID, &["cluster.launch=2 us"]).unwrap();
    assert_eq!(experiment.host.launch_s, 2e-6);
}

#[test]
fn a_real_set_is_shown_as_the_user_wrote_it() {
    let shown = |real_set| really(VALID, &[real_set]).unwrap_err().render(false);
    assert_snapshot!(shown("cluster.hots_sync=1 us"), @r"
    error: unknown key `hots_sync` in `cluster`
     |
     | --real-set cluster.hots_sync=1 us
     |                    ^^^^^^^^^
     |
     = help: did you mean `host_sync`? the valid keys are `preset`, `file`, `nodes`, `gpus_per_node`, `topology`, `gpu_bandwidth`, `nic_bandwidth`, `nics_per_node`, `latency_intra`, `latency_inter`, `launch`, `host_sync`, `compute_slowdown`, `reduce`, `gpu_memory`, `library`, `codec_speed`, `links`, `model` and `start`
    ");
    assert_snapshot!(shown("cluster.host_sync"), @r#"
    error: `--real-set` takes `path=value`
     |
     | --real-set cluster.host_sync
     |            ^^^^^^^^^^^^^^^^^
     |
     = help: like `--real-set "cluster.host_sync=60 us"`
    "#);
}
