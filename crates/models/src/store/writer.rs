//! The writer's lock on a store, the recovery from an interrupted writer, and the removal of what no checkpoint needs.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::file::{FileError, sync_folder};
use crate::store::layout::{LOCK, Store, UNSWEPT, is_absent, refuse_link};
use crate::store::manifest::Manifest;
use crate::store::object::ObjectHeader;
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
    /// [`StoreError::Locked`] if another process has it, [`StoreError::Link`], and if the system refuses something.
    pub fn begin(store: &'a Store) -> Result<Self, StoreError> {
        store.refuse_links()?;
        let path = store.path().join(LOCK);
        let open = FileError::io("lock", &path);
        let mut file = open_own(&path, OpenOptions::new().read(true)).map_err(&open)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                let pid = file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
                return Err(StoreError::Locked { path: store.path().to_owned(), pid });
            }
            Err(TryLockError::Error(error)) => return Err(open(error).into()),
        }
        // For who finds it locked; nothing depends on it, and a full disk has no room for it.
        let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
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
            let entry = entry.map_err(FileError::io("read folder", &folder))?;
            let path = entry.path();
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let remove = if is_folder { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
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
            let made = open_own(&path, &mut OpenOptions::new()).and_then(|file| file.sync_all());
            made.map_err(FileError::io("create", &path))?;
            sync(self.store.path())
        } else if self.is_unswept {
            Ok(())
        } else {
            match fs::remove_file(&path) {
                // A full disk had no room for it.
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    Err(FileError::io("remove", &path)(error).into())
                }
                _ => Ok(()),
            }
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
                    Err(_) => refuse_link(&folder)?,
                    Ok(()) => {}
                }
                folders.push(folder);
            }
            let path = self.store.object_path(*address);
            fs::rename(staged, &path).map_err(FileError::io("create", &path))?;
        }
        folders.iter().try_for_each(|folder| sync(folder))?;
        sync(&root)
    }

    /// Pins a checkpoint, or lets it go.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn set_pinned(&self, id: &str, is_pinned: bool) -> Result<(), StoreError> {
        if self.store.is_pinned(id) == is_pinned {
            return Ok(());
        }
        let path = self.store.pin_path(id);
        if is_pinned {
            File::create_new(&path).map_err(FileError::io("create", &path))?;
        } else {
            fs::remove_file(&path).map_err(FileError::io("remove", &path))?;
        }
        sync(&self.store.checkpoints())
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

/// Opens a file of the store's own to be written, which is made if it is not there. Nothing is behind a link.
fn open_own(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    options.write(true).create(true).truncate(false);
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
    }
    options.open(path)
}

pub(crate) fn sync(folder: &Path) -> Result<(), StoreError> {
    Ok(sync_folder(folder).map_err(FileError::io("write", folder))?)
}

/// Counts of what was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Objects.
    pub objects: u64,
    /// Bytes of these objects.
    pub bytes: u64,
    /// Files and folders that were not complete.
    pub staged: u64,
}

impl Swept {
    pub(crate) fn add(&mut self, other: Self) {
        self.objects += other.objects;
        self.bytes += other.bytes;
        self.staged += other.staged;
    }

    /// Whether there was nothing to remove.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Cache of object headers, each read once.
#[derive(Debug)]
pub(crate) struct Headers<'a> {
    store: &'a Store,
    known: HashMap<Address, Option<ObjectHeader>>,
}

impl<'a> Headers<'a> {
    pub(crate) fn new(store: &'a Store) -> Self {
        Self { store, known: HashMap::new() }
    }

    /// Header of an object; `None` if the object is damaged or gone.
    ///
    /// # Errors
    /// If it cannot be read now, or is of another version.
    pub(crate) fn get(&mut self, address: Address) -> Result<Option<&ObjectHeader>, StoreError> {
        if !self.known.contains_key(&address) {
            let header = match self.store.header(address) {
                Ok(header) => Some(header),
                Err(StoreError::Object { .. }) => None,
                Err(error) if is_absent(&error) => None,
                Err(error) => return Err(error),
            };
            self.known.insert(address, header);
        }
        Ok(self.known[&address].as_ref())
    }

    /// Reads a header once more when it is asked for.
    pub(crate) fn forget(&mut self, address: Address) {
        self.known.remove(&address);
    }

    /// The object and all that it is differences from, as far as they can be read; those in `seen` and what they need are left out.
    pub(crate) fn chain(
        &mut self,
        address: Address,
        seen: &mut HashSet<Address>,
    ) -> Result<Vec<Address>, StoreError> {
        let (mut chain, mut next) = (Vec::new(), Some(address));
        while let Some(address) = next.filter(|address| seen.insert(*address)) {
            chain.push(address);
            next = self.get(address)?.and_then(|header| header.base);
        }
        Ok(chain)
    }

    /// How many objects are read for this one; none if one of them cannot be.
    pub(crate) fn chain_len(&mut self, address: Address) -> Result<Option<usize>, StoreError> {
        let (mut len, mut next) = (0, Some(address));
        while let Some(address) = next {
            len += 1;
            match self.get(address)? {
                Some(header) if len <= crate::store::object::LONGEST_CHAIN => next = header.base,
                _ => return Ok(None),
            }
        }
        Ok(Some(len))
    }
}

/// All objects that these checkpoints need.
pub(crate) fn needed(
    manifests: &[Manifest],
    headers: &mut Headers<'_>,
) -> Result<HashSet<Address>, StoreError> {
    let mut needed = HashSet::new();
    for address in manifests.iter().flat_map(Manifest::objects) {
        headers.chain(address, &mut needed)?;
    }
    Ok(needed)
}

/// Removes the objects that no checkpoint needs.
///
/// # Errors
/// [`StoreError::Blocked`] if a manifest cannot be read, so that it is not known what is needed; then nothing is removed. If the system
/// refuses something.
pub(crate) fn sweep(store: &Store) -> Result<Swept, StoreError> {
    let blocked = |error: StoreError| match error {
        StoreError::Manifest { .. } | StoreError::Version { .. } => {
            StoreError::Blocked { source: Box::new(error) }
        }
        error => error,
    };
    let manifests = store.manifests().map_err(blocked)?;
    let needed = needed(&manifests, &mut Headers::new(store)).map_err(blocked)?;
    let mut swept = Swept::default();
    for address in store.addresses()?.into_iter().filter(|address| !needed.contains(address)) {
        let path = store.object_path(address);
        let remove = FileError::io("remove", &path);
        swept.bytes += fs::symlink_metadata(&path).map_err(&remove)?.len();
        fs::remove_file(&path).map_err(&remove)?;
        swept.objects += 1;
    }
    Ok(swept)
}
