//! Frames that are decoded and added up, against the same in plain loops.

use zipwire_codec::DType;

use crate::bench::{Bench, Part};
use crate::content::Content;

/// The only NaN that sums have (docs/reduction.md).
const NAN: u32 = 0x7fc0_0000;

/// Sums of several kinds of values, with values that are no frames among them, in lengths with and without partial tiles.
pub(crate) fn sums(spec: &'static str, dtype: DType) {
    let bench = Bench::new(spec, dtype);
    let kinds = [
        Content::Gaussian,
        Content::Rows,
        Content::SomeZeros,
        Content::Noise,
        Content::Special,
        Content::MinusZero,
    ];
    for (first, lens) in [[8192usize, 16_384], [9000, 9000], [70_001, 5]].into_iter().enumerate() {
        for contributions in [1, 2, 4] {
            let values = |output: usize, number: usize| {
                let kind = kinds[(first + 2 * output + number) % kinds.len()];
                kind.values(dtype, lens[output], (10 * output + number) as u64)
            };
            let parts = |output: usize| {
                let part = |number: usize| {
                    let values = values(output, number);
                    if number == 1 {
                        Part::Values(values)
                    } else {
                        Part::Frame(bench.on_cpu(&values), values)
                    }
                };
                (0..contributions).map(part).collect::<Vec<_>>()
            };
            let outputs: Vec<Vec<Part>> = (0..2).map(parts).collect();
            for rounded in [false, true] {
                let context = format!("{lens:?} values, {contributions} contributions, rounded: {rounded}");
                let found = bench.reduce(&outputs, rounded).unwrap();
                for (found, parts) in found.iter().zip(&outputs) {
                    assert!(*found == reference(dtype, parts, rounded), "{context}: another sum");
                }
            }
        }
    }
    let values = Content::Gaussian.values(dtype, 9000, 1);
    let mut bad = bench.on_cpu(&values);
    bad.fixed[150] ^= 4;
    let parts = vec![Part::Frame(bench.on_cpu(&values), values.clone()), Part::Frame(bad, values)];
    let faults = bench.reduce(&[parts], false).unwrap_err();
    assert!(faults[0].is_none() && faults[1].is_some(), "{faults:?}");
}

/// The definition.
fn reference(dtype: DType, parts: &[Part], rounded: bool) -> Vec<u8> {
    assert_eq!(dtype, DType::Bf16, "the only type that sums are written for here");
    let values = |part: &Part| -> Vec<f32> {
        let (Part::Frame(_, values) | Part::Values(values)) = part;
        let pairs = values.as_chunks::<2>().0;
        pairs.iter().map(|pair| f32::from_bits(u32::from(u16::from_le_bytes(*pair)) << 16)).collect()
    };
    let all: Vec<Vec<f32>> = parts.iter().map(values).collect();
    let sum = |i: usize| all.iter().fold(-0.0f32, |sum, values| sum + values[i]);
    let bits = |sum: f32| if sum.is_nan() { NAN } else { sum.to_bits() };
    let sums = (0..all[0].len()).map(|i| bits(sum(i)));
    if !rounded {
        return sums.flat_map(u32::to_le_bytes).collect();
    }
    let round = |bits: u32| {
        let rounded = (u64::from(bits) + 0x7fff + u64::from(bits >> 16 & 1)) >> 16;
        if bits == NAN { 0x7fc0 } else { rounded as u16 }
    };
    sums.map(round).flat_map(u16::to_le_bytes).collect()
}
