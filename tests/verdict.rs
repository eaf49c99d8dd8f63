//! The line below the table of `zipwire run`: whether compressing pays, against every variant that compresses nothing.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;

use tempfile::TempDir;

#[path = "common/process.rs"]
#[allow(dead_code, reason = "each test file uses its part")]
mod process;

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

/// What a run of these variants says.
fn verdict(variants: &[(&str, &str, u32)]) -> String {
    let folder = TempDir::new().unwrap();
    let variants = variants.iter().map(|(name, protocol, window)| {
        format!("[[variant]]\nname = \"{name}\"\nprotocol = \"{protocol}\"\nwindow = {window}\n")
    });
    let file = folder.path().join("verdict.toml");
    fs::write(&file, SCENARIO.to_owned() + &variants.collect::<String>()).unwrap();
    let out = folder.path().join("out");
    let run = output(&["run", file.to_str().unwrap(), "--out", out.to_str().unwrap()]);
    assert!(run.status.success(), "{}", text_of(&run.stderr));
    let table = text_of(&run.stdout);
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
