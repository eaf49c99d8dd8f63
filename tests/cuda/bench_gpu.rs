//! `zipwire bench gpu`: what it measures and says, below the emulation, where its times mean nothing.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::{Command, Output};

use serde_json::Value;

fn bench(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zipwire"));
    let fixed = ["bench", "gpu", "--json", "--most", "65536", "--rotate", "131072", "--round-ms", "1"];
    command.args(fixed).args(arguments).output().unwrap()
}

pub(crate) fn measures_types_layouts_and_sums() {
    let output = bench(&["--codec", "window7,huffman", "--type", "BF16,F32", "--layout", "split,compact"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = report["rows"].as_array().unwrap();
    let found: Vec<[&str; 3]> =
        rows.iter().map(|row| ["codec", "dtype", "layout"].map(|key| row[key].as_str().unwrap())).collect();
    assert!(found.contains(&["window7", "BF16", "compact"]) && found.contains(&["huffman", "BF16", "split"]));
    assert!(!found.iter().any(|[codec, dtype, _]| (*codec, *dtype) == ("huffman", "F32")), "{found:?}");
    for row in rows {
        let speeds = ["decode_gbps", "decode_batch_gbps", "copy_gbps", "decode_share"];
        assert!(speeds.iter().all(|key| row[key].as_f64().unwrap() > 0.0), "{row}");
        assert!((60.0..100.0).contains(&row["size_pct"].as_f64().unwrap()), "{row}");
    }
    let compared = report["frames_compared"].as_u64().unwrap();
    assert_eq!(compared, 36 * found.len() as u64, "twelve lengths of three contents each");
    assert!(report["failures"].as_array().unwrap().is_empty());
    let sums = report["sums"].as_array().unwrap();
    let terms: Vec<u64> = sums.iter().map(|sum| sum["terms"].as_u64().unwrap()).collect();
    assert_eq!(terms, [2, 8]);
    assert!(sums.iter().all(|sum| sum["read_gbps"].as_f64().unwrap() > 0.0), "{sums:?}");
}

/// One kernel that does nothing: its frames are counted, and everything else is measured. One that breaks the device: what was measured before
/// is there.
pub(crate) fn goes_on_behind_a_difference() {
    let lines = |fault: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zipwire"));
        let fixed =
            ["bench", "gpu", "--json-lines", "--least", "65536", "--most", "65536", "--rotate", "65536"];
        let types =
            ["--codec", "window7", "--layout", "split,compact", "--round-ms", "1", "--warm-up-ms", "1"];
        let output = command.args(fixed).args(types).env("FAKECUDA_FAULT", fault).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>()
    };
    let of = |lines: &[Value], kind: &str| {
        let found = lines.iter().filter(|line| line["kind"] == kind);
        found.map(|line| line["layout"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    let skipped = lines("skip:window7_decode_bf16");
    assert_eq!(of(&skipped, "comparison"), ["split", "compact"]);
    assert_eq!(skipped[0]["wrong"], 36, "{}", skipped[0]);
    assert_eq!(of(&skipped, "failure"), ["split", "split"], "compared, and to be measured");
    assert_eq!(of(&skipped, "row"), ["compact"]);
    assert_eq!(of(&skipped, "sum").len(), 2);
    let broken = lines("stick:window7_decode_compact_bf16");
    assert_eq!(of(&broken, "comparison"), ["split"]);
    assert!(broken.iter().any(|line| line["what"].to_string().contains("ILLEGAL_ADDRESS")), "{broken:?}");
    assert_eq!(broken.last().unwrap()["kind"], "end");
}

pub(crate) fn says_what_has_no_kernels() {
    let refused = |arguments: &[&str], parts: &[&str]| {
        let output = bench(arguments);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && parts.iter().all(|part| text.contains(part)), "{text}");
    };
    refused(
        &["--codec", "huffman", "--type", "F16"],
        &["no GPU kernels for codec `huffman` with `F16`", "help: "],
    );
    refused(&["--type", "F64"], &["unknown type `F64`", "F8_E4M3"]);
    refused(&["--layout", "wide"], &["unknown layout `wide`", "compact"]);
    refused(&["--type", "F32", "--least", "65534"], &["a multiple of 4"]);
}
