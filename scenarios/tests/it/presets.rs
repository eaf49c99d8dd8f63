//! `cluster.preset` and `cluster.file`: hardware from elsewhere, and what the scenario says instead.

use crate::common::{Folder, VALID};
use insta::assert_snapshot;
use zipwire_cluster::library::{Constant, Generation, Operation};
use zipwire_cluster::{DeclaredCost, Fabric, HostCost};
use zipwire_scenarios::{SpeedBasis, is_scenario_file, presets};
use zipwire_schedule::Rank;

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
            ("a100-8x", 1, 8),
            ("h800-2x8", 2, 8),
            ("h100-8x", 1, 8),
            ("h200-8x", 1, 8),
            ("b200-8x", 1, 8),
            ("gb200-nvl72", 1, 72)
        ]
    );
}

/// Each GPU gets 6 GB/s over a ring with eight GPUs per node: 63 x 1 MB take 10.5 ms, and 30 us + 63 x 6 us of latency.
#[test]
fn rings_of_the_library_are_those_of_the_fit() {
    let experiment = Folder::new().load(&on("preset = \"a6000-8x8\""));
    let library = experiment.host.library;
    let seconds = |cost: Option<DeclaredCost>, ring_bytes| cost.unwrap().seconds(64, ring_bytes);
    assert!((seconds(library.all_gather, 63_000_000) - (0.0105 + 0.000_408)).abs() < 1e-12);
    assert_eq!(library.reduce_scatter, library.all_gather);
    // A Reduce-Scatter and an All-Gather: the same bytes and steps, but one latency less.
    let both = 2.0 * seconds(library.all_gather, 63_000_000);
    assert!((both - seconds(library.all_reduce, 126_000_000) - 30e-6).abs() < 1e-12);
    let h800 = Folder::new().load(&on("preset = \"h800-2x8\"")).host.library;
    assert_eq!(h800.all_gather.map(|cost| cost.bytes_per_s), Some(44e9));
    assert_eq!((h800.all_reduce.is_some(), h800.model), (true, None));
}

/// Published figures of the box: 371 GB/s of NVLink for rings of eight GPUs, 482 GB/s with NVLS, and a NIC of 400 Gb/s for each GPU.
#[test]
fn presets_model_the_library_for_any_number_of_nodes() {
    let cost = |cluster: &str, operation, ranks| {
        let model = Folder::new().load(&on(cluster)).host.library.model.unwrap();
        assert_eq!(model.hardware.ranks(), ranks);
        model.cost(operation, ranks)
    };
    let bus = |cluster: &str, operation: Operation, ranks| {
        let bytes = f64::from(1 << 30) * 16.0;
        operation.bus_factor(ranks) * bytes / cost(cluster, operation, ranks).seconds(bytes)
    };
    let one = bus("preset = \"h100-8x\"", Operation::AllGather, 8);
    assert!((340e9..380e9).contains(&one), "{one}");
    let one = bus("preset = \"h100-8x\"", Operation::AllReduce, 8);
    assert!((460e9..500e9).contains(&one), "{one}");
    // A node of which two GPUs take part uses their two NICs.
    let ten = bus("preset = \"h100-8x\"\nnodes = 10\ngpus_per_node = 2", Operation::AllReduce, 20);
    assert!((90e9..100e9).contains(&ten), "{ten}");
    let rack = cost("preset = \"gb200-nvl72\"\nnodes = 18\ngpus_per_node = 4", Operation::AllReduce, 72);
    assert_eq!(
        rack,
        cost("preset = \"gb200-nvl72\"", Operation::AllReduce, 72),
        "trays of a rack are one domain"
    );
    assert_eq!(rack.best(1e9).name(), "nvls/Simple");
}

#[test]
fn constants_of_the_model_have_units_and_names() {
    let library = |more: &str| on(&format!("preset = \"h100-8x\"\nnodes = 2\nlibrary = {{ {more} }}"));
    let read = |more: &str| Folder::new().load(&library(more)).host.library.model.unwrap().constants;
    let constants =
        read("model = \"nccl-2.30\", gpus = \"hopper\", constants = { launch = \"20 us\", nvls_share = 0 }");
    assert_eq!(constants.get(Constant::Launch), 20e-6);
    assert_eq!(constants.get(Constant::NvlsShare), 0.0);
    assert_eq!(constants.get(Constant::Lag), Generation::Hopper.constants().get(Constant::Lag));
}

/// A constant without a source is a number made up.
#[test]
fn every_constant_has_a_comment() {
    for preset in presets() {
        let (mut is_after_comment, mut says_source) = (false, false);
        for line in preset.text.lines() {
            // A codec's speed has its source in a key.
            says_source = (says_source && !line.is_empty()) || line.starts_with("[codec_speed.");
            let is_key = !says_source && line.starts_with(|c: char| c.is_ascii_lowercase());
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

/// Nominal bandwidth of the memory of each preset's GPU in GB/s (NVIDIA's datasheets).
const MEMORY: [(&str, f64); 7] = [
    ("a6000-8x8", 768.0),
    ("a100-8x", 2039.0),
    ("h800-2x8", 3350.0),
    ("h100-8x", 3350.0),
    ("h200-8x", 4800.0),
    ("b200-8x", 8000.0),
    ("gb200-nvl72", 8000.0),
];

fn is_near(value: f64, expected: f64) -> bool {
    (value / expected - 1.0).abs() < 0.006
}

/// Speeds are those of an anchor x the ratio of memory bandwidths, to three digits: `window7` of the fit of the H800, `codebook16` of
/// what is published for the H200, `tiered` of `window7` and the instructions of the kernels.
#[test]
fn speeds_of_codecs_follow_their_rule() {
    for (preset, (name, memory)) in presets().iter().zip(MEMORY) {
        assert_eq!(preset.name, name);
        let speeds = preset.codec_speeds().unwrap();
        assert_eq!(speeds.keys().copied().collect::<Vec<_>>(), ["codebook16", "tiered", "window7"], "{name}");
        let check = |id: &str, encode: f64, decode: f64| {
            let cost = speeds[id].cost;
            assert!(is_near(cost.encode_bytes_per_s, encode * 1e9), "{name}: {id} encodes at {encode}");
            assert!(is_near(cost.decode_bytes_per_s, decode * 1e9), "{name}: {id} decodes at {decode}");
            assert!(cost.launch_s > 0.0 && !speeds[id].source.is_empty(), "{name}: {id}");
        };
        let fitted = name == "a6000-8x8" || name == "h800-2x8";
        let window7 = match name {
            "a6000-8x8" => (180.0, 260.0),
            _ => (900.0 * memory / 3350.0, 1300.0 * memory / 3350.0),
        };
        check("window7", window7.0, window7.1);
        check("tiered", window7.0 * 27.2 / 32.7, window7.1 * 23.4 / 24.1);
        check("codebook16", 613.3 * memory / 4800.0, 2181.8 * memory / 4800.0);
        let basis = |id: &str| speeds[id].basis;
        assert_eq!(basis("window7"), if fitted { SpeedBasis::Fitted } else { SpeedBasis::Scaled }, "{name}");
        let published = name == "h200-8x";
        assert_eq!(basis("codebook16"), if published { SpeedBasis::Published } else { SpeedBasis::Scaled });
        assert_eq!(basis("tiered"), SpeedBasis::Assumed, "{name}");
    }
}

/// Decisive costs are stated and not left to defaults; sums read two thirds of what memory moves, but in the paper's two clusters.
#[test]
fn presets_state_what_a_host_costs() {
    for (preset, (name, memory)) in presets().iter().zip(MEMORY) {
        for key in ["launch", "host_sync", "reduce"] {
            assert!(preset.text.contains(&format!("\n{key} = \"")), "{name}: {key}");
        }
        let host = Folder::new().load(&on(&format!("preset = \"{name}\""))).host;
        assert_eq!(host.sync_s, 60e-6, "{name}");
        let is_of_paper = name == "a6000-8x8" || name == "h800-2x8";
        let expected = if is_of_paper { (0.0, 400.0) } else { (8.4e-6, memory * 2.0 / 3.0) };
        assert!((host.launch_s - expected.0).abs() < 1e-12, "{name}: {}", host.launch_s);
        assert!(is_near(host.reduce_bytes_per_s, expected.1 * 1e9), "{name}: {}", host.reduce_bytes_per_s);
    }
}

const CODED: &str = "\npayload = { gaussian = 0.02 }\n[codec]\nid = \"ID\"\n[[variant]]\nname = \"native\"\n[[variant]]\n\
    name = \"coded\"\nprotocol = \"size-first\"\n";

fn coded(cluster: &str, id: &str) -> String {
    on(cluster) + &CODED.replace("ID", id)
}

#[test]
fn a_codec_without_a_speed_has_that_of_the_cluster() {
    let experiment = Folder::new().load(&coded("preset = \"h100-8x\"", "window7:scale=std"));
    let choice = experiment.codec.as_ref().unwrap();
    assert_eq!((choice.cost.encode_bytes_per_s, choice.cost.launch_s), (900e9, 15e-6));
    assert_snapshot!(experiment.warnings().join("\n"), @"nobody measured the speed of `window7` (scaled) on these GPUs: `zipwire bench gpu` does, and `codec.speed` takes it");
    // What is published is no assumption, nor is what the scenario says; native variants have no codec.
    let published = Folder::new().load(&coded("preset = \"h200-8x\"", "codebook16"));
    assert!(published.warnings().is_empty(), "{:?}", published.warnings());
    let set = ["codec.speed={ encode = \"1 GB/s\", decode = \"2 GB/s\" }"];
    let own = Folder::new().try_load(&coded("preset = \"h100-8x\"", "window7"), &set).unwrap();
    assert_eq!(own.codec.as_ref().unwrap().cost.decode_bytes_per_s, 2e9);
    assert!(own.codec.as_ref().unwrap().declared.is_none() && own.warnings().is_empty());
    let mut native = experiment.clone();
    native.select(&["native".to_owned()]).unwrap();
    assert!(native.warnings().is_empty());
    // A cluster of one's own can say it, too.
    let file = FILE.to_owned()
        + "[codec_speed.tiered]\nencode = \"5 GB/s\"\ndecode = \"6 GB/s\"\nbasis = \"measured\"\nsource = \"here\"\n";
    let measured = Folder::new().with("mine.toml", file).load(&coded("file = \"mine.toml\"", "tiered"));
    assert_eq!(measured.codec.as_ref().unwrap().cost.encode_bytes_per_s, 5e9);
    assert!(measured.warnings().is_empty());
}

#[test]
fn bandwidths_that_no_hardware_has() {
    let warnings = |cluster: &str| Folder::new().load(&on(cluster)).warnings().join("\n");
    assert_eq!(warnings("preset = \"h100-8x\"\nnodes = 4"), "");
    assert_snapshot!(warnings("preset = \"h100-8x\"\nnodes = 4\nnic_bandwidth = \"400 GB/s\""), @"`cluster.nic_bandwidth` is 400 GB/s (3200 Gb/s), more than any NIC has: if bits were meant, write `400 Gb/s`");
    assert_eq!(warnings("preset = \"h100-8x\"\nnic_bandwidth = \"400 GB/s\""), "", "one node uses no NIC");
    assert_snapshot!(warnings("preset = \"h100-8x\"\ngpu_bandwidth = \"3600 GB/s\""), @"`cluster.gpu_bandwidth` is 3600 GB/s (28800 Gb/s), more than any GPU's link has: if bits were meant, write `3600 Gb/s`");
    assert_snapshot!(warnings("preset = \"h100-8x\"\ngpu_bandwidth = \"450 Gb/s\""), @"`cluster.gpu_bandwidth` is 56.25 GB/s (450 Gb/s), an eighth of that of `h100-8x`: if bytes were meant, write `450 GB/s`");
    assert_snapshot!(warnings("preset = \"h100-8x\"\nnodes = 4\nnic_bandwidth = \"1 GB/s\""), @"`cluster.nic_bandwidth` is 1 GB/s (8 Gb/s), less than any NIC has: if bytes were meant, write `8 GB/s`");
    // Half of what a preset has is another machine and no mistake.
    assert_eq!(warnings("preset = \"h100-8x\"\nnodes = 4\nnic_bandwidth = \"200 Gb/s\""), "");
    let own = "nodes = 1\ngpus_per_node = 2\ngpu_bandwidth = \"UNIT\"\nlatency_intra = \"5 us\"";
    assert_eq!(warnings(&own.replace("UNIT", "25 GB/s")), "");
    assert_snapshot!(warnings(&own.replace("UNIT", "25 Gb/s")), @"`cluster.gpu_bandwidth` is 3.125 GB/s (25 Gb/s), less than any GPU's link has: if bytes were meant, write `25 GB/s`");
}

/// The speeds of one GPU stated for another, and speeds eight times off; own figures are no mistake.
#[test]
fn codec_speeds_of_other_gpus() {
    let warnings = |encode: &str, decode: &str| {
        let speed = format!("codec.speed={{ encode = \"{encode}\", decode = \"{decode}\" }}");
        let experiment = Folder::new().try_load(&coded("preset = \"h100-8x\"", "window7"), &[&speed]);
        experiment.unwrap().warnings().join("\n")
    };
    assert_eq!(warnings("700 GB/s", "800 GB/s"), "");
    assert_snapshot!(warnings("180 GB/s", "260 GB/s"), @"`codec.speed` is that of `a6000-8x8`, not of `h100-8x` (900 and 1300 GB/s): leave it out, or measure it there with `zipwire bench gpu`");
    assert_snapshot!(warnings("900 Gb/s", "1000 GB/s"), @"`codec.speed.encode` is 112.5 GB/s (900 Gb/s), an eighth of that of `h100-8x`: if bytes were meant, write `900 GB/s`");
}

/// A job on some GPUs of each node has the NICs of these GPUs.
#[test]
fn fewer_gpus_of_a_node_have_fewer_nics() {
    let nics = |cluster: &str| Folder::new().load(&on(cluster)).topology.nics_per_node;
    assert_eq!(nics("preset = \"h100-8x\"\nnodes = 2\ngpus_per_node = 4"), 4);
    assert_eq!(nics("preset = \"h100-8x\"\nnodes = 2\ngpus_per_node = 4\nnics_per_node = 1"), 1);
    assert_eq!(nics("preset = \"h800-2x8\"\ngpus_per_node = 3"), 1);
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

/// The scenario goes before its file, and that before the preset, which either may name.
#[test]
fn a_preset_fills_in_what_a_file_lacks() {
    let preset = Folder::new().load(&on("preset = \"h100-8x\"\nnodes = 2"));
    let named = format!("preset = \"h100-8x\"\ntopology = \"nodes\"\n{FILE}");
    for (file, cluster) in [
        (FILE.to_owned(), "file = \"mine.toml\"\npreset = \"h100-8x\"\ntopology = \"nodes\""),
        (named.clone(), "file = \"mine.toml\""),
        (named.replace("h100-8x", "a100-8x"), "preset = \"h100-8x\"\nfile = \"mine.toml\""),
    ] {
        let folder = Folder::new().with("mine.toml", &file);
        let experiment = folder.load(&on(cluster));
        let topology = &experiment.topology;
        assert_eq!((topology.nodes, topology.gpus_per_node, topology.nics_per_node), (2, 2, 2), "{cluster}");
        assert_eq!((topology.gpu_bandwidth, topology.latency_inter_s), (20e9, 7e-6), "{cluster}");
        assert_eq!(experiment.host.reduce_bytes_per_s, preset.host.reduce_bytes_per_s, "{cluster}");
        let costs = |host: &HostCost| (host.launch_s, host.sync_s);
        assert_eq!(costs(&experiment.host), costs(&preset.host), "{cluster}");
        assert_eq!(experiment.preset.unwrap().name, "h100-8x");
        let coded = folder.load(&coded(cluster, "window7"));
        assert_eq!(coded.codec.unwrap().declared.unwrap().basis, SpeedBasis::Scaled);
    }
    let own = Folder::new().with("mine.toml", format!("reduce = \"1 GB/s\"\n{named}"));
    assert_eq!(own.load(&on("file = \"mine.toml\"")).host.reduce_bytes_per_s, 1e9);
}

/// A fit that is asked of more nodes than any log had is said to be extrapolated.
#[test]
fn calls_far_outside_of_what_was_fitted() {
    let warnings = |cluster: &str| Folder::new().load(&on(cluster)).warnings().join("\n");
    assert_eq!(warnings("preset = \"gb200-nvl72\""), "");
    assert_snapshot!(warnings("preset = \"gb200-nvl72\"\nnodes = 2"), @"what the library's own calls take between 2 racks is extrapolated from logs of 1: `zipwire calibrate nccl-tests` takes logs of more");
    let fitted = |nodes: u32, domains: u32| {
        let library =
            format!("library = {{ model = \"nccl-2.30\", gpus = \"hopper\", fitted_domains = {domains} }}");
        warnings(&format!("preset = \"h100-8x\"\nnodes = {nodes}\n{library}"))
    };
    assert_eq!(fitted(1, 1), "");
    assert_snapshot!(fitted(2, 1), @"what the library's own calls take between 2 nodes is extrapolated from logs of 1: `zipwire calibrate nccl-tests` takes logs of more");
    assert_eq!(fitted(128, 2), "");
    assert_snapshot!(fitted(129, 2), @"what the library's own calls take between 129 nodes is extrapolated from logs of 2: `zipwire calibrate nccl-tests` takes logs of more");
}

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
