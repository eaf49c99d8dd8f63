//! `--base FILE`: tensors as they were before, that codecs take differences from.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use zipwire::codec::DType;
use zipwire::traces::{TensorFile, TensorInfo};

use crate::error::CliError;

/// The file with tensors as they were before.
pub(super) struct BaseFile {
    path: PathBuf,
    file: TensorFile,
}

impl BaseFile {
    pub(super) fn open(path: &Path) -> Result<Self, CliError> {
        Ok(Self { path: path.to_path_buf(), file: TensorFile::open(path)? })
    }

    /// Type and values of what a tensor of `file` was before; `None` if no codec knows its type.
    pub(super) fn of(&self, tensor: &TensorInfo, file: &Path) -> Result<Option<(DType, Vec<u8>)>, CliError> {
        let Some(dtype) = DType::from_name(&tensor.dtype) else { return Ok(None) };
        let (base, name) = (self.path.display(), &tensor.name);
        let Some(before) = self.file.tensors().iter().find(|before| before.name == *name) else {
            let message = format!("base `{base}` has no tensor `{name}`, as `{}` has", file.display());
            return Err(CliError::Usage(message));
        };
        if (&before.dtype, &before.shape) != (&tensor.dtype, &tensor.shape) {
            let message = format!(
                "tensor `{name}` is {} {:?} in base `{base}` and {} {:?} in `{}`\nhelp: differences are taken from as many values of the same type",
                before.dtype,
                before.shape,
                tensor.dtype,
                tensor.shape,
                file.display()
            );
            return Err(CliError::Usage(message));
        }
        Ok(Some((dtype, self.file.read(before)?)))
    }
}

/// Error for a codec that takes differences when no base is named.
pub(super) fn missing(codec: &impl Display) -> CliError {
    CliError::Usage(format!(
        "`{codec}` takes differences from a base, and there is none\nhelp: name it by `--base FILE`"
    ))
}
