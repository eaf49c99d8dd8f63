//! Workload `serving` from the command line: simulated and on real ranks, its files, and what is said of what goes wrong.

use crate::common::process;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use process::{fails, names, succeeds, text, text_of, zipwire};
use serde_json::Value;
use tempfile::tempdir;

/// Two layers are enough of a model, and move little.
const LLAMA: &str = r#"workload.model={ preset = "llama3-8b", layers = 2 }"#;
const ONE_HEAD: &str = r#"workload.model={ preset = "llama3-8b", layers = 2, kv_heads = 1 }"#;
const PREFILL_ON_TWO: &str = r#"workload.prefill={ instances = 1, tensor_parallel = 2, kv_memory = "8 GB" }"#;
const DECODE_ON_TWO: &str = r#"workload.decode={ instances = 1, tensor_parallel = 2, kv_memory = "8 GB" }"#;
const DEEPSEEK: &str = r#"workload.model={ preset = "deepseek-v3", layers = 2, dense_layers = 2 }"#;

/// Each scenario of the folder, with what makes it small.
const SMALL: [(&str, &[&str]); 7] = [
    ("one-request", &[LLAMA, "workload.requests.0.input=700"]),
    ("poisson", &[LLAMA, "workload.arrivals.requests=5"]),
    // One head of keys and values, of which both ranks of an instance have a copy.
    ("poisson", &[ONE_HEAD, PREFILL_ON_TWO, DECODE_ON_TWO, "workload.arrivals.requests=5"]),
    ("azure", &[LLAMA, "workload.trace.requests=5"]),
    ("mooncake", &[LLAMA, "workload.trace.requests=2"]),
    ("mla", &[DEEPSEEK, "workload.arrivals.requests=2"]),
    ("fp8", &[LLAMA, "workload.arrivals.requests=2"]),
];

/// The arguments of a run of one of them.
fn args<'a>(scenario: &'a str, sets: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    let sets = sets.iter().flat_map(|set| ["--set", *set]);
    ["run", scenario].into_iter().chain(sets).chain(more.iter().copied()).collect()
}

fn path(scenario: &str) -> String {
    format!("scenarios/serving/{scenario}.toml")
}

fn summary(folder: &Path) -> Value {
    serde_json::from_slice(&fs::read(folder.join("summary.json")).unwrap()).unwrap()
}

/// Simulated and real ranks serve the same requests and move the same bytes of caches; all that is moved is compared.
#[test]
fn every_scenario_is_served_for_real() {
    for (scenario, sets) in SMALL {
        let folder = tempdir().unwrap();
        let file = path(scenario);
        succeeds(&args(&file, sets, &["--on", "sim,threads", "--out", text(folder.path())]));
        let summary = summary(folder.path());
        let on = |executor: &str| summary["executors"][executor].as_object().unwrap().clone();
        let (simulated, real) = (on("sim"), on("threads"));
        assert!(simulated.len() >= 3, "{scenario}");
        for (variant, simulated) in simulated {
            let (own, real) = (&simulated["requests"], &real[&variant]);
            assert_eq!(real["verified"], true, "{scenario} {variant}");
            let real = &real["requests"];
            for key in ["arrived", "finished", "failed", "in_flight", "kv_bytes_raw"] {
                assert_eq!(own[key], real[key], "{scenario} {variant}: {key}");
            }
            assert_eq!(own["arrived"], own["finished"], "{scenario} {variant}");
            // The simulated size is a mean of drawn groups, and real ones are drawn anew.
            let [simulated, real] = [own, real].map(|of| of["kv_bytes_wire"].as_f64().unwrap());
            assert!((real / simulated - 1.0).abs() < 0.01, "{scenario} {variant}: {real} {simulated}");
        }
        let files = names(folder.path());
        for file in ["requests.csv", "sim-native.trace.json", "threads-native.requests.trace.json"] {
            assert!(files.iter().any(|name| name == file), "{scenario}: {files:?}");
        }
    }
}

#[test]
fn the_same_scenario_gives_the_same_bytes() {
    let run = |threads: &str| {
        let folder = tempdir().unwrap();
        let file = path("poisson");
        let sets = ["workload.arrivals.requests=300"];
        let done = zipwire(&args(&file, &sets, &["--out", text(folder.path())]))
            .env("RAYON_NUM_THREADS", threads)
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", text_of(&done.stderr));
        ["summary.json", "requests.csv", "sim-tiered.trace.json"]
            .map(|name| fs::read(folder.path().join(name)).unwrap())
    };
    assert!(run("1") == run("3"));
}

#[test]
fn requests_have_a_row_and_a_track_each() {
    let folder = tempdir().unwrap();
    let file = path("poisson");
    // All at once, so that the last one waits.
    let sets = [
        r#"workload.arrivals={ every = "0 s", requests = 40, input = 2000, output = 8 }"#,
        r#"workload.cancelled=[{ request = 39, at = "10 ms" }]"#,
    ];
    succeeds(&args(&file, &sets, &["--out", text(folder.path())]));
    let csv = fs::read_to_string(folder.path().join("requests.csv")).unwrap();
    assert_eq!(csv.lines().count(), 41);
    let cancelled: Vec<&str> = csv.lines().filter(|line| line.ends_with(",cancelled")).collect();
    assert!(cancelled.len() == 1 && cancelled[0].starts_with("39,"), "{cancelled:?}");
    let requests = &summary(folder.path())["executors"]["sim"]["native"]["requests"];
    assert_eq!((&requests["finished"], &requests["failed"]), (&39.into(), &1.into()));
    let tracks = fs::read(folder.path().join("sim-native.requests.trace.json")).unwrap();
    let tracks: Value = serde_json::from_slice(&tracks).unwrap();
    let events = tracks["traceEvents"].as_array().unwrap();
    let phases = events.iter().filter(|event| event["ph"] == "X" && event["name"] == "prefill").count();
    assert_eq!(phases, 39);
}

/// Requests of a lost instance fail with a message, on real and on simulated ranks, and all others are served.
#[test]
fn requests_of_a_lost_instance_fail_and_others_do_not() {
    let folder = tempdir().unwrap();
    let file = path("paced");
    let sets = [LLAMA, r#"workload.lost=[{ prefill = 0, at = "0 s" }]"#];
    let more = ["--on", "sim,threads", "--variant", "tiered", "--out", text(folder.path())];
    let done = succeeds(&args(&file, &sets, &more));
    let said = text_of(&done.stderr);
    assert!(said.contains("threads: prefill instance 0 is gone: rank 0 said nothing any more"), "{said}");
    for executor in ["sim", "threads"] {
        let requests = &summary(folder.path())["executors"][executor]["tiered"]["requests"];
        let [finished, failed] = ["finished", "failed"].map(|key| requests[key].as_u64().unwrap());
        assert!(finished + failed == 20 && finished > 0, "{executor}: {requests}");
    }
}

#[test]
fn an_overload_is_said() {
    let file = path("poisson");
    let folder = tempdir().unwrap();
    let sets = [r#"workload.arrivals.poisson="200 /s""#, "workload.arrivals.requests=300"];
    let done = succeeds(&args(&file, &sets, &["--variant", "native", "--out", text(folder.path())]));
    let said = text_of(&done.stdout);
    assert!(
        said.contains("overload: with `native`") && said.contains("faster than they are served"),
        "{said}"
    );
    assert_eq!(summary(folder.path())["executors"]["sim"]["native"]["requests"]["is_overloaded"], true);
}

#[test]
fn a_sweep_finds_the_knee() {
    let folder = tempdir().unwrap();
    let sets = ["workload.arrivals.requests=100"];
    let done = succeeds(&args("scenarios/sweeps/serving-rate.toml", &sets, &["--out", text(folder.path())]));
    let said = text_of(&done.stdout);
    assert!(said.contains("up to which 90 % of the requests are served as promised"), "{said}");
    let csv = fs::read_to_string(folder.path().join("sweep.csv")).unwrap();
    assert!(csv.lines().next().unwrap().contains("ttft_p99_s") && csv.lines().count() == 21, "{csv}");
}

#[test]
fn what_cannot_be_served_is_an_error() {
    let file = path("one-request");
    fails(
        2,
        &args(&file, &["workload.requests.0.input=0"], &[]),
        &["`workload.requests.0.input` is out of range"],
    );
    fails(2, &args(&file, &["workload.slo.ttft=0 s"], &[]), &["more than 0 s"]);
    fails(2, &["plan", &file], &["serving has no plan"]);
    fails(2, &args(&file, &[], &["--ranks"]), &["`--ranks` has no effect"]);
    let checked = text_of(&succeeds(&["scenario", "check", &path("poisson")]).stdout);
    assert!(
        checked.contains("2000 requests in") && checked.contains("prefill instances are asked for"),
        "{checked}"
    );
}

/// A run that is stopped ends soon and leaves no half-written result.
#[cfg(unix)]
#[test]
fn ctrl_c_ends_real_ranks() {
    let folder = tempdir().unwrap();
    let out = folder.path().join("out");
    let file = path("one-request");
    let sets = [
        "workload.requests.0.input=200000",
        r#"workload.decode.kv_memory="1 TB""#,
        r#"workload.prefill.kv_memory="1 TB""#,
    ];
    let mut child =
        zipwire(&args(&file, &sets, &["--on", "threads", "--variant", "tiered", "--out", text(&out)]))
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let begin = Instant::now();
    let status = child.wait().unwrap();
    assert!(begin.elapsed() < Duration::from_secs(10), "it took {:?}", begin.elapsed());
    assert!(!status.success());
    assert!(!out.join("summary.json").exists());
}
