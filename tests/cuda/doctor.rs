//! `zipwire doctor` below the emulation.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;

use serde_json::Value;

pub(crate) fn finds_the_gpus() {
    let output = Command::new(env!("CARGO_BIN_EXE_zipwire")).args(["doctor", "--json"]).output().unwrap();
    let all: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let find = |part: &str| all.iter().find(|finding| finding["part"] == part).unwrap();
    for part in ["GPUs", "NVRTC", "cuda"] {
        assert_eq!(find(part)["found"], true, "{}", find(part));
    }
    assert!(find("GPUs")["what"].as_str().unwrap().contains("sm_"), "{}", find("GPUs"));
}
