//! Random access to a file of tensors, compressed or not, and the names that a mistyped one was probably meant to be.

use std::collections::HashMap;
use std::fs::File;
use std::num::NonZero;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use zipwire_codec::{ContainerIndex, DType};

use crate::file::container::{Chunks, in_tensor, read_index};
use crate::file::foreign::Foreign;
use crate::file::header::{Header, TensorInfo};
use crate::file::note::{Digest, Note, PIECE, PartNote};
use crate::file::{FileError, at, buffer, open_input};

/// A safetensors file, compressed by [`compress`](crate::file::compress) or not: its tensors are those of the file that was compressed; of an archive,
/// coded members and the bytes between them. Reads the
/// headers and what is asked for, not the file; a part of a compressed tensor costs the chunks that it is in. It can be shared by threads.
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
/// let compression = Compression { spec: "rans".parse()?, force: false };
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
    file: File,
    header: Header,
    digest: OnceLock<String>,
    note: Option<Note>,
    base: Option<Arc<Model>>,
    tensors: Vec<TensorInfo>,
    numbers: HashMap<String, usize>,
    places: Vec<Place>,
}

/// Where the values of a tensor are in the file.
#[derive(Debug)]
struct Place {
    at: u64,
    /// Length of the tensor's container, if it has one, and its index, read on first use.
    container: Option<(u64, OnceLock<ContainerIndex>)>,
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
        let file = open_input(path).map_err(FileError::io("read", path))?;
        let (outer, note) = Self::begin(&file, path)?;
        match note {
            Some(note) => Self::compressed(path, file, &outer, note, None),
            None => Ok(Self::plain(path, file, outer)),
        }
    }

    fn begin(file: &File, path: &Path) -> Result<(Header, Option<Note>), FileError> {
        let outer = Header::read(file).map_err(|source| match Foreign::of(file) {
            Some(foreign) => foreign.refused(path),
            None => FileError::Header { path: path.to_owned(), source },
        })?;
        let note = Note::of(&outer, path)?;
        Ok((outer, note))
    }

    /// Like [`Self::open`], for a file that may have differences from `base`.
    ///
    /// # Errors
    /// Errors of [`Self::open`], and [`FileError::WrongBase`]: to know that, all of the base is read.
    pub fn open_with(path: &Path, base: Option<Arc<Self>>) -> Result<Self, FileError> {
        Self::of_file(open_input(path).map_err(FileError::io("read", path))?, path, base)
    }

    /// [`Self::open_with`] for a file that is open, which errors call `path`.
    ///
    /// # Errors
    /// Errors of [`Self::open_with`].
    pub fn of_file(file: File, path: &Path, base: Option<Arc<Self>>) -> Result<Self, FileError> {
        let (outer, note) = Self::begin(&file, path)?;
        let Some(note) = note else { return Ok(Self::plain(path, file, outer)) };
        if let Some(needed) = &note.base {
            let Some(base) = &base else {
                return Err(FileError::NoBase { path: path.to_owned(), digest: needed.clone() });
            };
            let found = base.digest()?;
            if found != needed {
                return Err(FileError::WrongBase {
                    path: path.to_owned(),
                    base: base.path.clone(),
                    needed: needed.clone(),
                    found: found.to_owned(),
                });
            }
        }
        Self::compressed(path, file, &outer, note, base)
    }

    fn plain(path: &Path, file: File, header: Header) -> Self {
        let tensors = header.tensors();
        let values_at = header.bytes().len() as u64;
        let places = tensors
            .iter()
            .map(|tensor| Place { at: values_at + tensor.range.start, container: None })
            .collect();
        Self::of(path, file, header, None, None, (tensors, places))
    }

    fn compressed(
        path: &Path,
        file: File,
        outer: &Header,
        note: Note,
        base: Option<Arc<Self>>,
    ) -> Result<Self, FileError> {
        let kept: HashMap<String, TensorInfo> =
            outer.tensors().into_iter().map(|tensor| (tensor.name.clone(), tensor)).collect();
        let values_at = outer.bytes().len() as u64;
        let mut places = Vec::new();
        for part in &note.parts {
            let place = kept.get(&part.tensor).filter(|tensor| {
                let needed = part.container.unwrap_or(part.bytes);
                (needed..needed + 8).contains(&tensor.bytes())
            });
            let tensor = place.ok_or_else(|| {
                FileError::damaged(path, format!("part `{}` has no tensor of its length", part.tensor))
            })?;
            let container = part.container.map(|len| (len, OnceLock::new()));
            places.push(Place { at: values_at + tensor.range.start, container });
        }
        if note.archive.is_some() {
            let tensors = members(&note, path)?;
            return Ok(Self::of(path, file, Header::none(), Some(note), base, (tensors, places)));
        }
        let (Some(first), true) =
            (note.parts.first(), places.first().is_some_and(|place| place.container.is_none()))
        else {
            return Err(FileError::damaged(path, "the first of its parts is no header"));
        };
        let mut bytes = vec![0; first.bytes as usize];
        at::read_exact(&file, &mut bytes, places[0].at).map_err(FileError::io("read", path))?;
        let header = Header::parse(bytes, note.bytes).map_err(|error| {
            FileError::damaged(path, format!("the header of what was compressed: {error}"))
        })?;
        let tensors = header.tensors();
        let agree = tensors.len() + 1 == places.len()
            && tensors.iter().zip(&note.parts[1..]).all(|(tensor, part)| {
                (tensor.name.as_str(), tensor.bytes()) == (part.tensor.as_str(), part.bytes)
            });
        if !agree {
            return Err(FileError::damaged(path, "its parts are not those that its header has"));
        }
        places.remove(0);
        Ok(Self::of(path, file, header, Some(note), base, (tensors, places)))
    }

    fn of(
        path: &Path,
        file: File,
        header: Header,
        note: Option<Note>,
        base: Option<Arc<Self>>,
        (tensors, places): (Vec<TensorInfo>, Vec<Place>),
    ) -> Self {
        let numbers = (0..).zip(&tensors).map(|(number, tensor)| (tensor.name.clone(), number)).collect();
        Self {
            path: path.to_owned(),
            file,
            header,
            digest: OnceLock::new(),
            note,
            base,
            tensors,
            numbers,
            places,
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file that it has differences from, if it was opened with one.
    pub(crate) fn base(&self) -> Option<&Self> {
        self.base.as_deref()
    }

    /// Whether it is compressed.
    pub fn is_compressed(&self) -> bool {
        self.note.is_some()
    }

    /// Bytes of the file, or of the one that was compressed.
    pub fn bytes(&self) -> u64 {
        self.header.bytes().len() as u64 + self.tensors.last().map_or(0, |tensor| tensor.range.end)
    }

    /// Header of the file, or of the one that was compressed.
    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    /// Metadata of the file: the texts under `__metadata__`.
    pub fn notes(&self) -> &HashMap<String, String> {
        self.header.notes()
    }

    /// All tensors, in the order of their values.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    /// Bytes that a tensor takes in the file.
    ///
    /// # Errors
    /// [`FileError::NoTensor`].
    pub fn bytes_kept(&self, name: &str) -> Result<u64, FileError> {
        let number = self.number(name)?;
        let container = self.places[number].container.as_ref();
        Ok(container.map_or(self.tensors[number].bytes(), |(len, _)| *len))
    }

    /// Index of the container of a tensor, within the bytes that [`Self::read_kept`] reads; `None` if the tensor is not coded. For callers that
    /// keep frames without decoding them.
    ///
    /// # Errors
    /// Errors of [`Self::read_bytes`].
    pub fn container(&self, name: &str) -> Result<Option<&ContainerIndex>, FileError> {
        let number = self.number(name)?;
        let container = self.places[number].container.as_ref();
        container.map(|(len, index)| self.index(number, *len, index)).transpose()
    }

    /// Fills `out` with the stored bytes of a tensor, from `start` on, without decoding.
    ///
    /// # Errors
    /// Errors of [`Self::read_bytes`].
    ///
    /// # Panics
    /// If it takes fewer.
    pub fn read_kept(&self, name: &str, start: u64, out: &mut [u8]) -> Result<(), FileError> {
        let number = self.number(name)?;
        let (end, len) = (start.saturating_add(out.len() as u64), self.bytes_kept(name)?);
        assert!(end <= len, "`{name}` takes no bytes {start} to {end}");
        at::read_exact(&self.file, out, self.places[number].at + start)
            .map_err(FileError::io("read", &self.path))
    }

    /// A tensor by its name.
    ///
    /// # Errors
    /// [`FileError::NoTensor`], with names that are alike.
    pub fn tensor(&self, name: &str) -> Result<&TensorInfo, FileError> {
        Ok(&self.tensors[self.number(name)?])
    }

    fn number(&self, name: &str) -> Result<usize, FileError> {
        self.numbers.get(name).copied().ok_or_else(|| {
            let nearest =
                nearest_names(name, self.tensors.iter().map(|tensor| tensor.name.clone()).collect());
            FileError::NoTensor { path: self.path.clone(), tensor: name.to_owned(), nearest }
        })
    }

    /// Digest of the file, or of the one that was compressed: 32 hexadecimal digits. Of a file that is not compressed, all bytes are read
    /// for it, once.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn digest(&self) -> Result<&str, FileError> {
        if let Some(note) = &self.note {
            return Ok(&note.digest);
        }
        if let Some(digest) = self.digest.get() {
            return Ok(digest);
        }
        let mut digest = Digest::default();
        for piece in self.header.bytes().chunks(PIECE as usize) {
            digest.add(Digest::of_piece(piece));
        }
        let mut piece = Vec::new();
        for (tensor, place) in self.tensors.iter().zip(&self.places) {
            let mut at = 0;
            loop {
                piece.resize(PIECE.min(tensor.bytes() - at) as usize, 0);
                at::read_exact(&self.file, &mut piece, place.at + at)
                    .map_err(FileError::io("read", &self.path))?;
                digest.add(Digest::of_piece(&piece));
                at += piece.len() as u64;
                if at == tensor.bytes() {
                    break;
                }
            }
        }
        Ok(self.digest.get_or_init(|| digest.text()))
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
    /// Errors of [`Self::read_bytes`], and [`FileError::Rows`].
    pub fn read_rows(&self, name: &str, rows: Range<u64>) -> Result<Vec<u8>, FileError> {
        let tensor = self.tensor(name)?;
        let count = tensor.shape.first().map_or(1, |rows| *rows as u64);
        if rows.start > rows.end || rows.end > count {
            let (path, tensor) = (self.path.clone(), name.to_owned());
            return Err(FileError::Rows { path, tensor, asked: (rows.start, rows.end), rows: count });
        }
        let row = tensor.bytes().checked_div(count).unwrap_or(0);
        self.read_bytes(name, rows.start * row..rows.end * row)
    }

    /// Bytes of the values of a tensor. Chunks that are only asked for in part are decoded whole.
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
        self.read_by(name, start, out, std::thread::available_parallelism().map_or(1, NonZero::get))
    }

    /// Like [`Self::read_into`], on the calling thread alone.
    pub(crate) fn read_alone(&self, name: &str, start: u64, out: &mut [u8]) -> Result<(), FileError> {
        self.read_by(name, start, out, 1)
    }

    fn read_by(&self, name: &str, start: u64, out: &mut [u8], threads: usize) -> Result<(), FileError> {
        let number = self.number(name)?;
        let end = start.saturating_add(out.len() as u64);
        assert!(end <= self.tensors[number].bytes(), "`{name}` has no bytes {start} to {end}");
        let place = &self.places[number];
        let Some((len, index)) = &place.container else {
            return at::read_exact(&self.file, out, place.at + start)
                .map_err(FileError::io("read", &self.path));
        };
        let index = self.index(number, *len, index)?;
        let base = self.base.as_deref();
        Chunks { file: &self.file, path: &self.path, base, tensor: name, index, at: place.at }
            .read(start, out, threads)
    }

    /// Index of the container of a tensor, read on first use.
    fn index<'a>(
        &'a self,
        number: usize,
        len: u64,
        known: &'a OnceLock<ContainerIndex>,
    ) -> Result<&'a ContainerIndex, FileError> {
        if let Some(index) = known.get() {
            return Ok(index);
        }
        let tensor = &self.tensors[number];
        let index = read_index(&self.file, &self.path, &tensor.name, (self.places[number].at, len))?;
        if index.len() != tensor.bytes() || !index.tail().is_empty() {
            let what =
                format!("{}{} bytes in place of {}", in_tensor(&tensor.name), index.len(), tensor.bytes());
            return Err(FileError::damaged(&self.path, what));
        }
        Ok(known.get_or_init(|| index))
    }
}

/// The parts of an archive, as if they were tensors of one dimension.
fn members(note: &Note, path: &Path) -> Result<Vec<TensorInfo>, FileError> {
    let mut end = 0;
    let member = |part: &PartNote| {
        let dtype = part.dtype.clone().unwrap_or_else(|| "U8".to_owned());
        let width = DType::from_name(&dtype).map_or(1, |dtype| dtype.width() as u64);
        if !part.bytes.is_multiple_of(width) {
            let what = format!(
                "part `{}` has {} bytes, which are no whole values of {dtype}",
                part.tensor, part.bytes
            );
            return Err(FileError::damaged(path, what));
        }
        let (start, shape) = (end, vec![(part.bytes / width) as usize]);
        end += part.bytes;
        Ok(TensorInfo { name: part.tensor.clone(), dtype, shape, range: start..end })
    };
    note.parts.iter().map(member).collect()
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
