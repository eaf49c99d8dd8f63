//! Rows that the draws of a chunk select, piece by piece.

use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::first_difference;
use crate::Rows;

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
pub(super) enum Draws<'a> {
    Rows(RowDraws<'a, ChaCha8Rng>),
    Tokens(TokenDraws<'a>),
}

impl<'a> Draws<'a> {
    /// Bytes that [`next`](Self::next) gives.
    pub(super) fn next_len(&self) -> usize {
        match self {
            Self::Rows(draws) => draws.next_len(),
            Self::Tokens(draws) => draws.next_len(),
        }
    }

    pub(super) fn next(&mut self) -> &'a [u8] {
        match self {
            Self::Rows(draws) => draws.next(),
            Self::Tokens(draws) => draws.next(),
        }
    }
}

/// The tokens of one chunk, one after the other, each of them in as many pieces as it takes rows of the source.
pub(super) struct TokenDraws<'a> {
    pub(super) source: &'a Rows,
    pub(super) rng: ChaCha8Rng,
    /// Tokens of the whole chunk.
    pub(super) tokens: Vec<u32>,
    pub(super) token_bytes: usize,
    /// First byte of the next piece, in the whole chunk.
    pub(super) offset: usize,
}

impl<'a> TokenDraws<'a> {
    /// Bytes of the token that are drawn already.
    fn drawn(&self) -> usize {
        self.offset % self.token_bytes
    }

    pub(super) fn next_len(&self) -> usize {
        let row_bytes = self.source.row_bytes();
        (row_bytes - self.drawn() % row_bytes).min(self.token_bytes - self.drawn())
    }

    pub(super) fn next(&mut self) -> &'a [u8] {
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
pub(super) struct RowDraws<'a, R> {
    pub(super) source: &'a Rows,
    pub(super) rng: R,
    /// Bytes of the next row that are left out.
    pub(super) skipped: usize,
}

impl<'a, R: Rng> RowDraws<'a, R> {
    /// Bytes that [`next`](Self::next) gives.
    pub(super) fn next_len(&self) -> usize {
        self.source.row_bytes() - self.skipped
    }

    /// The next row; of the first one, what is not left out.
    pub(super) fn next(&mut self) -> &'a [u8] {
        &draw(self.source, &mut self.rng)[std::mem::take(&mut self.skipped)..]
    }
}
