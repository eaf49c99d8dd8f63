//! Files that appear under their names when they are complete and on the disk, or not at all.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempPath;

use crate::FileError;

/// What a staged file is called until it is complete.
pub const STAGED: &str = ".zipwire-staged-";

/// A file that is being written beside the place where it will be. Dropped, it is gone.
#[derive(Debug)]
pub(crate) struct Output {
    path: PathBuf,
    file: File,
    staged: TempPath,
    force: bool,
}

impl Output {
    /// Begins a file that will be `path`. Only with `force` may there be one.
    ///
    /// # Errors
    /// [`FileError::Exists`], and if the folder takes no files.
    pub(crate) fn begin(path: &Path, force: bool) -> Result<Self, FileError> {
        if !force && path.symlink_metadata().is_ok() {
            return Err(FileError::Exists { path: path.to_owned() });
        }
        let mut builder = tempfile::Builder::new();
        builder.prefix(STAGED);
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let staged = builder.tempfile_in(folder(path));
        // The staged file is not the user's, so an error does not name it.
        let staged = staged.map_err(|error| error.raw_os_error().map_or(error, io::Error::from_raw_os_error));
        let (file, staged) = staged.map_err(FileError::io("create", path))?.into_parts();
        Ok(Self { path: path.to_owned(), file, staged, force })
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Puts it on the disk, then in its place, then the folder on the disk.
    ///
    /// # Errors
    /// If the system refuses any of it, or there is such a file by now.
    pub(crate) fn finish(self) -> Result<(), FileError> {
        let Self { path, file, staged, force } = self;
        file.sync_all().map_err(FileError::io("write", &path))?;
        drop(file);
        let placed = if force { staged.persist(&path) } else { staged.persist_noclobber(&path) };
        placed.map_err(|error| match error.error.kind() {
            io::ErrorKind::AlreadyExists => FileError::Exists { path: path.clone() },
            _ => FileError::Io { action: "create", path: path.clone(), source: error.error },
        })?;
        sync_folder(folder(&path)).map_err(FileError::io("write the folder of", &path))
    }
}

/// The folder that a file is in.
pub(crate) fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Puts the names in a folder on the disk.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    // Elsewhere folders cannot be opened.
    if cfg!(unix) { fs::File::open(folder)?.sync_all() } else { Ok(()) }
}
