//! Tables that frames share, in files: kept from one run to the next, and the same at both ends of a transfer.
//!
//! A file is one JSON object with the codec, the type of the values, the bytes of the table and its id, by which it is noticed if any of these is
//! damaged; and what the table promises: how many of the values that it was trained from it does not serve.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use zipwire_codec::{DType, Layout, Spec, Table, TableError};

use crate::tensor::read_input;

const VERSION: u32 = 1;
/// Longest file, in bytes: far more than any table takes.
const LONGEST: u64 = 1 << 20;

/// A table and what is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableFile {
    /// The table.
    pub table: Table,
    /// For frames in which layout it was trained.
    pub layout: Layout,
    /// Values that it was trained from, without those that are left out of frames, as zeros are.
    pub values: u64,
    /// Values among them that the table does not serve: escapes, and values that are coded by other means.
    pub missed: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    version: u32,
    codec: String,
    dtype: String,
    layout: String,
    /// In hexadecimal, as in specs.
    id: String,
    /// In hexadecimal.
    bytes: String,
    values: u64,
    missed: u64,
}

/// A file that holds no table.
#[allow(missing_docs, reason = "fields are named by the messages")]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableFileError {
    #[error("cannot read table `{}`: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("`{}` holds no table: {source}", path.display())]
    Syntax { path: PathBuf, source: serde_json::Error },
    #[error("table `{}` has version `{found}`, this program reads version `{VERSION}`", path.display())]
    Version { path: PathBuf, found: u32 },
    #[error("table `{}` is for {what} `{name}`, which is unknown", path.display())]
    Unknown { path: PathBuf, what: &'static str, name: String },
    #[error("table `{}` is damaged: it says that its id is `{said}`, its bytes have `{found:08x}`", path.display())]
    Id { path: PathBuf, said: String, found: u32 },
    #[error("table `{}` is damaged: {reason}", path.display())]
    Damaged { path: PathBuf, reason: String },
    #[error("table `{}`: {source}", path.display())]
    Table { path: PathBuf, source: TableError },
}

impl TableFileError {
    /// The remedy, in one line.
    pub fn help(&self) -> Option<String> {
        match self {
            Self::Read { .. } => None,
            Self::Unknown { what: "codec", .. } => {
                zipwire_paper_codecs::register();
                let takes_tables = |id: &&str| Spec::options(id).any(|option| option == "table");
                let codecs: Vec<String> =
                    Spec::ids().filter(takes_tables).map(|id| format!("`{id}`")).collect();
                Some(format!("codecs that take tables are {}", codecs.join(", ")))
            }
            _ => Some("`zipwire calibrate table` trains a table and writes such a file".to_owned()),
        }
    }
}

impl TableFile {
    /// The text of the file, with a line break at its end.
    ///
    /// # Panics
    /// If the bytes of the table are not those of a codec and a type.
    pub fn to_text(&self) -> String {
        zipwire_paper_codecs::register();
        let Self { table, layout, values, missed } = self;
        let (codec, dtype) =
            (table.codec().expect("it is a codec's"), table.dtype().expect("it is a type's"));
        let document = Document {
            version: VERSION,
            codec: codec.to_owned(),
            dtype: dtype.name().to_owned(),
            layout: layout.name().to_owned(),
            id: id_text(table.id()),
            bytes: table.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect(),
            values: *values,
            missed: *missed,
        };
        serde_json::to_string_pretty(&document).expect("it is plain data") + "\n"
    }

    /// The codec that frames with the table are of, with default options.
    pub fn spec(&self) -> Spec {
        zipwire_paper_codecs::register();
        let spec: Spec = self.table.codec().expect("it is a codec's").parse().expect("ids are specs");
        spec.with_table(&self.table).expect("it was compared with the codec")
    }

    /// The share of the values that it was trained from that it does not serve, from 0 to 1.
    pub fn promise(&self) -> f64 {
        if self.values == 0 { 0.0 } else { self.missed as f64 / self.values as f64 }
    }
}

/// Reads a table.
///
/// # Errors
/// If the file cannot be read or holds no table.
pub fn read_table(path: &Path) -> Result<TableFile, TableFileError> {
    let bytes = read_input(path, LONGEST);
    parse_table(&bytes.map_err(|source| TableFileError::Read { path: path.to_owned(), source })?, path)
}

/// Reads a table from the content of the file at `path`.
///
/// # Errors
/// If it holds no table.
pub fn parse_table(content: &[u8], path: &Path) -> Result<TableFile, TableFileError> {
    zipwire_paper_codecs::register();
    #[derive(Deserialize)]
    struct Versioned {
        version: u32,
    }
    let path = || path.to_owned();
    let syntax = |source| TableFileError::Syntax { path: path(), source };
    let Versioned { version: found } = serde_json::from_slice(content).map_err(syntax)?;
    if found != VERSION {
        return Err(TableFileError::Version { path: path(), found });
    }
    let document: Document = serde_json::from_slice(content).map_err(syntax)?;
    let Document { version: _, codec, dtype: type_name, layout, id, bytes, values, missed } = document;
    let unknown = |what, name: &str| TableFileError::Unknown { path: path(), what, name: name.to_owned() };
    let damaged = |reason: &str| TableFileError::Damaged { path: path(), reason: reason.to_owned() };
    let takes_table = Spec::options(&codec).any(|option| option == "table");
    let spec = codec.parse::<Spec>().ok().filter(|_| takes_table).ok_or_else(|| unknown("codec", &codec))?;
    let dtype = DType::from_name(&type_name).ok_or_else(|| unknown("type", &type_name))?;
    let named = Layout::ALL.into_iter().find(|known| known.name() == layout);
    let layout = named.ok_or_else(|| unknown("layout", &layout))?;
    let table =
        Table::new(from_hexadecimal(&bytes).ok_or_else(|| damaged("its bytes are not in hexadecimal"))?);
    if id != id_text(table.id()) {
        return Err(TableFileError::Id { path: path(), said: id, found: table.id() });
    }
    spec.with_table(&table).map_err(|source| TableFileError::Table { path: path(), source })?;
    if table.dtype() != Some(dtype) {
        return Err(damaged(&format!("it says that it is for `{dtype}`, its bytes are for another type")));
    }
    if missed > values {
        return Err(damaged("it does not serve more values than it was trained from"));
    }
    Ok(TableFile { table, layout, values, missed })
}

fn id_text(id: u32) -> String {
    format!("{id:08x}")
}

fn from_hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digit = |digit: u8| (digit as char).to_digit(16).map(|digit| digit as u8);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let byte = |[high, low]: &[u8; 2]| Some(digit(*high)? << 4 | digit(*low)?);
    if rest.is_empty() { pairs.iter().map(byte).collect() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(codec: &str, dtype: DType) -> TableFile {
        zipwire_paper_codecs::register();
        let spec: Spec = codec.parse().unwrap();
        let sample: Vec<u8> = (0..40_000u32).map(|i| (((i * i) >> 7) as u8 & 0x3f) | 0x20).collect();
        let table = spec.train(Layout::Compact, dtype, &[&sample]).unwrap();
        TableFile { table, layout: Layout::Compact, values: 40_000, missed: 7 }
    }

    #[test]
    fn tables_come_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table.json");
        for (codec, dtype) in [("codebook16", DType::F8E5M2), ("rans", DType::Bf16), ("rans", DType::F32)] {
            let file = file(codec, dtype);
            std::fs::write(&path, file.to_text()).unwrap();
            assert_eq!(read_table(&path).unwrap(), file);
            assert_eq!(file.spec().to_string(), format!("{codec}:table={:08x}", file.table.id()));
            assert_eq!(file.promise(), 7.0 / 40_000.0);
        }
    }

    #[test]
    fn mistakes_are_named() {
        let text = file("codebook16", DType::F8E5M2).to_text();
        let error = |from: &str, to: &str| {
            assert!(text.contains(from), "{text}");
            let error = parse_table(text.replacen(from, to, 1).as_bytes(), Path::new("t.json")).unwrap_err();
            assert!(error.help().is_some());
            error.to_string()
        };
        let id = format!("{:08x}", file("codebook16", DType::F8E5M2).table.id());
        assert_eq!(
            error("\"version\": 1", "\"version\": 2"),
            "table `t.json` has version `2`, this program reads version `1`"
        );
        assert!(error("\"version\": 1,", "").starts_with("`t.json` holds no table: missing field `version`"));
        assert!(
            error("\"codec\"", "\"kodec\"").starts_with("`t.json` holds no table: unknown field `kodec`")
        );
        assert_eq!(error("codebook16", "tiered"), "table `t.json` is for codec `tiered`, which is unknown");
        assert_eq!(error("F8_E5M2", "F9"), "table `t.json` is for type `F9`, which is unknown");
        assert_eq!(error("compact", "loose"), "table `t.json` is for layout `loose`, which is unknown");
        assert_eq!(
            error("codebook16", "rans"),
            format!("table `t.json`: table `{id}` is none of codec `rans`, it is one of `codebook16`")
        );
        assert_eq!(
            error("F8_E5M2", "BF16"),
            "table `t.json` is damaged: it says that it is for `BF16`, its bytes are for another type"
        );
        assert_eq!(
            error("\"bytes\": \"03", "\"bytes\": \"0g"),
            "table `t.json` is damaged: its bytes are not in hexadecimal"
        );
        assert_eq!(
            error("\"missed\": 7", "\"missed\": 40001"),
            "table `t.json` is damaged: it does not serve more values than it was trained from"
        );
        let other = error("\"bytes\": \"0304", "\"bytes\": \"0303");
        assert!(
            other.starts_with(&format!(
                "table `t.json` is damaged: it says that its id is `{id}`, its bytes have `"
            )),
            "{other}"
        );
        assert!(error(&id, "00000001").contains("it says that its id is `00000001`"));
        let missing = read_table(Path::new("/nonexistent/t.json")).unwrap_err().to_string();
        assert!(missing.starts_with("cannot read table `/nonexistent/t.json`: "), "{missing}");
    }
}
