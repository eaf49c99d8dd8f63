//! A file system in memory that logs every change: the n-th one fails, or is where the process ends; a power failure replays the log
//! without a random part of what was not synced.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{Entry, Lock, Open, Storage, StoredFile};

/// Fate of the n-th change, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    Never,
    /// It fails, and the process goes on. Half of a write is done.
    Error(u64),
    /// The process ends there.
    End(u64),
}

#[derive(Clone, Debug)]
enum Change {
    Create(PathBuf, u64),
    Write(u64, Vec<u8>),
    SetLen(u64, u64),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
    CreateFolder(PathBuf),
    Sync(u64),
    SyncFolder(PathBuf),
}

/// Names and contents. All writes of this program are at the end of a file.
#[derive(Clone, Debug, Default)]
struct Tree {
    /// The number of the file; `None` for folders.
    names: BTreeMap<PathBuf, Option<u64>>,
    contents: BTreeMap<u64, Vec<u8>>,
}

#[derive(Debug, Default)]
struct State {
    /// All names and contents before the log begins.
    base: Tree,
    log: Vec<Change>,
    now: Tree,
    locked: BTreeSet<PathBuf>,
    changes: u64,
    failure: Option<Failure>,
    failed_at: Option<String>,
    has_ended: bool,
    /// Whether syncs do nothing, to see whether tests notice.
    lies: bool,
}

/// The file system. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Simulated(Arc<Mutex<State>>);

#[derive(Debug)]
struct Handle {
    storage: Simulated,
    file: u64,
    at: usize,
}

#[derive(Debug)]
struct Held(Simulated, PathBuf);

impl Lock for Held {}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.state().locked.remove(&self.1);
    }
}

/// A path without `.`; the root is empty.
fn clean(path: &Path) -> PathBuf {
    path.components().filter(|component| !matches!(component, Component::CurDir)).collect()
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

impl Tree {
    fn apply(&mut self, change: &Change) -> io::Result<()> {
        match change {
            Change::Create(path, file) => {
                self.require_parent(path)?;
                self.names.insert(path.clone(), Some(*file));
                self.contents.entry(*file).or_default();
            }
            Change::Write(file, bytes) => self.contents.entry(*file).or_default().extend_from_slice(bytes),
            Change::SetLen(file, len) => {
                let len = usize::try_from(*len).expect("files are small");
                self.contents.entry(*file).or_default().resize(len, 0);
            }
            Change::Rename(from, to) => {
                self.require_parent(to)?;
                let moved: Vec<PathBuf> =
                    self.names.keys().filter(|path| path.starts_with(from)).cloned().collect();
                if moved.is_empty() {
                    return Err(ErrorKind::NotFound.into());
                }
                for path in moved {
                    let node = self.names.remove(&path).expect("it was found just now");
                    self.names.insert(clean(&to.join(path.strip_prefix(from).expect("it is below"))), node);
                }
            }
            Change::Remove(path) => {
                if self.names.keys().any(|other| other != path && other.starts_with(path)) {
                    return Err(ErrorKind::DirectoryNotEmpty.into());
                }
                self.names.remove(path).ok_or(ErrorKind::NotFound)?;
            }
            Change::CreateFolder(path) => {
                self.require_parent(path)?;
                if self.names.contains_key(path) {
                    return Err(ErrorKind::AlreadyExists.into());
                }
                self.names.insert(path.clone(), None);
            }
            Change::Sync(_) => {}
            Change::SyncFolder(path) => self.require(path)?,
        }
        Ok(())
    }

    fn require(&self, folder: &Path) -> io::Result<()> {
        let is_there = folder.as_os_str().is_empty() || self.names.get(folder) == Some(&None);
        is_there.then_some(()).ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn require_parent(&self, path: &Path) -> io::Result<()> {
        self.require(parent(path))
    }
}

impl Change {
    /// Whether `later` puts this change onto the device.
    fn is_settled_by(&self, later: &Self) -> bool {
        match (self, later) {
            (Self::Write(file, _) | Self::SetLen(file, _), Self::Sync(synced)) => file == synced,
            (
                Self::Create(path, _) | Self::Rename(_, path) | Self::Remove(path) | Self::CreateFolder(path),
                Self::SyncFolder(folder),
            ) => parent(path) == folder,
            _ => false,
        }
    }
}

impl Simulated {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// The same names and contents for another process, with another failure.
    pub(crate) fn copy(&self, failure: Failure) -> Self {
        let state = self.state();
        let (base, log, now) = (state.base.clone(), state.log.clone(), state.now.clone());
        let copied = State { base, log, now, lies: state.lies, failure: Some(failure), ..State::default() };
        Self(Arc::new(Mutex::new(copied)))
    }

    /// Makes a device of it that says it has synced and has not.
    pub(crate) fn lie(&self) {
        self.state().lies = true;
    }

    /// The change that failed, in words.
    pub(crate) fn failed_at(&self) -> Option<String> {
        self.state().failed_at.clone()
    }

    /// The disk after the process has ended, and the system goes on.
    pub(crate) fn killed(&self) -> Self {
        self.copy(Failure::Never)
    }

    /// The disk after a power failure: each change that was not synced is there or not; of writes also the half.
    pub(crate) fn without_power(&self, seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let state = self.state();
        let mut tree = state.base.clone();
        for (at, change) in state.log.iter().enumerate() {
            let is_settled = state.log[at + 1..].iter().any(|later| change.is_settled_by(later));
            let change = match change {
                Change::Write(file, bytes) if !is_settled && random.random_bool(0.5) => {
                    Change::Write(*file, bytes[..bytes.len() / 2].to_vec())
                }
                change => change.clone(),
            };
            if is_settled || random.random_bool(0.5) {
                // Changes of what was lost are lost with it.
                let _ = tree.apply(&change);
            }
        }
        let lies = state.lies;
        Self(Arc::new(Mutex::new(State { base: tree.clone(), now: tree, lies, ..State::default() })))
    }

    /// Paths and contents of all files.
    pub(crate) fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let state = self.state();
        let files = state.now.names.iter().filter_map(|(path, file)| Some((path, (*file)?)));
        files.map(|(path, file)| (path.display().to_string(), state.now.contents[&file].clone())).collect()
    }

    pub(crate) fn folders(&self) -> Vec<String> {
        let state = self.state();
        let folders = state.now.names.iter().filter(|(_, file)| file.is_none());
        folders.map(|(path, _)| path.display().to_string()).collect()
    }

    /// Puts a file there that somebody else has written and synced.
    pub(crate) fn put(&self, path: &str, content: &[u8]) {
        let mut state = self.state();
        let (path, file) = (clean(Path::new(path)), state.fresh());
        let folder = parent(&path).to_owned();
        for change in [Change::Create(path, file), Change::Write(file, content.to_vec())] {
            state.now.apply(&change).expect("its folder is there");
            state.log.push(change);
        }
        state.log.extend([Change::Sync(file), Change::SyncFolder(folder)]);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: Change) -> io::Result<()> {
        self.state().change(change)
    }
}

impl State {
    fn look(&self) -> io::Result<()> {
        if self.has_ended { Err(io::Error::other("the process has ended")) } else { Ok(()) }
    }

    /// A number that no file has.
    fn fresh(&self) -> u64 {
        let used = self.base.contents.keys().chain(self.now.contents.keys());
        used.max().map_or(0, |last| last + 1)
    }

    /// Makes a change, unless it is the one that fails.
    fn change(&mut self, change: Change) -> io::Result<()> {
        self.look()?;
        self.changes += 1;
        let at = self.changes;
        let fails = matches!(self.failure, Some(Failure::Error(n) | Failure::End(n)) if n == at);
        if fails {
            self.failed_at = Some(match &change {
                Change::Write(file, bytes) => format!("write {} bytes to {file}", bytes.len()),
                change => format!("{change:?}"),
            });
            self.has_ended = matches!(self.failure, Some(Failure::End(_)));
            if let Change::Write(file, bytes) = change {
                self.make(Change::Write(file, bytes[..bytes.len() / 2].to_vec()))?;
            }
            return Err(io::Error::other("no space left"));
        }
        self.make(change)
    }

    fn make(&mut self, change: Change) -> io::Result<()> {
        self.now.apply(&change)?;
        if !(self.lies && matches!(change, Change::Sync(_) | Change::SyncFolder(_))) {
            self.log.push(change);
        }
        Ok(())
    }
}

impl Storage for Simulated {
    fn entry(&self, path: &Path) -> io::Result<Option<Entry>> {
        let state = self.state();
        state.look()?;
        let path = clean(path);
        if path.as_os_str().is_empty() {
            return Ok(Some(Entry::Folder));
        }
        let entry = |file: &Option<u64>| {
            file.map_or(Entry::Folder, |file| Entry::File(state.now.contents[&file].len() as u64))
        };
        Ok(state.now.names.get(&path).map(entry))
    }

    fn names(&self, folder: &Path) -> io::Result<Vec<OsString>> {
        let (state, folder) = (self.state(), clean(folder));
        state.look()?;
        let inside = state.now.names.keys().filter(|path| parent(path) == folder);
        Ok(inside.filter_map(|path| path.file_name().map(OsString::from)).collect())
    }

    fn open(&self, path: &Path, mode: Open) -> io::Result<Box<dyn StoredFile>> {
        let mut state = self.state();
        state.look()?;
        let path = clean(path);
        let found = state.now.names.get(&path).copied();
        let file = match (found, mode) {
            (Some(None), _) => return Err(ErrorKind::IsADirectory.into()),
            (Some(Some(file)), Open::Create) => {
                state.change(Change::SetLen(file, 0))?;
                file
            }
            (Some(Some(file)), _) => file,
            (None, Open::Read) => return Err(ErrorKind::NotFound.into()),
            (None, _) => {
                let file = state.fresh();
                state.change(Change::Create(path, file))?;
                file
            }
        };
        Ok(Box::new(Handle { storage: self.clone(), file, at: 0 }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.change(Change::Rename(clean(from), clean(to)))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.change(Change::Remove(clean(path)))
    }

    fn create_folder(&self, path: &Path) -> io::Result<()> {
        self.change(Change::CreateFolder(clean(path)))
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        self.change(Change::Remove(clean(path)))
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.change(Change::SyncFolder(clean(path)))
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Lock>>> {
        let path = clean(path);
        drop(self.open(&path, Open::Append)?);
        let is_free = self.state().locked.insert(path.clone());
        Ok(if is_free { Some(Box::new(Held(self.clone(), path))) } else { None })
    }
}

impl Read for Handle {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let state = self.storage.state();
        state.look()?;
        let rest = state.now.contents[&self.file].get(self.at..).unwrap_or_default();
        let bytes = rest.len().min(buffer.len());
        buffer[..bytes].copy_from_slice(&rest[..bytes]);
        self.at += bytes;
        Ok(bytes)
    }
}

impl Write for Handle {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.storage.change(Change::Write(self.file, buffer.to_vec()))?;
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Handle {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let state = self.storage.state();
        state.look()?;
        self.at = match to {
            SeekFrom::Start(at) => usize::try_from(at).expect("files are small"),
            SeekFrom::End(0) => state.now.contents[&self.file].len(),
            other => unreachable!("nobody seeks to {other:?}"),
        };
        Ok(self.at as u64)
    }
}

impl StoredFile for Handle {
    fn sync(&self) -> io::Result<()> {
        self.storage.change(Change::Sync(self.file))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.storage.change(Change::SetLen(self.file, len))
    }
}
