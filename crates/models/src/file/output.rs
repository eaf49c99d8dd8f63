//! Files that appear under their names when they are complete and on the disk, or not at all.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempPath;

use crate::file::FileError;

/// What a staged file is called until it is complete.
pub const STAGED: &str = ".zipwire-staged-";

/// A file that is being written beside the place where it will be. Dropped, it is gone.
#[derive(Debug)]
pub struct Output {
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
    pub fn begin(path: &Path, force: bool) -> Result<Self, FileError> {
        refuse_existing(path, force)?;
        let (file, staged) = stage(path).map_err(FileError::io("create", path))?;
        Ok(Self { path: path.to_owned(), file, staged, force })
    }

    /// The file, to be written.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Puts it on the disk, then in its place, then the folder on the disk.
    ///
    /// # Errors
    /// If the system refuses any of it, or there is such a file by now.
    pub fn finish(self) -> Result<(), FileError> {
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

/// Only with `force` may there be something already.
///
/// # Errors
/// [`FileError::Exists`].
pub(crate) fn refuse_existing(path: &Path, force: bool) -> Result<(), FileError> {
    if !force && path.symlink_metadata().is_ok() {
        return Err(FileError::Exists { path: path.to_owned() });
    }
    Ok(())
}

/// A new file in the folder of `path`, with the rights that files of this user have; to be given that name when it is complete.
///
/// # Errors
/// If the folder takes no files. The error does not name the staged file, which is not the user's.
pub fn stage(path: &Path) -> io::Result<(File, TempPath)> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(STAGED);
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let staged = builder.tempfile_in(folder(path));
    let staged = staged.map_err(|error| error.raw_os_error().map_or(error, io::Error::from_raw_os_error));
    Ok(staged?.into_parts())
}

/// The folder that a file is in.
pub fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Puts the names in a folder on the disk.
///
/// # Errors
/// If the system refuses.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    // Elsewhere folders cannot be opened.
    if cfg!(unix) { fs::File::open(folder)?.sync_all() } else { Ok(()) }
}
