//! Digests of a file and of its pieces.

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// Bytes that are worked on at a time, and that a digest is made of: whole chunks of any type.
pub(crate) const PIECE: u64 = 1 << 20;

/// Pieces of so many bytes: at least one, so that each tensor has a digest.
pub(crate) fn pieces(bytes: u64) -> u64 {
    bytes.div_ceil(PIECE).max(1)
}

/// A digest of 128 bits that pieces add to in their order, each by a hash that can be made on any thread: XXH3 of the pieces' XXH3.
///
/// It finds what is broken, not what was forged.
#[derive(Default)]
pub(crate) struct Digest(Xxh3);

impl Digest {
    pub(crate) fn of_piece(bytes: &[u8]) -> u64 {
        xxh3_64(bytes)
    }

    pub(crate) fn add(&mut self, piece: u64) {
        self.0.update(&piece.to_le_bytes());
    }

    /// Digest of a file whose pieces have these hashes.
    pub(crate) fn of(pieces: impl IntoIterator<Item = u64>) -> Self {
        let mut digest = Self::default();
        pieces.into_iter().for_each(|piece| digest.add(piece));
        digest
    }

    pub(crate) fn text(&self) -> String {
        format!("{:032x}", self.0.digest128())
    }
}
