//! Recorded tensors in: the tensors of a safetensors file, one at a time.
//!
//! Reads the header and what is asked for, not the file: checkpoints are large.

use std::path::Path;

use zipwire_models::file::{Model, TensorInfo};
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
