//! Input files, and recorded tensors in: the tensors of a safetensors file, one at a time.
//!
//! Reads the header and what is asked for, not the file: checkpoints are large.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use zipwire_models::file::{Model, TensorInfo, buffer, open_input};
use zipwire_payload::Rows;
use zipwire_schedule::DType;

use crate::TraceError;

/// A safetensors file that is open for reading. One that zipwire has compressed gives the tensors of the original.
#[derive(Debug)]
pub struct TensorFile(Model);

impl TensorFile {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// If the file cannot be read, is not a safetensors file, or is truncated or too long.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        Model::open(path).map(Self).map_err(TraceError::of_file)
    }

    /// All tensors, in the order of their values in the file.
    pub fn tensors(&self) -> &[TensorInfo] {
        self.0.tensors()
    }

    /// The values of a tensor, little-endian.
    ///
    /// # Errors
    /// If the file cannot be read, or is compressed and damaged.
    pub fn read(&self, tensor: &TensorInfo) -> Result<Vec<u8>, TraceError> {
        self.0.read(&tensor.name).map_err(TraceError::of_file)
    }
}

/// The tensor `tensor`, of values of type `dtype`, of the safetensors file at `path`. The last dimension is the row; the product of the
/// others is the row count, so that a vector is one row and a scalar is one row of one value.
///
/// # Errors
/// If the file cannot be read, is not a safetensors file, is truncated or too long, has no such tensor (the nearest
/// names are listed), or if the tensor is empty or of another type.
pub fn read_rows(path: &Path, tensor: &str, dtype: DType) -> Result<Rows, TraceError> {
    let file = TensorFile::open(path)?;
    let found = file.0.tensor(tensor).map_err(TraceError::of_file)?;
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

// A pipe or a device may never give a byte, or never stop: inputs are files, which are also read twice, for their hashes.

/// Opens an input file of at most `limit` bytes.
///
/// # Errors
/// See [`open_input`](crate::open_input); also if the file is longer.
pub fn open_bounded(path: &Path, limit: u64) -> io::Result<File> {
    let file = open_input(path)?;
    let bytes = file.metadata()?.len();
    if bytes <= limit {
        return Ok(file);
    }
    Err(io::Error::new(
        io::ErrorKind::FileTooLarge,
        format!("it has {bytes} bytes, and files of this kind have at most {limit}"),
    ))
}

/// The content of an input file of at most `limit` bytes.
///
/// # Errors
/// See [`open_bounded`]; also if the system has no memory for it.
pub fn read_input(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = open_bounded(path, limit)?;
    let mut content = buffer(file.metadata()?.len())?;
    // What is appended meanwhile is not waited for.
    file.take(limit).read_to_end(&mut content)?;
    Ok(content)
}

/// The content of an input file of at most `limit` bytes, which are text.
///
/// # Errors
/// See [`read_input`]; also if it is not UTF-8.
pub fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    String::from_utf8(read_input(path, limit)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "stream did not contain valid UTF-8"))
}
