//! Section 3.1: how exponents are distributed, and which kind of code suits them.

use crate::coded::{self, LEVEL, percent, pretrained_values, zstd_len};
use crate::figure::{Figure, Measurement, Ours};
use crate::samples::{Bits, PRETRAINED, exponent_words, pretrained};
use crate::{Bench, ReproduceError};

pub(super) const FIGURE: Figure = Figure {
    measurements: &[
        Measurement::of("exponents-used", |bench| {
            pretrained(bench, Bits::Exponent, |counts| counts.used() as f64)
        }),
        Measurement::of("top12", |bench| {
            pretrained(bench, Bits::Exponent, |counts| 100.0 * counts.coverage(12))
        }),
        Measurement::of("shuffle", shuffle),
        Measurement::of("lz4", lz4),
        Measurement::of("fse", fse),
    ],
    curves: &[],
};

/// How many percent larger the exponents are, coded by Zstd, if the parameters are shuffled.
fn shuffle(bench: &Bench<'_>) -> Result<Ours, ReproduceError> {
    let mut exponents = coded::exponents(&pretrained_values(bench)?);
    let before = zstd_len(&exponents);
    coded::shuffle(&mut exponents);
    let note = format!("{} values of `{PRETRAINED}`, Zstd at level {LEVEL}", exponents.len());
    Ok(Ours::with(100.0 * (zstd_len(&exponents) as f64 / before as f64 - 1.0), note))
}

/// What LZ4 makes of BF16 weights, in percent of their size.
fn lz4(bench: &Bench<'_>) -> Result<Ours, ReproduceError> {
    let weights = pretrained_values(bench)?;
    let coded = lz4_flex::block::compress(&weights);
    Ok(Ours::with(percent(coded.len(), weights.len()), format!("`{PRETRAINED}`")))
}

/// By how many percent words of Huffman are longer than the entropy, which no code of single exponents goes below.
fn fse(bench: &Bench<'_>) -> Result<Ours, ReproduceError> {
    let entropy = coded::entropy(&coded::exponents(&pretrained_values(bench)?));
    let (_, bits) = exponent_words(bench)?;
    let note = format!("{bits:.4} bits over {entropy:.4}, exponents of `{PRETRAINED}`");
    Ok(Ours::with(100.0 * (bits / entropy - 1.0), note))
}
