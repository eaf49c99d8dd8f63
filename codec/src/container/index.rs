//! Index of a container: places and lengths of its chunks.

use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;

use super::ContainerError;
use super::format::{ENTRY_LEN, Entry, FOOT_LEN, Foot, HEAD_LEN, HEADER_LEN, Header, INDEX_MAGIC, Sum, Tail};
use super::reader::read_array;
use crate::{DType, FrameInfo, FrameShape};

/// Index of a container: for callers that read and decode chunks themselves, in any order or several at once, where
/// [`SeekReader`](crate::SeekReader) does not fit.
///
/// ```
/// use std::io::{Cursor, Write};
/// use zipwire_codec::{ContainerIndex, DType, WriterOptions, decompress};
///
/// let mut writer = WriterOptions::new(DType::Bf16).chunk_values(1 << 10).open(Vec::new())?;
/// writer.write_all(&[7; 5000])?;
/// let container = writer.finish()?;
///
/// let index = ContainerIndex::read(&mut Cursor::new(&container))?;
/// let place = index.frame(1);
/// let frame = &container[place.start as usize..place.end as usize];
/// index.check(1, frame)?;
/// assert_eq!((index.chunk_count(), index.data(1)), (3, 2048..4096));
/// assert_eq!(decompress(frame)?, [7; 2048]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ContainerIndex {
    pub(super) header: Header,
    pub(super) tail: Tail,
    pub(super) foot: Foot,
    /// Offset of each chunk, and the entry that it must agree with.
    chunks: Vec<(u64, Entry)>,
}

impl ContainerIndex {
    /// Reads header and index. The container is all that `inner` has.
    ///
    /// # Errors
    /// If there is no whole container, or its index is not the one that was written.
    pub fn read<R: Read + Seek>(inner: &mut R) -> io::Result<Self> {
        let container_len = inner.seek(SeekFrom::End(0))?;
        inner.seek(SeekFrom::Start(0))?;
        let header = Header::read(&read_array::<HEADER_LEN>(inner, "header")?)?;
        let truncated = || ContainerError::Truncated { part: "index" };
        let foot_at = container_len.checked_sub(FOOT_LEN as u64).ok_or_else(truncated)?;
        inner.seek(SeekFrom::Start(foot_at))?;
        let foot_bytes = read_array::<FOOT_LEN>(inner, "index")?;
        let chunks = Foot::peek(&foot_bytes)?.chunks;
        // Chunks are bounded by the length of the container, so that a wrong number takes no memory.
        let entries_at = chunks.checked_mul(ENTRY_LEN as u64).and_then(|len| foot_at.checked_sub(len));
        let index_at = entries_at.and_then(|at| at.checked_sub(HEAD_LEN as u64)).ok_or_else(truncated)?;
        inner.seek(SeekFrom::Start(index_at))?;
        let found = read_array::<4>(inner, "index")?;
        if found != INDEX_MAGIC {
            return Err(ContainerError::Marker { chunks, found }.into());
        }
        let tail = Tail::read(read_array(inner, "index")?, header.dtype)?;
        let (mut sum, mut at) = (Sum::default(), HEADER_LEN as u64);
        let mut places = Vec::new();
        let bytes = chunks as usize * size_of::<(u64, Entry)>();
        let no_memory = |_| io::Error::from(ContainerError::OutOfMemory { bytes });
        places.try_reserve_exact(chunks as usize).map_err(no_memory)?;
        let mut entries = io::BufReader::new(inner.take(chunks * ENTRY_LEN as u64));
        for chunk in 0..chunks {
            let entry = Entry::from_bytes(read_array(&mut entries, "index")?);
            sum.add_entry(chunk, entry);
            places.push((at, entry));
            at = at.saturating_add(entry.frame_len());
        }
        let foot = Foot::read(&foot_bytes, header, tail, sum)?;
        if at != index_at {
            return Err(ContainerError::IndexMismatch { chunks }.into());
        }
        Ok(Self { header, tail, foot, chunks: places })
    }

    /// Type of the values.
    pub fn dtype(&self) -> DType {
        self.header.dtype
    }

    /// Bytes of the data.
    pub fn len(&self) -> u64 {
        self.foot.data_len
    }

    /// Whether there is no data.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Values of every chunk but the last.
    pub fn chunk_values(&self) -> u32 {
        self.header.chunk_values
    }

    /// Number of chunks.
    pub fn chunk_count(&self) -> usize {
        self.chunks.len()
    }

    /// The bytes at the end of the data that are no whole value.
    pub fn tail(&self) -> &[u8] {
        self.tail.as_bytes()
    }

    /// Range of the frame of a chunk in the container.
    ///
    /// # Panics
    /// If there is no such chunk.
    pub fn frame(&self, chunk: usize) -> Range<u64> {
        let (start, entry) = self.chunks[chunk];
        start..start + entry.frame_len()
    }

    /// Range of the bytes of a chunk in the data.
    ///
    /// # Panics
    /// If there is no such chunk.
    pub fn data(&self, chunk: usize) -> Range<u64> {
        let start = chunk as u64 * self.header.chunk_len() as u64;
        let shape = self.shape(chunk).expect("there is a chunk of this number");
        start..start + shape.values_len() as u64
    }

    /// Whether a frame is the one that the index knows as this chunk.
    ///
    /// # Errors
    /// [`ContainerError::Chunk`] if it is no frame, [`ContainerError::ChunkShape`] or [`ContainerError::ChunkIndex`] if it is another one.
    ///
    /// # Panics
    /// If there is no such chunk.
    pub fn check(&self, chunk: usize, frame: &[u8]) -> Result<(), ContainerError> {
        let number = chunk as u64;
        let info =
            FrameInfo::peek(frame).map_err(|source| ContainerError::Chunk { chunk: number, source })?;
        if Some(info.shape) != self.shape(chunk) {
            return Err(ContainerError::ChunkShape { chunk: number, found: info.shape });
        }
        if Entry::of(&info) != self.chunks[chunk].1 {
            return Err(ContainerError::ChunkIndex { chunk: number });
        }
        Ok(())
    }

    /// Shape of the frame of the chunk with this number.
    pub(super) fn shape(&self, chunk: usize) -> Option<FrameShape> {
        let shape = self.header.chunk_shape();
        let before = (chunk as u64).checked_mul(shape.count as u64)?;
        let left = self.foot.values(self.header).checked_sub(before).filter(|left| *left > 0)?;
        Some(FrameShape { count: left.min(shape.count as u64) as usize, ..shape })
    }
}
