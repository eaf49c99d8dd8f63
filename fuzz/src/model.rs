//! Compressed model files, and what must hold of intact ones, of damaged ones, and of bytes that may be none.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arbitrary::{Result, Unstructured};
use zipwire_codec::DType;
use zipwire_models::file::{Compression, Model, compress, restore, verify};

use crate::{SPECS, alone, scratch_path, values};

/// Types of tensors: those that codecs know, and some that are coded as bytes or not at all.
const TYPES: [(&str, DType); 8] = [
    ("BF16", DType::Bf16),
    ("F16", DType::F16),
    ("F32", DType::F32),
    ("F8_E4M3", DType::F8E4M3),
    ("F8_E5M2", DType::F8E5M2),
    ("I32", DType::F32),
    ("BOOL", DType::F8E4M3),
    ("U8", DType::F8E4M3),
];
/// How often the values of a tensor are repeated, so that a few bytes of input are enough for a tensor that is worth coding.
const REPEATS: usize = 20;

/// A safetensors file with a few tensors.
fn safetensors(input: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let (mut entries, mut data) = (Vec::new(), Vec::new());
    for name in 0..input.int_in_range(0..=3)? {
        let (dtype, like) = *input.choose(&TYPES)?;
        let values = values(input, like)?.repeat(if input.arbitrary()? { REPEATS } else { 1 });
        let (rows, start) = (values.len() / like.width(), data.len());
        data.extend(values);
        let end = data.len();
        entries.push(format!(
            "\"t{name}\":{{\"dtype\":\"{dtype}\",\"shape\":[{rows}],\"data_offsets\":[{start},{end}]}}"
        ));
    }
    if input.arbitrary()? {
        entries.push("\"__metadata__\":{\"format\":\"pt\"}".to_owned());
    }
    let header = format!("{{{}}}", entries.join(","));
    Ok([&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat())
}

/// A model file, compressed, perhaps as differences from another one that is there then.
///
/// # Errors
/// If there are too few bytes.
///
/// # Panics
/// If a sound file is not compressed, or does not come back.
pub fn compressed_model(input: &mut Unstructured<'_>) -> Result<(Vec<u8>, Option<Arc<Model>>)> {
    let file = safetensors(input)?;
    let [plain, packed, base, back] = ["plain", "packed", "base", "back"].map(scratch_path);
    fs::write(&plain, &file).expect("there is room for a temporary file");
    let (mut spec, mut other) = (*input.choose(&SPECS)?, None);
    if input.arbitrary()? {
        let mut near = file.clone();
        // Values are behind the header, and differ in their last bits.
        let header = 8 + u64::from_le_bytes(*near.first_chunk().expect("there is a header")) as usize;
        near[header..].iter_mut().step_by(7).for_each(|byte| *byte ^= 1);
        fs::write(&base, near).expect("there is room for a temporary file");
        (spec, other) = ("delta+tiered", Some(Arc::new(Model::open(&base).expect("the base is sound"))));
    }
    let compression = Compression { spec: spec.parse().expect("the spec is one of this crate"), force: true };
    compress(&plain, &packed, &compression, other.as_deref(), &alone()).expect("a sound file is compressed");
    let model = Model::open_with(&packed, other.clone()).expect("a compressed file is opened");
    restore(&model, &back, true, &alone()).expect("a compressed file is restored");
    assert!(fs::read(&back).expect("it is there") == file, "other bytes come back");
    Ok((fs::read(&packed).expect("it is there"), other))
}

/// Reads any bytes as a model file, which must give an error that prints, or tensors as long as the file says.
///
/// # Panics
/// If tensors of a file that is sound as a whole cannot be read, or are not as long as they are said to be.
pub fn check_model(path: &Path, base: Option<Arc<Model>>) {
    if let Err(error) = Model::list(path) {
        let _ = error.to_string();
    }
    let model = match Model::open_with(path, base) {
        Ok(model) => model,
        Err(error) => {
            let _ = error.to_string();
            return;
        }
    };
    let sound = verify(&model, &alone());
    for tensor in model.tensors() {
        let all = model.read(&tensor.name);
        assert!(sound.is_err() || all.is_ok(), "`{}` of a sound file is not read", tensor.name);
        let Ok(all) = all else { continue };
        assert_eq!(all.len() as u64, tensor.bytes());
        let rows = tensor.shape.first().copied().unwrap_or(1) as u64;
        if rows > 1 {
            let row = all.len() / rows as usize;
            let last = model.read_rows(&tensor.name, rows - 1..rows).expect("all rows are read");
            assert!(last == all[all.len() - row..], "the last row of `{}` is another", tensor.name);
        }
    }
}
