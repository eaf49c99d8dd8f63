//! Index of a container: places and lengths of its chunks; and header and index around frames that callers make.

use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;

use super::ContainerError;
use super::format::{ENTRY_LEN, Entry, FOOT_LEN, Foot, HEAD_LEN, HEADER_LEN, Header, INDEX_MAGIC, Sum, Tail};
use super::reader::read_array;
use crate::{DType, FrameInfo, FrameShape, HEADER_LEN as FRAME_HEADER_LEN, Layout};

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

    /// Index of the frames that are there, without a look at the one behind them: for a container whose end is cut or damaged. Chunks are those up to the
    /// first place where no whole frame of the container is. Damage of the header does no harm if there are frames.
    ///
    /// # Errors
    /// If not even the header is there, and if the system refuses something.
    pub fn scan<R: Read + Seek>(inner: &mut R) -> io::Result<Self> {
        let container_len = inner.seek(SeekFrom::End(0))?;
        let mut peek = |at: u64| {
            let left = container_len.saturating_sub(at).min(FRAME_HEADER_LEN as u64);
            let mut front = vec![0; left as usize];
            inner.seek(SeekFrom::Start(at))?;
            inner.read_exact(&mut front)?;
            let info = FrameInfo::peek(&front).ok();
            let fits = |info: &FrameInfo| info.frame_len() as u64 <= container_len - at;
            Ok::<_, io::Error>((info.filter(fits), front))
        };
        let (first, _) = peek(HEADER_LEN as u64)?;
        let truncated = ContainerError::Truncated { part: "header" };
        let header = peek(0)?.1.first_chunk().map_or(Err(truncated), Header::read);
        let header = match (header, first) {
            (Err(_), Some(info)) => Header::new(info.shape.dtype, info.shape.count as u64)?,
            (header, _) => header?,
        };
        let (full, mut at) = (header.chunk_shape(), HEADER_LEN as u64);
        let (mut chunks, mut data_len) = (Vec::new(), 0);
        while let (Some(info), _) = peek(at)? {
            let is_behind_full = data_len == chunks.len() as u64 * header.chunk_len() as u64;
            let count = info.shape.count;
            if info.shape != (FrameShape { count, ..full })
                || !(1..=full.count).contains(&count)
                || !is_behind_full
            {
                break;
            }
            chunks.push((at, Entry::of(&info)));
            data_len += info.shape.values_len() as u64;
            at += info.frame_len() as u64;
        }
        let foot = Foot { chunks: chunks.len() as u64, data_len };
        Ok(Self { header, tail: Tail::new(&[]), foot, chunks })
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

/// Makes header and index of a container around frames that its caller makes: for callers that encode chunks in an order of their own,
/// with a codec for each, or writes them where [`Writer`](crate::Writer) cannot.
///
/// ```
/// use std::io::Read;
/// use zipwire_codec::{Codec, ContainerBuilder, DType, Layout, Rans, Raw, Reader};
///
/// let mut builder = ContainerBuilder::new(DType::Bf16, 1000)?;
/// let mut container = builder.header().to_vec();
/// for frame in [Rans::new().encode_to_vec(Layout::Compact, DType::Bf16, &[1; 2000])?, Raw.encode_to_vec(Layout::Compact, DType::Bf16, &[2; 500])?] {
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

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write};

    use super::*;
    use crate::{WriterOptions, decompress};

    /// Wherever a container is cut, and if its header or its index is damaged, the frames that are there are found.
    #[test]
    fn frames_are_found_without_the_index() {
        let data: Vec<u8> = (0..5000_u32).flat_map(|i| (0x3f00 + i as u16 % 97).to_le_bytes()).collect();
        let mut writer = WriterOptions::new(DType::Bf16).chunk_values(1 << 10).open(Vec::new()).unwrap();
        writer.write_all(&data).unwrap();
        let container = writer.finish().unwrap();
        let index = ContainerIndex::read(&mut Cursor::new(&container)).unwrap();
        let ends: Vec<usize> = (0..5).map(|chunk| index.frame(chunk).end as usize).collect();
        // Miri takes minutes for all lengths.
        let each = if cfg!(miri) { 997 } else { 1 };
        for len in (0..=container.len()).step_by(each) {
            let found = ContainerIndex::scan(&mut Cursor::new(&container[..len]));
            let Ok(found) = found else {
                assert!(len < 16, "{len}");
                continue;
            };
            let count = ends.iter().filter(|end| **end <= len).count();
            assert_eq!(found.chunk_count(), count, "{len}");
            for chunk in 0..count {
                assert_eq!((found.frame(chunk), found.data(chunk)), (index.frame(chunk), index.data(chunk)));
            }
        }
        for at in [0, 5, 9, 14, ends[4] + 3, container.len() - 1] {
            let mut damaged = container.clone();
            damaged[at] ^= 1;
            let found = ContainerIndex::scan(&mut Cursor::new(&damaged)).unwrap();
            assert_eq!((found.chunk_count(), found.len(), found.dtype()), (5, 10_000, DType::Bf16), "{at}");
        }
        // What is behind a frame that is none is not found.
        let mut damaged = container;
        damaged[ends[1]] ^= 1;
        let found = ContainerIndex::scan(&mut Cursor::new(&damaged)).unwrap();
        let place = found.frame(1);
        let frame = &damaged[place.start as usize..place.end as usize];
        assert_eq!((found.chunk_count(), decompress(frame).unwrap()), (2, data[2048..4096].to_vec()));
    }
}
