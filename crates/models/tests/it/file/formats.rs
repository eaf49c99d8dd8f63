//! Files that other programs wrote, of formats with tensors: `traces/samples/formats`, and `write.py` there.

use std::fs;
use std::path::{Path, PathBuf};

use super::common::{Folder, compressed};
use zipwire_models::file::{Model, Watch, files_below, restore, verify};
use zipwire_models::store::{Addition, Parent, Store, Writer, add, restore as restore_checkpoint};

fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/samples")
}

/// Names and types of the tensors that are coded, of a file that was compressed and comes back.
fn coded(file: &str) -> (Model, Vec<(String, String)>) {
    let folder = Folder::new();
    let (plain, packed) = (samples().join("formats").join(file), folder.path("packed"));
    let made = compressed("auto", &plain, &packed).unwrap();
    assert!(made.bytes_coded < made.bytes_raw, "{file}: {made:?}");
    let model = Model::open(&packed).unwrap();
    verify(&model, &Watch::default()).unwrap();
    restore(&model, &folder.path("again"), false, &Watch::default()).unwrap();
    assert!(fs::read(folder.path("again")).unwrap() == fs::read(&plain).unwrap(), "{file}");
    let tensors = model.tensors().iter().filter(|tensor| !tensor.name.starts_with("zipwire.between."));
    let tensors = tensors.map(|tensor| (tensor.name.clone(), tensor.dtype.clone())).collect();
    (model, tensors)
}

/// The recorded router, whose values the files have.
fn router() -> Vec<u8> {
    let file = Model::open(&samples().join("train_late_weights.bf16.safetensors")).unwrap();
    file.read("L2.ffn.router").unwrap()
}

fn wide(values: &[u8]) -> Vec<u8> {
    values.as_chunks::<2>().0.iter().flat_map(|value| [0, 0, value[0], value[1]]).collect()
}

fn owned(names: &[(&str, &str)]) -> Vec<(String, String)> {
    names.iter().map(|(name, dtype)| ((*name).to_owned(), (*dtype).to_owned())).collect()
}

#[test]
fn tensors_of_a_gguf_file_are_coded_where_they_are_of_types_that_codecs_know() {
    let (model, tensors) = coded("tiny.gguf");
    assert_eq!(tensors, owned(&[("blk.0.attn_q.weight", "F16"), ("blk.0.ffn_up.weight", "BF16")]));
    assert!(model.read("blk.0.ffn_up.weight").unwrap() == router());
}

#[test]
fn members_of_archives_and_of_checkpoints_are_coded() {
    let (model, tensors) = coded("tiny.pt");
    assert_eq!(tensors, owned(&[("tiny/data/0", "BF16")]));
    assert!(model.read("tiny/data/0").unwrap() == router());
    // An archive for each tensor.
    let (model, tensors) = coded("dcp/__0_0.distcp");
    let of_type = |dtype: &str| tensors.iter().find(|tensor| tensor.1 == dtype).unwrap().0.clone();
    assert_eq!(tensors.len(), 2, "{tensors:?}");
    assert!(tensors.iter().all(|(name, _)| name.ends_with("/archive/data/0")), "{tensors:?}");
    assert!(model.read(&of_type("BF16")).unwrap() == router());
    assert!(model.read(&of_type("F32")).unwrap() == wide(&router()));
    for rank in 0..2 {
        let (_, tensors) = coded(&format!("fsdp/__{rank}_0.distcp"));
        assert!(tensors.len() >= 3 && tensors.iter().all(|tensor| tensor.1 == "F32"), "{tensors:?}");
    }
}

#[test]
fn checkpoints_of_other_programs_are_stored_and_come_back() {
    let (folder, formats) = (Folder::new(), samples().join("formats"));
    let store = Store::init(&folder.path("store")).unwrap();
    let writer = Writer::begin(&store).unwrap();
    for id in ["first", "again"] {
        let addition = Addition {
            id: id.to_owned(),
            parent: Parent::Auto,
            spec: "auto".parse().unwrap(),
            chain: 8,
            allow_missing: false,
            keep_trailing: false,
        };
        let added = add(&writer, std::slice::from_ref(&formats), &addition, &Watch::default()).unwrap();
        assert!(added.troubles.is_empty());
        let out = folder.path(id);
        restore_checkpoint(&store, id, &out, false, &Watch::default()).unwrap();
        let files = files_below(&formats).unwrap();
        assert!(files.len() >= 7);
        for file in files {
            let name = file.strip_prefix(&formats).unwrap();
            assert!(fs::read(out.join(name)).unwrap() == fs::read(&file).unwrap(), "{}", name.display());
        }
    }
}
