//! The output folder of a run: it holds the result before, or the new one, or visibly none, wherever a process or the machine ends.
//!
//! | step | what is on the device then |
//! |---|---|
//! | files are written to a hidden folder and synced | the old result |
//! | a decision is written down: the files with their hashes, and those of the old result | the old result; whoever opens the folder next goes on from here |
//! | `summary.json` and the manifest of the old result are removed | none |
//! | files of the old result that the new one lacks are removed, new files are moved, `summary.json` last | none, until `summary.json` is there |
//! | the decision becomes the manifest, `.zipwire.json` | the new result |
//!
//! A result is replaced as a whole: nothing of an earlier one stays beside it. What others put into the folder stays, also a file of a
//! result that was changed since; where the new result has a file of that name, it is refused.

mod error;
mod manifest;
#[cfg(test)]
mod tests;
mod workspace;

pub use error::OutputError;

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::storage::{Entry, Storage, System};
use manifest::{FileRecord, Hashing, is_plain};
use workspace::{NotCommitted, NotHealed, Workspace};

/// The file that says that a run has a result.
pub(crate) const RESULT: &str = "summary.json";

/// An output folder that is being filled. [`Output::commit`] moves all files into place; dropped before, it leaves nothing behind.
#[derive(Debug)]
pub struct Output {
    storage: Arc<dyn Storage>,
    folder: PathBuf,
    /// Folders that did not exist before, outermost first.
    created: Vec<PathBuf>,
    /// `None` only while it is being made.
    workspace: Option<Workspace>,
    files: Vec<FileRecord>,
    /// Whether they replace those of the same names, whoever wrote these, and nothing else.
    is_beside: bool,
    /// Whether there is a result that they replace.
    has_old: bool,
}

impl Output {
    /// Makes sure that `folder` can be written, before anything is computed for it. What an interrupted process left there is
    /// brought to its end first. The folder is locked until the output is dropped.
    ///
    /// # Errors
    /// If it cannot be created or written, if another process is at it, or if something stands where `summary.json` belongs that is
    /// no result.
    pub fn create(folder: &Path) -> Result<Self, OutputError> {
        Self::create_in(Arc::new(System), folder, false)
    }

    /// The same, for files that stand beside what is there: those of the same names are replaced, and nothing else. For pictures and the
    /// like, of which several commands fill one folder.
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
        let refused = |source| OutputError::Refused { folder: folder.to_owned(), source };
        // Dropped on an error, it removes what it has made until then.
        let mut output = Self {
            storage,
            folder: folder.to_owned(),
            created: Vec::new(),
            workspace: None,
            files: Vec::new(),
            is_beside,
            has_old: false,
        };
        output.create_folders().map_err(refused)?;
        let claimed = Workspace::claim(&output.storage, folder).map_err(refused)?;
        let workspace = output.workspace.insert(claimed.ok_or_else(|| OutputError::Busy(folder.to_owned()))?);
        workspace.heal().map_err(|error| match error {
            NotHealed::Io(source) => refused(source),
            NotHealed::Unreadable { path, reason } => OutputError::Unreadable { path, reason },
        })?;
        let (storage, result) = (Arc::clone(&output.storage), folder.join(RESULT));
        output.has_old = !is_beside && storage.entry(&result).map_err(refused)?.is_some();
        if output.has_old {
            output.check_place(RESULT, refused)?;
        }
        Ok(output)
    }

    /// Refuses what stands where a file belongs and is no such file of an older result.
    fn check_place(&self, name: &str, failed: impl Fn(io::Error) -> OutputError) -> Result<(), OutputError> {
        let workspace = self.workspace();
        if workspace.is_occupied(name).map_err(&failed)? {
            return Err(OutputError::Occupied(self.folder.join(name)));
        }
        if !self.is_beside && workspace.is_foreign(name).map_err(&failed)? {
            return Err(OutputError::Foreign(self.folder.join(name)));
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
            match self.storage.create_folder(&path) {
                // By another process, just now.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                created => created?,
            }
            self.created.push(path.clone());
            self.storage.sync_folder(parent(&path))?;
        }
        Ok(())
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
        self.check_place(name, failed)?;
        let workspace = self.workspace();
        let mut file = Hashing::new(BufWriter::new(workspace.stage(name).map_err(failed)?));
        content(&mut file).and_then(|()| file.flush()).map_err(failed)?;
        let record = file.record(name);
        // Emptied just now, so nothing is left to be written when it is dropped.
        file.into_inner().get_ref().sync().map_err(failed)?;
        self.files.retain(|file| file.name != name);
        self.files.push(record);
        Ok(())
    }

    /// Moves all files into place, instead of those of the result before.
    ///
    /// # Errors
    /// If the system fails. The result before is then still there, or none is, as the error says.
    pub fn commit(mut self) -> Result<(), OutputError> {
        let files = std::mem::take(&mut self.files);
        let folder = || self.folder.clone();
        self.workspace().commit(files, self.is_beside).map_err(|error| match error {
            NotCommitted::OldIsKept(source) => OutputError::Write { folder: folder(), source },
            NotCommitted::NothingIsLeft(source) => OutputError::Replace { folder: folder(), source },
        })?;
        self.created.clear();
        Ok(())
    }

    fn workspace(&self) -> &Workspace {
        self.workspace.as_ref().expect("an output that was created has its workspace")
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some(workspace) = self.workspace.take() {
            workspace.leave();
        }
        for folder in self.created.iter().rev() {
            // Succeeds only on empty folders: what others put there meanwhile stays.
            let _ = self.storage.remove_folder(folder);
        }
    }
}

/// The folder in which something is.
fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}
