//! The line below the table of `zipwire run`: whether compressing pays, against every variant that compresses nothing.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use crate::common::process;

use process::{output, text_of};

const SCENARIO: &str = r#"
name = "pays"
seed = 1
iterations = 1

[cluster]
nodes = 2
gpus_per_node = 4
gpu_bandwidth = "100 GB/s"
nic_bandwidth = "25 GB/s"
latency_intra = "5 us"
latency_inter = "200 us"

[workload]
kind = "collective"
collective = "all-to-all"
bytes_per_rank = "8 MiB"

[codec]
id = "window7"
ratio = 1.4
speed = { encode = "500 GB/s", decode = "500 GB/s", launch = "5 us" }
"#;

/// Output of a run of these variants.
fn run(variants: &[(&str, &str, u32)], flags: &[&str]) -> String {
    run_of(SCENARIO, variants, flags)
}

fn run_of(scenario: &str, variants: &[(&str, &str, u32)], flags: &[&str]) -> String {
    let folder = TempDir::new().unwrap();
    let variants = variants.iter().map(|(name, protocol, window)| {
        format!("[[variant]]\nname = \"{name}\"\nprotocol = \"{protocol}\"\nwindow = {window}\n")
    });
    let file = folder.path().join("verdict.toml");
    fs::write(&file, scenario.to_owned() + &variants.collect::<String>()).unwrap();
    let out = folder.path().join("out");
    let arguments = [&["run", file.to_str().unwrap(), "--out", out.to_str().unwrap()], flags].concat();
    let run = output(&arguments);
    assert!(run.status.success(), "{}", text_of(&run.stderr));
    text_of(&run.stdout)
}

/// The verdict of such a run.
fn verdict(variants: &[(&str, &str, u32)]) -> String {
    let table = run(variants, &[]);
    let line = table.lines().find(|line| line.starts_with("verdict: "));
    line.unwrap_or_else(|| panic!("there is a verdict: {table}")).to_owned()
}

#[test]
fn a_gain_is_over_the_first_variant() {
    let said = verdict(&[("native", "native", 1), ("coded", "static-first", 7)]);
    assert!(
        said.starts_with("verdict: `coded` is ") && said.contains(" times as fast as `native`: "),
        "{said}"
    );
}

/// With one transfer at a time every latency counts, so a coded variant with all at once is faster than that; and an uncompressed one with
/// all at once is faster still where the codec takes longer than it saves.
#[test]
fn an_uncompressed_variant_that_is_faster_is_named() {
    let said = verdict(&[("native-1", "native", 1), ("native-7", "native", 7), ("coded", "size-first", 7)]);
    assert!(
        said.starts_with("verdict: do not compress here: `native-7`, which compresses nothing, is "),
        "{said}"
    );
    assert!(said.contains("`coded`, which is ") && said.contains("times as fast as `native-1`"), "{said}");
}

#[test]
fn what_binds_is_said_unless_nobody_asks() {
    let variants = [("native", "native", 1), ("coded", "static-first", 7)];
    let table = run(&variants, &[]);
    assert!(table.contains("\ncritical path") && table.contains(" nic 0 up\n"), "{table}");
    let plain = run(&variants, &["--no-verdict"]);
    assert!(
        !["critical path", "verdict", "by compression"].iter().any(|text| plain.contains(text)),
        "{plain}"
    );

    let summary: Value = serde_json::from_str(&run(&variants, &["--json"])).unwrap();
    for variant in ["native", "coded"] {
        let result = &summary["executors"]["sim"][variant];
        let parts = result["critical_path_s"].as_object().unwrap();
        let sum: f64 = parts.values().map(|seconds| seconds.as_f64().unwrap()).sum();
        let mean_s = result["iteration_s"]["mean"].as_f64().unwrap();
        assert!((sum - mean_s).abs() <= 1e-9 * mean_s, "{result}");
        let link = &result["busiest_link"];
        assert!(link["name"].as_str().unwrap().starts_with("nic "), "{link}");
        assert!(link["seconds"].as_f64().unwrap() <= parts["links"].as_f64().unwrap());
    }
    // One after the other, seven transfers: six of them to the other node wait for 200 us each, and the codec is no part of it.
    let native = &summary["executors"]["sim"]["native"]["critical_path_s"];
    assert!(
        native["latency"].as_f64() > native["links"].as_f64() && native.get("codec").is_none(),
        "{native}"
    );
}

/// The scenario run at what was found: the coded variant takes as long as the first one.
#[test]
fn where_a_variant_breaks_even_it_does() {
    const VARIANTS: [(&str, &str, u32); 3] =
        [("native", "native", 7), ("coded", "static-first", 7), ("size-first", "size-first", 7)];
    let scenario = SCENARIO.replace("200 us", "10 us");
    let run = |flags: &[&str]| run_of(&scenario, &VARIANTS, flags);
    let summary: Value = serde_json::from_str(&run(&["--json"])).unwrap();
    for variant in ["coded", "size-first"] {
        let found = &summary["verdict"]["break_even"][variant];
        let number = |key: &str| found[key].as_f64().unwrap_or_else(|| panic!("{variant}: {summary}"));
        let ratio = format!("codec.ratio={}", number("ratio"));
        let encode = format!("codec.speed.encode=\"{} GB/s\"", number("encode_gbps"));
        let decode = format!("codec.speed.decode=\"{} GB/s\"", number("decode_gbps"));
        for sets in [&["--set", &ratio][..], &["--set", &encode, "--set", &decode]] {
            let again = run(&[&["--json", "--no-verdict"], sets].concat());
            let again: Value = serde_json::from_str(&again).unwrap();
            assert!(again.get("verdict").is_none(), "{again}");
            let speedup = again["executors"]["sim"][variant]["speedup"].as_f64().unwrap();
            assert!((speedup - 1.0).abs() < 0.002, "{variant} with {sets:?}: {speedup}");
        }
    }
    let table = run(&[]);
    assert!(table.contains("\n`coded` breaks even at ratio 1."), "{table}");

    // What a constant is said to do it does.
    let sensitivity = summary["verdict"]["sensitivity"].as_array().unwrap();
    assert_eq!(sensitivity[0]["constant"], "cluster.nic_bandwidth", "{sensitivity:?}");
    let again = run(&["--json", "--no-verdict", "--set", "cluster.nic_bandwidth=27.5 GB/s"]);
    let again: Value = serde_json::from_str(&again).unwrap();
    let best = sensitivity[0]["variant"].as_str().unwrap();
    let speedup = again["executors"]["sim"][best]["speedup"].as_f64().unwrap();
    let said = sensitivity[0]["speedup"].as_f64().unwrap();
    assert!((speedup - said).abs() < 1e-9, "{speedup}, not {said}");
    assert!(table.contains(&format!("\nthe speedup of `{best}` would be ")), "{table}");
    assert_eq!(sensitivity.len(), 2, "{sensitivity:?}");
}

/// A variant that changes as it goes can gain where each fixed one loses.
#[test]
fn an_adaptive_variant_that_is_the_fastest_comes_first() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().to_str().unwrap();
    let ran = output(&["run", "scenarios/switcher/stale-table-2x2.toml", "--out", out]);
    let table = text_of(&ran.stdout);
    assert!(table.contains("\nverdict: `adaptive` is 1."), "{table}");
    assert!(table.contains("\nof those that do not change: do not compress here: `native`, "), "{table}");
}
