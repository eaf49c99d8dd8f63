//! Staged files and folders: results that are not complete, beside their places, locked by the process that writes them.
//!
//! A lock ends with its process, however that ends. So a staged file that nobody has locked was left over, and is removed.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use tempfile::{TempDir, TempPath};

/// Prefix of the names of files and folders that are not complete.
pub const STAGED: &str = ".zipwire-staged-";
/// Letters and digits behind it.
const RANDOM_LETTERS: usize = 6;
/// Name of the one thing in a staged folder.
const WITHIN: &str = "folder";
/// Attempts to make one while others remove it as left over.
const TRIES: usize = 100;

/// A folder that will be moved, or its files, in one that nobody else can look into. Dropped, it is gone.
#[derive(Debug)]
pub(super) struct StagedFolder {
    outer: TempDir,
    /// Open as long as the process works on it.
    _lock: Option<File>,
}

impl StagedFolder {
    /// Makes one in `folder`.
    pub(super) fn begin(folder: &Path) -> io::Result<Self> {
        for _ in 0..TRIES {
            let mut builder = tempfile::Builder::new();
            builder.prefix(STAGED).rand_bytes(RANDOM_LETTERS);
            #[cfg(unix)]
            builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
            let outer = builder.tempdir_in(folder).map_err(nameless)?;
            let lock = if cfg!(unix) { Some(File::open(outer.path())?) } else { None };
            if lock.as_ref().map_or(Ok(true), |lock| holds(lock, outer.path()))? {
                fs::create_dir(outer.path().join(WITHIN))?;
                return Ok(Self { outer, _lock: lock });
            }
        }
        Err(io::Error::other("other processes remove what is staged there"))
    }

    /// The folder, to be filled.
    pub(super) fn root(&self) -> PathBuf {
        self.outer.path().join(WITHIN)
    }
}

/// Makes a staged file in `folder`, created with the rights `mode`. The file is locked while it is open.
pub(super) fn file_in(folder: &Path, mode: u32) -> io::Result<(File, TempPath)> {
    for _ in 0..TRIES {
        let mut builder = tempfile::Builder::new();
        builder.prefix(STAGED).rand_bytes(RANDOM_LETTERS);
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(mode));
        #[cfg(not(unix))]
        let _ = mode;
        let (file, path) = builder.tempfile_in(folder).map_err(nameless)?.into_parts();
        if holds(&file, &path)? {
            return Ok((file, path));
        }
    }
    Err(io::Error::other("other processes remove what is staged there"))
}

/// An error without the name of the staged file, which is not the user's.
fn nameless(error: io::Error) -> io::Error {
    error.raw_os_error().map_or(error, io::Error::from_raw_os_error)
}

/// Locks what was just made; `false` if another process has removed it as left over, or is about to.
fn holds(file: &File, path: &Path) -> io::Result<bool> {
    if !cfg!(unix) {
        // Nothing is removed there, and locks keep others from reading.
        return Ok(true);
    }
    match file.try_lock() {
        Err(fs::TryLockError::WouldBlock) => Ok(false),
        // Where the file system has no locks, nobody takes one to remove it.
        Ok(()) | Err(fs::TryLockError::Error(_)) => is_at(file, path),
    }
}

/// Whether an open file is the one that is found at `path`.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;

    let own = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(found) => Ok((own.dev(), own.ino()) == (found.dev(), found.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Always: open files cannot be removed there.
#[cfg(not(unix))]
fn is_at(_: &File, _: &Path) -> io::Result<bool> {
    Ok(true)
}

/// Whether a name is that of a staged file or folder.
pub(super) fn is_staged(name: &OsStr) -> bool {
    let letters = name.to_str().and_then(|name| name.strip_prefix(STAGED));
    letters.is_some_and(|letters| {
        letters.len() == RANDOM_LETTERS && letters.bytes().all(|letter| letter.is_ascii_alphanumeric())
    })
}

/// Removes from a folder what processes have left that are gone, once for each folder. What cannot be removed stays.
pub(super) fn sweep(folder: &Path) {
    static SWEPT: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    if !SWEPT.lock().unwrap_or_else(PoisonError::into_inner).insert(folder.to_owned()) {
        return;
    }
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten().filter(|entry| is_staged(&entry.file_name())) {
        let _ = remove_left_over(&entry.path());
    }
}

/// Removes a staged file or folder of this user if nobody has it locked: no link, and no folder with anything else than staged folders have.
#[cfg(unix)]
fn remove_left_over(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

    let metadata = fs::symlink_metadata(path)?;
    if metadata.uid() != rustix::process::geteuid().as_raw() || !(metadata.is_file() || metadata.is_dir()) {
        return Ok(());
    }
    let mut options = fs::OpenOptions::new();
    options.read(true).write(metadata.is_file());
    let file = options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed()).open(path)?;
    if file.try_lock().is_err() || !is_at(&file, path)? {
        return Ok(());
    }
    if metadata.is_file() {
        return fs::remove_file(path);
    }
    for entry in fs::read_dir(path)? {
        if entry?.file_name() != WITHIN {
            return Ok(());
        }
    }
    fs::remove_dir_all(path)
}

/// Nothing: it is not known there who has left a file.
#[cfg(not(unix))]
fn remove_left_over(_: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_staged_files_are_known() {
        assert!(is_staged(OsStr::new(".zipwire-staged-aB3xYz")));
        for name in
            [".zipwire-staged-", ".zipwire-staged-abcdefg", ".zipwire-staged-ab.def", "zipwire-staged-abcdef"]
        {
            assert!(!is_staged(OsStr::new(name)), "{name}");
        }
    }
}
