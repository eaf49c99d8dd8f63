//! Rows of FP8 values with a scale for each block, as they are made of BF16 values where activations are quantized on
//! their way to the experts (DeepSeek-V3's recipe, arXiv 2412.19437, sec. 3.3.2 and 3.3.3: blocks of 128 values of a token).
//!
//! A row of n values is n bytes of F8_E4M3 (the finite form: no infinities, largest value 448), then n / 128 scales, F32,
//! little-endian. A value is its byte times the scale of its block.

use crate::Rows;

/// Values that have a scale in common.
pub const FP8_BLOCK: usize = 128;
const SCALE_BYTES: usize = 4;
/// The largest value of F8_E4M3, and its bits.
const MAX: f32 = 448.0;
const MAX_BITS: u8 = 0x7e;
const NAN_BITS: u8 = 0x7f;
/// Blocks of smaller values have the scale of this one, so that none is 0.
const SMALLEST_PEAK: f32 = 1e-4;
/// The smallest normal value is 2^-6, and below it values are multiples of 2^-9.
const SMALLEST_NORMAL: f32 = 0.015625;
const SUBNORMALS_PER_ONE: f32 = 512.0;

/// Bytes of a row of `values` values, a multiple of [`FP8_BLOCK`], with its scales.
pub fn fp8_row_bytes(values: usize) -> usize {
    values + values / FP8_BLOCK * SCALE_BYTES
}

impl Rows {
    /// These BF16 values, one row behind the other, as rows of `values` FP8 values with their scales. What is left over is
    /// dropped; fewer values than a row has are repeated.
    ///
    /// # Panics
    /// If `values` is 0 or no multiple of [`FP8_BLOCK`], or rows are not of whole values.
    #[must_use]
    pub fn quantized(&self, values: usize) -> Self {
        assert!(values > 0 && values.is_multiple_of(FP8_BLOCK), "a row is made of whole blocks");
        let (all, beyond) = self.as_bytes().as_chunks::<2>();
        assert!(beyond.is_empty(), "rows are made of whole values");
        let row_count = (all.len() / values).max(1);
        let mut left = all.iter().cycle();
        let mut bytes = Vec::with_capacity(row_count * fp8_row_bytes(values));
        for _ in 0..row_count {
            let row: Vec<f32> = left.by_ref().take(values).map(|value| from_bf16(*value)).collect();
            let scales = row.chunks_exact(FP8_BLOCK).map(|block| peak(block) / MAX);
            let scales: Vec<u8> = scales.flat_map(f32::to_le_bytes).collect();
            for block in row.chunks_exact(FP8_BLOCK) {
                let factor = MAX / peak(block);
                bytes.extend(block.iter().map(|value| e4m3_bits(value * factor)));
            }
            bytes.extend(scales);
        }
        Self::new(bytes, fp8_row_bytes(values))
    }
}

fn from_bf16([low, high]: [u8; 2]) -> f32 {
    f32::from_le_bytes([0, 0, low, high])
}

/// The largest absolute value of a block, as far as it is a number.
fn peak(block: &[f32]) -> f32 {
    let finite = block.iter().map(|value| value.abs()).filter(|value| value.is_finite());
    finite.fold(SMALLEST_PEAK, f32::max)
}

/// The nearest F8_E4M3 value, ties to even; what is beyond the largest one becomes that.
fn e4m3_bits(value: f32) -> u8 {
    if value.is_nan() {
        return NAN_BITS;
    }
    let (sign, size) = (u8::from(value.is_sign_negative()) << 7, value.abs());
    if size < SMALLEST_NORMAL {
        // Exact: at most 8, which are the bits of the smallest normal value.
        return sign | (size * SUBNORMALS_PER_ONE).round_ties_even() as u8;
    }
    // Three bits of mantissa stay of 23, and the exponent is counted from 2^-7 instead of 2^-127.
    let bits = size.min(MAX).to_bits();
    let rounded = bits + 0x7_ffff + (bits >> 20 & 1);
    sign | ((rounded >> 20) - (120 << 3)).min(u32::from(MAX_BITS)) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By definition: bias 7, three bits of mantissa.
    fn value(bits: u8) -> f32 {
        let (exponent, mantissa) = (i32::from(bits >> 3 & 15), f32::from(bits & 7));
        let size = if exponent == 0 {
            mantissa / 8.0 * 2f32.powi(-6)
        } else {
            (1.0 + mantissa / 8.0) * 2f32.powi(exponent - 7)
        };
        if bits >> 7 == 1 { -size } else { size }
    }

    #[test]
    fn every_value_is_kept_and_what_is_between_goes_to_the_nearest() {
        let finite = (0..=MAX_BITS).map(|bits| (bits, value(bits))).collect::<Vec<_>>();
        for &(bits, value) in &finite {
            assert_eq!(e4m3_bits(value), bits);
            assert_eq!(e4m3_bits(-value), bits | 0x80);
        }
        for pair in finite.windows(2) {
            let [(low_bits, low), (high_bits, high)] = [pair[0], pair[1]];
            let middle = f32::midpoint(low, high);
            let even = if low_bits % 2 == 0 { low_bits } else { high_bits };
            assert_eq!(e4m3_bits(middle), even, "between {low} and {high}");
            assert_eq!(e4m3_bits(middle.next_down()), low_bits);
            assert_eq!(e4m3_bits(middle.next_up()), high_bits);
        }
        for beyond in [449.0, 1e9, f32::INFINITY] {
            assert_eq!([e4m3_bits(beyond), e4m3_bits(-beyond)], [MAX_BITS, MAX_BITS | 0x80]);
        }
        assert_eq!(e4m3_bits(f32::NAN), NAN_BITS);
    }

    #[test]
    fn rows_have_their_values_and_then_their_scales() {
        let source = Rows::gaussian(0.02, 1);
        let rows = source.quantized(256);
        assert_eq!((rows.row_bytes(), rows.row_count()), (256 + 2 * 4, source.row_count()));
        for index in [0, 1, 4095] {
            let (values, scales) = rows.row(index).split_at(256);
            let source = source.row(index).as_chunks().0;
            let scales = scales.as_chunks().0;
            for (at, (byte, bf16)) in values.iter().zip(source).enumerate() {
                let scale = f32::from_le_bytes(scales[at / FP8_BLOCK]);
                let (found, exact) = (value(*byte) * scale, from_bf16(*bf16));
                // Half a unit in the last of three bits, or half of the smallest step.
                let bound = (exact.abs() / 16.0).max(scale / 1024.0) * 1.001;
                assert!((found - exact).abs() <= bound, "{found} for {exact}");
            }
            let peaks = values.chunks(FP8_BLOCK).map(|block| block.iter().map(|byte| byte & 0x7f).max());
            assert!(peaks.into_iter().all(|peak| peak == Some(MAX_BITS)), "blocks use the whole range");
        }
    }

    #[test]
    fn rows_of_other_widths_follow_one_another() {
        let source = Rows::gaussian(1.0, 2);
        let (wide, narrow) = (source.quantized(512), source.quantized(256));
        assert_eq!(wide.row_count(), narrow.row_count() / 2);
        assert_eq!(wide.row(7)[256..512], narrow.row(15)[..256]);
        let short = Rows::new(vec![0, 0x40], 2).quantized(128);
        assert_eq!((short.row_count(), short.row_bytes()), (1, 132));
        assert!(short.row(0)[..128].iter().all(|byte| *byte == MAX_BITS));
    }
}
