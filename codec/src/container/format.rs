//! The bytes of a container around its frames: header and index.

use super::ContainerError;
use crate::checksum::{fold, key, mix};
use crate::{DType, FrameInfo, FrameShape, Layout};

/// Version of the container format. It is the first one that later releases of this crate promise to read; readers refuse others.
pub const CONTAINER_VERSION: u8 = 1;

/// The most values of a chunk: what bounds the memory of readers.
pub const MAX_CHUNK_VALUES: u32 = 1 << 26;

const MAGIC: [u8; 4] = *b"ZPWS";
/// Magic number of a frame, and so of a chunk.
pub(super) const CHUNK_MAGIC: [u8; 4] = *b"ZPWR";
/// Magic number at the start of the index.
pub(super) const INDEX_MAGIC: [u8; 4] = *b"ZPWI";
/// Magic number at the end of a container.
const END_MAGIC: [u8; 4] = *b"ZPWE";

/// Bytes of the header.
pub(super) const HEADER_LEN: usize = 16;
/// Bytes in front of the entries of the index, its marker included: the tail.
pub(super) const HEAD_LEN: usize = 8;
/// Bytes of the entry of a chunk.
pub(super) const ENTRY_LEN: usize = 8;
/// Bytes behind the entries.
pub(super) const FOOT_LEN: usize = 24;
/// Bytes of a tail at the most: one less than those of the widest value.
const MAX_TAIL: usize = 3;

/// Header of a container: type and length of its chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) dtype: DType,
    /// Values of every chunk but the last, which may have fewer.
    pub(super) chunk_values: u32,
}

impl Header {
    /// # Errors
    /// If there are no chunks of this length.
    pub(super) fn new(dtype: DType, chunk_values: u64) -> Result<Self, ContainerError> {
        match u32::try_from(chunk_values) {
            Ok(values @ 1..=MAX_CHUNK_VALUES) => Ok(Self { dtype, chunk_values: values }),
            _ => Err(ContainerError::ChunkValues { found: chunk_values }),
        }
    }

    /// Bytes of the values of a full chunk.
    pub(super) fn chunk_len(self) -> usize {
        self.chunk_values as usize * self.dtype.width()
    }

    /// Shape of the frame of a full chunk.
    pub(super) fn chunk_shape(self) -> FrameShape {
        FrameShape::new(Layout::Compact, self.dtype, self.chunk_values as usize)
    }

    pub(super) fn to_bytes(self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&[CONTAINER_VERSION, self.dtype.tag()]);
        bytes[8..12].copy_from_slice(&self.chunk_values.to_le_bytes());
        let sum = header_sum(&bytes);
        bytes[12..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    pub(super) fn read(bytes: &[u8; HEADER_LEN]) -> Result<Self, ContainerError> {
        let [m0, m1, m2, m3, version, tag, z0, z1, c0, c1, c2, c3, s0, s1, s2, s3] = *bytes;
        if [m0, m1, m2, m3] != MAGIC {
            return Err(ContainerError::Magic { found: [m0, m1, m2, m3] });
        }
        if version != CONTAINER_VERSION {
            return Err(ContainerError::Version { found: version });
        }
        let (expected, found) = (u32::from_le_bytes([s0, s1, s2, s3]), header_sum(bytes));
        if expected != found {
            return Err(ContainerError::HeaderChecksum { expected, found });
        }
        if [z0, z1] != [0; 2] {
            return Err(ContainerError::Padding { part: "header" });
        }
        let dtype = DType::ALL.into_iter().find(|dtype| dtype.tag() == tag);
        let dtype = dtype.ok_or(ContainerError::UnknownDType { tag })?;
        Self::new(dtype, u64::from(u32::from_le_bytes([c0, c1, c2, c3])))
    }
}

/// Checksum of the header's bytes before its checksum field.
fn header_sum(bytes: &[u8; HEADER_LEN]) -> u32 {
    let mut sum = Sum::default();
    for (index, word) in [&bytes[..8], &bytes[8..12]].into_iter().enumerate() {
        sum.add(index as u64, crate::checksum::word(word));
    }
    sum.folded()
}

/// Entry of the index for a chunk: the length of its frame in the lower half, the frame's checksum in the upper one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry(u64);

impl Entry {
    pub(super) fn of(info: &FrameInfo) -> Self {
        Self(info.frame_len() as u64 | u64::from(info.checksum) << 32)
    }

    pub(super) fn from_bytes(bytes: [u8; ENTRY_LEN]) -> Self {
        Self(u64::from_le_bytes(bytes))
    }

    pub(super) fn to_bytes(self) -> [u8; ENTRY_LEN] {
        self.0.to_le_bytes()
    }

    /// Bytes of the frame.
    pub(super) fn frame_len(self) -> u64 {
        self.0 & u64::from(u32::MAX)
    }
}

/// The checksum of header or index: a sum of words, each mixed with its index, so that entries can be added as their chunks
/// come. Front matter of frames is summed in the same way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum(u64);

impl Sum {
    pub(super) fn add(&mut self, index: u64, word: u64) {
        self.0 = self.0.wrapping_add(mix(word, key(!index)));
    }

    /// Adds the entry of the chunk with this number.
    pub(super) fn add_entry(&mut self, chunk: u64, entry: Entry) {
        self.add(chunk + 1, entry.0);
    }

    pub(super) fn folded(self) -> u32 {
        fold(self.0)
    }
}

/// Bytes at the end of the data that are no whole value; they stand before the entries of the index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tail {
    len: u8,
    bytes: [u8; MAX_TAIL],
}

impl Tail {
    pub(super) fn new(tail: &[u8]) -> Self {
        let mut bytes = [0; MAX_TAIL];
        bytes[..tail.len()].copy_from_slice(tail);
        Self { len: tail.len() as u8, bytes }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// The head of the index.
    pub(super) fn to_bytes(self) -> [u8; HEAD_LEN] {
        let ([a, b, c, d], [x, y, z]) = (INDEX_MAGIC, self.bytes);
        [a, b, c, d, self.len, x, y, z]
    }

    /// Reads what follows the marker.
    pub(super) fn read([len, bytes @ ..]: [u8; 4], dtype: DType) -> Result<Self, ContainerError> {
        let tail = Self { len, bytes };
        let is_clear = || bytes[usize::from(len)..].iter().all(|byte| *byte == 0);
        if usize::from(len) >= dtype.width() || !is_clear() {
            return Err(ContainerError::Padding { part: "index" });
        }
        Ok(tail)
    }
}

/// Foot of the index, behind the entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Foot {
    /// Number of chunks.
    pub(super) chunks: u64,
    /// Bytes of all values and the tail.
    pub(super) data_len: u64,
}

impl Foot {
    /// `sum` is that of the entries.
    pub(super) fn to_bytes(self, tail: Tail, sum: Sum) -> [u8; FOOT_LEN] {
        let mut bytes = [0; FOOT_LEN];
        bytes[..8].copy_from_slice(&self.chunks.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.data_len.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.sum(tail, sum).to_le_bytes());
        bytes[20..].copy_from_slice(&END_MAGIC);
        bytes
    }

    /// Reads the numbers alone, to find out where the index begins.
    pub(super) fn peek(bytes: &[u8; FOOT_LEN]) -> Result<Self, ContainerError> {
        if bytes[20..] != END_MAGIC {
            return Err(ContainerError::Truncated { part: "index" });
        }
        let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        Ok(Self { chunks: number(0), data_len: number(8) })
    }

    /// Reads it and compares it with what came before.
    pub(super) fn read(
        bytes: &[u8; FOOT_LEN],
        header: Header,
        tail: Tail,
        sum: Sum,
    ) -> Result<Self, ContainerError> {
        let foot = Self::peek(bytes).map_err(|_| ContainerError::Padding { part: "index" })?;
        let expected = u32::from_le_bytes(std::array::from_fn(|i| bytes[16 + i]));
        let found = foot.sum(tail, sum);
        if expected != found {
            return Err(ContainerError::IndexChecksum { expected, found });
        }
        if !foot.is_possible(header, tail) {
            return Err(ContainerError::IndexMismatch { chunks: foot.chunks });
        }
        Ok(foot)
    }

    /// Number of values.
    pub(super) fn values(self, header: Header) -> u64 {
        self.data_len / header.dtype.width() as u64
    }

    /// Whether the number of chunks and the tail are those that `data_len` bytes need.
    fn is_possible(self, header: Header, tail: Tail) -> bool {
        self.values(header).div_ceil(u64::from(header.chunk_values)) == self.chunks
            && self.data_len % header.dtype.width() as u64 == u64::from(tail.len)
    }

    fn sum(self, tail: Tail, mut sum: Sum) -> u32 {
        sum.add(0, u64::from_le_bytes(tail.to_bytes()));
        sum.add(self.chunks.wrapping_add(1), self.chunks);
        sum.add(self.chunks.wrapping_add(2), self.data_len);
        sum.folded()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_the_header_are_where_the_format_says() {
        let header = Header::new(DType::F32, 0x0201).unwrap();
        let bytes = header.to_bytes();
        assert_eq!(bytes[..12], [b'Z', b'P', b'W', b'S', 1, 2, 0, 0, 1, 2, 0, 0]);
        assert_eq!(Header::read(&bytes), Ok(header));
        assert_eq!((header.chunk_len(), header.chunk_shape().count), (4 * 0x0201, 0x0201));
        for found in [0, u64::from(MAX_CHUNK_VALUES) + 1, u64::MAX] {
            assert_eq!(Header::new(DType::F32, found), Err(ContainerError::ChunkValues { found }));
        }
    }

    #[test]
    fn headers_that_no_writer_makes_are_refused_even_with_their_checksum() {
        let with = |at: usize, byte: u8| {
            let mut bytes = Header::new(DType::F32, 7).unwrap().to_bytes();
            bytes[at] = byte;
            let sum = header_sum(&bytes);
            bytes[12..].copy_from_slice(&sum.to_le_bytes());
            Header::read(&bytes).unwrap_err()
        };
        assert_eq!(with(3, b'R'), ContainerError::Magic { found: *b"ZPWR" });
        assert_eq!(with(4, 0), ContainerError::Version { found: 0 });
        assert_eq!(with(4, 2), ContainerError::Version { found: 2 });
        assert_eq!(with(5, 5), ContainerError::UnknownDType { tag: 5 });
        assert_eq!(with(6, 1), ContainerError::Padding { part: "header" });
        assert_eq!(with(8, 0), ContainerError::ChunkValues { found: 0 });
        assert_eq!(with(11, 4), ContainerError::ChunkValues { found: (4 << 24) + 7 });
    }

    #[test]
    fn fields_of_the_index_are_where_the_format_says() {
        let header = Header::new(DType::F32, 7).unwrap();
        let tail = Tail::new(&[8, 9]);
        assert_eq!(tail.to_bytes(), [b'Z', b'P', b'W', b'I', 2, 8, 9, 0]);
        assert_eq!(Tail::read([2, 8, 9, 0], DType::F32), Ok(tail));
        for bad in [[2, 8, 9, 1], [4, 0, 0, 0], [0xff, 0, 0, 0]] {
            assert_eq!(Tail::read(bad, DType::F32), Err(ContainerError::Padding { part: "index" }));
        }
        assert!(Tail::read([1, 8, 0, 0], DType::F8E4M3).is_err(), "every byte is a value");
        let mut sum = Sum::default();
        sum.add_entry(0, Entry(5 | 6 << 32));
        assert_eq!(Entry(5 | 6 << 32).to_bytes(), [5, 0, 0, 0, 6, 0, 0, 0]);
        let foot = Foot { chunks: 1, data_len: 14 };
        let bytes = foot.to_bytes(tail, sum);
        assert_eq!(bytes[..16], [1, 0, 0, 0, 0, 0, 0, 0, 14, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[20..], *b"ZPWE");
        assert_eq!(Foot::read(&bytes, header, tail, sum), Ok(foot));
        for (chunks, data_len) in [(1, 12), (1, 2), (1, 34), (2, 14)] {
            let bytes = Foot { chunks, data_len }.to_bytes(tail, sum);
            let error = ContainerError::IndexMismatch { chunks };
            assert_eq!(Foot::read(&bytes, header, tail, sum), Err(error), "{chunks} {data_len}");
        }
    }
}
