//! Every topology on paced links: routes that the simulator takes are those of real bytes, too.

use std::process::Command;
use std::thread;

use serde_json::Value;

/// Numbers are for `tools/accept`, on a machine with nothing else to do; a route over the wrong links is off by more than this.
const TOLERANCE: f64 = 0.2;

/// The error of the prediction for an All-to-All of four nodes of two GPUs, in which links of switches are the bottleneck.
fn error(topology: &str) -> f64 {
    let topology = format!("cluster.topology={topology}");
    let output = Command::new(env!("CARGO_BIN_EXE_zipwire"))
        .args(["validate", "scenarios/validate/fat-tree-4x2.toml", "--variant", "all-at-once", "--json"])
        .args(["--set", "cluster.nics_per_node=2", "--set", &topology])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    result["variants"]["all-at-once"]["error"].as_f64().unwrap()
}

/// Runs all of them at once: they spend their time asleep.
fn agree(topologies: &[&str]) {
    thread::scope(|scope| {
        let run = |&topology| (topology, scope.spawn(move || error(topology)));
        for (topology, run) in topologies.iter().map(run).collect::<Vec<_>>() {
            let error = run.join().unwrap();
            assert!(error.abs() < TOLERANCE, "{topology}: {:+.1} %", 100.0 * error);
        }
    });
}

#[test]
fn paced_links_agree_with_the_simulator_in_a_fat_tree() {
    agree(&["{ kind = 'fat-tree', nodes_per_leaf = 2, oversubscription = 4.0 }"]);
}

mod paced {
    use super::agree;

    #[test]
    #[ignore = "measures the machine: .ci/run runs it, and one topology is beside it"]
    fn links_agree_with_the_simulator_on_every_topology() {
        // A line of four switches, over which everything between its halves goes.
        let edge = |a: &str, b: &str| format!("{{ between = ['{a}', '{b}'], bandwidth = '25 GB/s' }}");
        let gpus = (0..8).map(|gpu| edge(&format!("gpu {gpu}"), &format!("s{}", gpu / 2)));
        let edges: Vec<String> =
            gpus.chain((1..4).map(|i| edge(&format!("s{}", i - 1), &format!("s{i}")))).collect();
        let switches = "['s0', 's1', 's2', 's3']";
        let line = format!("{{ kind = 'graph', switches = {switches}, edges = [{}] }}", edges.join(", "));
        agree(&[
            "'flat'",
            "'nodes'",
            "{ kind = 'rail', oversubscription = 4.0 }",
            "{ kind = 'rail', cross_rail = 'pxn' }",
            "{ kind = 'fat-tree', nodes_per_leaf = 2, oversubscription = 4.0 }",
            "{ kind = 'fat-tree', nodes_per_leaf = 1, leaves_per_pod = 2, pod_oversubscription = 3.0 }",
            &line,
        ]);
    }
}
