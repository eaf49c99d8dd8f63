//! Reads and writes at a place in a file, from several threads at once.
//!
//! Files are read and not mapped: a mapped file that another program cuts ends the process by a signal, and a read is an error.

use std::fs::File;
use std::io;

/// Fills `out` with the bytes from `at` on.
#[cfg(unix)]
pub(crate) fn read_exact(file: &File, out: &mut [u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, out, at)
}

/// Writes all bytes from `at` on.
#[cfg(unix)]
pub(crate) fn write_all(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, at)
}

/// Fills `out` with the bytes from `at` on.
#[cfg(windows)]
pub(crate) fn read_exact(file: &File, mut out: &mut [u8], mut at: u64) -> io::Result<()> {
    while !out.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, out, at) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(len) => {
                out = &mut out[len..];
                at += len as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes all bytes from `at` on.
#[cfg(windows)]
pub(crate) fn write_all(file: &File, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_write(file, bytes, at) {
            Ok(len) => {
                bytes = &bytes[len..];
                at += len as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
