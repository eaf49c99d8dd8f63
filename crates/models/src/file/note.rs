//! The metadata key of a compressed file that says how the original comes back.

use std::path::Path;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::file::FileError;
use crate::file::header::Header;

pub(crate) const KEY: &str = "zipwire";

/// The version that is written, and the first one that later releases promise to read; others are refused.
pub const FORMAT_VERSION: u64 = 1;

/// Bytes that are worked on at a time, and that a digest is made of: whole chunks of any type.
pub(crate) const PIECE: u64 = 1 << 20;

/// How the file that was compressed comes back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Note {
    pub(crate) version: u64,
    /// Bytes of the file that was compressed.
    pub(crate) bytes: u64,
    /// [`Digest`] of it.
    pub(crate) digest: String,
    /// Digest of the file that tensors are differences from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) base: Option<String>,
    /// Format of the original, if it was no safetensors file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) archive: Option<Archive>,
    /// Parts of the original, in its order.
    pub(crate) parts: Vec<PartNote>,
}

/// Files that are no safetensors and have parts all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Archive {
    /// A zip archive, as PyTorch writes it.
    Zip,
}

/// Successive bytes of the file that was compressed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PartNote {
    /// The tensor of the compressed file that has them: with zeros behind them, if there are more.
    pub(crate) tensor: String,
    pub(crate) bytes: u64,
    /// How many bytes of the tensor are a container with them; if there is none, they are there as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) container: Option<u64>,
    /// Type of the values, for parts of an archive that are coded as values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) dtype: Option<String>,
}

impl Note {
    /// Reads it from a header; `None` if there is none.
    pub(crate) fn of(header: &Header, path: &Path) -> Result<Option<Self>, FileError> {
        let Some(text) = header.notes().get(KEY) else { return Ok(None) };
        #[derive(Deserialize)]
        struct Versioned {
            version: u64,
        }
        let unread = |error| FileError::damaged(path, format!("metadata `{KEY}`: {error}"));
        let Versioned { version: found } = serde_json::from_str(text).map_err(unread)?;
        if found != FORMAT_VERSION {
            return Err(FileError::Version { path: path.to_owned(), found, known: FORMAT_VERSION });
        }
        let note: Self = serde_json::from_str(text).map_err(unread)?;
        let sum = note.parts.iter().try_fold(0_u64, |sum, part| sum.checked_add(part.bytes));
        if sum != Some(note.bytes) {
            return Err(FileError::damaged(
                path,
                format!("its parts have not the {} bytes of the whole", note.bytes),
            ));
        }
        Ok(Some(note))
    }
}

/// A digest of 128 bits that pieces add to in their order, each by a hash that can be made on any thread: XXH3 of the pieces' XXH3.
///
/// It finds what is broken, not what was forged.
#[derive(Default)]
pub(crate) struct Digest(Xxh3);

impl Digest {
    pub(crate) fn of_piece(bytes: &[u8]) -> u64 {
        xxh3_64(bytes)
    }

    pub(crate) fn add(&mut self, piece: u64) {
        self.0.update(&piece.to_le_bytes());
    }

    pub(crate) fn text(&self) -> String {
        format!("{:032x}", self.0.digest128())
    }
}
