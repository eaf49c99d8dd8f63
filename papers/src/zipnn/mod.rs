//! ZipNN: what is known of weights without its codec.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use zipwire_codec::DType;

use crate::figure::{Figure, Measurement, Ours};
use crate::samples::{Bits, PRETRAINED, pretrained, tensors};
use crate::{Bench, ReproduceError};

pub(super) const FIGURES: &[Figure] = &[Figure {
    measurements: &[
        Measurement::of("exponents-used", |bench| {
            pretrained(bench, Bits::Exponent, |counts| counts.used() as f64)
        }),
        Measurement::of("top12", |bench| {
            pretrained(bench, Bits::Exponent, |counts| 100.0 * counts.coverage(12))
        }),
        Measurement::of("shuffle", shuffle),
        Measurement::of("lz4", lz4),
    ],
    curves: &[],
}];

/// The level of Zstd, its default.
const LEVEL: i32 = 3;

/// The BF16 values of all tensors, one after the other.
fn weights(bench: &Bench<'_>) -> Result<Vec<u8>, ReproduceError> {
    Ok(tensors(bench, PRETRAINED, DType::Bf16, |_| true)?
        .into_iter()
        .flat_map(|(_, values)| values)
        .collect())
}

/// How many percent larger the exponents are, coded by Zstd, if the parameters are shuffled.
fn shuffle(bench: &Bench<'_>) -> Result<Ours, ReproduceError> {
    let weights = weights(bench)?;
    let mut exponents: Vec<u8> = weights
        .chunks_exact(2)
        .map(|value| Bits::Exponent.of(u16::from_le_bytes([value[0], value[1]])) as u8)
        .collect();
    let before = zstd_len(&exponents);
    let mut random = ChaCha8Rng::seed_from_u64(1);
    for last in (1..exponents.len()).rev() {
        exponents.swap(last, (random.next_u64() % (last as u64 + 1)) as usize);
    }
    let note = format!("{} values of `{PRETRAINED}`, Zstd at level {LEVEL}", exponents.len());
    Ok(Ours::with(100.0 * (zstd_len(&exponents) as f64 / before as f64 - 1.0), note))
}

fn zstd_len(bytes: &[u8]) -> usize {
    zstd::bulk::compress(bytes, LEVEL).expect("memory takes it").len()
}

/// What LZ4 makes of BF16 weights, in percent of their size.
fn lz4(bench: &Bench<'_>) -> Result<Ours, ReproduceError> {
    let weights = weights(bench)?;
    let coded = lz4_flex::block::compress(&weights);
    Ok(Ours::with(100.0 * coded.len() as f64 / weights.len() as f64, format!("`{PRETRAINED}`")))
}
