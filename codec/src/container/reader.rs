//! A container back into bytes, front to end, or any part of it by its index.

use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;

use super::ContainerError;
use super::format::{
    CHUNK_MAGIC, ENTRY_LEN, Entry, FOOT_LEN, Foot, HEADER_LEN, Header, INDEX_MAGIC, Sum, Tail,
};
use super::index::ContainerIndex;
use crate::{
    DType, DecodeError, Decoder, FrameInfo, FrameShape, HEADER_LEN as FRAME_HEADER_LEN, Layout, codec,
};

/// Gives the bytes of a container, front to end, from a stream that need not seek.
///
/// Every byte comes from a frame whose checksum is right. Whether all frames are there, in their order, is known only at the
/// end: then the index is compared with the frames that were read, and nothing may follow it. Until a read has given
/// `Ok(0)`, the data may be incomplete; a container that is cut never gives that, but an error ([`ContainerError`]). After an
/// error, a reader fails for good.
///
/// Memory is bounded: a chunk and its frame for each thread of the current rayon pool (with the feature `parallel`; else one),
/// each of at most [`crate::MAX_CHUNK_VALUES`] values, whatever the bytes are. [`Self::with_decoder`] sets another limit.
#[derive(Debug)]
pub struct Reader<R> {
    inner: R,
    decoder: Decoder,
    chunks_at_once: usize,
    /// Once it is read.
    header: Option<Header>,
    slots: Vec<Slot>,
    /// The slots that have values to give, and how much of the first of them was given.
    ready: std::ops::Range<usize>,
    given: usize,
    /// Chunks that were read, and the sum of their entries.
    chunks: u64,
    sum: Sum,
    data_len: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    /// More chunks may follow.
    Chunks,
    /// A chunk was not full: the index must follow.
    LastChunk,
    /// All is read but what is ready; the tail is still to be given.
    Tail(Tail, usize),
    /// The bytes decoded so far are good; then comes this error.
    Broken(Option<io::Error>),
}

/// A frame and its values.
#[derive(Debug, Default)]
struct Slot {
    frame: Vec<u8>,
    values: Vec<u8>,
    /// How much of the values is the chunk's.
    len: usize,
    result: Option<DecodeError>,
}

impl<R: Read> Reader<R> {
    /// The data of the container that begins where `inner` is. Nothing is read yet.
    pub fn new(inner: R) -> Self {
        Self::with_decoder(inner, Decoder::new())
    }

    /// The same, with the tables and the limit of a decoder: the limit is for each chunk.
    pub fn with_decoder(inner: R, decoder: Decoder) -> Self {
        Self {
            inner,
            decoder,
            chunks_at_once: super::default_chunks(),
            header: None,
            slots: Vec::new(),
            ready: 0..0,
            given: 0,
            chunks: 0,
            sum: Sum::default(),
            data_len: 0,
            state: State::Chunks,
        }
    }

    /// How many chunks are kept and decoded at once, at least 1: what memory is taken for.
    #[must_use]
    pub fn chunks_at_once(mut self, chunks: usize) -> Self {
        self.chunks_at_once = chunks.max(1);
        self
    }

    /// Type of the values; reads the header if it was not read yet.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn dtype(&mut self) -> io::Result<DType> {
        match self.header() {
            Ok(header) => Ok(header.dtype),
            Err(error) => {
                self.state = State::Broken(None);
                Err(error)
            }
        }
    }

    fn header(&mut self) -> io::Result<Header> {
        if let Some(header) = self.header {
            return Ok(header);
        }
        let header = Header::read(&read_array::<HEADER_LEN>(&mut self.inner, "header")?)?;
        self.header = Some(header);
        Ok(header)
    }

    /// Reads and decodes the next chunks, up to the index if it comes.
    fn fill(&mut self) {
        (self.ready, self.given) = (0..0, 0);
        let mut read = 0;
        while read < self.chunks_at_once && matches!(self.state, State::Chunks | State::LastChunk) {
            match self.next(read) {
                Ok(is_chunk) => read += usize::from(is_chunk),
                Err(error) => self.state = State::Broken(Some(error)),
            }
        }
        let decoder = &self.decoder;
        super::for_each(&mut self.slots[..read], |slot| slot.decode(decoder));
        self.ready = 0..read;
        let first = self.chunks - read as u64;
        for (chunk, (number, slot)) in (first..).zip(self.slots[..read].iter_mut().enumerate()) {
            if let Some(source) = slot.result.take() {
                self.ready = 0..number;
                self.state = State::Broken(Some(ContainerError::Chunk { chunk, source }.into()));
                break;
            }
        }
    }

    /// Reads a frame into the slot, or the index; says whether it was a frame.
    fn next(&mut self, slot: usize) -> io::Result<bool> {
        let header = self.header()?;
        let found = read_array::<4>(&mut self.inner, "chunks")?;
        if found == INDEX_MAGIC {
            self.read_index(header)?;
            return Ok(false);
        }
        if found != CHUNK_MAGIC || matches!(self.state, State::LastChunk) {
            return Err(ContainerError::Marker { chunks: self.chunks, found }.into());
        }
        let mut start = [0; FRAME_HEADER_LEN];
        start[..4].copy_from_slice(&found);
        read_into(&mut self.inner, &mut start[4..], "chunks")?;
        let chunk = self.chunks;
        let info = FrameInfo::peek(&start).map_err(|source| ContainerError::Chunk { chunk, source })?;
        let shape = info.shape;
        let fits = (1..=header.chunk_shape().count).contains(&shape.count);
        if shape.layout != Layout::Compact || shape.dtype != header.dtype || !fits {
            return Err(ContainerError::ChunkShape { chunk, found: shape }.into());
        }
        if slot == self.slots.len() {
            self.slots.push(Slot::default());
        }
        let frame = &mut self.slots[slot].frame;
        frame.clear();
        frame.extend_from_slice(&start);
        // Memory grows with what is there, not with what a header says.
        let left = info.frame_len() - start.len();
        if self.inner.by_ref().take(left as u64).read_to_end(frame)? < left {
            return Err(ContainerError::Truncated { part: "chunks" }.into());
        }
        if shape.count < header.chunk_shape().count {
            self.state = State::LastChunk;
        }
        self.sum.add_entry(chunk, Entry::of(&info));
        self.chunks += 1;
        self.data_len += shape.values_len() as u64;
        Ok(true)
    }

    /// Reads the index, which must be that of the frames that were read, and the end of the stream behind it.
    fn read_index(&mut self, header: Header) -> io::Result<()> {
        let tail = Tail::read(read_array(&mut self.inner, "index")?, header.dtype)?;
        let mut sum = Sum::default();
        for chunk in 0..self.chunks {
            let entry = read_array::<ENTRY_LEN>(&mut self.inner, "index")?;
            sum.add_entry(chunk, Entry::from_bytes(entry));
        }
        let foot = Foot::read(&read_array::<FOOT_LEN>(&mut self.inner, "index")?, header, tail, sum)?;
        let data_len = self.data_len + tail.as_bytes().len() as u64;
        if sum != self.sum || foot != (Foot { chunks: self.chunks, data_len }) {
            return Err(ContainerError::IndexMismatch { chunks: self.chunks }.into());
        }
        if self.inner.by_ref().take(1).read_to_end(&mut Vec::new())? > 0 {
            return Err(ContainerError::Trailing.into());
        }
        self.state = State::Tail(tail, 0);
        Ok(())
    }
}

impl<R: Read> Read for Reader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        loop {
            if let Some(slot) = self.slots[self.ready.clone()].first() {
                let left = &slot.values[self.given..slot.len];
                let len = give(left, out);
                self.given += len;
                if self.given == slot.len {
                    (self.ready.start, self.given) = (self.ready.start + 1, 0);
                }
                return Ok(len);
            }
            match &mut self.state {
                State::Chunks | State::LastChunk => self.fill(),
                State::Tail(tail, given) => {
                    let len = give(&tail.as_bytes()[*given..], out);
                    *given += len;
                    return Ok(len);
                }
                State::Broken(error) => return Err(error.take().unwrap_or(ContainerError::Failed.into())),
            }
        }
    }
}

impl Slot {
    fn decode(&mut self, decoder: &Decoder) {
        self.result = self.try_decode(decoder).err();
    }

    fn try_decode(&mut self, decoder: &Decoder) -> Result<(), DecodeError> {
        let bytes = FrameInfo::peek(&self.frame)?.shape.values_len();
        if self.values.len() < bytes {
            decoder.check_limit(bytes)?;
            self.values = codec::zeroed(bytes).ok_or(DecodeError::OutOfMemory { bytes })?;
        }
        self.len = decoder.decompress_into(&self.frame, &mut self.values)?;
        Ok(())
    }
}

/// Copies what there is room for; returns how much that is.
fn give(from: &[u8], out: &mut [u8]) -> usize {
    let len = from.len().min(out.len());
    out[..len].copy_from_slice(&from[..len]);
    len
}

/// So many bytes; `part` says what is cut if they are not there.
pub(super) fn read_array<const N: usize>(inner: &mut impl Read, part: &'static str) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    read_into(inner, &mut bytes, part)?;
    Ok(bytes)
}

/// Fills `out` from the stream; `part` names the part of the container for the error if the stream ends before.
fn read_into(inner: &mut impl Read, out: &mut [u8], part: &'static str) -> io::Result<()> {
    inner.read_exact(out).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => ContainerError::Truncated { part }.into(),
        _ => error,
    })
}

/// Gives any part of a container, and decodes only the chunks that it is in.
///
/// The container is all that `R` has; bytes in memory are one in a [`std::io::Cursor`]. The index is read and checked first,
/// so a container that is cut is an error before anything is decoded. Memory is bounded: 8 bytes for each chunk, the frames
/// that are decoded at once, one for each thread of the current rayon pool (with the feature `parallel`; else one), and the
/// values of one chunk, which are kept: reads of neighbouring bytes decode it once.
///
/// ```
/// use std::io::{Cursor, Write};
/// use zipwire_codec::{DType, SeekReader, WriterOptions};
///
/// let mut writer = WriterOptions::new(DType::Bf16).chunk_values(1 << 10).open(Vec::new())?;
/// let values: Vec<u8> = (0..20_000u16).flat_map(|i| (0x3c00 + i % 700).to_le_bytes()).collect();
/// writer.write_all(&values)?;
///
/// let mut reader = SeekReader::new(Cursor::new(writer.finish()?))?;
/// assert_eq!(reader.len(), 40_000);
/// assert_eq!(reader.read_range(30_001..30_777)?, values[30_001..30_777]);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct SeekReader<R> {
    inner: R,
    decoder: Decoder,
    index: ContainerIndex,
    /// Number and values of the chunk that was decoded last in part.
    kept: Option<(usize, Vec<u8>)>,
    /// Frames that are decoded at once.
    frames: Vec<Vec<u8>>,
    position: u64,
}

impl<R: Read + Seek> SeekReader<R> {
    /// Reads the index.
    ///
    /// # Errors
    /// If there is no whole container, or its index is not the one that was written.
    pub fn new(inner: R) -> io::Result<Self> {
        Self::with_decoder(inner, Decoder::new())
    }

    /// The same, with the tables and the limit of a decoder: the limit is for each chunk.
    ///
    /// # Errors
    /// Errors of [`Self::new`].
    pub fn with_decoder(mut inner: R, decoder: Decoder) -> io::Result<Self> {
        let index = ContainerIndex::read(&mut inner)?;
        Ok(Self { inner, decoder, index, kept: None, frames: Vec::new(), position: 0 })
    }

    /// Type of the values.
    pub fn dtype(&self) -> DType {
        self.index.dtype()
    }

    /// Bytes of the data.
    pub fn len(&self) -> u64 {
        self.index.len()
    }

    /// Whether there is no data.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Values of every chunk but the last: ranges that begin and end at multiples of it decode nothing in vain.
    pub fn chunk_values(&self) -> u32 {
        self.index.chunk_values()
    }

    /// The bytes of a range.
    ///
    /// # Errors
    /// Errors of [`Self::read_at`], and if there is no memory for them.
    pub fn read_range(&mut self, range: Range<u64>) -> io::Result<Vec<u8>> {
        let len = range.end.saturating_sub(range.start);
        self.check_end(range.start.saturating_add(len))?;
        let bytes = usize::try_from(len).unwrap_or(usize::MAX);
        let mut out = codec::zeroed(bytes).ok_or(ContainerError::OutOfMemory { bytes })?;
        self.read_at(range.start, &mut out)?;
        Ok(out)
    }

    /// Fills `out` with the bytes from `start` on. Where [`Read`] reads on does not change.
    ///
    /// # Errors
    /// [`ContainerError::Range`] if the data ends before; if a chunk cannot be read, or is not the one that the index knows.
    /// `out` then holds unspecified bytes.
    pub fn read_at(&mut self, start: u64, out: &mut [u8]) -> io::Result<()> {
        self.check_end(start.saturating_add(out.len() as u64))?;
        let values_len = self.len() - self.index.tail().len() as u64;
        let in_values = values_len.saturating_sub(start).min(out.len() as u64) as usize;
        let (mut out, tail) = out.split_at_mut(in_values);
        if !tail.is_empty() {
            let at = (start + in_values as u64 - values_len) as usize;
            tail.copy_from_slice(&self.index.tail()[at..at + tail.len()]);
        }
        let chunk_len = self.index.header.chunk_len();
        let mut chunk = usize::try_from(start / chunk_len as u64).map_err(io::Error::other)?;
        let mut skip = (start % chunk_len as u64) as usize;
        while !out.is_empty() {
            let whole = if skip == 0 { self.whole_chunks(chunk, out.len()) } else { 0 };
            let len = if whole == 0 {
                let values = self.keep(chunk)?;
                let len = out.len().min(values.len() - skip);
                out[..len].copy_from_slice(&values[skip..skip + len]);
                (skip, chunk) = (0, chunk + 1);
                len
            } else {
                let len = out.len().min(whole * chunk_len);
                self.decode_whole(chunk, &mut out[..len])?;
                chunk += whole;
                len
            };
            out = &mut out[len..];
        }
        Ok(())
    }

    fn check_end(&self, end: u64) -> Result<(), ContainerError> {
        let len = self.len();
        if end > len { Err(ContainerError::Range { end, len }) } else { Ok(()) }
    }

    /// How many chunks from this one on fill `len` bytes and have nothing else, at most as many as are decoded at once.
    fn whole_chunks(&self, chunk: usize, len: usize) -> usize {
        let full = len / self.index.header.chunk_len();
        let is_end = self
            .index
            .shape(chunk + full)
            .is_some_and(|shape| shape.values_len() == len % self.index.header.chunk_len());
        (full + usize::from(is_end)).min(super::default_chunks())
    }

    /// The values of a chunk, which are kept.
    fn keep(&mut self, chunk: usize) -> io::Result<&[u8]> {
        let mut values = match self.kept.take() {
            Some((kept, values)) if kept == chunk => return Ok(&self.kept.insert((chunk, values)).1),
            other => other.map_or_else(Vec::new, |(_, values)| values),
        };
        let bytes = self.index.shape(chunk).map_or(0, FrameShape::values_len);
        if values.len() != bytes {
            self.decoder.check_limit(bytes).map_err(|source| at(chunk, source))?;
            values = codec::zeroed(bytes).ok_or(ContainerError::OutOfMemory { bytes })?;
        }
        self.decode_whole(chunk, &mut values)?;
        Ok(&self.kept.insert((chunk, values)).1)
    }

    /// Decodes chunks from this one on, all of whose values are `out`.
    fn decode_whole(&mut self, first: usize, out: &mut [u8]) -> io::Result<()> {
        let parts = out.chunks_mut(self.index.header.chunk_len());
        let count = parts.len();
        if self.frames.len() < count {
            self.frames.resize_with(count, Vec::new);
        }
        for number in 0..count {
            self.read_frame(first + number, number)?;
        }
        let mut jobs: Vec<_> = parts.zip(&self.frames).map(|(out, frame)| (frame, out, Ok(0))).collect();
        let decoder = &self.decoder;
        super::for_each(&mut jobs, |(frame, out, result)| *result = decoder.decompress_into(frame, out));
        for (chunk, (_, _, result)) in (first..).zip(jobs) {
            result.map_err(|source| at(chunk, source))?;
        }
        Ok(())
    }

    /// Reads the frame of a chunk, which must be the one that the index knows.
    fn read_frame(&mut self, chunk: usize, slot: usize) -> io::Result<()> {
        let place = self.index.frame(chunk);
        let frame = &mut self.frames[slot];
        frame.clear();
        self.inner.seek(SeekFrom::Start(place.start))?;
        let frame_len = place.end - place.start;
        let len = self.inner.by_ref().take(frame_len).read_to_end(frame)?;
        if (len as u64) < frame_len {
            return Err(ContainerError::Truncated { part: "chunks" }.into());
        }
        Ok(self.index.check(chunk, frame)?)
    }
}

/// The error of a chunk.
fn at(chunk: usize, source: DecodeError) -> ContainerError {
    ContainerError::Chunk { chunk: chunk as u64, source }
}

impl<R: Read + Seek> Read for SeekReader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        // No further than the end of the chunk, so that small buffers and large ones decode no chunk twice.
        let chunk_len = self.index.header.chunk_len() as u64;
        let in_chunk = (self.position % chunk_len) as usize;
        let most = match out.len() / self.index.header.chunk_len() {
            chunks if in_chunk > 0 || chunks == 0 => self.index.header.chunk_len() - in_chunk,
            chunks => chunks * self.index.header.chunk_len(),
        };
        let left = self.len().saturating_sub(self.position);
        let len = out.len().min(most).min(usize::try_from(left).unwrap_or(usize::MAX));
        self.read_at(self.position.min(self.len()), &mut out[..len])?;
        self.position += len as u64;
        Ok(len)
    }
}

impl<R: Read + Seek> Seek for SeekReader<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let target = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.len().checked_add_signed(by),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
        };
        let before = "a position before the start";
        self.position = target.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, before))?;
        Ok(self.position)
    }
}
