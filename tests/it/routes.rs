//! `zipwire scenario routes`: the cluster as other programs need it.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn routes(arguments: &[&str]) -> Output {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/smoke/transfers-burst-2x2.toml");
    Command::new(env!("CARGO_BIN_EXE_zipwire"))
        .args(["scenario", "routes"])
        .arg(file)
        .args(arguments)
        .output()
        .unwrap()
}

fn report(arguments: &[&str]) -> Value {
    let output = routes(&[&["--json"], arguments].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn every_pair_has_a_route_over_named_links() {
    let report = report(&["--set", "cluster.links={ \"nic 1 down\" = \"3 GB/s\" }"]);
    assert_eq!(report["ranks"], 4);
    let (links, routes) = (report["links"].as_array().unwrap(), report["routes"].as_array().unwrap());
    assert_eq!(routes.len(), 12);
    let name = |link: &Value| links[link.as_u64().unwrap() as usize]["name"].as_str().unwrap();
    let route = routes.iter().find(|route| route["src"] == 1 && route["dst"] == 2).unwrap();
    let names: Vec<&str> = route["links"].as_array().unwrap().iter().map(name).collect();
    assert_eq!(names, ["gpu 1 up", "nic 0 up", "nic 1 down", "gpu 2 down"]);
    let slow = links.iter().find(|link| link["name"] == "nic 1 down").unwrap();
    assert_eq!(slow["bytes_per_s"], 3e9);
}

#[test]
fn one_pair_is_one_line() {
    let output = routes(&["--src", "0", "--dst", "1"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().last().unwrap().split_whitespace().last(), Some("down"));
    assert_eq!(text.lines().count(), 4, "{text}");
}

#[test]
fn a_rank_that_is_not_there_is_bad_usage() {
    let output = routes(&["--dst", "4"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("`--dst 4`"));
}
