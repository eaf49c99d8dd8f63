//! Folders of files that appear as a whole.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::FileError;
use crate::output::{Output, STAGED, folder, sync_folder};

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
    if !force && to.symlink_metadata().is_ok() {
        return Err(FileError::Exists { path: to.to_owned() }.into());
    }
    let create = FileError::io("create", to);
    let staged = tempfile::Builder::new().prefix(STAGED).tempdir_in(folder(to)).map_err(&create)?;
    let root = staged.path().join("folder");
    for file in files_below(from)? {
        let within = file.strip_prefix(from).unwrap_or(&file);
        let copy = root.join(within);
        fs::create_dir_all(folder(&copy)).map_err(&create)?;
        if !make(&file, &copy)? {
            copy_file(&file, &copy)?;
        }
    }
    fs::create_dir_all(&root).map_err(&create)?;
    sync_all_folders(&root).map_err(&create)?;
    if to.symlink_metadata().is_ok() {
        // The old one is removed with the staged folder, at the end: a crash between the two renames leaves it there.
        fs::rename(to, staged.path().join("before")).map_err(&create)?;
    }
    fs::rename(&root, to).map_err(&create)?;
    sync_folder(folder(to)).map_err(&create)?;
    Ok(())
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
    let mut source = crate::open_input(from).map_err(FileError::io("read", from))?;
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
