//! Containers: any number of bytes of one type as a stream of frames, with an index at the end.
//!
//! A [`Writer`] cuts what is written to it into chunks of equal length and encodes each as a frame; a [`Reader`] gives the
//! bytes back, front to end, from a stream that cannot seek; a [`SeekReader`] reads the index first and then decodes only the
//! chunks that are asked for. A [`ContainerBuilder`] and a [`ContainerIndex`] are for callers that code chunks themselves. Every byte is specified in `docs/format.md`.
//!
//! A container has no names and no shapes: it is a stream of bytes of one type. What is in it is for the file around it to
//! say.

mod batch;
mod builder;
mod error;
mod format;
mod index;
mod reader;
mod seek;
mod writer;

pub use builder::ContainerBuilder;
pub use error::ContainerError;
pub use format::{CONTAINER_VERSION, MAX_CHUNK_VALUES};
pub use index::ContainerIndex;
pub use reader::Reader;
pub use seek::SeekReader;
pub use writer::{DEFAULT_CHUNK_VALUES, Writer, WriterOptions};
