//! Fig. 16: how near to a normal distribution tensors of a training run are, by what ZipCCL makes of that: the share of values with one of
//! seven exponents, which is 96.97 to 97.87 % of a normal distribution.

use super::super::figure::{Figure, Measurement, Ours};
use super::super::samples::{Bits, Counts, DISPATCH_AND_COMBINE};
use super::super::{Bench, ReproduceError};

pub(super) const FIGURE: Figure = Figure {
    measurements: &[
        Measurement::of("fig16-activations", |bench| coverage(bench, DISPATCH_AND_COMBINE)),
        Measurement::of("fig16-activation-gradients", |bench| {
            coverage(bench, "train_late_a2a_backward.bf16.safetensors")
        }),
        Measurement::of("fig16-weights", |bench| coverage(bench, "train_late_weights.bf16.safetensors")),
        Measurement::of("fig16-gradients", |bench| coverage(bench, "train_late_grads.bf16.safetensors")),
    ],
    curves: &[],
};

/// Counts of a window.
const WINDOW: usize = 7;

fn coverage(bench: &Bench<'_>, file: &str) -> Result<Ours, ReproduceError> {
    let tensors = Counts::by_tensor(bench, file, Bits::Exponent)?;
    let covered: f64 =
        tensors.iter().map(|exponents| exponents.coverage(WINDOW) * exponents.total() as f64).sum();
    let values: u64 = tensors.iter().map(Counts::total).sum();
    let note = format!("{} tensors of `{file}`, each with seven exponents of its own", tensors.len());
    Ok(Ours::with(100.0 * covered / values as f64, note))
}
