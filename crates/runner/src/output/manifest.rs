//! Manifests: the files of a result by names, lengths and hashes.

use std::io::{self, Read, Write};
use std::path::{Component, Path};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use crate::storage::{Entry, Open, Storage};

/// Version of the format.
const FORMAT: u32 = 1;
/// Bytes that are read at a time.
const CHUNK: usize = 1 << 16;
/// Longest manifest that is read, in bytes: a hundred thousand files.
const LONGEST: u64 = 16 << 20;

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Manifest {
    zipwire_output: u32,
    pub(super) files: Vec<FileRecord>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileRecord {
    pub(super) name: String,
    bytes: u64,
    /// XXH3 of the content, 128 bits in hexadecimal.
    xxh3: String,
}

pub(super) struct Hashing<W> {
    inner: W,
    hash: Xxh3,
    bytes: u64,
}

impl Default for Manifest {
    fn default() -> Self {
        Self { zipwire_output: FORMAT, files: Vec::new() }
    }
}

impl Manifest {
    /// The manifest at `path`, if there is one; the inner error says what is wrong with it.
    pub(super) fn read(storage: &dyn Storage, path: &Path) -> io::Result<Result<Option<Self>, String>> {
        match storage.entry(path)? {
            None => return Ok(Ok(None)),
            Some(Entry::File(bytes)) if bytes <= LONGEST => {}
            Some(_) => return Ok(Err("it is no file of a few megabytes".to_owned())),
        }
        let mut text = Vec::new();
        storage.open(path, Open::Read)?.read_to_end(&mut text)?;
        Ok(Self::parse(&text).map(Some))
    }

    fn parse(text: &[u8]) -> Result<Self, String> {
        let manifest: Self = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        if manifest.zipwire_output != FORMAT {
            return Err(format!("it has version {} of its format, not {FORMAT}", manifest.zipwire_output));
        }
        // Names lead nowhere but into the folder, whoever wrote the file.
        match manifest.files.iter().find(|file| !is_plain(&file.name)) {
            Some(file) => Err(format!("`{}` is no name of a file", file.name.escape_debug())),
            None => Ok(manifest),
        }
    }

    pub(super) fn write(&self, mut out: &mut dyn Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut out, self)?;
        out.write_all(b"\n")
    }

    pub(super) fn file(&self, name: &str) -> Option<&FileRecord> {
        self.files.iter().find(|file| file.name == name)
    }

    /// Adds a file, instead of an earlier one of its name.
    pub(super) fn put(&mut self, file: FileRecord) {
        self.files.retain(|other| other.name != file.name);
        self.files.push(file);
    }
}

/// Whether a name names a file in a folder, and nothing elsewhere.
pub(super) fn is_plain(name: &str) -> bool {
    let mut components = Path::new(name).components();
    matches!((components.next(), components.next()), (Some(Component::Normal(only)), None) if only == name)
}

impl FileRecord {
    /// Whether the file at `path` is this one, by its length and, if so, by its content.
    pub(super) fn matches(&self, storage: &dyn Storage, path: &Path) -> io::Result<bool> {
        if storage.entry(path)? != Some(Entry::File(self.bytes)) {
            return Ok(false);
        }
        let mut file = storage.open(path, Open::Read)?;
        let mut hashed = Hashing::new(io::sink());
        let mut chunk = vec![0; CHUNK];
        loop {
            match file.read(&mut chunk)? {
                0 => return Ok(hashed.record(&self.name) == *self),
                read => hashed.write_all(&chunk[..read])?,
            }
        }
    }
}

impl<W: Write> Hashing<W> {
    pub(super) fn new(inner: W) -> Self {
        Self { inner, hash: Xxh3::new(), bytes: 0 }
    }

    /// Record of everything that was written, under a name.
    pub(super) fn record(&self, name: &str) -> FileRecord {
        let xxh3 = format!("{:032x}", self.hash.digest128());
        FileRecord { name: name.to_owned(), bytes: self.bytes, xxh3 }
    }

    pub(super) fn into_inner(self) -> W {
        self.inner
    }
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(buffer)?;
        self.hash.update(&buffer[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_the_folder() {
        for name in ["summary.json", "sim-a b.trace.json", ".hidden"] {
            assert!(is_plain(name), "{name}");
        }
        for name in ["", ".", "..", "a/b", "../a", "/etc/hosts", "a/", "./a"] {
            assert!(!is_plain(name), "{name}");
        }
        let text = r#"{"zipwire_output":1,"files":[{"name":"../a","bytes":1,"xxh3":"0"}]}"#;
        assert!(Manifest::parse(text.as_bytes()).unwrap_err().contains("no name of a file"));
        assert!(Manifest::parse(br#"{"zipwire_output":2,"files":[]}"#).unwrap_err().contains("version 2"));
    }
}
