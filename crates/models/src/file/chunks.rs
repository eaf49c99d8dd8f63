//! The chunks of a container that is a part of a file.

use std::fs::File;
use std::path::Path;

use zipwire_codec::{Base, ContainerIndex, Decoder};

use crate::file::model::Model;
use crate::file::{FileError, at};

/// Chunks that are read at once, at the most.
const AT_ONCE: usize = 8;
/// Chunks that are worth a thread.
const PER_THREAD: usize = 4;

/// The chunks of a tensor, or of a container by itself.
pub(crate) struct Chunks<'a> {
    pub(crate) file: &'a File,
    pub(crate) path: &'a Path,
    /// What differences are taken from.
    pub(crate) base: Option<&'a Model>,
    /// Its name.
    pub(crate) tensor: &'a str,
    pub(crate) index: &'a ContainerIndex,
    /// Where the container begins in the file.
    pub(crate) at: u64,
}

impl Chunks<'_> {
    /// Bytes of the values of a chunk, but of the last one.
    pub(crate) fn chunk_len(&self) -> usize {
        self.index.chunk_values() as usize * self.index.dtype().width()
    }

    /// Fills `out` with the values from the byte `start` on, on at most so many threads.
    pub(crate) fn read(&self, start: u64, out: &mut [u8], threads: usize) -> Result<(), FileError> {
        let chunk_len = self.chunk_len();
        let mut chunk = (start / chunk_len as u64) as usize;
        let skip = (start % chunk_len as u64) as usize;
        let mut out = out;
        if skip > 0 && !out.is_empty() {
            let (front, rest) = out.split_at_mut(out.len().min(chunk_len - skip));
            self.decode_part(chunk, skip, front)?;
            (out, chunk) = (rest, chunk + 1);
        }
        // The last chunk is whole if it ends where `out` does.
        let mut whole = out.len() / chunk_len * chunk_len;
        let last = chunk + whole / chunk_len;
        if last < self.index.chunk_count() {
            let data = self.index.data(last);
            if data.end - data.start == (out.len() - whole) as u64 {
                whole = out.len();
            }
        }
        let (middle, back) = out.split_at_mut(whole);
        let chunks = middle.len().div_ceil(chunk_len);
        let share = chunks.div_ceil(threads.min(chunks / PER_THREAD).max(1));
        if share == chunks {
            self.decode(chunk, middle)?;
        } else {
            std::thread::scope(|scope| {
                let parts = (chunk..).step_by(share).zip(middle.chunks_mut(share * chunk_len));
                let threads: Vec<_> =
                    parts.map(|(first, out)| scope.spawn(move || self.decode(first, out))).collect();
                threads.into_iter().try_for_each(|thread| match thread.join() {
                    Ok(result) => result,
                    Err(panic) => std::panic::resume_unwind(panic),
                })
            })?;
        }
        if back.is_empty() { Ok(()) } else { self.decode_part(last, 0, back) }
    }

    /// Fills `out` with what a chunk has behind its first `skip` bytes.
    fn decode_part(&self, chunk: usize, skip: usize, out: &mut [u8]) -> Result<(), FileError> {
        let data = self.index.data(chunk);
        let mut values = vec![0; (data.end - data.start) as usize];
        self.decode(chunk, &mut values)?;
        out.copy_from_slice(&values[skip..skip + out.len()]);
        Ok(())
    }

    /// Fills `out` with all values of chunks from `first` on.
    pub(crate) fn decode(&self, first: usize, out: &mut [u8]) -> Result<(), FileError> {
        let mut frames = Vec::new();
        let parts = out.chunks_mut(self.chunk_len() * AT_ONCE);
        for (first, out) in (first..).step_by(AT_ONCE).zip(parts) {
            let values = out.chunks_mut(self.chunk_len());
            let begin = self.index.frame(first).start;
            let end = self.index.frame(first + values.len() - 1).end;
            frames.resize((end - begin) as usize, 0);
            at::read_exact(self.file, &mut frames, self.at + begin)
                .map_err(FileError::io("read", self.path))?;
            for (chunk, values) in (first..).zip(values) {
                let place = self.index.frame(chunk);
                let frame = &frames[(place.start - begin) as usize..(place.end - begin) as usize];
                self.decode_frame(chunk, frame, values)?;
            }
        }
        Ok(())
    }

    fn decode_frame(&self, chunk: usize, frame: &[u8], out: &mut [u8]) -> Result<(), FileError> {
        self.index.check(chunk, frame).map_err(|source| FileError::Tensor {
            path: self.path.to_owned(),
            tensor: self.tensor.to_owned(),
            source: Box::new(source),
        })?;
        let mut decoder = Decoder::new();
        if let Some(base) = self.base.filter(|base| base.tensor(self.tensor).is_ok()) {
            let data = self.index.data(chunk);
            // Where the base has other values, the frame does not name them.
            if base.tensor(self.tensor)?.bytes() >= data.end {
                let values = base.read_bytes(self.tensor, data)?;
                decoder.add_base(Base::new(self.index.dtype(), values)).expect("it is the only one");
            }
        }
        let decoded = decoder.decompress_into(frame, out);
        decoded.map(|_| ()).map_err(|source| FileError::Decode {
            path: self.path.to_owned(),
            tensor: self.tensor.to_owned(),
            chunk,
            source,
        })
    }
}

/// What a container says of its chunks: the bytes of a file from `start` on, `len` of them.
pub(crate) fn read_index(
    file: &File,
    path: &Path,
    tensor: &str,
    (start, len): (u64, u64),
) -> Result<ContainerIndex, FileError> {
    let mut window = at::Window::new(file, start, len);
    ContainerIndex::read(&mut window).map_err(|error| match error.raw_os_error() {
        Some(_) => FileError::io("read", path)(error),
        None => FileError::damaged(path, format!("{}{error}", in_tensor(tensor))),
    })
}

/// Where in a file an error is; containers by themselves have no names.
pub(crate) fn in_tensor(tensor: &str) -> String {
    if tensor.is_empty() { String::new() } else { format!("tensor `{tensor}`: ") }
}
