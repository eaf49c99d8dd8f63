//! `zipwire bench codec`: what it prints, not how fast anything is.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn bench(arguments: &[&str]) -> Output {
    let sample =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("traces/samples/train_late_weights.bf16.safetensors");
    Command::new(env!("CARGO_BIN_EXE_zipwire"))
        .args(["bench", "codec"])
        .arg(sample)
        .args(arguments)
        .output()
        .unwrap()
}

#[test]
fn a_row_for_each_codec_and_number_of_threads() {
    let output = bench(&["--codec", "raw,window7:scale=std,zstd,lz4", "--threads", "1,2", "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = report["rows"].as_array().unwrap();
    let keys: Vec<&String> = rows[0].as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        [
            "codec",
            "layout",
            "file",
            "dtype",
            "threads",
            "pages",
            "huge_pages_pct",
            "simd",
            "zeros_pct",
            "bytes_raw",
            "bytes_coded",
            "size_pct",
            "encode_gbps",
            "decode_gbps",
            "memcpy_gbps"
        ]
    );
    let names: Vec<(&str, u64)> =
        rows.iter().map(|row| (row["codec"].as_str().unwrap(), row["threads"].as_u64().unwrap())).collect();
    let codecs = ["raw", "window7:scale=std", "zstd", "lz4"];
    let expected: Vec<(&str, u64)> =
        [1, 2].into_iter().flat_map(|threads| codecs.map(|codec| (codec, threads))).collect();
    assert_eq!(names, expected);
    for row in rows {
        assert_eq!(row["pages"], "small", "those of every system are the default");
        // The tensors of at least 8 KiB: 128x256, 16x256 and two of 32x256 values.
        assert_eq!(row["bytes_raw"], 2 * 256 * (128 + 16 + 32 + 32));
        assert_eq!((&row["dtype"], &row["layout"]), (&"BF16".into(), &"compact".into()));
        let number = |key: &str| row[key].as_f64().unwrap();
        assert!((number("size_pct") - 100.0 * number("bytes_coded") / number("bytes_raw")).abs() < 1e-9);
        assert!(["encode_gbps", "decode_gbps", "memcpy_gbps"].iter().all(|key| number(key) > 0.0));
    }
    let size =
        |codec: &str| rows.iter().find(|row| row["codec"] == codec).unwrap()["size_pct"].as_f64().unwrap();
    assert!(size("raw") > 100.0 && size("window7:scale=std") < 72.0 && size("zstd") < 85.0);
}

/// The tokens that went to two experts of those in the sample.
#[test]
fn rows_of_tensors_are_known_to_codecs() {
    let sample = "traces/samples/train_late_a2a_forward.bf16.safetensors";
    let output = Command::new(env!("CARGO_BIN_EXE_zipwire"))
        .args([
            "bench",
            "codec",
            sample,
            "--json",
            "--codec",
            "tiered,dedup+tiered,dedup:row=256+tiered,dedup:row=255+tiered",
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows[1]["codec"], "dedup+tiered");
    let sizes: Vec<u64> = rows.iter().map(|row| row["bytes_coded"].as_u64().unwrap()).collect();
    assert!(sizes[1] < sizes[0] && sizes[2] == sizes[1] && sizes[3] == sizes[0], "{sizes:?}");
}

/// The same bytes on both kinds of pages. How many huge ones the kernel gave is up to it; that it is said is up to us.
#[test]
#[cfg(target_os = "linux")]
fn huge_pages_beside_small_ones() {
    let arguments = ["--codec", "tiered,zstd,lz4", "--pages", "small,huge,small"];
    let output = bench(&[&arguments[..], &["--json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let page_bytes = |pages: &str| report["page_bytes"][pages].as_u64().unwrap();
    assert!(page_bytes("huge") > page_bytes("small") && page_bytes("small") >= 4096);
    let rows = report["rows"].as_array().unwrap();
    let (small, huge) = rows.split_at(3);
    assert_eq!(huge.len(), 3);
    for (small, huge) in small.iter().zip(huge) {
        assert_eq!((&small["pages"], &huge["pages"]), (&"small".into(), &"huge".into()));
        assert_eq!((&small["codec"], &small["bytes_coded"]), (&huge["codec"], &huge["bytes_coded"]));
    }
    let notes = String::from_utf8_lossy(&output.stderr).into_owned();
    // Where there is no `smaps`, nothing is known.
    let known = std::fs::read_to_string("/proc/self/smaps").is_ok_and(|text| text.contains("AnonHugePages:"));
    let given = |row: &Value| row["huge_pages_pct"].as_f64();
    assert!(small.iter().all(|row| given(row) == known.then_some(0.0)), "{small:?}");
    assert!(huge.iter().all(|row| given(row).is_some() == known), "{huge:?}");
    let is_whole = huge.iter().all(|row| given(row) == Some(100.0));
    assert_eq!(notes.contains("rows with huge pages had fewer"), !is_whole, "{notes}");

    let table = String::from_utf8(bench(&arguments).stdout).unwrap();
    assert!(table.contains(", small pages of ") && table.contains(", huge pages of "), "{table}");
    let column = |word: &str| table.lines().skip(3).filter(|line| line.contains(word)).count();
    assert_eq!(
        (table.lines().count(), column("huge") >= 3, column("small") >= 3),
        (9, true, true),
        "{table}"
    );
}

#[test]
#[cfg(not(target_os = "linux"))]
fn huge_pages_are_linuxs() {
    let output = bench(&["--pages", "huge"]);
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("huge pages can be asked of Linux only"), "{text}");
}

#[test]
fn comparators_have_no_split_layout() {
    let output = bench(&["--codec", "window7,zstd", "--layout", "split", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let codecs: Vec<&Value> = report["rows"].as_array().unwrap().iter().map(|row| &row["codec"]).collect();
    assert_eq!(codecs, ["window7"]);
    let notes = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(notes.contains("codec `zstd` does not code BF16 in layout split, left out"), "{notes}");
    assert_eq!(bench(&["--codec", "zstd", "--layout", "split"]).status.code(), Some(2), "nothing is left");
}

#[test]
fn mistakes_are_named() {
    for (arguments, expected) in [
        (["--codec", "raw,windw7"], "unknown codec `windw7`"),
        (["--layout", "dense"], "unknown layout `dense`; expected one of"),
        (["--pages", "large"], "unknown pages `large`; expected small or huge"),
        (["--threads", "0"], "0 is not in 1..=1024"),
        (["--threads", "100000"], "100000 is not in 1..=1024"),
    ] {
        let output = bench(&arguments);
        assert_eq!(output.status.code(), Some(2));
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn a_base_adds_codecs_of_differences() {
    let sample =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("traces/samples/train_late_weights.bf16.safetensors");
    let sample = sample.to_str().unwrap();
    let codecs = |arguments: &[&str]| {
        let output = bench(&[arguments, &["--json"]].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let row =
            |row: &Value| (row["codec"].as_str().unwrap().to_owned(), row["size_pct"].as_f64().unwrap());
        report["rows"].as_array().unwrap().iter().map(row).collect::<Vec<_>>()
    };
    let all = codecs(&["--base", sample]);
    // Nothing differs from itself.
    let deltas: Vec<&str> =
        all.iter().filter(|(_, size)| *size < 1.0).map(|(codec, _)| codec.as_str()).collect();
    assert_eq!(deltas, ["delta+rans", "delta+tiered", "delta+planes"]);
    assert!(all.iter().any(|(codec, _)| codec == "window7"), "{all:?}");
    assert_eq!(codecs(&["--base", sample, "--codec", "delta+rans"]).len(), 1);

    let refused = |arguments: &[&str], expected: &str| {
        let output = bench(arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && error.contains(expected), "{error}");
    };
    refused(&["--codec", "raw,delta+rans"], "`delta+rans` takes differences from a base, and there is none");
    let other = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces/samples/train_late_kv.bf16.safetensors");
    refused(&["--base", other.to_str().unwrap()], "has no tensor");
}
