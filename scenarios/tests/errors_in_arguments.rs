//! What a user sees when `--set` or `--variant` is wrong: whole messages, pointing into the argument.

mod common;

use common::{Folder, VALID, error};
use insta::assert_snapshot;

#[test]
fn paths_that_lead_nowhere() {
    assert_snapshot!(error(VALID, &["cluster.nodse=4"]), @"");
    assert_snapshot!(error(VALID, &["clutser.nodes=4"]), @"");
    assert_snapshot!(error(VALID, &["variant.natvie.window=2"]), @"");
    assert_snapshot!(error(VALID, &["variant.2.window=2"]), @"");
    assert_snapshot!(error(VALID, &["cluster.nodes.count=2"]), @"");
}

#[test]
fn no_assignment() {
    assert_snapshot!(error(VALID, &["cluster.nodes"]), @"");
    assert_snapshot!(error(VALID, &["=4"]), @"");
    assert_snapshot!(error(VALID, &["#=4"]), @"");
    assert_snapshot!(error(VALID, &["cluster..nodes=4"]), @"");
}

#[test]
fn values() {
    assert_snapshot!(error(VALID, &["seed=1", "cluster.nodes=0"]), @"");
    assert_snapshot!(error(VALID, &["cluster.nic_bandwidth=50"]), @"");
    assert_snapshot!(error(VALID, &["cluster.nic_bandwidth=50 GBs"]), @"");
    assert_snapshot!(error(VALID, &["workload.routing={ zipf = 1.0"]), @"");
    assert_snapshot!(error(VALID, &["variant.static-first.name=native"]), @"");
}

#[test]
fn positions_are_those_of_the_argument() {
    let error = Folder::new().try_load(VALID, &["cluster.nodes=0"]).unwrap_err();
    assert_eq!((error.line(), error.column()), (None, Some(21)));
    assert_eq!(error.to_string(), "`--set cluster.nodes=0`: `cluster.nodes` is out of range: `0`");
    let text = common::valid_with("nodes = 2", "nodes = 0");
    let error = Folder::new().try_load(&text, &[]).unwrap_err();
    assert_eq!((error.line(), error.column()), (Some(4), Some(9)));
    assert_eq!(error.to_string(), "test.toml:4:9: `cluster.nodes` is out of range: `0`");
}

#[test]
fn unknown_variant() {
    let mut experiment = Folder::new().load(VALID);
    let names = ["native".to_owned(), "static".to_owned()];
    assert_snapshot!(experiment.select(&names).unwrap_err().render(false), @"");
    assert_eq!(experiment.variants.len(), 2, "a refused selection changes nothing");
}

#[test]
fn colour_is_only_added() {
    let error = Folder::new().try_load(VALID, &["cluster.nodes=0"]).unwrap_err();
    let (plain, coloured) = (error.render(false), error.render(true));
    assert!(!plain.contains('\u{1b}') && coloured.contains("\u{1b}["));
    let mut stripped = String::new();
    let mut rest = coloured.as_str();
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        stripped.push_str(before);
        rest = after.split_once('m').unwrap().1;
    }
    assert_eq!(stripped + rest, plain);
}
