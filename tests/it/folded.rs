//! Large jobs whose ranks are alike: some stand for all, with the numbers that all would have.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use crate::common::process::output;

/// A layer of `fsdp`, or gradients of `dp`, on so many nodes of eight GPUs.
fn scenario(kind: &str, nodes: u32, more: &str) -> String {
    format!(
        r#"name = "alike"
iterations = 2
cluster = {{ preset = "h100-8x", nodes = {nodes} }}
[workload]
kind = "{kind}"
model = {{ layers = 1, hidden = 1024, heads = 8, intermediate = 2730 }}
sequence = 1024
gradient_dtype = "BF16"
{more}
[compute]
dense = "400 TFLOP/s"
[codec]
id = "window7"
ratio = 1.4
[[variant]]
name = "native"
[[variant]]
name = "static-first"
protocol = "static-first"
"#
    )
}

struct Ran {
    summary: Value,
    text: String,
}

impl Ran {
    fn variant(&self, variant: &str) -> &Value {
        &self.summary["executors"]["sim"][variant]
    }
}

fn ran(scenario: &str, args: &[&str]) -> Ran {
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(at("alike.toml"), scenario).unwrap();
    let (file, out) = (at("alike.toml"), at("out"));
    let output = output(&[&["run", &file, "--out", &out][..], args].concat());
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{text}");
    let summary = serde_json::from_slice(&fs::read(at("out/summary.json")).unwrap()).unwrap();
    Ran { summary, text }
}

fn near(found: &Value, expected: &Value) {
    let (found, expected) = (found.as_f64().unwrap(), expected.as_f64().unwrap());
    assert!((found - expected).abs() <= 1e-9 * expected.abs(), "{found} instead of {expected}");
}

#[test]
fn numbers_are_those_of_all_ranks() {
    for kind in ["fsdp", "dp"] {
        let text = scenario(kind, 16, "");
        let (folded, whole) = (ran(&text, &[]), ran(&text, &["--unfolded"]));
        assert!(
            folded.text.contains("some stand for all 128: rank 0 in `native`, `static-first`"),
            "{}",
            folded.text
        );
        assert!(!whole.text.contains("stand for all"), "{}", whole.text);
        for variant in ["native", "static-first"] {
            let (found, expected) = (folded.variant(variant), whole.variant(variant));
            near(&found["iteration_s"]["mean"], &expected["iteration_s"]["mean"]);
            for key in ["comm_s", "wait_s", "codec_s", "reduce_s", "compute_s", "bytes_raw", "bytes_wire"] {
                near(&found[key], &expected[key]);
            }
            let members = found["wait_s_by_rank"].as_array().unwrap().len() as u64;
            assert_eq!(found["ranks_alike"].as_u64().unwrap() * members, 128);
            assert_eq!(
                (&expected["ranks_alike"], expected["wait_s_by_rank"].as_array().unwrap().len()),
                (&Value::Null, 128)
            );
            for (cause, seconds) in found["critical_path_s"].as_object().unwrap() {
                near(seconds, &expected["critical_path_s"][cause]);
            }
        }
        let [found, expected] = [&folded, &whole].map(|ran| &ran.summary["verdict"]["best"]);
        assert_eq!(found, expected);
    }
}

#[test]
fn shards_that_differ_by_a_value_are_alike() {
    // 9 nodes: no shard of 1024 values is a whole number of them.
    let text = scenario("fsdp", 9, "");
    let (folded, whole) = (ran(&text, &["--no-verdict"]), ran(&text, &["--no-verdict", "--unfolded"]));
    assert!(folded.text.contains("some stand for all 72"), "{}", folded.text);
    let [found, expected] = [&folded, &whole].map(|ran| &ran.variant("static-first")["iteration_s"]["mean"]);
    let (found, expected) = (found.as_f64().unwrap(), expected.as_f64().unwrap());
    assert!((found / expected - 1.0).abs() < 1e-5, "{found} instead of {expected}");
}

#[test]
fn ranks_that_are_not_alike_are_all_simulated() {
    let noise = scenario("dp", 10, "skew = { base = \"1 ms\" }");
    let link =
        scenario("dp", 10, "").replace("nodes = 10", "nodes = 10, links = { \"nic 3 up\" = \"10 GB/s\" }");
    let few = scenario("dp", 8, "");
    for text in [noise, link, few] {
        let ran = ran(&text, &["--no-verdict", "--variant", "native"]);
        assert!(!ran.text.contains("stand for all"), "{}", ran.text);
        assert_eq!(ran.variant("native")["ranks_alike"], Value::Null);
    }
}

#[test]
fn a_check_says_the_same_before_a_run() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("alike.toml");
    fs::write(&file, scenario("fsdp", 16, "").replace("layers = 1", "layers = 12")).unwrap();
    let output = output(&["scenario", "check", file.to_str().unwrap()]);
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{text}");
    assert!(text.contains("rank 0 in `native`, `static-first`"), "{text}");
    assert_eq!(text.lines().filter(|line| line.starts_with("L* all-gather (12) ")).count(), 1, "{text}");
    assert!(!text.contains("L3 "), "{text}");
}

#[test]
fn flows_that_share_nothing_and_short_shards_are_not_folded() {
    let of = |model: &str, collective: &str, bytes: u32| {
        format!(
            r#"name = "call"
cluster = {{ nodes = 9, gpus_per_node = 8, gpu_bandwidth = "400 GB/s", nic_bandwidth = "25 GB/s", latency_intra = "3 us", latency_inter = "7 us", model = "{model}" }}
[workload]
kind = "collective"
collective = "{collective}"
bytes_per_rank = "{bytes} B"
[[variant]]
name = "native"
"#
        )
    };
    let is_folded = |text: &str| ran(text, &["--no-verdict"]).text.contains("stand for all 72");
    assert!(is_folded(&of("max-min", "all-to-all", 720_000)));
    assert!(!is_folded(&of("alpha-beta", "all-to-all", 720_000)), "a flow has a link to itself there");
    assert!(!is_folded(&of("max-min", "all-reduce", 148)), "some shards have a value more, some none");
    assert!(is_folded(&of("max-min", "all-reduce", 72 * 2 * 20_000 + 2)));
}

/// Lateness among 384 GPUs is estimated of all variants, also of native, which alone would be simulated as it is.
#[test]
fn lateness_is_estimated_where_all_ranks_would_take_long() {
    let text = scenario("fsdp", 48, "").replace("TFLOP/s\"", "TFLOP/s\"\nnoise = 0.1");
    let ran = ran(&text, &[]);
    assert!(ran.text.contains("alike but for how long some of them compute"), "{}", ran.text);
    assert!(ran.text.contains("rank 0 in `native`, `static-first`"), "{}", ran.text);
    assert!(ran.variant("native")["iteration_margin_s"].is_f64());
    let found = ran.variant("static-first");
    let number = |path: &str| found.pointer(path).unwrap().as_f64().unwrap();
    let (mean_s, margin_s) = (number("/iteration_s/mean"), number("/iteration_margin_s"));
    assert!(0.0 < margin_s && margin_s < 0.1 * mean_s, "{mean_s} s +- {margin_s} s");
    let causes = found["critical_path_s"].as_object().unwrap();
    assert!(causes["skew"].as_f64().unwrap() > 0.0);
    // Ten percent of noise are no less than the mean of all phases, and of the slowest of 384 ranks three deviations.
    let on_time = scenario("fsdp", 48, "");
    let on_time_s = self::ran(&on_time, &[]).variant("static-first")["iteration_s"]["mean"].as_f64().unwrap();
    assert!(on_time_s < mean_s && mean_s < 1.5 * on_time_s, "{mean_s} s, and {on_time_s} s on time");
    assert_eq!(found["imbalance"]["compute"], Value::Null);
}
