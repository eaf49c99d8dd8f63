//! `zipwire bench held`: what it prints, not how fast anything is.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn zipwire(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_zipwire")).args(arguments).output().unwrap()
}

fn sample() -> String {
    let path = "traces/samples/train_late_weights.bf16.safetensors";
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path).display().to_string()
}

fn report(arguments: &[&str]) -> Value {
    let output = zipwire(&[&["bench", "held", "--passes", "1", "--json"], arguments].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn rows_add_up() {
    let report = report(&[&sample(), "--codec", "tiered,rans", "--threads", "2"]);
    assert_eq!((&report["threads"], &report["bytes_raw"]), (&2.into(), &report["rows"][0]["bytes_held"]));
    let rows = report["rows"].as_array().unwrap();
    let codecs: Vec<&str> = rows.iter().map(|row| row["codec"].as_str().unwrap()).collect();
    assert_eq!(codecs, ["raw", "tiered", "rans"]);
    for row in rows {
        let number = |key: &str| row[key].as_f64().unwrap();
        let sum = number("decode_s") + number("wait_s") + number("multiply_s");
        assert!((sum / number("pass_s") - 1.0).abs() < 1e-9, "{row}");
        let is_raw = row["codec"] == "raw";
        assert_eq!(number("held_pct") > 99.0, is_raw, "{row}");
        assert_eq!((row["decode_gbps"].is_null(), number("bytes_buffer") == 0.0), (is_raw, is_raw), "{row}");
        assert!(is_raw || number("break_even_gbps") < number("decode_gbps"), "{row}");
    }
}

#[test]
fn compressed_files_are_held_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let compressed = folder.path().join("w.safetensors").display().to_string();
    assert!(zipwire(&["compress", &sample(), "--codec", "rans", "-o", &compressed]).status.success());
    let report = report(&[&compressed, "--codec", "rans", "--as-files", "--blocks", "2"]);
    assert_eq!(report["blocks"], 2);
    let rows: Vec<_> = report["rows"].as_array().unwrap().iter().collect();
    let ways: Vec<_> =
        rows.iter().map(|row| (row["codec"].as_str(), row["place"].as_str().unwrap())).collect();
    let expected = [(Some("raw"), "memory"), (Some("rans"), "memory"), (None, "memory"), (None, "disk")];
    assert_eq!(ways, expected);
    assert_eq!(rows[2]["bytes_held"], rows[3]["bytes_held"]);
}

#[test]
fn what_is_wrong_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let fails = |arguments: &[&str], code: i32, what: &str| {
        let output = zipwire(&[&["bench", "held"], arguments].concat());
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{error}");
        assert!(error.contains(what), "{error}");
    };
    let path = folder.path().display().to_string();
    fails(&[&path], 2, "has no file `*.safetensors`\nhelp: name a model");
    fails(&[&format!("{path}/absent")], 1, "cannot read");
    fails(&[&sample(), &sample()], 2, "is in `");
    fails(&[&sample(), "--codec", "delta+rans"], 2, "delta+rans");
    fails(&[&sample(), "--blocks", "0"], 2, "--blocks");
    // A header of two bytes, and nothing behind it.
    std::fs::write(folder.path().join("e.safetensors"), b"\x02\0\0\0\0\0\0\0{}").unwrap();
    fails(&[&path], 2, "the model has no tensors");
}
