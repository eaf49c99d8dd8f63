//! The files that a scenario names, and rows that are drawn: read and drawn once for all points of a sweep.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use xxhash_rust::xxh3::{Xxh3, xxh3_128};
use zipwire_payload::Rows;
use zipwire_schedule::DType;
use zipwire_traces::{
    RoutingMatrix, RoutingStep, TraceError, open_input, read_input, read_routing_matrices,
    read_routing_trace, read_rows,
};

use crate::document::Document;

/// Most files and drawn sources that are kept; the oldest makes room.
const KEPT: usize = 64;

/// Longest scenario, and longest table that one names, in bytes.
const LONGEST_TEXT: u64 = 1 << 30;

/// What spreadsheets put in front of UTF-8.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// What was read, relative to the folder of the scenario. Shared by the points of a sweep, on several threads.
#[derive(Debug)]
pub(crate) struct Files {
    base: PathBuf,
    cache: Mutex<Cache>,
}

#[derive(Debug, Default)]
struct Cache {
    kept: Vec<(Key, Content)>,
    /// Hashes of everything that was ever read, by name.
    digests: BTreeMap<String, u128>,
}

/// Where something comes from; files by the name that the scenario gives them.
#[derive(Clone, Debug, PartialEq)]
enum Key {
    Tensor { file: String, tensor: String, dtype: &'static str },
    Matrices(String),
    Trace(String),
    Text(String),
    Gaussian { std_bits: u64, seed: u64 },
    Noise { seed: u64 },
}

#[derive(Clone, Debug)]
enum Content {
    Rows(Arc<Rows>),
    Matrices(Arc<[RoutingMatrix]>),
    Trace(Arc<[RoutingStep]>),
    Text(Arc<Document>),
}

/// A text of at most [`LONGEST_TEXT`] bytes.
pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    let bytes = read_input(path, LONGEST_TEXT)?;
    String::from_utf8(bytes)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "stream did not contain valid UTF-8"))
}

/// A hash of a file, of which little is in memory at a time.
fn digest_of_file(path: &Path) -> io::Result<u128> {
    let mut file = open_input(path)?;
    let (mut hash, mut chunk) = (Xxh3::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok(hash.digest128()),
            read => hash.update(&chunk[..read]),
        }
    }
}

impl Files {
    /// Nothing read yet; relative names start from `base`.
    pub(crate) fn new(base: &Path) -> Self {
        Self { base: base.to_owned(), cache: Mutex::default() }
    }

    /// Where a name leads.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.base.join(name)
    }

    /// Rows of a recorded tensor.
    pub(crate) fn tensor(&self, name: &str, tensor: &str, dtype: DType) -> Result<Arc<Rows>, TraceError> {
        let key = Key::Tensor { file: name.to_owned(), tensor: tensor.to_owned(), dtype: dtype.name() };
        let content = self.get(key, || {
            let rows = read_rows(&self.path(name), tensor, dtype)?;
            let digest = rows.digest();
            Ok((Content::Rows(Arc::new(rows)), Some((format!("{name}\n{tensor}"), digest))))
        })?;
        let Content::Rows(rows) = content else { unreachable!("tensors are rows") };
        Ok(rows)
    }

    /// Recorded source rank x expert matrices.
    pub(crate) fn matrices(&self, name: &str) -> Result<Arc<[RoutingMatrix]>, TraceError> {
        let content = self.get(Key::Matrices(name.to_owned()), || {
            let records = read_routing_matrices(&self.path(name))?;
            Ok((Content::Matrices(records.into()), Some(self.digest_of(name)?)))
        })?;
        let Content::Matrices(records) = content else { unreachable!("the key is of matrices") };
        Ok(records)
    }

    /// Recorded tokens per expert.
    pub(crate) fn trace(&self, name: &str) -> Result<Arc<[RoutingStep]>, TraceError> {
        let content = self.get(Key::Trace(name.to_owned()), || {
            let records = read_routing_trace(&self.path(name))?;
            Ok((Content::Trace(records.into()), Some(self.digest_of(name)?)))
        })?;
        let Content::Trace(records) = content else { unreachable!("the key is of a trace") };
        Ok(records)
    }

    /// A text file, without the mark that some programs put in front.
    pub(crate) fn text(&self, name: &str) -> io::Result<Arc<Document>> {
        let content = self.get(Key::Text(name.to_owned()), || {
            let path = self.path(name);
            let mut text = read_text(&path)?;
            // The CSV reader skips it, and offsets would be those of other bytes.
            if text.starts_with(BYTE_ORDER_MARK) {
                text.drain(..BYTE_ORDER_MARK.len_utf8());
            }
            let digest = (name.to_owned(), xxh3_128(text.as_bytes()));
            io::Result::Ok((Content::Text(Document::file(path.display().to_string(), text)), Some(digest)))
        })?;
        let Content::Text(document) = content else { unreachable!("the key is of a text") };
        Ok(document)
    }

    /// Rows of normally distributed values.
    pub(crate) fn gaussian(&self, std: f64, seed: u64) -> Arc<Rows> {
        self.drawn(Key::Gaussian { std_bits: std.to_bits(), seed }, || Rows::gaussian(std, seed))
    }

    /// Rows of random bits.
    pub(crate) fn noise(&self, seed: u64) -> Arc<Rows> {
        self.drawn(Key::Noise { seed }, || Rows::noise(seed))
    }

    /// Name and hash of every file, or part of one, that was read.
    pub(crate) fn digests(&self) -> BTreeMap<String, u128> {
        self.cache().digests.clone()
    }

    fn drawn(&self, key: Key, draw: impl FnOnce() -> Rows) -> Arc<Rows> {
        let drawn: Result<Content, std::convert::Infallible> =
            self.get(key, || Ok((Content::Rows(Arc::new(draw())), None)));
        let Ok(Content::Rows(rows)) = drawn else { unreachable!("what is drawn is rows") };
        rows
    }

    fn digest_of(&self, name: &str) -> Result<(String, u128), TraceError> {
        let path = self.path(name);
        let digest = digest_of_file(&path).map_err(|source| TraceError::Io { path, source })?;
        Ok((name.to_owned(), digest))
    }

    /// What is kept, or what `make` makes: without the lock, so that two threads may make the same at once.
    fn get<E>(
        &self,
        key: Key,
        make: impl FnOnce() -> Result<(Content, Option<(String, u128)>), E>,
    ) -> Result<Content, E> {
        if let Some((_, content)) = self.cache().kept.iter().find(|(other, _)| *other == key) {
            return Ok(content.clone());
        }
        let (content, digest) = make()?;
        let mut cache = self.cache();
        cache.digests.extend(digest);
        if cache.kept.len() == KEPT {
            cache.kept.remove(0);
        }
        cache.kept.push((key, content.clone()));
        Ok(content)
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        // Nothing panics while it holds the lock.
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
