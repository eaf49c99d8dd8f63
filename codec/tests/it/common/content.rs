//! Values to test codecs with.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Normal};
use zipwire_codec::DType;

/// A kind of values.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Content {
    /// N(0, 0.02^2).
    Gaussian,
    /// N(0, sigma^2) with another sigma for each 1500 values, some of them idle: all zero.
    Rows,
    /// N(0, sigma^2) with another sigma for each of the eight values of a row, and for each 1500 values; some of these idle.
    Columns,
    /// Sums of two BF16 values from N(0, 0.02^2), some of the values +0: in longer types the low bits are few.
    Sums,
    /// Every bit pattern with the same probability.
    Noise,
    /// All +0.
    Zeros,
    /// N(0, 0.02^2), but 24 % of the values are +0, as in gradients.
    SomeZeros,
    /// A single nonzero value among zeros, in each 5000.
    LoneValue,
    /// The same value everywhere.
    Equal,
    /// NaNs with payloads, infinities, subnormals and zeros of both signs, some normal values.
    Special,
    /// All -0.
    MinusZero,
}

impl Content {
    pub(crate) const ALL: [Self; 11] = [
        Self::Gaussian,
        Self::Rows,
        Self::Columns,
        Self::Sums,
        Self::Noise,
        Self::Zeros,
        Self::SomeZeros,
        Self::LoneValue,
        Self::Equal,
        Self::Special,
        Self::MinusZero,
    ];

    /// `count` values of this kind, little-endian.
    pub(crate) fn values(self, dtype: DType, count: usize, seed: u64) -> Vec<u8> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let normal = Normal::new(0.0f32, 0.02).expect("the deviation is positive");
        let sign = 1u32 << (8 * dtype.width() - 1);
        let exponents = infinity(dtype);
        let value = |i: usize| match self {
            Self::Gaussian => narrowed(dtype, normal.sample(&mut rng)),
            Self::Rows => {
                let scale = [1.0f32, 1e-4, 0.0, 30.0, 0.07][i / 1500 % 5];
                narrowed(dtype, (scale * normal.sample(&mut rng)).abs())
            }
            Self::Columns => {
                let scale = [1.0f32, 0.1, 1.0, 0.02, 4.0, 0.5, 2e-3, 1.0][i % 8];
                narrowed(dtype, [1.0, 0.03, 0.0][i / 1500 % 3] * scale * normal.sample(&mut rng))
            }
            Self::Sums if i / 1500 % 3 == 1 && rng.random::<f32>() < 0.24 => 0,
            Self::Sums => {
                let mut bf16 = || f32::from_bits(normal.sample(&mut rng).to_bits() & 0xffff_0000);
                narrowed(dtype, bf16() + bf16())
            }
            Self::Noise => rng.random(),
            Self::Zeros => 0,
            Self::SomeZeros if rng.random::<f32>() < 0.24 => 0,
            Self::SomeZeros => narrowed(dtype, normal.sample(&mut rng)),
            Self::LoneValue if i % 5000 == 77 => narrowed(dtype, 0.5),
            Self::LoneValue => 0,
            Self::Equal => narrowed(dtype, -1.5),
            Self::Special => match rng.random_range(0..8) {
                0 => exponents | rng.random::<u32>(),
                1 => exponents,
                2 => exponents | sign,
                3 => rng.random::<u32>() & !exponents,
                4 => 0,
                5 => sign,
                _ => narrowed(dtype, normal.sample(&mut rng)),
            },
            Self::MinusZero => sign,
        };
        (0..count).map(value).flat_map(|bits| bits.to_le_bytes().into_iter().take(dtype.width())).collect()
    }
}

/// All patterns of a type of one or two bytes in ascending order; of longer ones, as many random patterns.
pub(crate) fn every_pattern(dtype: DType) -> Vec<u8> {
    match dtype.width() {
        1 => (0..=u8::MAX).collect(),
        2 => (0..=u16::MAX).flat_map(u16::to_le_bytes).collect(),
        _ => Content::Noise.values(dtype, 1 << 16, 1),
    }
}

/// All patterns of a type of one or two bytes, of longer ones as many random ones: in ascending order, and shuffled.
pub(crate) fn ascending_and_shuffled(dtype: DType) -> [Vec<u8>; 2] {
    let ascending = every_pattern(dtype);
    let mut patterns: Vec<&[u8]> = ascending.chunks(dtype.width()).collect();
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    for i in (1..patterns.len()).rev() {
        patterns.swap(i, rng.random_range(0..=i));
    }
    let shuffled = patterns.concat();
    [ascending, shuffled]
}

/// Bits of the exponent and of the mantissa.
pub(crate) fn fields(dtype: DType) -> (u32, u32) {
    match dtype {
        DType::Bf16 => (8, 7),
        DType::F16 => (5, 10),
        DType::F32 => (8, 23),
        DType::F8E4M3 => (4, 3),
        DType::F8E5M2 => (5, 2),
    }
}

/// All exponent bits set, nothing else.
fn infinity(dtype: DType) -> u32 {
    let (exponent, mantissa) = fields(dtype);
    ((1 << exponent) - 1) << mantissa
}

/// The nearest value towards zero; what is too small becomes zero. Exact enough for test data.
fn narrowed(dtype: DType, value: f32) -> u32 {
    let (exponent, mantissa) = fields(dtype);
    let bits = value.to_bits();
    let rebiased = (bits >> 23 & 0xff) as i32 - 127 + (1 << (exponent - 1)) - 1;
    let sign = bits >> 31 << (exponent + mantissa);
    if rebiased <= 0 {
        return sign;
    }
    sign | (rebiased as u32) << mantissa | (bits & 0x7f_ffff) >> (23 - mantissa)
}
