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
