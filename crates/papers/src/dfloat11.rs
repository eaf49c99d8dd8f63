//! DFloat11: BF16 weights whose exponents have one Huffman code.

use zipwire_codec::{DType, Huffman};

use crate::coded::{frame, percent, pretrained_values};
use crate::figure::{Figure, Measurement, Ours};
use crate::samples::{Bits, Counts, PRETRAINED, exponent_words, pretrained};
use crate::{Bench, ReproduceError};

pub(super) const FIGURES: &[Figure] = &[Figure {
    measurements: &[
        Measurement::of("exponent-entropy", |bench| pretrained(bench, Bits::Exponent, Counts::entropy)),
        Measurement::of("exponents-used", |bench| {
            pretrained(bench, Bits::Exponent, |counts| counts.used() as f64)
        }),
        Measurement::of("sign-entropy", |bench| pretrained(bench, Bits::Sign, Counts::entropy)),
        Measurement::of("mantissa-entropy", |bench| pretrained(bench, Bits::Mantissa, Counts::entropy)),
        Measurement::of("code-bits", |bench| {
            let (_, bits) = exponent_words(bench)?;
            Ok(Ours::with(bits, format!("`{PRETRAINED}`")))
        }),
        Measurement::of("longest-word", |bench| {
            let (words, _) = exponent_words(bench)?;
            Ok(Ours::with(f64::from(words.longest()), format!("`{PRETRAINED}`")))
        }),
        Measurement::of("index", index),
        Measurement::of("bits", |bench| sized(bench, |size| 16.0 * size)),
        Measurement::of("saving", |bench| sized(bench, |size| 100.0 * (1.0 - size))),
        Measurement::of("size", |bench| sized(bench, |size| 100.0 * size)),
        Measurement::of("llama-405b", |bench| sized(bench, |size| 405.0 * 2.0 * size)),
    ],
    curves: &[],
}];

/// A number that follows from the size of pretrained weights over what they take raw.
fn sized(bench: &Bench<'_>, number: fn(f64) -> f64) -> Result<Ours, ReproduceError> {
    let weights = pretrained_values(bench)?;
    let frame = frame(&Huffman, DType::Bf16, &weights);
    let size = |len: usize| len as f64 / weights.len() as f64;
    // Where a tensor is large, nothing.
    let front = frame.len() - weights.len() / 2 - coded_len(bench)?;
    let without = number(size(frame.len() - front));
    let note = format!("`{PRETRAINED}`; {without:.3} without the {front} bytes that a frame begins with");
    Ok(Ours::with(number(size(frame.len())), note))
}

/// Bytes of words and index.
fn coded_len(bench: &Bench<'_>) -> Result<usize, ReproduceError> {
    let (words, _) = exponent_words(bench)?;
    Ok(words.words_len + words.gaps_len + words.positions_len)
}

/// Bytes of gaps and positions over those of words, in percent.
fn index(bench: &Bench<'_>) -> Result<Ours, ReproduceError> {
    let (words, _) = exponent_words(bench)?;
    let index = words.gaps_len + words.positions_len;
    let note =
        format!("{} and {} for {} bytes of words", words.gaps_len, words.positions_len, words.words_len);
    Ok(Ours::with(percent(index, words.words_len), note))
}
