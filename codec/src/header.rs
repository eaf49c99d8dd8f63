//! The 32 bytes that every frame begins with.

use crate::{DecodeError, FrameShape, Section, checksum};

/// Bytes of the header that every frame begins with: enough for [`crate::FrameInfo::peek`].
pub const HEADER_LEN: usize = 32;

const MAGIC: [u8; 4] = *b"ZPWR";
/// Version of the frame format. It is the first one that later releases of this crate promise to read; decoders refuse others.
pub const FRAME_VERSION: u8 = 1;
const CHECKSUM: std::ops::Range<usize> = 24..28;

/// The fields that vary between frames of this version.
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
    /// Writes the header of a finished frame.
    ///
    /// `table` is the id of the table that it is read with, or 0. `sum` is the checksum without the header's part, which
    /// is added here.
    pub(crate) fn write(
        codec: u8,
        FrameShape { layout, dtype, count }: FrameShape,
        table: u32,
        dynamic_len: usize,
        sum: u32,
        out: &mut [u8],
    ) {
        let mut header = Self {
            codec,
            dtype: dtype.tag(),
            layout: layout.tag(),
            count: count as u64,
            dynamic_len: dynamic_len as u64,
            checksum: 0,
            table,
        };
        header.checksum = sum.wrapping_add(header.sum());
        out[..HEADER_LEN].copy_from_slice(&header.to_bytes());
    }

    /// Reads the header at the start of `section`.
    ///
    /// # Errors
    /// If there is none, or one of another version.
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
        if bytes[4] != FRAME_VERSION {
            return Err(DecodeError::Version { found: bytes[4] });
        }
        Ok(Self {
            codec: bytes[5],
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
        bytes[4..8].copy_from_slice(&[FRAME_VERSION, self.codec, self.dtype, self.layout]);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, Layout};

    #[test]
    fn fields_are_where_the_format_says() {
        let mut bytes = [0xee; 40];
        let shape = FrameShape { layout: Layout::Compact, dtype: DType::F32, count: 0x0102_0304 };
        Header::write(1, shape, 0x0d0c, 0x0a0b, 77, &mut bytes);
        assert_eq!(bytes[..8], [b'Z', b'P', b'W', b'R', 1, 1, 2, 1]);
        assert_eq!(bytes[8..24], [4, 3, 2, 1, 0, 0, 0, 0, 0x0b, 0x0a, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[28..], [0x0c, 0x0d, 0, 0, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee]);
        let header = Header::read(&bytes, Section::Static).unwrap();
        assert_eq!((header.count, header.dynamic_len), (0x0102_0304, 0x0a0b));
        assert_eq!(header.checksum, header.sum().wrapping_add(77));
    }
}
