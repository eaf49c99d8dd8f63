//! Runs the program as a user does.
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// The program, with arguments, in the root of the repository: that of this build, or the one that `ZIPWIRE_TEST_PROGRAM` names.
pub(crate) fn zipwire(args: &[&str]) -> Command {
    let program = std::env::var_os("ZIPWIRE_TEST_PROGRAM");
    let mut command = Command::new(program.unwrap_or_else(|| env!("CARGO_BIN_EXE_zipwire").into()));
    command.args(args).current_dir(env!("CARGO_MANIFEST_DIR")).env("NO_COLOR", "1");
    command
}

/// Output and exit status of the program.
pub(crate) fn output(args: &[&str]) -> Output {
    zipwire(args).output().unwrap()
}

/// Output of the program, which must succeed.
#[track_caller]
pub(crate) fn succeeds(args: &[&str]) -> Output {
    let output = output(args);
    assert!(output.status.success(), "{args:?}: {}", text_of(&output.stderr));
    output
}

/// It ends with the code, and says all of this.
#[track_caller]
pub(crate) fn fails(code: i32, args: &[&str], says: &[&str]) {
    let output = output(args);
    let error = text_of(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {error}");
    assert!(says.iter().all(|words| error.contains(words)), "{args:?}: {error}");
}

/// A path as an argument.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Written bytes as text.
pub(crate) fn text_of(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Names of all that is in a folder.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Runs a smoke scenario into a folder and returns the bytes of its summary.
pub(crate) fn summary(scenario: &str, folder: &Path, args: &[&str], rayon_threads: &str) -> Vec<u8> {
    let scenario = format!("scenarios/smoke/{scenario}.toml");
    let folder = folder.to_str().unwrap();
    let mut command = zipwire(&["run", &scenario, "--out", folder]);
    let output = command.args(args).env("RAYON_NUM_THREADS", rayon_threads).output().unwrap();
    assert!(output.status.success(), "{}", text_of(&output.stderr));
    fs::read(Path::new(folder).join("summary.json")).unwrap()
}
