//! Input files: regular ones, of a length that can be read.
//!
//! A pipe or a device may never give a byte, or never stop: inputs are files, which are also read twice, for their hashes.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use zipwire_models::file::{buffer, open_input};

/// Opens an input file of at most `limit` bytes.
///
/// # Errors
/// See [`open_input`](crate::open_input); also if the file is longer.
pub fn open_bounded(path: &Path, limit: u64) -> io::Result<File> {
    let file = open_input(path)?;
    let bytes = file.metadata()?.len();
    if bytes <= limit {
        return Ok(file);
    }
    Err(io::Error::new(
        io::ErrorKind::FileTooLarge,
        format!("it has {bytes} bytes, and files of this kind have at most {limit}"),
    ))
}

/// The content of an input file of at most `limit` bytes.
///
/// # Errors
/// See [`open_bounded`]; also if the system has no memory for it.
pub fn read_input(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = open_bounded(path, limit)?;
    let mut content = buffer(file.metadata()?.len())?;
    // What is appended meanwhile is not waited for.
    file.take(limit).read_to_end(&mut content)?;
    Ok(content)
}
