//! Models whose frames are on a GPU give the values of their files there. Without a GPU the kernels run under an emulation.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use std::fs;
use std::num::NonZero;
use std::path::Path;
use std::process::ExitCode;

use libtest_mimic::Trial;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use zipwire_codec::DType;
use zipwire_kernels::{Device, Stream};
use zipwire_models::file::{Compression, Model, Watch, compress};
use zipwire_models::held::{DeviceModel, HeldError, HeldModel, HeldOptions, Place};

fn main() -> ExitCode {
    let sources = zipwire_kernels::sources();
    let is_used = |name: &str| ["huffman", "tiered", "rans"].contains(&name);
    let used = sources.iter().filter(|source| {
        is_used(source.name) && [Some(DType::Bf16), Some(DType::F32)].contains(&source.dtype)
    });
    let used: Vec<&str> = used.map(|source| source.text.as_str()).collect();
    zipwire_emulation::harness(&used, trials, &[])
}

fn trials() -> Vec<Trial> {
    let trial = |name: &str, test: fn()| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    };
    vec![
        trial("blocks_are_decoded_on_the_device", values_come_back),
        trial("damage_is_found", damage_is_found),
        trial("frames_without_kernels_are_refused", others_are_refused),
    ]
}

type Values = Vec<(String, Dtype, Vec<usize>, Vec<u8>)>;

/// Two layers and a head, with values as weights have them.
fn values() -> Values {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut weights = |count: usize| -> Vec<u8> {
        let value = |bits: u32| (0x3c00u16 | (bits as u16 & 0x83ff)).to_le_bytes();
        (0..count).flat_map(|_| value(rng.next_u32())).collect()
    };
    let mut tensors = vec![("lm_head.weight".to_owned(), Dtype::BF16, vec![300, 64], weights(300 * 64))];
    for layer in 0..2 {
        let name = |part: &str| format!("model.layers.{layer}.{part}");
        tensors.push((name("mlp.weight"), Dtype::BF16, vec![70, 1000], weights(70_000)));
        tensors.push((name("attn.weight"), Dtype::BF16, vec![333, 71], weights(333 * 71)));
        tensors.push((name("norm"), Dtype::F32, vec![1001], weights(2002)));
        tensors.push((name("empty"), Dtype::BF16, vec![0, 7], vec![]));
    }
    tensors
}

fn write(path: &Path, values: &Values) {
    let views = values.iter().map(|(name, dtype, shape, values)| {
        (name.clone(), TensorView::new(*dtype, shape.clone(), values).unwrap())
    });
    safetensors::serialize_to_file(views, None, path).unwrap();
}

fn pack(path: &Path, packed: &Path) {
    let how = Compression { spec: "huffman".parse().unwrap(), force: false, keep_trailing: false };
    compress(path, packed, &how, None, &Watch::default()).unwrap();
}

fn options(codec: &str, chunk_values: usize) -> HeldOptions {
    let chunk_values = NonZero::new(chunk_values).unwrap();
    HeldOptions { codec: Some(codec.parse().unwrap()), chunk_values, ..HeldOptions::default() }
}

/// All blocks give the values of the file, twice.
fn check(model: &DeviceModel, device: &Device, values: &Values, context: &str) {
    let stream = Stream::new(device).unwrap();
    for round in 0..2 {
        let mut seen = 0;
        for block in 0..model.block_count() {
            let tensors: Vec<_> = model.decode(block, &stream).unwrap().collect();
            stream.synchronize().unwrap();
            for (info, region) in tensors {
                let (.., expected) = values.iter().find(|(name, ..)| *name == info.name).unwrap();
                assert!(region.read().unwrap() == *expected, "{context}: {} in round {round}", info.name);
                seen += 1;
            }
        }
        assert_eq!(seen, values.len(), "{context}");
        model.check(&stream).unwrap();
    }
}

fn values_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let (path, values) = (folder.path().join("m.safetensors"), values());
    write(&path, &values);
    let device = Device::open(0).unwrap();
    // Those of `tiered` and `rans` are of two types, so a block takes two launches.
    for (codec, chunk_values) in [
        ("huffman", 1 << 23),
        ("huffman", 20_000),
        ("huffman", 8192),
        ("tiered", 1 << 23),
        ("tiered", 40_000),
        ("rans", 1 << 23),
        ("rans", 40_000),
    ] {
        let model = HeldModel::open(&[&path], &options(codec, chunk_values)).unwrap();
        let on_device = model.on_device(&device).unwrap();
        assert_eq!(on_device.block_count(), 3);
        assert_eq!(on_device.name(0), "model.layers.0");
        assert!(on_device.bytes_decoded() >= 2 * (70_000 + 333 * 71));
        assert!(on_device.bytes_kept() > model.bytes_kept());
        check(&on_device, &device, &values, &format!("{codec}, chunks of {chunk_values}"));
    }
    // As a compressed file has it, from memory and from the disk.
    let packed = folder.path().join("m.zw.safetensors");
    pack(&path, &packed);
    for place in [Place::Memory, Place::Disk] {
        let options = HeldOptions { codec: None, place, ..HeldOptions::default() };
        let model = HeldModel::open(&[&packed], &options).unwrap();
        check(&model.on_device(&device).unwrap(), &device, &values, &format!("{place:?}"));
    }
}

/// A bit that flips in a file is found by the kernels; other blocks are sound.
fn damage_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.safetensors");
    write(&path, &values());
    let packed = folder.path().join("m.zw.safetensors");
    pack(&path, &packed);
    // In the middle of the first layer's largest matrix.
    let mut bytes = fs::read(&packed).unwrap();
    let at = {
        let model = Model::open(&packed).unwrap();
        let name = "model.layers.0.mlp.weight";
        let frame = model.container(name).unwrap().unwrap().frame(0).start;
        let mut front = [0; 64];
        model.read_kept(name, frame, &mut front).unwrap();
        bytes.windows(front.len()).position(|window| window == front).unwrap() + 50_000
    };
    bytes[at] ^= 16;
    fs::write(&packed, bytes).unwrap();
    let device = Device::open(0).unwrap();
    let stream = Stream::new(&device).unwrap();
    let model = HeldModel::open(&[&packed], &HeldOptions { codec: None, ..HeldOptions::default() }).unwrap();
    let on_device = model.on_device(&device).unwrap();
    for block in 1..3 {
        on_device.decode(block, &stream).unwrap().count();
    }
    on_device.check(&stream).unwrap();
    on_device.decode(0, &stream).unwrap().count();
    let error = on_device.check(&stream).unwrap_err();
    let HeldError::Device { tensor, .. } = &error else { panic!("{error}") };
    assert_eq!(tensor, "model.layers.0.mlp.weight", "{error}");
    // What was said is not said again.
    on_device.check(&stream).unwrap();
}

fn others_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.safetensors");
    write(&path, &values());
    let device = Device::open(0).unwrap();
    let model = HeldModel::open(&[&path], &options("grouped", 1 << 20)).unwrap();
    let error = model.on_device(&device).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, HeldError::DeviceCodec { codec: "grouped", .. }), "{text}");
    assert!(text.contains("help: hold weights by `tiered` or `rans`"), "{text}");
}
