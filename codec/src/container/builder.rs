//! Header and index around frames that callers make.

use super::ContainerError;
use super::format::{Entry, Foot, Header, Sum, Tail};
use crate::{DType, FrameInfo, Layout};

/// Makes header and index of a container around frames that its caller makes: for callers that encode chunks in an order of their own,
/// with a codec for each, or writes them where [`Writer`](crate::Writer) cannot.
///
/// ```
/// use std::io::Read;
/// use zipwire_codec::{ContainerBuilder, DType, Rans, Raw, Reader, compress_with};
///
/// let mut builder = ContainerBuilder::new(DType::Bf16, 1000)?;
/// let mut container = builder.header().to_vec();
/// for frame in [compress_with(&Rans::new(), &[1; 2000], DType::Bf16)?, compress_with(&Raw, &[2; 500], DType::Bf16)?] {
///     builder.push(&frame)?;
///     container.extend(frame);
/// }
/// container.extend(builder.finish(&[])?);
///
/// let mut data = Vec::new();
/// Reader::new(&container[..]).read_to_end(&mut data)?;
/// assert_eq!(data, [vec![1; 2000], vec![2; 500]].concat());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ContainerBuilder {
    pub(super) header: Header,
    entries: Vec<Entry>,
    data_len: u64,
}

impl ContainerBuilder {
    /// A container of values of a type, of which each chunk but the last has `chunk_values`.
    ///
    /// # Errors
    /// [`ContainerError::ChunkValues`].
    pub fn new(dtype: DType, chunk_values: u32) -> Result<Self, ContainerError> {
        Ok(Self::of(Header::new(dtype, u64::from(chunk_values))?))
    }

    pub(super) fn of(header: Header) -> Self {
        Self { header, entries: Vec::new(), data_len: 0 }
    }

    /// The bytes in front of the first frame.
    pub fn header(&self) -> [u8; 16] {
        self.header.to_bytes()
    }

    /// Bytes of the index of this number of chunks.
    pub fn index_len(chunks: u64) -> u64 {
        32 + 8 * chunks
    }

    /// Notes the frame of the next chunk, in `compact`, which is to be written behind the ones before.
    ///
    /// # Errors
    /// [`ContainerError::Chunk`] if it is no frame, [`ContainerError::ChunkShape`] if it cannot be the next chunk.
    pub fn push(&mut self, frame: &[u8]) -> Result<(), ContainerError> {
        let chunk = self.entries.len() as u64;
        let info = FrameInfo::peek(frame).map_err(|source| ContainerError::Chunk { chunk, source })?;
        let full = self.header.chunk_shape();
        let behind_a_full_one = self.data_len == chunk * self.header.chunk_len() as u64;
        let fits = info.shape.layout == Layout::Compact
            && info.shape.dtype == full.dtype
            && (1..=full.count).contains(&info.shape.count);
        if !(fits && behind_a_full_one && info.frame_len() == frame.len()) {
            return Err(ContainerError::ChunkShape { chunk, found: info.shape });
        }
        self.data_len += info.shape.values_len() as u64;
        self.entries.push(Entry::of(&info));
        Ok(())
    }

    /// The bytes behind the last frame. `tail` is what the data have behind their last whole value.
    ///
    /// # Errors
    /// [`ContainerError::Padding`] if the tail is as long as a value.
    pub fn finish(self, tail: &[u8]) -> Result<Vec<u8>, ContainerError> {
        if tail.len() >= self.header.dtype.width() {
            return Err(ContainerError::Padding { part: "index" });
        }
        Ok(self.index(Tail::new(tail)))
    }

    /// Index and end.
    pub(super) fn index(&self, tail: Tail) -> Vec<u8> {
        let mut index = tail.to_bytes().to_vec();
        let mut sum = Sum::default();
        for (chunk, entry) in (0..).zip(&self.entries) {
            sum.add_entry(chunk, *entry);
            index.extend(entry.to_bytes());
        }
        let foot = Foot {
            chunks: self.entries.len() as u64,
            data_len: self.data_len + tail.as_bytes().len() as u64,
        };
        index.extend(foot.to_bytes(tail, sum));
        index
    }
}
