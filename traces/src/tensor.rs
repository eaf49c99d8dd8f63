//! Recorded tensors in: the tensors of a safetensors file, one at a time.
//!
//! Reads the header and what is asked for, not the file: checkpoints are large.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use safetensors::tensor::Metadata;
use zipwire_payload::Rows;
use zipwire_schedule::DType;

use crate::input::{buffer, open_input};
use crate::{TraceError, duplicate_keys};

/// Bytes of the length in front of the header.
const LENGTH_BYTES: u64 = 8;
/// Longest header read, in bytes: the limit of the safetensors format.
const HEADER_LIMIT: u64 = 100_000_000;
/// How many similar names an error lists.
const NEAREST: usize = 3;

/// A safetensors file that is open for reading.
#[derive(Debug)]
pub struct TensorFile {
    path: PathBuf,
    file: File,
    header_end: u64,
    metadata: Metadata,
}

/// One tensor of a file, without its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// Its name.
    pub name: String,
    /// Type of the values, as the file names it: `BF16`, `I64`, `BOOL`.
    pub dtype: String,
    /// Shape; empty for a scalar.
    pub shape: Vec<usize>,
    /// First byte and the one after the last, behind the header.
    offsets: (usize, usize),
}

impl TensorInfo {
    /// Bytes of its values.
    pub fn bytes(&self) -> u64 {
        (self.offsets.1 - self.offsets.0) as u64
    }
}

impl TensorFile {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// If the file cannot be read, is not a safetensors file, or is truncated or too long.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let mut file = open_input(path).map_err(TraceError::io(path))?;
        let (header_end, metadata) = read_header(path, &mut file)?;
        Ok(Self { path: path.to_owned(), file, header_end, metadata })
    }

    /// All tensors, in the order of their values in the file.
    pub fn tensors(&self) -> Vec<TensorInfo> {
        let names = self.metadata.offset_keys();
        names.into_iter().filter_map(|name| Some(info(&name, self.metadata.info(&name)?))).collect()
    }

    /// The values of a tensor, little-endian.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read(&mut self, tensor: &TensorInfo) -> Result<Vec<u8>, TraceError> {
        let (begin, end) = tensor.offsets;
        let mut bytes = buffer(tensor.bytes()).map_err(TraceError::io(&self.path))?;
        bytes.resize(end - begin, 0);
        let read = self.file.seek(SeekFrom::Start(self.header_end + begin as u64));
        let read = read.and_then(|_| self.file.read_exact(&mut bytes));
        read.map_err(|source| TraceError::Io { path: self.path.clone(), source })?;
        Ok(bytes)
    }
}

fn info(name: &str, info: &safetensors::tensor::TensorInfo) -> TensorInfo {
    TensorInfo {
        name: name.to_owned(),
        dtype: info.dtype.to_string(),
        shape: info.shape.clone(),
        offsets: info.data_offsets,
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
    let found = file.metadata.info(tensor).ok_or_else(|| TraceError::NoSuchTensor {
        path: path.to_owned(),
        tensor: tensor.to_owned(),
        nearest: nearest(tensor, file.metadata.offset_keys()),
    })?;
    if found.dtype.to_string() != dtype.name() {
        return Err(TraceError::WrongDtype {
            path: path.to_owned(),
            tensor: tensor.to_owned(),
            found: found.dtype.to_string(),
            needed: dtype.name(),
        });
    }
    let info = info(tensor, found);
    if info.bytes() == 0 {
        let shape = info.shape;
        return Err(TraceError::EmptyTensor { path: path.to_owned(), tensor: tensor.to_owned(), shape });
    }
    Ok(Rows::new(file.read(&info)?, dtype.width() * info.shape.last().copied().unwrap_or(1)))
}

/// Where the header ends and what it says. The file is exactly as long as the header says.
fn read_header(path: &Path, file: &mut File) -> Result<(u64, Metadata), TraceError> {
    let io = |source| TraceError::Io { path: path.to_owned(), source };
    let found = file.metadata().map_err(io)?.len();
    let invalid = |header_end: u64, reason: String| TraceError::NotSafetensors {
        path: path.to_owned(),
        header_end: header_end.min(found),
        reason,
    };

    if found < LENGTH_BYTES {
        return Err(invalid(found, format!("`{found}` bytes are too few for a header")));
    }
    let mut length = [0; LENGTH_BYTES as usize];
    file.read_exact(&mut length).map_err(io)?;
    let length = u64::from_le_bytes(length);
    let header_end = length.saturating_add(LENGTH_BYTES);
    if length > HEADER_LIMIT {
        let is_text =
            length.to_le_bytes().iter().all(|byte| byte.is_ascii_graphic() || b" \t\r\n".contains(byte));
        if is_text {
            return Err(invalid(
                LENGTH_BYTES,
                "it begins with text, and not with the length of a header".to_owned(),
            ));
        }
        return Err(invalid(header_end, format!("a header of `{length}` bytes is above the format's limit")));
    }
    if header_end > found {
        return Err(TraceError::WrongLength { path: path.to_owned(), found, needed: header_end });
    }

    let mut header = buffer(length).map_err(io)?;
    header.resize(length as usize, 0);
    file.read_exact(&mut header).map_err(io)?;
    // The parser takes the last of equal keys, other readers the first.
    duplicate_keys::check(&header).map_err(|error| invalid(header_end, error.to_string()))?;
    let metadata: Metadata =
        serde_json::from_slice(&header).map_err(|error| invalid(header_end, error.to_string()))?;
    let needed = header_end + metadata.data_len() as u64;
    if found != needed {
        return Err(TraceError::WrongLength { path: path.to_owned(), found, needed });
    }
    Ok((header_end, metadata))
}

/// The names most like `wanted`, best first. Jaro-Winkler favours a common beginning, which is how a recorded
/// name (`L2.disp[0:1536]|rows0:256`) extends the tensor's own (`L2.disp`).
fn nearest(wanted: &str, mut names: Vec<String>) -> Vec<String> {
    let distance = |name: &String| 1.0 - strsim::jaro_winkler(wanted, name);
    names.sort_by(|a, b| distance(a).total_cmp(&distance(b)).then_with(|| a.cmp(b)));
    names.truncate(NEAREST);
    names
}
