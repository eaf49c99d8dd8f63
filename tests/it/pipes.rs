//! A pipe whose reader has gone changes no exit code and stops no run.

use std::io::pipe;
use std::process::Command;

use tempfile::TempDir;

/// How a command ends whose stdout, or both outputs, nobody reads.
fn ends(args: &[&str], is_deaf: [bool; 2]) -> Option<i32> {
    let closed = || pipe().unwrap().1;
    let mut command = Command::new(env!("CARGO_BIN_EXE_zipwire"));
    command.args(args).current_dir(env!("CARGO_MANIFEST_DIR"));
    let output = TempDir::new().unwrap();
    let [stdout, stderr] = is_deaf;
    if stdout {
        command.stdout(closed());
    } else {
        command.stdout(std::fs::File::create(output.path().join("stdout")).unwrap());
    }
    if stderr {
        command.stderr(closed());
    } else {
        command.stderr(std::fs::File::create(output.path().join("stderr")).unwrap());
    }
    command.status().unwrap().code()
}

#[test]
fn errors_keep_their_exit_code() {
    for is_deaf in [[false, true], [true, true], [true, false]] {
        assert_eq!(ends(&["run", "absent.toml"], is_deaf), Some(2), "{is_deaf:?}");
        assert_eq!(ends(&["scenario", "presets", "h100"], is_deaf), Some(2), "{is_deaf:?}");
    }
}

#[test]
fn results_that_nobody_reads_are_no_failure() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("out");
    let run = ["run", "scenarios/smoke/preset-2x4.toml", "--out", out.to_str().unwrap()];
    for args in [["scenario", "schema"].as_slice(), &run] {
        for is_deaf in [[true, false], [true, true]] {
            assert_eq!(ends(args, is_deaf), Some(0), "{args:?} {is_deaf:?}");
        }
    }
    assert!(out.join("summary.json").exists(), "results are in place");
}
