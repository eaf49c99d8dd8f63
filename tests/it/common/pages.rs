//! A folder where commands of the documentation run as they stand.
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use super::markdown::root;
use super::process::text_of;

/// A folder with the scenarios, the samples and a model file, as commands of pages expect it.
pub(crate) struct Place(TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        use std::os::unix::fs::symlink;

        let place = Self(TempDir::new().unwrap());
        // A folder of its own, so that paths relative to a scenario stay in this folder.
        fs::create_dir(place.at("scenarios")).unwrap();
        for entry in fs::read_dir(root().join("scenarios")).unwrap() {
            let path = entry.unwrap().path();
            symlink(&path, place.at("scenarios").join(path.file_name().unwrap())).unwrap();
        }
        symlink(root().join("traces"), place.at("traces")).unwrap();
        fs::create_dir(place.at("out")).unwrap();
        let weights = place.at("traces/samples/train_late_weights.bf16.safetensors");
        fs::copy(weights, place.at("model.safetensors")).unwrap();
        place
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs commands in a shell that ends with the first one that fails; `name` is for the message then.
    #[track_caller]
    pub(crate) fn run(&self, name: &str, commands: &str) {
        let script = format!("set -e\nzipwire() {{ \"$ZIPWIRE\" \"$@\"; }}\n{commands}");
        let program = env!("CARGO_BIN_EXE_zipwire");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).current_dir(self.0.path()).env("ZIPWIRE", program).env("NO_COLOR", "1");
        let output = shell.output().unwrap();
        assert!(output.status.success(), "{name}:\n{commands}\n{}", text_of(&output.stderr));
    }
}
