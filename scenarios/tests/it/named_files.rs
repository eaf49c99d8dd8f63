//! Files that a scenario names and that are too long, or not text, for `errors/*.txt`.

use crate::common::{Folder, flat, routing_record, safetensors, valid_with};
use insta::assert_snapshot;

const SHARES: [u64; 8] = [5, 1, 1, 1, 2, 2, 2, 2];

fn routing(table: &str) -> String {
    valid_with("\"uniform\"", table)
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
