//! Errors of stores: each names the place and the remedy.

use std::path::PathBuf;

use crate::file::{FileError, help_for_version};
use zipwire_codec::SpecError;

use crate::store::Address;

/// Why something is not stored, restored, listed or removed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "fields are named by the messages")]
pub enum StoreError {
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    #[error("`{}` is not a store: it has no file `zipwire-store.json`\nhelp: `zipwire store init` makes one", path.display())]
    NotStore { path: PathBuf },
    #[error("`{}` is there already, and it has `{found}`\nhelp: a store takes a folder of its own", path.display())]
    NotEmpty { path: PathBuf, found: String },
    #[error("`{}` is a store already", path.display())]
    IsStore { path: PathBuf },
    #[error("`{}` has version {found} of the format of stores, and this program reads {known}\nhelp: {}", path.display(), help_for_version(*found, *known))]
    Version { path: PathBuf, found: u64, known: u64 },
    #[error("`{}` is being written by {}\nhelp: wait until it has ended; who reads need not wait", path.display(), holder(*pid))]
    Locked {
        path: PathBuf,
        /// The process, if it has said which it is.
        pid: Option<u32>,
    },
    #[error(
        "`{id}` is no name of a checkpoint\nhelp: names are 1 to 128 letters, digits, `.`, `-` and `_`, and begin with no `.`"
    )]
    BadId { id: String },
    #[error("there is a checkpoint `{id}` already\nhelp: give another `--id`")]
    IdTaken { id: String },
    #[error("`{}` has no checkpoint `{id}`{}", path.display(), nearest_ids(nearest))]
    NoCheckpoint { path: PathBuf, id: String, nearest: Vec<String> },
    #[error("checkpoint `{id}` was removed while it was read")]
    Removed { id: String },
    #[error("`{}` is damaged: {what}", path.display())]
    Manifest { path: PathBuf, what: String },
    /// Nothing is removed while it is not known what all checkpoints need.
    #[error(
        "{source}\nhelp: nothing was removed, as it is not known which objects it needs; remove that file if the checkpoint is to go"
    )]
    Blocked { source: Box<StoreError> },
    /// An object is not what was written, or is gone.
    #[error("object {address} is damaged: {what}")]
    Object { address: Address, what: String },
    #[error(
        "`{tensor}` of `{file}` in checkpoint `{id}`: {source}\nhelp: `zipwire store verify` says what else is damaged"
    )]
    Damaged {
        id: String,
        file: String,
        /// Name of the tensor, or `the header`, or `the file`.
        tensor: String,
        source: Box<StoreError>,
    },
    #[error("there are no files in what is to be stored")]
    NoFiles,
    #[error("`{}` cannot be stored: {why}", path.display())]
    BadPath { path: PathBuf, why: &'static str },
    #[error(
        "two of the files are called `{path}`\nhelp: a folder is stored with the names that its files have in it"
    )]
    SamePath { path: String },
    #[error("`{}` was changed while it was read\nhelp: store it when it is complete", path.display())]
    Changed { path: PathBuf },
    #[error("codec `{spec}`: {source}")]
    Codec { spec: String, source: SpecError },
    #[error("chains have 1 to {most} objects, and not {found}")]
    Chain { found: usize, most: usize },
}

impl StoreError {
    pub(crate) fn object(address: Address, what: impl Into<String>) -> Self {
        Self::Object { address, what: what.into() }
    }
}

fn holder(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}

fn nearest_ids(nearest: &[String]) -> String {
    if nearest.is_empty() {
        return "\nhelp: it has none; `zipwire store add` adds them".to_owned();
    }
    let names: Vec<String> = nearest.iter().map(|name| format!("`{name}`")).collect();
    format!("\nhelp: it has {}", names.join(", "))
}
