//! The files that a scenario names, and rows that are drawn: read and drawn once for all points of a sweep.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flate2::read::MultiGzDecoder;
use xxhash_rust::xxh3::{Xxh3, xxh3_128};
use zipwire_payload::Rows;
use zipwire_schedule::DType;
use zipwire_traces::{
    RoutingMatrix, RoutingStep, TraceError, open_input, parse_routing_matrices, parse_routing_trace,
    read_input, read_routing_matrices, read_routing_trace, read_rows, read_text,
};

use crate::origin::{TensorName, Used};
use crate::parcel::Carried;
use crate::tree::Document;

/// Most files and drawn sources that are kept; the oldest makes room.
const KEPT: usize = 64;

/// Longest scenario, in bytes: parsed, it takes a hundred times as much.
pub(crate) const LONGEST_SCENARIO: u64 = 16 << 20;

/// Longest table or trace that a scenario names, in bytes.
const LONGEST_TEXT: u64 = 1 << 30;

const GZIP: [u8; 2] = [0x1f, 0x8b];

/// First character of UTF-8 files that spreadsheets write.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// Files of one experiment, relative to the folder of the scenario. Read contents are shared by the points of a sweep, on several
/// threads.
#[derive(Debug)]
pub(crate) struct Files {
    base: PathBuf,
    /// In whose place nothing of this host is read.
    carried: Option<Arc<Carried>>,
    cache: Arc<Mutex<Cache>>,
    used: Mutex<Used>,
}

#[derive(Debug, Default)]
struct Cache {
    kept: Vec<Kept>,
    /// Hashes of everything that was ever read, by name.
    digests: BTreeMap<String, u128>,
}

#[derive(Debug)]
struct Kept {
    key: Key,
    content: Content,
    /// Hash of the file; `None` for values that are drawn.
    digest: Option<u128>,
}

/// Where something comes from; files by the name that the scenario gives them.
#[derive(Clone, Debug, PartialEq)]
enum Key {
    Tensor(TensorName),
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

impl Key {
    /// How digests call the file, or the part of one; what is drawn has no name.
    fn name(&self) -> Option<String> {
        match self {
            Self::Tensor(TensorName { file, tensor, .. }) => Some(format!("{file}\n{tensor}")),
            Self::Matrices(name) | Self::Trace(name) | Self::Text(name) => Some(name.clone()),
            Self::Gaussian { .. } | Self::Noise { .. } => None,
        }
    }
}

/// The text of a scenario.
pub(crate) fn read_scenario(path: &Path) -> io::Result<String> {
    read_text(path, LONGEST_SCENARIO)
}

fn text_of(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "stream did not contain valid UTF-8"))
}

/// The bytes, decompressed if they are gzip.
fn unzipped(bytes: Vec<u8>) -> io::Result<Vec<u8>> {
    if !bytes.starts_with(&GZIP) {
        return Ok(bytes);
    }
    let mut out = Vec::new();
    let read = MultiGzDecoder::new(bytes.as_slice()).take(LONGEST_TEXT + 1).read_to_end(&mut out)?;
    if read as u64 > LONGEST_TEXT {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "unpacked, it has more than 1 GiB"));
    }
    Ok(out)
}

/// Hash of a file, read in small pieces.
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
        Self { base: base.to_owned(), carried: None, cache: Arc::default(), used: Mutex::default() }
    }

    /// Files of a parcel, and no others; errors name them as if they lay in `base`.
    pub(crate) fn carried(base: &Path, carried: Carried) -> Self {
        Self { carried: Some(Arc::new(carried)), ..Self::new(base) }
    }

    /// The same for another experiment, which has used nothing yet.
    pub(crate) fn for_another(&self) -> Self {
        let (base, carried, cache) = (self.base.clone(), self.carried.clone(), Arc::clone(&self.cache));
        Self { base, carried, cache, used: Mutex::default() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.base.join(name)
    }

    pub(crate) fn tensor(&self, name: &str, tensor: &str, dtype: DType) -> Result<Arc<Rows>, TraceError> {
        let key = TensorName { file: name.to_owned(), tensor: tensor.to_owned(), dtype };
        let content = self.get(Key::Tensor(key.clone()), || {
            let path = self.path(name);
            let rows = match &self.carried {
                Some(carried) => carried.rows(&key).map_err(|source| TraceError::Io { path, source })?,
                None => Arc::new(read_rows(&path, tensor, dtype)?),
            };
            let digest = rows.digest();
            Ok((Content::Rows(rows), Some(digest)))
        })?;
        let Content::Rows(rows) = content else { unreachable!("tensors are rows") };
        Ok(rows)
    }

    /// Recorded source rank x expert matrices.
    pub(crate) fn matrices(&self, name: &str) -> Result<Arc<[RoutingMatrix]>, TraceError> {
        let content = self.get(Key::Matrices(name.to_owned()), || {
            let (records, digest) = self
                .recording(name, read_routing_matrices, |bytes, path| parse_routing_matrices(bytes, path))?;
            Ok((Content::Matrices(records.into()), Some(digest)))
        })?;
        let Content::Matrices(records) = content else { unreachable!("the key is of matrices") };
        Ok(records)
    }

    /// Recorded tokens per expert.
    pub(crate) fn trace(&self, name: &str) -> Result<Arc<[RoutingStep]>, TraceError> {
        let content = self.get(Key::Trace(name.to_owned()), || {
            let (records, digest) =
                self.recording(name, read_routing_trace, |bytes, path| parse_routing_trace(bytes, path))?;
            Ok((Content::Trace(records.into()), Some(digest)))
        })?;
        let Content::Trace(records) = content else { unreachable!("the key is of a trace") };
        Ok(records)
    }

    /// A text file, which gzip may have compressed, without the mark that some programs put in front.
    pub(crate) fn text(&self, name: &str) -> io::Result<Arc<Document>> {
        let content = self.get(Key::Text(name.to_owned()), || {
            let path = self.path(name);
            let bytes = match &self.carried {
                Some(carried) => carried.file(name)?.to_vec(),
                None => read_input(&path, LONGEST_TEXT)?,
            };
            let digest = xxh3_128(&bytes);
            let mut text = text_of(unzipped(bytes)?)?;
            // The CSV reader skips it, and offsets would be those of other bytes.
            if text.starts_with(BYTE_ORDER_MARK) {
                text.drain(..BYTE_ORDER_MARK.len_utf8());
            }
            io::Result::Ok((Content::Text(Document::file(path.display().to_string(), text)), Some(digest)))
        })?;
        let Content::Text(document) = content else { unreachable!("the key is of a text") };
        Ok(document)
    }

    /// Rows of normally distributed values.
    pub(crate) fn gaussian(&self, std: f64, seed: u64) -> Arc<Rows> {
        self.drawn(Key::Gaussian { std_bits: std.to_bits(), seed }, || Rows::gaussian(std, seed))
    }

    pub(crate) fn noise(&self, seed: u64) -> Arc<Rows> {
        self.drawn(Key::Noise { seed }, || Rows::noise(seed))
    }

    /// Name and hash of every file, or part of one, that was read by this and all that share with it.
    pub(crate) fn digests(&self) -> BTreeMap<String, u128> {
        self.cache().digests.clone()
    }

    /// Files asked for through this handle so far.
    pub(crate) fn used(&self) -> Used {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn drawn(&self, key: Key, draw: impl FnOnce() -> Rows) -> Arc<Rows> {
        let drawn: Result<Content, std::convert::Infallible> =
            self.get(key, || Ok((Content::Rows(Arc::new(draw())), None)));
        let Ok(Content::Rows(rows)) = drawn else { unreachable!("what is drawn is rows") };
        rows
    }

    /// Records of a file, and the hash of it: read by `read`, or parsed by `parse` where it came with a parcel.
    fn recording<T>(
        &self,
        name: &str,
        read: impl FnOnce(&Path) -> Result<Vec<T>, TraceError>,
        parse: impl FnOnce(&[u8], &Path) -> Result<Vec<T>, TraceError>,
    ) -> Result<(Vec<T>, u128), TraceError> {
        let path = self.path(name);
        let unreadable = |source| TraceError::Io { path: path.clone(), source };
        if let Some(carried) = &self.carried {
            let content = carried.file(name).map_err(unreadable)?;
            return Ok((parse(content, &path)?, xxh3_128(content)));
        }
        let records = read(&path)?;
        Ok((records, digest_of_file(&path).map_err(unreadable)?))
    }

    /// The cached value, or the result of `make`, which runs without the lock: two threads may compute the same value at once.
    fn get<E>(
        &self,
        key: Key,
        make: impl FnOnce() -> Result<(Content, Option<u128>), E>,
    ) -> Result<Content, E> {
        if let Some(Kept { content, digest, .. }) = self.cache().kept.iter().find(|kept| kept.key == key) {
            self.note(&key, *digest);
            return Ok(content.clone());
        }
        let (content, digest) = make()?;
        self.note(&key, digest);
        let mut cache = self.cache();
        cache.digests.extend(key.name().zip(digest));
        if cache.kept.len() == KEPT {
            cache.kept.remove(0);
        }
        cache.kept.push(Kept { key, content: content.clone(), digest });
        Ok(content)
    }

    fn note(&self, key: &Key, digest: Option<u128>) {
        let Some(digest) = digest else { return };
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        match key {
            Key::Tensor(tensor) => used.tensors.insert(tensor.clone(), digest),
            Key::Matrices(name) | Key::Trace(name) | Key::Text(name) => {
                used.files.insert(name.clone(), digest)
            }
            Key::Gaussian { .. } | Key::Noise { .. } => unreachable!("what is drawn has no hash"),
        };
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        // Nothing panics while it holds the lock.
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
