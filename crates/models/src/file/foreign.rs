//! Files that are no safetensors, by how they begin: archives are compressed, the rest is refused by its name.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

use crate::file::archive::ends_with_archive;
use crate::file::{FileError, at};

/// A format that is not safetensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// A zip archive, as PyTorch and NumPy write it; several behind one another, as torch.distributed.checkpoint does.
    Zip,
    /// Tensors of llama.cpp.
    Gguf,
    /// A pickle of Python, which PyTorch wrote before it wrote archives.
    Pickle,
    /// A file of ZipNN.
    ZipNn,
    /// A safetensors file whose tensors ZipNN has compressed, each by itself.
    ZipNnTensors,
    /// The text that Git has in the place of a large file.
    LfsPointer,
    /// A page of a web server, or its error.
    Page,
    /// A file of ONNX.
    Onnx,
    /// A file of HDF5, as Keras writes it.
    Hdf5,
    /// An array of NumPy by itself.
    Npy,
    /// A file that another program has compressed, or an archive that is not zip.
    Packed,
    /// Nothing at all.
    Empty,
}

/// Bytes of a file that tell what it is.
const FRONT: usize = 512;

impl Foreign {
    /// The format that the first bytes of a file name, if any; or its last ones, of an archive with something in front.
    pub fn of(file: &File) -> Option<Self> {
        let len = usize::try_from(file.metadata().ok()?.len()).unwrap_or(usize::MAX);
        let mut front = vec![0; len.min(FRONT)];
        at::read_exact(file, &mut front, 0).ok()?;
        Self::of_front(&front).or_else(|| ends_with_archive(file, len as u64).then_some(Self::Zip))
    }

    fn of_front(front: &[u8]) -> Option<Self> {
        let text = front.trim_ascii_start().to_ascii_lowercase();
        let is_page = [&b"<!doctype"[..], b"<html", b"<?xml"].iter().any(|begin| text.starts_with(begin));
        Some(match front {
            // The length of a header, and the header: whatever is wrong with it, it is one of safetensors.
            [_, _, _, _, 0, 0, 0, 0, b'{', ..] => return None,
            [] => Self::Empty,
            [b'P', b'K', 3, 4, ..] => Self::Zip,
            [b'G', b'G', b'U', b'F', ..] => Self::Gguf,
            [0x80, 2..=5, ..] => Self::Pickle,
            [b'Z', b'N', ..] => Self::ZipNn,
            [0x89, b'H', b'D', b'F', ..] => Self::Hdf5,
            [0x93, b'N', b'U', b'M', b'P', b'Y', ..] => Self::Npy,
            // gzip, zstd, xz, bzip2, 7z.
            [0x1f, 0x8b, ..] | [0x28, 0xb5, 0x2f, 0xfd, ..] | [0xfd, b'7', b'z', b'X', b'Z', ..] => {
                Self::Packed
            }
            [b'B', b'Z', b'h', b'1'..=b'9', ..] | [b'7', b'z', 0xbc, 0xaf, ..] => Self::Packed,
            _ if front.get(257..262) == Some(b"ustar") => Self::Packed,
            _ if front.starts_with(b"version https://git-lfs") => Self::LfsPointer,
            _ if is_page => Self::Page,
            // Version of the format, then a field of a model: protocol buffers have no magic number.
            [0x08, 1..=32, 0x12 | 0x1a | 0x22 | 0x2a | 0x3a | 0x42, ..] => Self::Onnx,
            _ => return None,
        })
    }

    /// Its name, with an article.
    pub fn name(self) -> &'static str {
        match self {
            Self::Zip => "a zip archive",
            Self::Gguf => "a GGUF file",
            Self::Pickle => "a pickle of Python, as PyTorch wrote before version 1.6",
            Self::ZipNn => "a file of ZipNN",
            Self::ZipNnTensors => "a safetensors file whose tensors ZipNN has compressed",
            Self::LfsPointer => "a pointer of Git LFS, and not the file itself",
            Self::Page => "a page of a web server, and not the file itself",
            Self::Onnx => "an ONNX file",
            Self::Hdf5 => "an HDF5 file",
            Self::Npy => "an array of NumPy",
            Self::Packed => "compressed by another program, or an archive of other files",
            Self::Empty => "empty",
        }
    }

    /// Advice for a file of it, called `path`, where safetensors are wanted.
    pub(crate) fn help(self, path: &Path) -> String {
        let path = path.display();
        match self {
            Self::Zip | Self::Gguf => {
                format!("`zipwire compress {path}`; its parts are read from the result")
            }
            Self::Pickle => "load it and save it anew, as safetensors or by `torch.save`".to_owned(),
            Self::ZipNn => format!(
                "`python3 zipnn_decompress_file.py {path}` converts it, a script of https://github.com/zipnn/zipnn (folder `scripts`)"
            ),
            Self::ZipNnTensors => {
                "load its tensors by `zipnn.SafeOpen` and save them by `safetensors.torch.save_file`"
                    .to_owned()
            }
            Self::LfsPointer => "`git lfs pull` fetches the file".to_owned(),
            Self::Page => "fetch it again: the address, or the permission, was wrong".to_owned(),
            Self::Onnx | Self::Hdf5 => {
                "convert its weights to safetensors; `zipwire store add` takes it as it is".to_owned()
            }
            Self::Npy => "its values are compressed with `--dtype TYPE`, or save it as `.npz` or safetensors"
                .to_owned(),
            Self::Packed => "unpack it first, and compress what is in it".to_owned(),
            Self::Empty => "fetch it again".to_owned(),
        }
    }

    /// Whether such a file is compressed, part by part.
    pub fn has_parts(self) -> bool {
        matches!(self, Self::Zip | Self::Gguf)
    }

    pub(crate) fn refused(self, path: &Path) -> FileError {
        FileError::Foreign { path: path.to_owned(), format: self }
    }
}

/// Key of metadata in which ZipNN says which tensors it has compressed.
const ZIPNN_TENSORS: &str = "znn_compressed_vectors";

/// The format of a safetensors file with this metadata, if its values are not what its header says.
pub(crate) fn of_notes(notes: &HashMap<String, String>) -> Option<Foreign> {
    notes.contains_key(ZIPNN_TENSORS).then_some(Foreign::ZipNnTensors)
}

/// Whether there is a file that is compressed part by part, as archives are.
pub fn is_archive(path: &Path) -> bool {
    at::open_input(path).is_ok_and(|file| Foreign::of(&file).is_some_and(Foreign::has_parts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_known_by_their_first_bytes() {
        let mut tar = vec![b'a'; 257];
        tar.extend(b"ustar\0");
        for (front, format) in [
            (&b""[..], Foreign::Empty),
            (b"PK\x03\x04rest", Foreign::Zip),
            (b"GGUF\x03\0\0\0", Foreign::Gguf),
            (b"\x80\x02}q\0", Foreign::Pickle),
            (b"ZN\x01", Foreign::ZipNn),
            (b"\x89HDF\r\n\x1a\n", Foreign::Hdf5),
            (b"\x93NUMPY\x01\0", Foreign::Npy),
            (b"\x1f\x8b\x08", Foreign::Packed),
            (&tar, Foreign::Packed),
            (b"version https://git-lfs.github.com/spec/v1\noid", Foreign::LfsPointer),
            (b"\n <!DOCTYPE html>", Foreign::Page),
            (b"<?xml version=\"1.0\"?><Error>", Foreign::Page),
            (b"\x08\x0e:\xd5\x80\x10", Foreign::Onnx),
            (b"\x08\x07\x12\x07pytorch", Foreign::Onnx),
        ] {
            assert_eq!(Foreign::of_front(front), Some(format), "{front:?}");
        }
        // Lengths of headers, and text.
        for front in
            [&b"\x40\0\0\0\0\0\0\0{\"__metadata__\""[..], b"some text", b"\x08\0\0\0\0\0\0\0{}      "]
        {
            assert_eq!(Foreign::of_front(front), None, "{front:?}");
        }
    }
}
