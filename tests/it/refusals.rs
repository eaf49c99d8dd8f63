//! Command lines that are refused before anything runs: exit codes, messages, and that nothing is written.

use std::fs;

use tempfile::TempDir;
use zipwire::executors;

use crate::common::process;

use process::{output, text_of, zipwire};

#[test]
fn a_run_that_needs_more_memory_than_stated_says_so_before_it_starts() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("out");
    let run = |memory: &str, ranks: &str| {
        let set = format!("cluster.nodes={ranks}");
        let args = ["run", "scenarios/smoke/flat-2x4.toml", "--set", &set, "--memory", memory];
        let output = zipwire(&args).arg("--out").arg(&out).output().unwrap();
        (output.status.code(), text_of(&output.stderr))
    };
    let (code, error) = run("1 GB", "1024");
    assert_eq!(code, Some(2), "{error}");
    assert!(
        error.contains("`--memory` allows 1.00 GB") && error.contains("help: use fewer ranks"),
        "{error}"
    );
    assert!(!out.exists());
    let (code, error) = run("a lot", "2");
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("--memory") && error.contains("16 MiB"), "{error}");
    let (code, error) = run("1 GB", "2");
    assert_eq!(code, Some(0), "{error}");
}

#[test]
fn a_ratio_that_static_sections_rule_out_is_refused() {
    let run =
        output(&["run", "scenarios/quickstart.toml", "--set", "codec.ratio=3", "--variant", "static-first"]);
    assert_eq!(run.status.code(), Some(2));
    assert!(
        text_of(&run.stderr).contains("its static sections alone make 1.44972"),
        "{}",
        text_of(&run.stderr)
    );
}

#[test]
fn bad_input_ends_with_2_and_leaves_nothing() {
    let scenario = "scenarios/smoke/moe-pair-1x2.toml";
    let cases: [(&[&str], &str); 6] = [
        (&["run", "scenarios/none.toml"], "none.toml"),
        (&["run", scenario, "--variant", "fast"], "unknown variant `fast`"),
        (&["run", scenario, "--set", "cluster.nodse=4"], "unknown key `nodse`"),
        (&["run", scenario, "--set", "cluster.nodes=0"], "cluster.nodes"),
        (&["run", scenario, "--on", "gpu"], "unknown executor `gpu`"),
        (&["plan", scenario, "--rank", "9"], "ranks 0 to 1"),
    ];
    for (args, message) in cases {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("out");
        let mut args = args.to_vec();
        if args[0] == "run" {
            args.extend(["--out", path.to_str().unwrap()]);
        }
        let run = output(&args);
        assert_eq!(run.status.code(), Some(2), "{args:?}: {}", text_of(&run.stderr));
        assert!(text_of(&run.stderr).contains(message), "{args:?}: {}", text_of(&run.stderr));
        assert_eq!(text_of(&run.stdout), "", "{args:?}: results only");
        assert!(!path.exists(), "{args:?}");
    }
}

#[test]
fn an_unwritable_output_folder_is_named_before_anything_runs() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "kept").unwrap();
    let path = file.join("out");
    let run = output(&["run", "scenarios/quickstart.toml", "--out", path.to_str().unwrap()]);
    assert_eq!(run.status.code(), Some(2));
    let error = text_of(&run.stderr);
    assert!(error.contains("cannot write to output folder") && error.contains("--out"), "{error}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "kept");
}

#[test]
fn absent_executors_end_with_3_and_one_line() {
    for executor in executors::ALL.iter().copied().filter(|executor| executor.missing().is_some()) {
        let executor = executor.name();
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("out");
        let run =
            output(&["run", "scenarios/quickstart.toml", "--on", executor, "--out", path.to_str().unwrap()]);
        assert_eq!(run.status.code(), Some(3));
        let error = text_of(&run.stderr);
        let lines: Vec<&str> = error.trim_end().lines().collect();
        assert!(lines[0].contains(&format!("`{executor}` is not available here")), "{error}");
        assert!(lines[1..].iter().all(|line| line.starts_with("help: ")) && lines.len() <= 2, "{error}");
        assert!(!path.exists());
    }
}

#[test]
fn paced_runs_have_no_cheaper_model_than_links() {
    let model = ["--set", "cluster.model=ports"];
    for args in [
        ["validate", "scenarios/validate/transfers-burst-2x3.toml"].as_slice(),
        &["run", "scenarios/faults/delay.toml", "--on", "threads"],
    ] {
        let run = zipwire(args).args(model).output().unwrap();
        let message = text_of(&run.stderr);
        assert_eq!(run.status.code(), Some(2), "{message}");
        assert!(message.contains("network model `ports`") && message.contains("max-min"), "{message}");
    }
}

/// A prediction with barriers can be held against a run that has none.
#[test]
fn real_runs_have_no_barriers() {
    let scenario = "scenarios/validate/transfers-burst-2x3.toml";
    let barrier = ["--set", "cluster.start=barrier"];
    for args in [["run", scenario, "--on", "sim,threads"].as_slice(), &["validate", scenario]] {
        let run = zipwire(args).args(barrier).output().unwrap();
        let message = text_of(&run.stderr);
        assert_eq!(run.status.code(), Some(2), "{message}");
        assert!(message.contains("`cluster.start` is `barrier`, and on `threads`"), "{message}");
    }
    let real = ["validate", scenario, "--real-set", "cluster.start=rendezvous"];
    let run = zipwire(&real).args(barrier).output().unwrap();
    assert!(run.status.success(), "{}", text_of(&run.stderr));
}

/// Nothing runs, so it is the scenario that is at fault, and not a run.
#[test]
fn what_an_executor_cannot_do_for_a_scenario_is_bad_usage() {
    let drift = "drift=[{ from = 1, nic_bandwidth = \"5 GB/s\" }]";
    let fault = "fault=[{ kind = \"dead-rank\", rank = 1 }]";
    for (on, change, message) in [
        ("threads", drift, "`threads` cannot let the cluster or the codec change"),
        ("sim", fault, "variant `adaptive` is adaptive"),
    ] {
        let args = ["run", "scenarios/switcher/small-2x2.toml", "--on", on, "--set", change];
        let run = zipwire(&args).output().unwrap();
        let found = text_of(&run.stderr);
        assert_eq!(run.status.code(), Some(2), "{found}");
        assert!(found.contains(message), "{found}");
    }
}
