//! What a transfer carries: recorded rows, drawn by chunk, so that every chunk is like no other.
//!
//! A chunk is what one rank has for another, or for all others, in one segment. It is the same in every iteration, and
//! any rank can regenerate it, so whoever gets it, on whatever path, can check what arrived without anything being kept.

use std::sync::Arc;

use rand::Rng;
use xxhash_rust::xxh3::xxh3_128;
use zipwire_schedule::plan::Chunk;
use zipwire_schedule::{Rank, SegmentId};

use crate::{Rows, stream};

mod reduction;

/// A chunk of one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChunkId {
    /// The collective call.
    pub segment: SegmentId,
    /// Whose values they are, and for whom.
    pub chunk: Chunk,
}

impl ChunkId {
    /// What one rank has for another in a collective call.
    pub fn new(segment: SegmentId, src: Rank, dst: Rank) -> Self {
        Self { segment, chunk: Chunk::between(src, dst) }
    }
}

/// Stands for every rank in the key of a stream: no rank has this number.
const EVERY_RANK: u64 = 1 << 32;

/// Fills chunks with recorded rows, and checks received ones against what must have been sent.
///
/// Row k of a chunk is the row that the k-th draw of `stream(seed, "payload", [segment + 2^32 flow, origin, destination])`
/// selects from the segment's source, where a chunk for all has the destination 2^32; the last row is cut. Two different chunks of k rows from a source of n distinct rows
/// are equal with a chance of n^-k, so a misrouted or stale chunk does not pass for the right one.
///
/// In reductions rows are BF16 values. What a rank contributes to a shard is the chunk from it to the shard's rank, and a chunk that
/// is a sum holds the sum of these, in the order and the type that it says.
///
/// Cheap to clone: the sources are shared.
#[derive(Clone, Debug, PartialEq)]
pub struct Payload {
    seed: u64,
    sources: Arc<[Arc<Rows>]>,
}

impl Payload {
    /// A payload with one source per segment, by [`SegmentId`].
    pub fn new(seed: u64, sources: Vec<Arc<Rows>>) -> Self {
        Self { seed, sources: sources.into() }
    }

    /// The rows that chunks of `segment` are drawn from.
    ///
    /// # Panics
    /// If the segment has no source.
    pub fn source(&self, segment: SegmentId) -> &Rows {
        &self.sources[segment.index()]
    }

    /// Writes a chunk to `out`. Its length is that of `out`; a shorter chunk
    /// is the beginning of a longer one.
    ///
    /// # Panics
    /// If the segment has no source, or the length of a sum is not one of whole values.
    pub fn fill(&self, chunk: ChunkId, out: &mut [u8]) {
        match chunk.chunk.sum {
            None => self.fill_rows(chunk, out),
            Some(sum) => reduction::fill(self, chunk, sum, out),
        }
    }

    /// Writes recorded rows.
    fn fill_rows(&self, chunk: ChunkId, out: &mut [u8]) {
        let mut draws = self.draws(chunk);
        let mut left = out;
        while !left.is_empty() {
            let (piece, behind) = left.split_at_mut(draws.next_len().min(left.len()));
            piece.copy_from_slice(&draws.next()[..piece.len()]);
            left = behind;
        }
    }

    /// Offset in bytes of the first difference between `received` and the chunk that was sent, or `None` if they are
    /// equal. Compares with the source in place, without a copy, but for sums, which are added up once more.
    ///
    /// # Panics
    /// As [`fill`](Self::fill).
    pub fn mismatch(&self, chunk: ChunkId, received: &[u8]) -> Option<u64> {
        if let Some(sum) = chunk.chunk.sum {
            let mut expected = vec![0; received.len()];
            reduction::fill(self, chunk, sum, &mut expected);
            return received.iter().zip(&expected).position(|(a, b)| a != b).map(|offset| offset as u64);
        }
        let mut draws = self.draws(chunk);
        let mut left = received;
        while !left.is_empty() {
            let (piece, behind) = left.split_at(draws.next_len().min(left.len()));
            let expected = &draws.next()[..piece.len()];
            if piece != expected {
                let equal = received.len() - left.len();
                let offset = piece.iter().zip(expected).position(|(a, b)| a != b);
                return Some((equal + offset.expect("unequal pieces of one length differ somewhere")) as u64);
            }
            left = behind;
        }
        None
    }

    /// A hash of all that the chunks of `segment` depend on: equal for equal bytes in every chunk.
    ///
    /// # Panics
    /// If the segment has no source.
    pub fn digest(&self, segment: SegmentId) -> u128 {
        let rows = self.sources[segment.index()].digest().to_le_bytes();
        let parts: [&[u8]; 3] = [&self.seed.to_le_bytes(), &segment.0.to_le_bytes(), &rows];
        xxh3_128(&parts.concat())
    }

    fn draws(&self, chunk: ChunkId) -> Draws<'_, impl Rng> {
        let ChunkId { segment, chunk: Chunk { origin, destination, flow, offset, .. } } = chunk;
        let destination = destination.map_or(EVERY_RANK, |rank| u64::from(rank.0));
        let keys = [u64::from(segment.0) | u64::from(flow) << 32, u64::from(origin.0), destination];
        let source = &*self.sources[segment.index()];
        let mut rng = stream(self.seed, "payload", keys);
        // A part is what the whole has at its place.
        let row_bytes = source.row_bytes() as u64;
        (0..offset / row_bytes).for_each(|_| {
            rng.next_u32();
        });
        let skipped = usize::try_from(offset % row_bytes).expect("it is below the bytes of a row");
        Draws { source, rng, skipped }
    }
}

/// The rows of one chunk, one after the other.
struct Draws<'a, R> {
    source: &'a Rows,
    rng: R,
    /// Bytes of the next row that are left out.
    skipped: usize,
}

impl<'a, R: Rng> Draws<'a, R> {
    /// Bytes that [`next`](Self::next) gives.
    fn next_len(&self) -> usize {
        self.source.row_bytes() - self.skipped
    }

    /// The next row; of the first one, what is not left out.
    fn next(&mut self) -> &'a [u8] {
        // Multiply and shift instead of rejection: one draw per row, with a bias of at most rows / 2^32.
        let scaled = u64::from(self.rng.next_u32()) * self.source.row_count() as u64;
        &self.source.row((scaled >> 32) as usize)[std::mem::take(&mut self.skipped)..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISPATCH: SegmentId = SegmentId(0);
    const COMBINE: SegmentId = SegmentId(1);

    /// 64 rows of 512 bytes, all different.
    fn source(seed: u64) -> Rows {
        let mut bytes = vec![0; 64 * 512];
        stream(seed, "test", [0; 3]).fill_bytes(&mut bytes);
        Rows::new(bytes, 512)
    }

    fn payload() -> Payload {
        Payload::new(7, vec![Arc::new(source(1)), Arc::new(source(2))])
    }

    fn chunk(payload: &Payload, segment: SegmentId, src: u32, dst: u32, len: usize) -> Vec<u8> {
        let mut out = vec![0xaa; len];
        payload.fill(ChunkId::new(segment, Rank(src), Rank(dst)), &mut out);
        out
    }

    #[test]
    fn chunks_are_recorded_rows_one_after_the_other() {
        let payload = payload();
        let source = source(1);
        let known: std::collections::HashSet<_> = (0..source.row_count()).map(|i| source.row(i)).collect();
        let chunk = chunk(&payload, DISPATCH, 0, 1, 100 * 512 + 7);
        for row in chunk[..100 * 512].chunks(512) {
            assert!(known.contains(row));
        }
        assert!(known.iter().any(|row| row[..7] == chunk[100 * 512..]));
    }

    #[test]
    fn a_chunk_depends_on_segment_ends_tag_and_seed_and_on_nothing_else() {
        let payload = payload();
        let chunk_of = |segment, src, dst| chunk(&payload, segment, src, dst, 4096);
        let reference = chunk_of(DISPATCH, 2, 3);
        assert_eq!(reference, chunk_of(DISPATCH, 2, 3));
        assert_ne!(reference, chunk_of(COMBINE, 2, 3));
        assert_ne!(reference, chunk_of(DISPATCH, 3, 2));
        assert_ne!(reference, chunk_of(DISPATCH, 2, 4));
        let mut other_flow = vec![0; 4096];
        let pair = Chunk::between(Rank(2), Rank(3));
        payload.fill(ChunkId { segment: DISPATCH, chunk: Chunk { flow: 1, ..pair } }, &mut other_flow);
        assert_ne!(reference, other_flow);
        let mut shard = vec![0; 4096];
        payload.fill(ChunkId { segment: DISPATCH, chunk: Chunk::for_all(Rank(2)) }, &mut shard);
        assert!((0..8).all(|dst| chunk_of(DISPATCH, 2, dst) != shard), "what goes to all is nobody's alone");
        let other_seed = Payload { seed: 8, ..payload.clone() };
        assert_ne!(reference, chunk(&other_seed, DISPATCH, 2, 3, 4096));
    }

    #[test]
    fn a_shorter_chunk_begins_a_longer_one() {
        let payload = payload();
        let long = chunk(&payload, DISPATCH, 0, 1, 1500);
        for len in [0, 1, 2, 511, 512, 513, 1024, 1499] {
            assert_eq!(chunk(&payload, DISPATCH, 0, 1, len), long[..len], "length {len}");
        }
    }

    #[test]
    fn a_part_is_what_the_whole_has_at_its_place() {
        let payload = payload();
        let whole = chunk(&payload, DISPATCH, 0, 1, 3000);
        for offset in [0, 1, 511, 512, 513, 1024, 2999] {
            let part = Chunk { part: 1, offset: offset as u64, ..Chunk::between(Rank(0), Rank(1)) };
            let part = ChunkId { segment: DISPATCH, chunk: part };
            let mut out = vec![0; 3000 - offset];
            payload.fill(part, &mut out);
            assert_eq!(out, whole[offset..], "offset {offset}");
            assert_eq!(payload.mismatch(part, &out), None);
            let last = out.len() - 1;
            out[last] ^= 1;
            assert_eq!(payload.mismatch(part, &out), Some(last as u64));
        }
    }

    #[test]
    fn mismatch_finds_the_first_wrong_byte_anywhere() {
        let payload = payload();
        for len in [1, 511, 512, 513, 1300] {
            let good = chunk(&payload, COMBINE, 5, 0, len);
            assert_eq!(
                payload.mismatch(ChunkId::new(COMBINE, Rank(5), Rank(0)), &good),
                None,
                "length {len}"
            );
            for offset in 0..len {
                let mut bad = good.clone();
                bad[offset] ^= 0x10;
                bad[len - 1] ^= 0x01;
                assert_eq!(
                    payload.mismatch(ChunkId::new(COMBINE, Rank(5), Rank(0)), &bad),
                    Some(offset as u64)
                );
            }
        }
        assert_eq!(payload.mismatch(ChunkId::new(COMBINE, Rank(5), Rank(0)), &[]), None);
    }

    #[test]
    fn a_misrouted_chunk_is_a_mismatch() {
        let payload = payload();
        let chunk = chunk(&payload, DISPATCH, 0, 1, 2048);
        assert!(payload.mismatch(ChunkId::new(DISPATCH, Rank(1), Rank(0)), &chunk).is_some());
        assert!(payload.mismatch(ChunkId::new(COMBINE, Rank(0), Rank(1)), &chunk).is_some());
    }

    #[test]
    fn rows_of_any_width_fill_chunks() {
        let narrow = Payload::new(1, vec![Arc::new(Rows::new(vec![1, 2, 3, 4, 5, 6], 2))]);
        let chunk = chunk(&narrow, DISPATCH, 0, 1, 999);
        assert!(chunk.chunks_exact(2).all(|row| [[1, 2], [3, 4], [5, 6]].contains(&[row[0], row[1]])));
        assert_eq!(narrow.mismatch(ChunkId::new(DISPATCH, Rank(0), Rank(1)), &chunk), None);
    }

    #[test]
    fn payloads_of_one_digest_have_the_same_chunks() {
        let reference = payload();
        assert_eq!(reference.digest(DISPATCH), payload().digest(DISPATCH));
        let only = |rows: Rows| Payload::new(7, vec![Arc::new(rows)]);
        let others = [
            reference.digest(COMBINE),
            Payload { seed: 8, ..payload() }.digest(DISPATCH),
            only(source(2)).digest(DISPATCH),
            // The same bytes in rows of another width.
            only(Rows::new(source(1).as_bytes().to_vec(), 256)).digest(DISPATCH),
        ];
        assert!(others.iter().all(|&digest| digest != reference.digest(DISPATCH)));
        assert_eq!(only(source(1)).digest(DISPATCH), reference.digest(DISPATCH));
    }

    #[test]
    fn is_shared_between_threads() {
        fn shared<T: Clone + Send + Sync>() {}
        shared::<Payload>();
    }
}
