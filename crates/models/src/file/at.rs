//! Reads and writes at a place in a file, from several threads at once.
//!
//! Files are read and not mapped: a mapped file that another program cuts ends the process by a signal, and a read is an error.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
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

/// Fills `out` with the bytes of a file from `at` on.
///
/// # Errors
/// If the system refuses, or the file ends before.
#[cfg(unix)]
pub fn read_exact(file: &File, out: &mut [u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, out, at)
}

/// Writes all bytes from `at` of a file on.
///
/// # Errors
/// If the system refuses.
#[cfg(unix)]
pub fn write_all(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, at)
}

/// Fills `out` with the bytes of a file from `at` on.
///
/// # Errors
/// If the system refuses, or the file ends before.
#[cfg(windows)]
pub fn read_exact(file: &File, mut out: &mut [u8], mut at: u64) -> io::Result<()> {
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

/// Writes all bytes from `at` of a file on.
///
/// # Errors
/// If the system refuses.
#[cfg(windows)]
pub fn write_all(file: &File, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
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

/// A part of a file, as if it were one of its own: another reader of the file reads as if there were no window.
#[derive(Debug)]
pub struct Window<'a> {
    file: &'a File,
    start: u64,
    len: u64,
    position: u64,
}

impl<'a> Window<'a> {
    /// The `len` bytes from `start` on.
    pub fn new(file: &'a File, start: u64, len: u64) -> Self {
        Self { file, start, len, position: 0 }
    }
}

impl Read for Window<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let left = self.len.saturating_sub(self.position);
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(out.len());
        read_exact(self.file, &mut out[..len], self.start + self.position)?;
        self.position += len as u64;
        Ok(len)
    }
}

impl Seek for Window<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let target = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.len.checked_add_signed(by),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
        };
        self.position = target.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}
