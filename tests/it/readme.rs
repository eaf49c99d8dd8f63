//! The README's uses: every block of commands runs as it stands, in a folder with the scenarios, the samples and a model file.

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

/// Words of the README at the most.
const MOST_WORDS: usize = 900;

const README: &str = include_str!("../../README.md");

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn it_is_short() {
    let words = README.split_whitespace().count();
    assert!(words <= MOST_WORDS, "README.md has {words} words, at most {MOST_WORDS} are allowed");
}

/// Blocks of shell commands that begin with `zipwire`.
fn uses() -> Vec<&'static str> {
    let blocks = README.split("```sh\n").skip(1);
    let blocks = blocks.map(|rest| rest.split_once("```").expect("a block has an end").0);
    blocks.filter(|block| block.starts_with("zipwire ")).collect()
}

#[cfg(unix)]
#[test]
fn its_uses_run() {
    use std::os::unix::fs::symlink;

    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name);
    // A folder of its own, so that paths relative to a scenario stay in this folder.
    fs::create_dir(at("scenarios")).unwrap();
    symlink(root().join("traces"), at("traces")).unwrap();
    for name in ["quickstart.toml", "serving"] {
        symlink(root().join("scenarios").join(name), at("scenarios").join(name)).unwrap();
    }
    fs::create_dir(at("out")).unwrap();
    fs::copy(at("traces/samples/train_late_weights.bf16.safetensors"), at("model.safetensors")).unwrap();
    let uses = uses();
    assert_eq!(uses.len(), 6, "uses in README.md");
    for block in uses {
        assert!(block.lines().count() <= 3, "a use has three commands at most:\n{block}");
        let script = format!("set -e\nzipwire() {{ \"$ZIPWIRE\" \"$@\"; }}\n{block}");
        let program = env!("CARGO_BIN_EXE_zipwire");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).current_dir(folder.path()).env("ZIPWIRE", program).env("NO_COLOR", "1");
        let output = shell.output().unwrap();
        assert!(output.status.success(), "{block}\n{}", String::from_utf8_lossy(&output.stderr));
    }
    let model = fs::read(at("model.safetensors")).unwrap();
    assert!(fs::read(at("again.safetensors")).unwrap() == model);
    assert!(fs::read(at("restored/model.safetensors")).unwrap() == model);
}
