//! Table 2, clean models: weights that were BF16 before they became FP16 or FP32, which is what the paper takes some of them to be.

use zipwire_codec::{ByteGroup, DType, Grouped};

use crate::coded::{bf16, frame, groups, percent, pretrained_values};
use crate::figure::{Figure, Measurement, Ours};
use crate::samples::PRETRAINED;
use crate::{Bench, ReproduceError};

pub(super) const FIGURE: Figure = Figure {
    measurements: &[
        Measurement::of("clean-fp16", |bench| size(bench, DType::F16)),
        Measurement::of("clean-fp16-high", |bench| group(bench, DType::F16, 0..1)),
        Measurement::of("clean-fp16-low", |bench| group(bench, DType::F16, 1..2)),
        Measurement::of("clean-fp32", |bench| size(bench, DType::F32)),
        Measurement::of("clean-fp32-low", |bench| group(bench, DType::F32, 2..4)),
    ],
    curves: &[],
};

/// Pretrained BF16 weights as values of another type.
fn converted(bench: &Bench<'_>, dtype: DType) -> Result<Vec<u8>, ReproduceError> {
    let weights = pretrained_values(bench)?;
    let values = bf16(&weights).map(|value| f32::from_bits(u32::from(value) << 16));
    Ok(match dtype {
        DType::F16 => values.flat_map(|value| f16_bits(value).to_le_bytes()).collect(),
        _ => values.flat_map(f32::to_le_bytes).collect(),
    })
}

/// Their size, in percent.
fn size(bench: &Bench<'_>, dtype: DType) -> Result<Ours, ReproduceError> {
    let values = converted(bench, dtype)?;
    let frame = frame(&Grouped, dtype, &values);
    Ok(Ours::with(percent(frame.len(), values.len()), note(dtype)))
}

/// The size of some of their byte groups, in percent.
fn group(bench: &Bench<'_>, dtype: DType, numbers: std::ops::Range<usize>) -> Result<Ours, ReproduceError> {
    let groups = groups(&frame(&Grouped, dtype, &converted(bench, dtype)?));
    let sum = |len: fn(&ByteGroup) -> usize| groups[numbers.clone()].iter().map(len).sum();
    Ok(Ours::with(percent(sum(|group| group.coded_len), sum(|group| group.raw_len)), note(dtype)))
}

fn note(dtype: DType) -> String {
    format!("`{PRETRAINED}` as {dtype}")
}

/// The nearest FP16 value of a BF16 one, even in the middle; its bits. BF16 has fewer bits of mantissa, so only values below the least normal one are
/// rounded. Of those beyond the largest FP16 value, infinity.
fn f16_bits(value: f32) -> u16 {
    let sign = (value.to_bits() >> 16) as u16 & 0x8000;
    let magnitude = value.abs();
    let bits = match magnitude {
        // In units of the least FP16 value.
        small if small < 2f32.powi(-14) => (small * 2f32.powi(24)).round_ties_even() as u16,
        large if large >= 65536.0 => 0x7c00,
        normal => ((normal.to_bits() - (112 << 23)) >> 13) as u16,
    };
    sign | bits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_bf16_become_the_nearest_of_fp16() {
        for (value, bits) in [
            (0.0, 0),
            (-0.0, 0x8000),
            (1.0, 0x3c00),
            (-1.5, 0xbe00),
            (65280.0, 0x7bf8),
            (65536.0, 0x7c00),
            (2f32.powi(-14), 0x0400),
            (1.9921875 * 2f32.powi(-15), 0x03fc),
            (2f32.powi(-24), 1),
            // Half of the least value is as near to zero, which is even; three halves are as near to two.
            (2f32.powi(-25), 0),
            (1.5 * 2f32.powi(-24), 2),
        ] {
            assert_eq!(f16_bits(value), bits, "{value}");
        }
    }
}
