//! Model files, the store and held weights.
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod file;
mod held;
mod store;
mod tensor;

use std::fs;
use std::path::{Path, PathBuf};

/// The folder with what releases have left of `part`.
fn releases(part: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it").join(part).join("releases")
}

/// The releases that have left something there, this version among them.
fn names_of_releases(part: &str) -> Vec<String> {
    let entries = fs::read_dir(releases(part)).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    let this = names.iter().any(|name| name == env!("CARGO_PKG_VERSION"));
    assert!(this, "this version has left nothing of `{part}`: see the head of its test");
    names
}
