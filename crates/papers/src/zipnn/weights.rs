//! Tables 2 and 3: sizes of regular models and of their byte groups.

use zipwire_codec::{DType, Grouped};

use crate::coded::{
    LEVEL, WEIGHTS, exponents, frame, groups, over, percent, pretrained_values, values, zstd_len,
};
use crate::figure::{Figure, Measurement, Ours};
use crate::samples::PRETRAINED;
use crate::{Bench, ReproduceError};

pub(super) const FIGURE: Figure = Figure {
    measurements: &[
        Measurement::of("exponent-size", |bench| group(bench, 0)),
        Measurement::of("mantissa-size", |bench| group(bench, 1)),
        Measurement::of("bf16", bf16),
        Measurement::of("table2-bf16", bf16),
        Measurement::of("over-zstd", over_zstd),
        Measurement::of("over-ee-zstd", over_ee_zstd),
    ],
    curves: &[],
};

/// Size of a byte group of pretrained weights, in percent.
fn group(bench: &Bench<'_>, number: usize) -> Result<Ours, ReproduceError> {
    let size = |weights: &[u8]| {
        let group = groups(&frame(&Grouped, DType::Bf16, weights))[number];
        percent(group.coded_len, group.raw_len)
    };
    let trained = size(&values(bench, WEIGHTS, |_| true)?);
    let note = format!("`{PRETRAINED}`; {trained:.2} of `{WEIGHTS}`");
    Ok(Ours::with(size(&pretrained_values(bench)?), note))
}

/// Size of pretrained weights, in percent.
fn bf16(bench: &Bench<'_>) -> Result<Ours, ReproduceError> {
    let size = |weights: &[u8]| percent(frame(&Grouped, DType::Bf16, weights).len(), weights.len());
    let trained = size(&values(bench, WEIGHTS, |_| true)?);
    let note = format!("`{PRETRAINED}`; {trained:.2} of `{WEIGHTS}`");
    Ok(Ours::with(size(&pretrained_values(bench)?), note))
}

/// Size of pretrained weights by Zstd, over that by ZipNN.
fn over_zstd(bench: &Bench<'_>) -> Result<Ours, ReproduceError> {
    let weights = pretrained_values(bench)?;
    versus(&weights, zstd_len(&weights))
}

/// The same with Zstd on the exponents alone, and the rest as it is.
fn over_ee_zstd(bench: &Bench<'_>) -> Result<Ours, ReproduceError> {
    let weights = pretrained_values(bench)?;
    versus(&weights, zstd_len(&exponents(&weights)) + weights.len() / 2)
}

fn versus(weights: &[u8], other: usize) -> Result<Ours, ReproduceError> {
    let ours = frame(&Grouped, DType::Bf16, weights).len();
    let [ours_pct, other_pct] = [ours, other].map(|len| percent(len, weights.len()));
    let note = format!("{other_pct:.2} over {ours_pct:.2} %, `{PRETRAINED}`, Zstd at level {LEVEL}");
    Ok(Ours::with(over(other, ours), note))
}
