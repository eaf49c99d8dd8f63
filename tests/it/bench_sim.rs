//! `zipwire bench sim`: what it prints, not how fast anything is.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_zipwire")).args(["bench", "sim"]).args(arguments).output().unwrap()
}

fn rows(arguments: &[&str]) -> Vec<Value> {
    let output = bench(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice::<Value>(&output.stdout).unwrap()["rows"].as_array().unwrap().clone()
}

/// A shipped scenario.
fn scenario(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/smoke").join(name).display().to_string()
}

#[test]
fn a_case_at_the_network_has_counts() {
    let rows = rows(&["--cases", "unequal-nodes-64", "--json"]);
    let keys: Vec<&String> = rows[0].as_object().unwrap().keys().collect();
    let expected = [
        "case",
        "level",
        "ranks",
        "transfers",
        "simulated_s",
        "prepare_s",
        "cpu_s",
        "runs",
        "peak_bytes",
        "work",
    ];
    assert_eq!(keys, expected);
    let row = &rows[0];
    assert_eq!((&row["case"], &row["level"]), (&"unequal-nodes-64".into(), &"network".into()));
    assert_eq!((&row["ranks"], &row["transfers"]), (&64.into(), &4032.into()));
    assert!(row["cpu_s"].as_f64().unwrap() > 0.0);
    // Every transfer ends at its own time, and two moments have starts.
    let work = &row["work"];
    let events = work["events"].as_u64().unwrap();
    assert!((4000..=4034).contains(&events), "{events} events");
    assert!(["links", "flows", "touches"].iter().all(|key| work[*key].as_f64().unwrap() > 0.0), "{work}");
}

#[test]
fn a_scenario_is_measured_at_both_levels() {
    let burst = scenario("transfers-burst-2x2.toml");
    let rows = rows(&[&burst, "--json"]);
    let levels: Vec<&str> = rows.iter().map(|row| row["level"].as_str().unwrap()).collect();
    assert_eq!(levels, ["network", "simulator"]);
    // Both simulate the same: the levels differ in what it costs.
    let seconds: Vec<f64> = rows.iter().map(|row| row["simulated_s"].as_f64().unwrap()).collect();
    assert!((seconds[0] - seconds[1]).abs() <= 1e-9 * seconds[1], "{seconds:?}");
    assert_eq!(rows[0]["transfers"], rows[1]["transfers"]);
}

#[test]
fn flows_that_wait_for_one_another_need_the_simulator() {
    let chain = scenario("transfers-chain-1x4.toml");
    let rows = rows(&[&chain, "--json"]);
    assert_eq!((rows.len(), &rows[0]["level"]), (1, &"simulator".into()));
    assert_eq!(bench(&[&chain, "--level", "network", "--alone"]).status.code(), Some(2));
}

#[test]
fn an_unknown_case_is_bad_usage() {
    let output = bench(&["--cases", "unequal-flat-65"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(error.contains("`unequal-flat-65`") && error.contains("`unequal-flat-64`"), "{error}");
    assert!(output.stdout.is_empty());
}

#[test]
fn a_broken_scenario_is_shown_where_it_is_broken() {
    let output = bench(&[&scenario("absent.toml")]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("absent.toml"));
}

#[test]
fn the_table_has_a_line_for_each_row() {
    let output = bench(&["--cases", "unequal-nodes-64,simulator-unequal-64"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| line.contains("-64 ")).collect();
    assert!(lines.len() == 2 && lines[1].contains("simulator"), "{text}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_stopped_bench_leaves_no_process() {
    let mut bench = Command::new(env!("CARGO_BIN_EXE_zipwire"))
        .args(["bench", "sim", "--cases", "unequal-flat-512"])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let children = Path::new("/proc").join(format!("{0}/task/{0}/children", bench.id()));
    let child = loop {
        let text = std::fs::read_to_string(&children).unwrap();
        match text.split_whitespace().next() {
            Some(child) => break child.to_owned(),
            None => std::thread::sleep(std::time::Duration::from_millis(5)),
        }
    };
    // To the parent alone, as a supervisor does.
    Command::new("kill").arg(bench.id().to_string()).status().unwrap();
    assert_eq!(bench.wait().unwrap().code(), Some(130));
    assert!(!Path::new("/proc").join(&child).exists(), "process {child} is still there");
}
