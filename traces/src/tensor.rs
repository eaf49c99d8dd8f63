//! Recorded tensors in: the tensors of a safetensors file, one at a time.
//!
//! Reads the header and what is asked for, not the file: checkpoints are large.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use zipwire_files::{Header, HeaderError, TensorInfo, open_input};
use zipwire_payload::Rows;
use zipwire_schedule::DType;

use crate::TraceError;
use crate::input::buffer;

/// How many similar names an error lists.
const NEAREST: usize = 3;

/// A safetensors file that is open for reading.
#[derive(Debug)]
pub struct TensorFile {
    path: PathBuf,
    file: File,
    header: Header,
}

impl TensorFile {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// If the file cannot be read, is not a safetensors file, or is truncated or too long.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let file = open_input(path).map_err(TraceError::io(path))?;
        let header = Header::read(&file).map_err(unread(path))?;
        Ok(Self { path: path.to_owned(), file, header })
    }

    /// All tensors, in the order of their values in the file.
    pub fn tensors(&self) -> Vec<TensorInfo> {
        self.header.tensors()
    }

    /// The values of a tensor, little-endian.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read(&mut self, tensor: &TensorInfo) -> Result<Vec<u8>, TraceError> {
        let mut bytes = buffer(tensor.bytes()).map_err(TraceError::io(&self.path))?;
        bytes.resize(tensor.bytes() as usize, 0);
        let read = self.file.seek(SeekFrom::Start(self.header.bytes().len() as u64 + tensor.range.start));
        let read = read.and_then(|_| self.file.read_exact(&mut bytes));
        read.map_err(|source| TraceError::Io { path: self.path.clone(), source })?;
        Ok(bytes)
    }
}

/// The tensor `tensor`, of values of type `dtype`, of the safetensors file at `path`. The last dimension is the row; the product of the
/// others is the row count, so that a vector is one row and a scalar is one row of one value.
///
/// # Errors
/// If the file cannot be read, is not a safetensors file, is truncated or too long, has no such tensor (the nearest
/// names are listed), or if the tensor is empty or of another type.
pub fn read_rows(path: &Path, tensor: &str, dtype: DType) -> Result<Rows, TraceError> {
    let mut file = TensorFile::open(path)?;
    let tensors = file.tensors();
    let found =
        tensors.iter().find(|found| found.name == tensor).ok_or_else(|| TraceError::NoSuchTensor {
            path: path.to_owned(),
            tensor: tensor.to_owned(),
            nearest: nearest(tensor, tensors.iter().map(|other| other.name.clone()).collect()),
        })?;
    if found.dtype != dtype.name() {
        return Err(TraceError::WrongDtype {
            path: path.to_owned(),
            tensor: tensor.to_owned(),
            found: found.dtype.clone(),
            needed: dtype.name(),
        });
    }
    if found.bytes() == 0 {
        let shape = found.shape.clone();
        return Err(TraceError::EmptyTensor { path: path.to_owned(), tensor: tensor.to_owned(), shape });
    }
    Ok(Rows::new(file.read(found)?, dtype.width() * found.shape.last().copied().unwrap_or(1)))
}

/// Why a header is not read, as an error of this crate.
fn unread(path: &Path) -> impl Fn(HeaderError) -> TraceError {
    let path = path.to_owned();
    move |error| match error {
        HeaderError::Io(source) => TraceError::Io { path: path.clone(), source },
        HeaderError::Invalid { end, reason } => {
            TraceError::NotSafetensors { path: path.clone(), header_end: end, reason }
        }
        HeaderError::WrongLength { found, needed } => {
            TraceError::WrongLength { path: path.clone(), found, needed }
        }
    }
}

/// The names most like `wanted`, best first. Jaro-Winkler favours a common beginning, which is how a recorded
/// name (`L2.disp[0:1536]|rows0:256`) extends the tensor's own (`L2.disp`).
fn nearest(wanted: &str, mut names: Vec<String>) -> Vec<String> {
    let distance = |name: &String| 1.0 - strsim::jaro_winkler(wanted, name);
    names.sort_by(|a, b| distance(a).total_cmp(&distance(b)).then_with(|| a.cmp(b)));
    names.truncate(NEAREST);
    names
}
