//! Sums of what ranks contribute, regenerated from the contributions of all of them.

use zipwire_schedule::plan::Chunk;
use zipwire_schedule::{DType, Sum, sum};

use super::{ChunkId, Payload};

/// Writes the part of a sum that `chunk` names. Contributions are BF16 and are widened, whatever type they travel in.
pub(super) fn fill(payload: &Payload, ChunkId { segment, chunk }: ChunkId, sum: Sum, out: &mut [u8]) {
    let (width, row_width) = (sum.dtype().width(), DType::Bf16.width());
    assert!(out.len().is_multiple_of(width), "sums are whole values");
    let count = out.len() / width;
    let (shard, offset) = (chunk.shard(), chunk.offset / width as u64 * row_width as u64);
    let mut values = vec![0; count * row_width];
    let total = sum.of_contributions(count, &mut |origin, out| {
        let chunk = Chunk { offset, part: chunk.part, flow: chunk.flow, ..Chunk::between(origin, shard) };
        payload.fill_rows(payload.source(segment), ChunkId { segment, chunk }, &mut values);
        sum::begin(out, DType::Bf16, &values);
    });
    sum::store(&total, sum.dtype(), out);
}

/// Offset in bytes of the first value of `received` that is no rounded sum of the contributions in any order: one that differs from their exact sum by
/// more than a rounding for each of them could (N. Higham, Accuracy and Stability of Numerical Algorithms, section 4.2). Where contributions
/// are so large that an order of them overflows, any value is one.
pub(super) fn beyond_rounding(
    payload: &Payload,
    ChunkId { segment, chunk }: ChunkId,
    sum: Sum,
    received: &[u8],
) -> Option<u64> {
    let (width, row_width) = (sum.dtype().width(), DType::Bf16.width());
    assert!(received.len().is_multiple_of(width), "sums are whole values");
    let count = received.len() / width;
    let (shard, offset) = (chunk.shard(), chunk.offset / width as u64 * row_width as u64);
    let mut values = vec![0; count * row_width];
    let (mut widened, mut exact, mut sizes) = (vec![0.0; count], vec![0.0_f64; count], vec![0.0_f64; count]);
    for origin in sum.origins() {
        let chunk = Chunk { offset, part: chunk.part, flow: chunk.flow, ..Chunk::between(origin, shard) };
        payload.fill_rows(payload.source(segment), ChunkId { segment, chunk }, &mut values);
        sum::begin(&mut widened, DType::Bf16, &values);
        for ((exact, size), value) in exact.iter_mut().zip(&mut sizes).zip(&widened) {
            *exact += f64::from(*value);
            *size += f64::from(value.abs());
        }
    }
    let mut sums = vec![0.0; count];
    sum::begin(&mut sums, sum.dtype(), received);
    // Half of the distance between 1 and the next value.
    let unit = if sum.dtype() == DType::Bf16 { 2.0_f64.powi(-8) } else { 2.0_f64.powi(-24) };
    let share = sum.count() as f64 * unit / (1.0 - sum.count() as f64 * unit);
    let is_sum = |((value, exact), size): ((&f32, &f64), &f64)| {
        let overflows = size.is_nan() || *size >= f64::from(f32::MAX) * (1.0 - unit);
        overflows || (f64::from(*value) - exact).abs() <= share * size + f64::from(f32::MIN_POSITIVE)
    };
    let wrong = sums.iter().zip(&exact).zip(&sizes).position(|value| !is_sum(value));
    wrong.map(|index| (index * width) as u64)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rand::Rng;
    use zipwire_schedule::{Rank, SegmentId};

    use super::*;
    use crate::{Rows, stream};

    const SEGMENT: SegmentId = SegmentId(0);

    fn payload() -> Payload {
        // Values of many sizes: sums of a few BF16 values of one size are exact in FP32, in any order.
        let mut bits = vec![0; 2 * 64 * 256];
        stream(3, "test", [0; 3]).fill_bytes(&mut bits);
        let value = |two: &[u8]| [two[0], two[1] & 0xbf | if two[1] & 0x40 == 0 { 0x30 } else { 0 }];
        Payload::new(3, vec![Arc::new(Rows::new(bits.chunks(2).flat_map(value).collect(), 512))])
    }

    fn bytes(chunk: Chunk, len: usize) -> Vec<u8> {
        let mut out = vec![0; len];
        payload().fill(ChunkId { segment: SEGMENT, chunk }, &mut out);
        out
    }

    /// Contribution of a rank to shard 1, widened by hand.
    fn widened(origin: u32, count: usize) -> Vec<f32> {
        let rows = bytes(Chunk::between(Rank(origin), Rank(1)), 2 * count);
        rows.chunks(2).map(|two| f32::from_le_bytes([0, 0, two[0], two[1]])).collect()
    }

    fn floats(bytes: &[u8]) -> Vec<f32> {
        bytes.chunks(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect()
    }

    #[test]
    fn the_order_of_a_sum_is_that_of_its_ranks() {
        let count = 2000;
        let x: Vec<Vec<f32>> = (0..4).map(|origin| widened(origin, count)).collect();
        let of = |sum: Sum| floats(&bytes(Chunk::between(Rank(1), Rank(1)).with_sum(sum), 4 * count));
        let by_hand = |add: &dyn Fn(f32, f32, f32, f32) -> f32| -> Vec<f32> {
            (0..count).map(|i| add(x[0][i], x[1][i], x[2][i], x[3][i])).collect()
        };
        let ring = of(Sum::run(Rank(2), 4, 4, DType::F32));
        let all = of(Sum::all(4, DType::F32));
        let pairs = of(Sum::all(4, DType::F32).in_groups_of(2));
        assert_eq!(all, by_hand(&|a, b, c, d| a + b + c + d));
        assert_eq!(ring, by_hand(&|a, b, c, d| c + d + a + b));
        assert_eq!(pairs, by_hand(&|a, b, c, d| (a + b) + (c + d)));
        assert!(
            all != ring && ring != pairs && pairs != all,
            "orders that cannot be told apart test nothing"
        );
    }

    /// Every order that plans have is one, for both types; a sum without one of its contributions, or with one twice, is none.
    #[test]
    fn sums_in_any_order_are_sums_and_others_are_not() {
        let count = 2000;
        for dtype in [DType::Bf16, DType::F32] {
            let id = |sum: Sum| ChunkId {
                segment: SEGMENT,
                chunk: Chunk::between(Rank(1), Rank(1)).with_sum(sum),
            };
            let bytes = |sum: Sum| bytes(id(sum).chunk, dtype.width() * count);
            let all = Sum::all(4, dtype);
            let wrong = |received: &[u8]| payload().beyond_rounding(id(all), received);
            for first in 0..4 {
                let run = Sum::run(Rank(first), 4, 4, dtype);
                assert_eq!(wrong(&bytes(run)), None);
                assert_eq!(wrong(&bytes(run.with_partials(dtype))), None, "each addition rounds");
            }
            assert_eq!(wrong(&bytes(all.in_groups_of(2))), None);
            assert!(wrong(&bytes(Sum::run(Rank(0), 3, 4, dtype))).is_some(), "one is missing");
            let mut bad = bytes(all);
            // The highest bit of the exponent.
            bad[dtype.width() * 777 + dtype.width() - 1] ^= 0x40;
            assert_eq!(wrong(&bad), Some((dtype.width() * 777) as u64));
        }
    }

    #[test]
    fn a_contribution_is_a_sum_of_one() {
        let chunk = Chunk::between(Rank(0), Rank(1));
        let one = |dtype| chunk.with_sum(Sum::one(Rank(0), 4, dtype));
        assert_eq!(bytes(one(DType::Bf16), 600), bytes(chunk, 600));
        assert_eq!(floats(&bytes(one(DType::F32), 1200)), widened(0, 300));
    }

    #[test]
    fn a_part_of_a_sum_is_what_the_whole_has_at_its_place() {
        for dtype in [DType::Bf16, DType::F32] {
            let chunk = Chunk::for_all(Rank(1)).with_sum(Sum::all(4, dtype));
            let whole = bytes(chunk, 40_000);
            let part = Chunk { part: 1, offset: 16_384, ..chunk };
            assert_eq!(bytes(part, 40_000 - 16_384), whole[16_384..], "{dtype}");
            let id = ChunkId { segment: SEGMENT, chunk };
            assert_eq!(payload().mismatch(id, &whole), None);
            let mut bad = whole;
            bad[12_345] ^= 1;
            assert_eq!(payload().mismatch(id, &bad), Some(12_345));
        }
    }
}
