//! `cluster.preset` and `cluster.file`: hardware from elsewhere, and what the scenario says instead.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod common;

use common::{Folder, VALID, error};
use insta::assert_snapshot;
use zipwire_scenarios::{is_scenario_file, presets};
use zipwire_schedule::{CallCost, Fabric, LibraryCost, Rank};

/// A scenario that says nothing about its cluster but this.
fn on(cluster: &str) -> String {
    format!(
        "name = \"test\"\n\n[cluster]\n{cluster}\n\n[workload]\nkind = \"collective\"\n\
         collective = \"all-to-all\"\nbytes_per_rank = \"1 MiB\"\n"
    )
}

#[test]
fn every_preset_is_a_cluster() {
    let sizes: Vec<(&str, u32, u32)> = presets()
        .iter()
        .map(|preset| {
            let topology = preset.topology().unwrap();
            let experiment = Folder::new().load(&on(&format!("preset = \"{}\"", preset.name)));
            assert_eq!(experiment.topology, topology);
            assert!(preset.description().unwrap().ends_with(['.', '`']), "{:?}", preset.description());
            assert!(!is_scenario_file(preset.text));
            (preset.name, topology.nodes, topology.gpus_per_node)
        })
        .collect();
    assert_eq!(
        sizes,
        [
            ("a6000-8x8", 8, 8),
            ("h800-2x8", 2, 8),
            ("h100-8x", 1, 8),
            ("h200-8x", 1, 8),
            ("gb200-nvl72", 1, 72)
        ]
    );
}

/// Each GPU gets 6 GB/s over a ring with eight GPUs per node: 63 x 1 MB take 10.5 ms, and 30 us + 63 x 6 us of latency.
#[test]
fn rings_of_the_library_are_those_of_the_fit() {
    let experiment = Folder::new().load(&on("preset = \"a6000-8x8\""));
    let library = experiment.host.library;
    let seconds = |cost: Option<CallCost>, ring_bytes| cost.unwrap().seconds(64, ring_bytes);
    assert!((seconds(library.all_gather, 63_000_000) - (0.0105 + 0.000_408)).abs() < 1e-12);
    assert_eq!(library.reduce_scatter, library.all_gather);
    // A Reduce-Scatter and an All-Gather: the same bytes and steps, but one latency less.
    let both = 2.0 * seconds(library.all_gather, 63_000_000);
    assert!((both - seconds(library.all_reduce, 126_000_000) - 30e-6).abs() < 1e-12);
    let h800 = Folder::new().load(&on("preset = \"h800-2x8\"")).host.library;
    assert_eq!(h800.all_gather.map(|cost| cost.bytes_per_s), Some(44e9));
    assert_eq!(Folder::new().load(&on("preset = \"h100-8x\"")).host.library, LibraryCost::default());
}

/// A constant without a source is a number made up.
#[test]
fn every_constant_has_a_comment() {
    for preset in presets() {
        let mut is_after_comment = false;
        for line in preset.text.lines() {
            let is_key = line.starts_with(|c: char| c.is_ascii_lowercase());
            // Both latencies share one source, and the size of the unit is the preset's name.
            let is_exempt = line.starts_with("latency_inter")
                || line == "nodes = 1"
                || line.starts_with("gpus_per_node = 72");
            assert!(
                !is_key || is_after_comment || line.contains(" # ") || is_exempt,
                "{}: {line}",
                preset.name
            );
            is_after_comment = line.starts_with('#');
        }
    }
}

#[test]
fn presets_hold_what_their_sources_say() {
    let topology =
        |name: &str| presets().iter().find(|preset| preset.name == name).unwrap().topology().unwrap();
    let a6000 = topology("a6000-8x8");
    assert_eq!((a6000.gpu_bandwidth, a6000.nic_bandwidth, a6000.nics_per_node), (20e9, 18e9, 1));
    let h800 = topology("h800-2x8");
    assert_eq!((h800.gpu_bandwidth, h800.nic_bandwidth, h800.nics_per_node), (150e9, 44e9, 1));
    for name in ["h100-8x", "h200-8x"] {
        let hopper = topology(name);
        assert_eq!((hopper.gpu_bandwidth, hopper.nic_bandwidth, hopper.nics_per_node), (450e9, 50e9, 8));
    }
    let blackwell = topology("gb200-nvl72");
    assert_eq!(
        (blackwell.gpu_bandwidth, blackwell.nic_bandwidth, blackwell.nics_per_node),
        (900e9, 50e9, 72)
    );
}

#[test]
fn the_scenario_goes_before_its_preset() {
    let experiment = Folder::new().load(&on("preset = \"h100-8x\"\nnodes = 4\nnic_bandwidth = \"40 GB/s\""));
    let topology = &experiment.topology;
    assert_eq!((topology.nodes, topology.gpus_per_node, topology.nic_bandwidth), (4, 8, 40e9));
    assert_eq!(topology.gpu_bandwidth, 450e9);
    assert_eq!(topology.route(Rank(0), Rank(9)).links().len(), 6, "over the spine");
    let swapped = Folder::new().try_load(&on("preset = \"h100-8x\"\nnodes = 4"), &["cluster.topology=nodes"]);
    assert_eq!(swapped.unwrap().topology.fabric, Fabric::Nodes);
    let other = Folder::new().try_load(&on("preset = \"h100-8x\""), &["cluster.preset=h800-2x8"]);
    assert_eq!(other.unwrap().topology.nodes, 2);
}

const FILE: &str = "# Measured here.\nnodes = 2\ngpus_per_node = 2\ngpu_bandwidth = \"20 GB/s\"\nnic_bandwidth = \"10 GB/s\"\n\
    latency_intra = \"3 us\"\nlatency_inter = \"7 us\"\nlinks = { \"nic 1 up\" = \"9 GB/s\" }\n";

#[test]
fn a_file_is_relative_to_the_scenario() {
    let folder = Folder::new().with("mine.toml", FILE);
    let experiment = folder.load(&on("file = \"mine.toml\"\nlatency_inter = \"8 us\""));
    let topology = &experiment.topology;
    assert_eq!(
        (topology.gpu_bandwidth, topology.latency_intra_s, topology.latency_inter_s),
        (20e9, 3e-6, 8e-6)
    );
    assert_eq!(topology.link_bandwidths.len(), 1);
}

#[test]
fn files_are_told_from_scenarios() {
    assert!(!is_scenario_file(FILE) && !is_scenario_file("[[paper]]\nid = 1\n"));
    assert!(is_scenario_file(VALID) && is_scenario_file("") && is_scenario_file("nodes = "));
}

#[test]
fn hardware_that_is_not_there() {
    assert_snapshot!(error(&on("preset = \"h100-8\""), &[]), @r#"
    error: unknown preset `h100-8`
     --> test.toml:4:10
      |
    4 | preset = "h100-8"
      |          ^^^^^^^^
      |
      = help: did you mean `h100-8x`? it must be one of `a6000-8x8`, `h800-2x8`, `h100-8x`, `h200-8x` and `gb200-nvl72`
    "#);
    assert_snapshot!(error(&on("file = \"mine.toml\""), &[]), @r#"
    error: cannot read `mine.toml`: No such file or directory (os error 2)
     --> test.toml:4:8
      |
    4 | file = "mine.toml"
      |        ^^^^^^^^^^^
    "#);
    assert_snapshot!(error(&on("preset = \"h100-8x\"\nfile = \"mine.toml\""), &[]), @r#"
    error: `cluster.file` has no effect: `preset` names the hardware
     --> test.toml:5:8
      |
    5 | file = "mine.toml"
      |        ^^^^^^^^^^^
    "#);
}

#[test]
fn what_is_wrong_in_a_file_is_shown_there() {
    let with = |old: &str, new: &str| {
        let folder = Folder::new().with("mine.toml", FILE.replace(old, new));
        folder.error(&on("file = \"mine.toml\""), &[])
    };
    assert_snapshot!(with("nodes = 2", "nodse = 2"), @r"
    error: unknown key `nodse` in `cluster`
     --> mine.toml:2:1
      |
    2 | nodse = 2
      | ^^^^^
      |
      = help: did you mean `nodes`? the valid keys are `nodes`, `gpus_per_node`, `topology`, `gpu_bandwidth`, `nic_bandwidth`, `nics_per_node`, `latency_intra`, `latency_inter`, `launch`, `host_sync`, `compute_slowdown`, `reduce`, `library`, `links`, `model` and `start`
    ");
    assert_snapshot!(with("nodes = 2", "preset = \"h100-8x\""), @r#"
    error: unknown key `preset` in `cluster`
     --> mine.toml:2:1
      |
    2 | preset = "h100-8x"
      | ^^^^^^
      |
      = help: the valid keys are `nodes`, `gpus_per_node`, `topology`, `gpu_bandwidth`, `nic_bandwidth`, `nics_per_node`, `latency_intra`, `latency_inter`, `launch`, `host_sync`, `compute_slowdown`, `reduce`, `library`, `links`, `model` and `start`
    "#);
    assert_snapshot!(with("\"20 GB/s\"", "\"-20 GB/s\""), @r#"
    error: `cluster.gpu_bandwidth` is out of range: `-20 GB/s`
     --> mine.toml:4:17
      |
    4 | gpu_bandwidth = "-20 GB/s"
      |                 ^^^^^^^^^^
      |
      = help: it must be from 1 B/s to 1e6 TB/s
    "#);
    assert_snapshot!(with("nodes = 2\n", ""), @r"
    error: missing key `nodes` in `cluster`
     --> test.toml:3:1
      |
    3 | [cluster]
      | ^^^^^^^^^
      |
      = help: add `nodes = 1` to `cluster`
    ");
    assert_snapshot!(with("nodes = 2", "nodes ="), @r"
    error: invalid TOML: string values must be quoted, expected literal string
     --> mine.toml:2:8
      |
    2 | nodes =
      |        ^
    ");
    assert_snapshot!(error(&on("preset = \"h100-8x\"\ngpus_per_node = 4"), &[]), @r#"
    error: `cluster.nics_per_node` is out of range: `8`
     --> clusters/h100-8x.toml:7:17
      |
    7 | nics_per_node = 8           # "eight single-port NVIDIA ConnectX-7 VPI" on the compute fabric, one for each GPU (the same)
      |                 ^
      |
      = help: it must be an integer from 1 to 4
    "#);
}
