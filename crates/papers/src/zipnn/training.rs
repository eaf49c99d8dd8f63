//! Section 4.1: gradients beside weights, and the embedding beside the other layers.

use zipwire_codec::{DType, Grouped};

use crate::coded::{
    LEVEL, WEIGHTS, exponents, frame, huffman_len, over, percent, pretrained_values, values, zstd_len,
};
use crate::figure::{Figure, Measurement, Ours};
use crate::samples::PRETRAINED;
use crate::{Bench, ReproduceError};

const GRADIENTS: &str = "train_late_grads.bf16.safetensors";

pub(super) const FIGURE: Figure = Figure {
    measurements: &[
        Measurement::of("fig7-model", |bench| sized(bench, WEIGHTS)),
        Measurement::of("fig7-gradient", |bench| sized(bench, GRADIENTS)),
        Measurement::of("gradient-order", |bench| {
            Ok((size(bench, GRADIENTS, |_| true)? / size(bench, WEIGHTS, |_| true)?).into())
        }),
        Measurement::of("gradient-layers", |bench| {
            let weights = size(bench, WEIGHTS, |_| true)?;
            let note = format!("`{GRADIENTS}` but for the embedding; the weights {weights:.2}");
            Ok(Ours::with(size(bench, GRADIENTS, is_layer)?, note))
        }),
        Measurement::of("gradient-embedding", embedding),
        Measurement::of("gradient-embedding-zstd", |bench| {
            Ok(zstd_over_huffman(&values(bench, GRADIENTS, is_embedding)?, GRADIENTS))
        }),
        Measurement::of("weights-embedding-zstd", |bench| {
            Ok(zstd_over_huffman(&pretrained_values(bench)?, PRETRAINED))
        }),
    ],
    curves: &[],
};

fn is_embedding(name: &str) -> bool {
    name.starts_with("embed")
}

fn is_layer(name: &str) -> bool {
    !is_embedding(name)
}

/// Size of some tensors of a sample, in percent.
fn size(bench: &Bench<'_>, file: &str, is_wanted: fn(&str) -> bool) -> Result<f64, ReproduceError> {
    let values = values(bench, file, is_wanted)?;
    Ok(percent(frame(&Grouped, DType::Bf16, &values).len(), values.len()))
}

fn sized(bench: &Bench<'_>, file: &str) -> Result<Ours, ReproduceError> {
    Ok(Ours::with(size(bench, file, |_| true)?, format!("`{file}`, of another model")))
}

/// Size of gradients of the embedding, over that of the other layers.
fn embedding(bench: &Bench<'_>) -> Result<Ours, ReproduceError> {
    let (embedding, layers) = (size(bench, GRADIENTS, is_embedding)?, size(bench, GRADIENTS, is_layer)?);
    let values = values(bench, GRADIENTS, is_embedding)?;
    let zeros = percent(values.iter().filter(|byte| **byte == 0).count(), values.len());
    let note =
        format!("{embedding:.2} over {layers:.2} %; {zeros:.1} % of its bytes are 0, of one microbatch");
    Ok(Ours::with(embedding / layers, note))
}

/// Size of exponents by Zstd, over that by Huffman.
fn zstd_over_huffman(values: &[u8], file: &str) -> Ours {
    let exponents = exponents(values);
    let lens = [zstd_len(&exponents), huffman_len(&exponents)];
    let [zstd, huffman] = lens.map(|len| percent(len, exponents.len()));
    let note = format!("{zstd:.2} over {huffman:.2} %, `{file}`, Zstd at level {LEVEL}");
    Ours::with(over(lens[0], lens[1]), note)
}
