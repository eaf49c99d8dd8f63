//! The file layer of results and journals: every call that changes the disk goes through [`Storage`], so that a test can let the
//! n-th one fail, or end the process there, for all n.
//!
//! It is no virtual file system: inputs, which are only read, do not go through it.

#[cfg(test)]
pub(crate) mod simulated;

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::Path;

/// Kind of a directory entry; links are not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A regular file and its length in bytes.
    File(u64),
    Folder,
    /// A link, a device, a pipe.
    Other,
}

/// Mode in which a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Open {
    Read,
    /// For writing; created if missing, emptied otherwise.
    Create,
    /// For reading, and writing at the end; created if missing.
    Append,
}

/// Lock on a file, released when dropped, and by the system when its process ends.
pub(crate) trait Lock: fmt::Debug + Send + Sync {}

pub(crate) trait StoredFile: Read + Write + Seek + fmt::Debug + Send {
    /// Returns when everything that was written is on the device.
    fn sync(&self) -> io::Result<()>;
    fn set_len(&self, len: u64) -> io::Result<()>;
}

/// Folders and files.
///
/// After a power failure a file has what was written before its last [`sync`](StoredFile::sync) and any part of the rest; a folder has the
/// names as of its last [`sync_folder`](Self::sync_folder) and any of the later changes. A rename happens as a whole or not at all.
pub(crate) trait Storage: fmt::Debug + Send + Sync {
    /// The entry at `path`; `None` if there is none.
    fn entry(&self, path: &Path) -> io::Result<Option<Entry>>;
    /// The names in a folder, in no order.
    fn names(&self, folder: &Path) -> io::Result<Vec<OsString>>;
    fn open(&self, path: &Path, mode: Open) -> io::Result<Box<dyn StoredFile>>;
    /// Renames a file or folder; a file at `to` is replaced.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    fn create_folder(&self, path: &Path) -> io::Result<()>;
    fn remove_folder(&self, path: &Path) -> io::Result<()>;
    /// Returns when all names in a folder are on the device.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;
    /// Creates and locks a file, against every process on every machine that sees it. `None` if another one holds it, or has just
    /// removed it.
    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Lock>>>;
}

/// The file system of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct System;

impl Lock for File {}

impl StoredFile for File {
    fn sync(&self) -> io::Result<()> {
        self.sync_all()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        Self::set_len(self, len)
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

    fn open(&self, path: &Path, mode: Open) -> io::Result<Box<dyn StoredFile>> {
        let mut options = OpenOptions::new();
        let options = match mode {
            Open::Read => options.read(true),
            Open::Create => without_links(options.write(true).create(true).truncate(true)),
            Open::Append => without_links(options.read(true).append(true).create(true)),
        };
        Ok(Box::new(options.open(path)?))
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

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        if cfg!(not(unix)) {
            // Folders cannot be opened there.
            return Ok(());
        }
        match File::open(path)?.sync_all() {
            // File systems of networks may have no such call, and say so.
            Err(error)
                if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) =>
            {
                Ok(())
            }
            synced => synced,
        }
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Lock>>> {
        let mut options = OpenOptions::new();
        let file = without_links(options.write(true).create(true).truncate(false)).open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => {
                let message = format!("its file system refuses a lock: {error}");
                return Err(io::Error::new(error.kind(), message));
            }
        }
        // The holder before may have removed the file since it was opened here: then nobody else finds the one that is locked.
        Ok(if is_at(&file, path)? { Some(Box::new(file)) } else { None })
    }
}

/// Opens no file that a symbolic link leads to: it would be one of others that is written.
fn without_links(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        options,
        rustix::fs::OFlags::NOFOLLOW.bits().cast_signed(),
    );
    options
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
