//! A payload with a base: what both ends of a transfer have already, and what a user sees when there is something wrong with it.

use crate::common::{Folder, flat, safetensors};
use insta::assert_snapshot;
use zipwire_schedule::SegmentId;

/// One call of a tensor, coded as `delta+rans`.
fn sync(payload: &str, variant: &str) -> String {
    gather(
        payload,
        &format!("id = \"delta+rans\"\nspeed = {{ encode = \"2 GB/s\", decode = \"2 GB/s\" }}\n{variant}"),
    )
}

fn gather(payload: &str, codec: &str) -> String {
    flat(&format!(
        "kind = \"collective\"\ncollective = \"all-gather\"\nbytes_per_rank = \"64 B\"\n{payload}\n[codec]\n{codec}"
    ))
}

const SIZE_FIRST: &str = "[[variant]]\nname = \"coded\"\nprotocol = \"size-first\"";
const PAYLOAD: &str = "payload = { file = \"new.safetensors\", tensor = \"w\", base = \"old.safetensors\" }";

/// The tensor `w` after an update, and before: 4 x 2 values.
fn folder() -> Folder {
    let mut old = safetensors("w", "BF16", 2);
    let values = old.len() - 16;
    old[values..].reverse();
    Folder::new().with("new.safetensors", safetensors("w", "BF16", 2)).with("old.safetensors", old)
}

#[test]
fn chunks_have_a_base_where_the_payload_names_one() {
    let experiment = folder().load(&sync(PAYLOAD, SIZE_FIRST));
    let payload = experiment.payload.unwrap();
    let (source, base) = (payload.source(SegmentId(0)), payload.base(SegmentId(0)).unwrap());
    assert_eq!(base.as_bytes().iter().rev().copied().collect::<Vec<_>>(), source.as_bytes());
    // A base that no codec asks for is no mistake: variants may be left out.
    let plain = gather(
        PAYLOAD,
        &format!("id = \"rans\"\nspeed = {{ encode = \"2 GB/s\", decode = \"2 GB/s\" }}\n{SIZE_FIRST}"),
    );
    assert!(folder().load(&plain).payload.unwrap().base(SegmentId(0)).is_some());
    let bare = plain.replace(", base = \"old.safetensors\"", "");
    assert!(folder().load(&bare).payload.unwrap().base(SegmentId(0)).is_none());
}

#[test]
fn a_stated_ratio_is_that_of_differences_too() {
    let stated = sync("", SIZE_FIRST).replace("[[variant]]", "ratio = 7.5\n[[variant]]");
    assert!(folder().load(&stated).payload.is_none());
    // What runs for real would code no differences.
    let error = folder().error(&stated.replace("\n[codec]", "payload = { gaussian = 0.02 }\n[codec]"), &[]);
    assert!(error.contains("the payload has none"), "{error}");
}

#[test]
fn the_base_is_not_there() {
    assert_snapshot!(folder().error(&sync(&PAYLOAD.replace("old", "older"), SIZE_FIRST), &[]), @r#"
    error: the base: cannot read `older.safetensors`: No such file or directory (os error 2)
      --> test.toml:11:60
       |
    11 | payload = { file = "new.safetensors", tensor = "w", base = "older.safetensors" }
       |                                                            ^^^^^^^^^^^^^^^^^^^
    "#);
    let other = folder().with("old.safetensors", safetensors("v", "BF16", 2));
    assert_snapshot!(other.error(&sync(PAYLOAD, SIZE_FIRST), &[]), @r#"
    error: the base: `old.safetensors` has no tensor `w`
      --> test.toml:11:60
       |
    11 | payload = { file = "new.safetensors", tensor = "w", base = "old.safetensors" }
       |                                                ---         ^^^^^^^^^^^^^^^^^
       |                                                |
       |                                                the tensor
       |
       = help: the nearest name is `v`
    "#);
    assert_snapshot!(
        folder().error(&sync(&PAYLOAD.replace(", base = \"old.safetensors\"", ""), SIZE_FIRST), &[]), @r#"
    error: codec `delta+rans` takes differences from a base, and the payload has none
      --> test.toml:12:1
       |
    12 | [codec]
       | ^^^^^^^
       |
       = help: name the file of the tensors as all ranks have them already, `base = "OLD.safetensors"`, beside `file`
    "#);
    assert_snapshot!(folder().error(&sync("payload = { gaussian = 0.02 }", SIZE_FIRST), &[]), @r#"
    error: codec `delta+rans` takes differences from a base, and the payload has none
      --> test.toml:12:1
       |
    12 | [codec]
       | ^^^^^^^
       |
       = help: name a recorded tensor, and the file of it as all ranks have it already, `payload = { file = "NEW.safetensors", tensor = "NAME", base = "OLD.safetensors" }`, or take the codec `rans`
    "#);
    assert_snapshot!(
        folder().error(&sync("payload = { gaussian = 0.02, base = \"old.safetensors\" }", SIZE_FIRST), &[]), @r#"
    error: `workload.payload.base` has no effect: the payload is drawn, not read from a file
      --> test.toml:11:37
       |
    11 | payload = { gaussian = 0.02, base = "old.safetensors" }
       |                                     ^^^^^^^^^^^^^^^^^
    "#);
}

#[test]
fn the_base_is_another_tensor() {
    let other = folder().with("old.safetensors", safetensors("w", "F32", 4));
    assert_snapshot!(other.error(&sync(PAYLOAD, SIZE_FIRST), &[]), @r#"
    error: the base: tensor `w` of `old.safetensors` holds `F32` values where `BF16` is needed
      --> test.toml:11:60
       |
    11 | payload = { file = "new.safetensors", tensor = "w", base = "old.safetensors" }
       |                                                ---         ^^^^^^^^^^^^^^^^^
       |                                                |
       |                                                the tensor
    "#);
    // 4 x 2 values in the one, 2 x 4 in the other.
    let text = String::from_utf8_lossy(&safetensors("w", "BF16", 2)).replace("[4,2]", "[2,4]").into_bytes();
    let other = folder().with("old.safetensors", text);
    assert_snapshot!(other.error(&sync(PAYLOAD, SIZE_FIRST), &[]), @r#"
    error: tensor `w` of the base has 2 rows of 4 values, and the one that is sent 4 of 2
      --> test.toml:11:60
       |
    11 | payload = { file = "new.safetensors", tensor = "w", base = "old.safetensors" }
       |                                                ---         ^^^^^^^^^^^^^^^^^
       |                                                |
       |                                                the tensor
       |
       = help: name a checkpoint of the same model: its tensors have the same shapes
    "#);
}

#[test]
fn nobody_had_a_sum_before() {
    let reduce = sync(PAYLOAD, SIZE_FIRST).replace("all-gather", "reduce-scatter");
    assert_snapshot!(folder().error(&reduce, &[]), @r#"
    error: codec `delta+rans` takes differences from a base, and no rank has one of what is added up
      --> test.toml:17:12
       |
    12 | [codec]
       | ------- the codec
    ...
    17 | protocol = "size-first"
       |            ^^^^^^^^^^^^
       |
       = help: take the codec `rans`
    "#);
}

#[test]
fn the_speed_of_differences_is_stated() {
    let text =
        sync(PAYLOAD, SIZE_FIRST).replace("speed = { encode = \"2 GB/s\", decode = \"2 GB/s\" }\n", "");
    assert_snapshot!(folder().error(&text, &[]), @r#"
    error: how fast is codec `delta+rans`? neither the scenario nor its cluster says so
      --> test.toml:12:1
       |
    12 | [codec]
       | ^^^^^^^
       |
       = help: state `speed = { encode = "... GB/s", decode = "... GB/s" }`: hardware files have no speed of differences, which depends on how far values are from their base, and GPUs have no kernels for them yet; the example `deltas` of `zipwire-codec` measures that of a CPU
    "#);
}

#[test]
fn variants_without_differences_are_told() {
    let text = sync(PAYLOAD, SIZE_FIRST);
    assert_eq!(folder().load(&text).warnings(), Vec::<String>::new());
    let split = text + "\n[[variant]]\nname = \"in-time\"\nprotocol = \"static-first\"";
    let warnings = folder().load(&split).warnings();
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].starts_with("variant `in-time` codes no differences"), "{warnings:?}");
}
