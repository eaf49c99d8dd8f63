//! Compressed model files, and what must hold of intact ones, of damaged ones, and of bytes that may be none.

use std::fs;
use std::path::Path;

use arbitrary::{Result, Unstructured};
use serde_json::{Value, json};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};
use zipwire_codec::DType;
use zipwire_models::file::{Bases, Compression, Model, compress, damage, restore, salvage, verify};

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
pub fn compressed_model(input: &mut Unstructured<'_>) -> Result<(Vec<u8>, Option<Bases>)> {
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
        (spec, other) = ("delta+tiered", Some(Model::open(&base).expect("the base is sound").into()));
    }
    let compression = Compression {
        spec: spec.parse().expect("the spec is one of this crate"),
        force: true,
        keep_trailing: false,
    };
    compress(&plain, &packed, &compression, other.as_ref(), &alone()).expect("a sound file is compressed");
    let model = Model::open_with(&packed, other.clone()).expect("a compressed file is opened");
    restore(&model, &back, true, &alone()).expect("a compressed file is restored");
    assert!(fs::read(&back).expect("it is there") == file, "other bytes come back");
    Ok((fs::read(&packed).expect("it is there"), other))
}

/// All that is in front of the values of a compressed file, decoded.
struct Front {
    note: Value,
    /// The original's header, and the plan behind it.
    index: Vec<u8>,
    /// Lengths of containers, and digests of pieces.
    words: Vec<u8>,
    values: Vec<u8>,
}

impl Front {
    fn of(bytes: &[u8]) -> Option<Self> {
        let length = u64::from_le_bytes(*bytes.first_chunk()?) as usize;
        let (header, behind) = bytes.get(8..)?.split_at_checked(length)?;
        let header: Value = serde_json::from_slice(header).ok()?;
        let note: Value = serde_json::from_str(header["__metadata__"]["zipwire"].as_str()?).ok()?;
        let [index_bytes, front_bytes] = ["index_bytes", "front_bytes"].map(|key| note[key].as_u64());
        let (front, values) = behind.split_at_checked(front_bytes? as usize)?;
        let (index, words) = front.split_at_checked(index_bytes? as usize)?;
        let index = zstd::decode_all(index).ok()?;
        Some(Self { note, index, words: words.to_vec(), values: values.to_vec() })
    }

    /// The file, with digests that fit: as if the last `pieces` words were digests of pieces.
    fn sealed(mut self, pieces: usize) -> Vec<u8> {
        let index = zstd::encode_all(&self.index[..], 1).expect("it is in memory");
        let front = [&index[..], &self.words].concat();
        let mut digest = Xxh3::new();
        digest.update(&self.words[self.words.len().saturating_sub(8 * pieces)..]);
        self.note["digest"] = json!(format!("{:032x}", digest.digest128()));
        self.note["index_bytes"] = json!(index.len());
        self.note["front_bytes"] = json!(front.len());
        self.note["front_digest"] = json!(format!("{:016x}", xxh3_64(&front)));
        let len = front.len() + self.values.len();
        let metadata = json!({ "zipwire": self.note.to_string() });
        let header = format!(
            r#"{{"zipwire":{{"dtype":"ZIPWIRE","shape":[{len}],"data_offsets":[0,{len}]}},"__metadata__":{metadata}}}"#
        );
        [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &front, &self.values].concat()
    }
}

/// A compressed file that says something else of its tensors, with digests that fit that.
///
/// # Errors
/// If there are too few bytes.
pub fn edited_front(bytes: &[u8], input: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let Some(mut front) = Front::of(bytes) else { return Ok(bytes.to_vec()) };
    for _ in 0..input.int_in_range(1..=3)? {
        match input.int_in_range(0..=4)? {
            // The plan is at the end.
            0 => {
                let from_end = input.int_in_range(0..=7)?.min(front.index.len().saturating_sub(1));
                let at = front.index.len().saturating_sub(1 + from_end);
                if let Some(byte) = front.index.get_mut(at) {
                    *byte = input.arbitrary()?;
                }
            }
            1 if !front.index.is_empty() => {
                let at = input.choose_index(front.index.len())?;
                front.index[at] = input.arbitrary()?;
            }
            2 if !front.words.is_empty() => {
                let at = input.choose_index(front.words.len())?;
                front.words[at] = input.arbitrary()?;
            }
            3 => front.index.push(input.arbitrary()?),
            _ => front.note["bytes"] = json!(input.arbitrary::<u64>()?),
        }
    }
    let words = front.words.len() / 8;
    Ok(front.sealed(input.int_in_range(0..=words)?))
}

/// Reads any bytes as a model file, which must give an error that prints, or tensors as long as the file says.
///
/// # Panics
/// If tensors of a file that is sound as a whole cannot be read, or are not as long as they are said to be.
pub fn check_model(path: &Path, base: Option<Bases>) {
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
    if let Ok(lost) = damage(&model, &alone()) {
        assert_eq!(lost.is_empty(), sound.is_ok(), "{lost:?}, {sound:?}");
        let back = salvage(&model, &scratch_path("left"), true, &alone())
            .expect("there is room for a temporary file");
        assert_eq!(back, lost, "what is lost is what is damaged");
    }
    for tensor in model.tensors() {
        let all = model.read(&tensor.name);
        assert!(sound.is_err() || all.is_ok(), "`{}` of a sound file is not read", tensor.name);
        let Ok(all) = all else { continue };
        assert_eq!(all.len() as u64, tensor.bytes());
        let rows = tensor.shape.first().copied().unwrap_or(1) as u64;
        // Rows of a type that is not known may be no whole bytes, and are refused then.
        if rows > 1 && (all.len() as u64).is_multiple_of(rows) {
            let row = all.len() / rows as usize;
            let last = model.read_rows(&tensor.name, rows - 1..rows).expect("all rows are read");
            assert!(last == all[all.len() - row..], "the last row of `{}` is another", tensor.name);
        }
    }
}
