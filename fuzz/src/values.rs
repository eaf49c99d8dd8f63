//! Values of one type, in runs of different kinds, as the fuzzer's bytes say.

use arbitrary::{Result, Unstructured};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zipwire_codec::DType;

/// Around the borders of tiles and blocks.
const BORDERS: [usize; 5] = [512, 1024, 8192, 16384, 32768];

/// Little-endian values: a number of them, then runs until there are as many.
///
/// # Errors
/// If there are too few bytes.
pub fn values(input: &mut Unstructured<'_>, dtype: DType) -> Result<Vec<u8>> {
    let count = count(input)?;
    let mut values = Vec::with_capacity(count * dtype.width());
    let mut left = count;
    while left > 0 {
        // Where the bytes end, zeros are left.
        let len = if input.is_empty() { left } else { run_len(input)?.min(left) };
        run(input, dtype, len, &mut values)?;
        left -= len;
    }
    Ok(values)
}

/// Mostly few, because that is fast; sometimes more than a tile or block, which are where other paths begin.
fn count(input: &mut Unstructured<'_>) -> Result<usize> {
    match input.int_in_range(0..=15)? {
        0..=9 => input.int_in_range(0..=300),
        10..=13 => input.int_in_range(0..=2200),
        14 => Ok(input.choose(&BORDERS[..3])? - 20 + input.int_in_range(0..=40)?),
        _ => Ok(input.choose(&BORDERS)? - 20 + input.int_in_range(0..=600)?),
    }
}

/// Short ones of any length, long ones in whole groups of 256.
pub(crate) fn run_len(input: &mut Unstructured<'_>) -> Result<usize> {
    Ok(match input.arbitrary::<u8>()? {
        short @ 0..128 => 1 + usize::from(short),
        long => usize::from(long - 127) * 256,
    })
}

/// Appends `len` values of one kind.
fn run(input: &mut Unstructured<'_>, dtype: DType, len: usize, values: &mut Vec<u8>) -> Result<()> {
    let kind = input.int_in_range(0..=8)?;
    match kind {
        0 => values.resize(values.len() + len * dtype.width(), 0),
        1 => {
            let value = input.arbitrary::<u32>()?;
            put(values, dtype, std::iter::repeat_n(value, len));
        }
        2 => {
            let bytes = input.int_in_range(1..=32)?;
            let pattern = input.bytes(bytes.min(input.len()))?;
            values.extend(pattern.iter().chain([&1]).cycle().take(len * dtype.width()));
        }
        3 => {
            // Columns that differ in scale.
            let columns = input.int_in_range(2..=24)?;
            let offsets = input.bytes(columns.min(input.len()))?;
            let (centre, mut rng) = (input.arbitrary::<u8>()?, ChaCha8Rng::seed_from_u64(0));
            let drawn = offsets.iter().chain([&0]).cycle().map(|offset| {
                with_exponent(&mut rng, dtype, |draw| {
                    centre.wrapping_add(offset % 32).wrapping_sub(draw.trailing_zeros() as u8)
                })
            });
            put(values, dtype, drawn.take(len));
        }
        4 => {
            // What is there already, once more: rows that repeat earlier ones.
            let back = usize::from(input.arbitrary::<u8>()?) * dtype.width();
            for _ in 0..len * dtype.width() {
                let byte = values.len().checked_sub(back.max(1)).map_or(0, |from| values[from]);
                values.push(byte);
            }
        }
        _ => {
            let (centre, seed) = (input.arbitrary::<u8>()?, input.arbitrary::<u16>()?);
            let zeros = if kind == 5 { input.arbitrary::<u8>()? } else { 0 };
            let mut rng = ChaCha8Rng::seed_from_u64(u64::from(seed));
            let drawn = std::iter::repeat_with(|| match kind {
                5 if rng.random::<u8>() <= zeros => 0,
                // As Gaussian values are: each exponent below the highest is half as frequent.
                5 | 6 => {
                    with_exponent(&mut rng, dtype, |draw| centre.wrapping_sub(draw.trailing_zeros() as u8))
                }
                // A few exponents side by side.
                7 => with_exponent(&mut rng, dtype, |draw| centre.wrapping_add(draw as u8 % 20)),
                _ => rng.random(),
            });
            put(values, dtype, drawn.take(len));
        }
    }
    Ok(())
}

/// A value with any sign and mantissa.
fn with_exponent(rng: &mut ChaCha8Rng, dtype: DType, exponent: impl Fn(u32) -> u8) -> u32 {
    let (exponent_bits, mantissa_bits) = match dtype {
        DType::Bf16 => (8, 7),
        DType::F16 => (5, 10),
        DType::F32 => (8, 23),
        DType::F8E4M3 => (4, 3),
        DType::F8E5M2 => (5, 2),
    };
    let mask = ((1_u32 << exponent_bits) - 1) << mantissa_bits;
    let exponent = u32::from(exponent(rng.random())) << mantissa_bits & mask;
    rng.random::<u32>() & !mask | exponent
}

fn put(values: &mut Vec<u8>, dtype: DType, bits: impl Iterator<Item = u32>) {
    bits.for_each(|bits| values.extend_from_slice(&bits.to_le_bytes()[..dtype.width()]));
}
