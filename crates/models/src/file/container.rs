//! Containers of frames in files: the chunks of one are read in any part, whether it is a tensor of a file or a file by itself.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use zipwire_codec::{Base, ContainerIndex, Decoder};

use crate::file::model::Model;
use crate::file::note::PIECE;
use crate::file::output::{Output, Sources};
use crate::file::watch::{lock, on_threads};
use crate::file::{FileError, Watch, at, open_input};

/// Chunks that are read at once, at the most.
const AT_ONCE: usize = 8;
/// Chunks that are worth a thread.
const PER_THREAD: usize = 4;

/// The chunks of a tensor, or of a container by itself.
pub(crate) struct Chunks<'a> {
    pub(crate) file: &'a File,
    pub(crate) path: &'a Path,
    /// The model that differences are taken from, if there is one.
    pub(crate) base: Option<&'a Model>,
    /// Name of the tensor; empty for a container by itself.
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
            let parts = Mutex::new((chunk..).step_by(share).zip(middle.chunks_mut(share * chunk_len)));
            let failed = Mutex::new(BTreeMap::new());
            on_threads(chunks.div_ceil(share), || {
                let next = || lock(&parts).next();
                while let Some((first, out)) = next() {
                    if let Err(error) = self.decode(first, out) {
                        lock(&failed).insert(first, error);
                    }
                }
            });
            // Whichever thread was early: the first one of the tensor.
            if let Some((_, error)) = failed.into_inner().unwrap_or_else(PoisonError::into_inner).pop_first()
            {
                return Err(error);
            }
        }
        if back.is_empty() { Ok(()) } else { self.decode_part(last, 0, back) }
    }

    /// Fills `out` with the values of a chunk after its first `skip` bytes.
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

/// Reads the index of the container in bytes `start..start + len` of a file.
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

/// Prefix of an error message that names the tensor; empty for containers by themselves.
pub(crate) fn in_tensor(tensor: &str) -> String {
    if tensor.is_empty() { String::new() } else { format!("tensor `{tensor}`: ") }
}

const MAGIC: [u8; 4] = *b"ZPWS";

/// A file that is a container by itself, as [`compress_values`](crate::file::compress_values) and [`zipwire_codec::Writer`] write them.
#[derive(Debug)]
pub struct Values {
    path: PathBuf,
    file: File,
    index: ContainerIndex,
}

impl Values {
    /// Opens a file and reads its index; `None` if the file begins as no container does.
    ///
    /// # Errors
    /// If it cannot be read, or is a container that is cut or damaged.
    pub fn open(path: &Path) -> Result<Option<Self>, FileError> {
        Self::of_file(open_input(path).map_err(FileError::io("read", path))?, path)
    }

    /// [`Self::open`] for a file that is open, which errors call `path`.
    ///
    /// # Errors
    /// Errors of [`Self::open`].
    pub fn of_file(file: File, path: &Path) -> Result<Option<Self>, FileError> {
        let read = FileError::io("read", path);
        let len = file.metadata().map_err(&read)?.len();
        let mut magic = [0; MAGIC.len()];
        if len < magic.len() as u64 {
            return Ok(None);
        }
        at::read_exact(&file, &mut magic, 0).map_err(&read)?;
        if magic != MAGIC {
            return Ok(None);
        }
        let index = read_index(&file, path, "", (0, len))?;
        Ok(Some(Self { path: path.to_owned(), file, index }))
    }

    /// Bytes of the values, with those after the last whole value.
    pub fn bytes(&self) -> u64 {
        self.index.len()
    }

    /// Writes what was compressed, byte for byte.
    ///
    /// # Errors
    /// If the file is damaged, the output is none ([`refuse_file`](crate::file::refuse_file)), the system refuses something, or `watch` says to stop. Then there is no new file.
    pub fn restore(&self, output: &Path, force: bool, watch: &Watch<'_>) -> Result<(), FileError> {
        Sources::of(&self.path, None)?.refuse_file(output)?;
        let staged = Output::like(output, force, &self.path)?;
        self.restore_into(&staged, watch)?;
        staged.finish()
    }

    /// [`Self::restore`] into a file that its caller puts in its place.
    ///
    /// # Errors
    /// If the file is damaged, the system refuses something, or `watch` says to stop.
    pub fn restore_into(&self, output: &Output, watch: &Watch<'_>) -> Result<(), FileError> {
        let write = |bytes: &[u8], at: u64| {
            at::write_all(output.file(), bytes, at).map_err(FileError::io("write", output.path()))
        };
        self.decode(watch, write)?;
        write(self.index.tail(), self.bytes() - self.index.tail().len() as u64)
    }

    /// Decodes all of it; frames have checksums over their values.
    ///
    /// # Errors
    /// If the file is damaged or cannot be read.
    pub fn verify(&self, watch: &Watch<'_>) -> Result<(), FileError> {
        self.decode(watch, |_, _| Ok(()))
    }

    /// Passes all values to `take`, in pieces, each with its offset.
    fn decode(
        &self,
        watch: &Watch<'_>,
        take: impl Fn(&[u8], u64) -> Result<(), FileError> + Sync,
    ) -> Result<(), FileError> {
        let Self { path, file, index } = self;
        let chunks = Chunks { file, path, base: None, tensor: "", index, at: 0 };
        let chunks_of_piece = (PIECE as usize / chunks.chunk_len()).max(1);
        watch.for_each(index.chunk_count().div_ceil(chunks_of_piece), |number, values| {
            let first = number * chunks_of_piece;
            let last = (first + chunks_of_piece).min(index.chunk_count()) - 1;
            let range = index.data(first).start..index.data(last).end;
            values.resize((range.end - range.start) as usize, 0);
            chunks.decode(first, values)?;
            take(values, range.start)?;
            (watch.done)(values.len() as u64);
            Ok(())
        })
    }
}
