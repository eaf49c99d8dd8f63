//! Formats of others that are told apart by their first bytes: archives are compressed, the rest is refused with a way out.

use std::fs::File;
use std::path::Path;

use crate::file::{FileError, at};

/// A format that is not safetensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Foreign {
    /// A zip archive with at least one member, as PyTorch and NumPy write it.
    Zip,
    /// A pickle of Python, which PyTorch wrote before it wrote archives.
    Pickle,
    /// A file of ZipNN (`.znn`).
    ZipNn,
}

impl Foreign {
    /// The format that the first bytes of a file name, if any.
    pub(crate) fn of(file: &File) -> Option<Self> {
        let mut magic = [0; 4];
        at::read_exact(file, &mut magic, 0).ok()?;
        match magic {
            [b'P', b'K', 3, 4] => Some(Self::Zip),
            [0x80, 2..=5, ..] => Some(Self::Pickle),
            [b'Z', b'N', ..] => Some(Self::ZipNn),
            _ => None,
        }
    }

    /// The error of a reader that takes safetensors only.
    pub(crate) fn refused(self, path: &Path) -> FileError {
        let path = path.to_owned();
        match self {
            Self::Zip => FileError::PlainArchive { path },
            Self::Pickle => FileError::Pickle { path },
            Self::ZipNn => FileError::ZipNn { path },
        }
    }
}

/// Whether there is a file that begins as a zip archive does.
pub fn is_archive(path: &Path) -> bool {
    at::open_input(path).is_ok_and(|file| Foreign::of(&file) == Some(Foreign::Zip))
}
