//! Content of transfers: recorded rows, drawn by chunk, so that every chunk is like no other.
//!
//! A chunk holds the values of one rank for another, or for all others, in one segment. It is the same in every iteration, and any
//! rank can regenerate it, so whoever gets it, on whatever path, can check it without anything being kept.

use std::sync::Arc;

use rand::Rng;
use rand_chacha::ChaCha8Rng;
use xxhash_rust::xxh3::xxh3_128;
use zipwire_schedule::plan::Chunk;
use zipwire_schedule::{Rank, SegmentId, TokenMap};

use crate::{Rows, stream};

mod reduction;

/// A chunk of one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChunkId {
    /// The collective call.
    pub segment: SegmentId,
    /// Origin, destination and place of the values.
    pub chunk: Chunk,
}

impl ChunkId {
    /// Chunk of one rank for another in a collective call.
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
/// Where it is known which tokens the rows of a chunk are, all copies of a token are the same bytes, whatever their destination:
/// token t is n rows of the source one after another, the last one cut, which the draws n t to n t + n - 1 of `stream(seed,
/// "payload token", [segment, origin, 0])` select.
///
/// Where both ends of a transfer have earlier values, from which the sent ones differ, the base of a chunk is drawn like the chunk,
/// from the rows of the base ([`fill_base`](Self::fill_base)).
///
/// Cheap to clone: the sources are shared.
#[derive(Clone, Debug, PartialEq)]
pub struct Payload {
    seed: u64,
    sources: Arc<[Arc<Rows>]>,
    /// By segment; segments behind the last one have none.
    bases: Arc<[Option<Arc<Rows>>]>,
    /// By segment; segments behind the last one have none.
    tokens: Arc<[Option<Arc<TokenMap>>]>,
}

impl Payload {
    /// A payload with one source per segment, by [`SegmentId`].
    pub fn new(seed: u64, sources: Vec<Arc<Rows>>) -> Self {
        Self { seed, sources: sources.into(), bases: Arc::default(), tokens: Arc::default() }
    }

    /// The same payload where ranks have values already, by [`SegmentId`]: row k of a base is the earlier version of row k of the
    /// segment's source.
    ///
    /// # Panics
    /// If a base has not as many rows as the source of its segment, or rows of another width.
    #[must_use]
    pub fn with_bases(self, bases: Vec<Option<Arc<Rows>>>) -> Self {
        let shape = |rows: &Rows| (rows.row_count(), rows.row_bytes());
        let fits = |(base, source): (&Option<Arc<Rows>>, &Arc<Rows>)| {
            base.as_deref().is_none_or(|base| shape(base) == shape(source))
        };
        assert!(
            bases.iter().zip(self.sources.iter()).all(fits),
            "a base has the shape of what differs from it"
        );
        Self { bases: bases.into(), ..self }
    }

    /// The same for chunks that are made of tokens, by [`SegmentId`], where it is known of which.
    #[must_use]
    pub fn with_tokens(self, tokens: Vec<Option<Arc<TokenMap>>>) -> Self {
        Self { tokens: tokens.into(), ..self }
    }

    /// The same with more segments, behind the others.
    #[must_use]
    pub fn with_sources(self, more: impl IntoIterator<Item = Arc<Rows>>) -> Self {
        let sources = self.sources.iter().cloned().chain(more).collect();
        Self { sources, ..self }
    }

    /// The rows of all segments, by [`SegmentId`].
    pub fn sources(&self) -> &[Arc<Rows>] {
        &self.sources
    }

    /// The rows that chunks of `segment` are drawn from.
    ///
    /// # Panics
    /// If the segment has no source.
    pub fn source(&self, segment: SegmentId) -> &Rows {
        &self.sources[segment.index()]
    }

    /// The rows that chunks of `segment` have a base in, if they have one.
    pub fn base(&self, segment: SegmentId) -> Option<&Rows> {
        self.bases.get(segment.index())?.as_deref()
    }

    /// Writes a chunk to `out`. Its length is that of `out`; a shorter chunk
    /// is the beginning of a longer one.
    ///
    /// # Panics
    /// If the segment has no source, or the length of a sum is not one of whole values.
    pub fn fill(&self, chunk: ChunkId, out: &mut [u8]) {
        match chunk.chunk.sum {
            None => self.fill_rows(self.source(chunk.segment), chunk, out),
            Some(sum) => reduction::fill(self, chunk, sum, out),
        }
    }

    /// Writes the base that both ends have of a chunk, and returns whether there is one: rows of the segment's base, which the
    /// draws of [`fill`](Self::fill) select. Sums have none, as nobody had them before; then `out` stays as it is.
    ///
    /// # Panics
    /// Where [`fill`](Self::fill) does.
    pub fn fill_base(&self, chunk: ChunkId, out: &mut [u8]) -> bool {
        match self.base(chunk.segment) {
            Some(base) if chunk.chunk.sum.is_none() => {
                self.fill_rows(base, chunk, out);
                true
            }
            Some(_) | None => false,
        }
    }

    /// Writes rows of `source`, which are those of the segment or of its base.
    fn fill_rows(&self, source: &Rows, chunk: ChunkId, out: &mut [u8]) {
        let mut draws = self.draws(source, chunk);
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
    /// Where [`fill`](Self::fill) does.
    pub fn mismatch(&self, chunk: ChunkId, received: &[u8]) -> Option<u64> {
        if let Some(sum) = chunk.chunk.sum {
            let mut expected = vec![0; received.len()];
            reduction::fill(self, chunk, sum, &mut expected);
            return first_difference(received, &expected).map(|offset| offset as u64);
        }
        let mut draws = self.draws(self.source(chunk.segment), chunk);
        let mut left = received;
        while !left.is_empty() {
            let (piece, behind) = left.split_at(draws.next_len().min(left.len()));
            let expected = &draws.next()[..piece.len()];
            if let Some(offset) = first_difference(piece, expected) {
                let equal = received.len() - left.len();
                return Some((equal + offset) as u64);
            }
            left = behind;
        }
        None
    }

    /// Offset in bytes of the first value of `received` that is no sum of the contributions to a chunk in any order of additions, each of which may
    /// round to the type of the sum: for sums of libraries, which state no order. `None` if all could be.
    ///
    /// # Panics
    /// If the chunk is no sum, and where [`fill`](Self::fill) does.
    pub fn beyond_rounding(&self, chunk: ChunkId, received: &[u8]) -> Option<u64> {
        let sum = chunk.chunk.sum.expect("the chunk is a sum");
        reduction::beyond_rounding(self, chunk, sum, received)
    }

    /// A hash of all that the chunks of `segment` and their bases depend on: equal for equal bytes in every chunk.
    ///
    /// # Panics
    /// If the segment has no source.
    pub fn digest(&self, segment: SegmentId) -> u128 {
        let rows = self.sources[segment.index()].digest().to_le_bytes();
        let base = self.base(segment).map_or(0, Rows::digest).to_le_bytes();
        let tokens = self.tokens(segment).map_or(0, TokenMap::digest).to_le_bytes();
        let parts: [&[u8]; 5] = [&self.seed.to_le_bytes(), &segment.0.to_le_bytes(), &rows, &base, &tokens];
        xxh3_128(&parts.concat())
    }

    fn tokens(&self, segment: SegmentId) -> Option<&TokenMap> {
        self.tokens.get(segment.index())?.as_deref()
    }

    fn draws<'a>(&self, source: &'a Rows, chunk: ChunkId) -> Draws<'a> {
        match self.tokens(chunk.segment) {
            Some(tokens) => Draws::Tokens(self.draws_of_tokens(source, tokens, chunk)),
            None => Draws::Rows(self.draws_of_rows(source, chunk)),
        }
    }

    fn draws_of_tokens<'a>(
        &self,
        source: &'a Rows,
        map: &TokenMap,
        ChunkId { segment, chunk }: ChunkId,
    ) -> TokenDraws<'a> {
        let keys = [u64::from(segment.0), u64::from(chunk.origin.0), 0];
        let (rng, tokens) = (stream(self.seed, "payload token", keys), map.tokens(&chunk));
        let token_bytes = usize::try_from(map.row_bytes()).expect("tokens fit into memory");
        let offset = usize::try_from(chunk.offset).expect("chunks fit into memory");
        TokenDraws { source, rng, tokens, token_bytes, offset }
    }

    fn draws_of_rows<'a>(&self, source: &'a Rows, chunk: ChunkId) -> RowDraws<'a, ChaCha8Rng> {
        let ChunkId { segment, chunk: Chunk { origin, destination, flow, offset, .. } } = chunk;
        let destination = destination.map_or(EVERY_RANK, |rank| u64::from(rank.0));
        let keys = [u64::from(segment.0) | u64::from(flow) << 32, u64::from(origin.0), destination];
        let mut rng = stream(self.seed, "payload", keys);
        // A part is what the whole has at its place.
        let row_bytes = source.row_bytes() as u64;
        (0..offset / row_bytes).for_each(|_| {
            rng.next_u32();
        });
        let skipped = usize::try_from(offset % row_bytes).expect("it is below the bytes of a row");
        RowDraws { source, rng, skipped }
    }
}

/// Where two slices of one length begin to differ. Equal ones are the rule: they are compared at the speed of memory.
fn first_difference(a: &[u8], b: &[u8]) -> Option<usize> {
    if a == b {
        return None;
    }
    Some(a.iter().zip(b).position(|(a, b)| a != b).expect("unequal slices of one length differ somewhere"))
}

impl Rows {
    /// Writes the rows that a stream selects, one after another; the last one is cut.
    pub fn fill(&self, stream: ChaCha8Rng, out: &mut [u8]) {
        let mut draws = RowDraws { source: self, rng: stream, skipped: 0 };
        for piece in out.chunks_mut(self.row_bytes()) {
            piece.copy_from_slice(&draws.next()[..piece.len()]);
        }
    }

    /// Offset of the first byte that is not what [`fill`](Self::fill) writes with the same stream; `None` if all are. Compares in place.
    pub fn mismatch(&self, stream: ChaCha8Rng, received: &[u8]) -> Option<u64> {
        let mut draws = RowDraws { source: self, rng: stream, skipped: 0 };
        let mut pieces = received.chunks(self.row_bytes()).enumerate();
        pieces.find_map(|(index, piece)| {
            let offset = first_difference(piece, &draws.next()[..piece.len()])?;
            Some((index * self.row_bytes() + offset) as u64)
        })
    }
}

/// Rows or tokens of a chunk, piece by piece.
enum Draws<'a> {
    Rows(RowDraws<'a, ChaCha8Rng>),
    Tokens(TokenDraws<'a>),
}

impl<'a> Draws<'a> {
    /// Bytes that [`next`](Self::next) gives.
    fn next_len(&self) -> usize {
        match self {
            Self::Rows(draws) => draws.next_len(),
            Self::Tokens(draws) => draws.next_len(),
        }
    }

    fn next(&mut self) -> &'a [u8] {
        match self {
            Self::Rows(draws) => draws.next(),
            Self::Tokens(draws) => draws.next(),
        }
    }
}

/// The tokens of one chunk, one after the other, each of them in as many pieces as it takes rows of the source.
struct TokenDraws<'a> {
    source: &'a Rows,
    rng: ChaCha8Rng,
    /// Tokens of the whole chunk.
    tokens: Vec<u32>,
    token_bytes: usize,
    /// First byte of the next piece, in the whole chunk.
    offset: usize,
}

impl<'a> TokenDraws<'a> {
    /// Bytes of the token that are drawn already.
    fn drawn(&self) -> usize {
        self.offset % self.token_bytes
    }

    fn next_len(&self) -> usize {
        let row_bytes = self.source.row_bytes();
        (row_bytes - self.drawn() % row_bytes).min(self.token_bytes - self.drawn())
    }

    fn next(&mut self) -> &'a [u8] {
        let (drawn, len, row_bytes) = (self.drawn(), self.next_len(), self.source.row_bytes());
        let token = self.tokens[self.offset / self.token_bytes];
        let per_token = self.token_bytes.div_ceil(row_bytes) as u128;
        self.rng.set_word_pos(u128::from(token) * per_token + (drawn / row_bytes) as u128);
        self.offset += len;
        &draw(self.source, &mut self.rng)[drawn % row_bytes..][..len]
    }
}

/// The row that the next draw selects. Multiply and shift instead of rejection: one draw per row, with a bias of at most
/// rows / 2^32.
fn draw<'a>(source: &'a Rows, rng: &mut impl Rng) -> &'a [u8] {
    let scaled = u64::from(rng.next_u32()) * source.row_count() as u64;
    source.row((scaled >> 32) as usize)
}

/// The rows of one chunk, one after the other.
struct RowDraws<'a, R> {
    source: &'a Rows,
    rng: R,
    /// Bytes of the next row that are left out.
    skipped: usize,
}

impl<'a, R: Rng> RowDraws<'a, R> {
    /// Bytes that [`next`](Self::next) gives.
    fn next_len(&self) -> usize {
        self.source.row_bytes() - self.skipped
    }

    /// The next row; of the first one, what is not left out.
    fn next(&mut self) -> &'a [u8] {
        &draw(self.source, &mut self.rng)[std::mem::take(&mut self.skipped)..]
    }
}

#[cfg(test)]
mod tests {
    use zipwire_schedule::plan::Leg;

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

    /// Row k of the source is made of bytes k, and row k of the base of bytes 100 + k.
    #[test]
    fn the_base_of_a_chunk_is_drawn_as_the_chunk() {
        let numbered = |first: u8| Rows::new((0..64 * 8).map(|at| first + (at / 8) as u8).collect(), 8);
        let (_, map) = shared();
        let (source, base) = (Arc::new(numbered(0)), Some(Arc::new(numbered(100))));
        let bare = Payload::new(7, vec![source; 2]).with_tokens(vec![Some(Arc::clone(&map))]);
        let payload = bare.clone().with_bases(vec![base; 2]);
        let whole = Chunk::between(Rank(0), Rank(3));
        let gateway = Chunk { leg: Leg::ToGateway { ranks_per_node: 2 }, ..whole };
        let parts = [5, 300].map(|offset| Chunk { part: 1, offset, ..whole });
        let all = [(COMBINE, Chunk::for_all(Rank(2)))];
        let some = [DISPATCH, COMBINE]
            .map(|segment| [whole, gateway, parts[0], parts[1]].map(|chunk| (segment, chunk)));
        for (segment, chunk) in some.into_iter().flatten().chain(all) {
            let id = ChunkId { segment, chunk };
            let len = if segment == DISPATCH { map.tokens(&chunk).len() * 700 } else { 700 };
            let (mut values, mut base) =
                (vec![0; len - chunk.offset as usize], vec![0; len - chunk.offset as usize]);
            payload.fill(id, &mut values);
            assert!(payload.fill_base(id, &mut base));
            assert!(values.iter().zip(&base).all(|(value, base)| value + 100 == *base), "{chunk:?}");
            assert!(values.windows(2).any(|pair| pair[0] != pair[1]), "several rows are drawn");
            assert!(!bare.fill_base(id, &mut base));
        }
        let sum = whole.with_sum(zipwire_schedule::Sum::one(Rank(0), 4, zipwire_schedule::DType::Bf16));
        let mut untouched = [9; 8];
        assert!(!payload.fill_base(ChunkId { segment: COMBINE, chunk: sum }, &mut untouched));
        assert_eq!(untouched, [9; 8]);
        assert!(payload.digest(COMBINE) != bare.digest(COMBINE), "lengths of frames depend on the base");
    }

    #[test]
    #[should_panic(expected = "a base has the shape of what differs from it")]
    fn a_base_of_another_shape_is_a_programmer_error() {
        let narrow = Rows::new(source(1).as_bytes().to_vec(), 256);
        let _ = payload().with_bases(vec![None, Some(Arc::new(narrow))]);
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

    /// Four ranks in two nodes, each with three tokens of 700 bytes and two copies.
    fn shared() -> (Payload, Arc<TokenMap>) {
        let destinations = (0..24).map(|copy| (copy * 7 + copy / 5) % 4).collect();
        let map = Arc::new(TokenMap::new(4, 2, 700, destinations));
        (payload().with_tokens(vec![Some(Arc::clone(&map))]), map)
    }

    #[test]
    fn copies_of_a_token_are_equal_wherever_they_go() {
        let (payload, map) = shared();
        let mut known: std::collections::HashMap<(u32, u32), Vec<u8>> = std::collections::HashMap::new();
        let legs = [Leg::Direct, Leg::FromGateway, Leg::ToGateway { ranks_per_node: 2 }];
        for (src, dst, leg) in (0..4).flat_map(|s| (0..4).flat_map(move |d| legs.map(|leg| (s, d, leg)))) {
            let chunk = Chunk { leg, ..Chunk::between(Rank(src), Rank(dst)) };
            let tokens = map.tokens(&chunk);
            let id = ChunkId { segment: DISPATCH, chunk };
            let mut out = vec![0; tokens.len() * 700];
            payload.fill(id, &mut out);
            assert_eq!(payload.mismatch(id, &out), None);
            for (token, row) in tokens.iter().zip(out.chunks_exact(700)) {
                let first = known.entry((src, *token)).or_insert_with(|| row.to_vec());
                assert_eq!(first, row, "token {token} of rank {src} for rank {dst}");
            }
            for offset in [0, 100, 512, 700, 1300].into_iter().filter(|&offset| offset < out.len()) {
                let part = ChunkId { chunk: Chunk { offset: offset as u64, part: 1, ..chunk }, ..id };
                assert_eq!(payload.mismatch(part, &out[offset..]), None, "a part from byte {offset}");
            }
        }
        let different: std::collections::HashSet<_> = known.values().collect();
        assert_eq!(different.len(), 12, "no two tokens are alike");
    }

    #[test]
    fn segments_without_tokens_are_drawn_as_ever() {
        let (shared, _) = shared();
        let drawn = payload();
        assert_eq!(chunk(&shared, COMBINE, 0, 1, 3000), chunk(&drawn, COMBINE, 0, 1, 3000));
        assert_eq!(shared.digest(COMBINE), drawn.digest(COMBINE));
        assert_ne!(shared.digest(DISPATCH), drawn.digest(DISPATCH));
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
