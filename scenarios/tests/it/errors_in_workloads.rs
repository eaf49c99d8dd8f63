//! What a user sees when a workload, or what computes in it, is wrong in the scenario file: whole messages.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use crate::common;

use common::{error, flat, valid_with};
use insta::assert_snapshot;

#[test]
fn top_k() {
    assert_snapshot!(error(&valid_with("top_k = 2", "top_k = 9"), &[]), @r"
    error: a token cannot go to `9` of `8` experts
      --> test.toml:13:32
       |
    13 | model = { experts = 8, top_k = 9, hidden = 256, tokens_per_rank = 64 }
       |                                ^
    ");
}

#[test]
fn choices_that_exclude_each_other() {
    assert_snapshot!(error(&valid_with("\"uniform\"", "{ zipf = 1.0, dirichlet = 2 }"), &[]), @r"
    error: `workload.routing` needs exactly one of `matrix`, `trace`, `dirichlet` and `zipf`, found `dirichlet` and `zipf`
      --> test.toml:14:20
       |
    14 | routing = { zipf = 1.0, dirichlet = 2 }
       |                    ^^^              - and here
    ");
    assert_snapshot!(error(&valid_with("\"uniform\"", "{ layer = 2 }"), &[]), @r"
    error: `workload.routing` needs exactly one of `matrix`, `trace`, `dirichlet` and `zipf`, found none
      --> test.toml:14:11
       |
    14 | routing = { layer = 2 }
       |           ^^^^^^^^^^^^^
    ");
    assert_snapshot!(error(&valid_with("\"uniform\"", "{ zipf = 1.0, layer = 2 }"), &[]), @r"
    error: `workload.routing.layer` has no effect: it selects a record, and this routing is synthetic
      --> test.toml:14:33
       |
    14 | routing = { zipf = 1.0, layer = 2 }
       |                                 ^
    ");
    assert_snapshot!(error(&valid_with("[codec]", "[compute]\nnoise = 0.1\n[codec]"), &[]), @r"
    error: `compute.noise` has no effect: without `expert`, computation takes no time
      --> test.toml:18:9
       |
    18 | noise = 0.1
       |         ^^^
    ");
    let skew = |table: &str| valid_with("routing = ", &format!("skew = {table}\nrouting = "));
    assert_snapshot!(error(&skew("{ base = \"1 ms\", sigma = 1.0 }"), &[]), @r#"
    error: `workload.skew.sigma` has no effect: only the distribution `lognormal` has one
      --> test.toml:14:33
       |
    14 | skew = { base = "1 ms", sigma = 1.0 }
       |                                 ^^^
    "#);
    assert_snapshot!(error(&skew("{ distribution = \"lognormal\" }"), &[]), @r#"
    error: missing key `sigma` in `workload.skew`
      --> test.toml:14:8
       |
    14 | skew = { distribution = "lognormal" }
       |        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
       |
       = help: add `sigma = 1.0` to `workload.skew`
    "#);
    let text = flat("kind = \"transfers\"\nflows = []\n[compute]\nexpert = \"1 ms\"");
    assert_snapshot!(error(&text, &[]), @r"
    error: `compute` has no effect: the workload has no model that computes
      --> test.toml:10:1
       |
    10 | [compute]
       | ^^^^^^^^^
    ");
}

#[test]
fn experts() {
    let experts = |table: &str| valid_with("routing = ", &format!("experts = {table}\nrouting = "));
    assert_snapshot!(error(&experts("{ placement = \"round\" }"), &[]), @r#"
    error: unknown placement `round`
      --> test.toml:14:25
       |
    14 | experts = { placement = "round" }
       |                         ^^^^^^^
       |
       = help: did you mean `round-robin`? it must be one of `contiguous`, `round-robin` and `balanced`
    "#);
    assert_snapshot!(error(&experts("{ replicas = 25 }"), &[]), @r"
    error: `workload.experts.replicas` is out of range: `25`
      --> test.toml:14:24
       |
    14 | experts = { replicas = 25 }
       |                        ^^
       |
       = help: it must be at most 24: experts x (ranks - 1), a copy on every rank
    ");
    assert_snapshot!(error(&experts("{ replicas = 5000 }"), &[]), @r"
    error: `workload.experts.replicas` is out of range: `5000`
      --> test.toml:14:24
       |
    14 | experts = { replicas = 5000 }
       |                        ^^^^
       |
       = help: it must be an integer from 0 to 4096
    ");
}

#[test]
fn collectives() {
    let collective =
        |rest: &str| flat(&format!("kind = \"collective\"\ncollective = \"all-to-all\"\n{rest}"));
    assert_snapshot!(error(&collective("bytes_per_rank = \"7 B\""), &[]), @r#"
    error: `workload.bytes_per_rank` is out of range: `7 B`
      --> test.toml:10:18
       |
    10 | bytes_per_rank = "7 B"
       |                  ^^^^^
       |
       = help: it must be whole bytes from 8 B to 1 TiB
    "#);
    assert_snapshot!(error(&collective("bytes_per_rank = \"1 KiB\"\nstart = [\"0 us\", \"3 ms\"]"), &[]), @r#"
    error: `workload.start` has 2 entries for `4` ranks
      --> test.toml:11:9
       |
    11 | start = ["0 us", "3 ms"]
       |         ^^^^^^^^^^^^^^^^
    "#);
    let rows = "matrix = [\n  [0, 2, 4, 6],\n  [2, 0, 3, 2],\n  [2, 2, 0, 2],\n  [2, 2, 2, 0],\n]";
    assert_snapshot!(error(&collective(rows), &[]), @r"
    error: `3` bytes are no whole number of BF16 values of 2 bytes
      --> test.toml:12:10
       |
    12 |   [2, 0, 3, 2],
       |          ^
    ");
    let coded = "bytes_per_rank = \"1 KiB\"\ndtype = \"F32\"\npayload = { gaussian = 1.0 }";
    assert_snapshot!(error(&collective(coded), &[]), @r#"
    error: values are drawn as BF16, and the workload sends F32
      --> test.toml:12:11
       |
    12 | payload = { gaussian = 1.0 }
       |           ^^^^^^^^^^^^^^^^^^
       |
       = help: name a recorded tensor of F32 by `file` and `tensor`, leave `payload` out, or send `dtype = "BF16"`
    "#);
}

#[test]
fn flows() {
    let flows =
        |flow: &str| flat(&format!("kind = \"transfers\"\nstart = \"rank-ready\"\nflows = [\n{flow}\n]"));
    let good = "  { src = 0, dst = 1, bytes = \"1 KiB\", start = \"2 us\" },\n";
    assert_snapshot!(error(&flows("  { src = 0, dst = 0, bytes = \"1 KiB\" }"), &[]), @r#"
    error: a flow from rank `0` to itself
      --> test.toml:11:3
       |
    11 |   { src = 0, dst = 0, bytes = "1 KiB" }
       |   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    "#);
    assert_snapshot!(error(&flows("  { src = 0, dst = 4, bytes = \"1 KiB\" }"), &[]), @r#"
    error: `workload.flows.0.dst` is out of range: `4`
      --> test.toml:11:20
       |
    11 |   { src = 0, dst = 4, bytes = "1 KiB" }
       |                    ^
       |
       = help: it must be an integer from 0 to 3
    "#);
    assert_snapshot!(error(&flows(&format!("{good}  {{ src = 0, dst = 2, bytes = \"1 KiB\" }}")), &[]), @r#"
    error: rank `0` is ready at `0` s here and at `0.000002` s before
      --> test.toml:12:3
       |
    12 |   { src = 0, dst = 2, bytes = "1 KiB" }
       |   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    "#);
}

#[test]
fn coded_flows() {
    let scenario = |workload: &str, variant: &str| {
        let flows =
            "flows = [{ src = 0, dst = 1, bytes = \"4 B\" }, { src = 2, dst = 3, bytes = \"1001 B\" }]";
        flat(&format!("kind = \"transfers\"\n{workload}{flows}\n[[variant]]\nname = \"a\"\n{variant}"))
    };
    assert_snapshot!(error(&scenario("", "protocol = \"size-first\""), &[]), @r#"
    error: protocol `size-first` codes whole values, and flow 1 of `workload`, from rank 2 to rank 3, has 1001 bytes: BF16 has 2 bytes per value
      --> test.toml:12:12
       |
    12 | protocol = "size-first"
       |            ^^^^^^^^^^^^
       |
       = help: make its `bytes` a multiple of 2, set `workload.dtype` to a type of one byte, `F8_E4M3` or `F8_E5M2`, or let the variant be `native`
    "#);
    assert_snapshot!(error(&scenario("dtype = \"F32\"\n", "protocol = \"in-band\""), &[]), @r#"
    error: protocol `in-band` codes whole values, and flow 1 of `workload`, from rank 2 to rank 3, has 1001 bytes: F32 has 4 bytes per value
      --> test.toml:13:12
       |
    13 | protocol = "in-band"
       |            ^^^^^^^^^
       |
       = help: make its `bytes` a multiple of 4, set `workload.dtype` to a type of one byte, `F8_E4M3` or `F8_E5M2`, or let the variant be `native`
    "#);
    let adaptive = "protocol = \"adaptive\"\narms = [\"b\", \"c\"]";
    assert_snapshot!(error(&scenario("", adaptive), &[]), @r#"
    error: protocol `adaptive` chooses anew for each collective call, and explicit flows are none
      --> test.toml:12:12
       |
    12 | protocol = "adaptive"
       |            ^^^^^^^^^^
       |
       = help: leave `protocol` out, or name one of those that a run is to compare
    "#);
    let bytes = "dtype = \"F8_E4M3\"\n";
    for key in [
        "order = \"largest-first\"",
        "window = 2",
        "arenas = 1",
        "algorithm = \"ring\"",
        "dedup = \"node\"",
        "slices = 2",
    ] {
        let text = error(&scenario(bytes, &format!("protocol = \"size-first\"\n{key}")), &[]);
        assert!(text.contains("has no effect"), "{text}");
    }
    assert_snapshot!(error(&scenario(bytes, "protocol = \"size-first\"\narenas = 1"), &[]), @r#"
    error: `variant.0.arenas` has no effect: the frames of each explicit flow have memory of their own
      --> test.toml:14:10
       |
    14 | arenas = 1
       |          ^
    "#);
    assert_snapshot!(error(&scenario(bytes, "protocol = \"size-first\""), &[]), @r#"
    error: protocol `size-first` needs a codec, and the scenario has none
      --> test.toml:13:12
       |
    13 | protocol = "size-first"
       |            ^^^^^^^^^^^^
       |
       = help: add a table `[codec]` with `id = "window7"`, and its `speed` where the cluster has no `codec_speed`
    "#);
}

#[test]
fn weights_for_nobody() {
    let scenario = |workload: &str| {
        format!(
            "name = \"t\"\n[cluster]\nnodes = 1\ngpus_per_node = 4\ngpu_bandwidth = \"25 GB/s\"\nlatency_intra = \"5 us\"\n\
             [workload]\nkind = \"weight-sync\"\n{workload}\n"
        )
    };
    assert_snapshot!(error(&scenario("trainers = 4\nbytes = \"1 MiB\"\nstep = \"1 ms\""), &[]), @r#"
    error: `workload.trainers` is out of range: `4`
     --> test.toml:9:12
      |
    9 | trainers = 4
      |            ^
      |
      = help: it must be at most 3: one of the 4 ranks does not train
    "#);
    assert_snapshot!(error(&scenario("trainers = 2\nbytes = \"3 B\"\nstep = \"1 ms\""), &[]), @r#"
    error: `3` bytes are no whole number of BF16 values of 2 bytes
      --> test.toml:10:9
       |
    10 | bytes = "3 B"
       |         ^^^^^
    "#);
    assert_snapshot!(error(&scenario("trainers = 2\nbytes = \"1 MiB\"\nmodel = \"llama3-8b\"\nstep = \"1 ms\""), &[]), @r#"
    error: `workload` needs exactly one of `bytes` and `model`, found `bytes` and `model`
      --> test.toml:11:9
       |
    10 | bytes = "1 MiB"
       |         ------- and here
    11 | model = "llama3-8b"
       |         ^^^^^^^^^^^
    "#);
    assert_snapshot!(error(&scenario("trainers = 2\nbytes = \"1 MiB\"\nstep = \"1 ms\"\nevery = 0"), &[]), @r#"
    error: `workload.every` is out of range: `0`
      --> test.toml:12:9
       |
    12 | every = 0
       |         ^
       |
       = help: it must be an integer from 1 to 1024
    "#);
    assert_snapshot!(error(&scenario("trainers = 2\nbytes = \"1 MiB\"\nstep = \"1 ms\"\nupdate = \"overlap\""), &[]), @r#"
    error: unknown time of updates `overlap`
      --> test.toml:12:10
       |
    12 | update = "overlap"
       |          ^^^^^^^^^
       |
       = help: it must be one of `exposed` and `overlapped`
    "#);
    assert_snapshot!(error(&scenario("trainers = 2\nbytes = \"1 MiB\"\nstep = \"-1 ms\""), &[]), @r#"
    error: `workload.step` is out of range: `-1 ms`
      --> test.toml:11:8
       |
    11 | step = "-1 ms"
       |        ^^^^^^^
       |
       = help: it must be from 0 s to 1000000 s
    "#);
    let many = scenario("trainers = 1\nbytes = \"1 MiB\"\nstep = \"1 ms\"\nevery = 1024").replacen(
        "name",
        "iterations = 100000\nname",
        1,
    );
    assert!(
        error(&many, &[]).contains("`iterations x segments x ranks` is out of range: `410000000`"),
        "{}",
        error(&many, &[])
    );
    assert_snapshot!(error(&scenario("trainers = 1\nmodel = { preset = \"deepseek-v3\" }\nstep = \"1 ms\""), &[]), @r#"
    error: `the bytes that one rank sends or receives` is out of range: `1342052808704`
      --> test.toml:10:9
       |
    10 | model = { preset = "deepseek-v3" }
       |         ^^^^^^^^^^^^^^^^^^^^^^^^^^
       |
       = help: it must be at most 1 TiB
    "#);
}
