//! Frames as a whole: what all codecs share on the way in and on the way out.

use crate::header::{HEADER_LEN, Header};
use crate::{Codec, DType, DecodeError, EncodeError, Layout, Section, registry};

/// Decodes a frame of any codec into `out`.
///
/// `layout`, `dtype` and the number of values, `out.len() / dtype.width()`, are what the caller expects; a frame of
/// anything else is an error. Both sections must have their exact lengths; in the compact layout the static section is
/// empty. Nothing is allocated.
///
/// # Errors
/// For every frame that is damaged, cut, extended or not the expected one. `out` then holds unspecified values.
pub fn decode(
    layout: Layout,
    dtype: DType,
    static_section: &[u8],
    dynamic_section: &[u8],
    out: &mut [u8],
) -> Result<(), DecodeError> {
    if !out.len().is_multiple_of(dtype.width()) {
        return Err(DecodeError::PartialValue { bytes: out.len(), dtype });
    }
    let count = out.len() / dtype.width();
    let (body, header, entry) = open(layout, dtype, count, static_section, dynamic_section)?;
    let sum = (entry.decode)(&body, out)?;
    let found = sum.wrapping_add(header.sum());
    if found != header.checksum {
        return Err(DecodeError::Checksum { expected: header.checksum, found });
    }
    Ok(())
}

/// Encodes `values` into one buffer: the static section, then the dynamic one.
///
/// # Errors
/// If the codec does not support the type or the values are not whole.
pub fn encode_to_vec(
    codec: &dyn Codec,
    layout: Layout,
    dtype: DType,
    values: &[u8],
) -> Result<Vec<u8>, EncodeError> {
    let count = whole_values(codec, dtype, values)?;
    let static_len = codec.static_len(layout, dtype, count);
    let mut frame = vec![0; codec.bound(layout, dtype, count)];
    let (static_out, dynamic_out) = frame.split_at_mut(static_len);
    let dynamic_len = codec.encode(layout, dtype, values, static_out, dynamic_out)?;
    frame.truncate(static_len + dynamic_len);
    Ok(frame)
}

/// Decodes a frame that is in one buffer, static section first, into `count` values.
///
/// The output is allocated once the header agrees with the caller's expectation and the frame is no shorter than one of
/// so many values can be.
///
/// # Errors
/// As [`decode`].
pub fn decode_from_slice(
    layout: Layout,
    dtype: DType,
    count: usize,
    frame: &[u8],
) -> Result<Vec<u8>, DecodeError> {
    let first = match layout {
        Layout::Split => Section::Static,
        Layout::Compact => Section::Dynamic,
    };
    let (_, entry) = expect(frame, first, layout, dtype, count)?;
    let needed = entry.codec.least_len(layout, dtype, count);
    if frame.len() < needed {
        return Err(DecodeError::Truncated { section: first, needed, found: frame.len() });
    }
    let (static_section, dynamic_section) = frame.split_at(entry.codec.static_len(layout, dtype, count));
    let mut out = vec![0; count * dtype.width()];
    decode(layout, dtype, static_section, dynamic_section, &mut out)?;
    Ok(out)
}

/// What a codec decodes, after the header has been compared with the caller's expectation and the lengths of both
/// sections have been checked.
pub(crate) struct Body<'a> {
    pub(crate) layout: Layout,
    pub(crate) dtype: DType,
    pub(crate) static_section: &'a [u8],
    pub(crate) dynamic_section: &'a [u8],
}

/// Compares the header of a frame of `count` values with the expectation, and the lengths of its sections with both.
pub(crate) fn open<'a>(
    layout: Layout,
    dtype: DType,
    count: usize,
    static_section: &'a [u8],
    dynamic_section: &'a [u8],
) -> Result<(Body<'a>, Header, &'static registry::Entry), DecodeError> {
    let (header, entry) = match layout {
        Layout::Split => expect(static_section, Section::Static, layout, dtype, count)?,
        Layout::Compact => expect(dynamic_section, Section::Dynamic, layout, dtype, count)?,
    };
    let static_len = entry.codec.static_len(layout, dtype, count);
    if static_section.len() != static_len {
        let (expected, found) = (static_len as u64, static_section.len());
        return Err(DecodeError::Length { section: Section::Static, expected, found });
    }
    if dynamic_section.len() as u64 != header.dynamic_len {
        let (expected, found) = (header.dynamic_len, dynamic_section.len());
        return Err(DecodeError::Length { section: Section::Dynamic, expected, found });
    }
    Ok((Body { layout, dtype, static_section, dynamic_section }, header, entry))
}

/// Checks what [`Codec::encode`] is given; returns the number of values.
pub(crate) fn check_buffers(
    codec: &dyn Codec,
    layout: Layout,
    dtype: DType,
    values: &[u8],
    static_out: &[u8],
    dynamic_out: &[u8],
) -> Result<usize, EncodeError> {
    let count = whole_values(codec, dtype, values)?;
    let static_len = codec.static_len(layout, dtype, count);
    if static_out.len() != static_len {
        return Err(EncodeError::StaticBuffer { needed: static_len, found: static_out.len() });
    }
    let needed = codec.bound(layout, dtype, count) - static_len;
    if dynamic_out.len() < needed {
        return Err(EncodeError::DynamicBuffer { needed, found: dynamic_out.len() });
    }
    Ok(count)
}

/// Writes the header of a finished frame to `out`. `sum` is the checksum of the values and of the front matter behind
/// the header.
pub(crate) fn seal(
    codec: &dyn Codec,
    (layout, dtype, count): (Layout, DType, usize),
    dynamic_len: usize,
    sum: u32,
    out: &mut [u8],
) {
    let entry = registry::by_id(codec.id()).expect("codecs of this crate are in the registry");
    Header::write(entry.tag, dtype, layout, count, dynamic_len, sum, &mut out[..HEADER_LEN]);
}

fn whole_values(codec: &dyn Codec, dtype: DType, values: &[u8]) -> Result<usize, EncodeError> {
    if !codec.supports(dtype) {
        return Err(EncodeError::Unsupported { codec: codec.id(), dtype });
    }
    if !values.len().is_multiple_of(dtype.width()) {
        return Err(EncodeError::PartialValue { bytes: values.len(), dtype });
    }
    Ok(values.len() / dtype.width())
}

/// Reads the header at the start of `section` and compares it with what the caller expects.
fn expect(
    section: &[u8],
    which: Section,
    layout: Layout,
    dtype: DType,
    count: usize,
) -> Result<(Header, &'static registry::Entry), DecodeError> {
    let header = Header::read(section, which)?;
    let entry = registry::by_tag(header.codec).ok_or(DecodeError::UnknownCodec { tag: header.codec })?;
    if header.dtype != dtype.tag() {
        return Err(DecodeError::DType { expected: dtype, found: header.dtype });
    }
    if header.layout != layout.tag() {
        return Err(DecodeError::Layout { expected: layout, found: header.layout });
    }
    if header.count != count as u64 {
        return Err(DecodeError::Count { expected: count, found: header.count });
    }
    if header.code_book != 0 {
        return Err(DecodeError::CodeBook { found: header.code_book });
    }
    if !entry.codec.supports(dtype) {
        return Err(DecodeError::Unsupported { codec: entry.codec.id(), dtype });
    }
    Ok((header, entry))
}
