//! `zipwire diff`: what differs between two timelines, and what is no timeline.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::common::process;

use process::{output, summary, text_of};

/// Runs a smoke scenario into a folder and returns the path of one timeline.
fn timeline(folder: &Path, name: &str, args: &[&str]) -> String {
    summary("moe-dirichlet-2x2", folder, args, "2");
    folder.join(name).to_str().unwrap().to_owned()
}

fn diff_json(args: &[&str]) -> (Value, String) {
    let diff = output(&[&["diff", "--json"], args].concat());
    assert!(diff.status.success(), "{}", text_of(&diff.stderr));
    (serde_json::from_slice(&diff.stdout).unwrap(), text_of(&diff.stderr))
}

#[test]
fn a_run_does_not_differ_from_itself() {
    let folder = TempDir::new().unwrap();
    let trace = "sim-static-first.trace.json";
    let a = timeline(&folder.path().join("a"), trace, &[]);
    let b = timeline(&folder.path().join("b"), trace, &[]);
    let (diff, warning) = diff_json(&[&a, &b]);
    assert_eq!((&diff["same_plan"], warning.as_str()), (&Value::Bool(true), ""));
    assert_eq!(
        (&diff["a"]["file"], &diff["b"]["file"]),
        (&Value::from(a.as_str()), &Value::from(b.as_str()))
    );
    assert_eq!((&diff["paired"], &diff["iteration"]["ratio"]), (&diff["a"]["spans"], &1.0.into()));
    assert!(diff["groups"].as_array().unwrap().iter().all(|group| group["ratio"] == 1.0));
    for list in ["durations", "ends", "bytes", "only_a", "only_b"] {
        assert_eq!(diff[list], serde_json::json!({"count": 0, "spans": []}), "{list}");
    }
    let text = text_of(&output(&["diff", &a, &b]).stdout);
    assert!(text.ends_with("352 spans are in both: none differs\n"), "{text}");
}

#[test]
fn a_slower_codec_is_seen_where_it_is() {
    let folder = TempDir::new().unwrap();
    let trace = "sim-static-first.trace.json";
    let a = timeline(&folder.path().join("a"), trace, &[]);
    let slow = ["--set", "codec.speed.launch=40 us"];
    let b = timeline(&folder.path().join("b"), trace, &slow);
    let (diff, warning) = diff_json(&[&a, &b, "--top", "3"]);
    assert_eq!((&diff["same_plan"], warning.as_str()), (&Value::Bool(true), ""));
    for group in diff["groups"].as_array().unwrap() {
        let is_codec = group["name"] == "encode" || group["name"] == "decode";
        assert_eq!(is_codec, group["ratio"].as_f64().unwrap() > 1.5, "{group}");
    }
    assert_eq!(diff["durations"]["spans"].as_array().unwrap().len(), 3);
    assert!(diff["durations"]["spans"].as_array().unwrap().iter().all(|span| span["lane"] == "codec"));
    assert!(diff["ends"]["count"].as_u64() > diff["durations"]["count"].as_u64(), "what follows is later");
    assert_eq!((&diff["bytes"]["count"], &diff["only_a"]["count"]), (&0.into(), &0.into()));
    insta::assert_snapshot!("diff-slow-launch", text_of(&output(&["diff", &a, &b, "--top", "3"]).stdout));
}

#[test]
fn traces_of_different_plans_are_compared_with_a_warning() {
    let folder = TempDir::new().unwrap();
    let trace = "sim-static-first.trace.json";
    let a = timeline(&folder.path().join("a"), trace, &[]);
    let b = timeline(&folder.path().join("b"), trace, &["--seed", "4"]);
    let (diff, warning) = diff_json(&[&a, &b]);
    let digests = ["a", "b"].map(|side| diff[side]["plan_digest"].as_str().unwrap().to_owned());
    assert_ne!(digests[0], digests[1]);
    let expected = format!("warning: the plans differ, `{}` in A and `{}` in B", digests[0], digests[1]);
    assert!(warning.starts_with(&expected) && warning.lines().count() == 1, "{warning}");
    assert_eq!(diff["same_plan"], false);
    assert!(diff["paired"].as_u64().unwrap() > 0 && diff["bytes"]["count"].as_u64().unwrap() > 0);
}

#[test]
fn simulation_and_reality_have_the_same_spans() {
    let folder = TempDir::new().unwrap();
    let sim = timeline(folder.path(), "sim-size-first.trace.json", &["--on", "sim,threads"]);
    let threads = sim.replace("sim-size-first", "threads-size-first");
    let (diff, _) = diff_json(&[&sim, &threads]);
    assert_eq!((&diff["same_plan"], &diff["paired"]), (&Value::Bool(true), &diff["b"]["spans"]));
    assert_eq!((&diff["only_a"]["count"], &diff["only_b"]["count"]), (&0.into(), &0.into()));
    assert_eq!((&diff["a"]["clock"], &diff["b"]["clock"]), (&"virtual".into(), &"monotonic".into()));
}

#[test]
fn a_file_that_is_no_timeline_ends_with_2() {
    let folder = TempDir::new().unwrap();
    let good = timeline(folder.path(), "sim-native.trace.json", &[]);
    let cut = folder.path().join("cut.json");
    fs::write(&cut, &fs::read(&good).unwrap()[..1000]).unwrap();
    let summary = folder.path().join("summary.json");
    let cases = [
        (cut.to_str().unwrap(), "cut.json` ends too early, at line 15 column "),
        (summary.to_str().unwrap(), "summary.json` is not a timeline of zipwire: line "),
        ("Cargo.toml", "`Cargo.toml` line 1 column 2 is not JSON"),
        ("none.json", "cannot read `none.json`"),
    ];
    for (bad, message) in cases {
        for args in [["diff", &good, bad], ["diff", bad, &good]] {
            let diff = output(&args);
            assert_eq!(diff.status.code(), Some(2));
            assert!(text_of(&diff.stderr).contains(message), "{}", text_of(&diff.stderr));
            assert_eq!(text_of(&diff.stdout), "");
        }
    }
}
