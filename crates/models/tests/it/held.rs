//! Models that are held, in memory and on the disk, give the values of their files.

use std::collections::HashMap;
use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use zipwire_models::file::{Compression, FileError, compress};
use zipwire_models::held::{Block, HeldError, HeldModel, HeldOptions, Place};

type Values = HashMap<String, Vec<u8>>;

/// A file of layers with these numbers, and what is in it.
fn write(path: &Path, layers: std::ops::Range<u32>, seed: u64) -> Values {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    // BF16 values as weights have: the exponents of few binades.
    let mut weights = |count: usize| -> Vec<u8> {
        let value = |bits: u32| (0x3c00u16 | (bits as u16 & 0x83ff)).to_le_bytes();
        (0..count).flat_map(|_| value(rng.next_u32())).collect()
    };
    let mut tensors = vec![("lm_head.weight".to_owned(), Dtype::BF16, vec![300, 64], weights(300 * 64))];
    for layer in layers.clone() {
        let name = |part: &str| format!("model.layers.{layer}.{part}");
        tensors.push((name("mlp.weight"), Dtype::BF16, vec![700, 1000], weights(700_000)));
        tensors.push((name("attn.weight"), Dtype::BF16, vec![33, 7], weights(231)));
        tensors.push((name("empty"), Dtype::BF16, vec![0, 7], vec![]));
        tensors.push((name("index"), Dtype::U8, vec![5], vec![1, 2, 3, 4, 5]));
        tensors.push((name("noise"), Dtype::F32, vec![1001], weights(2002)));
    }
    for tensor in &mut tensors {
        tensor.0 = format!("{}{}", tensor.0, if layers.start == 0 { "" } else { ".more" });
    }
    let views = tensors.iter().map(|(name, dtype, shape, values)| {
        (name.clone(), TensorView::new(*dtype, shape.clone(), values).unwrap())
    });
    safetensors::serialize_to_file(views, None, path).unwrap();
    tensors.into_iter().map(|(name, _, _, values)| (name, values)).collect()
}

fn options(codec: &str, place: Place, threads: usize) -> HeldOptions {
    HeldOptions {
        codec: Some(codec.parse().unwrap()),
        place,
        threads: NonZero::new(threads).unwrap(),
        ..HeldOptions::default()
    }
}

/// Two walks give these values, and the blocks come in order.
fn check(model: &HeldModel, values: &Values, context: &str) {
    let mut walk = model.walk(0..model.blocks().len()).unwrap();
    for round in 0..2 {
        let (mut names, mut seen) = (Vec::new(), 0);
        while let Some(block) = walk.next().unwrap() {
            names.push(block.name().to_owned());
            for (info, bytes) in block.tensors() {
                assert!(bytes == &values[&info.name][..], "{context}: {} in round {round}", info.name);
                assert_eq!(bytes.as_ptr().addr() % 64, 0, "{context}: {}", info.name);
                seen += 1;
            }
        }
        assert_eq!(seen, values.len(), "{context}");
        let listed: Vec<&str> = model.blocks().iter().map(Block::name).collect();
        assert_eq!(names, listed, "{context}");
        // A walk that is left in the middle begins anew, too.
        walk.restart();
        walk.next().unwrap();
        walk.restart();
    }
}

/// The path of the file that `path` was compressed to.
fn compressed(path: &Path, codec: &str) -> PathBuf {
    let out = path.with_extension("zw.safetensors");
    let compression = Compression { spec: codec.parse().unwrap(), force: true, keep_trailing: false };
    compress(path, &out, &compression, None, &zipwire_models::file::Watch::default()).unwrap();
    out
}

#[test]
fn every_codec_and_place_gives_the_values() {
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("model.safetensors");
    let values = write(&plain, 0..3, 1);
    for codec in ["tiered", "rans", "huffman", "raw"] {
        for place in [Place::Memory, Place::Disk] {
            let model = HeldModel::open(&[&plain], &options(codec, place, 2)).unwrap();
            check(&model, &values, &format!("{codec}, {place:?}"));
            let all: usize = values.values().map(Vec::len).sum();
            assert_eq!(model.bytes(), all as u64);
            let is_smaller = place == Place::Memory && codec != "raw";
            assert_eq!(model.bytes_kept() < model.bytes() * 9 / 10, is_smaller, "{codec}, {place:?}");
            assert_eq!(model.bytes_decoded() > 0, is_smaller);
        }
    }
    let names: Vec<String> = {
        let model = HeldModel::open(&[&plain], &HeldOptions::default()).unwrap();
        model.blocks().iter().map(|block| block.name().to_owned()).collect()
    };
    assert_eq!(names, ["model.layers.0", "model.layers.1", "model.layers.2", "lm_head"]);
    let first = HeldOptions { blocks: Some(1), ..HeldOptions::default() };
    assert_eq!(HeldModel::open(&[&plain], &first).unwrap().blocks().len(), 1);
}

#[test]
fn frames_of_compressed_files_are_held_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("model.safetensors");
    let values = write(&plain, 0..3, 2);
    let file = compressed(&plain, "rans");
    for place in [Place::Memory, Place::Disk] {
        for threads in [1, 3] {
            let as_is = HeldOptions { codec: None, ..options("raw", place, threads) };
            let model = HeldModel::open(&[&file], &as_is).unwrap();
            check(&model, &values, &format!("{place:?}, {threads} threads"));
            assert!(model.bytes_kept() < model.bytes() * 9 / 10);
            // A codec that is named is for all tensors.
            let model = HeldModel::open(&[&file], &options("raw", Place::Memory, threads)).unwrap();
            check(&model, &values, &format!("raw, {threads} threads"));
            assert_eq!(model.bytes_decoded(), 0);
        }
    }
}

#[test]
fn a_folder_is_a_model() {
    let folder = tempfile::tempdir().unwrap();
    let mut values = write(&folder.path().join("a-00001.safetensors"), 0..2, 3);
    values.extend(write(&folder.path().join("a-00002.safetensors"), 2..4, 4));
    fs::write(folder.path().join("config.json"), "{}").unwrap();
    for place in [Place::Memory, Place::Disk] {
        let model = HeldModel::open(&[folder.path()], &options("tiered", place, 2)).unwrap();
        check(&model, &values, &format!("{place:?}"));
    }
}

#[test]
fn what_is_wrong_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let error = HeldModel::open(&[folder.path()], &HeldOptions::default()).unwrap_err();
    assert!(matches!(&error, HeldError::NoFiles { .. }), "{error}");
    let error = HeldModel::open(&[path("absent")], &HeldOptions::default()).unwrap_err();
    assert!(matches!(&error, HeldError::File(FileError::Io { .. })), "{error}");
    write(&path("a.safetensors"), 0..1, 5);
    write(&path("b.safetensors"), 0..1, 6);
    let error = HeldModel::open(&[folder.path()], &HeldOptions::default()).unwrap_err();
    assert!(error.to_string().contains("a.safetensors` and in"), "{error}");
}

#[test]
fn damaged_frames_are_reported_and_the_walk_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("model.safetensors");
    write(&plain, 0..3, 7);
    let file = compressed(&plain, "tiered");
    let whole = fs::read(&file).unwrap();
    let mut damaged = 0;
    for at in (whole.len() / 3..whole.len()).step_by(whole.len() / 40) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        fs::write(&file, bytes).unwrap();
        for place in [Place::Memory, Place::Disk] {
            let Ok(model) = HeldModel::open(&[&file], &options("tiered", place, 1)) else {
                damaged += 1;
                continue;
            };
            let mut walk = model.walk(0..model.blocks().len()).unwrap();
            let results: Vec<bool> = (0..model.blocks().len())
                .map(|_| walk.next().map(|block| assert!(block.is_some())).is_ok())
                .collect();
            assert!(results.iter().filter(|is_sound| !**is_sound).count() <= 1, "{results:?}");
            assert!(walk.next().unwrap().is_none());
            damaged += usize::from(results.contains(&false));
        }
    }
    assert!(damaged > 40, "{damaged} of 54 or so were noticed");
}
