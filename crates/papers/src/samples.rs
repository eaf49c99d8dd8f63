//! Sizes and exponents of recorded tensors.

use serde::Deserialize;
use zipwire_bench::inspect::Histogram;
use zipwire_codec::{DType, ExponentWords, FrameInfo, Huffman, Layout, Spec, encode_to_vec};
use zipwire_traces::{TensorFile, TensorInfo};

use crate::coded;
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
        let frame = encode_to_vec(codec.as_ref(), Layout::Compact, dtype, &values)
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

    /// Values that were counted.
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
    let weights = coded::pretrained_values(bench)?;
    let frame = coded::frame(&Huffman, DType::Bf16, &weights);
    let of_frame = |info: FrameInfo| ExponentWords::of_frame(info.shape, &[], &frame);
    let words = FrameInfo::peek(&frame).and_then(of_frame).expect("`frame` made it");
    let words = words.expect("exponents of weights are few, so they have a code");
    let exponents = coded::exponents(&weights);
    let bits: u64 = exponents.iter().map(|&exponent| u64::from(words.lengths[usize::from(exponent)])).sum();
    Ok((words, bits as f64 / exponents.len() as f64))
}

/// Tensors and their bytes.
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
