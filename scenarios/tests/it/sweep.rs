//! `[sweep]`: which points there are, and what a user sees when one is wrong.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use crate::common;

use common::{Folder, VALID, valid_with};
use insta::assert_snapshot;
use serde_json::json;
use zipwire_scenarios::{ScenarioError, Source, Sweep, load, load_sweep};

fn swept(table: &str) -> String {
    format!("{VALID}\n[sweep]\n{table}\n")
}

fn try_sweep(text: &str, sets: &[&str], seed: Option<u64>) -> Result<Option<Sweep>, ScenarioError> {
    let sets: Vec<String> = sets.iter().map(|&set| set.to_owned()).collect();
    load_sweep(&Source::from_text("test.toml", text, "."), &sets, seed)
}

#[track_caller]
fn sweep(table: &str) -> Sweep {
    let read = try_sweep(&swept(table), &[], None);
    read.unwrap_or_else(|error| panic!("{}", error.render(false))).expect("the scenario has a sweep")
}

/// The rendered error of a sweep, or of the first point that has one.
#[track_caller]
fn error(table: &str, sets: &[&str], seed: Option<u64>) -> String {
    let error = match try_sweep(&swept(table), sets, seed) {
        Err(error) => error,
        Ok(sweep) => {
            let sweep = sweep.unwrap();
            let first = (0..sweep.point_count()).find_map(|point| sweep.check(point).err());
            first.expect("the sweep should be refused")
        }
    };
    error.render(false)
}

#[test]
fn points_are_the_cross_product_and_the_last_key_is_the_fastest() {
    let table = r#"
        "cluster.nodes" = [2, 4]
        seed = [1, 2, 3]
        "workload.payload.gaussian" = [0.02]
        "variant.static-first.window" = [1, 2]"#;
    let sweep = sweep(table);
    let paths: Vec<&str> = sweep.paths().collect();
    assert_eq!(paths, ["cluster.nodes", "seed", "workload.payload.gaussian", "variant.static-first.window"]);
    assert_eq!(sweep.point_count(), 12);
    let mut point = 0;
    for nodes in [2, 4] {
        for seed in [1, 2, 3] {
            for window in [1, 2] {
                assert_eq!(sweep.values(point), [json!(nodes), json!(seed), json!(0.02), json!(window)]);
                let experiment = sweep.point(point).unwrap();
                assert_eq!((experiment.topology.nodes, experiment.seed), (nodes, seed));
                assert_eq!(experiment.variants[1].window, Some(window));
                sweep.check(point).unwrap();
                point += 1;
            }
        }
    }
}

#[test]
fn a_point_is_the_scenario_with_the_same_values_set() {
    let sweep = sweep(
        "\"cluster.nic_bandwidth\" = [\"10 GB/s\", \"400 Gb/s\"]\n\"variant.1.window\" = [1, 3]\n\
         \"workload.routing\" = [{ zipf = 1.0 }, \"uniform\"]\nseed = [1, 2]",
    );
    let sets = ["cluster.nic_bandwidth=400 Gb/s", "variant.1.window=1", "workload.routing={ zipf = 1.0 }"];
    let sets = sets.map(str::to_owned);
    let source = Source::from_text("test.toml", VALID, ".");
    let set = load(&source, &sets, Some(2)).unwrap();
    assert_eq!(format!("{:?}", sweep.point(9).unwrap()), format!("{set:?}"));
    assert_ne!(format!("{:?}", sweep.point(8).unwrap()), format!("{set:?}"), "another seed");
    assert_eq!(format!("{:?}", sweep.base().unwrap()), format!("{:?}", load(&source, &[], None).unwrap()));
}

#[test]
fn without_its_sweep_a_scenario_is_what_it_was() {
    let text = swept("\"cluster.nodes\" = [4, 8]");
    let source = Source::from_text("test.toml", text.as_str(), ".");
    assert_eq!(load(&source, &[], None).unwrap().topology.nodes, 2);
    assert_eq!(load(&source, &["cluster.nodes=3".to_owned()], None).unwrap().topology.nodes, 3);
    assert!(try_sweep(VALID, &[], None).unwrap().is_none());
    assert!(try_sweep(&text, &["sweep={}"], None).unwrap().is_none(), "an empty sweep is none");
}

#[test]
fn arguments_set_sweeps_too() {
    let read = |text: &str, sets: &[&str]| try_sweep(text, sets, None).unwrap().unwrap();
    assert_eq!(read(VALID, &["sweep.seed=[1, 2, 3]"]).point_count(), 3);
    let text = swept("\"cluster.nodes\" = [4, 8]");
    let more = read(&text, &["sweep.seed=[5, 6]", "sweep.'cluster.nodes'=[1, 2, 4]", "iterations=2"]);
    assert_eq!(more.paths().collect::<Vec<_>>(), ["cluster.nodes", "seed"]);
    assert_eq!(more.values(5), [json!(4), json!(6)]);
    assert_eq!(more.point(5).unwrap().iterations, 2);
    let seeded = try_sweep(&text, &[], Some(9)).unwrap().unwrap();
    assert_eq!(seeded.point(1).unwrap().seed, 9);
}

#[test]
fn files_are_read_once() {
    let trace = "step,layer,e0,e1,e2,e3,e4,e5,e6,e7\n0,0,1,2,3,4,5,6,7,8\n";
    let text = valid_with("\"uniform\"", "{ trace = \"a.csv\" }") + "[sweep]\nseed = [1, 2]\n";
    let folder = Folder::new().with("a.csv", trace);
    let source = Source::from_text("test.toml", text, folder.path());
    let sweep = load_sweep(&source, &[], None).unwrap().unwrap();
    std::fs::remove_file(folder.path().join("a.csv")).unwrap();
    assert!(sweep.point(0).is_ok() && sweep.point(1).is_ok());
    assert!(load(&source, &[], None).is_err());
}

#[test]
fn the_digest_covers_what_points_depend_on() {
    let trace = "step,layer,e0,e1,e2,e3,e4,e5,e6,e7\n0,0,1,2,3,4,5,6,7,8\n";
    let text = valid_with("\"uniform\"", "{ trace = \"a.csv\" }") + "[sweep]\nseed = [1, 2]\n";
    let digest = |text: &str, trace: &str, sets: &[&str]| {
        let folder = Folder::new().with("a.csv", trace);
        let sets: Vec<String> = sets.iter().map(|&set| set.to_owned()).collect();
        let source = Source::from_text("test.toml", text, folder.path());
        let sweep = load_sweep(&source, &sets, None).unwrap().unwrap();
        (0..sweep.point_count()).for_each(|point| sweep.check(point).unwrap());
        sweep.digest()
    };
    let reference = digest(&text, trace, &[]);
    assert_eq!(digest(&text, trace, &[]), reference);
    assert_eq!(digest(&format!("# Why.\n{text}"), trace, &[]), reference, "comments change nothing");
    let others = [
        digest(&text, &trace.replace(",8", ",9"), &[]),
        digest(&text.replace("[1, 2]", "[1, 3]"), trace, &[]),
        digest(&text.replace("25 GB/s", "26 GB/s"), trace, &[]),
        digest(&text, trace, &["iterations=2"]),
    ];
    assert!(others.iter().all(|other| *other != reference));
}

#[test]
fn wrong_values_are_pointed_at_with_their_point() {
    assert_snapshot!(error("\"cluster.nodes\" = [1, 2]\n\"variant.0.window\" = [1, 3, 0]", &[], None), @r#"
    error: `variant.0.window` is out of range: `3`, at point 2 of 6: `cluster.nodes = 1`, `variant.0.window = 3`
      --> test.toml:30:26
       |
    30 | "variant.0.window" = [1, 3, 0]
       |                          ^
       |
       = help: it must be an integer from 1 to 1
    "#);
    assert_snapshot!(error("\"cluster.nic_bandwidth\" = [\"25 GB/s\", 50]", &[], None), @r#"
    error: `cluster.nic_bandwidth` needs a unit: `50` could be anything, at point 2 of 2: `cluster.nic_bandwidth = 50`
      --> test.toml:29:39
       |
    29 | "cluster.nic_bandwidth" = ["25 GB/s", 50]
       |                                       ^^
       |
       = help: write it as a string with a unit, like `"50 GB/s"`; the units are `B/s`, `KB/s`, `MB/s`, `GB/s`, `TB/s`, `KiB/s`, `MiB/s`, `GiB/s`, `TiB/s`, `kb/s`, `Mb/s`, `Gb/s` and `Tb/s`
    "#);
    assert_snapshot!(error("\"variant.natvie.window\" = [1]", &[], None), @r#"
    error: `variant.natvie` does not exist in the scenario, at point 1 of 1: `variant.natvie.window = 1`
      --> test.toml:29:10
       |
    29 | "variant.natvie.window" = [1]
       |          ^^^^^^
       |
       = help: did you mean `native`? there are `native` and `static-first`
    "#);
    // Nothing is wrong with the value by itself.
    assert_snapshot!(error("seed = [1]\n\"workload.model.experts\" = [8, 1]", &[], None), @r#"
    error: a token cannot go to `2` of `1` experts, at point 2 of 2: `seed = 1`, `workload.model.experts = 1`
      --> test.toml:30:32
       |
    13 | model = { experts = 8, top_k = 2, hidden = 256, tokens_per_rank = 64 }
       |                                - wrong with it
    ...
    30 | "workload.model.experts" = [8, 1]
       |                                ^
    "#);
    // Nor with either of the two.
    let both = "\"workload.model.experts\" = [8, 4]\n\"workload.model.top_k\" = [1, 3, 5]";
    assert_snapshot!(error(both, &[], None), @r#"
    error: a token cannot go to `5` of `4` experts, at point 6 of 6: `workload.model.experts = 4`, `workload.model.top_k = 5`
      --> test.toml:30:33
       |
    30 | "workload.model.top_k" = [1, 3, 5]
       |                                 ^
    "#);
}

#[test]
fn wrong_tables() {
    assert_snapshot!(error("\"cluster.nodes\" = 4", &[], None), @r#"
    error: `sweep."cluster.nodes"` must be an array, found an integer
      --> test.toml:29:19
       |
    29 | "cluster.nodes" = 4
       |                   ^
    "#);
    assert_snapshot!(error("\"cluster.nodes\" = []", &[], None), @r#"
    error: `the number of values` is out of range: `0`
      --> test.toml:29:19
       |
    29 | "cluster.nodes" = []
       |                   ^^
       |
       = help: it must be at least 1
    "#);
    assert_snapshot!(error("cluster.nodes = [4]", &[], None), @r#"
    error: `sweep.cluster` is a table: a path needs quotes
      --> test.toml:29:1
       |
    29 | cluster.nodes = [4]
       | ^^^^^^^
       |
       = help: write `"cluster.KEY" = [...]`
    "#);
    assert_snapshot!(error("\"cluster..nodes\" = [4]", &[], None), @r#"
    error: `cluster..nodes` is no path of the scenario
      --> test.toml:29:1
       |
    29 | "cluster..nodes" = [4]
       | ^^^^^^^^^^^^^^^^
       |
       = help: like `"cluster.nodes" = [2, 4]`
    "#);
    assert_snapshot!(error("name = [\"a\", \"b\"]", &[], None), @r#"
    error: `name` has no effect: the points of a sweep are written to one folder, which it names
      --> test.toml:29:1
       |
    29 | name = ["a", "b"]
       | ^^^^
    "#);
    assert_snapshot!(error("\"sweep.seed\" = [1]", &[], None), @r#"
    error: `sweep.seed` has no effect: a sweep does not change itself
      --> test.toml:29:1
       |
    29 | "sweep.seed" = [1]
       | ^^^^^^^^^^^^
    "#);
    assert_snapshot!(error("\"cluster.nodes\" = [1, 2]\ncluster = [{ nodes = 4 }]", &[], None), @r#"
    error: `cluster.nodes` has no effect: a later key of the sweep replaces it
      --> test.toml:29:2
       |
    29 | "cluster.nodes" = [1, 2]
       |  ^^^^^^^^^^^^^
    "#);
    assert_snapshot!(error("\"variant.native.window\" = [1, 2]\n\"variant.0.window\" = [2, 1]", &[], None), @r#"
    error: `variant.native.window` has no effect: a later key of the sweep replaces it
      --> test.toml:29:2
       |
    29 | "variant.native.window" = [1, 2]
       |  ^^^^^^^^^^^^^^^^^^^^^
    "#);
    let hundred = (0..101).map(|value| value.to_string()).collect::<Vec<_>>().join(", ");
    let many = format!("seed = [{hundred}]\niterations = [{hundred}]\n\"cluster.nodes\" = [{hundred}]");
    let rendered = error(&many, &[], None);
    assert!(
        rendered.contains("the number of points of the sweep") && rendered.contains("1030301"),
        "{rendered}"
    );
    assert!(rendered.contains("[sweep]") && rendered.contains("at most 1000000"), "{rendered}");
}

#[test]
fn what_the_sweep_sets_nothing_else_sets() {
    assert_snapshot!(error("seed = [1, 2]", &[], Some(3)), @r"
    error: `--seed` has no effect: the sweep replaces it at every point
     |
     | --seed 3
     | ^^^^^^^^
    ");
    assert_snapshot!(error("\"variant.0.window\" = [1, 2]", &["variant.native.window=3"], None), @r"
    error: `variant.0.window` has no effect: the sweep replaces it at every point
     |
     | --set variant.native.window=3
     |       ^^^^^^^^^^^^^^^^^^^^^
    ");
    assert!(try_sweep(&swept("\"cluster.nodes\" = [1]"), &["cluster.gpus_per_node=4"], None).is_ok());
}
