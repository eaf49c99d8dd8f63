//! Errors of recordings and traces.

#![allow(missing_docs, reason = "fields are named by the messages")]

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;
use zipwire_models::file::{FileError, HeaderError};

/// Why a recording could not be read. Every variant names the file and the place in it.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TraceError {
    #[error("cannot read `{path}`: {source}")]
    Io { path: PathBuf, source: io::Error },
    #[error("`{path}` is not a safetensors file: {reason} (in the header, bytes 0 to {header_end})")]
    NotSafetensors { path: PathBuf, header_end: u64, reason: String },
    /// The header is valid but the data is shorter or longer than it says.
    #[error("`{path}` has `{found}` bytes where its header describes `{needed}`")]
    WrongLength { path: PathBuf, found: u64, needed: u64 },
    #[error("`{path}` has no tensor `{tensor}`")]
    NoSuchTensor { path: PathBuf, tensor: String, nearest: Vec<String> },
    /// A compressed file that is damaged, of another version, or has differences from another file.
    #[error(transparent)]
    Compressed(Box<FileError>),
    #[error("tensor `{tensor}` of `{path}` holds `{found}` values where `{needed}` is needed")]
    WrongDtype { path: PathBuf, tensor: String, found: String, needed: &'static str },
    #[error("tensor `{tensor}` of `{path}` is empty: its shape is `{shape:?}`")]
    EmptyTensor { path: PathBuf, tensor: String, shape: Vec<usize> },
    #[error("`{path}` line {line} column {column}: {reason}")]
    BadJsonl {
        path: PathBuf,
        line: u64,
        /// Column in bytes, from 1; the line's first when the record as a whole is wrong.
        column: usize,
        reason: String,
    },
    #[error("`{path}` line {line} column `{column}`: {reason}")]
    BadCsv {
        path: PathBuf,
        /// Line, from 1; the header is line 1.
        line: u64,
        column: String,
        reason: String,
    },
    #[error("`{path}` ends too early, at line {line} column {column}")]
    Truncated { path: PathBuf, line: usize, column: usize },
    #[error("`{path}` line {line} column {column} is not JSON: {reason}")]
    NotJson { path: PathBuf, line: usize, column: usize, reason: String },
    #[error("`{path}` is not a timeline of zipwire: {place}: {reason}")]
    NotTimeline { path: PathBuf, place: String, reason: String },
    #[error("`{path}` holds no records")]
    NoRecords { path: PathBuf },
}

impl TraceError {
    /// The remedy, where it is known.
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

    /// Message of a JSON parser, without the place.
    pub(crate) fn json_reason(error: &serde_json::Error) -> String {
        let place = format!(" at line {} column {}", error.line(), error.column());
        error.to_string().trim_end_matches(&place).to_owned()
    }
}
