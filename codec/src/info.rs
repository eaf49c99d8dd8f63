//! Header of a frame for callers: [`FrameInfo`].

use crate::frame::{HEADER_LEN, Header};
use crate::{DType, DecodeError, FrameShape, Layout, Section, registry};

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
        let entry = registry::of_header(&header)?;
        let dtype = DType::ALL.into_iter().find(|dtype| dtype.tag() == header.dtype);
        let dtype = dtype.ok_or(DecodeError::UnknownDType { tag: header.dtype })?;
        let layout = Layout::ALL.into_iter().find(|layout| layout.tag() == header.layout);
        let layout = layout.ok_or(DecodeError::UnknownLayout { tag: header.layout })?;
        if !entry.codec.supports(dtype) {
            return Err(DecodeError::Unsupported { codec: entry.codec.id(), dtype });
        }
        if header.table != 0 && entry.tables.is_none() {
            return Err(DecodeError::UnusedTable { codec: entry.codec.id(), id: header.table });
        }
        let too_large = DecodeError::TooLarge { count: header.count, dtype };
        let count = usize::try_from(header.count).map_err(|_| too_large.clone())?;
        let shape = FrameShape { layout, dtype, count };
        // Frames that hold another frame are at most as long as that of its codec alone, which is not known here.
        let is_outer = registry::by_id(entry.codec.id()).is_none();
        let most = if is_outer { registry::highest_bound(shape) } else { entry.codec.bound(shape) };
        if most > isize::MAX as usize {
            return Err(too_large);
        }
        let (least, static_len) = (entry.codec.min_len(shape), entry.codec.static_len(shape));
        let len = header.dynamic_len.saturating_add(static_len as u64);
        if len < least as u64 || len > most as u64 {
            return Err(DecodeError::Implausible { len, least, most, count: header.count });
        }
        Ok(Self {
            version: header.version,
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
    use crate::{Codec, DType, Layout, Raw};

    #[test]
    fn fields_are_where_the_format_says() {
        let mut bytes = [0xee; 40];
        let shape = FrameShape { layout: Layout::Compact, dtype: DType::F32, count: 0x0102_0304 };
        crate::frame::seal(1, shape, 0x0d0c, 0x0a0b, 77, &mut bytes[..HEADER_LEN]);
        assert_eq!(bytes[..8], [b'Z', b'P', b'W', b'R', 1, 1, 2, 1]);
        assert_eq!(bytes[8..24], [4, 3, 2, 1, 0, 0, 0, 0, 0x0b, 0x0a, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[28..], [0x0c, 0x0d, 0, 0, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee]);
        let header = Header::read(&bytes, Section::Static).unwrap();
        assert_eq!((header.count, header.dynamic_len), (0x0102_0304, 0x0a0b));
        assert_eq!(header.checksum, header.sum().wrapping_add(77));
    }

    fn frame() -> Vec<u8> {
        Raw.encode_to_vec(Layout::Split, DType::F32, &[1; 40]).unwrap()
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
        let unknown = peek_with(5, &[1]).unwrap_err();
        assert_eq!(unknown, DecodeError::UnknownCodec { tag: 1 });
        assert!(unknown.help().unwrap().contains("zipwire-paper-codecs"));
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
