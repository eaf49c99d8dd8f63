//! `tools/gpu/bench`, played below the emulation: whole, and with a fault in one codec, behind which everything else is measured.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Results of a run.
struct Played {
    code: Option<i32>,
    lines: Vec<Value>,
    page: String,
    digest: String,
}

impl Played {
    fn status(&self, step: &str) -> &str {
        let line = self.lines.iter().find(|line| line["step"] == step);
        line.unwrap_or_else(|| panic!("no step {step}: {}", self.digest))["status"].as_str().unwrap()
    }

    /// Rows of a step that were measured.
    fn rows(&self, step: &str) -> usize {
        let line = self.lines.iter().find(|line| line["step"] == step).unwrap();
        line["results"].as_array().unwrap().iter().filter(|result| result["kind"] == "row").count()
    }
}

fn play(folder: &Path, arguments: &[&str]) -> Played {
    let (out, root) = (folder.join("out"), Path::new(env!("CARGO_MANIFEST_DIR")));
    let mut command = Command::new("python3");
    command.arg(root.join("tools/gpu/bench")).arg("--emulated").arg("--out").arg(&out);
    command.arg("--work").arg(folder.join("work")).args(arguments);
    let output = command.env("ZIPWIRE", env!("CARGO_BIN_EXE_zipwire")).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!said.contains("Traceback"), "{said}");
    let digest = text.split_once("\n\n").expect("the digest is behind an empty line").1.to_owned();
    assert!(digest.chars().count() < 8000, "{}", digest.len());
    assert!(fs::read_dir(&out).unwrap().count() <= 8);
    let page = fs::read_to_string(out.join("gpu.md")).unwrap();
    let lines = fs::read_to_string(out.join("gpu.jsonl")).unwrap();
    let lines = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    Played { code: output.status.code(), lines, page, digest }
}

pub(crate) fn plays_every_step() {
    let folder = tempfile::tempdir().unwrap();
    let played = play(folder.path(), &["--codecs", "window7,rans", "--budget", "400"]);
    assert_eq!(played.code, Some(0), "{}", played.page);
    let own = [
        "facts",
        "copy",
        "parity:window7",
        "speed:rans",
        "small:window7",
        "executor:reduce-scatter-window7-8",
    ];
    for step in own.into_iter().chain(["waits:default", "waits:1", "waits:32", "compact:rans", "held"]) {
        assert_eq!(played.status(step), "ok", "{step}: {}", played.page);
    }
    for step in ["nccl-run:all-to-all", "nccl-run:all-gather", "nccl-run:timed", "nccl-processes"] {
        assert_eq!(played.status(step), "ok", "{step}: {}", played.page);
    }
    // The library in front of NCCL lies beside the program only where its crate has been built.
    let front = Path::new(env!("CARGO_BIN_EXE_zipwire")).with_file_name("libzipwire_nccl.so");
    for step in ["shim:none", "shim:off", "shim:stats", "shim:sync"] {
        let expected = if front.is_file() { "ok" } else { "absent" };
        assert_eq!(played.status(step), expected, "{step}: {}", played.page);
    }
    let takes_gpu = ["nccl", "nccl-shim:stats", "nccl-shim:sync", "rivals:splitzip", "rivals:dfloat11"];
    for step in takes_gpu.into_iter().chain(["rivals:nvcomp", "profile:rans"]) {
        assert_eq!(played.status(step), "absent");
        assert!(played.page.contains(&format!("- {step}: absent: takes a GPU")), "{}", played.page);
    }
    assert_eq!((played.rows("speed:window7"), played.rows("small:rans")), (2, 2));
    let parts = [
        "Emulated on a CPU",
        "## Executors",
        "| cuda | all-to-all | window7 | 8 | static-first |",
        "| nccl | all-gather | window7 | 2 | static-first |",
        "| nccl, 2 processes | all-to-all | window7 | 2 | size-first |",
        "| alltoall | nccl | ncclAlltoAll | 65536 |",
        "| all_gather | static-first |",
        "## Held model",
    ];
    for part in parts {
        assert!(played.page.contains(part), "{part}: {}", played.page);
    }
    // What is predicted over NCCL has the speed of its wire from `native`, of which nothing is predicted.
    let results = played.lines.iter().filter_map(|line| line["results"].as_array()).flatten();
    for result in results.filter(|result| result["kind"] == "collective") {
        let is_predicted = result["on"] != "nccl" || result["variant"] != "native";
        assert_eq!((result["predicted_s"].is_number(), &result["verified"]), (is_predicted, &true.into()));
    }
    // What has ended well is not run again.
    let resumed = folder.path().join("earlier.jsonl");
    fs::rename(folder.path().join("out/gpu.jsonl"), &resumed).unwrap();
    let lines = played.lines.len();
    let played = play(folder.path(), &["--codecs", "window7,rans", "--resume", resumed.to_str().unwrap()]);
    assert_eq!((played.code, played.lines.len()), (Some(0), lines));
}

/// Steps that are played with each fault.
const STEPS: &str = "parity,speed,small,compact,executor:all-to-all-window7-2";

/// Fault, steps that fail, steps that are measured nevertheless, and words by which the page names it.
const FAULTS: &[(&str, &[&str], &[&str], &str)] = &[
    (
        "hang",
        &["parity:window7"],
        &["speed:window7", "small:window7", "executor:all-to-all-window7-2"],
        "BF16 compact by itself: time: killed after",
    ),
    (
        "wrong",
        &["parity:window7", "small:window7", "compact:window7"],
        &["speed:window7", "executor:all-to-all-window7-2"],
        "window7 BF16 compact 2 bytes: byte 16 of the frame is not what the CPU writes; 36 of 36",
    ),
    (
        "driver-error",
        &["parity:window7", "small:window7", "compact:window7"],
        &["speed:window7", "executor:all-to-all-window7-2"],
        "CUDA_ERROR_ILLEGAL_ADDRESS",
    ),
    (
        "memory",
        &["speed:window7", "compact:window7"],
        &["parity:window7", "small:window7", "executor:all-to-all-window7-2"],
        "524288 bytes: `cuMemAlloc` failed on the GPU: DriverError(CUDA_ERROR_OUT_OF_MEMORY",
    ),
    (
        "cache",
        &[],
        &[
            "parity:window7",
            "speed:window7",
            "small:window7",
            "compact:window7",
            "executor:all-to-all-window7-2",
        ],
        "kernel cache: window7-bf16-sm_90-",
    ),
];

pub(crate) fn measures_all_else_beside_a_fault() {
    std::thread::scope(|scope| {
        for &(fault, failed, measured, named) in FAULTS {
            scope.spawn(move || {
                let folder = tempfile::tempdir().unwrap();
                // Only a hang lasts that long.
                let limits = ["--limit", if fault == "hang" { "12" } else { "60" }];
                let fixed = ["--fault", fault, "--only", STEPS, "--codecs", "window7"];
                let played = play(folder.path(), &[&fixed[..], &limits[..]].concat());
                assert_eq!(played.code, Some(i32::from(!failed.is_empty())), "{fault}: {}", played.page);
                for step in failed {
                    assert_ne!(played.status(step), "ok", "{fault}: {step}");
                }
                for step in measured {
                    assert_eq!(played.status(step), "ok", "{fault}: {step}: {}", played.page);
                }
                for step in ["speed:window7", "small:window7"] {
                    assert!(played.rows(step) > 0, "{fault}: {}", played.page);
                }
                assert!(
                    played.page.contains(named) && played.digest.contains(named),
                    "{fault}: {}",
                    played.page
                );
            });
        }
    });
}
