//! `zipwire inspect` against statistics that were computed apart, and on tensors of every odd kind.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

fn inspect(file: &Path) -> Value {
    let output =
        Command::new(env!("CARGO_BIN_EXE_zipwire")).arg("inspect").arg(file).arg("--json").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice::<Value>(&output.stdout).unwrap()["files"][0].take()
}

fn tensor<'a>(report: &'a Value, name: &str) -> &'a Value {
    let tensors = report["tensors"].as_array().unwrap();
    tensors.iter().find(|tensor| tensor["name"] == name).unwrap()
}

/// The figures are those of NumPy on the same tensors, to the digits that were printed.
#[test]
fn statistics_are_those_of_an_independent_count() {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces/samples");
    let cases = [
        ("train_late_grads", [7.31e-4, 13.7, 4.15, 0.578, 0.939, 75.9, 75.7]),
        ("train_late_weights", [2.57e-2, 3.0, 2.54, 0.970, 1.0, 65.9, 65.5]),
    ];
    let keys = [
        "std",
        "kurtosis",
        "exponent_entropy_bits",
        "coverage_top7",
        "coverage_top16",
        "limit_exponent_pct",
        "limit_pct",
    ];
    let half_digits = [0.005, 0.05, 0.005, 0.0005, 0.0005, 0.051, 0.051];
    for (file, expected) in cases {
        let report = inspect(&samples.join(format!("{file}.bf16.safetensors")));
        let router = tensor(&report, "L2.ffn.router");
        assert_eq!(router["shape"], json!([16, 256]));
        for ((key, expected), half_digit) in keys.iter().zip(expected).zip(half_digits) {
            let got = router[*key].as_f64().unwrap();
            let scale = if *key == "std" { expected } else { 1.0 };
            assert!((got - expected).abs() <= half_digit * scale, "{file} {key}: {got}, expected {expected}");
        }
    }
    let idle = inspect(&samples.join("train_late_grads.bf16.safetensors"));
    let idle = tensor(&idle, "L2.ffn.w2.expert3|rows0:16");
    assert_eq!((&idle["zeros_pct"], &idle["kurtosis"]), (&json!(100.0), &Value::Null));
    assert!(idle["size_pct"]["window7"].as_f64().unwrap() < 1.0);
}

/// A safetensors file of these tensors.
fn safetensors(tensors: &[(&str, &str, Vec<usize>, Vec<u8>)]) -> Vec<u8> {
    let mut header = serde_json::Map::new();
    let mut data = Vec::new();
    for (name, dtype, shape, bytes) in tensors {
        let offsets = [data.len(), data.len() + bytes.len()];
        header.insert((*name).to_owned(), json!({ "dtype": dtype, "shape": shape, "data_offsets": offsets }));
        data.extend(bytes);
    }
    let header = serde_json::to_vec(&header).unwrap();
    [&(header.len() as u64).to_le_bytes()[..], &header, &data].concat()
}

#[test]
fn odd_tensors_are_reported_and_nothing_fails() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("odd.safetensors");
    let tensors = [
        ("empty", "BF16", vec![0, 4], vec![]),
        ("scalar", "F32", vec![], 2.5_f32.to_le_bytes().to_vec()),
        ("integers", "I64", vec![3], vec![0; 24]),
        ("booleans", "BOOL", vec![5], vec![1, 0, 1, 0, 1]),
        ("one", "F16", vec![1, 1], vec![0x00, 0x3c]),
        ("not-finite", "BF16", vec![3], vec![0xc0, 0x7f, 0x80, 0x7f, 0x00, 0x80]),
        ("eight-bits", "F8_E5M2", vec![4], vec![0x3c, 0xbc, 0x00, 0x80]),
    ];
    std::fs::write(&file, safetensors(&tensors)).unwrap();
    let report = inspect(&file);
    let remark = |name: &str| tensor(&report, name)["remarks"][0].as_str().unwrap().to_owned();
    assert_eq!(remark("empty"), "empty");
    assert_eq!(remark("integers"), "no codec for I64: stored as it is");
    assert_eq!(remark("booleans"), "no codec for BOOL: stored as it is");
    assert_eq!(remark("one"), "tiny: headers count");
    assert_eq!(tensor(&report, "scalar")["mean_abs"], json!(2.5));
    assert_eq!(tensor(&report, "one")["mean_abs"], json!(1.0));
    assert_eq!(tensor(&report, "eight-bits")["zeros_pct"], json!(50.0));
    let not_finite = tensor(&report, "not-finite");
    assert!((not_finite["not_finite_pct"].as_f64().unwrap() - 200.0 / 3.0).abs() < 1e-9);
    assert_eq!(not_finite["mean_abs"], json!(0.0));
    let dtypes: Vec<&str> =
        report["totals"].as_array().unwrap().iter().map(|total| total["dtype"].as_str().unwrap()).collect();
    assert_eq!(dtypes, ["F32", "F16", "BF16", "F8_E5M2"]);
}

/// Codecs are told how long rows are: columns of another scale cost less where they are columns.
#[test]
fn codecs_make_use_of_shapes() {
    // Values of one exponent in each column, of eight in all.
    let value = |i: usize| ((0x3f80 - 0x280 * (i % 8)) | (i * 37 % 128)) as u16;
    let values: Vec<u8> = (0..1 << 14).flat_map(|i| value(i).to_le_bytes()).collect();
    let tensors =
        [("matrix", "BF16", vec![1 << 11, 8], values.clone()), ("vector", "BF16", vec![1 << 14], values)];
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("columns.safetensors");
    std::fs::write(&file, safetensors(&tensors)).unwrap();
    let report = inspect(&file);
    let size = |name: &str| tensor(&report, name)["size_pct"]["tiered"].as_f64().unwrap();
    assert!(size("matrix") < 64.0 && size("vector") > 75.0, "{} {}", size("matrix"), size("vector"));
}

#[test]
fn repeated_rows_are_counted_and_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.safetensors");
    // Tokens of 512 values, of which every fourth is new.
    let row = |token: u32| {
        (0..1024_u32).map(move |i| (i.wrapping_mul(token + 1).wrapping_mul(0x9e37_79b1) >> 13) as u8)
    };
    let copies: Vec<u8> = (0..64).flat_map(|copy| row(copy / 4)).collect();
    let different: Vec<u8> = (0..64).flat_map(row).collect();
    let tensors = [
        ("copies", "BF16", vec![4, 16, 512], copies.clone()),
        ("different", "BF16", vec![64, 512], different),
        ("one-row", "BF16", vec![64 * 512], copies),
    ];
    std::fs::write(&file, safetensors(&tensors)).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_zipwire"))
        .args(["inspect", "--json", "--codec", "raw,dedup+raw,dedup:row=256+raw"])
        .arg(&file)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report = serde_json::from_slice::<Value>(&output.stdout).unwrap()["files"][0].take();
    let [copies, different, one_row] = ["copies", "different", "one-row"].map(|name| tensor(&report, name));
    assert_eq!(copies["repeated_rows_pct"], json!(75.0));
    assert_eq!(different["repeated_rows_pct"], json!(0.0));
    assert_eq!(one_row["repeated_rows_pct"], Value::Null, "nothing says how long a row is");
    let size = |tensor: &Value, codec: &str| tensor["size_pct"][codec].as_f64().unwrap();
    assert!((25.0..26.0).contains(&size(copies, "dedup+raw")), "{copies}");
    assert!(
        (25.0..26.0).contains(&size(one_row, "dedup:row=256+raw")),
        "half rows repeat as well: {one_row}"
    );
    for (tensor, codec) in [(different, "dedup+raw"), (one_row, "dedup+raw")] {
        assert_eq!(size(tensor, codec), size(tensor, "raw"));
    }
    let remarks = copies["remarks"].as_array().unwrap();
    assert!(remarks.contains(&json!("75.0 % of the rows repeat others")), "{remarks:?}");
}

#[test]
fn a_base_shows_what_differs_and_what_that_takes() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, tensors: &[(&str, &str, Vec<usize>, Vec<u8>)]| {
        let path = folder.path().join(name);
        std::fs::write(&path, safetensors(tensors)).unwrap();
        path
    };
    let before: Vec<u8> = (0..20_000u32)
        .flat_map(|i| (0x3c00 + (i.wrapping_mul(0x9e37_79b1) >> 24) as u16).to_le_bytes())
        .collect();
    let mut after = before.clone();
    after.iter_mut().step_by(20).for_each(|byte| *byte ^= 1);
    let shape = vec![100, 200];
    let old = file("old", &[("w", "BF16", shape.clone(), before.clone())]);
    let new = file("new", &[("w", "BF16", shape.clone(), after.clone())]);
    let inspect = |arguments: &[&str], file: &Path| {
        let program = Command::new(env!("CARGO_BIN_EXE_zipwire"))
            .arg("inspect")
            .args(arguments)
            .arg(file)
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&program.stderr).into_owned();
        (program.status.code(), error, program.stdout)
    };
    let base = old.to_str().unwrap();
    let (status, error, out) = inspect(&["--json", "--base", base], &new);
    assert_eq!(status, Some(0), "{error}");
    let report = serde_json::from_slice::<Value>(&out).unwrap();
    let tensor = &report["files"][0]["tensors"][0];
    assert_eq!(tensor["changed_pct"], json!(10.0));
    let size = |codec: &str| tensor["size_pct"][codec].as_f64().unwrap();
    // Positions take a byte for each value that differs, of which there is one in ten, and differences less.
    assert!(size("delta+rans") < 9.0 && size("delta+tiered") < 9.0 && size("rans") > 50.0, "{tensor}");
    let (_, _, out) = inspect(&["--base", base], &new);
    assert!(String::from_utf8_lossy(&out).contains("10.00 % of the values differ"));

    let (status, error, _) = inspect(&["--codec", "delta+rans"], &new);
    assert_eq!(status, Some(2));
    assert!(
        error.contains("`delta+rans` takes differences from a base, and there is none\nhelp: name it by"),
        "{error}"
    );
    let other = file("other", &[("v", "BF16", shape, after.clone())]);
    let (status, error, _) = inspect(&["--base", base], &other);
    assert!(status == Some(2) && error.contains("has no tensor `v`"), "{error}");
    for (dtype, shape) in [("F16", vec![100, 200]), ("BF16", vec![200, 100])] {
        let other = file("third", &[("w", dtype, shape, after.clone())]);
        let (status, error, _) = inspect(&["--base", base], &other);
        assert!(status == Some(2) && error.contains("tensor `w` is BF16 [100, 200] in base"), "{error}");
    }
}

#[test]
fn what_is_no_safetensors_file_is_refused_with_its_name() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let output = Command::new(env!("CARGO_BIN_EXE_zipwire")).arg("inspect").arg(&manifest).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        error.contains("is not a safetensors file") && error.contains("\nhelp: tensors are read"),
        "{error}"
    );
}

/// Output of `zipwire inspect` about a sample of weights with these arguments.
fn inspect_weights(arguments: &[&str]) -> std::process::Output {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces/samples");
    Command::new(env!("CARGO_BIN_EXE_zipwire"))
        .arg("inspect")
        .arg(samples.join("train_late_weights.bf16.safetensors"))
        .args(arguments)
        .output()
        .unwrap()
}

#[test]
fn what_is_chosen_is_said_with_what_the_others_would_take() {
    let output = inspect_weights(&["--codec", "raw,auto:link=1 GB/s,auto:goal=size", "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report = serde_json::from_slice::<Value>(&output.stdout).unwrap()["files"][0].take();
    let router = tensor(&report, "L2.ffn.router");
    let choices = router["choices"].as_array().unwrap();
    let asked: Vec<&Value> = choices.iter().map(|choice| &choice["codec"]).collect();
    assert_eq!(
        asked,
        ["auto", "auto:goal=size"],
        "`raw` chooses nothing, and a link of 1 GB/s is the default"
    );
    for (choice, has_link) in choices.iter().zip([true, false]) {
        let estimates = choice["estimates"].as_array().unwrap();
        let considered: Vec<&str> = estimates.iter().map(|each| each["codec"].as_str().unwrap()).collect();
        let for_size: &[&str] = if has_link { &[] } else { &["planes"] };
        assert_eq!(considered, [&["raw", "tiered", "rans"], for_size].concat());
        let number = |estimate: &Value, key: &str| estimate[key].as_f64().unwrap();
        let cost = |estimate: &Value| match has_link {
            true => ["encode_us", "transfer_us", "decode_us"].iter().map(|key| number(estimate, key)).sum(),
            false => number(estimate, "size_pct"),
        };
        let best = estimates.iter().min_by(|a, b| f64::total_cmp(&cost(a), &cost(b))).unwrap();
        assert_eq!(choice["chosen"], best["codec"]);
        for estimate in estimates {
            assert!(number(estimate, "encode_us") > 0.0 && number(estimate, "decode_us") > 0.0);
            // 16x256 values of two bytes over a link of a byte per nanosecond.
            let expected = if has_link { number(estimate, "size_pct") / 100.0 * 8.192 } else { 0.0 };
            assert!((number(estimate, "transfer_us") - expected).abs() < 1e-9, "{estimate}");
        }
        // So few values are coded by all, so the estimate is the size.
        let size = number(&router["size_pct"], choice["codec"].as_str().unwrap());
        assert!((size - number(best, "size_pct")).abs() < 1e-9, "{size} {best}");
    }
}

#[test]
fn speeds_come_from_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("costs.json");
    let path = path.to_str().unwrap();
    let row = |codec: &str, bytes_raw: u64, gbps: f64| {
        json!({ "codec": codec, "dtype": "BF16", "zeros_pct": 0.0, "bytes_raw": bytes_raw, "encode_gbps": gbps,
            "decode_gbps": gbps })
    };
    let inspect = |rows: &[Value]| {
        std::fs::write(path, json!({ "rows": rows }).to_string()).unwrap();
        let output = inspect_weights(&["--codec", "auto", "--json", "--costs", path]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let report = serde_json::from_slice::<Value>(&output.stdout).unwrap()["files"][0].take();
        tensor(&report, "L2.ffn.router")["choices"][0].clone()
    };
    // 100 bytes at 1 and 300 at 3 GB/s are 400 in 200 ns; nobody chooses `zstd`, nor a codec without a speed.
    let choice = inspect(&[row("tiered", 100, 1.0), row("tiered", 300, 3.0), row("zstd", 100, 1000.0)]);
    assert_eq!(choice["chosen"], "tiered");
    let estimates = choice["estimates"].as_array().unwrap();
    assert_eq!(estimates.len(), 1);
    assert!((estimates[0]["encode_us"].as_f64().unwrap() - 8.192 / 2.0).abs() < 1e-9, "{estimates:?}");
    let choice = inspect(&[row("raw", 100, 1000.0), row("tiered", 100, 0.001)]);
    assert_eq!(choice["chosen"], "raw", "coding would take longer than sending");

    // As it is measured.
    let sample = "traces/samples/train_late_weights.bf16.safetensors";
    let measured = Command::new(env!("CARGO_BIN_EXE_zipwire"))
        .args(["bench", "codec", "--codec", "raw,tiered,lz4", "--json", sample])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    std::fs::write(path, measured.stdout).unwrap();
    let output = inspect_weights(&["--codec", "auto", "--costs", path]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("considered") && text.contains("chosen"), "{text}");
    assert!(!text.contains("rans "), "it was not measured: {text}");
}

#[test]
fn a_file_without_speeds_is_refused_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("costs.json");
    let zstd = "{\"rows\": [{\"codec\": \"zstd\", \"dtype\": \"BF16\", \"zeros_pct\": 0, \"bytes_raw\": 1, \
        \"encode_gbps\": 1, \"decode_gbps\": 1}]}";
    for (text, reason) in [
        (None, ""),
        (Some("speed"), "expected value at line 1 column 1"),
        (Some("{}"), "missing field `rows`"),
        (Some("{\"rows\": [{\"codec\": \"raw\"}]}"), "missing field `dtype`"),
        (Some("{\"rows\": []}"), "no speed of a codec that can be chosen"),
        (Some(zstd), "no speed of a codec that can be chosen"),
    ] {
        if let Some(text) = text {
            std::fs::write(&path, text).unwrap();
        }
        let output = inspect_weights(&["--codec", "auto", "--costs", path.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(2), "{text:?}");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(error.contains(&format!("costs `{}`: {reason}", path.display())), "{error}");
        assert!(
            error.contains("\nhelp: speeds are read from what `zipwire bench codec --json` prints"),
            "{error}"
        );
    }
}

#[test]
fn a_mistyped_codec_is_suggested() {
    for (codec, meant) in [("windw7", "window7"), ("dedpu+raw", "dedup"), ("window7:scael=std", "scale")] {
        let output = Command::new(env!("CARGO_BIN_EXE_zipwire"))
            .args(["inspect", "--codec", codec, "Cargo.toml"])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2));
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains(&format!("\nhelp: did you mean `{meant}`?")), "{error}");
    }
}
