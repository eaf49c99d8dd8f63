//! Recorded tensors.

use std::fs;
use std::path::Path;

use safetensors::{Dtype, SafeTensors};
use zipwire_codec::DType;

use crate::bench::Bench;

/// Bytes of each tensor that are coded: an emulation is not fast.
const MOST: usize = 150_000;

pub(crate) fn recorded_tensors(spec: &'static str, dtype: DType) {
    Bench::new(spec, dtype).check(&samples(dtype), "samples");
}

/// All recorded tensors of the type; those of BF16, cut to FP8 by their upper bytes, where there are none.
pub(crate) fn samples(dtype: DType) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../traces/samples");
    let mut all_values = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "safetensors") {
            continue;
        }
        let bytes = fs::read(&path).unwrap();
        for (_, tensor) in SafeTensors::deserialize(&bytes).unwrap().iter() {
            if tensor.dtype() == Dtype::BF16 && !tensor.data().is_empty() {
                let values = tensor.data();
                all_values.push(match dtype.width() {
                    1 => values.iter().skip(1).step_by(2).copied().take(MOST / 2).collect(),
                    _ => values[..values.len().min(MOST)].to_vec(),
                });
            }
        }
    }
    assert!(all_values.len() > 5, "there are samples");
    all_values
}
