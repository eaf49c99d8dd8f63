//! Errors of stores: each names the place and the remedy.

use std::path::PathBuf;

use crate::file::{FileError, help_for_version};
use zipwire_codec::SpecError;

use crate::store::{Address, Pruned};

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
    #[error("checkpoint `{id}` is pinned\nhelp: `zipwire store unpin` lets it go")]
    Pinned { id: String },
    /// A file or folder of a store that leads elsewhere: whoever writes would change what is there.
    #[error(
        "`{}` is a symbolic link, and a store has none of its own\nhelp: put what it leads to in its place; the store itself may be behind a link",
        path.display()
    )]
    Link { path: PathBuf },
    #[error("`{}` is damaged: {what}", path.display())]
    Manifest { path: PathBuf, what: String },
    /// Nothing is removed while it is not known what all checkpoints need.
    #[error(
        "{source}\nhelp: nothing was removed, as it is not known which objects it needs; `zipwire store rm` removes that checkpoint if it is to go"
    )]
    Blocked { source: Box<StoreError> },
    /// Checkpoints are removed, and not all of what they leave.
    #[error(
        "{source}\nhelp: {done}; checkpoints that are left are whole, and the next `prune` or `rm` goes on from here"
    )]
    Unfinished {
        /// Counts of what was done.
        done: Box<Pruned>,
        source: Box<StoreError>,
    },
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
    #[error(
        "`{}` names `{shard}`{}, which is not among the files\nhelp: store it when all shards are there, or as it is by `--allow-missing`",
        index.display(),
        and_more(*more)
    )]
    MissingShard {
        index: PathBuf,
        shard: String,
        /// Other files that it names and that are not there.
        more: usize,
    },
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

    /// Whether an object is not what was written, and not only out of reach now.
    pub(crate) fn is_damage(&self) -> bool {
        matches!(self, Self::Object { .. } | Self::Version { .. })
    }

    /// Whether the disk, or what the user may take of it, is full.
    pub(crate) fn is_full(&self) -> bool {
        use std::io::ErrorKind::{QuotaExceeded, StorageFull};
        matches!(self, Self::File(FileError::Io { source, .. }) if matches!(source.kind(), StorageFull | QuotaExceeded))
    }
}

fn and_more(more: usize) -> String {
    if more == 0 { String::new() } else { format!(" and {more} more") }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_known() {
        let error = |kind: std::io::ErrorKind| -> StoreError {
            FileError::io("write", std::path::Path::new("x"))(kind.into()).into()
        };
        assert!(error(std::io::ErrorKind::StorageFull).is_full());
        assert!(error(std::io::ErrorKind::QuotaExceeded).is_full());
        assert!(!error(std::io::ErrorKind::NotFound).is_full());
    }
}
