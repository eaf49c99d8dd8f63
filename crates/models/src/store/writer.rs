//! The writer's lock on a store, and the recovery from an interrupted writer.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::file::{FileError, sync_folder};
use tempfile::TempDir;

use crate::store::layout::{LOCK, Store, UNSWEPT};
use crate::store::manifest::Manifest;
use crate::store::sweep::{Swept, sweep};
use crate::store::{Address, StoreError};

/// The right to write, by an advisory lock that ends with the process, however that ends.
///
/// Nothing is visible before it is complete. Objects are written to a folder of their own, put on the disk, and then into their
/// places, where they mean nothing until a manifest names them, which is written last. Wherever that is interrupted, the next writer
/// finds what is left over by a mark that was made first, and removes it.
#[derive(Debug)]
pub struct Writer<'a> {
    store: &'a Store,
    swept: Swept,
    /// Whether something is left over that cannot be removed yet.
    is_unswept: bool,
    /// Locked as long as it is open.
    _lock: File,
}

impl<'a> Writer<'a> {
    /// Takes the lock, and removes what an interrupted writer has left.
    ///
    /// # Errors
    /// [`StoreError::Locked`] if another process has it, and if the system refuses something.
    pub fn begin(store: &'a Store) -> Result<Self, StoreError> {
        let path = store.path().join(LOCK);
        let open = FileError::io("lock", &path);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(&open)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                let pid = file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
                return Err(StoreError::Locked { path: store.path().to_owned(), pid });
            }
            Err(TryLockError::Error(error)) => return Err(open(error).into()),
        }
        // For who finds it locked; nothing depends on it.
        file.set_len(0).map_err(&open)?;
        writeln!(file, "{}", std::process::id()).map_err(&open)?;
        let mut writer = Self { store, swept: Swept::default(), is_unswept: false, _lock: file };
        writer.clear_staged()?;
        if store.path().join(UNSWEPT).symlink_metadata().is_ok() {
            match sweep(store) {
                Ok(swept) => {
                    writer.swept.add(swept);
                    writer.set_unswept(false)?;
                }
                // It stays to be done. What can be read is not kept from anybody by what cannot.
                Err(StoreError::Blocked { .. }) => writer.is_unswept = true,
                Err(error) => return Err(error),
            }
        }
        Ok(writer)
    }

    /// The store.
    pub fn store(&self) -> &'a Store {
        self.store
    }

    /// Counts of what an interrupted writer had left, and was removed.
    pub fn swept(&self) -> Swept {
        self.swept
    }

    /// Removes what was never put into its place.
    fn clear_staged(&mut self) -> Result<(), StoreError> {
        let folder = self.store.staged();
        fs::create_dir_all(&folder).map_err(FileError::io("create", &folder))?;
        for entry in fs::read_dir(&folder).map_err(FileError::io("read folder", &folder))? {
            let path = entry.map_err(FileError::io("read folder", &folder))?.path();
            let remove = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            remove.map_err(FileError::io("remove", &path))?;
            self.swept.staged += 1;
        }
        Ok(())
    }

    /// A folder for what is not complete; it is removed when it is dropped.
    pub(crate) fn stage(&self) -> Result<TempDir, StoreError> {
        let folder = self.store.staged();
        let made = tempfile::Builder::new().prefix("writer-").tempdir_in(&folder);
        Ok(made.map_err(FileError::io("create a folder in", &folder))?)
    }

    /// Says that there may be objects that no checkpoint has, or that there are none.
    pub(crate) fn set_unswept(&self, is_unswept: bool) -> Result<(), StoreError> {
        let path = self.store.path().join(UNSWEPT);
        if is_unswept {
            let made = File::create(&path).and_then(|file| file.sync_all());
            made.map_err(FileError::io("create", &path))?;
            sync(self.store.path())
        } else if self.is_unswept {
            Ok(())
        } else {
            Ok(fs::remove_file(&path).map_err(FileError::io("remove", &path))?)
        }
    }

    /// Puts objects that are on the disk into their places, and the places on the disk.
    pub(crate) fn place(&self, objects: &[(Address, PathBuf)]) -> Result<(), StoreError> {
        let root = self.store.objects();
        let mut folders: Vec<PathBuf> = Vec::new();
        for (address, staged) in objects {
            let folder = root.join(address.place().0);
            if !folders.contains(&folder) {
                match fs::create_dir(&folder) {
                    Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                        return Err(FileError::io("create", &folder)(error).into());
                    }
                    _ => folders.push(folder),
                }
            }
            let path = self.store.object_path(*address);
            fs::rename(staged, &path).map_err(FileError::io("create", &path))?;
        }
        folders.iter().try_for_each(|folder| sync(folder))?;
        sync(&root)
    }

    /// Writes a manifest, and with it the checkpoint is there.
    pub(crate) fn publish(&self, staged: &TempDir, manifest: &Manifest) -> Result<(), StoreError> {
        let (path, place) = (staged.path().join("manifest"), self.store.manifest_path(&manifest.id));
        let write = FileError::io("write", &place);
        let mut file = File::create(&path).map_err(&write)?;
        file.write_all(manifest.to_text().as_bytes()).map_err(&write)?;
        file.sync_all().map_err(&write)?;
        drop(file);
        fs::rename(&path, &place).map_err(&write)?;
        sync(&self.store.checkpoints())
    }
}

fn sync(folder: &Path) -> Result<(), StoreError> {
    Ok(sync_folder(folder).map_err(FileError::io("write", folder))?)
}
