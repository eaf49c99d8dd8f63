//! Why an output folder has no new result.

use std::io;
use std::path::PathBuf;

/// The output folder cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// It cannot be created or written, known before anything was computed.
    #[error("cannot write to output folder `{}`: {source}\nhelp: choose a writable one with `--out`", folder.display())]
    Refused {
        /// The folder.
        folder: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// Another process is at it.
    #[error(
        "another process writes to output folder `{}`\nhelp: wait until it has ended, or choose another folder with `--out`",
        .0.display()
    )]
    Busy(PathBuf),
    /// A folder stands where a file of the result belongs.
    #[error("`{}` is a folder, and a result has a file there\nhelp: move it away, or choose another folder with `--out`", .0.display())]
    Occupied(PathBuf),
    /// A file stands where one of the result belongs, and no run has left it so.
    #[error(
        "`{}` is not as a run has left it, and a result would replace it\nhelp: move it away, or choose another folder with `--out`",
        .0.display()
    )]
    Foreign(PathBuf),
    /// A process was killed while it put its results into the folder, and what it noted about them cannot be read.
    #[error(
        "`{}` should say which files an interrupted run was about to put here, and cannot be read: {reason}\n\
         help: remove its folder, and the results that are beside it",
        path.display()
    )]
    Unreadable {
        /// The note.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A file cannot be written in full. What was in the folder before still is.
    #[error("cannot write to output folder `{}`: {source}\nhelp: choose a writable one with `--out`", folder.display())]
    Write {
        /// The folder.
        folder: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The system failed while the old result was being replaced.
    #[error(
        "cannot replace the result in output folder `{}`: {source}\n\
         help: it holds no result now; the same command makes it again",
        folder.display()
    )]
    Replace {
        /// The folder.
        folder: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
}

impl OutputError {
    /// Whether the folder could not be used from the start, rather than failing later, on a full disk for instance.
    pub fn is_refused(&self) -> bool {
        match self {
            Self::Refused { .. }
            | Self::Busy(_)
            | Self::Occupied(_)
            | Self::Foreign(_)
            | Self::Unreadable { .. } => true,
            Self::Write { .. } | Self::Replace { .. } => false,
        }
    }
}
