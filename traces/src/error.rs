//! Everything that can be wrong with a recording.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;
use zipwire_models::file::{FileError, HeaderError};

/// Why a recording could not be read. Every variant names the file and the place in it.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The file could not be opened or read.
    #[error("cannot read `{path}`: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The file has no valid safetensors header.
    #[error("`{path}` is not a safetensors file: {reason} (in the header, bytes 0 to {header_end})")]
    NotSafetensors {
        /// The file.
        path: PathBuf,
        /// End of the header as the file declares it, in bytes, or the file's length if that is less.
        header_end: u64,
        /// What is wrong with the header.
        reason: String,
    },
    /// The header is valid but the data is shorter or longer than it says.
    #[error("`{path}` has `{found}` bytes where its header describes `{needed}`")]
    WrongLength {
        /// The file.
        path: PathBuf,
        /// Length of the file in bytes.
        found: u64,
        /// Length in bytes that header and tensors need.
        needed: u64,
    },
    /// No tensor of that name.
    #[error("`{path}` has no tensor `{tensor}`")]
    NoSuchTensor {
        /// The file.
        path: PathBuf,
        /// The name asked for.
        tensor: String,
        /// The most similar names that the file does have, best first, at most three.
        nearest: Vec<String>,
    },
    /// A compressed file that is damaged, of another version, or has differences from another file.
    #[error(transparent)]
    Compressed(Box<FileError>),
    /// The tensor holds values of another type.
    #[error("tensor `{tensor}` of `{path}` holds `{found}` values where `{needed}` is needed")]
    WrongDtype {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// Its dtype, by its safetensors name.
        found: String,
        /// The dtype needed, by its safetensors name.
        needed: &'static str,
    },
    /// The tensor has no values.
    #[error("tensor `{tensor}` of `{path}` is empty: its shape is `{shape:?}`")]
    EmptyTensor {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// Its shape, with a zero in it.
        shape: Vec<usize>,
    },
    /// A line is not a record of the expected shape.
    #[error("`{path}` line {line} column {column}: {reason}")]
    BadJsonl {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: u64,
        /// Column in bytes, from 1; the line's first when the record as a whole is wrong.
        column: usize,
        /// What is wrong.
        reason: String,
    },
    /// A row of a table is wrong.
    #[error("`{path}` line {line} column `{column}`: {reason}")]
    BadCsv {
        /// The file.
        path: PathBuf,
        /// Line, from 1; the header is line 1.
        line: u64,
        /// Name of the column by the expected header.
        column: String,
        /// What is wrong.
        reason: String,
    },
    /// The file ends in the middle of its JSON.
    #[error("`{path}` ends too early, at line {line} column {column}")]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Last line, from 1.
        line: usize,
        /// Column in bytes at which it ends.
        column: usize,
    },
    /// The file is not JSON.
    #[error("`{path}` line {line} column {column} is not JSON: {reason}")]
    NotJson {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column in bytes, from 1.
        column: usize,
        /// What is wrong.
        reason: String,
    },
    /// The file is JSON but not a timeline that zipwire wrote.
    #[error("`{path}` is not a timeline of zipwire: {place}: {reason}")]
    NotTimeline {
        /// The file.
        path: PathBuf,
        /// Line and column, or the event by its index.
        place: String,
        /// What is wrong.
        reason: String,
    },
    /// The file is well-formed and has no record in it.
    #[error("`{path}` holds no records")]
    NoRecords {
        /// The file.
        path: PathBuf,
    },
}

impl TraceError {
    /// What would be right, where that is known.
    pub fn help(&self) -> Option<String> {
        let truncated = "the file is truncated; copy or download it again";
        match self {
            Self::Truncated { .. } => Some(truncated.to_owned()),
            Self::WrongLength { found, needed, .. } if found < needed => Some(truncated.to_owned()),
            Self::NotSafetensors { .. } => Some(
                "tensors are read from safetensors files, as `safetensors.torch.save_file` writes them"
                    .to_owned(),
            ),
            Self::WrongLength { .. } => Some("something was appended to the file".to_owned()),
            Self::NoSuchTensor { nearest, .. } => {
                let names: Vec<_> = nearest.iter().map(|name| format!("`{name}`")).collect();
                Some(match names.as_slice() {
                    [] => "the file holds no tensors".to_owned(),
                    [name] => format!("the nearest name is {name}"),
                    _ => format!("the nearest names are {}", names.join(", ")),
                })
            }
            _ => None,
        }
    }

    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }

    /// What is wrong with a model file, as an error of this crate.
    pub(crate) fn of_file(error: FileError) -> Self {
        match error {
            FileError::Io { path, source, .. }
            | FileError::Header { path, source: HeaderError::Io(source) } => Self::Io { path, source },
            FileError::Header { path, source: HeaderError::Invalid { end, reason } } => {
                Self::NotSafetensors { path, header_end: end, reason }
            }
            FileError::Header { path, source: HeaderError::WrongLength { found, needed } } => {
                Self::WrongLength { path, found, needed }
            }
            FileError::NoTensor { path, tensor, nearest } => Self::NoSuchTensor { path, tensor, nearest },
            error => Self::Compressed(Box::new(error)),
        }
    }

    /// What a JSON parser complains about, without the place.
    pub(crate) fn json_reason(error: &serde_json::Error) -> String {
        let place = format!(" at line {} column {}", error.line(), error.column());
        error.to_string().trim_end_matches(&place).to_owned()
    }
}
