//! A file system in memory that knows what a power failure would leave, and whose n-th change fails.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{Entry, Lock, Storage, StoredFile};

/// What happens at the n-th call that changes something, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Nothing.
    Never,
    /// It fails, and the process goes on. Of a write, half is done.
    Error(u64),
    /// The process ends there.
    End(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    Folder,
    File(u64),
}

/// A change of names that may not be on the device yet.
#[derive(Clone, Debug)]
enum Change {
    Link(PathBuf, Node),
    Unlink(PathBuf),
    Rename(PathBuf, PathBuf),
}

#[derive(Clone, Debug, Default)]
struct Content {
    now: Vec<u8>,
    synced: Vec<u8>,
}

type Names = BTreeMap<PathBuf, Node>;

#[derive(Debug)]
struct State {
    now: Names,
    synced: Names,
    changes: Vec<Change>,
    files: BTreeMap<u64, Content>,
    locked: BTreeSet<u64>,
    calls: u64,
    failure: Failure,
    is_down: bool,
    /// Whether syncs do what they say. Switched off to see whether tests notice.
    is_honest: bool,
    /// What was asked for at the call that failed.
    failed_at: Option<String>,
}

/// The file system. Clones are the same one.
#[derive(Clone, Debug)]
pub(crate) struct Simulated(Arc<Mutex<State>>);

#[derive(Debug)]
struct Handle {
    storage: Simulated,
    file: u64,
    at: usize,
    appends: bool,
}

#[derive(Debug)]
struct Held {
    storage: Simulated,
    file: u64,
}

impl Lock for Held {}

impl Drop for Held {
    fn drop(&mut self) {
        self.storage.state().locked.remove(&self.file);
    }
}

fn missing() -> io::Error {
    io::ErrorKind::NotFound.into()
}

/// The folder `.`, and the empty path, are the root.
fn clean(path: &Path) -> PathBuf {
    path.components().filter(|component| !matches!(component, std::path::Component::CurDir)).collect()
}

fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

fn apply(names: &mut Names, change: &Change) {
    match change {
        Change::Link(path, node) => {
            names.insert(path.clone(), *node);
        }
        Change::Unlink(path) => {
            names.remove(path);
        }
        Change::Rename(from, to) => {
            if let Some(node) = names.remove(from) {
                names.insert(to.clone(), node);
            }
        }
    }
}

impl Change {
    fn touches(&self, folder: &Path) -> bool {
        match self {
            Self::Link(path, _) | Self::Unlink(path) => folder_of(path) == folder,
            Self::Rename(from, to) => folder_of(from) == folder || folder_of(to) == folder,
        }
    }
}

impl Simulated {
    /// An empty one.
    pub(crate) fn new() -> Self {
        Self::of(Names::new(), BTreeMap::new())
    }

    fn of(names: Names, files: BTreeMap<u64, Content>) -> Self {
        Self(Arc::new(Mutex::new(State {
            now: names.clone(),
            synced: names,
            changes: Vec::new(),
            files,
            locked: BTreeSet::new(),
            calls: 0,
            failure: Failure::Never,
            is_down: false,
            is_honest: true,
            failed_at: None,
        })))
    }

    /// A copy whose calls are counted from the start.
    pub(crate) fn copy(&self, failure: Failure) -> Self {
        let state = self.state();
        let copy = Self::of(state.now.clone(), state.files.clone());
        let mut own = copy.state();
        (own.synced, own.changes) = (state.synced.clone(), state.changes.clone());
        (own.failure, own.is_honest) = (failure, state.is_honest);
        drop(own);
        copy
    }

    /// Lets syncs do nothing from now on.
    pub(crate) fn lie(&self) {
        self.state().is_honest = false;
    }

    /// Whether the failure has happened, and at what.
    pub(crate) fn failed_at(&self) -> Option<String> {
        self.state().failed_at.clone()
    }

    /// What the next process finds when this one was killed: all that it did.
    pub(crate) fn killed(&self) -> Self {
        let next = self.copy(Failure::Never);
        next.state().is_honest = true;
        next
    }

    /// What is there after a power failure: what was synced, and of the rest whatever a seed draws.
    pub(crate) fn without_power(&self, seed: u64) -> Self {
        let state = self.state();
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut names = state.synced.clone();
        // Of the first seed nothing is kept, of the second everything.
        let mut is_kept = || match seed {
            0 => false,
            1 => true,
            _ => rng.next_u32().is_multiple_of(2),
        };
        for change in &state.changes {
            if is_kept() {
                apply(&mut names, change);
            }
        }
        // A name whose folder was lost leads nowhere.
        while let Some(lost) = names.keys().find(|path| {
            let folder = folder_of(path);
            !folder.as_os_str().is_empty() && names.get(folder) != Some(&Node::Folder)
        }) {
            let lost = lost.clone();
            names.remove(&lost);
        }
        let mut files = state.files.clone();
        for content in files.values_mut() {
            if content.now != content.synced {
                let kept = if is_kept() { content.now.len() } else { content.now.len() / 2 };
                content.now.truncate(kept);
                if !is_kept() {
                    content.now.clone_from(&content.synced);
                }
            }
            content.synced.clone_from(&content.now);
        }
        Self::of(names, files)
    }

    /// All files with their contents.
    pub(crate) fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let state = self.state();
        let file = |(path, node): (&PathBuf, &Node)| match node {
            Node::File(id) => Some((path.display().to_string(), state.files[id].now.clone())),
            Node::Folder => None,
        };
        state.now.iter().filter_map(file).collect()
    }

    /// All folders.
    pub(crate) fn folders(&self) -> Vec<String> {
        let state = self.state();
        let folders = state.now.iter().filter(|(_, node)| **node == Node::Folder);
        folders.map(|(path, _)| path.display().to_string()).collect()
    }

    /// Puts a file there, synced, without counting.
    pub(crate) fn put(&self, path: &str, content: &[u8]) {
        let mut state = self.state();
        let node = Node::File(state.add(Content { now: content.to_vec(), synced: content.to_vec() }));
        state.now.insert(path.into(), node);
        state.synced.insert(path.into(), node);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Counts a call that changes something. An error means that nothing, or of a write half, is to be done.
    fn change(&mut self, what: &str) -> io::Result<()> {
        if self.is_down {
            return Err(io::Error::other("the process has ended"));
        }
        self.calls += 1;
        let fails = match self.failure {
            Failure::Never => false,
            Failure::Error(at) => self.calls == at,
            Failure::End(at) => {
                self.is_down = self.calls == at;
                self.is_down
            }
        };
        if !fails {
            return Ok(());
        }
        self.failed_at = Some(what.to_owned());
        Err(io::Error::other(format!("injected: {what}")))
    }

    fn look(&self) -> io::Result<()> {
        if self.is_down { Err(io::Error::other("the process has ended")) } else { Ok(()) }
    }

    fn file(&self, path: &Path) -> io::Result<u64> {
        match self.now.get(path) {
            Some(Node::File(id)) => Ok(*id),
            Some(Node::Folder) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(missing()),
        }
    }

    fn parent_exists(&self, path: &Path) -> io::Result<()> {
        let folder = folder_of(path);
        let exists = folder.as_os_str().is_empty() || self.now.get(folder) == Some(&Node::Folder);
        if exists { Ok(()) } else { Err(missing()) }
    }

    fn record(&mut self, change: Change) {
        apply(&mut self.now, &change);
        self.changes.push(change);
    }

    /// A file without a name.
    fn add(&mut self, content: Content) -> u64 {
        let id = self.files.keys().last().map_or(0, |last| last + 1);
        self.files.insert(id, content);
        id
    }

    /// The file at a path, made if it is not there.
    fn make(&mut self, path: &Path) -> io::Result<u64> {
        self.parent_exists(path)?;
        match self.file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let id = self.add(Content::default());
                self.record(Change::Link(path.to_owned(), Node::File(id)));
                Ok(id)
            }
            found => found,
        }
    }
}

impl Storage for Simulated {
    fn entry(&self, path: &Path) -> io::Result<Option<Entry>> {
        let (state, path) = (self.state(), clean(path));
        state.look()?;
        if path.as_os_str().is_empty() {
            return Ok(Some(Entry::Folder));
        }
        Ok(state.now.get(&path).map(|node| match node {
            Node::Folder => Entry::Folder,
            Node::File(id) => Entry::File(state.files[id].now.len() as u64),
        }))
    }

    fn names(&self, folder: &Path) -> io::Result<Vec<OsString>> {
        let (state, folder) = (self.state(), clean(folder));
        state.look()?;
        let inside = state.now.keys().filter(|path| folder_of(path) == folder);
        Ok(inside.filter_map(|path| path.file_name()).map(OsString::from).collect())
    }

    fn read(&self, path: &Path) -> io::Result<Box<dyn StoredFile>> {
        let state = self.state();
        state.look()?;
        let file = state.file(&clean(path))?;
        Ok(Box::new(Handle { storage: self.clone(), file, at: 0, appends: false }))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn StoredFile>> {
        let (mut state, path) = (self.state(), clean(path));
        state.change(&format!("create {}", path.display()))?;
        let file = state.make(&path)?;
        state.files.entry(file).or_default().now.clear();
        Ok(Box::new(Handle { storage: self.clone(), file, at: 0, appends: false }))
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn StoredFile>> {
        let (mut state, path) = (self.state(), clean(path));
        state.change(&format!("append {}", path.display()))?;
        let file = state.make(&path)?;
        Ok(Box::new(Handle { storage: self.clone(), file, at: 0, appends: true }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (mut state, from, to) = (self.state(), clean(from), clean(to));
        state.change(&format!("rename {}", to.display()))?;
        state.file(&from)?;
        state.parent_exists(&to)?;
        if state.now.get(&to) == Some(&Node::Folder) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        state.record(Change::Rename(from, to));
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let (mut state, path) = (self.state(), clean(path));
        state.change(&format!("remove {}", path.display()))?;
        state.file(&path)?;
        state.record(Change::Unlink(path));
        Ok(())
    }

    fn create_folder(&self, path: &Path) -> io::Result<()> {
        let (mut state, path) = (self.state(), clean(path));
        state.change(&format!("create folder {}", path.display()))?;
        state.parent_exists(&path)?;
        if state.now.contains_key(&path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        state.record(Change::Link(path, Node::Folder));
        Ok(())
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        let (mut state, path) = (self.state(), clean(path));
        state.change(&format!("remove folder {}", path.display()))?;
        if state.now.keys().any(|other| folder_of(other) == path) {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        if state.now.get(&path) != Some(&Node::Folder) {
            return Err(missing());
        }
        state.record(Change::Unlink(path));
        Ok(())
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        let (mut state, path) = (self.state(), clean(path));
        state.change(&format!("sync folder {}", path.display()))?;
        if state.is_honest {
            let State { synced, changes, .. } = &mut *state;
            changes.retain(|change| {
                let is_synced = change.touches(&path);
                if is_synced {
                    apply(synced, change);
                }
                !is_synced
            });
        }
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Lock>>> {
        let (mut state, path) = (self.state(), clean(path));
        state.change(&format!("lock {}", path.display()))?;
        let file = state.make(&path)?;
        if !state.locked.insert(file) {
            return Ok(None);
        }
        Ok(Some(Box::new(Held { storage: self.clone(), file })))
    }
}

impl Read for Handle {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let state = self.storage.state();
        state.look()?;
        let rest = &state.files[&self.file].now[self.at..];
        let read = rest.len().min(buffer.len());
        buffer[..read].copy_from_slice(&rest[..read]);
        drop(state);
        self.at += read;
        Ok(read)
    }
}

impl Write for Handle {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let mut state = self.storage.state();
        let allowed = state.change("write");
        let written = if allowed.is_ok() { buffer.len() } else { buffer.len() / 2 };
        let content = &mut state.files.entry(self.file).or_default().now;
        if self.appends {
            self.at = content.len();
        }
        if content.len() < self.at + written {
            content.resize(self.at + written, 0);
        }
        content[self.at..self.at + written].copy_from_slice(&buffer[..written]);
        drop(state);
        self.at += written;
        allowed.map(|()| written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Handle {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let len = self.storage.state().files[&self.file].now.len();
        self.at = match to {
            SeekFrom::Start(at) => usize::try_from(at).expect("files fit into memory"),
            SeekFrom::End(0) => len,
            SeekFrom::End(_) | SeekFrom::Current(_) => return Err(io::ErrorKind::Unsupported.into()),
        };
        Ok(self.at as u64)
    }
}

impl StoredFile for Handle {
    fn sync(&self) -> io::Result<()> {
        let mut state = self.storage.state();
        state.change("sync")?;
        if state.is_honest {
            let content = state.files.entry(self.file).or_default();
            content.synced = content.now.clone();
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.storage.state();
        state.change("cut")?;
        let len = usize::try_from(len).expect("files fit into memory");
        state.files.entry(self.file).or_default().now.resize(len, 0);
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        let state = self.storage.state();
        state.look()?;
        Ok(state.files[&self.file].now.len() as u64)
    }
}
