//! The file system of the machine.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;

use super::{Entry, Lock, Storage, StoredFile};

/// How often a lock is tried whose file others remove at the same time.
const LOCK_TRIES: usize = 100;

/// `std::fs`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct System;

/// An open file that is locked.
#[derive(Debug)]
struct LockedFile {
    /// Closing it gives the lock back.
    _file: File,
}

impl Lock for LockedFile {}

impl StoredFile for File {
    fn sync(&self) -> io::Result<()> {
        self.sync_all()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        Self::set_len(self, len)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}

impl Storage for System {
    fn entry(&self, path: &Path) -> io::Result<Option<Entry>> {
        match fs::symlink_metadata(path) {
            Ok(metadata) if metadata.is_file() => Ok(Some(Entry::File(metadata.len()))),
            Ok(metadata) if metadata.is_dir() => Ok(Some(Entry::Folder)),
            Ok(_) => Ok(Some(Entry::Other)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn names(&self, folder: &Path) -> io::Result<Vec<OsString>> {
        fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name())).collect()
    }

    fn read(&self, path: &Path) -> io::Result<Box<dyn StoredFile>> {
        Ok(Box::new(File::open(path)?))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn StoredFile>> {
        Ok(Box::new(File::create(path)?))
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn StoredFile>> {
        Ok(Box::new(OpenOptions::new().read(true).append(true).create(true).open(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn create_folder(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(path)
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    #[cfg(unix)]
    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        match File::open(path)?.sync_all() {
            // Some file systems, of networks mostly, have nothing to be told here, and say so.
            Err(error)
                if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) =>
            {
                Ok(())
            }
            synced => synced,
        }
    }

    /// Folders cannot be opened elsewhere.
    #[cfg(not(unix))]
    fn sync_folder(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Lock>>> {
        for _ in 0..LOCK_TRIES {
            let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => {
                    return Err(io::Error::new(
                        error.kind(),
                        format!("its file system refuses a lock: {error}"),
                    ));
                }
            }
            // Whoever held it before may have removed the file meanwhile: then this lock is on a file that nobody else finds.
            if is_at(&file, path)? {
                return Ok(Some(Box::new(LockedFile { _file: file })));
            }
        }
        Ok(None)
    }
}

/// Whether an open file is the one that stands at `path`.
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

/// Open files cannot be removed elsewhere.
#[cfg(not(unix))]
fn is_at(_: &File, _: &Path) -> io::Result<bool> {
    Ok(true)
}
