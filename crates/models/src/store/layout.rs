//! Layout of a store on the disk: its folders and files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::file::{FileError, Output, STORE_FILE as ABOUT, nearest_names, refuse_store, sync_folder};
use serde::{Deserialize, Serialize};

use crate::store::manifest::Manifest;
use crate::store::object::{Object, ObjectHeader, open_header};
use crate::store::{Address, StoreError, check_id};

/// The version of the format that is written, and the first one that later releases promise to read; others are refused.
pub const FORMAT_VERSION: u64 = 1;

/// Value of `format` in that file.
const FORMAT: &str = "zipwire-store";
pub(crate) const LOCK: &str = "lock";
/// The file that is there while objects may be there that no checkpoint has.
pub(crate) const UNSWEPT: &str = "unswept";
const OBJECTS: &str = "objects";
const CHECKPOINTS: &str = "checkpoints";
/// Folder of files that are not complete yet.
const STAGED: &str = "staged";
/// Ending of the names of manifests.
const JSON: &str = ".json";
/// Ending of the name of the empty file that is beside the manifest of a checkpoint that is pinned.
const PIN: &str = ".pin";

/// A folder with checkpoints. Readers need no lock; writers take it ([`crate::store::Writer`]).
#[derive(Clone, Debug)]
pub struct Store {
    root: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct About {
    format: String,
    version: u64,
}

impl Store {
    /// Makes a store in a folder, which is made as well if it is not there.
    ///
    /// # Errors
    /// [`StoreError::IsStore`]; [`StoreError::NotEmpty`] if the folder has anything that an interrupted call did not leave; if the system
    /// refuses something.
    pub fn init(root: &Path) -> Result<Self, StoreError> {
        let create = FileError::io("create", root);
        if root.join(ABOUT).symlink_metadata().is_ok() {
            return Err(StoreError::IsStore { path: root.to_owned() });
        }
        refuse_store(root)?;
        fs::create_dir_all(root).map_err(&create)?;
        for entry in fs::read_dir(root).map_err(FileError::io("read folder", root))? {
            let name = entry.map_err(&create)?.file_name().to_string_lossy().into_owned();
            let is_own = [OBJECTS, CHECKPOINTS, STAGED].contains(&name.as_str())
                || name.starts_with(crate::file::STAGED);
            if !is_own {
                return Err(StoreError::NotEmpty { path: root.to_owned(), found: name });
            }
        }
        let store = Self { root: root.to_owned() };
        for folder in [OBJECTS, CHECKPOINTS, STAGED] {
            let path = root.join(folder);
            refuse_link(&path)?;
            fs::create_dir_all(&path).map_err(FileError::io("create", &path))?;
        }
        let about = About { format: FORMAT.to_owned(), version: FORMAT_VERSION };
        let text = serde_json::to_string(&about).expect("it has text and a number") + "\n";
        let output = Output::begin(&root.join(ABOUT), false)?;
        io::Write::write_all(&mut output.file(), text.as_bytes()).map_err(&create)?;
        output.finish()?;
        // The folder itself may be new.
        if let Some(parent) = root.canonicalize().map_err(&create)?.parent() {
            sync_folder(parent).map_err(&create)?;
        }
        Ok(store)
    }

    /// Opens a store.
    ///
    /// # Errors
    /// [`StoreError::NotStore`], [`StoreError::Version`], and if it cannot be read.
    pub fn open(root: &Path) -> Result<Self, StoreError> {
        let path = root.join(ABOUT);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Err(StoreError::NotStore { path: root.to_owned() });
            }
            Err(error) => return Err(FileError::io("read", &path)(error).into()),
        };
        let wrong = |what: String| StoreError::Manifest { path: path.clone(), what };
        let about: About = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
        if about.format != FORMAT {
            return Err(wrong(format!("its format is `{}`, and not `{FORMAT}`", about.format)));
        }
        if about.version != FORMAT_VERSION {
            return Err(StoreError::Version { path, found: about.version, known: FORMAT_VERSION });
        }
        Ok(Self { root: root.to_owned() })
    }

    /// Its folder.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// Names of all checkpoints, in no order.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn ids(&self) -> Result<Vec<String>, StoreError> {
        let folder = self.checkpoints();
        let read = FileError::io("read folder", &folder);
        let mut ids = Vec::new();
        for entry in fs::read_dir(&folder).map_err(&read)? {
            let name = entry.map_err(&read)?.file_name();
            let id = name.to_str().and_then(|name| name.strip_suffix(JSON));
            ids.extend(id.filter(|id| check_id(id).is_ok()).map(str::to_owned));
        }
        Ok(ids)
    }

    /// Reads the manifest of a checkpoint.
    ///
    /// # Errors
    /// [`StoreError::NoCheckpoint`], with names that are alike; [`StoreError::Manifest`], [`StoreError::Version`], and if it cannot be read.
    pub fn manifest(&self, id: &str) -> Result<Manifest, StoreError> {
        check_id(id)?;
        let path = self.manifest_path(id);
        match fs::read(&path) {
            Ok(text) => Manifest::parse(&text, &path, id),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(StoreError::NoCheckpoint {
                path: self.root.clone(),
                id: id.to_owned(),
                nearest: nearest_names(id, self.ids()?),
            }),
            Err(error) => Err(FileError::io("read", &path)(error).into()),
        }
    }

    /// All checkpoints, oldest first.
    ///
    /// # Errors
    /// The first one that a manifest has. One that was removed meanwhile is left out.
    pub fn manifests(&self) -> Result<Vec<Manifest>, StoreError> {
        let Manifests { sound, damaged } = self.all_manifests()?;
        damaged.into_iter().next().map_or(Ok(sound), |(_, error)| Err(error))
    }

    /// All checkpoints, oldest first, and those whose manifest is damaged. One that was removed meanwhile is left out.
    ///
    /// # Errors
    /// If something cannot be read now.
    pub(crate) fn all_manifests(&self) -> Result<Manifests, StoreError> {
        let mut found = Manifests::default();
        for id in self.ids()? {
            match self.manifest(&id) {
                Ok(manifest) => found.sound.push(manifest),
                Err(StoreError::NoCheckpoint { .. }) => {}
                Err(error @ (StoreError::Manifest { .. } | StoreError::Version { .. })) => {
                    found.damaged.push((id, error));
                }
                Err(error) => return Err(error),
            }
        }
        found.sound.sort_by(|a, b| (a.sequence, &a.id).cmp(&(b.sequence, &b.id)));
        found.damaged.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(found)
    }

    /// Whether there is such a checkpoint, damaged or not.
    pub(crate) fn has(&self, id: &str) -> bool {
        self.manifest_path(id).symlink_metadata().is_ok()
    }

    /// Whether [`crate::store::prune`] leaves this checkpoint where it is.
    pub fn is_pinned(&self, id: &str) -> bool {
        self.pin_path(id).symlink_metadata().is_ok()
    }

    pub(crate) fn open_object(&self, address: Address) -> Result<Object, StoreError> {
        Object::open(&self.object_path(address), address)
    }

    pub(crate) fn header(&self, address: Address) -> Result<ObjectHeader, StoreError> {
        open_header(&self.object_path(address), address).map(|(_, header)| header)
    }

    pub(crate) fn object_path(&self, address: Address) -> PathBuf {
        let (folder, name) = address.place();
        self.objects().join(folder).join(name)
    }

    pub(crate) fn manifest_path(&self, id: &str) -> PathBuf {
        self.checkpoints().join(format!("{id}{JSON}"))
    }

    pub(crate) fn pin_path(&self, id: &str) -> PathBuf {
        self.checkpoints().join(format!("{id}{PIN}"))
    }

    pub(crate) fn objects(&self) -> PathBuf {
        self.root.join(OBJECTS)
    }

    pub(crate) fn checkpoints(&self) -> PathBuf {
        self.root.join(CHECKPOINTS)
    }

    pub(crate) fn staged(&self) -> PathBuf {
        self.root.join(STAGED)
    }

    /// Addresses of all objects, whether a checkpoint has them or not. Files with other names are passed over, and so are folders that are links.
    pub(crate) fn addresses(&self) -> Result<Vec<Address>, StoreError> {
        let root = self.objects();
        let mut addresses = Vec::new();
        for (folder, kind) in names(&root)? {
            if kind.is_dir() {
                let within = names(&root.join(&folder))?;
                addresses.extend(within.iter().filter_map(|(name, _)| Address::of_place(&folder, name)));
            }
        }
        Ok(addresses)
    }

    /// Refuses links in places that writers go to.
    ///
    /// # Errors
    /// [`StoreError::Link`], and if a folder cannot be read.
    pub(crate) fn refuse_links(&self) -> Result<(), StoreError> {
        for name in [LOCK, UNSWEPT, STAGED, OBJECTS, CHECKPOINTS] {
            refuse_link(&self.root.join(name))?;
        }
        let objects = self.objects();
        let linked = names(&objects)?.into_iter().find(|(_, kind)| kind.is_symlink());
        linked.map_or(Ok(()), |(name, _)| Err(StoreError::Link { path: objects.join(name) }))
    }
}

/// Checkpoints as they are found.
#[derive(Debug, Default)]
pub(crate) struct Manifests {
    /// Oldest first.
    pub(crate) sound: Vec<Manifest>,
    /// Names of the others, in order, each with what is wrong.
    pub(crate) damaged: Vec<(String, StoreError)>,
}

/// Refuses a place of a store that is a symbolic link.
///
/// # Errors
/// [`StoreError::Link`].
pub(crate) fn refuse_link(path: &Path) -> Result<(), StoreError> {
    let is_link = path.symlink_metadata().is_ok_and(|metadata| metadata.file_type().is_symlink());
    if is_link { Err(StoreError::Link { path: path.to_owned() }) } else { Ok(()) }
}

/// Names in a folder that are text, each with its kind: that of a link, where it is one.
fn names(folder: &Path) -> Result<Vec<(String, fs::FileType)>, StoreError> {
    let read = FileError::io("read folder", folder);
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(&read)? {
        let entry = entry.map_err(&read)?;
        let kind = entry.file_type().map_err(&read)?;
        names.extend(entry.file_name().into_string().ok().map(|name| (name, kind)));
    }
    Ok(names)
}

/// Whether an error is that a file is not there.
pub(crate) fn is_absent(error: &StoreError) -> bool {
    matches!(error, StoreError::File(FileError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound)
}
