//! Frames of any codec into values: the header is compared with what is expected, then the codec that it names decodes.

use crate::body::Body;
use crate::header::Header;
use crate::memory;
use crate::registry::{self, Entry};
use crate::tables::Tables;
use crate::{DType, DecodeError, FrameShape, Layout, Section};

/// Decodes a frame of any codec into `out`, for callers that know its shape.
///
/// `layout`, `dtype` and the number of values, `out.len() / dtype.width()`, are what the caller expects; a frame of
/// anything else is an error. Both sections must have their exact lengths; in the compact layout the static section is
/// empty. Nothing is allocated, but for the tables and lists of a frame of `rans`. [`crate::decompress`] expects nothing.
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
    decode_with(Tables::NONE, layout, dtype, static_section, dynamic_section, out)
}

/// Decodes a frame that is in one buffer, static section first, of the expected shape.
///
/// The output is allocated once the header agrees with the caller's expectation and the frame is no shorter than one of
/// so many values can be.
///
/// # Errors
/// As [`decode`], and [`DecodeError::OutOfMemory`].
pub fn decode_from_slice(shape: FrameShape, frame: &[u8]) -> Result<Vec<u8>, DecodeError> {
    decode_slice_with(Tables::NONE, shape, frame)
}

/// [`decode`] with tables.
pub(crate) fn decode_with(
    tables: &Tables,
    layout: Layout,
    dtype: DType,
    static_section: &[u8],
    dynamic_section: &[u8],
    out: &mut [u8],
) -> Result<(), DecodeError> {
    if !out.len().is_multiple_of(dtype.width()) {
        return Err(DecodeError::PartialValue { bytes: out.len(), dtype });
    }
    let shape = FrameShape { layout, dtype, count: out.len() / dtype.width() };
    let (body, header, entry) = open(tables, shape, static_section, dynamic_section)?;
    let sum = (entry.decode)(&body, out)?;
    let found = sum.wrapping_add(header.sum());
    if found != header.checksum {
        return Err(DecodeError::Checksum { expected: header.checksum, found });
    }
    Ok(())
}

/// [`decode_from_slice`] with tables.
pub(crate) fn decode_slice_with(
    tables: &Tables,
    shape: FrameShape,
    frame: &[u8],
) -> Result<Vec<u8>, DecodeError> {
    let first = first_section(shape.layout);
    let (_, entry) = expect(tables, frame, first, shape)?;
    let needed = entry.codec.min_len(shape);
    if frame.len() < needed {
        return Err(DecodeError::Truncated { section: first, needed, found: frame.len() });
    }
    let (static_section, dynamic_section) = frame.split_at(entry.codec.static_len(shape));
    let bytes = shape.values_len();
    let mut out = memory::zeroed(bytes).ok_or(DecodeError::OutOfMemory { bytes })?;
    decode_with(tables, shape.layout, shape.dtype, static_section, dynamic_section, &mut out)?;
    Ok(out)
}

/// The section that begins with the header.
pub(crate) fn first_section(layout: Layout) -> Section {
    match layout {
        Layout::Split => Section::Static,
        Layout::Compact => Section::Dynamic,
    }
}

/// Compares the header of a frame with the expectation, and the lengths of its sections with both.
pub(crate) fn open<'a>(
    tables: &'a Tables,
    shape: FrameShape,
    static_section: &'a [u8],
    dynamic_section: &'a [u8],
) -> Result<(Body<'a>, Header, &'static Entry), DecodeError> {
    let first = first_section(shape.layout);
    let bytes = match first {
        Section::Static => static_section,
        Section::Dynamic => dynamic_section,
    };
    let (header, entry) = expect(tables, bytes, first, shape)?;
    let static_len = entry.codec.static_len(shape);
    if static_section.len() != static_len {
        let (expected, found) = (static_len as u64, static_section.len());
        return Err(DecodeError::Length { section: Section::Static, expected, found });
    }
    if dynamic_section.len() as u64 != header.dynamic_len {
        let (expected, found) = (header.dynamic_len, dynamic_section.len());
        return Err(DecodeError::Length { section: Section::Dynamic, expected, found });
    }
    let FrameShape { layout, dtype, .. } = shape;
    let (table, decode_inner) = (tables.get(header.table), decode_inner);
    Ok((Body { layout, dtype, static_section, dynamic_section, table, tables, decode_inner }, header, entry))
}

/// See [`Body::decode_inner`].
fn decode_inner(tables: &Tables, dtype: DType, frame: &[u8], out: &mut [u8]) -> Result<(), DecodeError> {
    decode_with(tables, Layout::Compact, dtype, &[], frame, out)
}

/// Reads the header at the start of `section` and compares it with what the caller expects.
fn expect(
    tables: &Tables,
    section: &[u8],
    which: Section,
    FrameShape { layout, dtype, count }: FrameShape,
) -> Result<(Header, &'static Entry), DecodeError> {
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
    if header.table != 0 {
        if !entry.takes_table {
            return Err(DecodeError::UnusedTable { codec: entry.codec.id(), id: header.table });
        }
        tables.get(header.table).ok_or(DecodeError::UnknownTable { id: header.table })?;
    }
    if !entry.codec.supports(dtype) {
        return Err(DecodeError::Unsupported { codec: entry.codec.id(), dtype });
    }
    Ok((header, entry))
}
