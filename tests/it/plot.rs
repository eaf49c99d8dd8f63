//! Pictures on the command line: in the terminal and as files, written over pictures alone; and those of shipped sweeps, which `docs/` shows.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use crate::common::process;

use process::{fails, names, succeeds, text, text_of};

const SCENARIO: &str = "scenarios/smoke/moe-dirichlet-2x2.toml";

/// The picture in the terminal, which has none here.
fn drawn(args: &[&str]) -> String {
    text_of(&succeeds(&[&["plot"], args].concat()).stdout)
}

#[test]
fn a_run_and_its_timelines_have_pictures() {
    let folder = TempDir::new().unwrap();
    let [out, picture] = ["out", "picture.svg"].map(|name| folder.path().join(name));
    succeeds(&["run", SCENARIO, "--out", text(&out), "--set", "iterations=2"]);
    let shown = drawn(&[text(&out)]);
    assert!(
        shown.contains("native │█") && shown.contains(", 1.000 x") && shown.contains("time, "),
        "{shown}"
    );
    assert!(!shown.contains('\u{1b}') && shown == drawn(&[text(&out.join("summary.json"))]), "{shown}");
    assert!(drawn(&[text(&out), "--picture", "times"]).contains("communication │█"));
    let timeline = out.join("sim-native.trace.json");
    let shown = drawn(&[text(&timeline), "--width", "80"]);
    assert!(shown.contains("the slowest of 2 iterations") && shown.contains("rank 3  compute"), "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    // A timeline that somebody has renamed.
    let renamed = folder.path().join("timeline.json");
    fs::copy(&timeline, &renamed).unwrap();
    assert_eq!(drawn(&[text(&renamed), "--width", "80"]), shown);
    // Over a picture that is there, the same bytes.
    let written = [0, 1].map(|_| {
        let said = succeeds(&["plot", text(&out), "-o", text(&picture)]);
        assert!(said.stdout.is_empty() && text_of(&said.stderr).contains("the picture is in"));
        fs::read_to_string(&picture).unwrap()
    });
    assert!(written[0] == written[1] && written[0].starts_with("<!-- zipwire plot -->\n<svg"));
    assert_eq!(names(folder.path()), ["out", "picture.svg", "timeline.json"]);
}

#[test]
fn only_pictures_are_replaced_and_wrong_arguments_are_named() {
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name);
    let refused = |args: &[&str], says: &str| fails(2, &[&["plot"], args].concat(), &[says, "help: "]);
    let out = at("out");
    succeeds(&["run", SCENARIO, "--out", text(&out), "--set", "iterations=1"]);
    for mine in ["mine.svg", "mine.png"] {
        fs::write(at(mine), "mine").unwrap();
        refused(&[text(&out), "-o", text(&at(mine))], "`zipwire plot` did not write it");
        assert_eq!(fs::read_to_string(at(mine)).unwrap(), "mine");
    }
    refused(&[text(&out), "-o", text(&at("picture.pdf"))], "neither `.svg` nor `.png`");
    refused(&[text(&out), "-o", text(&at("a.svg")), "--width", "80"], "`--width` has no effect on an SVG");
    refused(&[text(&out), "--picture", "speed"], "has no such picture\nhelp: it has `variants`, `times`");
    refused(&[text(&out), "--x", "seed"], "does not sweep that");
    refused(&[text(folder.path())], "has no result");
    refused(&[SCENARIO], "is not JSON");
    refused(&[text(&at("nowhere.trace.json"))], "cannot read");
    fs::write(at("other.json"), "{\"traceEvents\": 1}").unwrap();
    refused(&[text(&at("other.json"))], "is no result of zipwire");
    if !cfg!(feature = "png") {
        refused(&[text(&out), "-o", text(&at("a.png"))], "--features png");
    }
    assert_eq!(names(folder.path()), ["mine.png", "mine.svg", "other.json", "out"]);
}

/// Runs a shipped sweep and holds its picture against that in `docs/`.
fn is_shown(name: &str, folder: &Path) {
    let [out, picture] = [name.to_owned(), format!("{name}.svg")].map(|name| folder.join(name));
    succeeds(&["run", &format!("scenarios/sweeps/{name}.toml"), "--out", text(&out)]);
    succeeds(&["plot", text(&out), "-o", text(&picture)]);
    let shown = fs::read_to_string(format!("docs/images/sweeps/{name}.svg")).unwrap();
    assert!(
        fs::read_to_string(&picture).unwrap() == shown,
        "{name}: docs/plot.md says how to renew pictures"
    );
}

#[test]
fn pictures_of_sweeps_are_those_of_this_version() {
    let folder = TempDir::new().unwrap();
    is_shown("bandwidth-ratio", folder.path());
    is_shown("serving-rate", folder.path());
    // All sweeps have one.
    let sweeps = names(Path::new("scenarios/sweeps")).into_iter();
    let sweeps: Vec<String> = sweeps.map(|name| name.replace(".toml", ".svg")).collect();
    assert_eq!(names(Path::new("docs/images/sweeps")), sweeps);
    // In the terminal, of the same result.
    let out = folder.path().join("bandwidth-ratio");
    let shown = drawn(&[text(&out), "--width", "80"]);
    assert!(
        shown.contains("static-first: × even at 93 GB/s") && shown.contains("◆ knee at 50 GB/s"),
        "{shown}"
    );
    let shown = drawn(&[text(&out), "--x", "codec.ratio", "--width", "160"]);
    assert!(
        shown.contains("cluster.nic_bandwidth = 200 GB/s") && shown.contains("no break-even, no knee"),
        "{shown}"
    );
    let shown = drawn(&[text(&out), "--picture", "time"]);
    assert!(shown.contains("native: ◆ knee at ") && shown.contains("iteration, ms"), "{shown}");
}

mod whole {
    #[test]
    #[ignore = "a minute without optimisation: .ci/run runs it, and short ones of its kind are above"]
    fn the_picture_of_layouts_is_that_of_this_version() {
        super::is_shown("layouts", tempfile::TempDir::new().unwrap().path());
    }
}
