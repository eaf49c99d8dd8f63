//! Files that releases compressed are restored for ever: each release has left some in `tests/it/file/releases`.
//!
//! Files of releases of one version in several formats are in folders of their own (`0.1.0` has format 1). A release of a new version begins with `cargo test -p zipwire-models --test it file::releases::writes -- --ignored`, which adds a folder and changes none.

use std::fs;
use std::path::Path;

use super::common::{Folder, archive, noise, safetensors, weights};
use crate::{names_of_releases, releases};
use xxhash_rust::xxh3::xxh3_64;
use zipwire_codec::DType;
use zipwire_models::file::{
    Compression, FORMAT_VERSION, Model, Values, Watch, compress, compress_values, restore,
};

/// Each release has these: a model, by two codecs; the one after it as differences from it; a zip archive; values without a header; and what they restore to.
const MODEL: [&str; 2] = ["model.rans.zw", "model.tiered.zw"];
const NEXT: &str = "next.delta.zw";
const RAW: &str = "values.zw";
const ARCHIVE: &str = "archive.zw";
const LIST: &str = "list.txt";

/// Name of the folder of this version of the program and of the format.
fn this_release() -> String {
    format!("{}-format-{FORMAT_VERSION}", env!("CARGO_PKG_VERSION"))
}

fn hash(path: &Path) -> String {
    format!("{:016x}", xxh3_64(&fs::read(path).unwrap()))
}

#[test]
fn files_of_all_releases_are_restored() {
    let names = names_of_releases("file");
    assert!(names.iter().any(|name| *name == this_release()), "this format has left nothing: see the head");
    for name in names {
        let folder = releases("file").join(&name);
        let out = Folder::new();
        let restored = |file: &str, base: Option<&Path>| {
            let again = out.path(&format!("{file}.back"));
            let base = base.map(|base| Model::open(base).unwrap().into());
            let model = Model::open_with(&folder.join(file), base).unwrap();
            restore(&model, &again, false, &Watch::default()).unwrap();
            again
        };
        let mut found = String::new();
        let mut list = |file: &str, again: &Path| found += &format!("{file} {}\n", hash(again));
        MODEL.iter().for_each(|file| list(file, &restored(file, None)));
        list(NEXT, &restored(NEXT, Some(&folder.join(MODEL[0]))));
        list(ARCHIVE, &restored(ARCHIVE, None));
        let again = out.path("values");
        Values::open(&folder.join(RAW)).unwrap().unwrap().restore(&again, false, &Watch::default()).unwrap();
        list(RAW, &again);
        assert_eq!(found, fs::read_to_string(folder.join(LIST)).unwrap(), "{name}");
    }
}

/// Writes the folder of this version. What a release wrote is not written again.
#[test]
#[ignore = "writes files of a new release"]
fn writes_the_files_of_this_release() {
    let folder = releases("file").join(this_release());
    fs::create_dir(&folder).unwrap();
    let plain = Folder::new();
    let tensors = |seed: u64| {
        let near = |values: Vec<u8>| {
            values.iter().enumerate().map(|(i, b)| b ^ u8::from(i % 61 < seed as usize)).collect()
        };
        vec![
            ("f64", "F64", vec![3], noise(24, 2)),
            ("ids", "I64", vec![200, 10], (0..2000_i64).flat_map(i64::to_le_bytes).collect()),
            ("embed", "BF16", vec![300, 100], near(weights(30_000, 3))),
            ("half", "F16", vec![5000], near(weights(5000, 4))),
            ("f32", "F32", vec![20, 100], weights(4000, 5)),
            (
                "e4m3",
                "F8_E4M3",
                vec![6000],
                near(weights(6000, 6).chunks(2).map(|value| value[1] & 0x7f).collect()),
            ),
            ("empty", "F16", vec![0, 17], vec![]),
            // Neighbours that share a chunk, and one that is kept as it is.
            ("norm.0", "BF16", vec![900], near(weights(900, 7))),
            ("norm.1", "BF16", vec![901], near(weights(901, 8))),
            ("noise", "F16", vec![100], noise(200, 9)),
        ]
    };
    let path = |name: &str, seed: u64| {
        let path = plain.path(name);
        fs::write(&path, safetensors(&tensors(seed), Some("{\"format\":\"pt\"}"))).unwrap();
        path
    };
    let (first, next) = (path("model", 0), path("next", 2));
    let by = |spec: &str| Compression { spec: spec.parse().unwrap(), force: false, keep_trailing: false };
    let mut list = String::new();
    for (file, spec) in MODEL.into_iter().zip(["rans", "tiered"]) {
        compress(&first, &folder.join(file), &by(spec), None, &Watch::default()).unwrap();
        list += &format!("{file} {}\n", hash(&first));
    }
    let base = Model::open(&first).unwrap();
    compress(&next, &folder.join(NEXT), &by("delta+rans"), Some(&base.into()), &Watch::default()).unwrap();
    list += &format!("{NEXT} {}\n", hash(&next));
    let zip = plain.path("archive");
    fs::write(&zip, archive(&[("m/data.pkl", noise(90, 9)), ("m/data/0", weights(20_000, 10))])).unwrap();
    compress(&zip, &folder.join(ARCHIVE), &by("rans"), None, &Watch::default()).unwrap();
    list += &format!("{ARCHIVE} {}\n", hash(&zip));
    let values = plain.path("values");
    fs::write(&values, [weights(9000, 8), vec![7]].concat()).unwrap();
    compress_values(&values, &folder.join(RAW), DType::Bf16, &by("rans"), &Watch::default()).unwrap();
    list += &format!("{RAW} {}\n", hash(&values));
    fs::write(folder.join(LIST), list).unwrap();
}
