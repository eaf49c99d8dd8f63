//! Native calls on the links of a cluster, as scenarios have them: what must cross a link takes the time of that link.

use zipwire_cluster::library::Operation;
use zipwire_runner::{Cancel, Prepared, executors::SIM};
use zipwire_scenarios::{Source, load};

const MIB: f64 = 1048576.0;

/// Seconds of each iteration of a native variant.
fn iterations_s(cluster: &str, workload: &str, more: &str) -> Vec<f64> {
    let text = format!(
        "name = \"case\"\n{more}\n[cluster]\n{cluster}\n[workload]\n{workload}\n[[variant]]\nname = \"native\"\n"
    );
    let experiment = load(&Source::from_text("case.toml", text, "."), &[], None).unwrap();
    let cancel = Cancel::default();
    let mut prepared = Prepared::new(&experiment, &cancel).unwrap();
    let timeline = prepared.run(0, SIM, &cancel).unwrap().timeline;
    timeline.iterations.iter().map(|iteration| iteration.length_s).collect()
}

fn seconds(cluster: &str, workload: &str) -> f64 {
    iterations_s(cluster, workload, "")[0]
}

const GATHER: &str = "kind = \"collective\"\ncollective = \"all-gather\"\nbytes_per_rank = \"8 MiB\"";

#[test]
fn a_leaf_that_is_oversubscribed_holds_a_call_back() {
    let tree = |factor: &str| {
        format!(
            "preset = \"h100-8x\"\nnodes = 16\ntopology = {{ kind = \"fat-tree\", nodes_per_leaf = 4, oversubscription = {factor} }}"
        )
    };
    let (free_s, held_s) = (seconds(&tree("1.0"), GATHER), seconds(&tree("16.0"), GATHER));
    // 96 ranks are outside of a leaf, and its uplink has a sixteenth of 32 NICs of 50 GB/s.
    assert!(held_s > 96.0 * 8.0 * MIB / 100e9 && free_s < held_s / 2.0, "{free_s} {held_s}");
}

#[test]
fn a_slow_nic_holds_a_call_back() {
    let slow = "preset = \"h100-8x\"\nnodes = 4\nlinks = { \"nic 0 up\" = \"5 GB/s\" }";
    // Rings leave a node by all eight NICs alike.
    let rail_s = 31.0 * 8.0 * MIB / 8.0 / 5e9;
    let found_s = seconds(slow, GATHER);
    assert!(found_s > rail_s && found_s < 1.25 * rail_s, "{found_s} {rail_s}");
}

#[test]
fn drift_of_nics_reaches_native_calls() {
    let text = "iterations = 3\n[[drift]]\nfrom = 1\nnic_bandwidth = \"50 Gb/s\"";
    let found = iterations_s("preset = \"h100-8x\"\nnodes = 4", GATHER, text);
    assert!(found[1] > 31.0 * 8.0 * MIB / 8.0 / 6.25e9 && found[1] > 4.0 * found[0], "{found:?}");
    assert!((found[2] / found[1] - 1.0).abs() < 1e-9, "{found:?}");
}

/// Eight layers are gathered twice and their gradients scattered once: 422.6 MB each over eight NICs of 12.5 GB/s.
#[test]
fn gathers_and_sums_share_nics() {
    let cluster = "preset = \"h100-8x\"\nnodes = 4\nnic_bandwidth = \"100 Gb/s\"";
    for gradients in ["", "gradients = \"overlapped\"\n"] {
        let workload = format!(
            "kind = \"fsdp\"\nmodel = {{ preset = \"llama3-8b\", layers = 8, vocabulary = 0 }}\nsequence = 128\n{gradients}[compute]\ndense = \"800 TFLOP/s\""
        );
        let found_s = seconds(cluster, &workload);
        assert!((101.4e-3..125e-3).contains(&found_s), "{gradients}{found_s}");
    }
}

/// All-to-Alls and broadcasts take what the model says of the library's own: no second baseline beside it.
#[test]
fn all_to_alls_and_broadcasts_are_the_librarys() {
    let cluster = "preset = \"h100-8x\"\nnodes = 4";
    let text = format!(
        "name = \"case\"\n[cluster]\n{cluster}\n[workload]\n{GATHER}\n[[variant]]\nname = \"native\"\n"
    );
    let experiment = load(&Source::from_text("case.toml", text, "."), &[], None).unwrap();
    let model = experiment.host.library.model.unwrap();
    for (collective, key, operation) in
        [("all-to-all", "bytes_per_rank", Operation::AllToAll), ("broadcast", "bytes", Operation::Broadcast)]
    {
        for (size, bytes) in [("1 MiB", MIB), ("64 MiB", 64.0 * MIB), ("1 GiB", 1024.0 * MIB)] {
            let workload =
                format!("kind = \"collective\"\ncollective = \"{collective}\"\n{key} = \"{size}\"");
            let expected_s = model.cost(operation, 32).seconds(bytes);
            let found_s = seconds(cluster, &workload);
            assert!((found_s / expected_s - 1.0).abs() < 1e-6, "{collective} {size}: {found_s} {expected_s}");
        }
    }
}

/// A rack is one domain, however its trays are called: no byte crosses a NIC.
#[test]
fn a_rack_is_one_domain_in_both_spellings() {
    let workload = "kind = \"collective\"\ncollective = \"all-gather\"\nbytes_per_rank = \"64 MiB\"\n";
    let trays = "preset = \"gb200-nvl72\"\nnodes = 18\ngpus_per_node = 4\nnics_per_node = 4";
    let rack = "preset = \"gb200-nvl72\"\nnodes = 1";
    let (trays_s, rack_s) = (seconds(trays, workload), seconds(rack, workload));
    assert!((trays_s / rack_s - 1.0).abs() < 1e-9, "{trays_s} {rack_s}");
    let direct = |cluster: &str| {
        let text = format!(
            "name = \"case\"\n[cluster]\n{cluster}\n[workload]\n{workload}\n[[variant]]\nname = \"native\"\nalgorithm = \"direct\"\n"
        );
        let experiment = load(&Source::from_text("case.toml", text, "."), &[], None).unwrap();
        let mut prepared = Prepared::new(&experiment, &Cancel::default()).unwrap();
        prepared.run(0, SIM, &Cancel::default()).unwrap().timeline.iterations[0].length_s
    };
    assert!((direct(trays) / direct(rack) - 1.0).abs() < 1e-9, "{} {}", direct(trays), direct(rack));
}
