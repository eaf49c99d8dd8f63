//! What the scenario takes from the paper, with what our codec says of it: speeds of kernels (none are measured here), and
//! the exponents of Fig. 5.

use super::super::figure::{Figure, Measurement, Ours};
use super::super::samples::{Bits, Counts, KV_BF16, ratio};
use super::super::{Bench, ReproduceError};
use zipwire_codec::DType;

pub(super) const FIGURE: Figure = Figure {
    measurements: &[
        Measurement::of("encode", |_| Ok(Ours::only(KERNELS))),
        Measurement::of("decode", |_| Ok(Ours::only(KERNELS))),
        Measurement::of("fig5-k-layers", |bench| sample(bench, |name| name.starts_with("L2.k"))),
        Measurement::of("fig5-v-layers", |bench| sample(bench, |name| name.starts_with("L2.v"))),
    ],
    curves: &[],
};

const KERNELS: &str = "`zipwire bench gpu` measures ours";

/// What our codec makes of a recorded cache.
fn sample(bench: &Bench<'_>, is_wanted: fn(&str) -> bool) -> Result<Ours, ReproduceError> {
    let ratio = ratio(bench, KV_BF16, "codebook16", DType::Bf16, is_wanted)?;
    let covered = 100.0 * Counts::of(bench, KV_BF16, Bits::Exponent, is_wanted)?.coverage(16);
    Ok(Ours::only(format!("ours, of a small model: ratio {ratio:.3}, {covered:.2} % covered")))
}
