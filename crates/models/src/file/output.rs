//! Files and folders that appear under their names when they are complete and on the disk, or not at all.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

#[cfg(target_os = "linux")]
use rustix::fs::{CWD, RenameFlags};
use tempfile::{TempDir, TempPath};

use crate::file::FileError;

/// Prefix of the names of files and folders that are not complete.
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
fn refuse_existing(path: &Path, force: bool) -> Result<(), FileError> {
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

/// Makes the folder `to` of the files of `from`, with their folders. `make` is given each file and the path that its copy has; where it says
/// that it has not made one, the file is copied. The folder appears when all of it is on the disk, or not at all.
///
/// # Errors
/// [`FileError::Exists`] if there is such a folder, and `force` does not let it be replaced; of `make`; if the system refuses something.
pub fn mirror<E: From<FileError>>(
    from: &Path,
    to: &Path,
    force: bool,
    mut make: impl FnMut(&Path, &Path) -> Result<bool, E>,
) -> Result<(), E> {
    let staged = OutputFolder::begin(to, force)?;
    for file in files_below(from)? {
        let within = file.strip_prefix(from).unwrap_or(&file);
        let copy = staged.root().join(within);
        fs::create_dir_all(folder(&copy)).map_err(FileError::io("create", to))?;
        if !make(&file, &copy)? {
            copy_file(&file, &copy)?;
        }
    }
    Ok(staged.finish()?)
}

/// A folder that is being filled beside the place where it will be. Dropped, it is gone.
#[derive(Debug)]
pub struct OutputFolder {
    path: PathBuf,
    root: PathBuf,
    staged: TempDir,
}

impl OutputFolder {
    /// Begins a folder that will be `path`. Only with `force` may there be one.
    ///
    /// # Errors
    /// [`FileError::Exists`], and if the folder that it will be in takes none.
    pub fn begin(path: &Path, force: bool) -> Result<Self, FileError> {
        refuse_existing(path, force)?;
        let create = FileError::io("create", path);
        let staged = tempfile::Builder::new().prefix(STAGED).tempdir_in(folder(path)).map_err(&create)?;
        let root = staged.path().join("folder");
        fs::create_dir(&root).map_err(&create)?;
        Ok(Self { path: path.to_owned(), root, staged })
    }

    /// The folder, to be filled with files that are on the disk.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Puts the names in it on the disk, then the folder in its place.
    ///
    /// # Errors
    /// If the system refuses any of it.
    pub fn finish(self) -> Result<(), FileError> {
        let Self { path, root, staged } = self;
        let create = FileError::io("create", &path);
        sync_all_folders(&root).map_err(&create)?;
        // One that was there is in the staged folder then, and removed with it.
        put(&root, &path, &staged.path().join("before")).map_err(&create)?;
        sync_folder(folder(&path)).map_err(&create)
    }
}

/// Puts a folder in its place. What is there goes to `before`, or to where the folder was: in one step, where the system has one.
fn put(root: &Path, to: &Path, before: &Path) -> io::Result<()> {
    if to.symlink_metadata().is_ok() {
        #[cfg(target_os = "linux")]
        if rustix::fs::renameat_with(CWD, root, CWD, to, RenameFlags::EXCHANGE).is_ok() {
            return Ok(());
        }
        // File systems need not have it. A crash between the two renames leaves the old folder within the staged one.
        fs::rename(to, before)?;
    }
    fs::rename(root, to)
}

/// All files below a folder, in the order of their names.
///
/// # Errors
/// If a folder cannot be read.
pub fn files_below(from: &Path) -> Result<Vec<PathBuf>, FileError> {
    let read = FileError::io("read folder", from);
    let (mut files, mut folders) = (Vec::new(), vec![from.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(&read)? {
            let path = entry.map_err(&read)?.path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    Ok(files)
}

fn copy_file(from: &Path, to: &Path) -> Result<(), FileError> {
    let mut source = crate::file::open_input(from).map_err(FileError::io("read", from))?;
    let copy = Output::begin(to, false)?;
    io::copy(&mut source, &mut copy.file()).map_err(FileError::io("copy", from))?;
    copy.finish()
}

fn sync_all_folders(root: &Path) -> io::Result<()> {
    for entry in fs::read_dir(root)? {
        let path = entry?.path();
        if path.is_dir() {
            sync_all_folders(&path)?;
        }
    }
    sync_folder(root)
}
