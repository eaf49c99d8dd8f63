//! Where codecs that work piece by piece, in tiles or blocks, keep the signs and mantissas of BF16 values.

use crate::DecodeError;

/// Where a codec keeps the signs and mantissas of BF16 values in the split layout: it works piece by piece, tiles or blocks.
pub(crate) struct Pieces {
    /// Values of each piece but the last, which may have fewer.
    pub(crate) piece: usize,
    /// Bytes of the front matter of a frame of so many values.
    pub(crate) front_len: fn(usize) -> usize,
    /// Bytes of the static body of a piece of so many values.
    pub(crate) static_body: fn(usize) -> usize,
    /// Where its signs and mantissas begin, a byte each and one behind the other, if it is coded.
    pub(crate) rest_at: fn(usize) -> usize,
    /// What the pieces have in the dynamic section.
    pub(crate) tails: FindTails,
}

/// By front matter, dynamic section and number of values.
pub(crate) type FindTails = fn(&[u8], &[u8], usize) -> Result<Tails, DecodeError>;

/// What the pieces of a frame have in its dynamic section.
pub(crate) struct Tails {
    /// Bytes before the first.
    pub(crate) first: usize,
    /// Bytes of each; `None` of a stored piece, which has what its static body has no room for.
    pub(crate) lens: Vec<Option<usize>>,
}
