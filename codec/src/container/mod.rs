//! Containers: any number of bytes of one type as a stream of frames, with an index at the end.
//!
//! A [`Writer`] cuts what is written to it into chunks of equal length and encodes each as a frame; a [`Reader`] gives the
//! bytes back, front to end, from a stream that cannot seek; a [`SeekReader`] reads the index first and then decodes only the
//! chunks that are asked for. A [`ContainerBuilder`] and a [`ContainerIndex`] are for callers that code chunks themselves. Every byte is specified in `docs/format.md`.
//!
//! A container has no names and no shapes: it is a stream of bytes of one type. What is in it is for the file around it to
//! say.

mod format;
mod index;
mod reader;
mod writer;

pub use format::{CONTAINER_VERSION, MAX_CHUNK_VALUES};
pub use index::{ContainerBuilder, ContainerIndex};
pub use reader::{Reader, SeekReader};
pub use writer::{DEFAULT_CHUNK_VALUES, Writer, WriterOptions};

use std::io;

use crate::error::remedy_for_version;
use crate::{DecodeError, EncodeError, FrameShape};

/// Chunks that are worked on at once unless the caller says otherwise: one for each thread of the current rayon pool.
#[cfg(feature = "parallel")]
pub(super) fn default_chunks() -> usize {
    rayon::current_num_threads()
}

/// Chunks that are worked on at once unless the caller says otherwise.
#[cfg(not(feature = "parallel"))]
pub(super) fn default_chunks() -> usize {
    1
}

/// Does `work` on each item, on the threads of the current rayon pool.
#[cfg(feature = "parallel")]
pub(super) fn for_each<T: Send>(items: &mut [T], work: impl Fn(&mut T) + Send + Sync) {
    use rayon::prelude::*;

    match items {
        [only] => work(only),
        items => items.par_iter_mut().for_each(work),
    }
}

/// Does `work` on each item.
#[cfg(not(feature = "parallel"))]
pub(super) fn for_each<T: Send>(items: &mut [T], work: impl Fn(&mut T) + Send + Sync) {
    items.iter_mut().for_each(work);
}

/// A container that is damaged, cut, or none; or a use of one that cannot be.
///
/// [`std::io::Read`] and [`std::io::Write`] have errors of [`std::io::Error`], so that is what readers and writers give;
/// [`Self::of`] finds this one inside.
///
/// ```
/// use std::io::Read;
/// use zipwire_codec::{ContainerError, Reader};
///
/// let error = Reader::new(&b"no container at all"[..]).read_to_end(&mut Vec::new()).unwrap_err();
/// assert_eq!(ContainerError::of(&error), Some(&ContainerError::Magic { found: *b"no c" }));
/// ```
#[allow(missing_docs, reason = "fields are named by the messages")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ContainerError {
    /// The bytes are no container.
    #[error("not a zipwire container: it starts with `{found:02x?}`")]
    Magic { found: [u8; 4] },
    /// A container of another version of the format.
    #[error("the container has version `{found}` of the format; {}", remedy_for_version((*found).into(), crate::CONTAINER_VERSION.into()))]
    Version { found: u8 },
    /// The header is not the one that was written.
    #[error("the header's checksum is `{found:#010x}`, it says `{expected:#010x}`")]
    HeaderChecksum { expected: u32, found: u32 },
    /// A type that this version does not have.
    #[error("no type has tag `{tag}`")]
    UnknownDType { tag: u8 },
    /// Bytes that must be zero are not.
    #[error("bytes of the {part} that must be zero are not")]
    Padding {
        /// Header or index.
        part: &'static str,
    },
    /// Chunks of a length that there is not.
    #[error("chunks of `{found}` values are not possible")]
    ChunkValues { found: u64 },
    /// The container ends too early.
    #[error("the container ends inside its {part}")]
    Truncated {
        /// Header, chunk or index.
        part: &'static str,
    },
    /// There is neither a chunk nor the index where one of them must be.
    #[error("after `{chunks}` chunks there is neither a chunk nor the index, but `{found:02x?}`")]
    Marker {
        /// Number of chunks before.
        chunks: u64,
        found: [u8; 4],
    },
    /// A chunk of other values than can be in its place.
    #[error("chunk `{chunk}` is a frame of {found}")]
    ChunkShape {
        /// Number of the chunk, from 0.
        chunk: u64,
        found: FrameShape,
    },
    /// A chunk that the index says otherwise.
    #[error("chunk `{chunk}` is not the one of which the index knows length and checksum")]
    ChunkIndex {
        /// Number of the chunk, from 0.
        chunk: u64,
    },
    /// The frame of a chunk cannot be decoded.
    #[error("chunk `{chunk}`: {source}")]
    Chunk {
        /// Number of the chunk, from 0.
        chunk: u64,
        source: DecodeError,
    },
    /// The index is not the one that was written.
    #[error("the index' checksum is `{found:#010x}`, it says `{expected:#010x}`")]
    IndexChecksum { expected: u32, found: u32 },
    /// The index is not that of the chunks before it.
    #[error("the index is not that of the `{chunks}` chunks of the container")]
    IndexMismatch { chunks: u64 },
    /// Something follows the end.
    #[error("something follows the end of the container")]
    Trailing,
    /// The bytes of a range are not all there.
    #[error("bytes up to `{end}` were asked for, the container has `{len}`")]
    Range { end: u64, len: u64 },
    /// There is no memory for a chunk.
    #[error("there is no memory for `{bytes}` bytes")]
    OutOfMemory { bytes: usize },
    /// Values that the codec cannot encode.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// Reading or writing goes no further, because it failed before.
    #[error("an earlier read or write of this container failed")]
    Failed,
}

impl ContainerError {
    /// The error in what a reader or writer gave, if it is one of the container's and not one of the stream below.
    pub fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }

    /// Advice on what to do, in one line, where there is any.
    pub fn help(&self) -> Option<String> {
        match self {
            Self::Magic { .. } => {
                Some("containers are what `Writer` writes; a single frame is read by `decompress`".to_owned())
            }
            Self::ChunkValues { .. } => Some(format!("chunks have `1` to `{MAX_CHUNK_VALUES}` values")),
            Self::Truncated { .. } => Some("copy it again, or write it again and call `finish`".to_owned()),
            Self::Trailing => Some("where more follows, let `Read::take` end the container".to_owned()),
            Self::Chunk { source, .. } => source.help(),
            _ => None,
        }
    }
}

impl From<ContainerError> for io::Error {
    fn from(error: ContainerError) -> Self {
        let kind = match error {
            ContainerError::Truncated { .. } => io::ErrorKind::UnexpectedEof,
            ContainerError::OutOfMemory { .. }
            | ContainerError::Encode(EncodeError::OutOfMemory { .. })
            | ContainerError::Chunk { source: DecodeError::OutOfMemory { .. }, .. } => {
                io::ErrorKind::OutOfMemory
            }
            ContainerError::Encode(_) | ContainerError::ChunkValues { .. } | ContainerError::Range { .. } => {
                io::ErrorKind::InvalidInput
            }
            ContainerError::Failed => io::ErrorKind::Other,
            _ => io::ErrorKind::InvalidData,
        };
        Self::new(kind, error)
    }
}
