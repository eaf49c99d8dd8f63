//! Presets on the command line: what a run says of the constants that it takes from them, and what its table shows.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::common::process;

use process::{output, text_of, zipwire};

/// A scenario on a preset with a codec whose speed it does not state.
const SCENARIO: &str = r#"name = "on-a-preset"

[cluster]
preset = "h200-8x"

[workload]
kind = "collective"
collective = "reduce-scatter"
bytes_per_rank = "8 MiB"
start = ["0 us", "0 us", "0 us", "0 us", "0 us", "0 us", "0 us", "30 us"]

[codec]
id = "window7"
ratio = 1.33

[[variant]]
name = "native"
algorithm = "ring"

[[variant]]
name = "coded"
protocol = "size-first"
"#;

/// Standard output and error of a run with these arguments more.
fn run(folder: &Path, more: &[&str]) -> (String, String) {
    let file = folder.join("scenario.toml");
    fs::write(&file, SCENARIO).unwrap();
    let output =
        zipwire(&["run"]).arg(&file).args(more).arg("--out").arg(folder.join("out")).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output.stderr));
    (text_of(&output.stdout), text_of(&output.stderr))
}

#[test]
fn an_assumed_speed_is_said_and_a_known_one_is_not() {
    let folder = TempDir::new().unwrap();
    let said = |more: &[&str]| -> (Value, Vec<String>) {
        let (stdout, _) = run(folder.path(), &[&["--json"], more].concat());
        let summary: Value = serde_json::from_str(&stdout).unwrap();
        let warnings = summary["verdict"]["warnings"].as_array().unwrap();
        let warnings = warnings.iter().map(|warning| warning.as_str().unwrap().to_owned());
        let of_speeds = warnings.filter(|warning| warning.starts_with("nobody measured")).collect();
        (summary["executors"]["sim"]["coded"]["codec_speed_basis"].clone(), of_speeds)
    };
    let assumed = "nobody measured the speed of `window7` (scaled) on these GPUs: `zipwire bench gpu` does, and `codec.speed` takes it";
    assert_eq!(said(&[]), ("scaled".into(), vec![assumed.to_owned()]));
    assert_eq!(said(&["--set", "codec.id=codebook16"]), ("published".into(), vec![]));
    let speed = "codec.speed={ encode = \"900 GB/s\", decode = \"1 TB/s\" }";
    assert_eq!(said(&["--set", speed]), (Value::Null, vec![]));
    assert_eq!(said(&["--variant", "native"]), (Value::Null, vec![]), "native variants have no codec");
    let (stdout, _) = run(folder.path(), &[]);
    assert_eq!(stdout.matches(&format!("\nwarning: {assumed}\n")).count(), 1, "{stdout}");
    let (stdout, _) = run(folder.path(), &["--no-verdict"]);
    assert!(!stdout.contains("warning:"), "{stdout}");
}

#[test]
fn sums_are_no_work_of_the_codec() {
    let folder = TempDir::new().unwrap();
    let (stdout, _) = run(folder.path(), &[]);
    let row = |name: &str| -> Vec<String> {
        let line = stdout.lines().find(|line| line.starts_with(name)).unwrap();
        line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
    };
    let (header, native, coded) = (row("variant"), row("native"), row("coded"));
    let at = |name: &str| header.iter().position(|column| column == name).unwrap();
    assert_eq!(native[at("codec")], "0", "{stdout}");
    assert_ne!(native[at("sums")], "0");
    assert_ne!(coded[at("codec")], "0");
    assert_ne!(native[at("compute")], "0", "a start delay");
    // Without sums and delays there are no such columns.
    let other = output(&[
        "run",
        "scenarios/smoke/all-to-all-equal-2x4.toml",
        "--out",
        folder.path().to_str().unwrap(),
    ]);
    let other = text_of(&other.stdout);
    assert!(other.contains("codec") && !other.contains("sums") && !other.contains("compute"), "{other}");
    let summary: Value =
        serde_json::from_slice(&fs::read(folder.path().join("out/summary.json")).unwrap()).unwrap();
    let native = &summary["executors"]["sim"]["native"];
    assert!(native["reduce_s"].as_f64().unwrap() > 0.0);
    assert_eq!(native["codec_s"], native["reduce_s"]);
}

#[test]
fn the_beginning_of_a_preset_is_enough_for_a_suggestion() {
    let unknown = output(&["scenario", "presets", "h100"]);
    assert_eq!(unknown.status.code(), Some(2));
    let error = text_of(&unknown.stderr);
    assert!(error.contains("did you mean `h100-8x`?"), "{error}");
}

#[test]
fn lists_are_not_as_wide_as_what_they_list() {
    let folder = TempDir::new().unwrap();
    let variant = |index| format!("[[variant]]\nname = \"variant-{index}\"\n");
    let many: String = (0..40).map(variant).collect();
    let text = SCENARIO.split("[codec]").next().unwrap().to_owned() + &many;
    fs::write(folder.path().join("many.toml"), text).unwrap();
    let listed = text_of(&output(&["scenario", "list", folder.path().to_str().unwrap()]).stdout);
    assert!(listed.lines().count() == 2 && !listed.contains("variant-20"), "{listed}");
    // Where stdout is no terminal, a line each, however long: for `grep`.
    let listed = text_of(&output(&["scenario", "list", "scenarios/paper"]).stdout);
    let widest = listed.lines().map(|line| line.chars().count()).max().unwrap();
    assert!(widest > 120 && listed.lines().skip(1).all(|line| line.contains(".toml")), "{widest}: {listed}");
}
