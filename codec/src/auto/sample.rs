//! Sizes of frames, estimated from a sample of the values.
//!
//! The sample is coded by `tiered`, the quickest codec that tells one kind of values from another; how long the frames of the
//! others are follows from its size by a table of measured tensors. Coding the sample by each of them instead would be
//! closer and take as long as coding all of the values: codecs with tables need some ten thousand values for one.

use super::Class;
use super::measured::Candidate;
use crate::{Codec, DType, FrameShape, Layout, Tiered};

/// Values that are coded by every codec: of so few, that takes no longer than a sample, and headers count.
const FEW: usize = 4096;
/// Values of a sample, about.
const SAMPLE: usize = 4096;
/// Values from which on a sample is four times as large.
const MANY: usize = 1 << 22;
/// Values of a slice of it, at least: those that have a base of their own in `tiered`.
const SLICE_VALUES: usize = 256;
/// The longest row that slices are made of; parts of longer ones would lie across columns.
const LONGEST_ROW: usize = 1024;

/// Sizes and class of all values, estimated from a sample or exact.
pub(super) struct Sizes<'a> {
    pub(super) class: Class,
    /// The values, if they are coded by every codec.
    all: Option<&'a [u8]>,
    /// Bytes that `tiered` makes of one, its front matter apart.
    share: f64,
}

/// Looks at a sample of the values, which are in rows of `row`; 0 if that is not known.
pub(super) fn sizes(dtype: DType, values: &[u8], row: u32) -> Sizes<'_> {
    let count = values.len() / dtype.width();
    if count <= FEW {
        return all(dtype, values);
    }
    let row = if row as usize > LONGEST_ROW { 0 } else { row };
    let sample = take(dtype, values, row as usize);
    let codec = Tiered::new().row(row);
    let shape = FrameShape::new(Layout::Compact, dtype, sample.len() / dtype.width());
    let coded =
        codec.encode_to_vec(Layout::Compact, dtype, &sample).map_or(sample.len(), |frame| frame.len());
    let share = coded.saturating_sub(front_len(&codec, shape)) as f64 / sample.len() as f64;
    Sizes { class: class(dtype, &sample), all: None, share: share.min(1.0) }
}

/// Sizes of the frames that codecs make of these values.
pub(super) fn all(dtype: DType, values: &[u8]) -> Sizes<'_> {
    Sizes { class: class(dtype, values), all: Some(values), share: 0.0 }
}

impl Sizes<'_> {
    /// Bytes of the frame that a candidate makes of all `count` values.
    pub(super) fn of(&self, candidate: &Candidate, codec: &dyn Codec, dtype: DType, count: usize) -> u64 {
        let shape = FrameShape::new(Layout::Compact, dtype, count);
        let bound = codec.bound(shape);
        if let Some(values) = self.all {
            return codec.encode_to_vec(Layout::Compact, dtype, values).map_or(bound, |frame| frame.len())
                as u64;
        }
        let share = candidate.known(dtype).map_or(1.0, |known| along(known.shares, self.share));
        let body = share * shape.values_len() as f64;
        (front_len(codec, shape) + body as usize).clamp(codec.min_len(shape).min(bound), bound) as u64
    }
}

/// Bytes of the bound beside the values.
fn front_len(codec: &dyn Codec, shape: FrameShape) -> usize {
    codec.bound(shape).saturating_sub(shape.values_len())
}

/// Slices from all over the values: whole rows, if these are short.
fn take(dtype: DType, values: &[u8], row: usize) -> Vec<u8> {
    let count = values.len() / dtype.width();
    let step = if row == 0 { SLICE_VALUES } else { row };
    let slice = step * (SLICE_VALUES / step).max(1);
    let wanted = if count < MANY { SAMPLE } else { 4 * SAMPLE };
    let slices = (wanted / slice).max(1);
    let mut sample = Vec::with_capacity(slices * slice * dtype.width());
    let stride = count / slices;
    for number in 0..slices {
        // Somewhere in its part of the values: what is periodic must not meet with the strides. Fibonacci hashing.
        let jitter = ((number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % stride.max(1);
        let begin = (number * stride + jitter).min(count - slice.min(count)) / step * step;
        let end = (begin + slice).min(count);
        sample.extend_from_slice(&values[begin * dtype.width()..end * dtype.width()]);
    }
    sample
}

fn class(dtype: DType, values: &[u8]) -> Class {
    let zeros: usize = match dtype.width() {
        1 => zeros(values.as_chunks::<1>().0),
        2 => zeros(values.as_chunks::<2>().0),
        _ => zeros(values.as_chunks::<4>().0),
    };
    let count = (values.len() / dtype.width()).max(1);
    Class::of_zeros_pct(100.0 * zeros as f64 / count as f64)
}

/// How many values are +0. Counts of parts are narrow, so that a vector has many of them.
fn zeros<const WIDTH: usize>(values: &[[u8; WIDTH]]) -> usize {
    let part =
        |values: &[[u8; WIDTH]]| values.iter().map(|value| u16::from(*value == [0; WIDTH])).sum::<u16>();
    values.chunks(SLICE_VALUES).map(|values| usize::from(part(values))).sum()
}

/// The height at `x` of the lines through these points, which begin at 0 and end at 1.
fn along(points: &[(f64, f64)], x: f64) -> f64 {
    let end = points.iter().position(|point| point.0 >= x).unwrap_or(points.len() - 1).max(1);
    let ((left, low), (right, high)) = (points[end - 1], points[end]);
    low + (high - low) * ((x - left) / (right - left)).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_joined_by_lines() {
        let points = [(0.0, 0.0), (0.5, 0.8), (1.0, 1.0)];
        let found = [0.0, 0.25, 0.5, 0.75, 1.0, 2.0].map(|x| along(&points, x));
        assert_eq!(found, [0.0, 0.4, 0.8, 0.9, 1.0, 1.0]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "millions of values, and no memory but of safe code")]
    fn samples_are_from_all_over_and_of_whole_rows() {
        // Each value is its row.
        for (row, count) in
            [(300, 300 * 500), (64, 64 * 200), (1024, 1024 * 9), (0, 5000), (7, 4097), (0, MANY)]
        {
            let rows = row.max(1);
            let values: Vec<u8> = (0..count).flat_map(|i| ((i / rows) as u32).to_le_bytes()).collect();
            let sample = take(DType::F32, &values, row);
            let taken: Vec<u32> =
                sample.as_chunks().0.iter().map(|value| u32::from_le_bytes(*value)).collect();
            let wanted = if count < MANY { SAMPLE } else { 4 * SAMPLE };
            assert!((wanted / 2..=wanted).contains(&taken.len()), "{row} {count}: {}", taken.len());
            assert!(
                taken.chunks(rows).all(|row| row.len() == rows && row.iter().all(|value| *value == row[0]))
            );
            let last = (count / rows) as u32;
            assert!(
                taken.iter().any(|value| *value < last / 4)
                    && taken.iter().any(|value| *value >= last - last / 4)
            );
        }
    }
}
