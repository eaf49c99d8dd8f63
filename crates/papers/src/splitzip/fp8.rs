//! FP8 caches: measured with our codec on recorded ones.

use zipwire_codec::DType;

use super::super::figure::{Figure, Measurement};
use super::super::samples::{KV_FP8, ratio};

pub(super) const FIGURE: Figure = Figure {
    measurements: &[Measurement::of("fp8", |bench| {
        Ok(ratio(bench, KV_FP8, "codebook16", DType::F8E5M2, |_| true)?.into())
    })],
    curves: &[],
};
