//! The file layer: every call by which results become durable goes through [`Storage`], so that a test can let the n-th one
//! fail, or end the process there, for all n.
//!
//! It is no virtual file system: inputs, which are only read, do not go through it.

#[cfg(test)]
pub(crate) mod simulated;
mod system;

pub(crate) use system::System;

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Read, Seek, Write};
use std::path::Path;

/// What stands at a path; links are not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A file, with its length in bytes.
    File(u64),
    /// A folder.
    Folder,
    /// A link, a device, a pipe.
    Other,
}

/// A lock on a file, given back when it is dropped. It ends with the process that holds it, however that ends.
pub(crate) trait Lock: fmt::Debug + Send + Sync {}

/// An open file.
pub(crate) trait StoredFile: Read + Write + Seek + fmt::Debug + Send {
    /// Returns when everything that was written is on the device.
    fn sync(&self) -> io::Result<()>;
    /// Cuts the file off, or extends it with zeros.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Bytes.
    fn len(&self) -> io::Result<u64>;
}

/// Folders and files.
///
/// What a power failure leaves: of a file, what was written before its last [`sync`](StoredFile::sync), and anything of the rest; of a
/// folder, the names as of its last [`sync_folder`](Self::sync_folder), and of later changes any. One rename happens as a whole or not at all.
pub(crate) trait Storage: fmt::Debug + Send + Sync {
    /// What stands at `path`; `None` if nothing does.
    fn entry(&self, path: &Path) -> io::Result<Option<Entry>>;
    /// The names in a folder, in no order.
    fn names(&self, folder: &Path) -> io::Result<Vec<OsString>>;
    /// Opens a file that is there, for reading.
    fn read(&self, path: &Path) -> io::Result<Box<dyn StoredFile>>;
    /// Opens a file, empty, for writing; what was there is lost.
    fn create(&self, path: &Path) -> io::Result<Box<dyn StoredFile>>;
    /// Opens a file for reading and for writing at its end; it is created if it is not there.
    fn append(&self, path: &Path) -> io::Result<Box<dyn StoredFile>>;
    /// Gives a file another name; what has that name is replaced, unless it is a folder.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Creates a folder in one that is there.
    fn create_folder(&self, path: &Path) -> io::Result<()>;
    /// Removes an empty folder.
    fn remove_folder(&self, path: &Path) -> io::Result<()>;
    /// Returns when all names in a folder are on the device.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;
    /// Locks a file, which is created if it is not there, against every other process on every machine that sees it. `None` if
    /// another one holds it.
    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Lock>>>;
}
