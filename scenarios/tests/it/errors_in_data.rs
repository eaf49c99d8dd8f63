//! What a user sees when a file that the scenario names is missing or wrong: whole messages.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use crate::common;

use common::{Folder, flat, routing_record, safetensors, valid_with};
use insta::assert_snapshot;

const SHARES: [u64; 8] = [5, 1, 1, 1, 2, 2, 2, 2];

fn routing(table: &str) -> String {
    valid_with("\"uniform\"", table)
}

#[test]
fn routing_file_is_missing() {
    assert_snapshot!(Folder::new().error(&routing("{ matrix = \"r.jsonl\", layer = 2 }"), &[]), @r#"
    error: cannot read `r.jsonl`: No such file or directory (os error 2)
      --> test.toml:14:22
       |
    14 | routing = { matrix = "r.jsonl", layer = 2 }
       |                      ^^^^^^^^^
    "#);
}

#[test]
fn no_record_has_the_ranks() {
    let records =
        routing_record(10, 2, 8, "domain", &SHARES) + &routing_record(10, 3, 16, "shuffled", &SHARES);
    let folder = Folder::new().with("r.jsonl", records);
    assert_snapshot!(folder.error(&routing("{ matrix = \"r.jsonl\", layer = 2 }"), &[]), @r#"
    error: `r.jsonl` has 0 records with layer 2, 4 ranks, and exactly one is needed
      --> test.toml:14:22
       |
    14 | routing = { matrix = "r.jsonl", layer = 2 }
       |                      ^^^^^^^^^
       |
       = help: the file has step 10, layer 2, 8 ranks, sharding `domain`; step 10, layer 3, 16 ranks, sharding `shuffled`
    "#);
}

#[test]
fn several_records_fit() {
    let records = routing_record(10, 2, 4, "domain", &SHARES) + &routing_record(20, 2, 4, "domain", &SHARES);
    let folder = Folder::new().with("r.jsonl", records);
    assert_snapshot!(folder.error(&routing("{ matrix = \"r.jsonl\", layer = 2 }"), &[]), @r#"
    error: `r.jsonl` has 2 records with layer 2, 4 ranks, and exactly one is needed
      --> test.toml:14:22
       |
    14 | routing = { matrix = "r.jsonl", layer = 2 }
       |                      ^^^^^^^^^
       |
       = help: the file has step 10, layer 2, 4 ranks, sharding `domain`; step 20, layer 2, 4 ranks, sharding `domain`
    "#);
}

#[test]
fn record_of_another_model() {
    let folder = Folder::new().with("r.jsonl", routing_record(10, 2, 4, "domain", &SHARES[..4]));
    assert_snapshot!(folder.error(&routing("{ matrix = \"r.jsonl\" }"), &[]), @r#"
    error: the model has `8` experts, the record in `r.jsonl` has `4`
      --> test.toml:14:22
       |
    14 | routing = { matrix = "r.jsonl" }
       |                      ^^^^^^^^^
       |
       = help: set `experts = 4`, or name another record
    "#);
    let folder = Folder::new().with("t.csv", "step,layer,e0,e1\n0,0,3,4\n");
    assert_snapshot!(folder.error(&routing("{ trace = \"t.csv\", step = 0 }"), &[]), @r#"
    error: the model has `8` experts, the record in `t.csv` has `2`
      --> test.toml:14:21
       |
    14 | routing = { trace = "t.csv", step = 0 }
       |                     ^^^^^^^
       |
       = help: set `experts = 2`, or name another record
    "#);
}

#[test]
fn record_without_tokens() {
    let folder = Folder::new().with("t.csv", "step,layer,e0,e1,e2,e3,e4,e5,e6,e7\n0,0,0,0,0,0,0,0,0,0\n");
    assert_snapshot!(folder.error(&routing("{ trace = \"t.csv\", step = 0 }"), &[]), @r#"
    error: the record in `t.csv` routes no token
      --> test.toml:14:21
       |
    14 | routing = { trace = "t.csv", step = 0 }
       |                     ^^^^^^^
    "#);
}

#[test]
fn payload_files() {
    let payload = "payload = { file = \"a.safetensors\", dispatch = \"x\", combine = \"x\" }";
    let text = valid_with("payload = { gaussian = 0.02 }", payload);
    assert_snapshot!(Folder::new().error(&text, &[]), @r#"
    error: cannot read `a.safetensors`: No such file or directory (os error 2)
      --> test.toml:15:20
       |
    15 | payload = { file = "a.safetensors", dispatch = "x", combine = "x" }
       |                    ^^^^^^^^^^^^^^^
    "#);
    let good = safetensors("x", "BF16", 2);
    Folder::new().with("a.safetensors", &good).load(&text);
    let folder = Folder::new().with("a.safetensors", safetensors("x", "F32", 4));
    assert_snapshot!(folder.error(&text, &[]), @r#"
    error: tensor `x` of `a.safetensors` holds `F32` values where `BF16` is needed
      --> test.toml:15:48
       |
    15 | payload = { file = "a.safetensors", dispatch = "x", combine = "x" }
       |                                                ^^^
    "#);
    let folder = Folder::new().with("a.safetensors", &good[..good.len() - 3]);
    assert_snapshot!(folder.error(&text, &[]), @r#"
    error: `a.safetensors` has `79` bytes where its header describes `82`
      --> test.toml:15:20
       |
    15 | payload = { file = "a.safetensors", dispatch = "x", combine = "x" }
       |                    ^^^^^^^^^^^^^^^
       |
       = help: the file is truncated; copy or download it again
    "#);
    let folder = Folder::new().with("a.safetensors", safetensors("xs", "BF16", 2));
    assert_snapshot!(folder.error(&text, &[]), @r#"
    error: `a.safetensors` has no tensor `x`
      --> test.toml:15:48
       |
    15 | payload = { file = "a.safetensors", dispatch = "x", combine = "x" }
       |                                                ^^^
       |
       = help: the nearest name is `xs`
    "#);
    let folder = Folder::new().with("a.safetensors", "no tensors");
    assert_snapshot!(folder.error(&text, &[]), @r#"
    error: `a.safetensors` is not a safetensors file: it begins with text, and not with the length of a header (in the header, bytes 0 to 8)
      --> test.toml:15:20
       |
    15 | payload = { file = "a.safetensors", dispatch = "x", combine = "x" }
       |                    ^^^^^^^^^^^^^^^
       |
       = help: tensors are read from safetensors files, as `safetensors.torch.save_file` writes them
    "#);
    assert_snapshot!(folder.error(&text, &["workload.payload={ file = \"a.safetensors\", dispatch = \"x\" }"]), @r#"
    error: `a.safetensors` is not a safetensors file: it begins with text, and not with the length of a header (in the header, bytes 0 to 8)
     |
     | --set workload.payload={ file = "a.safetensors", dispatch = "x" }
     |                                 ^^^^^^^^^^^^^^^
     |
     = help: tensors are read from safetensors files, as `safetensors.torch.save_file` writes them
    "#);
}

/// Spreadsheets put one in front of UTF-8. It took the places of the first row apart, in the middle of a character.
#[test]
fn a_byte_order_mark_is_none_of_a_file() {
    let text = flat("kind = \"transfers\"\nfile = \"f.csv\"\nstart = \"rank-ready\"");
    Folder::new().with("f.csv", "\u{feff}src,dst,bytes,start_us\n0,1,5,0\n").load(&text);
    assert_snapshot!(Folder::new().with("f.csv", "\u{feff}\u{b5}s\n").error(&text, &[]), @r#"
    error: the columns must be `src,dst,bytes,start_us`, found `µs`
     --> f.csv:1:1
      |
    1 | µs
      | ^^
      |
     ::: test.toml:9:8
      |
    9 | file = "f.csv"
      |        ------- named here
      |
      = help: write the names of the columns, `src,dst,bytes,start_us`, in the first line, and a line like `0,1,1048576,0` for each row
    "#);
}

#[test]
fn flow_files() {
    let text = flat("kind = \"transfers\"\nfile = \"f.csv\"\nstart = \"rank-ready\"");
    let error = |csv: &str| Folder::new().with("f.csv", csv).error(&text, &[]);
    assert_snapshot!(Folder::new().error(&text, &[]), @r#"
    error: cannot read `f.csv`: No such file or directory (os error 2)
     --> test.toml:9:8
      |
    9 | file = "f.csv"
      |        ^^^^^^^
    "#);
    assert_snapshot!(error(""), @r#"
    error: the columns must be `src,dst,bytes,start_us`, found nothing
     --> test.toml:9:8
      |
    9 | file = "f.csv"
      |        ^^^^^^^
      |
      = help: write the names of the columns, `src,dst,bytes,start_us`, in the first line, and a line like `0,1,1048576,0` for each row
    "#);
    assert_snapshot!(error("src,dst,bytes,start_us\n\n"), @r#"
    error: `f.csv` holds no rows
     --> test.toml:9:8
      |
    9 | file = "f.csv"
      |        ^^^^^^^
      |
      = help: add a line like `0,1,1048576,0` for each row
    "#);
    assert_snapshot!(error("src,dst,size,start_us\n0,1,5,0\n"), @r#"
    error: the columns must be `src,dst,bytes,start_us`, found `src,dst,size,start_us`
     --> f.csv:1:1
      |
    1 | src,dst,size,start_us
      | ^^^^^^^^^^^^^^^^^^^^^
      |
     ::: test.toml:9:8
      |
    9 | file = "f.csv"
      |        ------- named here
      |
      = help: write the names of the columns, `src,dst,bytes,start_us`, in the first line, and a line like `0,1,1048576,0` for each row
    "#);
    assert_snapshot!(error("src,dst,bytes,start_us\n0,1,5,0\n\n0, 1.5 ,5,0\n"), @r#"
    error: column `dst` must be a whole number, found `1.5`
     --> f.csv:4:4
      |
    4 | 0, 1.5 ,5,0
      |    ^^^
      |
     ::: test.toml:9:8
      |
    9 | file = "f.csv"
      |        ------- named here
    "#);
    assert_snapshot!(error("src,dst,bytes,start_us\r\n0,1,5,0\r\n0,4,5,0\r\n"), @r#"
    error: `dst` is out of range: `4`
     --> f.csv:3:3
      |
    3 | 0,4,5,0
      |   ^
      |
     ::: test.toml:9:8
      |
    9 | file = "f.csv"
      |        ------- named here
      |
      = help: it must be from 0 to 3
    "#);
    assert_snapshot!(error("src,dst,bytes,start_us\n1,1,5,0\n"), @r#"
    error: a flow from rank `1` to itself
     --> f.csv:2:3
      |
    2 | 1,1,5,0
      |   ^
      |
     ::: test.toml:9:8
      |
    9 | file = "f.csv"
      |        ------- named here
    "#);
    assert_snapshot!(error("src,dst,bytes,start_us\n0,1,-5,0\n"), @r#"
    error: `bytes` is out of range: `-5`
     --> f.csv:2:5
      |
    2 | 0,1,-5,0
      |     ^^
      |
     ::: test.toml:9:8
      |
    9 | file = "f.csv"
      |        ------- named here
      |
      = help: it must be from 1 to 1099511627776
    "#);
    assert_snapshot!(error("src,dst,bytes,start_us\n0,1,5,nan\n"), @r#"
    error: `start_us` is out of range: `nan`
     --> f.csv:2:7
      |
    2 | 0,1,5,nan
      |       ^^^
      |
     ::: test.toml:9:8
      |
    9 | file = "f.csv"
      |        ------- named here
      |
      = help: it must be from 0 to 1000000000000
    "#);
    assert_snapshot!(error("src,dst,bytes,start_us\n0,1,5\n"), @r#"
    error: a row of 3 fields where 4 are needed
     --> f.csv:2:1
      |
    2 | 0,1,5
      | ^^^^^
      |
     ::: test.toml:9:8
      |
    9 | file = "f.csv"
      |        ------- named here
    "#);
    assert_snapshot!(error("src,dst,bytes,start_us\n0,1,5,1\n0,2,5,2\n"), @r#"
    error: rank `0` is ready at `0.000002` s here and at `0.000001` s before
     --> f.csv:3:7
      |
    3 | 0,2,5,2
      |       ^
      |
     ::: test.toml:9:8
      |
    9 | file = "f.csv"
      |        ------- named here
    "#);
}

#[test]
fn matrix_files() {
    let text = flat("kind = \"collective\"\ncollective = \"all-to-all\"\nmatrix = \"m.csv\"");
    let error = |csv: &str| Folder::new().with("m.csv", csv).error(&text, &[]);
    assert_snapshot!(error("0,2\n2,0\n"), @r#"
    error: `workload.matrix` has 2 rows for `4` ranks
      --> test.toml:10:10
       |
    10 | matrix = "m.csv"
       |          ^^^^^^^
    "#);
    assert_snapshot!(error("0,2,2,2\n2,0,2,2\n2,2,0\n2,2,2,0\n"), @r#"
    error: a row of 3 fields where 4 are needed
      --> m.csv:3:1
       |
     3 | 2,2,0
       | ^^^^^
       |
      ::: test.toml:10:10
       |
    10 | matrix = "m.csv"
       |          ------- named here
    "#);
    assert_snapshot!(error("0,2,2,2\n2,0,2,2\n2,2,0,x\n2,2,2,0\n"), @r#"
    error: column `3` must be a whole number, found `x`
      --> m.csv:3:7
       |
     3 | 2,2,0,x
       |       ^
       |
      ::: test.toml:10:10
       |
    10 | matrix = "m.csv"
       |          ------- named here
    "#);
    assert_snapshot!(error("# bytes\n\n0 2 2 2\n\t2  0\t2 \t2 \r\n2 2 0 1.5\n2 2 2 0\n"), @r#"
    error: column `3` must be a whole number, found `1.5`
      --> m.csv:5:7
       |
     5 | 2 2 0 1.5
       |       ^^^
       |
      ::: test.toml:10:10
       |
    10 | matrix = "m.csv"
       |          ------- named here
    "#);
    assert_snapshot!(error("0,2,2,2\n2,0,2,5\n2,2,0,2\n2,2,2,0\n"), @r#"
    error: `5` bytes are no whole number of BF16 values of 2 bytes
      --> m.csv:2:7
       |
     2 | 2,0,2,5
       |       ^
       |
      ::: test.toml:10:10
       |
    10 | matrix = "m.csv"
       |          ------- named here
    "#);
}

/// A recorded tensor is the payload of calls that send its type, and of no others.
#[test]
fn payloads_have_the_type_that_is_sent() {
    let sample = "../traces/samples/train_late_kv.fp8.safetensors";
    let sample = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(sample);
    let of = |dtype: &str| {
        flat(&format!(
            "kind = \"collective\"\ncollective = \"all-to-all\"\nbytes_per_rank = \"1 KiB\"\ndtype = \"{dtype}\"\n\
             payload = {{ file = \"kv.safetensors\", tensor = \"L2.k.e5m2_raw[0:4]|rows0:1\" }}"
        ))
    };
    let folder = || Folder::new().with("kv.safetensors", std::fs::read(&sample).unwrap());
    let payload = folder().load(&of("F8_E5M2")).payload.unwrap();
    assert_eq!(
        payload.source(zipwire_schedule::SegmentId(0)).row_bytes(),
        64,
        "the last dimension, a byte a value"
    );
    for other in ["BF16", "F8_E4M3"] {
        let error = folder().error(&of(other), &[]);
        assert!(error.contains(&format!("holds `F8_E5M2` values where `{other}` is needed")), "{error}");
    }
}
