//! Containers: any number of bytes of one type as a stream of frames, with an index at the end.
//!
//! A [`Writer`] cuts what is written to it into chunks of equal length and encodes each as a frame; a [`Reader`] gives the
//! bytes back, front to end, from a stream that cannot seek; a [`SeekReader`] reads the index first and then decodes only the
//! chunks that are asked for. A [`ContainerBuilder`] and a [`ContainerIndex`] are for callers that code chunks themselves. Every byte is specified in `docs/format.md`.
//!
//! A container has no names and no shapes: it is a stream of bytes of one type. What is in it is for the file around it to
//! say.

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
