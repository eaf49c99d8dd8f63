//! Reports on the command line: made with a result or of it afterwards, written over reports alone, refused for what is no result.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use crate::common::process;

use process::{fails, names, succeeds, text, text_of, zipwire};

const SCENARIO: &str = "scenarios/smoke/moe-dirichlet-2x2.toml";

#[test]
fn a_report_made_with_a_run_is_that_made_of_its_folder() {
    let folder = TempDir::new().unwrap();
    let [out, page, again] = ["out", "page.html", "again.html"].map(|name| folder.path().join(name));
    let set = ["--set", "iterations=2"];
    succeeds(&[&["run", SCENARIO, "--out", text(&out), "--report", text(&page)], &set[..]].concat());
    assert!(names(&out).contains(&"run.json".to_owned()));
    let said = succeeds(&["report", text(&out), "-o", text(&again)]);
    assert!(said.stdout.is_empty() && text_of(&said.stderr).contains("open it in a browser"));
    let html = fs::read_to_string(&page).unwrap();
    assert!(html == fs::read_to_string(&again).unwrap(), "the same result, the same bytes");
    let scenario = fs::read_to_string(SCENARIO).unwrap();
    let name_line = scenario.lines().find(|line| line.starts_with("name = ")).unwrap().replace('"', "&quot;");
    for shown in [
        &*name_line,
        "<code>--set iterations=2</code>",
        " exposed, ",
        "nic 0 up",
        "the slowest of 2 iterations",
    ] {
        assert!(html.contains(shown), "{shown}");
    }
    // A bare summary, away from what was beside it; and both side by side.
    let bare = folder.path().join("bare.json");
    fs::copy(out.join("summary.json"), &bare).unwrap();
    succeeds(&["report", text(&out), text(&bare), "-o", text(&again)]);
    let both = fs::read_to_string(&again).unwrap();
    assert!(both.contains("Side by side") && both.contains("There are no timelines"));
}

#[test]
fn a_sweep_has_a_report() {
    let folder = TempDir::new().unwrap();
    let [out, page] = ["out", "page.html"].map(|name| folder.path().join(name));
    let sweep = "scenarios/sweeps/bandwidth-ratio.toml";
    succeeds(&["run", sweep, "--out", text(&out), "--report", text(&page)]);
    let html = fs::read_to_string(&page).unwrap();
    assert!(html.contains("compression pays at 8 of 20 points") && html.contains("[sweep]"));
}

#[test]
fn what_is_beside_a_summary_of_another_run_is_left_out() {
    let folder = TempDir::new().unwrap();
    let [one, two, page] = ["one", "two", "page.html"].map(|name| folder.path().join(name));
    for (out, seed) in [(&one, "1"), (&two, "2")] {
        succeeds(&["run", SCENARIO, "--out", text(out), "--set", "iterations=1", "--seed", seed]);
    }
    let moved = two.join("one.json");
    fs::copy(one.join("summary.json"), &moved).unwrap();
    succeeds(&["report", text(&moved), "-o", text(&page)]);
    let html = fs::read_to_string(&page).unwrap();
    assert!(html.contains("run.json</code>, <code>sim-native.trace.json</code>"), "{html}");
    assert!(html.contains("There are no timelines") && html.contains("The scenario is not recorded"));
    // The same of its own.
    fs::copy(two.join("summary.json"), &moved).unwrap();
    succeeds(&["report", text(&moved), "-o", text(&page)]);
    assert!(!fs::read_to_string(&page).unwrap().contains("Left out"));
}

/// A validation takes minutes: a report that fails takes nothing of it away.
#[cfg(target_os = "linux")]
#[test]
fn a_failing_report_leaves_the_validation() {
    let folder = TempDir::new().unwrap();
    // Files cannot be made there, which nobody knows before.
    let (out, page) = (folder.path().join("out"), Path::new("/proc/page.html"));
    let only = ["--variant", "native", "--set", "iterations=1"];
    let args = [&["validate", SCENARIO, "--out", text(&out), "--report", text(page)], &only[..]].concat();
    let failed = zipwire(&args).output().unwrap();
    let said = text_of(&failed.stderr);
    assert_eq!(failed.status.code(), Some(2), "{said}");
    assert!(said.contains("page.html") && said.contains("help: "), "{said}");
    assert!(text_of(&failed.stdout).contains("ranking agrees"));
    assert!(names(&out).contains(&"validation.json".to_owned()));
    succeeds(&["report", text(&out), "-o", text(&folder.path().join("page.html"))]);
}

/// A folder that is not there is known before anything runs.
#[test]
fn a_report_into_no_folder_is_refused_at_once() {
    let folder = TempDir::new().unwrap();
    let [out, page] = ["out", "nowhere/page.html"].map(|name| folder.path().join(name));
    fails(
        2,
        &["run", SCENARIO, "--out", text(&out), "--report", text(&page)],
        &["there is no folder", "help: "],
    );
    assert!(!out.exists());
}

#[test]
fn only_reports_are_replaced() {
    let folder = TempDir::new().unwrap();
    let [out, thesis] = ["out", "report.html"].map(|name| folder.path().join(name));
    succeeds(&["run", SCENARIO, "--out", text(&out)]);
    fs::write(&thesis, "mine").unwrap();
    // The default is `report.html` here.
    let here = |args: &[&str]| zipwire(args).current_dir(folder.path()).output().unwrap();
    let refused = here(&["report", "out"]);
    assert_eq!(refused.status.code(), Some(2));
    let said = text_of(&refused.stderr);
    assert!(said.contains("`zipwire report` did not write it\nhelp: choose another file"), "{said}");
    fails(2, &["run", SCENARIO, "--out", text(&out), "--report", text(&thesis)], &["did not write it"]);
    assert_eq!(fs::read_to_string(&thesis).unwrap(), "mine");
    fs::remove_file(&thesis).unwrap();
    for _ in 0..2 {
        assert!(here(&["report", "out"]).status.success());
    }
    assert_eq!(names(folder.path()), ["out", "report.html"]);
}

#[test]
fn what_is_no_result_is_refused() {
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name);
    let page = at("page.html");
    let refused = |path: &str, says: &[&str]| {
        fails(2, &["report", text(&at(path)), "-o", text(&page)], &[says, &["help: "]].concat());
    };
    fs::create_dir(at("empty")).unwrap();
    refused("empty", &["has no result: none of `summary.json`, `validation.json`, `advice.json`"]);
    refused("nowhere", &["cannot read"]);
    fs::write(at("cut.json"), "{\"executors\": {\"sim\"").unwrap();
    refused("cut.json", &["ends too early, at line 1 column 20"]);
    fs::write(at("other.json"), "{\"traceEvents\": []}").unwrap();
    refused("other.json", &["is no result of zipwire"]);
    succeeds(&["run", SCENARIO, "--out", text(&at("out"))]);
    let trace = at("out/sim-native.trace.json");
    let whole = fs::read(&trace).unwrap();
    fs::write(&trace, &whole[..whole.len() / 2]).unwrap();
    refused("out", &["sim-native.trace.json` ends too early"]);
    assert!(!page.exists());
}
