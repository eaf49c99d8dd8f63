//! Containers of frames in files: the chunks of one are read in any part, whether it is a tensor of a file or a file by itself.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use zipwire_codec::{Base, ContainerIndex, Decoder};

use crate::file::bases::Bases;
use crate::file::digest::PIECE;
use crate::file::header::TensorInfo;
use crate::file::output::{Output, Sources};
use crate::file::restore::{Damage, Losses};
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
    /// The files that differences are taken from, if there are any.
    pub(crate) bases: Option<&'a Bases>,
    /// The tensors whose values they have; none of a container by itself.
    pub(crate) tensors: &'a [TensorInfo],
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

    /// Fills `out` with the values from the byte `start` on, but for chunks that are damaged or not there: these are left as they are. Gives where, from the
    /// beginning of `out` on, and why.
    pub(crate) fn salvage(&self, start: u64, out: &mut [u8]) -> Vec<(Range<usize>, FileError)> {
        let chunk_len = self.chunk_len() as u64;
        let end = start + out.len() as u64;
        let (mut lost, mut frame, mut values) = (Vec::new(), Vec::new(), Vec::new());
        for chunk in start / chunk_len..end.div_ceil(chunk_len) {
            let wanted = start.max(chunk * chunk_len)..end.min((chunk + 1) * chunk_len);
            let to = (wanted.start - start) as usize..(wanted.end - start) as usize;
            let decoded = self.decode_one(chunk as usize, wanted.end, &mut frame, &mut values);
            match decoded {
                Ok(()) => {
                    let from = (wanted.start - chunk * chunk_len) as usize;
                    out[to.clone()].copy_from_slice(&values[from..from + to.len()]);
                }
                Err(error) => lost.push((to, error)),
            }
        }
        lost
    }

    /// Decodes a chunk, which has to reach up to `end`.
    fn decode_one(
        &self,
        chunk: usize,
        end: u64,
        frame: &mut Vec<u8>,
        values: &mut Vec<u8>,
    ) -> Result<(), FileError> {
        if chunk >= self.index.chunk_count() || self.index.data(chunk).end < end {
            let (path, what) = (self.path.to_owned(), format!("chunk {chunk} is not there"));
            return Err(FileError::Container { path, tensor: self.name_at(end), what });
        }
        let (place, data) = (self.index.frame(chunk), self.index.data(chunk));
        frame.resize((place.end - place.start) as usize, 0);
        values.resize((data.end - data.start) as usize, 0);
        at::read_exact(self.file, frame, self.at + place.start).map_err(FileError::io("read", self.path))?;
        self.decode_frame(chunk, frame, values)
    }

    /// Name of the tensor that has the value at this place; empty of a container by itself.
    fn name_at(&self, at: u64) -> String {
        let begin = self.tensors.first().map_or(0, |first| first.range.start);
        let number = self.tensors.partition_point(|tensor| tensor.range.end - begin <= at);
        let tensor = self.tensors.get(number).or(self.tensors.last());
        tensor.map_or_else(String::new, |tensor| tensor.name.clone())
    }

    fn decode_frame(&self, chunk: usize, frame: &[u8], out: &mut [u8]) -> Result<(), FileError> {
        let data = self.index.data(chunk);
        self.index.check(chunk, frame).map_err(|source| FileError::Tensor {
            path: self.path.to_owned(),
            tensor: self.name_at(data.start),
            source: Box::new(source),
        })?;
        let mut decoder = Decoder::new();
        // Where the base has other values, the frame does not name them.
        if let Some(bases) = self.bases
            && let Some(values) = bases.before(self.tensors, data.clone())?
        {
            decoder.add_base(Base::new(self.index.dtype(), values)).expect("it is the only one");
        }
        let decoded = decoder.decompress_into(frame, out);
        decoded.map(|_| ()).map_err(|source| FileError::Decode {
            path: self.path.to_owned(),
            tensor: self.name_at(data.start),
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
        None => {
            let (path, tensor) = (path.to_owned(), tensor.to_owned());
            FileError::Container { path, tensor, what: error.to_string() }
        }
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
    /// Whether the index is not the one at its end, but that of the frames which are there.
    is_cut: bool,
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
        let Some(len) = Self::begin(&file, path)? else { return Ok(None) };
        let index = read_index(&file, path, "", (0, len))?;
        Ok(Some(Self { path: path.to_owned(), file, index, is_cut: false }))
    }

    /// Like [`Self::open`], for a container whose end may be cut or damaged: for [`Self::salvage`].
    ///
    /// # Errors
    /// If it cannot be read, or not even its first chunk is there.
    pub fn open_cut(path: &Path) -> Result<Option<Self>, FileError> {
        let file = open_input(path).map_err(FileError::io("read", path))?;
        let Some(len) = Self::begin(&file, path)? else { return Ok(None) };
        let (index, is_cut) = match read_index(&file, path, "", (0, len)) {
            Ok(index) => (index, false),
            Err(error) => match ContainerIndex::scan(&mut at::Window::new(&file, 0, len)) {
                Ok(index) => (index, true),
                Err(_) => return Err(error),
            },
        };
        Ok(Some(Self { path: path.to_owned(), file, index, is_cut }))
    }

    /// Length of the file, if it begins as a container does.
    fn begin(file: &File, path: &Path) -> Result<Option<u64>, FileError> {
        zipwire_paper_codecs::register();
        let read = FileError::io("read", path);
        let len = file.metadata().map_err(&read)?.len();
        let mut magic = [0; MAGIC.len()];
        if len < magic.len() as u64 {
            return Ok(None);
        }
        at::read_exact(file, &mut magic, 0).map_err(&read)?;
        Ok((magic == MAGIC).then_some(len))
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
        let staged = self.output(output, force)?;
        self.restore_into(&staged, watch)?;
        staged.finish()
    }

    /// [`Self::restore`] into a file that its caller puts in its place.
    ///
    /// # Errors
    /// If the file is damaged, the system refuses something, or `watch` says to stop.
    pub fn restore_into(&self, output: &Output, watch: &Watch<'_>) -> Result<(), FileError> {
        self.write(output, watch, |range, values| self.read(range, values))
    }

    /// An output that is not the container.
    fn output(&self, output: &Path, force: bool) -> Result<Output, FileError> {
        Sources::of(&self.path, None)?.refuse_file(output)?;
        Output::like(output, force, &self.path)
    }

    /// Writes what can be read of it, and zeros in the place of chunks that are damaged. Gives these, in order.
    ///
    /// # Errors
    /// If the output is none ([`refuse_file`](crate::file::refuse_file)), the system refuses something, or `watch` says to stop.
    pub fn salvage(&self, output: &Path, force: bool, watch: &Watch<'_>) -> Result<Vec<Damage>, FileError> {
        let staged = self.output(output, force)?;
        let damage = self.salvage_into(&staged, watch)?;
        staged.finish()?;
        Ok(damage)
    }

    /// [`Self::salvage`] into a file that its caller puts in its place.
    ///
    /// # Errors
    /// If the system refuses something, or `watch` says to stop.
    pub fn salvage_into(&self, output: &Output, watch: &Watch<'_>) -> Result<Vec<Damage>, FileError> {
        let lost = Losses::default();
        self.write(output, watch, |range, values| {
            self.salvage_range(range, values, &lost);
            Ok(())
        })?;
        Ok(self.damage_of(lost))
    }

    /// Decodes all of it; frames have checksums over their values.
    ///
    /// # Errors
    /// If the file is damaged or cannot be read.
    pub fn verify(&self, watch: &Watch<'_>) -> Result<(), FileError> {
        self.each_piece(watch, |range, values| self.read(range, values))
    }

    /// Decodes all of it, and gives all that is damaged, in order.
    ///
    /// # Errors
    /// If `watch` says to stop.
    pub fn damage(&self, watch: &Watch<'_>) -> Result<Vec<Damage>, FileError> {
        let lost = Losses::default();
        self.each_piece(watch, |range, values| {
            self.salvage_range(range, values, &lost);
            Ok(())
        })?;
        Ok(self.damage_of(lost))
    }

    fn write(
        &self,
        output: &Output,
        watch: &Watch<'_>,
        read: impl Fn(Range<u64>, &mut [u8]) -> Result<(), FileError> + Sync,
    ) -> Result<(), FileError> {
        let write = |bytes: &[u8], at: u64| {
            at::write_all(output.file(), bytes, at).map_err(FileError::io("write", output.path()))
        };
        self.each_piece(watch, |range, values| {
            read(range.clone(), values)?;
            write(values, range.start)
        })?;
        write(self.index.tail(), self.bytes() - self.index.tail().len() as u64)
    }

    fn chunks(&self) -> Chunks<'_> {
        Chunks { file: &self.file, path: &self.path, bases: None, tensors: &[], index: &self.index, at: 0 }
    }

    fn read(&self, range: Range<u64>, values: &mut [u8]) -> Result<(), FileError> {
        self.chunks().read(range.start, values, 1)
    }

    fn salvage_range(&self, range: Range<u64>, values: &mut [u8], lost: &Losses) {
        values.fill(0);
        for (within, error) in self.chunks().salvage(range.start, values) {
            lost.add(0, range.start + within.start as u64..range.start + within.end as u64, &error);
        }
    }

    fn damage_of(&self, lost: Losses) -> Vec<Damage> {
        let cut = self.is_cut.then(|| Damage {
            tensor: None,
            ranges: Vec::new(),
            reason: "its end is not there or damaged, and how much that was is not known".to_owned(),
        });
        lost.named(|_| None).into_iter().chain(cut).collect()
    }

    /// Does something with the values of all chunks, in pieces of about a MiB.
    fn each_piece(
        &self,
        watch: &Watch<'_>,
        work: impl Fn(Range<u64>, &mut [u8]) -> Result<(), FileError> + Sync,
    ) -> Result<(), FileError> {
        let index = &self.index;
        let chunks_of_piece = (PIECE as usize / self.chunks().chunk_len()).max(1);
        watch.for_each(index.chunk_count().div_ceil(chunks_of_piece), |number, values| {
            let first = number * chunks_of_piece;
            let last = (first + chunks_of_piece).min(index.chunk_count()) - 1;
            let range = index.data(first).start..index.data(last).end;
            values.resize((range.end - range.start) as usize, 0);
            work(range, values)?;
            (watch.done)(values.len() as u64);
            Ok(())
        })
    }
}
