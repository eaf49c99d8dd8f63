//! The output folder of a run: it holds the result before or the new one, never a mixture, wherever a process or the machine ends.
//!
//! | in the hidden folder `.zipwire` | |
//! |---|---|
//! | `lock` | locked by the process that fills the output folder, for as long as it runs |
//! | `new/` | files of the result, each synced when it is complete, and its manifest |
//! | `ready/` | `new/` after one rename, which decides: the result is complete, and from here on it is put into place |
//!
//! Moving files out of `ready/` can be repeated from wherever it stopped: the next process that opens the folder does so. Meanwhile there is no
//! `summary.json`: it is removed before anything else changes, and put there last.
//!
//! The manifest `.zipwire.json` lists the files of a result with their hashes. Only files that it lists, unchanged, are replaced or removed.

mod manifest;
#[cfg(test)]
mod tests;

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::manifest::{Hashing, Manifest, is_plain};
use crate::storage::{Entry, Lock, Open, Storage, System};

/// File whose presence says that a run has a result.
pub(crate) const RESULT: &str = "summary.json";
const WORKSPACE: &str = ".zipwire";
/// The manifest of the result that is in the output folder.
const MANIFEST: &str = ".zipwire.json";
/// Attempts to lock a folder that others remove at the same time.
const CLAIM_TRIES: usize = 100;

/// An output folder that is being filled. [`Output::commit`] moves all files into place; dropped before, it leaves nothing behind.
#[derive(Debug)]
pub struct Output {
    storage: Arc<dyn Storage>,
    folder: PathBuf,
    /// Folders that did not exist before, outermost first.
    created: Vec<PathBuf>,
    /// `None` until the folder is claimed.
    lock: Option<Box<dyn Lock>>,
    new: Manifest,
    old: Manifest,
    /// Whether the files replace those of the same names, also files of others, and nothing else.
    is_beside: bool,
    has_old: bool,
}

/// An error of the system, which the caller says what to make of, or one that says all.
enum Problem {
    Io(io::Error),
    Known(OutputError),
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<OutputError> for Problem {
    fn from(error: OutputError) -> Self {
        Self::Known(error)
    }
}

impl Problem {
    fn or(self, failed: impl FnOnce(io::Error) -> OutputError) -> OutputError {
        match self {
            Self::Io(source) => failed(source),
            Self::Known(error) => error,
        }
    }
}

impl Output {
    /// Makes sure that `folder` can be written, before anything is computed for it. A result that an interrupted process had
    /// ready is put into place first. The folder is locked until the output is dropped.
    ///
    /// # Errors
    /// If it cannot be created or written, if another process is at it, or if something stands where `summary.json` belongs that is
    /// no result.
    pub fn create(folder: &Path) -> Result<Self, OutputError> {
        Self::create_in(Arc::new(System), folder, false)
    }

    /// [`create`](Self::create) for files that stand beside others: those of the same names are replaced, and nothing else. For
    /// pictures and the like, when several commands fill one folder.
    ///
    /// # Errors
    /// If it cannot be created or written, or if another process is at it.
    pub fn create_beside(folder: &Path) -> Result<Self, OutputError> {
        Self::create_in(Arc::new(System), folder, true)
    }

    pub(crate) fn create_in(
        storage: Arc<dyn Storage>,
        folder: &Path,
        is_beside: bool,
    ) -> Result<Self, OutputError> {
        // Dropped on an error, it removes what it has made until then.
        let mut output = Self {
            storage,
            folder: folder.to_owned(),
            created: Vec::new(),
            lock: None,
            new: Manifest::default(),
            old: Manifest::default(),
            is_beside,
            has_old: false,
        };
        let prepared = output.prepare();
        prepared
            .map_err(|error| error.or(|source| OutputError::Refused { folder: folder.to_owned(), source }))?;
        Ok(output)
    }

    fn prepare(&mut self) -> Result<(), Problem> {
        self.create_folders()?;
        self.claim()?;
        self.put_into_place()?;
        self.clear()?;
        self.storage.create_folder(&self.staged())?;
        if !self.is_beside {
            self.old = self.manifest(&self.folder)?.unwrap_or_default();
            self.has_old = self.storage.entry(&self.folder.join(RESULT))?.is_some();
            self.check_place(RESULT, false)?;
        }
        Ok(())
    }

    /// Whether a result was there that this one replaces.
    pub fn replaces(&self) -> bool {
        self.has_old
    }

    /// Creates the folder and those that it is in.
    fn create_folders(&mut self) -> io::Result<()> {
        let mut missing = Vec::new();
        for path in self.folder.ancestors().filter(|path| !path.as_os_str().is_empty()) {
            match self.storage.entry(path)? {
                None => missing.push(path.to_owned()),
                Some(Entry::Folder | Entry::Other) => break,
                Some(Entry::File(_)) if path == self.folder => {
                    return Err(io::Error::other("it is not a folder"));
                }
                Some(Entry::File(_)) => {
                    return Err(io::Error::other(format!("`{}` is not a folder", path.display())));
                }
            }
        }
        for path in missing.into_iter().rev() {
            if self.create_folder(&path)? {
                self.created.push(path.clone());
                self.storage.sync_folder(parent(&path))?;
            }
        }
        Ok(())
    }

    /// Creates a folder; `false` if it is there.
    fn create_folder(&self, path: &Path) -> io::Result<bool> {
        match self.storage.create_folder(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            created => created.map(|()| true),
        }
    }

    /// Makes the hidden folder and locks it.
    fn claim(&mut self) -> Result<(), Problem> {
        let (own, lock) = (self.own(), self.own().join("lock"));
        for _ in 0..CLAIM_TRIES {
            let is_new = self.create_folder(&own)?;
            self.has_folder(&own)?;
            match self.storage.lock(&lock) {
                Ok(Some(held)) => {
                    self.lock = Some(held);
                    return Ok(());
                }
                // Another process holds it, if it is still there.
                Ok(None) if self.storage.entry(&lock)?.is_some() => break,
                Ok(None) => {}
                // The holder before has just removed the folder.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    if is_new {
                        // The file may be there although it cannot be locked.
                        let _ = self.storage.remove_file(&lock);
                        let _ = self.storage.remove_folder(&own);
                    }
                    return Err(error.into());
                }
            }
        }
        Err(OutputError::Busy(self.folder.clone()).into())
    }

    /// Whether a folder of the hidden ones is there; a link in its place is not followed.
    fn has_folder(&self, path: &Path) -> Result<bool, Problem> {
        match self.storage.entry(path)? {
            None => Ok(false),
            Some(Entry::Folder) => Ok(true),
            Some(_) => Err(OutputError::NotOwn(path.to_owned()).into()),
        }
    }

    /// Refuses an entry where a file belongs, unless it is a file of the old result, unchanged, or `any_file` may be replaced.
    fn check_place(&self, name: &str, any_file: bool) -> Result<(), Problem> {
        let path = self.folder.join(name);
        match self.storage.entry(&path)? {
            None => Ok(()),
            Some(Entry::Folder) => Err(OutputError::Occupied(path).into()),
            Some(Entry::File(_)) if any_file || self.is_old(name)? => Ok(()),
            Some(_) => Err(OutputError::Foreign(path).into()),
        }
    }

    /// Whether the file of this name is one of the old result, unchanged.
    fn is_old(&self, name: &str) -> io::Result<bool> {
        let old = self.old.file(name);
        old.map_or(Ok(false), |file| file.matches(&*self.storage, &self.folder.join(name)))
    }

    /// Writes one file. When this returns, it is on the device.
    ///
    /// # Errors
    /// If it cannot be written in full, or if something stands where it belongs that is no file of an older result.
    ///
    /// # Panics
    /// If `name` is not a plain file name.
    pub fn write(
        &mut self,
        name: &str,
        content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), OutputError> {
        assert!(is_plain(name), "`{name}` is no name of a file");
        let failed = |source| OutputError::Write { folder: self.folder.clone(), source };
        self.check_place(name, self.is_beside).map_err(|error| error.or(failed))?;
        let record = self.stage(name, content).map_err(failed)?;
        self.new.put(record);
        Ok(())
    }

    /// Writes a file to `new/` and syncs it.
    fn stage(
        &self,
        name: &str,
        content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<manifest::FileRecord> {
        let file = self.storage.open(&self.staged().join(name), Open::Create)?;
        let mut file = Hashing::new(BufWriter::new(file));
        content(&mut file)?;
        file.flush()?;
        let record = file.record(name);
        // Emptied just now, so nothing is left to be written when it is dropped.
        file.into_inner().get_ref().sync()?;
        Ok(record)
    }

    /// Moves all files into place, instead of those of the result before.
    ///
    /// # Errors
    /// If the system fails. The result before is then still there, or the new one is ready for the next process, as the error says.
    pub fn commit(mut self) -> Result<(), OutputError> {
        let decided = self.decide();
        decided.map_err(|source| OutputError::Write { folder: self.folder.clone(), source })?;
        if let Err(failure) = self.put_into_place() {
            if let Problem::Known(_) = failure {
                // Nothing has changed yet: what was decided is taken back.
                let _ = self.storage.rename(&self.ready(), &self.staged());
            }
            return Err(failure.or(|source| OutputError::Replace { folder: self.folder.clone(), source }));
        }
        self.created.clear();
        Ok(())
    }

    /// Renames the complete result. Before this nothing has happened; after it, all of it will.
    fn decide(&self) -> io::Result<()> {
        if !self.is_beside {
            self.stage(MANIFEST, |out| self.new.write(out))?;
        }
        self.storage.sync_folder(&self.staged())?;
        self.storage.rename(&self.staged(), &self.ready())
    }

    /// Moves the files of `ready/` into place, from wherever that was interrupted. Without a manifest among them they stand beside
    /// what is there.
    fn put_into_place(&mut self) -> Result<(), Problem> {
        let (storage, ready) = (Arc::clone(&self.storage), self.ready());
        if !self.has_folder(&ready)? {
            return Ok(());
        }
        // The process that renamed it may have been killed before that was on the device, and nothing may follow it before it is.
        storage.sync_folder(&self.own())?;
        storage.sync_folder(&self.folder)?;
        let new = self.manifest(&ready)?;
        if new.is_some() {
            self.old = self.manifest(&self.folder)?.unwrap_or_default();
        }
        let mut pending = Vec::new();
        for name in storage.names(&ready)? {
            let name = name
                .into_string()
                .map_err(|name| io::Error::other(format!("not a name: {}", name.display())))?;
            if name != MANIFEST {
                self.check_place(&name, new.is_none())?;
                pending.push(name);
            }
        }
        if let Some(new) = &new {
            self.remove_old(new, &pending)?;
        }
        // The result says that it is there when all of it is.
        for is_result in [false, true] {
            for name in pending.iter().filter(|name| (*name == RESULT) == is_result) {
                storage.rename(&ready.join(name), &self.folder.join(name))?;
            }
            storage.sync_folder(&self.folder)?;
        }
        if new.is_some() {
            storage.rename(&ready.join(MANIFEST), &self.folder.join(MANIFEST))?;
            storage.sync_folder(&self.folder)?;
        }
        storage.remove_folder(&ready)?;
        storage.sync_folder(&self.own())?;
        Ok(())
    }

    /// Removes `summary.json`, then files of the old result that the new one lacks. Files that were changed since stay.
    fn remove_old(&self, new: &Manifest, pending: &[String]) -> io::Result<()> {
        let storage = &*self.storage;
        let mut stale = Vec::new();
        for file in &self.old.files {
            let is_replaced = file.name == RESULT && pending.contains(&file.name);
            if (is_replaced || new.file(&file.name).is_none()) && self.is_old(&file.name)? {
                stale.push(&file.name);
            }
        }
        for is_result in [true, false] {
            for name in stale.iter().filter(|name| (**name == RESULT) == is_result) {
                storage.remove_file(&self.folder.join(name))?;
            }
            storage.sync_folder(&self.folder)?;
        }
        Ok(())
    }

    /// The manifest in a folder, if there is one.
    fn manifest(&self, folder: &Path) -> Result<Option<Manifest>, Problem> {
        let path = folder.join(MANIFEST);
        match Manifest::read(&*self.storage, &path)? {
            Ok(manifest) => Ok(manifest),
            Err(reason) => Err(OutputError::Unreadable { path, reason }.into()),
        }
    }

    fn clear(&self) -> Result<(), Problem> {
        let staged = self.staged();
        if self.has_folder(&staged)? {
            for name in self.storage.names(&staged)? {
                self.storage.remove_file(&staged.join(name))?;
            }
            self.storage.remove_folder(&staged)?;
        }
        Ok(())
    }

    fn own(&self) -> PathBuf {
        self.folder.join(WORKSPACE)
    }

    fn staged(&self) -> PathBuf {
        self.own().join("new")
    }

    fn ready(&self) -> PathBuf {
        self.own().join("ready")
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if self.lock.is_some()
            && self.clear().is_ok()
            && matches!(self.storage.entry(&self.ready()), Ok(None))
        {
            // In this order: nobody finds a lock that is not held any more beside anything.
            let _ = self.storage.remove_file(&self.own().join("lock"));
            let _ = self.storage.remove_folder(&self.own());
        }
        for folder in self.created.iter().rev() {
            // Succeeds only on empty folders: what others put there meanwhile stays.
            let _ = self.storage.remove_folder(folder);
        }
    }
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// An output folder has no new result.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "fields are named by the messages")]
#[non_exhaustive]
pub enum OutputError {
    /// It cannot be created or written, known before anything was computed.
    #[error("cannot write to output folder `{}`: {source}\nhelp: choose a writable one with `--out`", folder.display())]
    Refused { folder: PathBuf, source: io::Error },
    #[error(
        "another process writes to output folder `{}`\nhelp: wait until it has ended, or choose another folder with `--out`",
        .0.display()
    )]
    Busy(PathBuf),
    #[error("`{}` is a folder, and a result has a file there\nhelp: move it away, or choose another folder with `--out`", .0.display())]
    Occupied(PathBuf),
    /// A file stands where one of the result belongs, and no run has left it so.
    #[error(
        "`{}` is not as a run has left it, and a result would replace it\nhelp: move it away, or choose another folder with `--out`",
        .0.display()
    )]
    Foreign(PathBuf),
    /// Something else stands where a hidden folder of this program belongs, which is not gone into.
    #[error(
        "`{}` is a link or a file, and runs have a folder there\nhelp: remove it, or choose another folder with `--out`",
        .0.display()
    )]
    NotOwn(PathBuf),
    /// A manifest is damaged, so nobody knows which files are those of a run.
    #[error(
        "`{}` should list the files of a result, and cannot be read: {reason}\n\
         help: move it away, and the files that are beside it, or choose another folder with `--out`",
        path.display()
    )]
    Unreadable { path: PathBuf, reason: String },
    /// A file cannot be written in full. The folder is as it was before.
    #[error("cannot write to output folder `{}`: {source}\nhelp: choose a writable one with `--out`", folder.display())]
    Write { folder: PathBuf, source: io::Error },
    /// The system failed while the old result was being replaced.
    #[error(
        "cannot replace the result in output folder `{}`: {source}\n\
         help: the new one is complete in its folder `.zipwire/ready`; the next command that writes there puts it into place first",
        folder.display()
    )]
    Replace { folder: PathBuf, source: io::Error },
}

impl OutputError {
    /// Whether the folder could not be used from the start, rather than failing later, on a full disk for instance.
    pub fn is_refused(&self) -> bool {
        !matches!(self, Self::Write { .. } | Self::Replace { .. })
    }
}
