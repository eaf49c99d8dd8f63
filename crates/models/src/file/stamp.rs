//! Noticing that a file changes while it is read.

use std::fs::File;
use std::path::Path;
use std::time::SystemTime;

use crate::file::FileError;

/// Length and time of the last change of a file, as they were when reading began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    bytes: u64,
    /// `None` where the system has no such times.
    modified: Option<SystemTime>,
}

impl Stamp {
    /// Reads them of the file at this moment.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn of(file: &File, path: &Path) -> Result<Self, FileError> {
        let metadata = file.metadata().map_err(FileError::io("read", path))?;
        Ok(Self { bytes: metadata.len(), modified: metadata.modified().ok() })
    }

    pub(crate) fn bytes(self) -> u64 {
        self.bytes
    }

    /// Compares them with those of the file now.
    ///
    /// # Errors
    /// [`FileError::Changed`] if they differ.
    pub fn check(self, file: &File, path: &Path) -> Result<(), FileError> {
        if Self::of(file, path)? == self { Ok(()) } else { Err(FileError::Changed { path: path.to_owned() }) }
    }
}
