//! What a user sees when `--set` or `--variant` is wrong: whole messages, pointing into the argument.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use crate::common;

use common::{Folder, VALID, error, flat};
use insta::assert_snapshot;

#[test]
fn paths_that_lead_nowhere() {
    assert_snapshot!(error(VALID, &["cluster.nodse=4"]), @r"
    error: unknown key `nodse` in `cluster`
     |
     | --set cluster.nodse=4
     |               ^^^^^
     |
     = help: did you mean `nodes`? the valid keys are `preset`, `file`, `nodes`, `gpus_per_node`, `topology`, `gpu_bandwidth`, `nic_bandwidth`, `nics_per_node`, `latency_intra`, `latency_inter`, `launch`, `host_sync`, `compute_slowdown`, `reduce`, `library`, `codec_speed`, `links`, `model` and `start`
    ");
    assert_snapshot!(error(VALID, &["clutser.nodes=4"]), @r"
    error: `clutser` does not exist in the scenario
     |
     | --set clutser.nodes=4
     |       ^^^^^^^
     |
     = help: did you mean `cluster`? there are `name`, `cluster`, `workload`, `codec` and `variant`
    ");
    assert_snapshot!(error(VALID, &["variant.natvie.window=2"]), @r"
    error: `variant.natvie` does not exist in the scenario
     |
     | --set variant.natvie.window=2
     |               ^^^^^^
     |
     = help: did you mean `native`? there are `native` and `static-first`
    ");
    assert_snapshot!(error(VALID, &["variant.2.window=2"]), @r"
    error: `variant.2` does not exist in the scenario
     |
     | --set variant.2.window=2
     |               ^
     |
     = help: there are `native` and `static-first`
    ");
    assert_snapshot!(error(VALID, &["cluster.nodes.count=2"]), @r"
    error: `cluster.nodes` is an integer and has no keys
     |
     | --set cluster.nodes.count=2
     |                     ^^^^^
    ");
}

#[test]
fn values_of_another_type() {
    let all_gather = flat("kind = \"collective\"\ncollective = \"all-gather\"");
    assert_snapshot!(error(&all_gather, &["workload.bytes=7"]), @r#"
    error: `workload.bytes` must be an array, found an integer
     |
     | --set workload.bytes=7
     |                      ^
     |
     = help: like `bytes = ["16 MiB", "16 MiB"]`
    "#);
    assert_snapshot!(error(VALID, &["cluster.nodes=four"]), @r"
    error: `cluster.nodes` must be an integer, found a string
     |
     | --set cluster.nodes=four
     |                     ^^^^
     |
     = help: write a number, without quotation marks
    ");
    assert_snapshot!(error(VALID, &["codec.id=window7:scael=std"]), @r"
    error: codec `window7` has no option `scael`
     |
     | --set codec.id=window7:scael=std
     |                ^^^^^^^^^^^^^^^^^
     |
     = help: did you mean `scale`? its options are `scale`
    ");
}

#[test]
fn no_assignment() {
    assert_snapshot!(error(VALID, &["cluster.nodes"]), @r#"
    error: `--set` takes `path=value`
     |
     | --set cluster.nodes
     |       ^^^^^^^^^^^^^
     |
     = help: like `--set "cluster.host_sync=60 us"`
    "#);
    assert_snapshot!(error(VALID, &["=4"]), @r"
    error: invalid TOML: unquoted keys cannot be empty, expected letters, numbers, `-`, `_`
     |
     | --set =4
     |       ^
    ");
    assert_snapshot!(error(VALID, &["#=4"]), @r#"
    error: `--set` takes `path=value`
     |
     | --set #=4
     |       ^^^
     |
     = help: like `--set "cluster.host_sync=60 us"`
    "#);
    assert_snapshot!(error(VALID, &["cluster..nodes=4"]), @r"
    error: invalid TOML: unquoted keys cannot be empty, expected letters, numbers, `-`, `_`
     |
     | --set cluster..nodes=4
     |       ^^^^^^^^^^^^^^
    ");
}

#[test]
fn values() {
    assert_snapshot!(error(VALID, &["seed=1", "cluster.nodes=0"]), @r"
    error: `cluster.nodes` is out of range: `0`
     |
     | --set cluster.nodes=0
     |                     ^
     |
     = help: it must be an integer from 1 to 4096
    ");
    assert_snapshot!(error(VALID, &["cluster.nic_bandwidth=50"]), @r#"
    error: `cluster.nic_bandwidth` needs a unit: `50` could be anything
     |
     | --set cluster.nic_bandwidth=50
     |                             ^^
     |
     = help: write it as a string with a unit, like `"50 GB/s"`; the units are `B/s`, `KB/s`, `MB/s`, `GB/s`, `TB/s`, `KiB/s`, `MiB/s`, `GiB/s`, `TiB/s`, `kb/s`, `Mb/s`, `Gb/s` and `Tb/s`
    "#);
    assert_snapshot!(error(VALID, &["cluster.nic_bandwidth=50 GBs"]), @r"
    error: `cluster.nic_bandwidth` is a bandwidth, and `GBs` is no unit of that
     |
     | --set cluster.nic_bandwidth=50 GBs
     |                             ^^^^^^
     |
     = help: did you mean `GB/s`? `b` is a bit and `B` a byte: the units are `B/s`, `KB/s`, `MB/s`, `GB/s`, `TB/s`, `KiB/s`, `MiB/s`, `GiB/s`, `TiB/s`, `kb/s`, `Mb/s`, `Gb/s` and `Tb/s`
    ");
    assert_snapshot!(error(VALID, &["workload.routing={ zipf = 1.0"]), @r"
    error: invalid TOML: unclosed inline table, expected `}`
     |
     | --set workload.routing={ zipf = 1.0
     |                                    ^
    ");
    assert_snapshot!(error(VALID, &["variant.static-first.name=native"]), @r#"
    error: two variants are called `native`
       |
       | --set variant.static-first.name=native
       |                                 ^^^^^^
       |
      ::: test.toml:22:8
       |
    22 | name = "native"
       |        -------- the first one
       |
       = help: give each variant a name of its own
    "#);
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
    assert_snapshot!(experiment.select(&names).unwrap_err().render(false), @r"
    error: unknown variant `static`
     |
     | --variant native,static
     |                  ^^^^^^
     |
     = help: did you mean `static-first`? it must be one of `native` and `static-first`
    ");
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
