//! Code books in files: what `codebook16` was calibrated to, kept from one run to the next.
//!
//! A file is one JSON object, `{"dtype": "BF16", "exponents": [105, 106, ...]}`, with the sixteen exponents in ascending
//! order, as they are in the values.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use zipwire_codec::{Codebook, DType, DecodeError};
use zipwire_traces::open_bounded;

use crate::help::with_help;

/// The text of a file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    dtype: String,
    exponents: [u8; 16],
}

/// A code book that cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CodebookFileError {
    /// The file cannot be read.
    #[error("cannot read code book `{}`: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file cannot be written.
    #[error("cannot write code book `{}`: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is no such JSON object.
    #[error(
        "`{}` is no code book: {source}\nhelp: it takes `{{\"dtype\": \"BF16\", \"exponents\": [...]}}` with sixteen numbers",
        path.display()
    )]
    Syntax {
        /// The file.
        path: PathBuf,
        /// What is wrong, with line and column.
        source: serde_json::Error,
    },
    /// No type has this name.
    #[error(
        "`{}` is for values of type `{dtype}`, which is unknown\nhelp: types are `BF16`, `F8_E4M3` and `F8_E5M2`",
        path.display()
    )]
    DType {
        /// The file.
        path: PathBuf,
        /// The name.
        dtype: String,
    },
    /// The exponents cannot be a book for the type.
    #[error("`{}`: {}", path.display(), with_help(source, source.help()))]
    Book {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: DecodeError,
    },
}

/// Longest file, in bytes: far more than sixteen numbers take.
const LONGEST: u64 = 1 << 20;

/// Reads a code book.
///
/// # Errors
/// If the file cannot be read or has no code book.
pub fn read_codebook(path: &Path) -> Result<Codebook, CodebookFileError> {
    let text = open_bounded(path, LONGEST)
        .and_then(io::read_to_string)
        .map_err(|source| CodebookFileError::Read { path: path.to_owned(), source })?;
    let Document { dtype, exponents } = serde_json::from_str(&text)
        .map_err(|source| CodebookFileError::Syntax { path: path.to_owned(), source })?;
    let dtype =
        DType::from_name(&dtype).ok_or_else(|| CodebookFileError::DType { path: path.to_owned(), dtype })?;
    Codebook::from_exponents(dtype, exponents)
        .map_err(|source| CodebookFileError::Book { path: path.to_owned(), source })
}

/// Writes a code book, over a file that is there.
///
/// # Errors
/// If the file cannot be written.
pub fn write_codebook(path: &Path, book: &Codebook) -> Result<(), CodebookFileError> {
    let document = Document { dtype: book.dtype().name().to_owned(), exponents: *book.exponents() };
    let write = || -> io::Result<()> { fs::write(path, serde_json::to_string(&document)? + "\n") };
    write().map_err(|source| CodebookFileError::Write { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("book.json");
        fs::write(&path, text).unwrap();
        let message = read_codebook(&path).unwrap_err().to_string();
        message.replace(&folder.path().display().to_string(), "DIR")
    }

    #[test]
    fn books_come_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("book.json");
        let book = Codebook::calibrate(DType::F8E5M2, [&[0x30, 0x31, 0x7f, 0x30][..]]).unwrap();
        write_codebook(&path, &book).unwrap();
        assert_eq!(read_codebook(&path).unwrap(), book);
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text, "{\"dtype\":\"F8_E5M2\",\"exponents\":[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,31]}\n");
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        let message = error("{\"dtype\": \"BF16\",\n \"exponents\": [1, 2, 300]}");
        assert!(
            message.starts_with("`DIR/book.json` is no code book: invalid value: integer `300`"),
            "{message}"
        );
        assert!(message.contains("at line 2 column 24\nhelp: it takes"), "{message}");
        let ascending: Vec<u8> = (20..36).collect();
        let book = |dtype: &str| format!("{{\"dtype\": \"{dtype}\", \"exponents\": {ascending:?}}}");
        assert_eq!(
            error(&book("BF17")),
            "`DIR/book.json` is for values of type `BF17`, which is unknown\n\
             help: types are `BF16`, `F8_E4M3` and `F8_E5M2`"
        );
        assert_eq!(error(&book("F32")), "`DIR/book.json`: codec `codebook16` does not support `F32`");
        assert!(error(&book("F8_E5M2")).contains("is no code book for `F8_E5M2`"));
        let missing = read_codebook(Path::new("/nonexistent/book.json")).unwrap_err().to_string();
        assert!(missing.starts_with("cannot read code book `/nonexistent/book.json`: "), "{missing}");
        let book = Codebook::calibrate(DType::Bf16, []).unwrap();
        // Beneath a regular file nothing can be written, not even by an administrator.
        let beneath = tempfile::NamedTempFile::new().unwrap();
        let refused = write_codebook(&beneath.path().join("book.json"), &book).unwrap_err().to_string();
        assert!(refused.starts_with("cannot write code book `"), "{refused}");
    }
}
