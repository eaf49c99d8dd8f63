//! The command line as a user meets it: files, tables, profiles, validations, and what remains when a run does not end well.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;
use zipwire::codec::{SimdLevel, Spec, simd_levels};

use crate::common::process;

use process::{names, output, summary, text_of, zipwire};

#[test]
fn a_run_writes_summary_and_timelines() {
    let folder = TempDir::new().unwrap();
    let bytes = summary("moe-dirichlet-2x2", folder.path(), &["--on", "sim,threads"], "2");
    let summary: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(summary["scenario"], "smoke-moe-dirichlet-2x2");
    let executors = summary["executors"].as_object().unwrap();
    assert_eq!(executors.keys().collect::<Vec<_>>(), ["sim", "threads"]);
    let mut files = [".zipwire.json", "run.json", "summary.json"].map(str::to_owned).to_vec();
    for (executor, variants) in executors {
        for (variant, result) in variants.as_object().unwrap() {
            files.push(format!("{executor}-{variant}.trace.json"));
            assert_eq!(result["verified"], if executor == "sim" { Value::Null } else { Value::Bool(true) });
            assert_eq!(result["speedup"].is_null(), executor == "threads", "unpaced threads have no speedup");
            assert_eq!(result["plan_digest"], summary["executors"]["sim"][variant]["plan_digest"]);
            assert_eq!(result["bytes_wire"], summary["executors"]["sim"][variant]["bytes_wire"]);
        }
    }
    files.sort();
    assert_eq!(names(folder.path()), files, "and nothing else");
}

#[test]
fn json_on_stdout_is_the_summary() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().to_str().unwrap();
    let run = output(&["run", "scenarios/smoke/moe-pair-1x2.toml", "--out", path, "--json"]);
    assert_eq!(run.stdout, fs::read(folder.path().join("summary.json")).unwrap());
}

/// Two tables that differ in their times must not look alike otherwise.
#[test]
fn a_table_names_topology_and_model_where_they_are_not_the_default() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().to_str().unwrap();
    let scenario = "scenarios/validate/fat-tree-4x2.toml";
    let first_line = |args: &[&str]| {
        let run = output(&[&["run", scenario, "--out", path], args].concat());
        String::from_utf8(run.stdout).unwrap().lines().next().unwrap().to_owned()
    };
    let cluster = "validate-fat-tree-4x2: 4 nodes x 2 GPUs";
    assert_eq!(first_line(&["--set", "cluster.topology=nodes"]), format!("{cluster}, seed 3, simulated"));
    for topology in ["flat", "rail"] {
        let line = first_line(&["--set", &format!("cluster.topology={topology}")]);
        assert_eq!(line, format!("{cluster}, {topology}, seed 3, simulated"));
    }
    let line = first_line(&["--set", "cluster.model=ports"]);
    assert_eq!(line, format!("{cluster}, fat-tree, model ports, seed 3, simulated"));
    let line = first_line(&["--set", "cluster.start=barrier"]);
    assert_eq!(line, format!("{cluster}, fat-tree, start barrier, seed 3, simulated"));
}

#[test]
fn simulation_is_deterministic() {
    let folder = TempDir::new().unwrap();
    for scenario in ["moe-matrix-1x8", "moe-dirichlet-2x2"] {
        let first = summary(scenario, &folder.path().join("a"), &[], "1");
        assert_eq!(first, summary(scenario, &folder.path().join("b"), &[], "1"), "twice");
        assert_eq!(first, summary(scenario, &folder.path().join("c"), &[], "4"), "on four threads");
        assert_ne!(
            first,
            summary(scenario, &folder.path().join("d"), &["--seed", "12345"], "1"),
            "another seed"
        );
    }
}

/// The golden numbers hold on every machine and for every target CPU: `.ci/run` repeats this test with
/// `-C target-cpu=native`.
#[test]
fn simulation_gives_the_golden_numbers() {
    for scenario in ["moe-dirichlet-2x2", "moe-zipf-1x4", "all-to-all-sparse-2x3"] {
        let folder = TempDir::new().unwrap();
        let bytes = summary(scenario, folder.path(), &[], "2");
        insta::assert_snapshot!(scenario, text_of(&bytes));
    }
}

#[test]
fn collective_calls_on_timed_executors_have_bandwidths() {
    let folder = TempDir::new().unwrap();
    let scenario = "scenarios/smoke/all-to-all-equal-2x4.toml";
    let args = ["run", scenario, "--on", "sim,threads", "--out", folder.path().to_str().unwrap()];
    let run = output(&args);
    let table = text_of(&run.stdout);
    assert!(table.contains("algbw") && table.contains("effective busbw"), "{table}");
    let all: Value = serde_json::from_slice(&fs::read(folder.path().join("summary.json")).unwrap()).unwrap();
    let coded = &all["executors"]["sim"]["size-first"];
    let [algbw, busbw, effective] =
        ["algbw_gbps", "busbw_gbps", "effective_busbw_gbps"].map(|key| coded[key].as_f64().unwrap());
    // Eight ranks with 96 KiB each.
    let expected = 98_304.0 / coded["iteration_s"]["mean"].as_f64().unwrap() / 1e9;
    assert!((algbw / expected - 1.0).abs() < 1e-12 && (effective / algbw - 7.0 / 8.0).abs() < 1e-12);
    assert!((effective / busbw / coded["ratio"].as_f64().unwrap() - 1.0).abs() < 1e-12);
    assert!(all["executors"]["threads"]["size-first"].get("algbw_gbps").is_none());
    let other: Value = serde_json::from_slice(&summary("moe-pair-1x2", folder.path(), &[], "1")).unwrap();
    assert!(other["executors"]["sim"]["native"].get("algbw_gbps").is_none());
}

#[test]
fn explicit_transfers_write_their_times() {
    let folder = TempDir::new().unwrap();
    summary("transfers-burst-2x2", folder.path(), &[], "1");
    let csv = fs::read_to_string(folder.path().join("transfers.csv")).unwrap();
    insta::assert_snapshot!("transfers-burst-2x2.csv", csv);
}

/// In a chain only sends wait for one another: a flow that starts late does not hold back what others send.
#[test]
fn a_late_flow_of_a_chain_holds_back_no_other_sender() {
    let folder = TempDir::new().unwrap();
    let scenario = folder.path().join("chain.toml");
    let text = r#"
        name = "chain"
        cluster = { nodes = 1, gpus_per_node = 3, gpu_bandwidth = "1 GB/s", latency_intra = "0 us" }
        [workload]
        kind = "transfers"
        order = "chain"
        flows = [
            { src = 1, dst = 0, bytes = "1 KB", start = "1 ms" },
            { src = 2, dst = 0, bytes = "1 KB" },
        ]
    "#;
    fs::write(&scenario, text).unwrap();
    let out = folder.path().join("out");
    let run = output(&["run", scenario.to_str().unwrap(), "--out", out.to_str().unwrap()]);
    assert!(run.status.success(), "{}", text_of(&run.stderr));
    let csv = fs::read_to_string(out.join("transfers.csv")).unwrap();
    assert_eq!(csv, "src,dst,bytes,start_s,finish_s\n1,0,1000,0.001,0.001001\n2,0,1000,0.0,1e-6\n");
}

#[test]
fn the_first_variant_is_the_baseline_even_when_it_does_not_run() {
    let folder = TempDir::new().unwrap();
    let all: Value = serde_json::from_slice(&summary("moe-dirichlet-2x2", folder.path(), &[], "1")).unwrap();
    let variants = all["executors"]["sim"].as_object().unwrap();
    let last = variants.keys().next_back().unwrap().clone();
    assert!(variants[&last]["speedup"].is_f64());
    let only = summary("moe-dirichlet-2x2", folder.path(), &["--variant", &last], "1");
    let only: Value = serde_json::from_slice(&only).unwrap();
    assert_eq!(only["executors"]["sim"][&last]["speedup"], Value::Null);
    assert_eq!(only["executors"]["sim"].as_object().unwrap().len(), 1);
}

#[cfg(unix)]
#[test]
fn ctrl_c_leaves_nothing_behind() {
    use std::time::{Duration, Instant};

    for executor in ["sim", "threads"] {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("out");
        let profile = folder.path().join("profile.json");
        let args = ["run", "scenarios/quickstart.toml", "--on", executor, "--set", "iterations=5000"];
        let files = ["--out", path.to_str().unwrap(), "--profile", profile.to_str().unwrap()];
        let mut run = zipwire(&args).args(files).spawn().unwrap();
        // The output folder appears before the work begins.
        let begin = Instant::now();
        while !path.exists() && begin.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(path.exists(), "{executor}: the run has begun");
        std::thread::sleep(Duration::from_millis(300));
        let killed = Command::new("kill").args(["-INT", &run.id().to_string()]).status().unwrap();
        assert!(killed.success());
        let status = run.wait().unwrap();
        assert_eq!(status.code(), Some(130), "{executor}");
        assert_eq!(names(folder.path()), ["profile.json"], "{executor}: and what it did until then");
        assert!(spans_of(&profile).contains("variant"), "{executor}");
    }
}

/// Names of the spans in a profile, whose begins and ends are paired on every thread.
fn spans_of(profile: &Path) -> BTreeSet<String> {
    let entries: Vec<Value> = serde_json::from_slice(&fs::read(profile).unwrap()).unwrap();
    let mut open: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    let mut names = BTreeSet::new();
    for entry in entries {
        let (name, thread) = (entry["name"].as_str().unwrap().to_owned(), entry["tid"].as_u64().unwrap());
        match entry["ph"].as_str().unwrap() {
            "B" => {
                names.insert(name.clone());
                open.entry(thread).or_default().push(name);
            }
            "E" => assert_eq!(open.get_mut(&thread).and_then(Vec::pop), Some(name)),
            other => assert_eq!((other, name.as_str()), ("M", "thread_name")),
        }
    }
    assert!(open.values().all(Vec::is_empty), "{open:?}");
    names
}

#[test]
fn a_profile_shows_what_the_program_did() {
    let folder = TempDir::new().unwrap();
    let profile = folder.path().join("profile.json");
    let path = profile.to_str().unwrap();
    summary(
        "moe-dirichlet-2x2",
        &folder.path().join("out"),
        &["--on", "sim,threads", "--profile", path],
        "2",
    );
    let run = [
        "command",
        "critical path",
        "load scenario",
        "plan",
        "check plan",
        "variant",
        "measure frame sizes",
        "measure frames of a rank",
        "simulate",
        "run",
        "prepare",
        "fill",
        "wait for a core",
        "encode",
        "copy",
        "decode",
        "check",
        "metrics",
        "write timeline",
    ];
    assert_eq!(spans_of(&profile), BTreeSet::from(run.map(str::to_owned)));
    assert_eq!(names(folder.path()), ["out", "profile.json"]);

    let checked = output(&["scenario", "check", "scenarios/none.toml", "--profile", path]);
    assert_eq!(checked.status.code(), Some(2), "{}", text_of(&checked.stderr));
    let failed = ["command", "load scenario"].map(str::to_owned);
    assert_eq!(spans_of(&profile), BTreeSet::from(failed), "a command that fails is profiled, too");

    let args = ["scenarios/smoke/all-to-all-late-1x4.toml", "--variant", "native", "--set", "iterations=1"];
    let validated = zipwire(&["validate", "--profile", path]).args(args).output().unwrap();
    assert!(validated.status.success(), "{}", text_of(&validated.stderr));
    assert!(spans_of(&profile).contains("pace"));
}

#[test]
fn a_profile_that_cannot_be_written_is_bad_usage() {
    let folder = TempDir::new().unwrap();
    let [file, out] = ["file", "out"].map(|name| folder.path().join(name));
    fs::write(&file, "kept").unwrap();
    for bad in [file.join("profile.json"), folder.path().to_owned()] {
        let args = ["run", "scenarios/smoke/moe-pair-1x2.toml", "--out", out.to_str().unwrap(), "--profile"];
        let run = zipwire(&args).arg(&bad).output().unwrap();
        assert_eq!(run.status.code(), Some(2));
        let error = text_of(&run.stderr);
        assert!(error.contains("cannot write profile") && error.contains("help: "), "{error}");
        assert_eq!(names(folder.path()), ["file"], "nothing has run");
    }
}

/// Scenarios and samples are in the program: it needs no repository around it.
#[test]
fn the_program_carries_its_scenarios() {
    let folder = TempDir::new().unwrap();
    let elsewhere = |args: &[&str]| {
        let run = zipwire(args).current_dir(folder.path()).output().unwrap();
        (run.status.code(), text_of(&run.stdout), text_of(&run.stderr))
    };
    let listed: Value = serde_json::from_str(&elsewhere(&["scenario", "list", "--json"]).1).unwrap();
    let entries = listed.as_array().unwrap();
    assert!(entries.iter().any(|entry| entry["file"] == "scenarios/quickstart.toml"));
    for entry in entries {
        assert!(entry["error"].is_null() && entry["description"].is_string(), "{entry}");
        assert!(
            Path::new(env!("CARGO_MANIFEST_DIR")).join(entry["file"].as_str().unwrap()).exists(),
            "{entry}"
        );
    }
    let own = text_of(&output(&["reproduce", "zipnn", "--scenarios", "scenarios/paper", "--json"]).stdout);
    assert_eq!(elsewhere(&["reproduce", "zipnn", "--json"]).1, own);
    let unpacked = elsewhere(&["scenario", "unpack", "mine"]);
    assert_eq!(unpacked.0, Some(0), "{}", unpacked.2);
    assert_eq!(
        elsewhere(&["scenario", "check", "mine/scenarios/quickstart.toml"]).0,
        Some(0),
        "with its payload"
    );
    let again = elsewhere(&["scenario", "unpack", "mine"]);
    assert_eq!(again.0, Some(2));
    assert!(again.2.starts_with("error: folder `mine` is not empty\nhelp: "), "{}", again.2);
}

#[test]
fn scenarios_are_checked() {
    let check = output(&["scenario", "check", "scenarios/quickstart.toml", "--json"]);
    let check: Value = serde_json::from_slice(&check.stdout).unwrap();
    assert_eq!((&check["ranks"], &check["seed"]), (&Value::from(16), &Value::from(7)));
    let buffers =
        check["variants"].as_array().unwrap().iter().map(|v| v["buffer_bytes"].as_u64().unwrap()).max();
    assert!(buffers.unwrap() < 2 << 30, "a real run fits into 2 GiB");
    let estimate = &check["variants"][0]["estimate"];
    assert_eq!((&estimate["ranks"], &estimate["whole_because"]), (&Value::from(16), &Value::Null));
    let run = output(&["scenario", "check", "scenarios/quickstart.toml"]);
    assert!(text_of(&run.stdout).contains("one simulation"), "{}", text_of(&run.stdout));
}

#[test]
fn large_scenarios_are_checked_without_plans() {
    let check = |sets: &[&str]| {
        let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
        let output = output(
            &[&["scenario", "check", "scenarios/training/experts-65536.toml", "--json"], &sets[..]].concat(),
        );
        assert!(output.status.success(), "{}", text_of(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let folded = check(&[]);
    let coded = &folded["variants"][1];
    assert_eq!((&coded["plan_digest"], &coded["buffer_bytes"]), (&Value::Null, &Value::Null));
    assert_eq!((&coded["ranks_alike"], &coded["estimate"]["ranks"]), (&Value::from(4096), &Value::from(16)));
    let spans = |check: &Value| check["variants"][1]["estimate"]["spans"].as_u64().unwrap();
    // Twice the micro-batches are about twice the spans.
    let double = check(&["workload.micro_batches=128"]);
    assert_eq!(folded["traffic"][0]["segment"], double["traffic"][0]["segment"]);
    let ratio = spans(&double) as f64 / spans(&folded) as f64;
    assert!((1.8..2.0).contains(&ratio), "{ratio}");
}

#[test]
fn a_check_says_why_all_ranks_are_simulated_and_what_does_not_fit() {
    let args = ["scenario", "check", "scenarios/smoke/moe-zipf-1x4.toml", "--variant", "native"];
    let sets = ["--set", "cluster={ preset = 'h100-8x', nodes = 16 }", "--set", "workload.model.experts=128"];
    let whole = output(&[&args[..], &sets].concat());
    let notes = text_of(&whole.stderr);
    assert!(whole.status.success(), "{notes}");
    assert!(notes.contains("note: all 128 ranks are simulated, in `native` because they"), "{notes}");
    let refused = output(&[&args[..], &sets, &["--memory", "1 MB"]].concat());
    assert_eq!(refused.status.code(), Some(2));
    let message = text_of(&refused.stderr);
    assert!(message.contains("`--memory` allows 1.00 MB"), "{message}");
    assert!(text_of(&refused.stdout).contains("one simulation"), "what it would take is told all the same");
}

#[test]
fn what_each_rank_does_is_told() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().to_str().unwrap();
    let scenario = "scenarios/smoke/moe-zipf-1x4.toml";
    let run = |args: &[&str]| {
        let output = output(&[&["run", scenario, "--out", path, "--on", "sim,threads"], args].concat());
        assert!(output.status.success(), "{}", text_of(&output.stderr));
        text_of(&output.stdout)
    };
    let (plain, told) = (run(&[]), run(&["--ranks"]));
    let rows = |text: &str| text.lines().filter(|line| line.starts_with("sim ")).count();
    assert_eq!((rows(&plain), rows(&told)), (0, 3 * 4 + 3), "{told}");
    assert!(told.contains("waiting max/mean") && told.contains("\nthreads   native"), "{told}");
    // Times of threads differ from run to run; the title does not.
    assert_eq!(plain.lines().next(), told.lines().next());

    let summary: Value =
        serde_json::from_slice(&fs::read(folder.path().join("summary.json")).unwrap()).unwrap();
    for (executor, variants) in summary["executors"].as_object().unwrap() {
        for (variant, result) in variants.as_object().unwrap() {
            let context = format!("{variant} on {executor}");
            let waits: Vec<f64> =
                result["wait_s_by_rank"].as_array().unwrap().iter().map(|s| s.as_f64().unwrap()).collect();
            let mean = waits.iter().sum::<f64>() / 4.0;
            assert_eq!(waits.len(), 4, "{context}");
            assert!((mean / result["wait_s"].as_f64().unwrap() - 1.0).abs() < 1e-9, "{context}");
            let most = waits.iter().copied().fold(0.0, f64::max);
            let imbalance = &result["imbalance"];
            assert!((imbalance["wait"]["max_over_mean"].as_f64().unwrap() - most / mean).abs() < 1e-9);
            // Bytes are those of the plan, wherever it runs.
            assert_eq!(
                imbalance["received"], summary["executors"]["sim"][variant]["imbalance"]["received"],
                "{context}"
            );
        }
    }
    // What the dispatch brings unevenly, the combine sends unevenly.
    let check = output(&["scenario", "check", scenario, "--json"]);
    let check: Value = serde_json::from_slice(&check.stdout).unwrap();
    let [dispatch, combine] = [0, 1].map(|call| &check["traffic"][call]);
    assert_eq!(dispatch["received_gini"], combine["sent_gini"]);
    assert_eq!(dispatch["sent_gini"], combine["received_gini"]);
    assert!(dispatch["received_gini"].as_f64().unwrap() > combine["received_gini"].as_f64().unwrap());
    let refused = output(&["run", scenario, "--out", path, "--ranks", "--json"]);
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn presets_are_listed_and_printed() {
    let listed = output(&["scenario", "presets", "--json"]);
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let rack = listed.as_array().unwrap().iter().find(|entry| entry["preset"] == "gb200-nvl72").unwrap();
    assert_eq!((&rack["gpus_per_node"], &rack["gpu_bytes_per_s"]), (&Value::from(72), &Value::from(900e9)));
    let table = text_of(&output(&["scenario", "presets"]).stdout);
    for preset in listed.as_array().unwrap().iter().map(|entry| entry["preset"].as_str().unwrap()) {
        assert!(table.lines().any(|line| line.starts_with(preset)), "{preset}: {table}");
    }
    let printed = output(&["scenario", "presets", "h100-8x"]);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/clusters/h100-8x.toml");
    assert_eq!(text_of(&printed.stdout), fs::read_to_string(file).unwrap());
    let unknown = output(&["scenario", "presets", "h1000"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text_of(&unknown.stderr).contains("`gb200-nvl72`"), "{}", text_of(&unknown.stderr));
}

#[test]
fn the_schema_is_the_one_in_docs() {
    let schema = output(&["scenario", "schema"]);
    assert!(schema.status.success());
    let copy = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/scenario.schema.json");
    assert!(
        text_of(&schema.stdout) == fs::read_to_string(copy).unwrap(),
        "see `scenarios/tests/it/schema.rs`"
    );
}

#[test]
fn plans_print_as_text() {
    let plan = output(&["plan", "scenarios/smoke/moe-pair-1x2.toml", "--rank", "0"]);
    assert!(plan.status.success());
    insta::assert_snapshot!("plan-moe-pair-1x2", text_of(&plan.stdout));
}

/// Numbers are for `tools/accept`; here only that a paced run verifies its bytes and says what it found.
#[test]
fn a_validation_reports_every_variant() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("out");
    let scenario = "scenarios/smoke/all-to-all-late-1x4.toml";
    let sets = ["--set", "iterations=1", "--variant", "native,size-first"];
    let page = folder.path().join("page.html");
    let files = ["--out", out.to_str().unwrap(), "--report", page.to_str().unwrap()];
    let run = zipwire(&[&["validate", scenario, "--json"], &files[..]].concat()).args(sets).output().unwrap();
    assert!(run.status.success(), "{}", text_of(&run.stderr));
    let report: Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(report["executor"], "threads");
    assert!(report["ranking_agrees"].is_boolean() && report["dilation"].as_f64().unwrap() >= 1.0);
    let variants = report["variants"].as_object().unwrap();
    assert_eq!(variants.keys().collect::<Vec<_>>(), ["native", "size-first"]);
    for result in variants.values() {
        let [predicted, measured] = ["predicted_s", "measured_s"].map(|key| result[key].as_f64().unwrap());
        assert!(predicted > 0.0 && measured > 0.0);
        assert!((result["error"].as_f64().unwrap() - (measured / predicted - 1.0)).abs() < 1e-9);
        assert!((0.0..=1.0).contains(&result["on_links"].as_f64().unwrap()), "{result}");
        let largest = &result["largest_deviation"];
        assert!(largest["rank"].as_u64().unwrap() < 4 && largest["lane"].is_string(), "{largest}");
    }
    assert_eq!(variants["native"]["declared"], serde_json::json!(["compute", "skew"]), "delays at the start");
    assert_eq!(variants["size-first"]["declared"], serde_json::json!(["compute", "skew", "codec", "host"]));
    assert!(report.get("real_set").is_none(), "the real run is that of the scenario");
    let timelines = names(&out).into_iter().filter(|name| name.ends_with(".trace.json"));
    assert_eq!(timelines.count(), 4, "two timelines of each variant");
    assert_eq!(fs::read(out.join("validation.json")).unwrap(), run.stdout);
    let html = fs::read_to_string(&page).unwrap();
    assert!(html.contains("Predicted against measured") && html.contains("measured on <code>threads</code>"));
    let refused = output(&["validate", scenario, "--dilation", "1"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text_of(&refused.stderr).contains("would do"), "{}", text_of(&refused.stderr));
}

/// That it notices what differs is in `can_fail.rs`; here that it says that something does.
#[test]
fn a_validation_of_another_cluster_says_so() {
    let scenario = "scenarios/smoke/all-to-all-late-1x4.toml";
    let change = "cluster.links.\"gpu 1 up\"=20 GB/s";
    let args = ["validate", scenario, "--variant", "native", "--set", "iterations=1", "--real-set", change];
    // At once: paced runs sleep most of the time.
    let (json, text) = std::thread::scope(|scope| {
        let json = scope.spawn(|| zipwire(&args).arg("--json").output().unwrap());
        let text = text_of(&zipwire(&args).output().unwrap().stdout);
        (json.join().unwrap(), text)
    });
    assert!(json.status.success(), "{}", text_of(&json.stderr));
    let report: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(report["real_set"], serde_json::json!([change]));
    assert!(text.contains(&format!("the real run differs from the scenario: `{change}`\n")), "{text}");
    let said: Vec<&str> = text.lines().rev().take(3).map(|line| line.split(':').next().unwrap()).collect();
    assert_eq!(said, ["not tested", "declared, not measured", "compared"], "{text}");
    for (change, message) in [
        ("workload.payload.gaussian=1.0", "`--real-set`: variant `native` would have another payload"),
        ("cluster.links.\"gpu 9 up\"=1 GB/s", "the cluster has no link `gpu 9 up`"),
    ] {
        let refused = output(&["validate", scenario, "--real-set", change]);
        assert_eq!(refused.status.code(), Some(2));
        assert!(text_of(&refused.stderr).contains(message), "{}", text_of(&refused.stderr));
    }
}

/// All levels, those that this machine lacks included.
#[test]
fn the_simd_level_can_be_chosen_and_never_changes_a_size() {
    zipwire::paper_codecs::register();
    let sample = "traces/samples/train_late_weights.bf16.safetensors";
    let ids = Spec::ids().collect::<Vec<_>>().join(",");
    let with = |level: &str, args: &[&str]| zipwire(args).env("ZIPWIRE_SIMD", level).output().unwrap();
    let bench = |level: &str| with(level, &["bench", "codec", sample, "--json", "--codec", "raw"]);
    let levels = simd_levels();
    let name = |level: &str| {
        let report: Value = serde_json::from_slice(&bench(level).stdout).unwrap();
        report["rows"][0]["simd"].clone()
    };
    for level in &levels {
        assert_eq!(name(level.name()), level.name());
    }
    assert_eq!(name(""), levels.last().unwrap().name());
    let inspect = |level: &SimdLevel| with(level.name(), &["inspect", sample, "--json", "--codec", &ids]);
    let sizes: Vec<_> = levels.iter().map(inspect).collect();
    for (level, size) in levels.iter().zip(&sizes) {
        assert!(
            size.status.success() && size.stdout == sizes[0].stdout,
            "{level}: {}",
            text_of(&size.stderr)
        );
    }

    let lacking = SimdLevel::ALL.into_iter().filter(|level| !levels.contains(level)).map(SimdLevel::name);
    for level in lacking.chain(["AVX2", "sse9"]) {
        let output = bench(level);
        assert_eq!(output.status.code(), Some(2), "{level}");
        let error = text_of(&output.stderr);
        assert!(error.starts_with("error: `ZIPWIRE_SIMD`: ") && error.contains(level), "{error}");
        assert!(error.contains("`portable`"), "it names what would do: {error}");
        assert!(output.stdout.is_empty());
    }
}
