//! A table that all frames of a codec share, and what a user sees when there is something wrong with it.

use crate::common::{Folder, VALID};
use insta::assert_snapshot;
use zipwire_codec::{DType, Layout, Spec};
use zipwire_traces::TableFile;

/// The file of a table of a codec for values of a type.
fn file(codec: &str, dtype: DType) -> String {
    let spec: Spec = codec.parse().unwrap();
    let sample: Vec<u8> = (0..4000u32).map(|i| ((i * i) >> 5) as u8).collect();
    let table = spec.train(Layout::Compact, dtype, &[&sample]).unwrap();
    TableFile { table, layout: Layout::Compact, values: 2000, missed: 10 }.to_text()
}

fn folder() -> Folder {
    let folder = Folder::new()
        .with("rans.json", file("rans", DType::Bf16))
        .with("book.json", file("codebook16", DType::Bf16));
    folder.with("fp8.json", file("rans", DType::F8E5M2))
}

fn with(codec: &str) -> String {
    VALID.replacen("id = \"window7\"", codec, 1)
}

#[test]
fn the_codec_names_the_table_of_the_file() {
    let experiment = folder().load(&with("id = \"rans:row=64\"\ntable = \"rans.json\""));
    let choice = experiment.codec.unwrap();
    let id = choice.spec.table().unwrap().id();
    assert_eq!(choice.spec.to_string(), format!("rans:row=64,table={id:08x}"));
    assert_eq!(choice.table_misses, Some(0.005));
    // The id may be said as well.
    let said = with(&format!("id = \"rans:table={id:08x}\"\ntable = \"rans.json\""));
    assert_eq!(folder().load(&said).codec.unwrap().spec.table().unwrap().id(), id);
    assert_eq!(folder().load(&with("id = \"rans\"")).codec.unwrap().spec.table(), None);
    // A variant has a table of its own, another one has that of the scenario.
    let own = "\ncodec = { id = \"codebook16\", table = \"book.json\", speed = { encode = \"2 GB/s\", decode = \"2 GB/s\" } }\n";
    let text = with("id = \"rans\"\ntable = \"rans.json\"") + own;
    let experiment = folder().load(&text);
    let spec = &experiment.codec_of(&experiment.variants[1]).unwrap().spec;
    assert!(spec.to_string().starts_with("codebook16:table="));
}

#[test]
fn mistakes_point_at_the_file() {
    let error = |codec: &str| folder().error(&with(codec), &[]);
    assert_snapshot!(error("id = \"rans\"\ntable = \"none.json\""), @r#"
    error: cannot read table `none.json`: No such file or directory (os error 2)
      --> test.toml:19:9
       |
    19 | table = "none.json"
       |         ^^^^^^^^^^^
    "#);
    assert_snapshot!(error("id = \"rans\"\ntable = \"book.json\""), @r#"
    error: table `b73c1a1b` is none of codec `rans`, it is one of `codebook16`
      --> test.toml:19:9
       |
    19 | table = "book.json"
       |         ^^^^^^^^^^^
       |
       = help: name a table of the codec
    "#);
    assert_snapshot!(error("id = \"tiered\"\ntable = \"rans.json\""), @r#"
    error: codec `tiered` takes no table
      --> test.toml:19:9
       |
    19 | table = "rans.json"
       |         ^^^^^^^^^^^
       |
       = help: leave `table` out, or take the codec `codebook16` or `rans`
    "#);
    assert_snapshot!(error("id = \"rans:table=0a1b2c3d\"\ntable = \"rans.json\""), @r#"
    error: `rans:table=0a1b2c3d` names another table than `c538a472`
      --> test.toml:19:9
       |
    19 | table = "rans.json"
       |         ^^^^^^^^^^^
       |
       = help: leave the table out of `id`: the file says which it is
    "#);
    assert_snapshot!(error("id = \"rans:table=0a1b2c3d\""), @r#"
    error: codec `rans:table=0a1b2c3d` names a table, and no file has it
      --> test.toml:18:6
       |
    18 | id = "rans:table=0a1b2c3d"
       |      ^^^^^^^^^^^^^^^^^^^^^
       |
       = help: name the file of the table, `table = "FILE.json"`
    "#);
    assert_snapshot!(error("id = \"rans\"\ntable = \"fp8.json\""), @r#"
    error: the table of codec `rans:table=a26d15fc` is for F8_E5M2 values, and the workload sends BF16
      --> test.toml:17:1
       |
    17 | [codec]
       | ^^^^^^^
    ...
    27 | protocol = "static-first"
       |            -------------- used here
       |
       = help: train one from samples of that type, `zipwire calibrate table --dtype BF16`, or leave `table` out
    "#);
    let damaged = folder()
        .with("rans.json", file("rans", DType::Bf16).replacen("\"bytes\": \"0500", "\"bytes\": \"0501", 1));
    let text = damaged.error(&with("id = \"rans\"\ntable = \"rans.json\""), &[]);
    assert!(
        text.contains("is damaged: it says that its id is `") && text.contains("zipwire calibrate table"),
        "{text}"
    );
}
