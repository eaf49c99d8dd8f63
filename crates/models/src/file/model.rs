//! Random access to a file of tensors, compressed or not, and the names that a mistyped one was probably meant to be.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::num::NonZero;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use zipwire_codec::{ContainerIndex, DEFAULT_CHUNK_VALUES};

use crate::file::bases::Bases;
use crate::file::container::{Chunks, read_index};
use crate::file::digest::{Digest, PIECE};
use crate::file::foreign::Foreign;
use crate::file::header::{self, Header, LENGTH_BYTES, LIMIT, TensorInfo};
use crate::file::layout::{Archive, Digests, Ending, Front, own_bytes};
use crate::file::part::{Container, Part, Piece, Segments, span};
use crate::file::{FileError, Stamp, Watch, at, buffer, open_input, v1};

/// Containers of several tensors whose values are kept in memory, for callers that read one tensor after the other.
const RECENT: usize = 4;

/// A safetensors file, compressed by [`compress`](crate::file::compress) or not: its tensors are those of the file that was compressed; of an archive,
/// coded members and the bytes between them. Reads the
/// headers and what is asked for, not the file; a part of a compressed tensor costs the chunks that it is in, and a small tensor the chunk that it
/// shares with others. It can be shared by threads.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let (plain, compressed) = (folder.path().join("m.safetensors"), folder.path().join("m.zw.safetensors"));
/// # let values: Vec<u8> = (0..20_000u32).flat_map(|i| (0x3c00 + i as u16 % 700).to_le_bytes()).collect();
/// # let view = safetensors::tensor::TensorView::new(safetensors::Dtype::BF16, vec![200, 100], &values)?;
/// # safetensors::serialize_to_file([("w", view)], None, &plain)?;
/// use zipwire_models::file::{Compression, Model, Watch, compress};
///
/// let compression = Compression { spec: "rans".parse()?, force: false, keep_trailing: false };
/// compress(&plain, &compressed, &compression, None, &Watch::default())?;
///
/// let model = Model::open(&compressed)?;
/// assert_eq!(model.tensor("w")?.shape, [200, 100]);
/// assert_eq!(model.read("w")?, values);
/// assert_eq!(model.read_rows("w", 20..30)?, values[4000..6000]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Model {
    path: PathBuf,
    /// `None` while it is closed.
    file: Mutex<Option<Arc<File>>>,
    stamp: Stamp,
    header: Header,
    parts: Vec<Part>,
    packed: Option<Packed>,
    bases: Option<Bases>,
    /// Digest of a file that is not compressed, once it was asked for.
    digest: OnceLock<String>,
    recent: Mutex<VecDeque<(usize, Arc<[u8]>)>>,
}

/// Facts of a compressed file about its original.
#[derive(Debug)]
struct Packed {
    digest: String,
    /// Digests of the files that tensors are differences from.
    base: Option<String>,
    archive: Option<Archive>,
    /// Digests of pieces; files of version 1 have none.
    digests: Option<Digests>,
}

impl Model {
    /// Opens a file and reads what it says of its tensors.
    ///
    /// # Errors
    /// If it cannot be read, is no safetensors file, or is compressed and damaged or of a later version.
    /// [`FileError::NoBase`] if it has differences from another file.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        Self::open_with(path, None)
    }

    /// Like [`Self::open`], for listing only: needs no base, and tensors that are differences cannot be read.
    ///
    /// # Errors
    /// Errors of [`Self::open`].
    pub fn list(path: &Path) -> Result<Self, FileError> {
        Self::begin(open_input(path).map_err(FileError::io("read", path))?, path, Ending::Whole)
    }

    /// Like [`Self::open`], for a file that may have differences from those of `bases` that have the digests which it names.
    ///
    /// # Errors
    /// Errors of [`Self::open`], and [`FileError::WrongBase`] or [`FileError::NoSuchBase`]: to know that, all of the base is read.
    pub fn open_with(path: &Path, bases: Option<Bases>) -> Result<Self, FileError> {
        Self::of_file(open_input(path).map_err(FileError::io("read", path))?, path, bases)
    }

    /// [`Self::open_with`] for a file that is open, which errors call `path`.
    ///
    /// # Errors
    /// Errors of [`Self::open_with`].
    pub fn of_file(file: File, path: &Path, bases: Option<Bases>) -> Result<Self, FileError> {
        Self::begin(file, path, Ending::Whole)?.based_on(bases)
    }

    /// Like [`Self::open_with`], for a compressed file that may have been cut behind what it says of its tensors: for
    /// [`salvage`](crate::file::salvage).
    ///
    /// # Errors
    /// Errors of [`Self::open_with`].
    pub fn open_cut(path: &Path, bases: Option<Bases>) -> Result<Self, FileError> {
        let file = open_input(path).map_err(FileError::io("read", path))?;
        Self::begin(file, path, Ending::Cut)?.based_on(bases)
    }

    fn begin(file: File, path: &Path, ending: Ending) -> Result<Self, FileError> {
        zipwire_paper_codecs::register();
        let stamp = Stamp::of(&file, path)?;
        let unfit = |source| match Foreign::of(&file) {
            Some(foreign) => foreign.refused(path),
            None => FileError::Header { path: path.to_owned(), source },
        };
        let front = header::front(&file).map_err(unfit)?;
        if header::is_compressed(&front) {
            let Front { note, header, parts, digests } =
                Front::read((&file, path), &front, stamp.bytes(), ending)?;
            let (digest, base, archive) = (note.digest, note.base, note.archive);
            let packed = Packed { digest, base, archive, digests: Some(digests) };
            return Ok(Self::of(path, file, stamp, header, parts, Some(packed)));
        }
        let end = front.len() as u64;
        let outer = Header::parse(front).map_err(unfit)?;
        let Some(note) = v1::Note::of(&outer, path)? else {
            if end > LENGTH_BYTES + LIMIT {
                return Err(unfit(header::too_long(end)));
            }
            Ending::Whole.check(path, stamp.bytes(), end.saturating_add(outer.data_len()))?;
            let all = 0..outer.tensors().len();
            let parts = if all.is_empty() { Vec::new() } else { vec![Part::new(all, end, None)] };
            return Ok(Self::of(path, file, stamp, outer, parts, None));
        };
        ending.check(path, stamp.bytes(), end.saturating_add(outer.data_len()))?;
        let (header, parts) = note.parts((&file, path), &outer)?;
        let packed = Packed { digest: note.digest, base: note.base, archive: note.archive, digests: None };
        Ok(Self::of(path, file, stamp, header, parts, Some(packed)))
    }

    fn of(
        path: &Path,
        file: File,
        stamp: Stamp,
        header: Header,
        parts: Vec<Part>,
        packed: Option<Packed>,
    ) -> Self {
        let (digest, recent) = (OnceLock::new(), Mutex::default());
        let file = Mutex::new(Some(Arc::new(file)));
        Self { path: path.to_owned(), file, stamp, header, parts, packed, bases: None, digest, recent }
    }

    /// The model with those of the bases that it needs, if it needs any.
    fn based_on(self, bases: Option<Bases>) -> Result<Self, FileError> {
        let Some(needed) = self.packed.as_ref().and_then(|packed| packed.base.as_ref()) else {
            return Ok(self);
        };
        let Some(bases) = bases else {
            return Err(FileError::NoBase { path: self.path.clone(), digest: needed.clone() });
        };
        let bases = Some(bases.named(needed, &self.path, &self.header)?);
        Ok(Self { bases, ..self })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Closes the file until something is read of it: for callers that hold many models, as a process has only so many files open. Then the file has to be at
    /// its path, as it was.
    pub fn close(&self) {
        self.file.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// The file, which is opened again if it was closed.
    fn file(&self) -> Result<Arc<File>, FileError> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = &*file {
            return Ok(Arc::clone(file));
        }
        let opened = open_input(&self.path).map_err(FileError::io("read", &self.path))?;
        self.stamp.check(&opened, &self.path)?;
        Ok(Arc::clone(file.insert(Arc::new(opened))))
    }

    /// Fills `out` with the bytes of the file from `at` on.
    fn read_at(&self, out: &mut [u8], at: u64) -> Result<(), FileError> {
        at::read_exact(&*self.file()?, out, at).map_err(FileError::io("read", &self.path))
    }

    /// The files that it has differences from, if it was opened with them.
    pub(crate) fn bases(&self) -> Option<&Bases> {
        self.bases.as_ref()
    }

    /// Number of the tensor of this name.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.header.number(name)
    }

    /// Whether tensors are differences from another file.
    pub fn needs_base(&self) -> bool {
        self.packed.as_ref().is_some_and(|packed| packed.base.is_some())
    }

    /// Whether the file is compressed.
    pub fn is_compressed(&self) -> bool {
        self.packed.is_some()
    }

    /// Bytes of the file, or of the one that was compressed.
    pub fn bytes(&self) -> u64 {
        self.own_bytes().len() as u64 + self.header.data_len()
    }

    /// Bytes in front of the values, of the file or of the one that was compressed.
    pub(crate) fn own_bytes(&self) -> &[u8] {
        own_bytes(&self.header, self.packed.as_ref().and_then(|packed| packed.archive))
    }

    /// Metadata of the file: the texts under `__metadata__`.
    pub fn notes(&self) -> &HashMap<String, String> {
        self.header.notes()
    }

    /// All tensors, in the order of their values.
    pub fn tensors(&self) -> &[TensorInfo] {
        self.header.tensors()
    }

    /// Bytes that a tensor takes in the file; of those of a container that it shares with others, its part by its length.
    ///
    /// # Errors
    /// [`FileError::NoTensor`].
    pub fn bytes_kept(&self, name: &str) -> Result<u64, FileError> {
        let number = self.number(name)?;
        let (bytes, part) = (self.tensors()[number].bytes(), self.part_of(number));
        let Some(container) = &part.container else { return Ok(bytes) };
        let span = span(&self.tensors()[part.tensors.clone()]);
        let share =
            u128::from(container.len) * u128::from(bytes) / u128::from((span.end - span.start).max(1));
        Ok(if part.tensors.len() == 1 { container.len } else { share as u64 })
    }

    /// Index of the container of a tensor, within the bytes that [`Self::read_kept`] reads; `None` if the tensor is not coded, or shares a container
    /// with others. For callers that keep frames without decoding them.
    ///
    /// # Errors
    /// Errors of [`Self::read_bytes`].
    pub fn container(&self, name: &str) -> Result<Option<&ContainerIndex>, FileError> {
        let part = self.part_of(self.number(name)?);
        let container = part.container.as_ref().filter(|_| part.tensors.len() == 1);
        container.map(|container| self.index(part, container)).transpose()
    }

    /// Fills `out` with bytes of the container of a tensor, from `start` on, without decoding.
    ///
    /// # Errors
    /// Errors of [`Self::read_bytes`].
    ///
    /// # Panics
    /// If the tensor has no container of its own, or it has fewer bytes.
    pub fn read_kept(&self, name: &str, start: u64, out: &mut [u8]) -> Result<(), FileError> {
        let part = self.part_of(self.number(name)?);
        let len = part.container.as_ref().filter(|_| part.tensors.len() == 1).map_or(0, |own| own.len);
        let end = start.saturating_add(out.len() as u64);
        assert!(end <= len, "`{name}` has no container with bytes {start} to {end}");
        self.read_at(out, part.at + start)
    }

    /// A tensor by its name.
    ///
    /// # Errors
    /// [`FileError::NoTensor`], with names that are alike.
    pub fn tensor(&self, name: &str) -> Result<&TensorInfo, FileError> {
        Ok(&self.tensors()[self.number(name)?])
    }

    fn number(&self, name: &str) -> Result<usize, FileError> {
        self.find(name).ok_or_else(|| {
            let names = self.tensors().iter().map(|tensor| tensor.name.clone()).collect();
            let (path, tensor) = (self.path.clone(), name.to_owned());
            FileError::NoTensor { path, tensor, nearest: nearest_names(name, names) }
        })
    }

    fn part_of(&self, number: usize) -> &Part {
        &self.parts[self.parts.partition_point(|part| part.tensors.end <= number)]
    }

    /// Digest of the file, or of the one that was compressed: 32 hexadecimal digits. Of a file that is not compressed, all bytes are read
    /// for it, once.
    ///
    /// # Errors
    /// If the file cannot be read, or changes meanwhile.
    pub fn digest(&self) -> Result<&str, FileError> {
        if let Some(packed) = &self.packed {
            return Ok(&packed.digest);
        }
        if let Some(digest) = self.digest.get() {
            return Ok(digest);
        }
        let mut digest = Digest::of(self.own_bytes().chunks(PIECE as usize).map(Digest::of_piece));
        let (segments, mut values) = (self.segments(), Vec::new());
        for number in 0..segments.count() {
            let piece = segments.piece(self.tensors(), number);
            self.read_piece(&piece, &mut values)?;
            for (_, _, range) in piece.tensors(self.tensors()) {
                digest.add(Digest::of_piece(&values[range]));
            }
        }
        self.unchanged()?;
        Ok(self.digest.get_or_init(|| digest.text()))
    }

    /// Whether the file is as it was when it was opened, by its length and the time of its last change.
    ///
    /// # Errors
    /// [`FileError::Changed`], or if the system refuses.
    pub fn unchanged(&self) -> Result<(), FileError> {
        self.stamp.check(&*self.file()?, &self.path)
    }

    /// The values of a tensor, little-endian.
    ///
    /// # Errors
    /// Errors of [`Self::read_bytes`].
    pub fn read(&self, name: &str) -> Result<Vec<u8>, FileError> {
        let bytes = self.tensor(name)?.bytes();
        self.read_bytes(name, 0..bytes)
    }

    /// Rows of a tensor, which are along its first dimension; a scalar is one row.
    ///
    /// # Errors
    /// Errors of [`Self::read_bytes`] and of [`Self::bytes_of_rows`].
    pub fn read_rows(&self, name: &str, rows: Range<u64>) -> Result<Vec<u8>, FileError> {
        self.read_bytes(name, self.bytes_of_rows(name, rows)?)
    }

    /// Range of the bytes of some rows among those of a tensor.
    ///
    /// # Errors
    /// [`FileError::NoTensor`], [`FileError::Rows`], and [`FileError::PartOfByte`] for a part of rows that are no whole bytes.
    pub fn bytes_of_rows(&self, name: &str, rows: Range<u64>) -> Result<Range<u64>, FileError> {
        let tensor = self.tensor(name)?;
        let count = tensor.shape.first().map_or(1, |rows| *rows as u64);
        if rows.start > rows.end || rows.end > count {
            let (path, tensor) = (self.path.clone(), name.to_owned());
            return Err(FileError::Rows { path, tensor, asked: (rows.start, rows.end), rows: count });
        }
        // Also where there are none: the shape of a type that is not known says nothing of bytes.
        if rows == (0..count) {
            return Ok(0..tensor.bytes());
        }
        if rows.is_empty() {
            return Ok(0..0);
        }
        let bytes = tensor.bytes();
        if !bytes.is_multiple_of(count) {
            let (path, tensor) = (self.path.clone(), name.to_owned());
            return Err(FileError::PartOfByte { path, tensor, bytes, rows: count });
        }
        let row = bytes / count;
        Ok(rows.start * row..rows.end * row)
    }

    /// Bytes of the values of a tensor. Chunks that are only asked for in part are decoded whole.
    ///
    /// Each piece of a compressed file (1 MiB of the tensor, the last one shorter) that is asked for as a whole is compared with its digest; of
    /// the others frames are compared with their checksums, and, of values that are kept as they are, the whole piece is read and compared. Files of version
    /// 1 have no digests of pieces: their frames are checked, and values that are kept as they are only by [`verify`](crate::file::verify).
    ///
    /// # Errors
    /// If there is no such tensor, the file cannot be read, or is damaged there.
    ///
    /// # Panics
    /// If the tensor ends before the range does.
    pub fn read_bytes(&self, name: &str, range: Range<u64>) -> Result<Vec<u8>, FileError> {
        let len = range.end.saturating_sub(range.start);
        let mut out = buffer(len).map_err(FileError::io("read", &self.path))?;
        out.resize(len as usize, 0);
        self.read_into(name, range.start, &mut out)?;
        Ok(out)
    }

    /// Fills `out` with the values of a tensor from the byte `start` on, on all processors if there are many.
    ///
    /// # Errors
    /// Errors of [`Self::read_bytes`].
    ///
    /// # Panics
    /// If the tensor ends before.
    pub fn read_into(&self, name: &str, start: u64, out: &mut [u8]) -> Result<(), FileError> {
        // Asking how many there are takes longer than decoding a small tensor.
        let is_large = out.len() as u64 > PIECE;
        let threads = if is_large { std::thread::available_parallelism().map_or(1, NonZero::get) } else { 1 };
        self.read_by(self.number(name)?, start, out, threads)
    }

    /// Like [`Self::read_into`], on the calling thread alone.
    pub(crate) fn read_alone(&self, name: &str, start: u64, out: &mut [u8]) -> Result<(), FileError> {
        self.read_by(self.number(name)?, start, out, 1)
    }

    pub(crate) fn read_by(
        &self,
        number: usize,
        start: u64,
        out: &mut [u8],
        threads: usize,
    ) -> Result<(), FileError> {
        let (tensor, part) = (&self.tensors()[number], self.part_of(number));
        let end = start.saturating_add(out.len() as u64);
        assert!(end <= tensor.bytes(), "`{}` has no bytes {start} to {end}", tensor.name);
        let within = tensor.range.start - self.tensors()[part.tensors.start].range.start;
        let Some(container) = &part.container else {
            return self.read_plain(number, part.at + within, start, out, threads);
        };
        if part.tensors.len() == 1 {
            let file = self.file()?;
            self.chunks(&file, part, self.index(part, container)?).read(start, out, threads)?;
            return self.check_pieces(number, start, out, threads);
        }
        let values = self.shared_values(part, container)?;
        let tensor_at = within as usize;
        self.check(number, 0, &values[tensor_at..tensor_at + tensor.bytes() as usize])?;
        out.copy_from_slice(&values[tensor_at + start as usize..tensor_at + end as usize]);
        Ok(())
    }

    /// Reads values that are kept as they are, whose tensor begins at `at` in the file, and compares each piece with its digest.
    fn read_plain(
        &self,
        number: usize,
        at: u64,
        start: u64,
        out: &mut [u8],
        threads: usize,
    ) -> Result<(), FileError> {
        let read = |out: &mut [u8], start: u64| self.read_at(out, at + start);
        read(out, start)?;
        if self.digests().is_none() {
            return Ok(());
        }
        self.check_pieces(number, start, out, threads)?;
        let (end, bytes) = (start + out.len() as u64, self.tensors()[number].bytes());
        let mut whole = Vec::new();
        // Pieces that are asked for in part are at the ends.
        let mut ends =
            [start / PIECE, end / PIECE].map(|piece| piece * PIECE..bytes.min((piece + 1) * PIECE));
        if ends[0] == ends[1] {
            ends[1] = end..end;
        }
        let is_in_part = |piece: &&Range<u64>| {
            let range = start.max(piece.start)..end.min(piece.end);
            range.start < range.end && range != **piece
        };
        for piece in ends.iter().filter(is_in_part) {
            whole.resize((piece.end - piece.start) as usize, 0);
            read(&mut whole, piece.start)?;
            self.check(number, piece.start, &whole)?;
            let (from, to) = (start.max(piece.start), end.min(piece.end));
            // The bytes that were compared are the ones that are given.
            let values = &whole[(from - piece.start) as usize..(to - piece.start) as usize];
            out[(from - start) as usize..(to - start) as usize].copy_from_slice(values);
        }
        Ok(())
    }

    pub(crate) fn digests(&self) -> Option<&Digests> {
        self.packed.as_ref()?.digests.as_ref()
    }

    /// Compares the whole pieces among bytes of a tensor with their digests, on at most so many threads.
    fn check_pieces(
        &self,
        number: usize,
        start: u64,
        values: &[u8],
        threads: usize,
    ) -> Result<(), FileError> {
        let (bytes, first) = (self.tensors()[number].bytes(), start.next_multiple_of(PIECE));
        let whole = values.get((first - start) as usize..).filter(|_| self.digests().is_some());
        let pieces: Vec<&[u8]> = whole.unwrap_or_default().chunks(PIECE as usize).collect();
        let threads = NonZero::new(threads).unwrap_or(NonZero::<usize>::MIN);
        let watch = Watch { threads, cancelled: &|| false, done: &|_| () };
        watch.for_each(pieces.len(), |index, _| {
            let (at, piece) = (first + index as u64 * PIECE, pieces[index]);
            let is_whole = piece.len() as u64 == PIECE.min(bytes - at);
            if is_whole { self.check(number, at, piece) } else { Ok(()) }
        })
    }

    /// Compares the piece of a tensor that begins at `start` with its digest.
    pub(crate) fn check(&self, number: usize, start: u64, piece: &[u8]) -> Result<(), FileError> {
        let Some(digests) = self.digests() else { return Ok(()) };
        if digests.of_piece(number, start / PIECE) == Digest::of_piece(piece) {
            return Ok(());
        }
        let (path, tensor) = (self.path.clone(), self.tensors()[number].name.clone());
        Err(FileError::Digest { path, tensor, range: start..start + piece.len() as u64 })
    }

    /// The pieces that the file is read in as a whole.
    pub(crate) fn segments(&self) -> Segments {
        Segments::of(self.tensors(), self.parts.iter().map(|part| part.tensors.clone()))
    }

    /// Reads and decodes a piece, without a look at digests.
    pub(crate) fn read_piece(&self, piece: &Piece<'_>, values: &mut Vec<u8>) -> Result<(), FileError> {
        values.resize((piece.range.end - piece.range.start) as usize, 0);
        let part = &self.parts[piece.segment.part];
        let start = piece.range.start - self.tensors()[part.tensors.start].range.start;
        match &part.container {
            Some(container) => {
                let file = self.file()?;
                self.chunks(&file, part, self.index(part, container)?).read(start, values, 1)
            }
            None => self.read_at(values, part.at + start),
        }
    }

    /// Reads a piece as far as that is possible: what cannot be read is zeros. Gives where that is, from the beginning of the piece on, and why.
    pub(crate) fn salvage_piece(
        &self,
        piece: &Piece<'_>,
        values: &mut Vec<u8>,
    ) -> Vec<(Range<usize>, FileError)> {
        values.clear();
        values.resize((piece.range.end - piece.range.start) as usize, 0);
        let part = &self.parts[piece.segment.part];
        let start = piece.range.start - self.tensors()[part.tensors.start].range.start;
        let all = 0..values.len();
        let lost = |error| vec![(all, error)];
        let Some(container) = &part.container else {
            let Err(error) = self.read_at(values, part.at + start) else { return Vec::new() };
            // The end of a cut file.
            let left = self.stamp.bytes().saturating_sub(part.at + start).min(values.len() as u64) as usize;
            let is_read = self.read_at(&mut values[..left], part.at + start).is_ok();
            let left = if is_read { left } else { 0 };
            // What is in front of the cut of a tensor has no digest of its own.
            let of_cut = piece.tensors(self.tensors()).find(|(_, _, range)| range.contains(&left));
            let left = of_cut.map_or(left, |(_, _, range)| range.start);
            values[left..].fill(0);
            return vec![(left..values.len(), error)];
        };
        let file = match self.file() {
            Ok(file) => file,
            Err(error) => return lost(error),
        };
        let scan = || {
            let len = container.len.min(self.stamp.bytes().saturating_sub(part.at));
            ContainerIndex::scan(&mut at::Window::new(&file, part.at, len)).ok()
        };
        let index = match self.index(part, container) {
            Ok(index) => index,
            Err(error) => match container.scanned.get_or_init(scan) {
                Some(index) => index,
                None => return lost(error),
            },
        };
        self.chunks(&file, part, index).salvage(start, values)
    }

    /// Values of a container that several tensors share.
    fn shared_values(&self, part: &Part, container: &Container) -> Result<Arc<[u8]>, FileError> {
        let number = part.tensors.start;
        let recent = || self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, values)) = recent().iter().find(|(first, _)| *first == number) {
            return Ok(Arc::clone(values));
        }
        let span = span(&self.tensors()[part.tensors.clone()]);
        let mut values = vec![0; (span.end - span.start) as usize];
        let file = self.file()?;
        self.chunks(&file, part, self.index(part, container)?).read(0, &mut values, 1)?;
        let values: Arc<[u8]> = values.into();
        let mut recent = recent();
        recent.truncate(RECENT - 1);
        recent.push_front((number, Arc::clone(&values)));
        Ok(values)
    }

    fn chunks<'a>(&'a self, file: &'a File, part: &'a Part, index: &'a ContainerIndex) -> Chunks<'a> {
        let tensors = &self.tensors()[part.tensors.clone()];
        Chunks { file, path: &self.path, bases: self.bases.as_ref(), tensors, index, at: part.at }
    }

    /// Index of the container of a part, read on first use.
    fn index<'a>(&'a self, part: &Part, container: &'a Container) -> Result<&'a ContainerIndex, FileError> {
        if let Some(index) = container.index.get() {
            return Ok(index);
        }
        let tensors = &self.tensors()[part.tensors.clone()];
        let (name, span) = (&tensors[0].name, span(tensors));
        let index = read_index(&*self.file()?, &self.path, name, (part.at, container.len))?;
        let bytes = span.end - span.start;
        let wrong =
            |what: String| Err(FileError::Container { path: self.path.clone(), tensor: name.clone(), what });
        if index.len() != bytes || !index.tail().is_empty() {
            return wrong(format!("{} bytes in place of {bytes}", index.len()));
        }
        // Each chunk takes memory.
        if index.chunk_values() != DEFAULT_CHUNK_VALUES {
            return wrong(format!("chunks of {} values", index.chunk_values()));
        }
        Ok(container.index.get_or_init(|| index))
    }
}

/// The candidate nearest to `word`, if one is near enough to be worth a hint.
///
/// Near enough means at most one edit per three letters, letter case aside; the first of equals wins. Else it is the first
/// candidate of which the word is the beginning, three letters or more, up to a sign that is neither letter nor digit: `h100` of `h100-8x`.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    let candidates: Vec<&str> = candidates.into_iter().collect();
    let edits = |candidate: &str| strsim::damerau_levenshtein(&word, &candidate.to_lowercase());
    let limit = (word.chars().count() / 3).max(1);
    let begins = |candidate: &&str| {
        let lower = candidate.to_lowercase();
        let rest = lower.strip_prefix(&word).filter(|_| word.chars().count() >= 3);
        rest.is_some_and(|rest| rest.starts_with(|next: char| !next.is_alphanumeric()))
    };
    candidates
        .iter()
        .map(|&candidate| (edits(candidate), candidate))
        .filter(|&(edits, candidate)| edits <= limit && edits < candidate.chars().count())
        .min_by_key(|&(edits, _)| edits)
        .map(|(_, candidate)| candidate)
        .or_else(|| candidates.iter().copied().find(begins))
}

/// Names that an error lists where the one that is wanted does not exist: the three with the fewest edits, best first, however far they are.
///
/// Edits of a name's beginning count first, because a recorded name (`L2.disp[0:1536]|rows0:256`) extends the tensor's own (`L2.disp`).
pub fn nearest_names(wanted: &str, mut names: Vec<String>) -> Vec<String> {
    names.sort_by_cached_key(|name| {
        let beginning: String = name.chars().take(wanted.chars().count()).collect();
        let edits = |name: &str| strsim::damerau_levenshtein(wanted, name);
        (edits(&beginning), edits(name), name.clone())
    });
    names.truncate(3);
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_slips_and_nothing_else() {
        let keys = ["nodes", "gpus_per_node", "nic_bandwidth"];
        assert_eq!(nearest("nodse", keys), Some("nodes"));
        assert_eq!(nearest("NIC_bandwith", keys), Some("nic_bandwidth"));
        assert_eq!(nearest("preset", keys), None);
        assert_eq!(nearest("h100", ["a6000-8x8", "h100-8x"]), Some("h100-8x"));
        assert_eq!(nearest("h10", ["h100-8x"]), None, "in the middle of a word");
        assert_eq!(nearest("x", ["s"]), None, "a whole replacement is not a slip");
    }

    #[test]
    fn lists_names_that_begin_alike_first() {
        let names = |wanted| {
            nearest_names(
                wanted,
                ["L2.counts", "L2.disp[0:1536]|rows0:256", "a", "b"].map(str::to_owned).into(),
            )
        };
        assert_eq!(names("L2.dsip"), ["L2.disp[0:1536]|rows0:256", "L2.counts", "a"]);
    }
}
