//! Workload `training`: what iterations take in closed form, and that all dimensions together run for real.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use crate::common::process::output;

/// The summary of a run, and what it says.
fn ran(scenario: &str, args: &[&str]) -> Value {
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(at("layout.toml"), scenario).unwrap();
    let (file, out) = (at("layout.toml"), at("out"));
    let output = output(&[&["run", &file, "--out", &out][..], args].concat());
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{text}");
    serde_json::from_slice(&fs::read(at("out/summary.json")).unwrap()).unwrap()
}

/// Layers of a millisecond forward and two backward, and links that take no time.
fn pipeline(stages: u32, micro_batches: u32, layers: u32, more: &str) -> String {
    format!(
        r#"name = "pipeline"
[cluster]
nodes = {stages}
gpus_per_node = 1
gpu_bandwidth = "1000000 TB/s"
nic_bandwidth = "1000000 TB/s"
latency_intra = "0 s"
latency_inter = "0 s"
[workload]
kind = "training"
model = {{ layers = {layers}, hidden = 64, heads = 4, intermediate = 128 }}
sequence = 32
micro_batches = {micro_batches}
parallel = {{ pp = {stages}, {more} }}
[compute]
layer = "1 ms"
"#
    )
}

fn iteration_ms(summary: &Value) -> f64 {
    summary["executors"]["sim"]["native"]["iteration_s"]["mean"].as_f64().unwrap() * 1e3
}

/// Bubbles of the papers: F is a stage's forward pass, B = 2 F its backward pass, of which half is for weights.
#[test]
fn pipelines_have_the_bubbles_of_their_papers() {
    let layers = 16;
    for (stages, micro_batches) in [(2, 4), (4, 8), (4, 12), (8, 16)] {
        let (p, m) = (f64::from(stages), f64::from(micro_batches));
        let f = f64::from(layers / stages);
        let (b, i, w) = (2.0 * f, f, f);
        let mut cases = vec![
            ("schedule = \"1f1b\"", (p - 1.0) * (f + b)),
            ("schedule = \"zero-bubble\"", (p - 1.0) * (f + i - w)),
            ("schedule = \"interleaved\", chunks = 2", (p - 1.0) * (f + b) / 2.0),
            // Each stage has the layers of two, and a pass of each micro-batch over one of them.
            ("schedule = \"dualpipe\", sharded = \"nothing\"", (p / 2.0 - 1.0) * ((f + b) + b - 3.0 * w)),
        ];
        if stages * 4 <= layers {
            cases.push(("schedule = \"interleaved\", chunks = 4", (p - 1.0) * (f + b) / 4.0));
        }
        for (schedule, bubble) in cases {
            let found = iteration_ms(&ran(&pipeline(stages, micro_batches, layers, schedule), &[]));
            let expected = m * (f + b) + bubble;
            // Sums of gradients of both stages of a part take a moment behind `dualpipe`.
            let slack = if schedule.contains("dualpipe") { 0.05 } else { 1e-9 * expected };
            assert!(
                (found - expected).abs() <= slack,
                "{stages} stages, {schedule}: {found} of {expected} ms"
            );
        }
    }
}

/// Passes wait for the first gather alone. Behind the last one are a Reduce-Scatter and the All-Reduces of two layers, of two steps each; those of the others are
/// beside the backward pass. A step is a latency, half a millisecond.
#[test]
fn sums_over_replicas_hold_up_no_backward_pass() {
    let scenario = pipeline(4, 1, 4, "")
        .replace("pp = 4", "dp = { shard = 2, replicate = 2 }")
        .replace("latency_inter = \"0 s\"", "latency_inter = \"500 us\"");
    let (found, expected) = (iteration_ms(&ran(&scenario, &[])), 0.5 + 12.0 + 0.5 + 2.0 * 1.0);
    // Sums take a microsecond.
    assert!((found - expected).abs() <= 0.01, "{found} of {expected} ms");
}

/// Five dimensions on 16 ranks.
const ALL: &str = r#"name = "all"
[cluster]
nodes = 4
gpus_per_node = 4
nics_per_node = 4
gpu_bandwidth = "100 GB/s"
nic_bandwidth = "25 GB/s"
latency_intra = "2 us"
latency_inter = "5 us"
[workload]
kind = "training"
model = { layers = 4, hidden = 64, heads = 4, experts = 8, top_k = 2, expert_intermediate = 32, dense_layers = 1, intermediate = 128 }
sequence = 32
micro_batches = 4
payload = { gaussian = 0.02 }
parallel = { tp = 2, cp = 2, pp = 2, dp = 2, ep = 8 }
[compute]
dense = "100 TFLOP/s"
[codec]
id = "window7"
[codec.speed]
encode = "200 GB/s"
decode = "200 GB/s"
[[variant]]
name = "native"
[[variant]]
name = "static-first"
protocol = "static-first"
[[variant]]
name = "outside"
protocol = "in-band"
dimensions = ["dp", "pp"]
"#;

#[test]
fn five_dimensions_move_the_same_bytes_simulated_and_for_real() {
    for parallel in [
        "{ tp = 2, cp = 2, pp = 2, dp = 2, ep = 8 }",
        "{ tp = 2, cp = 1, pp = 2, dp = { shard = 2, replicate = 2 }, sharded = \"parameters\", schedule = \"zero-bubble\" }",
        "{ pp = 2, dp = 8, ep = 4, schedule = \"dualpipe\" }",
        "{ tp = 2, cp = 2, pp = 2, dp = 2, order = [\"pp\", \"tp\", \"cp\", \"dp\"], schedule = \"interleaved\" }",
    ] {
        let scenario = ALL.replace("{ tp = 2, cp = 2, pp = 2, dp = 2, ep = 8 }", parallel);
        let summary = ran(&scenario, &["--on", "sim", "--on", "threads"]);
        for variant in ["native", "static-first", "outside"] {
            let [sim, threads] = ["sim", "threads"].map(|on| &summary["executors"][on][variant]);
            for bytes in ["bytes_raw", "bytes_wire"] {
                assert_eq!(sim[bytes], threads[bytes], "{parallel} {variant}");
            }
            assert_eq!(threads["verified"], true, "{parallel} {variant}");
        }
        let wire = |variant: &str| summary["executors"]["sim"][variant]["bytes_wire"].as_u64().unwrap();
        assert!(wire("static-first") < wire("outside") && wire("outside") < wire("native"), "{parallel}");
    }
}
