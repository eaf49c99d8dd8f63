//! DFloat11: BF16 weights whose exponents have one Huffman code.

use zipwire_codec::DType;
use zipwire_paper_codecs::Huffman;

use crate::measure::Ours;
use crate::samples::{PRETRAINED, exponent_words, frame, percent, pretrained_values};
use crate::{Bench, ReproduceError};

/// Mean length of the words of the Huffman code, in bits.
pub(super) fn code_bits(bench: &Bench<'_>) -> Result<Ours, ReproduceError> {
    let (_, bits) = exponent_words(bench)?;
    Ok(Ours::with(bits, format!("`{PRETRAINED}`")))
}

/// Length of the longest word, in bits.
pub(super) fn longest_word(bench: &Bench<'_>) -> Result<Ours, ReproduceError> {
    let (words, _) = exponent_words(bench)?;
    Ok(Ours::with(f64::from(words.longest()), format!("`{PRETRAINED}`")))
}

/// A number that follows from the size of pretrained weights over what they take raw.
pub(super) fn sized(bench: &Bench<'_>, number: impl Fn(f64) -> f64) -> Result<Ours, ReproduceError> {
    let weights = pretrained_values(bench)?;
    let frame = frame(&Huffman, DType::Bf16, &weights);
    let size = |len: usize| len as f64 / weights.len() as f64;
    // Next to nothing of a large tensor.
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
pub(super) fn index(bench: &Bench<'_>) -> Result<Ours, ReproduceError> {
    let (words, _) = exponent_words(bench)?;
    let index = words.gaps_len + words.positions_len;
    let note =
        format!("{} and {} for {} bytes of words", words.gaps_len, words.positions_len, words.words_len);
    Ok(Ours::with(percent(index, words.words_len), note))
}
