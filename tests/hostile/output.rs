//! Output folders: what others do there, what is in the way, and processes that are killed. Every place of a failure:
//! `crates/runner/src/output/tests.rs`.

use std::fs;
use std::time::Duration;

use libtest_mimic::Trial;
use serde_json::Value;
use zipwire::Output;

use crate::common::{Case, Ended, SCENARIO, can, limited, zipwire};
use crate::trial;

/// Runs a command with process ids of its own.
const UNSHARE: [&str; 5] = ["--user", "--map-root-user", "--pid", "--fork", "--kill-child"];

pub(crate) fn trials() -> Vec<Trial> {
    let has_namespaces = can("unshare", &[&UNSHARE[..], &["true"]].concat());
    vec![
        trial("another_pid_namespace_is_kept_out", another_pid_namespace_is_kept_out)
            .with_ignored_flag(!has_namespaces),
        trial("a_folder_for_the_summary_leaves_nothing", a_folder_for_the_summary_leaves_nothing),
        trial("fewer_variants_leave_no_old_timelines", fewer_variants_leave_no_old_timelines),
        trial("a_killed_run_leaves_no_mixture", a_killed_run_leaves_no_mixture),
        trial("a_file_that_is_too_large_is_an_error", a_file_that_is_too_large_is_an_error)
            .with_ignored_flag(!can("sh", &["-c", "ulimit -f 8"])),
        trial("what_cannot_be_unpacked_leaves_nothing", what_cannot_be_unpacked_leaves_nothing)
            .with_ignored_flag(!can("sh", &["-c", "ulimit -f 8"])),
    ]
}

fn what_cannot_be_unpacked_leaves_nothing() {
    let case = Case::new(SCENARIO);
    fs::create_dir(case.path("empty")).unwrap();
    for folder in ["none", "empty"] {
        let unpack = zipwire(&["scenario", "unpack", case.path(folder).to_str().unwrap()]);
        limited("ulimit -f 8", &unpack).expect(2, "cannot write to folder");
    }
    assert_eq!(case.names("."), ["empty", "hostile.toml"]);
    assert!(case.names("empty").is_empty());
}

fn another_pid_namespace_is_kept_out() {
    let case = Case::new(SCENARIO);
    let mut output = Output::create(&case.path("out")).unwrap();
    output.write("own.json", |out| out.write_all(b"1")).unwrap();
    let run = case.command(&[]);
    let mut apart = std::process::Command::new("unshare");
    apart.args(UNSHARE).arg(run.get_program()).args(run.get_args());
    Ended::of(apart).expect(2, "another process writes to output folder");
    output.commit().unwrap();
    assert_eq!(case.names("out"), [".zipwire.json", "own.json"]);
}

fn a_folder_for_the_summary_leaves_nothing() {
    let case = Case::new(SCENARIO);
    fs::create_dir_all(case.path("out/summary.json")).unwrap();
    case.run(&[]).expect(2, "summary.json` is a folder, and a result has a file there");
    assert_eq!(case.names("out"), ["summary.json"]);
    // Nor does one where a timeline belongs, although that is known only later.
    fs::remove_dir(case.path("out/summary.json")).unwrap();
    fs::create_dir(case.path("out/sim-static-first.trace.json")).unwrap();
    case.run(&[]).expect(2, "is a folder");
    assert_eq!(case.names("out"), ["sim-static-first.trace.json"]);
}

fn fewer_variants_leave_no_old_timelines() {
    let case = Case::new(SCENARIO);
    case.run(&[]).expect(0, "");
    case.put("out/notes.txt", "by hand");
    case.run(&["--variant", "native"]).expect(0, "");
    let files = [".zipwire.json", "notes.txt", "run.json", "sim-native.trace.json", "summary.json"];
    assert_eq!(case.names("out"), files);
}

/// Whether `summary.json`, if it is there, stands beside the timelines of its own run and no others.
fn check(case: &Case, context: &str) {
    let Ok(summary) = fs::read(case.path("out/summary.json")) else { return };
    let summary: Value = serde_json::from_slice(&summary).unwrap();
    let variants = summary["executors"]["sim"].as_object().unwrap();
    let timelines: Vec<String> =
        case.names("out").into_iter().filter(|name| name.contains(".trace.")).collect();
    assert_eq!(timelines.len(), variants.len(), "{context}: {timelines:?}");
    for name in timelines {
        let text = fs::read_to_string(case.path("out").join(&name)).unwrap();
        let seed = format!("\"seed\":\"{}\"", summary["seed"]);
        let other = format!("\"seed\":{}", summary["seed"]);
        let text = text.replace(": ", ":");
        assert!(text.contains(&seed) || text.contains(&other), "{context}: {name} is of another run");
    }
}

fn a_killed_run_leaves_no_mixture() {
    let case = Case::new(SCENARIO);
    case.run(&["--seed", "1"]).expect(0, "");
    for turn in 0..24 {
        let seed = (turn + 2).to_string();
        let args: &[&str] =
            if turn % 2 == 0 { &["--seed", &seed, "--variant", "native"] } else { &["--seed", &seed] };
        let mut child = case.command(args).stdout(std::process::Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(4 * (turn + 1)));
        // It may have ended already.
        let _ = child.kill();
        child.wait().unwrap();
        check(&case, &format!("turn {turn}"));
    }
    case.run(&["--seed", "99"]).expect(0, "");
    check(&case, "at the end");
    assert!(!case.names("out").contains(&".zipwire".to_owned()));
}

fn a_file_that_is_too_large_is_an_error() {
    let case = Case::new(SCENARIO);
    case.run(&["--variant", "native"]).expect(0, "");
    let before = case.names("out");
    let run = case.limited("ulimit -f 8", &["--set", "iterations=50"]);
    run.expect(1, "cannot write to output folder");
    assert_eq!(case.names("out"), before);
}
