//! Compression of values into one buffer and back, for callers that need no sections.

use crate::{Codec, DType, DecodeError, Decoder, EncodeError, FrameShape, Layout, Tiered};

/// Codec of [`compress`]: every type, among the smallest frames, at speeds near that of memory.
const DEFAULT: Tiered = Tiered::new();

/// Compresses `values` (little-endian, a whole number of them) into a frame, which says itself what it is of.
///
/// It is a frame of [`Tiered`] in [`Layout::Compact`], the best size for its speed of all codecs, for every type.
/// [`Codec::encode_to_vec`] takes another codec, [`crate::Writer`] any number of bytes in bounded memory.
///
/// # Errors
/// If the values are not whole, or there is no memory for the frame.
pub fn compress(values: &[u8], dtype: DType) -> Result<Vec<u8>, EncodeError> {
    DEFAULT.encode_to_vec(Layout::Compact, dtype, values)
}

/// Compresses like [`compress`], into the front of `out`, which has [`compress_bound`] bytes or more; returns the length of the frame.
/// Nothing is allocated.
///
/// # Errors
/// If the values are not whole, or `out` is shorter than the longest possible frame.
pub fn compress_into(values: &[u8], dtype: DType, out: &mut [u8]) -> Result<usize, EncodeError> {
    DEFAULT.encode(Layout::Compact, dtype, values, &mut [], out)
}

/// The most bytes that [`compress`] makes of `values_len` bytes: a hundredth of a percent more than these, and 40.
pub fn compress_bound(values_len: usize, dtype: DType) -> usize {
    DEFAULT.bound(FrameShape { layout: Layout::Compact, dtype, count: values_len / dtype.width() })
}

/// The values of a frame of any codec, which says itself what it is of.
///
/// Memory is bounded by what a frame of its length can hold; a [`Decoder`] sets a limit.
///
/// # Errors
/// For every frame that is damaged, cut or extended, and if there is no memory for the values.
pub fn decompress(frame: &[u8]) -> Result<Vec<u8>, DecodeError> {
    Decoder::new().decompress(frame)
}

/// Decompresses like [`decompress`], into the front of `out`; returns the bytes of the values ([`crate::FrameInfo::peek`] says them
/// before). Nothing is allocated.
///
/// # Errors
/// Errors of [`decompress`], and if `out` is too short.
pub fn decompress_into(frame: &[u8], out: &mut [u8]) -> Result<usize, DecodeError> {
    Decoder::new().decompress_into(frame, out)
}
