//! Places of the signs and mantissas of BF16 values in frames of codecs that work piece by piece, in tiles, blocks or chunks.

use crate::DecodeError;

/// Places of the signs and mantissas of BF16 values in the split layout of a codec that works piece by piece.
pub(crate) struct Pieces {
    /// Values of each piece but the last, which may have fewer.
    pub(crate) piece: usize,
    /// Bytes of the front matter, by the number of values of the frame.
    pub(crate) front_len: fn(usize) -> usize,
    /// Bytes of the static body of a piece, by its number of values.
    pub(crate) static_body: fn(usize) -> usize,
    /// Offset of the signs and mantissas of a coded piece, which are consecutive bytes, one per value.
    pub(crate) rest_at: fn(usize) -> usize,
    /// Reads how long each piece's part of the dynamic section is.
    pub(crate) tails: FindTails,
}

/// Function of front matter, dynamic section and number of values.
pub(crate) type FindTails = fn(&[u8], &[u8], usize) -> Result<Tails, DecodeError>;

/// Parts of the dynamic section that belong to the pieces of a frame.
pub(crate) struct Tails {
    /// Bytes before the first.
    pub(crate) first: usize,
    /// Bytes of each; `None` of a stored piece, which has what its static body has no room for.
    pub(crate) lens: Vec<Option<usize>>,
}
