//! `[sweep]`: its points.

use crate::common::{Folder, VALID, valid_with};
use serde_json::json;
use zipwire_scenarios::{Scenario, ScenarioError, Source, Sweep, load, open};

fn swept(table: &str) -> String {
    format!("{VALID}\n[sweep]\n{table}\n")
}

fn try_sweep(text: &str, sets: &[&str], seed: Option<u64>) -> Result<Option<Sweep>, ScenarioError> {
    let sets: Vec<String> = sets.iter().map(|&set| set.to_owned()).collect();
    open(&Source::from_text("test.toml", text, "."), &sets, seed).map(Scenario::into_sweep)
}

#[track_caller]
fn sweep(table: &str) -> Sweep {
    let read = try_sweep(&swept(table), &[], None);
    read.unwrap_or_else(|error| panic!("{}", error.render(false))).expect("the scenario has a sweep")
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
    let sweep = open(&source, &[], None).unwrap().into_sweep().unwrap();
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
        let sweep = open(&source, &sets, None).unwrap().into_sweep().unwrap();
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
