//! What comes with the program is there in any folder.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn zipwire(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zipwire"));
    command.args(args).current_dir(folder).env("NO_COLOR", "1").output().unwrap()
}

/// Standard output in `folder` with temporary files in another one, of which nothing stays.
fn printed(folder: &Path, args: &[&str]) -> String {
    let temporary = TempDir::new().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_zipwire"));
    let output = command.args(args).current_dir(folder).env("TMPDIR", temporary.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0, "something stays behind");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn papers_are_reproduced_and_scenarios_listed_as_in_the_repository() {
    let elsewhere = TempDir::new().unwrap();
    for (shipped, own) in [
        (
            ["reproduce", "zipnn"].as_slice(),
            ["reproduce", "zipnn", "--scenarios", "scenarios/paper"].as_slice(),
        ),
        (&["scenario", "list"], &["scenario", "list", "scenarios"]),
    ] {
        let text = printed(elsewhere.path(), shipped);
        assert!(text == printed(Path::new(ROOT), own) && !text.is_empty(), "{shipped:?}: {text}");
    }
}

#[test]
fn scenarios_are_unpacked_and_run_with_what_they_read() {
    let elsewhere = TempDir::new().unwrap();
    let unpack = || zipwire(elsewhere.path(), &["scenario", "unpack", "mine"]);
    assert!(unpack().status.success());
    let file = "mine/scenarios/smoke/moe-matrix-1x8.toml";
    let ran = zipwire(elsewhere.path(), &["run", file, "--set", "iterations=1", "--no-verdict"]);
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let own = fs::read(Path::new(ROOT).join("scenarios/smoke/moe-matrix-1x8.toml")).unwrap();
    assert_eq!(fs::read(elsewhere.path().join(file)).unwrap(), own);

    fs::write(elsewhere.path().join(file), "changed").unwrap();
    let again = unpack();
    assert_eq!(again.status.code(), Some(2));
    let error = String::from_utf8(again.stderr).unwrap();
    assert!(error.contains("`mine`") && error.contains("\nhelp: name a folder"), "{error}");
    assert_eq!(fs::read_to_string(elsewhere.path().join(file)).unwrap(), "changed", "it replaces nothing");
}
