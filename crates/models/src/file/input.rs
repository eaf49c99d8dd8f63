//! Input files: regular ones.

use std::fs::{self, File};
use std::io;
use std::path::Path;

/// Opens an input file.
///
/// # Errors
/// If the system refuses, or if it is a pipe, a socket or a device: that is known without opening it, which could wait for ever.
pub fn open_input(path: &Path) -> io::Result<File> {
    let kind = fs::metadata(path)?.file_type();
    if !kind.is_file() && !kind.is_dir() {
        let reason = "it is a pipe or a device, and inputs are files: write what it gives to one first";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    }
    File::open(path)
}

/// An empty buffer with room for so many bytes.
///
/// # Errors
/// If the system has no memory for it.
pub fn buffer(bytes: u64) -> io::Result<Vec<u8>> {
    let mut buffer = Vec::new();
    let room = usize::try_from(bytes).ok().and_then(|bytes| buffer.try_reserve_exact(bytes).ok());
    let refused = || {
        let reason = format!("the system refuses {bytes} bytes of memory for it");
        io::Error::new(io::ErrorKind::OutOfMemory, reason)
    };
    room.map(|()| buffer).ok_or_else(refused)
}
