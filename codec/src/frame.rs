//! Headers of frames: 32 bytes, how they are written and read.

use crate::{DecodeError, FRAME_VERSION, FrameShape, Section, checksum};

/// Writes the header of a finished frame to its front matter, which is finished behind that. `tag` is that of the codec, `table` the
/// id of the table that the frame is read with, or 0. `sum` is the checksum without front matter.
pub fn seal(tag: u8, shape: FrameShape, table: u32, dynamic_len: usize, sum: u32, front: &mut [u8]) {
    let FrameShape { layout, dtype, count } = shape;
    let mut header = Header {
        version: version_of(tag),
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
const CHECKSUM: std::ops::Range<usize> = 24..28;

/// The highest tag that frames of version 1 have.
const LAST_OF_VERSION_1: u8 = 9;

/// Version of frames with the tag of this codec: the lowest one that has it.
pub fn version_of(tag: u8) -> u8 {
    if tag <= LAST_OF_VERSION_1 { 1 } else { 2 }
}

/// The fields of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Version of the format.
    pub version: u8,
    /// Tag of the codec.
    pub codec: u8,
    /// Tag of the type.
    pub dtype: u8,
    /// Tag of the layout.
    pub layout: u8,
    /// Number of values.
    pub count: u64,
    /// Bytes of the dynamic section.
    pub dynamic_len: u64,
    /// Checksum of values and front matter.
    pub checksum: u32,
    /// Id of the table that the frame is read with, or 0.
    pub table: u32,
}

impl Header {
    /// Reads the header at the start of `section`.
    ///
    /// # Errors
    /// If there is none, or one of a version that no release has.
    pub fn read(section: &[u8], which: Section) -> Result<Self, DecodeError> {
        let bytes: &[u8; HEADER_LEN] = section.first_chunk().ok_or(DecodeError::Truncated {
            section: which,
            needed: HEADER_LEN,
            found: section.len(),
        })?;
        let found: [u8; 4] = array(bytes, 0);
        if found != MAGIC {
            return Err(DecodeError::Magic { found });
        }
        let version = bytes[4];
        if !(1..=FRAME_VERSION).contains(&version) {
            return Err(DecodeError::Version { found: version });
        }
        Ok(Self {
            version,
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
    pub fn sum(&self) -> u32 {
        checksum::of_front(&Self { checksum: 0, ..*self }.to_bytes(), 0)
    }

    fn to_bytes(self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..8].copy_from_slice(&[self.version, self.codec, self.dtype, self.layout]);
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
