//! Frames: the 32 bytes that each begins with, how they are written and read, and the checks that all codecs share.

use crate::registry;
use crate::{Codec, DType, DecodeError, EncodeError, FrameShape, Layout, Section, checksum};

/// Checks what [`Codec::encode`] is given; returns the shape of the frame.
pub(crate) fn check_buffers<C: Codec + ?Sized>(
    codec: &C,
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
pub(crate) fn shape_of<C: Codec + ?Sized>(
    codec: &C,
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

/// Writes the header of a finished frame to its front matter, which is finished behind that. `tag` is that of the codec, `table` the
/// id of the table that the frame is read with, or 0. `sum` is the checksum without front matter.
pub(crate) fn seal(tag: u8, shape: FrameShape, table: u32, dynamic_len: usize, sum: u32, front: &mut [u8]) {
    let FrameShape { layout, dtype, count } = shape;
    let mut header = Header {
        codec: tag,
        dtype: dtype.tag(),
        layout: layout.tag(),
        count: count as u64,
        dynamic_len: dynamic_len as u64,
        checksum: 0,
        table,
    };
    let (head, behind) = front.split_at_mut(HEADER_LEN);
    let sum = sum.wrapping_add(checksum::of_front(behind, HEADER_LEN));
    header.checksum = sum.wrapping_add(header.sum());
    head.copy_from_slice(&header.to_bytes());
}

/// Bytes of the header that every frame begins with: enough for [`crate::FrameInfo::peek`].
pub const HEADER_LEN: usize = 32;

const MAGIC: [u8; 4] = *b"ZPWR";
/// Latest version of the frame format. Decoders read it and those before it, down to 1, and refuse others; a frame has the lowest version that has its codec.
pub const FRAME_VERSION: u8 = 2;
const CHECKSUM: std::ops::Range<usize> = 24..28;

/// The fields of a header; its version follows from the codec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Tag of the codec.
    pub(crate) codec: u8,
    /// Tag of the type.
    pub(crate) dtype: u8,
    /// Tag of the layout.
    pub(crate) layout: u8,
    /// Number of values.
    pub(crate) count: u64,
    /// Bytes of the dynamic section.
    pub(crate) dynamic_len: u64,
    /// Checksum of values and front matter.
    pub(crate) checksum: u32,
    /// Id of the table that the frame is read with, or 0.
    pub(crate) table: u32,
}

impl Header {
    /// Reads the header at the start of `section`.
    ///
    /// # Errors
    /// If there is none, or one of another version than its codec has.
    pub(crate) fn read(section: &[u8], which: Section) -> Result<Self, DecodeError> {
        let bytes: &[u8; HEADER_LEN] = section.first_chunk().ok_or(DecodeError::Truncated {
            section: which,
            needed: HEADER_LEN,
            found: section.len(),
        })?;
        let found: [u8; 4] = array(bytes, 0);
        if found != MAGIC {
            return Err(DecodeError::Magic { found });
        }
        let (found, codec) = (bytes[4], bytes[5]);
        if !(1..=FRAME_VERSION).contains(&found) {
            return Err(DecodeError::Version { found });
        }
        let expected = registry::version_of(codec);
        if let Some(entry) = registry::by_tag(codec).filter(|_| found != expected) {
            return Err(DecodeError::CodecVersion { codec: entry.codec.id(), expected, found });
        }
        Ok(Self {
            codec,
            dtype: bytes[6],
            layout: bytes[7],
            count: u64::from_le_bytes(array(bytes, 8)),
            dynamic_len: u64::from_le_bytes(array(bytes, 16)),
            checksum: u32::from_le_bytes(array(bytes, CHECKSUM.start)),
            table: u32::from_le_bytes(array(bytes, 28)),
        })
    }

    /// The header's part of the checksum, for which the checksum field counts as zero.
    pub(crate) fn sum(&self) -> u32 {
        checksum::of_front(&Self { checksum: 0, ..*self }.to_bytes(), 0)
    }

    fn to_bytes(self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[..4].copy_from_slice(&MAGIC);
        let version = registry::version_of(self.codec);
        bytes[4..8].copy_from_slice(&[version, self.codec, self.dtype, self.layout]);
        bytes[8..16].copy_from_slice(&self.count.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.dynamic_len.to_le_bytes());
        bytes[CHECKSUM].copy_from_slice(&self.checksum.to_le_bytes());
        bytes[28..].copy_from_slice(&self.table.to_le_bytes());
        bytes
    }
}

fn array<const N: usize>(bytes: &[u8; HEADER_LEN], position: usize) -> [u8; N] {
    std::array::from_fn(|i| bytes[position + i])
}

/// Header of a frame, read without decoding anything.
///
/// ```
/// use zipwire_codec::{DType, FrameInfo, HEADER_LEN, Layout, compress};
///
/// let values: Vec<u8> = (0..20_000u16).flat_map(|i| (0x3c00 + i % 700).to_le_bytes()).collect();
/// let frame = compress(&values, DType::Bf16)?;
/// let info = FrameInfo::peek(&frame[..HEADER_LEN])?;
/// assert_eq!((info.codec, info.shape.dtype, info.shape.count), ("tiered", DType::Bf16, 20_000));
/// assert_eq!((info.frame_len(), info.shape.values_len()), (frame.len(), values.len()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FrameInfo {
    /// Version of the format.
    pub version: u8,
    /// Id of the codec, as in specs; `dedup` if repeated rows are left out.
    pub codec: &'static str,
    /// Layout, type and number of values.
    pub shape: FrameShape,
    /// Bytes of the static section.
    pub static_len: usize,
    /// Bytes of the dynamic section.
    pub dynamic_len: usize,
    /// Checksum of values and front matter, as the header says it.
    pub checksum: u32,
    /// Id of the table that the frame is read with, if it does not carry its own ([`crate::Decoder::add_table`]).
    pub table: Option<u32>,
}

impl FrameInfo {
    /// Reads the header at the front of `bytes`, of which the first [`HEADER_LEN`] are enough. Takes constant time and
    /// allocates nothing, whatever the bytes are.
    ///
    /// That a header is sound says nothing about what follows it: only decoding compares the checksum.
    ///
    /// # Errors
    /// For bytes that begin no frame, frames of another version or of an unknown codec, type or layout; and if the header
    /// gives a length that no frame with its number of values has, or that exceeds any memory.
    pub fn peek(bytes: &[u8]) -> Result<Self, DecodeError> {
        // The layout is in the header; a section is named only if not even that is there.
        let header = Header::read(bytes, Section::Dynamic)?;
        let entry = registry::by_tag(header.codec).ok_or(DecodeError::UnknownCodec { tag: header.codec })?;
        let dtype = DType::ALL.into_iter().find(|dtype| dtype.tag() == header.dtype);
        let dtype = dtype.ok_or(DecodeError::UnknownDType { tag: header.dtype })?;
        let layout = Layout::ALL.into_iter().find(|layout| layout.tag() == header.layout);
        let layout = layout.ok_or(DecodeError::UnknownLayout { tag: header.layout })?;
        if !entry.codec.supports(dtype) {
            return Err(DecodeError::Unsupported { codec: entry.codec.id(), dtype });
        }
        if header.table != 0 && !entry.takes_table {
            return Err(DecodeError::UnusedTable { codec: entry.codec.id(), id: header.table });
        }
        let too_large = DecodeError::TooLarge { count: header.count, dtype };
        let count = usize::try_from(header.count).map_err(|_| too_large.clone())?;
        let shape = FrameShape { layout, dtype, count };
        let most = registry::highest_bound(shape);
        if most > isize::MAX as usize {
            return Err(too_large);
        }
        // Frames that hold another frame are at most as long as that of its codec alone, which is not known here.
        let is_outer = registry::by_id(entry.codec.id()).is_none();
        let most = if is_outer { most } else { entry.codec.bound(shape) };
        let (least, static_len) = (entry.codec.min_len(shape), entry.codec.static_len(shape));
        let len = header.dynamic_len.saturating_add(static_len as u64);
        if len < least as u64 || len > most as u64 {
            return Err(DecodeError::Implausible { len, least, most, count: header.count });
        }
        Ok(Self {
            version: registry::version_of(header.codec),
            codec: entry.codec.id(),
            shape,
            static_len,
            dynamic_len: header.dynamic_len as usize,
            checksum: header.checksum,
            table: (header.table != 0).then_some(header.table),
        })
    }

    /// Bytes of the frame: its header, and all that follows.
    pub fn frame_len(&self) -> usize {
        self.static_len + self.dynamic_len
    }
}

// A reader with this many bytes has the front of any frame.
const _: () = assert!(HEADER_LEN == 32);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Codec, DType, Layout, Raw, encode_to_vec};

    #[test]
    fn fields_are_where_the_format_says() {
        let mut bytes = [0xee; 40];
        let shape = FrameShape { layout: Layout::Compact, dtype: DType::F32, count: 0x0102_0304 };
        seal(1, shape, 0x0d0c, 0x0a0b, 77, &mut bytes[..HEADER_LEN]);
        assert_eq!(bytes[..8], [b'Z', b'P', b'W', b'R', 1, 1, 2, 1]);
        assert_eq!(bytes[8..24], [4, 3, 2, 1, 0, 0, 0, 0, 0x0b, 0x0a, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[28..], [0x0c, 0x0d, 0, 0, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee]);
        let header = Header::read(&bytes, Section::Static).unwrap();
        assert_eq!((header.count, header.dynamic_len), (0x0102_0304, 0x0a0b));
        assert_eq!(header.checksum, header.sum().wrapping_add(77));
    }

    fn frame() -> Vec<u8> {
        encode_to_vec(&Raw, Layout::Split, DType::F32, &[1; 40]).unwrap()
    }

    /// With these bytes of the header replaced.
    fn peek_with(at: usize, bytes: &[u8]) -> Result<FrameInfo, DecodeError> {
        let mut frame = frame();
        frame[at..at + bytes.len()].copy_from_slice(bytes);
        FrameInfo::peek(&frame)
    }

    #[test]
    fn a_header_says_all_lengths() {
        let info = FrameInfo::peek(&frame()).unwrap();
        let shape = FrameShape::new(Layout::Split, DType::F32, 10);
        assert_eq!((info.codec, info.shape, info.version, info.table), ("raw", shape, 1, None));
        assert_eq!((info.static_len, info.dynamic_len, info.frame_len()), (72, 0, 72));
        assert_eq!(info.static_len, Raw.static_len(shape));
    }

    #[test]
    fn headers_that_no_frame_has_are_typed_errors() {
        let frame = frame();
        for len in 0..HEADER_LEN {
            let truncated =
                DecodeError::Truncated { section: Section::Dynamic, needed: HEADER_LEN, found: len };
            assert_eq!(FrameInfo::peek(&frame[..len]), Err(truncated));
        }
        assert_eq!(peek_with(0, b"ZPWX"), Err(DecodeError::Magic { found: *b"ZPWX" }));
        assert_eq!(peek_with(4, &[0]), Err(DecodeError::Version { found: 0 }));
        assert_eq!(peek_with(4, &[3]), Err(DecodeError::Version { found: 3 }));
        let other = DecodeError::CodecVersion { codec: "raw", expected: 1, found: 2 };
        assert_eq!(peek_with(4, &[2]), Err(other));
        let other = DecodeError::CodecVersion { codec: "planes", expected: 2, found: 1 };
        assert_eq!(peek_with(5, &[10]), Err(other));
        assert_eq!(peek_with(5, &[250]), Err(DecodeError::UnknownCodec { tag: 250 }));
        assert_eq!(peek_with(6, &[5]), Err(DecodeError::UnknownDType { tag: 5 }));
        assert_eq!(peek_with(7, &[2]), Err(DecodeError::UnknownLayout { tag: 2 }));
        assert_eq!(
            peek_with(5, &[1, 1]),
            Err(DecodeError::Unsupported { codec: "window7", dtype: DType::F16 })
        );
        assert_eq!(peek_with(28, &[7]), Err(DecodeError::UnusedTable { codec: "raw", id: 7 }));
        for count in [u64::MAX, 1 << 62, 1 << 61] {
            let error = DecodeError::TooLarge { count, dtype: DType::F32 };
            assert_eq!(peek_with(8, &count.to_le_bytes()), Err(error));
        }
        let error = DecodeError::Implausible { len: 73, least: 72, most: 72, count: 10 };
        assert_eq!(peek_with(16, &[1]), Err(error));
        let error = DecodeError::Implausible { len: u64::MAX, least: 72, most: 72, count: 10 };
        assert_eq!(peek_with(16, &[0xff; 8]), Err(error));
    }
}
