//! Writing a frame, the parts that all codecs share: checks of buffers before, the header after.

use crate::header::{HEADER_LEN, Header};
use crate::{Codec, DType, EncodeError, FrameShape, Layout};

/// Checks what [`Codec::encode`] is given; returns the shape of the frame.
pub(crate) fn check_buffers(
    codec: &dyn Codec,
    layout: Layout,
    dtype: DType,
    values: &[u8],
    static_out: &[u8],
    dynamic_out: &[u8],
) -> Result<FrameShape, EncodeError> {
    let shape = shape_of(codec, layout, dtype, values)?;
    let static_len = codec.static_len(shape);
    if static_out.len() != static_len {
        return Err(EncodeError::StaticBuffer { needed: static_len, found: static_out.len() });
    }
    let needed = codec.bound(shape) - static_len;
    if dynamic_out.len() < needed {
        return Err(EncodeError::DynamicBuffer { needed, found: dynamic_out.len() });
    }
    Ok(shape)
}

/// The shape of a frame of these values.
///
/// # Errors
/// If the codec does not support the type or the values are not whole.
pub(crate) fn shape_of(
    codec: &dyn Codec,
    layout: Layout,
    dtype: DType,
    values: &[u8],
) -> Result<FrameShape, EncodeError> {
    if !codec.supports(dtype) {
        return Err(EncodeError::Unsupported { codec: codec.id(), dtype });
    }
    if !values.len().is_multiple_of(dtype.width()) {
        return Err(EncodeError::PartialValue { bytes: values.len(), dtype });
    }
    Ok(FrameShape { layout, dtype, count: values.len() / dtype.width() })
}

/// Writes the header of a finished frame to `out`. `tag` is that of the codec, `table` the id of the table that the frame
/// is read with, or 0. `sum` is the checksum of the values and of the front matter behind the header.
pub(crate) fn seal(tag: u8, shape: FrameShape, table: u32, dynamic_len: usize, sum: u32, out: &mut [u8]) {
    Header::write(tag, shape, table, dynamic_len, sum, &mut out[..HEADER_LEN]);
}
