//! The hidden folder `.zipwire` inside an output folder, in which a result is made ready, and how the result gets from there into
//! its place: a decision that is written down first, and steps that whoever comes next can repeat.
//!
//! | in `.zipwire` | |
//! |---|---|
//! | `lock` | locked by the process that fills the output folder, for as long as it runs |
//! | `new/` | files of the result, each synced when it is complete |
//! | `commit.json` | the decision: what the new result consists of, and the one that it replaces |

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::RESULT;
use super::manifest::{FileRecord, Manifest};
use crate::storage::{Entry, Lock, Storage, StoredFile};

/// The folder.
const WORKSPACE: &str = ".zipwire";
/// The manifest of the result that is in the output folder.
pub(super) const MANIFEST: &str = ".zipwire.json";
/// How often a folder is made that others remove at the same time.
const CLAIM_TRIES: usize = 100;

/// The hidden folder, for as long as this process has its lock.
#[derive(Debug)]
pub(super) struct Workspace {
    storage: Arc<dyn Storage>,
    /// The output folder.
    folder: PathBuf,
    /// Given back after everything else.
    _lock: Box<dyn Lock>,
}

/// Why a result is not in its place.
#[derive(Debug)]
pub(super) enum NotCommitted {
    /// The result before it still is.
    OldIsKept(io::Error),
    /// None is.
    NothingIsLeft(io::Error),
}

/// Why a workspace cannot be used.
#[derive(Debug)]
pub(super) enum NotHealed {
    Io(io::Error),
    Unreadable { path: PathBuf, reason: String },
}

impl From<io::Error> for NotHealed {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// A step of a commit that failed.
struct Stuck {
    source: io::Error,
    /// Whether something of the old result is gone.
    is_touched: bool,
}

impl Workspace {
    /// Makes the hidden folder of an output folder, or takes over what a process has left that is gone. `None` if another
    /// process is at it.
    pub(super) fn claim(storage: &Arc<dyn Storage>, folder: &Path) -> io::Result<Option<Self>> {
        let own = folder.join(WORKSPACE);
        for _ in 0..CLAIM_TRIES {
            let is_new = match storage.create_folder(&own) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
                created => created.map(|()| true)?,
            };
            let lock = match storage.lock(&own.join("lock")) {
                // Whoever had it before has just removed the folder.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => {
                    if is_new {
                        // The file may be there although it cannot be locked.
                        let _ = storage.remove_file(&own.join("lock"));
                        let _ = storage.remove_folder(&own);
                    }
                    return Err(error);
                }
                Ok(lock) => lock,
            };
            let claim = |lock| Self { storage: Arc::clone(storage), folder: folder.to_owned(), _lock: lock };
            return Ok(lock.map(claim));
        }
        Ok(None)
    }

    /// Brings an interrupted commit to its end, and removes what else a killed process left.
    pub(super) fn heal(&self) -> Result<(), NotHealed> {
        let path = self.decision();
        match Manifest::read(&*self.storage, &path)? {
            None => {}
            Some(Err(reason)) => return Err(NotHealed::Unreadable { path, reason }),
            Some(Ok(manifest)) => {
                // Whoever wrote it may have been killed before it was on the device, and nothing may follow it before it is.
                self.storage.sync_folder(&self.own())?;
                self.storage.sync_folder(&self.folder)?;
                if self.is_complete(&manifest)? {
                    self.finish(&manifest).map_err(|stuck| stuck.source)?;
                } else {
                    self.abandon(&manifest)?;
                }
            }
        }
        self.clear()?;
        Ok(())
    }

    /// Opens a file of the result. It is to be synced when it is complete.
    pub(super) fn stage(&self, name: &str) -> io::Result<Box<dyn StoredFile>> {
        let staged = self.staged();
        if self.storage.entry(&staged)?.is_none() {
            self.storage.create_folder(&staged)?;
        }
        self.storage.create(&staged.join(name))
    }

    /// Whether a file stands where one of the result belongs, and is not as an older result has left it.
    pub(super) fn is_foreign(&self, name: &str) -> io::Result<bool> {
        let path = self.folder.join(name);
        if self.storage.entry(&path)?.is_none() {
            return Ok(false);
        }
        let old = self.old()?;
        let known = old.iter().find(|file| file.name == name);
        known.map_or(Ok(true), |file| Ok(!file.matches(&*self.storage, &path)?))
    }

    /// The files of the result that is there. A manifest that cannot be read names none.
    fn old(&self) -> io::Result<Vec<FileRecord>> {
        let manifest = Manifest::read(&*self.storage, &self.folder.join(MANIFEST))?.and_then(Result::ok);
        Ok(manifest.map_or_else(Vec::new, |manifest| manifest.files))
    }

    /// Puts files that were staged into their place, instead of the result that is there, or beside it.
    pub(super) fn commit(&self, files: Vec<FileRecord>, is_beside: bool) -> Result<(), NotCommitted> {
        let manifest = self.decide(files, is_beside).map_err(|source| {
            self.forget();
            NotCommitted::OldIsKept(source)
        })?;
        self.finish(&manifest).map_err(|Stuck { source, is_touched }| {
            if is_touched {
                // If this fails, too, the next process does it.
                let _ = self.abandon(&manifest);
                NotCommitted::NothingIsLeft(source)
            } else {
                self.forget();
                NotCommitted::OldIsKept(source)
            }
        })
    }

    /// Removes the hidden folder, unless it holds a decision that somebody has to carry out.
    pub(super) fn leave(&self) {
        let undecided = matches!(self.storage.entry(&self.decision()), Ok(None));
        if undecided && self.clear().is_ok() {
            // In this order: nobody finds a lock that is not held any more beside anything.
            let _ = self.storage.remove_file(&self.own().join("lock"));
            let _ = self.storage.remove_folder(&self.own());
        }
    }

    /// Writes down what is about to happen. Before this nothing has happened; after it, all of it will.
    fn decide(&self, files: Vec<FileRecord>, is_beside: bool) -> io::Result<Manifest> {
        let manifest = if is_beside { Manifest::beside(files) } else { Manifest::new(files, self.old()?) };
        if self.storage.entry(&self.staged())?.is_some() {
            self.storage.sync_folder(&self.staged())?;
        }
        self.write_manifest(&manifest, &self.decision())?;
        Ok(manifest)
    }

    /// Writes a manifest so that it is there as a whole or not at all.
    fn write_manifest(&self, manifest: &Manifest, path: &Path) -> io::Result<()> {
        let draft = self.own().join("draft.json");
        let mut file = io::BufWriter::new(self.storage.create(&draft)?);
        manifest.write(&mut file)?;
        file.flush()?;
        file.get_ref().sync()?;
        self.storage.rename(&draft, path)?;
        self.storage.sync_folder(&self.own())?;
        self.storage.sync_folder(&self.folder)
    }

    /// Takes a decision back that nothing has followed yet.
    fn forget(&self) {
        let removed = self.storage.remove_file(&self.decision());
        // If this fails, too, there is nothing that could be done about it: the next process carries out what it finds.
        let _ = removed.and_then(|()| self.storage.sync_folder(&self.own()));
    }

    /// Whether each file of a result is staged or in its place, with the content that it had.
    fn is_complete(&self, manifest: &Manifest) -> io::Result<bool> {
        for file in &manifest.files {
            let is_there = file.matches(&*self.storage, &self.staged().join(&file.name))?
                || file.matches(&*self.storage, &self.folder.join(&file.name))?;
            if !is_there {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Carries out a decision, from wherever it was interrupted. `summary.json` goes first and comes last, so that at no time
    /// it stands beside files of another result.
    fn finish(&self, manifest: &Manifest) -> Result<(), Stuck> {
        let is_touched = std::cell::Cell::new(false);
        let stuck = |source| Stuck { source, is_touched: is_touched.get() };
        if !manifest.is_beside {
            self.withdraw(manifest, &is_touched).map_err(stuck)?;
        }
        is_touched.set(true);
        let move_files = || {
            self.remove_stale(manifest)?;
            let (marker, others): (Vec<_>, Vec<_>) =
                manifest.files.iter().partition(|file| file.name == RESULT);
            for files in [others, marker] {
                for file in files {
                    let staged = self.staged().join(&file.name);
                    if self.storage.entry(&staged)?.is_some() {
                        self.storage.rename(&staged, &self.folder.join(&file.name))?;
                    }
                }
                self.storage.sync_folder(&self.folder)?;
            }
            if manifest.is_beside {
                self.storage.remove_file(&self.decision())?;
            } else {
                // The last step: the decision is carried out, and becomes the manifest of what is there.
                self.storage.rename(&self.decision(), &self.folder.join(MANIFEST))?;
                self.storage.sync_folder(&self.folder)?;
            }
            self.storage.sync_folder(&self.own())
        };
        move_files().map_err(|source| Stuck { source, is_touched: true })
    }

    /// Removes what says that the old result is there.
    fn withdraw(&self, manifest: &Manifest, is_touched: &std::cell::Cell<bool>) -> io::Result<()> {
        let (result, storage) = (self.folder.join(RESULT), &*self.storage);
        let is_replaced = match manifest.files.iter().any(|file| file.name == RESULT) {
            true => storage.entry(&self.staged().join(RESULT))?.is_some(),
            false => self.is_stale(manifest, RESULT)?,
        };
        for (path, is_removed) in [(result, is_replaced), (self.folder.join(MANIFEST), true)] {
            if is_removed && storage.entry(&path)?.is_some() {
                storage.remove_file(&path)?;
                is_touched.set(true);
            }
        }
        storage.sync_folder(&self.folder)
    }

    /// Whether a file in the output folder is of the result that is replaced, and was not changed since.
    fn is_stale(&self, manifest: &Manifest, name: &str) -> io::Result<bool> {
        let old = manifest.replaced.iter().find(|file| file.name == name);
        old.map_or(Ok(false), |file| file.matches(&*self.storage, &self.folder.join(name)))
    }

    /// Removes files of the old result that the new one does not have. What others put there is not touched.
    fn remove_stale(&self, manifest: &Manifest) -> io::Result<()> {
        for old in &manifest.replaced {
            let is_kept = manifest.files.iter().any(|file| file.name == old.name);
            if !is_kept && self.is_stale(manifest, &old.name)? {
                self.storage.remove_file(&self.folder.join(&old.name))?;
            }
        }
        Ok(())
    }

    /// Gives up a result that cannot be completed: the old one stays if nothing of it is gone; otherwise there is none.
    fn abandon(&self, manifest: &Manifest) -> io::Result<()> {
        let storage = &*self.storage;
        let mut old_is_whole = !manifest.replaced.is_empty();
        for old in &manifest.replaced {
            old_is_whole = old_is_whole && self.is_stale(manifest, &old.name)?;
        }
        let is_old = |file: &FileRecord| manifest.replaced.iter().any(|old| old.name == file.name);
        for file in &manifest.files {
            let path = self.folder.join(&file.name);
            if !(old_is_whole && is_old(file)) && file.matches(storage, &path)? {
                storage.remove_file(&path)?;
            }
        }
        if old_is_whole {
            let old = Manifest::new(manifest.replaced.clone(), Vec::new());
            self.write_manifest(&old, &self.folder.join(MANIFEST))?;
        } else {
            for old in &manifest.replaced {
                if self.is_stale(manifest, &old.name)? {
                    storage.remove_file(&self.folder.join(&old.name))?;
                }
            }
            storage.sync_folder(&self.folder)?;
        }
        self.clear()?;
        storage.remove_file(&self.decision())?;
        storage.sync_folder(&self.own())
    }

    /// Removes staged files.
    fn clear(&self) -> io::Result<()> {
        let (staged, draft) = (self.staged(), self.own().join("draft.json"));
        if self.storage.entry(&draft)?.is_some() {
            self.storage.remove_file(&draft)?;
        }
        if self.storage.entry(&staged)?.is_some() {
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

    fn decision(&self) -> PathBuf {
        self.own().join("commit.json")
    }

    /// Whether a folder stands where a file of the result belongs.
    pub(super) fn is_occupied(&self, name: &str) -> io::Result<bool> {
        Ok(self.storage.entry(&self.folder.join(name))? == Some(Entry::Folder))
    }
}
