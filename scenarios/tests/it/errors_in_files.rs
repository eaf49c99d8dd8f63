//! What a user sees when the scenario file is wrong: whole messages.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use crate::common;

use common::{Folder, error, flat, valid_with};
use insta::assert_snapshot;

#[test]
fn the_scenario_itself_is_fine() {
    Folder::new().load(common::VALID);
}

#[test]
fn syntax() {
    assert_snapshot!(error("name = \"x\"\n[cluster\n", &[]), @r"
    error: invalid TOML: unclosed table, expected `]`
     --> test.toml:2:9
      |
    2 | [cluster
      |         ^
    ");
    assert_snapshot!(error(&valid_with("nodes = 2", "nodes = 2\nnodes = 3"), &[]), @r"
    error: invalid TOML: duplicate key
     --> test.toml:5:1
      |
    5 | nodes = 3
      | ^^^^^
    ");
}

#[test]
fn unknown_keys() {
    assert_snapshot!(error(&valid_with("nic_bandwidth", "nic_bandwith"), &[]), @r#"
    error: unknown key `nic_bandwith` in `cluster`
     --> test.toml:7:1
      |
    7 | nic_bandwith = "25 GB/s"
      | ^^^^^^^^^^^^
      |
      = help: did you mean `nic_bandwidth`? the valid keys are `preset`, `file`, `nodes`, `gpus_per_node`, `topology`, `gpu_bandwidth`, `nic_bandwidth`, `nics_per_node`, `latency_intra`, `latency_inter`, `launch`, `host_sync`, `compute_slowdown`, `reduce`, `library`, `codec_speed`, `links`, `model` and `start`
    "#);
    assert_snapshot!(error(&valid_with("[workload]", "[work]"), &[]), @"
    error: unknown key `work`
      --> test.toml:11:2
       |
    11 | [work]
       |  ^^^^
       |
       = help: the valid keys are `name`, `seed`, `iterations`, `cluster`, `workload`, `partial_sums`, `compute`, `codec`, `variant`, `fault`, `deadline`, `drift` and `sweep`
    ");
    assert_snapshot!(error(&valid_with("hidden = 256", "hidden = 256, layers = 4"), &[]), @r"
    error: unknown key `layers` in `workload.model`
      --> test.toml:13:49
       |
    13 | model = { experts = 8, top_k = 2, hidden = 256, layers = 4, tokens_per_rank = 64 }
       |                                                 ^^^^^^
       |
       = help: the valid keys are `preset`, `experts`, `top_k`, `hidden` and `tokens_per_rank`
    ");
}

#[test]
fn keys_of_other_tables() {
    assert_snapshot!(error(&valid_with("name = \"test\"", "name = \"test\"\npreset = \"h100-8x\""), &[]), @r#"
    error: unknown key `preset`
     --> test.toml:2:1
      |
    2 | preset = "h100-8x"
      | ^^^^^^
      |
      = help: it is a key of `[cluster]` and `[workload.model]`; the valid keys are `name`, `seed`, `iterations`, `cluster`, `workload`, `partial_sums`, `compute`, `codec`, `variant`, `fault`, `deadline`, `drift` and `sweep`
    "#);
    assert_snapshot!(error(&valid_with("[workload]", "[workload]\nencode = 1"), &[]), @"
    error: unknown key `encode` in `workload`
      --> test.toml:12:1
       |
    12 | encode = 1
       | ^^^^^^
       |
       = help: it is a key of `[codec.speed]` and `[variant.codec.speed]`; the valid keys are `kind`, `model`, `routing`, `experts`, `tokens`, `dispatch_dtype`, `skew` and `payload`
    ");
}

#[test]
fn texts_that_are_no_scenario() {
    assert_snapshot!(error("{ \"name\": \"test\" }", &[]), @r#"
    error: invalid TOML: invalid key-value pair, expected key
     --> test.toml:1:1
      |
    1 | { "name": "test" }
      | ^
      |
      = help: this is JSON, and a scenario is TOML
    "#);
    let folder = zipwire_scenarios::Source::read(std::path::Path::new("tests")).unwrap_err();
    assert!(folder.to_string().contains("cannot read `tests`"), "{folder}");
    assert_eq!(folder.problem().help().as_deref(), Some("name a file in it"));
}

#[test]
fn missing_keys() {
    assert_snapshot!(error(&valid_with("latency_inter = \"10 us\"\n", ""), &[]), @r#"
    error: missing key `latency_inter` in `cluster`
     --> test.toml:3:1
      |
    3 | [cluster]
      | ^^^^^^^^^
      |
      = help: add `latency_inter = "10 us"` to `cluster`
    "#);
    assert_snapshot!(error(&valid_with("name = \"test\"", ""), &[]), @r#"
    error: missing key `name`
     --> test.toml:1:1
      |
    1 |
      | ^
      |
      = help: add `name = "moe-16gpu"` before the first table
    "#);
    let no_workload = "name = \"test\"\n[cluster]\npreset = \"h100-8x\"\nnodes = 1\n";
    assert_snapshot!(error(no_workload, &[]), @r#"
    error: missing key `workload`
     --> test.toml:1:1
      |
    1 | name = "test"
      | ^
      |
      = help: add a table `[workload]`, or on one line `workload = { kind = "moe", ... }`
    "#);
    assert_snapshot!(error(&valid_with("kind = \"moe\"", ""), &[]), @r#"
    error: missing key `kind` in `workload`
      --> test.toml:11:1
       |
    11 | [workload]
       | ^^^^^^^^^^
       |
       = help: add `kind = "moe"` to `workload`
    "#);
}

#[test]
fn units() {
    assert_snapshot!(error(&valid_with("\"5 us\"", "5"), &[]), @r#"
    error: `cluster.latency_intra` needs a unit: `5` could be anything
     --> test.toml:8:17
      |
    8 | latency_intra = 5
      |                 ^
      |
      = help: write it as a string with a unit, like `"5 us"`; the units are `ns`, `us`, `µs`, `ms` and `s`
    "#);
    assert_snapshot!(error(&valid_with("\"5 us\"", "\"5\""), &[]), @r#"
    error: `cluster.latency_intra` needs a unit: `5` could be anything
     --> test.toml:8:17
      |
    8 | latency_intra = "5"
      |                 ^^^
      |
      = help: write it as a string with a unit, like `"5 us"`; the units are `ns`, `us`, `µs`, `ms` and `s`
    "#);
    assert_snapshot!(error(&valid_with("\"25 GB/s\"", "\"25 Gbit/s\""), &[]), @r#"
    error: `cluster.gpu_bandwidth` is a bandwidth, and `Gbit/s` is no unit of that
     --> test.toml:6:17
      |
    6 | gpu_bandwidth = "25 Gbit/s"
      |                 ^^^^^^^^^^^
      |
      = help: did you mean `Gb/s`? `b` is a bit and `B` a byte: the units are `B/s`, `KB/s`, `MB/s`, `GB/s`, `TB/s`, `KiB/s`, `MiB/s`, `GiB/s`, `TiB/s`, `kb/s`, `Mb/s`, `Gb/s` and `Tb/s`
    "#);
    assert_snapshot!(error(&valid_with("\"25 GB/s\"", "\"25 us\""), &[]), @r#"
    error: `cluster.gpu_bandwidth` is a bandwidth, and `us` is no unit of that
     --> test.toml:6:17
      |
    6 | gpu_bandwidth = "25 us"
      |                 ^^^^^^^
      |
      = help: `b` is a bit and `B` a byte: the units are `B/s`, `KB/s`, `MB/s`, `GB/s`, `TB/s`, `KiB/s`, `MiB/s`, `GiB/s`, `TiB/s`, `kb/s`, `Mb/s`, `Gb/s` and `Tb/s`
    "#);
    assert_snapshot!(error(&valid_with("\"25 GB/s\"", "\"fast\""), &[]), @r#"
    error: `cluster.gpu_bandwidth` must be a bandwidth, found `fast`
     --> test.toml:6:17
      |
    6 | gpu_bandwidth = "fast"
      |                 ^^^^^^
      |
      = help: like `"25 GB/s"`
    "#);
}

#[test]
fn numbers_out_of_range() {
    assert_snapshot!(error(&valid_with("nodes = 2", "nodes = 0"), &[]), @r"
    error: `cluster.nodes` is out of range: `0`
     --> test.toml:4:9
      |
    4 | nodes = 0
      |         ^
      |
      = help: it must be an integer from 1 to 4096
    ");
    assert_snapshot!(error(&valid_with("nodes = 2", "nodes = -1"), &[]), @r"
    error: `cluster.nodes` is out of range: `-1`
     --> test.toml:4:9
      |
    4 | nodes = -1
      |         ^^
      |
      = help: it must be an integer from 1 to 4096
    ");
    assert_snapshot!(error(&valid_with("nodes = 2", "nodes = 2.0"), &[]), @r"
    error: `cluster.nodes` must be an integer, found a float
     --> test.toml:4:9
      |
    4 | nodes = 2.0
      |         ^^^
    ");
    assert_snapshot!(error(&valid_with("nodes = 2", "nodes = 4096"), &[]), @r"
    error: `cluster.nodes x cluster.gpus_per_node` is out of range: `8192`
     --> test.toml:5:17
      |
    4 | nodes = 4096
      |         ---- times this
    5 | gpus_per_node = 2
      |                 ^
      |
      = help: it must be from 2 to 4096 ranks
    ");
    assert_snapshot!(error(&valid_with("\"25 GB/s\"", "\"0 GB/s\""), &[]), @r#"
    error: `cluster.gpu_bandwidth` is out of range: `0 GB/s`
     --> test.toml:6:17
      |
    6 | gpu_bandwidth = "0 GB/s"
      |                 ^^^^^^^^
      |
      = help: it must be from 1 B/s to 1e6 TB/s
    "#);
    assert_snapshot!(error(&valid_with("\"5 us\"", "\"-5 us\""), &[]), @r#"
    error: `cluster.latency_intra` is out of range: `-5 us`
     --> test.toml:8:17
      |
    8 | latency_intra = "-5 us"
      |                 ^^^^^^^
      |
      = help: it must be from 0 s to 1000000 s
    "#);
    assert_snapshot!(error(&valid_with("0.02", "nan"), &[]), @r"
    error: `workload.payload.gaussian` is out of range: `NaN`
      --> test.toml:15:24
       |
    15 | payload = { gaussian = nan }
       |                        ^^^
       |
       = help: it must be a number from 1e-30 to 1e30
    ");
    assert_snapshot!(error(&valid_with("name = \"test\"", "name = \"test\"\niterations = 0"), &[]), @r"
    error: `iterations` is out of range: `0`
     --> test.toml:2:14
      |
    2 | iterations = 0
      |              ^
      |
      = help: it must be an integer from 1 to 1000000
    ");
}

#[test]
fn one_rank_has_nobody_to_talk_to() {
    let text = flat("kind = \"collective\"\n").replace("gpus_per_node = 4", "gpus_per_node = 1");
    assert_snapshot!(error(&text, &[]), @r"
    error: `cluster.nodes x cluster.gpus_per_node` is out of range: `1`
     --> test.toml:4:17
      |
    3 | nodes = 1
      |         - times this
    4 | gpus_per_node = 1
      |                 ^
      |
      = help: it must be from 2 to 4096 ranks
    ");
}

#[test]
fn names() {
    assert_snapshot!(error(&valid_with("kind = \"moe\"", "kind = \"pipeline\""), &[]), @r#"
    error: unknown workload kind `pipeline`
      --> test.toml:12:8
       |
    12 | kind = "pipeline"
       |        ^^^^^^^^^^
       |
       = help: it must be one of `moe`, `moe-training`, `fsdp`, `dp`, `tp`, `collective`, `transfers`, `weight-sync` and `serving`
    "#);
    assert_snapshot!(error(&valid_with("protocol = \"static-first\"", "protocol = \"static-frist\""), &[]), @r#"
    error: unknown protocol `static-frist`
      --> test.toml:26:12
       |
    26 | protocol = "static-frist"
       |            ^^^^^^^^^^^^^^
       |
       = help: did you mean `static-first`? it must be one of `native`, `size-first`, `static-first`, `overlap-sizes`, `in-band`, `speculative`, `split-send` and `adaptive`
    "#);
    assert_snapshot!(error(&valid_with("name = \"native\"", "name = \"native\"\norder = \"smallest-first\""), &[]), @r#"
    error: unknown order `smallest-first`
      --> test.toml:23:9
       |
    23 | order = "smallest-first"
       |         ^^^^^^^^^^^^^^^^
       |
       = help: did you mean `largest-first`? it must be one of `rotation`, `shifted-rounds`, `largest-first` and `any-ready`
    "#);
    assert_snapshot!(error(&valid_with("name = \"test\"", "name = \"../test\""), &[]), @r#"
    error: `name` cannot be part of a file name: `../test`
     --> test.toml:1:8
      |
    1 | name = "../test"
      |        ^^^^^^^^^
      |
      = help: 1 to 100 letters, digits, `-`, `_` and `.`, with a letter or digit first: it names output files
    "#);
    assert_snapshot!(error(&valid_with("\"uniform\"", "\"even\""), &[]), @r#"
    error: unknown routing `even`
      --> test.toml:14:11
       |
    14 | routing = "even"
       |           ^^^^^^
       |
       = help: it must be one of `uniform`, `{ zipf = 0.8 }`, `{ dirichlet = 16.0 }`, `{ trace = "F.csv" }` and `{ matrix = "F.jsonl" }`
    "#);
    assert_snapshot!(error(&valid_with("{ experts = 8, top_k = 2, hidden = 256, tokens_per_rank = 64 }", "\"deepseek\""), &[]), @r#"
    error: unknown model `deepseek`
      --> test.toml:13:9
       |
    13 | model = "deepseek"
       |         ^^^^^^^^^^
       |
       = help: did you mean `deepseek-v3`? it must be one of `deepseek-v3`, `qwen3-235b-a22b` and `mixtral-8x7b`
    "#);
}

#[test]
fn variants() {
    assert_snapshot!(error(&valid_with("name = \"static-first\"", "name = \"native\""), &[]), @r#"
    error: two variants are called `native`
      --> test.toml:25:8
       |
    22 | name = "native"
       |        -------- the first one
    ...
    25 | name = "native"
       |        ^^^^^^^^
       |
       = help: give each variant a name of its own
    "#);
    assert_snapshot!(error(&valid_with("protocol = \"static-first\"", "window = 4"), &[]), @r"
    error: `variant.1.window` is out of range: `4`
      --> test.toml:26:10
       |
    26 | window = 4
       |          ^
       |
       = help: it must be an integer from 1 to 3
    ");
    assert_snapshot!(error(&valid_with("protocol = \"static-first\"", "window = 0"), &[]), @r"
    error: `variant.1.window` is out of range: `0`
      --> test.toml:26:10
       |
    26 | window = 0
       |          ^
       |
       = help: it must be an integer from 1 to 3
    ");
    let rounds = "order = \"shifted-rounds\"\nwindow = 1";
    assert_snapshot!(error(&valid_with("protocol = \"static-first\"", rounds), &[]), @r"
    error: `variant.1.window` has no effect: the window of `shifted-rounds` is 1
      --> test.toml:27:10
       |
    27 | window = 1
       |          ^
    ");
}

#[test]
fn codec() {
    let start = common::VALID.find("[codec]").unwrap();
    let end = common::VALID.find("[[variant]]").unwrap();
    assert_snapshot!(error(&common::VALID.replace(&common::VALID[start..end], ""), &[]), @r#"
    error: protocol `static-first` needs a codec, and the scenario has none
      --> test.toml:22:12
       |
    22 | protocol = "static-first"
       |            ^^^^^^^^^^^^^^
       |
       = help: add a table `[codec]` with `id = "window7"`, and its `speed` where the cluster has no `codec_speed`
    "#);
    assert_snapshot!(error(&valid_with("payload = { gaussian = 0.02 }\n", ""), &[]), @r"
    error: the compression ratio of codec `window7` is unknown: the workload has no payload
      --> test.toml:16:1
       |
    16 | [codec]
       | ^^^^^^^
       |
       = help: give the workload data to compress, `payload = { gaussian = 0.02 }`, or state the ratio here, `ratio = 1.3`
    ");
    assert_snapshot!(error(&valid_with("id = \"window7\"", "id = \"window\""), &[]), @r#"
    error: unknown codec `window`
      --> test.toml:18:6
       |
    18 | id = "window"
       |      ^^^^^^^^
       |
       = help: did you mean `window7`? it must be one of `raw`, `window7`, `tiered`, `rans`, `codebook16`, `grouped`, `blockwise`, `huffman` and `auto`
    "#);
    assert_snapshot!(error(&valid_with("id = \"window7\"", "id = \"dedup+tiered\""), &[]), @r#"
    error: `dedup+tiered` does not say how long a row is
      --> test.toml:18:6
       |
    18 | id = "dedup+tiered"
       |      ^^^^^^^^^^^^^^
       |
       = help: write `dedup:row=N+...` with the number of values in a row
    "#);
    assert_snapshot!(error(&valid_with("speed", "ratio = 0\nspeed"), &[]), @r"
    error: `codec.ratio` is out of range: `0`
      --> test.toml:19:9
       |
    19 | ratio = 0
       |         ^
       |
       = help: it must be a number from 0.01 to 10000.0
    ");
}

#[test]
fn codec_and_values() {
    let workload =
        "kind = \"collective\"\ncollective = \"all-to-all\"\ndtype = \"F32\"\nbytes_per_rank = \"1 KiB\"";
    let rest = "[codec]\nid = \"codebook16\"\nspeed = { encode = \"1 GB/s\", decode = \"1 GB/s\" }\n\
        [[variant]]\nname = \"coded\"\nprotocol = \"size-first\"";
    let text = flat(&format!("{workload}\n{rest}"));
    let split = ["codec.id=window7", "codec.ratio=1.3", "variant.coded.protocol=split-send"];
    assert_snapshot!(error(&text, &split), @"
    error: protocol `split-send` sends ahead what a codec leaves as it is, and frames of `window7` have no such part of F32 values
       |
       | --set variant.coded.protocol=split-send
       |                              ^^^^^^^^^^
       |
      ::: test.toml:12:1
       |
    12 | [codec]
       | ------- the codec
       |
       = help: the codecs `window7`, `tiered`, `rans`, `codebook16`, `grouped` and `auto` have one of BF16 values; `in-band` takes any codec and type
    ");
    assert_snapshot!(error(&text, &[]), @r#"
    error: codec `codebook16` does not code F32 values
      --> test.toml:12:1
       |
    12 | [codec]
       | ^^^^^^^
    ...
    17 | protocol = "size-first"
       |            ------------ used here
    "#);
    assert_snapshot!(error(&text, &["codec.id=raw"]), @r"
    error: the compression ratio of codec `raw` is unknown: the workload has no payload
      --> test.toml:12:1
       |
    12 | [codec]
       | ^^^^^^^
       |
       = help: state the ratio here, `ratio = 1.3`
    ");
    assert_snapshot!(error(&text, &["codec.id=window7:scale=half"]), @r"
    error: option `scale` of codec `window7` cannot be `half`
     |
     | --set codec.id=window7:scale=half
     |                ^^^^^^^^^^^^^^^^^^
     |
     = help: its values are `exact`, `std`, `mean-abs`
    ");
}
