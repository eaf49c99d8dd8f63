//! Compression of values into one buffer and back, for callers that need no sections.

use crate::{Codec, DType, DecodeError, Decoder, EncodeError, FrameShape, Layout, Tiered, decode, frame};

/// Codec of [`compress`]: every type, among the smallest frames, at speeds near that of memory.
const DEFAULT: Tiered = Tiered::new();

/// Compresses `values` (little-endian, a whole number of them) into a frame, which says itself what it is of.
///
/// It is a frame of [`Tiered`] in [`Layout::Compact`], the best size for its speed of all codecs, for every type.
/// [`compress_with`] takes another codec, [`crate::Writer`] any number of bytes in bounded memory.
///
/// # Errors
/// If the values are not whole, or there is no memory for the frame.
pub fn compress(values: &[u8], dtype: DType) -> Result<Vec<u8>, EncodeError> {
    compress_with(&DEFAULT, values, dtype)
}

/// Compresses like [`compress`], by a codec of the caller's choice.
///
/// # Errors
/// Errors of [`compress`], and if the codec does not support the type.
pub fn compress_with(codec: &dyn Codec, values: &[u8], dtype: DType) -> Result<Vec<u8>, EncodeError> {
    encode_to_vec(codec, Layout::Compact, dtype, values)
}

/// Compresses like [`compress`], into the front of `out`, which has [`compress_bound`] bytes or more; returns the length of the frame.
/// Nothing is allocated.
///
/// # Errors
/// If the values are not whole, or `out` is shorter than the longest possible frame.
pub fn compress_into(values: &[u8], dtype: DType, out: &mut [u8]) -> Result<usize, EncodeError> {
    compress_into_with(&DEFAULT, values, dtype, out)
}

/// Compresses like [`compress_into`], by a codec of the caller's choice; `out` has [`Codec::bound`] bytes or more. Nothing is allocated by
/// [`Tiered`] with rows of unknown length, [`crate::Window7`] and [`crate::Raw`].
///
/// # Errors
/// Errors of [`compress_into`], and if the codec does not support the type.
pub fn compress_into_with(
    codec: &dyn Codec,
    values: &[u8],
    dtype: DType,
    out: &mut [u8],
) -> Result<usize, EncodeError> {
    codec.encode(Layout::Compact, dtype, values, &mut [], out)
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

/// Encodes `values` into one buffer, by any codec in any layout: the static section, then the dynamic one.
///
/// # Errors
/// If the codec does not support the type, the values are not whole, or there is no memory for the frame.
pub fn encode_to_vec(
    codec: &dyn Codec,
    layout: Layout,
    dtype: DType,
    values: &[u8],
) -> Result<Vec<u8>, EncodeError> {
    let shape = frame::shape_of(codec, layout, dtype, values)?;
    let (static_len, bytes) = (codec.static_len(shape), codec.bound(shape));
    let mut frame = decode::zeroed(bytes).ok_or(EncodeError::OutOfMemory { bytes })?;
    let (static_out, dynamic_out) = frame.split_at_mut(static_len);
    let dynamic_len = codec.encode(layout, dtype, values, static_out, dynamic_out)?;
    frame.truncate(static_len + dynamic_len);
    Ok(frame)
}
