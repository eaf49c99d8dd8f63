//! Sizes and exponents of recorded tensors, and their frames, byte groups and single byte groups by several codecs.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde::Deserialize;
use zipwire_bench::inspect::Histogram;
use zipwire_codec::{Codec, DType, FrameInfo, Layout, Spec};
use zipwire_paper_codecs::{Blockwise, ByteGroup, ExponentWords, Huffman};
use zipwire_traces::{TensorFile, TensorInfo};

use crate::measure::Ours;
use crate::{Bench, ReproduceError};

/// Recorded tensors that are known to the figures, below the folder of samples.
pub(super) const KV_BF16: &str = "train_late_kv.bf16.safetensors";
pub(super) const DISPATCH_AND_COMBINE: &str = "train_late_a2a_forward.bf16.safetensors";
pub(super) const PRETRAINED: &str = "pre_minilm.bf16.safetensors";

/// Raw over coded bytes of the tensors of type `dtype` whose names `is_wanted` accepts, as `compact` frames, a frame per tensor.
pub(super) fn ratio(
    bench: &Bench<'_>,
    file: &str,
    codec: &Spec,
    dtype: DType,
    is_wanted: &dyn Fn(&str) -> bool,
) -> Result<f64, ReproduceError> {
    let codec = codec.codec();
    let (mut raw, mut coded) = (0, 0);
    for (_, values) in tensors(bench, file, dtype, is_wanted)? {
        let frame = codec
            .as_ref()
            .encode_to_vec(Layout::Compact, dtype, &values)
            .map_err(|source| ReproduceError::Codec { sample: file.to_owned(), source })?;
        (raw, coded) = (raw + values.len(), coded + frame.len());
    }
    Ok(raw as f64 / coded as f64)
}

/// A field of a BF16 value.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Bits {
    Sign,
    Exponent,
    Mantissa,
}

impl Bits {
    pub(super) fn of(self, value: u16) -> u32 {
        u32::from(match self {
            Self::Sign => value >> 15,
            Self::Exponent => value >> 7 & 0xff,
            Self::Mantissa => value & 0x7f,
        })
    }
}

/// One field of all BF16 values of a file.
#[derive(Debug)]
pub(super) struct Counts {
    histogram: Histogram,
}

impl Counts {
    /// Counts it in the tensors whose names `is_wanted` accepts.
    pub(super) fn of(
        bench: &Bench<'_>,
        file: &str,
        bits: Bits,
        is_wanted: &dyn Fn(&str) -> bool,
    ) -> Result<Self, ReproduceError> {
        let mut counts = Self { histogram: Histogram::new(8) };
        for (_, values) in tensors(bench, file, DType::Bf16, is_wanted)? {
            counts.add(bits, &values);
        }
        Ok(counts)
    }

    /// Counts it in each tensor of a file.
    pub(super) fn by_tensor(bench: &Bench<'_>, file: &str, bits: Bits) -> Result<Vec<Self>, ReproduceError> {
        let tensors = tensors(bench, file, DType::Bf16, &|_| true)?;
        let count = |(_, values): (TensorInfo, Vec<u8>)| {
            let mut counts = Self { histogram: Histogram::new(8) };
            counts.add(bits, &values);
            counts
        };
        Ok(tensors.into_iter().map(count).collect())
    }

    fn add(&mut self, bits: Bits, values: &[u8]) {
        for value in values.chunks_exact(2) {
            self.histogram.add(bits.of(u16::from_le_bytes([value[0], value[1]])));
        }
    }

    pub(super) fn total(&self) -> u64 {
        self.histogram.total()
    }

    /// Share of values that have one of the `count` most frequent ones, from 0 to 1.
    pub(super) fn coverage(&self, count: usize) -> f64 {
        self.histogram.coverage(count)
    }
}

/// A number that a histogram comes to.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Statistic {
    /// Order-0 entropy, in bits.
    Entropy,
    /// How many values occur.
    Used,
    /// Percent of values that have one of so many most frequent ones.
    Covered(usize),
}

/// A statistic of one field of pretrained weights, and where they come from.
pub(super) fn pretrained(
    bench: &Bench<'_>,
    bits: Bits,
    statistic: Statistic,
) -> Result<Ours, ReproduceError> {
    let counts = Counts::of(bench, PRETRAINED, bits, &|_| true)?;
    let number = match statistic {
        Statistic::Entropy => counts.histogram.entropy(),
        Statistic::Used => counts.histogram.counts().iter().filter(|&&count| count > 0).count() as f64,
        Statistic::Covered(count) => 100.0 * counts.coverage(count),
    };
    Ok(Ours::with(number, format!("{} values of `{PRETRAINED}`", counts.total())))
}

/// The Huffman code of the exponents of pretrained weights, and the mean length of its words, in bits.
pub(super) fn exponent_words(bench: &Bench<'_>) -> Result<(ExponentWords, f64), ReproduceError> {
    let weights = pretrained_values(bench)?;
    let frame = frame(&Huffman, DType::Bf16, &weights);
    let of_frame = |info: FrameInfo| ExponentWords::of_frame(info.shape, &[], &frame);
    let words = FrameInfo::peek(&frame).and_then(of_frame).expect("`frame` made it");
    let words = words.expect("exponents of weights are few, so they have a code");
    let exponents = exponents(&weights);
    let bits: u64 = exponents.iter().map(|&exponent| u64::from(words.lengths[usize::from(exponent)])).sum();
    Ok((words, bits as f64 / exponents.len() as f64))
}

pub(super) fn tensors(
    bench: &Bench<'_>,
    file: &str,
    dtype: DType,
    is_wanted: &dyn Fn(&str) -> bool,
) -> Result<Vec<(TensorInfo, Vec<u8>)>, ReproduceError> {
    let opened = TensorFile::open(&bench.sample(file))?;
    let listed = opened.tensors();
    let wanted = listed.iter().filter(|info| info.dtype == dtype.name() && is_wanted(&info.name));
    wanted.map(|info| Ok((info.clone(), opened.read(info)?))).collect()
}

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

pub(super) fn pretrained_values(bench: &Bench<'_>) -> Result<Vec<u8>, ReproduceError> {
    values(bench, PRETRAINED, &|_| true)
}

/// A tensor of two adjacent checkpoints.
pub(super) struct Adjacent {
    pub(super) name: String,
    pub(super) next: Vec<u8>,
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

pub(super) fn exponents(values: &[u8]) -> Vec<u8> {
    bf16(values).map(|value| Bits::Exponent.of(value) as u8).collect()
}

/// Signs and mantissas of BF16 values, the sign in the highest bit.
pub(super) fn rests(values: &[u8]) -> Vec<u8> {
    bf16(values).map(|value| (Bits::Sign.of(value) << 7 | Bits::Mantissa.of(value)) as u8).collect()
}

pub(super) fn bf16(values: &[u8]) -> impl Iterator<Item = u16> {
    values.as_chunks().0.iter().map(|value| u16::from_le_bytes(*value))
}

/// A frame in the layout `compact`.
pub(super) fn frame(codec: &dyn Codec, dtype: DType, values: &[u8]) -> Vec<u8> {
    codec
        .encode_to_vec(Layout::Compact, dtype, values)
        .expect("figures name codecs that take the type of their values")
}

/// Byte groups of a frame, the most significant one first.
pub(super) fn groups(frame: &[u8]) -> Vec<ByteGroup> {
    let of_frame = |info: FrameInfo| ByteGroup::of_frame(info.shape, &[], frame);
    FrameInfo::peek(frame).and_then(of_frame).expect("`frame` made it, with `grouped` or `blockwise`")
}

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
