//! Rows of BF16 values, or of what becomes of them: the unit in which recorded or drawn data fills a transfer.
//!
//! Rows are kept as bytes, little-endian, because nothing here computes with the values.

use rand::Rng;
use rand_distr::{Distribution, StandardNormal};
use xxhash_rust::xxh3::xxh3_128_with_seed;

use crate::stream;

const DRAWN_ROWS: usize = 4096;
/// Values in a row of drawn sources: 512 bytes, as the recorded samples have.
const DRAWN_WIDTH: usize = 256;

/// At least one row, all of the same width: of BF16 values, unless they are [`quantized`](Self::quantized).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows {
    bytes: Box<[u8]>,
    row_bytes: usize,
    digest: u128,
}

impl Rows {
    /// `bytes` cut into rows of `row_bytes` each.
    ///
    /// # Panics
    /// If there is no row, if the rows are empty, or if the last row is incomplete.
    pub fn new(bytes: Vec<u8>, row_bytes: usize) -> Self {
        assert!(row_bytes > 0 && !bytes.is_empty(), "rows must not be empty");
        assert_eq!(bytes.len() % row_bytes, 0, "the last row is incomplete");
        let digest = xxh3_128_with_seed(&bytes, row_bytes as u64);
        Self { bytes: bytes.into(), row_bytes, digest }
    }

    /// 4096 rows of 256 values from the normal distribution with mean 0 and standard deviation `std`, rounded to
    /// BF16 (nearest, ties to even). The same on every machine.
    pub fn gaussian(std: f64, seed: u64) -> Self {
        let mut rng = stream(seed, "rows gaussian", [0; 3]);
        let normal = (0..DRAWN_ROWS * DRAWN_WIDTH).flat_map(|_| {
            let value: f64 = StandardNormal.sample(&mut rng);
            bf16_bits((value * std) as f32).to_le_bytes()
        });
        Self::new(normal.collect(), 2 * DRAWN_WIDTH)
    }

    /// 4096 rows of 256 values, every bit drawn by a coin: data that no lossless codec makes smaller.
    pub fn noise(seed: u64) -> Self {
        let mut bytes = vec![0; DRAWN_ROWS * DRAWN_WIDTH * 2];
        stream(seed, "rows noise", [0; 3]).fill_bytes(&mut bytes);
        Self::new(bytes, 2 * DRAWN_WIDTH)
    }

    /// Number of rows, at least 1.
    pub fn row_count(&self) -> usize {
        self.bytes.len() / self.row_bytes
    }

    /// Bytes in a row: twice its values, if these are BF16.
    pub fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// The bytes of row `index`.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn row(&self, index: usize) -> &[u8] {
        &self.bytes[index * self.row_bytes..][..self.row_bytes]
    }

    /// A hash of the rows and of their width: equal for equal rows.
    pub fn digest(&self) -> u128 {
        self.digest
    }

    /// All rows, one after the other.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// The BF16 nearest to a finite `value`, ties to even; overflow goes to infinity.
fn bf16_bits(value: f32) -> u16 {
    debug_assert!(!value.is_nan());
    let bits = value.to_bits();
    let round = 0x7fff + ((bits >> 16) & 1);
    // Without NaN the carry can at most reach infinity, which lies 0x7fff below the top of the range.
    ((bits + round) >> 16) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(rows: &Rows) -> Vec<f32> {
        let widen = |pair: &[u8]| f32::from_bits(u32::from(u16::from_le_bytes([pair[0], pair[1]])) << 16);
        rows.as_bytes().chunks_exact(2).map(widen).collect()
    }

    #[test]
    fn rounds_to_nearest_even() {
        assert_eq!(bf16_bits(1.0), 0x3f80);
        assert_eq!(bf16_bits(-0.0), 0x8000);
        let halfway = |upper: u32| f32::from_bits(upper << 16 | 0x8000);
        assert_eq!(bf16_bits(halfway(0x3f80)), 0x3f80, "a tie goes to the even mantissa below");
        assert_eq!(bf16_bits(halfway(0x3f81)), 0x3f82, "a tie goes to the even mantissa above");
        assert_eq!(bf16_bits(f32::from_bits(0x3f80_8001)), 0x3f81);
        assert_eq!(bf16_bits(f32::MAX), 0x7f80, "overflow is infinity");
        assert_eq!(bf16_bits(f32::NEG_INFINITY), 0xff80);
    }

    #[test]
    fn gaussian_has_the_moments_asked_for() {
        let values = values(&Rows::gaussian(0.02, 7));
        let count = values.len() as f64;
        let mean = values.iter().map(|&v| f64::from(v)).sum::<f64>() / count;
        let variance = values.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>() / count - mean * mean;
        // One million draws: the standard error is 2e-5 of the mean and 0.07 % of the deviation.
        assert!(mean.abs() < 1e-4, "mean {mean}");
        assert!((variance.sqrt() / 0.02 - 1.0).abs() < 4e-3, "deviation {}", variance.sqrt());
    }

    #[test]
    fn draws_never_change() {
        assert_eq!(Rows::gaussian(1.0, 7).row(0)[..8], [146, 191, 53, 191, 233, 63, 50, 192]);
        assert_eq!(Rows::noise(7).row(0)[..8], [50, 105, 183, 92, 119, 90, 195, 114]);
    }

    #[test]
    fn noise_uses_every_byte_value_equally() {
        let mut histogram = [0_u32; 256];
        for &byte in Rows::noise(7).as_bytes() {
            histogram[usize::from(byte)] += 1;
        }
        // 8192 expected, standard deviation 90.
        assert!(histogram.iter().all(|count| (7700..8700).contains(count)), "{histogram:?}");
    }

    #[test]
    fn rows_are_addressed_by_index() {
        let rows = Rows::new((0..12).collect(), 4);
        assert_eq!((rows.row_count(), rows.row_bytes()), (3, 4));
        assert_eq!(rows.row(2), [8, 9, 10, 11]);
    }

    #[test]
    #[should_panic(expected = "the last row is incomplete")]
    fn incomplete_row_is_a_programmer_error() {
        Rows::new(vec![0; 5], 2);
    }
}
