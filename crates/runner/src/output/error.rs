//! Errors of output folders.
#![allow(missing_docs, reason = "fields are named by the messages")]

use std::io;
use std::path::PathBuf;

/// An output folder has no new result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// It cannot be created or written, known before anything was computed.
    #[error("cannot write to output folder `{}`: {source}\nhelp: choose a writable one with `--out`", folder.display())]
    Refused { folder: PathBuf, source: io::Error },
    #[error(
        "another process writes to output folder `{}`\nhelp: wait until it has ended, or choose another folder with `--out`",
        .0.display()
    )]
    Busy(PathBuf),
    #[error("`{}` is a folder, and a result has a file there\nhelp: move it away, or choose another folder with `--out`", .0.display())]
    Occupied(PathBuf),
    /// A file stands where one of the result belongs, and no run has left it so.
    #[error(
        "`{}` is not as a run has left it, and a result would replace it\nhelp: move it away, or choose another folder with `--out`",
        .0.display()
    )]
    Foreign(PathBuf),
    /// A manifest is damaged, so nobody knows which files are those of a run.
    #[error(
        "`{}` should list the files of a result, and cannot be read: {reason}\n\
         help: move it away, and the files that are beside it, or choose another folder with `--out`",
        path.display()
    )]
    Unreadable { path: PathBuf, reason: String },
    /// A file cannot be written in full. The folder is as it was before.
    #[error("cannot write to output folder `{}`: {source}\nhelp: choose a writable one with `--out`", folder.display())]
    Write { folder: PathBuf, source: io::Error },
    /// The system failed while the old result was being replaced.
    #[error(
        "cannot replace the result in output folder `{}`: {source}\n\
         help: the new one is complete in its folder `.zipwire/ready`; the next command that writes there puts it into place first",
        folder.display()
    )]
    Replace { folder: PathBuf, source: io::Error },
}

impl OutputError {
    /// Whether the folder could not be used from the start, rather than failing later, on a full disk for instance.
    pub fn is_refused(&self) -> bool {
        !matches!(self, Self::Write { .. } | Self::Replace { .. })
    }
}
