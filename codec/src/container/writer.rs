//! Bytes into a container.

use std::io::{self, Write};

use super::ContainerError;
use super::format::{Header, Tail};
use super::index::ContainerBuilder;
use crate::{Codec, DType, EncodeError, FrameShape, Layout, Tiered, codec};

/// Values of a chunk unless the caller says otherwise: 256 KiB of BF16.
///
/// A chunk of this length and its frame fit in a core's caches: longer chunks are slower, and save less than 0.02 % of the data
/// (`cargo run --release -p zipwire-codec --example chunks`; the table is in docs/format.md).
pub const DEFAULT_CHUNK_VALUES: u32 = 1 << 17;

/// How a [`Writer`] works, where the defaults are not what is wanted.
///
/// ```
/// use std::io::Write;
/// use zipwire_codec::{DType, Rans, WriterOptions};
///
/// let options = WriterOptions::new(DType::F32).codec(Rans::new()).chunk_values(1 << 16);
/// let mut writer = options.open(Vec::new())?;
/// writer.write_all(&[0; 1000])?;
/// assert!(writer.finish()?.len() < 200);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct WriterOptions {
    dtype: DType,
    codec: Box<dyn Codec>,
    chunk_values: u64,
    chunks_at_once: usize,
}

impl WriterOptions {
    /// [`Tiered`], chunks of [`DEFAULT_CHUNK_VALUES`], and with the feature `parallel` a chunk for each thread of the current
    /// rayon pool.
    pub fn new(dtype: DType) -> Self {
        let chunk_values = u64::from(DEFAULT_CHUNK_VALUES);
        Self { dtype, codec: Box::new(Tiered::new()), chunk_values, chunks_at_once: super::default_chunks() }
    }

    /// The codec of all chunks.
    #[must_use]
    pub fn codec(mut self, codec: impl Codec + 'static) -> Self {
        self.codec = Box::new(codec);
        self
    }

    /// Values of a chunk, 1 to [`crate::MAX_CHUNK_VALUES`]: what is decoded at least to read any of them, and what memory is
    /// taken for. Rows should divide it.
    #[must_use]
    pub fn chunk_values(mut self, values: u32) -> Self {
        self.chunk_values = u64::from(values);
        self
    }

    /// How many chunks are kept and encoded at once, at least 1: what memory is taken for, twice their length. The bytes that
    /// are written do not depend on it.
    #[must_use]
    pub fn chunks_at_once(mut self, chunks: usize) -> Self {
        self.chunks_at_once = chunks.max(1);
        self
    }

    /// The most bytes of a container of `len` bytes of data: 48, these, and for each chunk 8 and what a frame has beside its
    /// values. Saturates.
    ///
    /// # Errors
    /// Errors of [`Self::open`].
    pub fn bound(&self, len: u64) -> Result<u64, ContainerError> {
        let header = self.header()?;
        let most = |count| self.codec.bound(FrameShape { count, ..header.chunk_shape() }) as u64 + 8;
        let values = len / self.dtype.width() as u64;
        let (full, left) = (values / self.chunk_values, (values % self.chunk_values) as usize);
        let last = if left > 0 { most(left) } else { 0 };
        Ok(full.saturating_mul(most(header.chunk_shape().count)).saturating_add(last + 48))
    }

    /// A container at the end of `inner`. Nothing is written yet.
    ///
    /// # Errors
    /// [`ContainerError::Encode`] if the codec does not support the type, [`ContainerError::ChunkValues`].
    pub fn open<W: Write>(self, inner: W) -> Result<Writer<W>, ContainerError> {
        let header = self.header()?;
        Ok(Writer {
            inner,
            builder: ContainerBuilder::of(header),
            codec: self.codec,
            chunks_at_once: self.chunks_at_once,
            slots: Vec::new(),
            filled: 0,
            state: State::Fresh,
        })
    }

    fn header(&self) -> Result<Header, ContainerError> {
        if !self.codec.supports(self.dtype) {
            return Err(EncodeError::Unsupported { codec: self.codec.id(), dtype: self.dtype }.into());
        }
        Header::new(self.dtype, self.chunk_values)
    }
}

/// Compresses the bytes that are written to it into a container at the end of `W`.
///
/// The bytes are values of one type, little-endian; at the end some may be left that are no whole value. Memory is bounded:
/// [`WriterOptions::chunks_at_once`] chunks and their frames, and 8 bytes for each chunk for the index.
///
/// [`Self::finish`] must be called: without it there is no index, and readers say that the container is cut. A writer that
/// is dropped finishes nothing, as it could not say that this failed. [`Write::flush`] flushes `W`; values that do not fill a
/// chunk wait for others.
///
/// ```
/// use std::io::{Read, Write};
/// use zipwire_codec::{DType, Reader, Writer};
///
/// let mut writer = Writer::new(Vec::new(), DType::Bf16);
/// writer.write_all(b"any bytes, as many as there are")?;
/// let container = writer.finish()?;
///
/// let mut restored = Vec::new();
/// Reader::new(&container[..]).read_to_end(&mut restored)?;
/// assert_eq!(restored, b"any bytes, as many as there are");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "without `finish` a container is cut"]
pub struct Writer<W: Write> {
    inner: W,
    /// Knows the chunks that are written.
    builder: ContainerBuilder,
    codec: Box<dyn Codec>,
    chunks_at_once: usize,
    /// Chunks that are encoded at once: full ones that wait for the others, then the one that is filled.
    slots: Vec<Slot>,
    /// How many are full.
    filled: usize,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing is written.
    Fresh,
    /// The header is, and some chunks.
    Open,
    /// Something could not be written.
    Failed,
}

/// A chunk and its frame.
#[derive(Debug)]
struct Slot {
    /// Room for a full chunk.
    values: Vec<u8>,
    /// How much of it is filled.
    len: usize,
    /// The front of it, once it is encoded.
    frame: Vec<u8>,
    result: Result<usize, ContainerError>,
}

impl<W: Write> Writer<W> {
    /// A container of values of type `dtype` at the end of `inner`, with the defaults of [`WriterOptions`].
    pub fn new(inner: W, dtype: DType) -> Self {
        WriterOptions::new(dtype)
            .open(inner)
            .expect("the default codec has every type, and its chunks are possible")
    }

    /// Writes what is left and the index, flushes, and gives back what was written to.
    ///
    /// # Errors
    /// If something cannot be written, or could not before. The container is then cut, and readers fail.
    pub fn finish(mut self) -> io::Result<W> {
        let tail = self.guarded(|writer| {
            let width = writer.builder.header.dtype.width();
            let mut tail = Tail::default();
            if let Some(last) = writer.slots.get_mut(writer.filled) {
                let whole = last.len - last.len % width;
                tail = Tail::new(&last.values[whole..last.len]);
                last.len = whole;
            }
            writer.write_chunks()?;
            Ok(tail)
        })?;
        self.guarded(|writer| {
            writer.inner.write_all(&writer.builder.index(tail))?;
            writer.inner.flush()
        })?;
        Ok(self.inner)
    }

    /// The writer below.
    pub fn get_ref(&self) -> &W {
        &self.inner
    }

    /// Does what may fail once only: what comes after a failure would not be where the index says.
    fn guarded<T>(&mut self, work: impl FnOnce(&mut Self) -> io::Result<T>) -> io::Result<T> {
        if self.state == State::Failed {
            return Err(ContainerError::Failed.into());
        }
        let result = work(self);
        if result.is_err() {
            self.state = State::Failed;
        }
        result
    }

    /// Takes what fits into the chunk that is filled.
    fn take(&mut self, bytes: &[u8]) -> Result<usize, ContainerError> {
        let chunk_len = self.builder.header.chunk_len();
        if self.slots.len() == self.filled {
            let values = codec::zeroed(chunk_len).ok_or(ContainerError::OutOfMemory { bytes: chunk_len })?;
            self.slots.push(Slot { values, len: 0, frame: Vec::new(), result: Ok(0) });
        }
        let slot = &mut self.slots[self.filled];
        let len = bytes.len().min(chunk_len - slot.len);
        slot.values[slot.len..slot.len + len].copy_from_slice(&bytes[..len]);
        slot.len += len;
        self.filled += usize::from(slot.len == chunk_len);
        Ok(len)
    }

    /// Encodes and writes the chunks that wait, after the header if nothing was written yet.
    fn write_chunks(&mut self) -> io::Result<()> {
        let (codec, header) = (&*self.codec, self.builder.header);
        super::for_each(&mut self.slots, |slot| slot.encode(codec, header));
        if self.state == State::Fresh {
            self.inner.write_all(&header.to_bytes())?;
            self.state = State::Open;
        }
        self.filled = 0;
        for slot in self.slots.iter_mut().filter(|slot| slot.len > 0) {
            let frame = &slot.frame[..slot.result.clone()?];
            self.inner.write_all(frame)?;
            self.builder.push(frame)?;
            slot.len = 0;
        }
        Ok(())
    }
}

impl<W: Write> Write for Writer<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        self.guarded(|writer| {
            if writer.filled == writer.chunks_at_once {
                writer.write_chunks()?;
            }
            Ok(writer.take(bytes)?)
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.guarded(|writer| writer.inner.flush())
    }
}

impl Slot {
    /// Makes the frame of what it is filled with.
    fn encode(&mut self, codec: &dyn Codec, header: Header) {
        self.result = self.try_encode(codec, header);
    }

    fn try_encode(&mut self, codec: &dyn Codec, header: Header) -> Result<usize, ContainerError> {
        let FrameShape { dtype, .. } = header.chunk_shape();
        let bytes = codec.bound(FrameShape { count: self.len / dtype.width(), ..header.chunk_shape() });
        if self.frame.len() < bytes {
            self.frame = codec::zeroed(bytes).ok_or(ContainerError::OutOfMemory { bytes })?;
        }
        Ok(codec.encode(Layout::Compact, dtype, &self.values[..self.len], &mut [], &mut self.frame)?)
    }
}
