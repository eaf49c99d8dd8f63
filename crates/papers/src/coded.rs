//! Values of samples by codecs: frames and their byte groups, and single byte groups by Zstd and by Huffman.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use zipwire_bench::inspect::Histogram;
use zipwire_codec::{Blockwise, ByteGroup, Codec, DType, FrameInfo, compress_with};

use crate::samples::{Bits, PRETRAINED, tensors};
use crate::{Bench, ReproduceError};

/// The level of Zstd, its default.
pub(super) const LEVEL: i32 = 3;

/// Weights of a checkpoint, and some of the same one update later.
pub(super) const WEIGHTS: &str = "train_late_weights.bf16.safetensors";
const NEXT: &str = "train_late_weights_next.bf16.safetensors";

/// BF16 values of the tensors whose names `is_wanted` accepts, concatenated in the order of the file.
pub(super) fn values(
    bench: &Bench<'_>,
    file: &str,
    is_wanted: &dyn Fn(&str) -> bool,
) -> Result<Vec<u8>, ReproduceError> {
    let tensors = tensors(bench, file, DType::Bf16, is_wanted)?;
    Ok(tensors.into_iter().flat_map(|(_, values)| values).collect())
}

/// Pretrained weights.
pub(super) fn pretrained_values(bench: &Bench<'_>) -> Result<Vec<u8>, ReproduceError> {
    values(bench, PRETRAINED, &|_| true)
}

/// A tensor of two adjacent checkpoints.
pub(super) struct Adjacent {
    pub(super) name: String,
    pub(super) next: Vec<u8>,
    /// XOR of both.
    pub(super) delta: Vec<u8>,
}

/// All such tensors of the samples.
pub(super) fn adjacent(bench: &Bench<'_>) -> Result<Vec<Adjacent>, ReproduceError> {
    let last = tensors(bench, WEIGHTS, DType::Bf16, &|_| true)?;
    let next = tensors(bench, NEXT, DType::Bf16, &|_| true)?;
    let pairs = next.into_iter().filter_map(|(info, next)| {
        let (_, last) = last.iter().find(|(other, _)| other.name == info.name)?;
        let delta = last.iter().zip(&next).map(|(last, next)| last ^ next).collect();
        Some(Adjacent { name: info.name, next, delta })
    });
    Ok(pairs.collect())
}

/// Differences of all of these tensors, concatenated.
pub(super) fn deltas(bench: &Bench<'_>) -> Result<Vec<u8>, ReproduceError> {
    Ok(adjacent(bench)?.into_iter().flat_map(|tensor| tensor.delta).collect())
}

/// Exponents of BF16 values.
pub(super) fn exponents(values: &[u8]) -> Vec<u8> {
    bf16(values).map(|value| Bits::Exponent.of(value) as u8).collect()
}

/// Signs and mantissas of BF16 values, the sign in the highest bit.
pub(super) fn rests(values: &[u8]) -> Vec<u8> {
    bf16(values).map(|value| (Bits::Sign.of(value) << 7 | Bits::Mantissa.of(value)) as u8).collect()
}

/// BF16 values as numbers.
pub(super) fn bf16(values: &[u8]) -> impl Iterator<Item = u16> {
    values.as_chunks().0.iter().map(|value| u16::from_le_bytes(*value))
}

/// A frame in the layout `compact`.
pub(super) fn frame(codec: &dyn Codec, dtype: DType, values: &[u8]) -> Vec<u8> {
    compress_with(codec, values, dtype).expect("figures name codecs that take the type of their values")
}

/// Byte groups of a frame, the most significant one first.
pub(super) fn groups(frame: &[u8]) -> Vec<ByteGroup> {
    let of_frame = |info: FrameInfo| ByteGroup::of_frame(info.shape, &[], frame);
    FrameInfo::peek(frame).and_then(of_frame).expect("`frame` made it, with `grouped` or `blockwise`")
}

/// Length of bytes by Zstd.
pub(super) fn zstd_len(bytes: &[u8]) -> usize {
    zstd::bulk::compress(bytes, LEVEL).expect("memory takes it").len()
}

/// Length of bytes by a Huffman code for each 64 KiB; raw or as runs where that is shorter.
pub(super) fn huffman_len(bytes: &[u8]) -> usize {
    groups(&frame(&Blockwise, DType::F8E4M3, bytes))[0].coded_len
}

/// Order-0 entropy of bytes, in bits.
pub(super) fn entropy(bytes: &[u8]) -> f64 {
    let mut histogram = Histogram::new(8);
    bytes.iter().for_each(|&byte| histogram.add(byte.into()));
    histogram.entropy()
}

/// Shuffles items with a fixed seed.
pub(super) fn shuffle<T>(items: &mut [T]) {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    for last in (1..items.len()).rev() {
        items.swap(last, (random.next_u64() % (last as u64 + 1)) as usize);
    }
}

/// Share of bytes, in percent.
pub(super) fn percent(part: usize, whole: usize) -> f64 {
    100.0 * part as f64 / whole as f64
}

/// One number of bytes over another.
pub(super) fn over(part: usize, whole: usize) -> f64 {
    part as f64 / whole as f64
}
