//! Places that are no outputs: what is read, what is in a store, and what is no file or no folder.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use crate::file::output::{files_below, folder};
use crate::file::{Bases, FileError};

/// Name of the file that says that a folder is a store of checkpoints.
pub const STORE_FILE: &str = "zipwire-store.json";

/// Refuses a place where no file can be written, or where one is already and `force` does not say that it is replaced.
///
/// # Errors
/// [`FileError::Kind`] for anything but a regular file, with `force` too; [`FileError::Exists`]; errors of [`refuse_store`]; [`FileError::Dash`].
pub fn refuse_file(path: &Path, force: bool) -> Result<(), FileError> {
    refuse_dash(path)?;
    refuse_store(path)?;
    refuse_kind(path, force)
}

/// [`refuse_file`] without a look at anything but the place itself.
pub(super) fn refuse_kind(path: &Path, force: bool) -> Result<(), FileError> {
    match path.symlink_metadata() {
        Err(_) => Ok(()),
        Ok(metadata) if !metadata.is_file() => {
            Err(FileError::Kind { path: path.to_owned(), found: kind(&metadata), wanted: "file" })
        }
        Ok(_) if force => Ok(()),
        Ok(_) => Err(FileError::Exists { path: path.to_owned() }),
    }
}

/// Refuses a place where no folder can be made; gives whether one is there, which `force` lets files be put into.
///
/// # Errors
/// [`FileError::Kind`] for anything but a folder, with `force` too; [`FileError::FolderExists`]; errors of [`refuse_store`]; [`FileError::Dash`].
pub fn refuse_folder(path: &Path, force: bool) -> Result<bool, FileError> {
    refuse_dash(path)?;
    refuse_store(path)?;
    match path.symlink_metadata() {
        Err(_) => Ok(false),
        Ok(metadata) if !metadata.is_dir() => {
            Err(FileError::Kind { path: path.to_owned(), found: kind(&metadata), wanted: "folder" })
        }
        Ok(_) if force => Ok(true),
        Ok(_) => Err(FileError::FolderExists { path: path.to_owned() }),
    }
}

fn refuse_dash(path: &Path) -> Result<(), FileError> {
    if path == Path::new("-") { Err(FileError::Dash) } else { Ok(()) }
}

fn kind(metadata: &Metadata) -> &'static str {
    let kind = metadata.file_type();
    if kind.is_dir() {
        return "a folder";
    }
    if kind.is_symlink() {
        return "a symbolic link";
    }
    if kind.is_file() { "a regular file" } else { "a device, a pipe or a socket" }
}

/// Refuses a place in a store of checkpoints, and the store itself.
///
/// # Errors
/// [`FileError::InStore`].
pub fn refuse_store(path: &Path) -> Result<(), FileError> {
    // Links are followed only here: what they lead to is not touched.
    for folder in real(path).ancestors() {
        if folder.join(STORE_FILE).symlink_metadata().is_ok() {
            return Err(FileError::InStore { path: path.to_owned(), store: folder.to_owned() });
        }
    }
    Ok(())
}

/// A path without links, `.` and `..`, as far as it is there.
fn real(path: &Path) -> PathBuf {
    if let Ok(real) = path.canonicalize() {
        return real;
    }
    match path.file_name() {
        Some(name) => real(folder(path)).join(name),
        None => path.to_owned(),
    }
}

/// Refuses two outputs of one name, and one that another one would be a folder of. Each is an input and its output.
///
/// # Errors
/// [`FileError::OneOutput`].
pub fn refuse_twice(outputs: &[(PathBuf, PathBuf)]) -> Result<(), FileError> {
    let mut folders: BTreeMap<&Path, PathBuf> = BTreeMap::new();
    let mut places: BTreeMap<PathBuf, &Path> = BTreeMap::new();
    let twice = |first: &Path, second: &Path, output: &Path| FileError::OneOutput {
        first: first.to_owned(),
        second: second.to_owned(),
        output: output.to_owned(),
    };
    for (input, output) in outputs {
        let within = folder(output);
        let within = folders.entry(within).or_insert_with(|| real(within));
        let place = output.file_name().map_or_else(|| within.clone(), |name| within.join(name));
        if let Some(first) = places.insert(place, input) {
            return Err(twice(first, input, output));
        }
    }
    for (place, input) in &places {
        for outer in place.ancestors().skip(1) {
            if let Some(first) = places.get(outer) {
                return Err(twice(first, input, outer));
            }
        }
    }
    Ok(())
}

/// A file, whichever name or link leads to it.
#[cfg(unix)]
type Identity = (u64, u64);
/// A file, whichever link leads to it.
#[cfg(not(unix))]
type Identity = PathBuf;

#[cfg(unix)]
fn identity(path: &Path) -> io::Result<Identity> {
    use std::os::unix::fs::MetadataExt;

    fs::metadata(path).map(|metadata| (metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
fn identity(path: &Path) -> io::Result<Identity> {
    fs::canonicalize(path)
}

/// Files and folders that are read while something is written: no output replaces one, by whichever name or link, or is put into such a folder.
#[derive(Debug, Default)]
pub struct Sources {
    files: HashSet<Identity>,
    /// Without links in their paths.
    folders: Vec<PathBuf>,
}

impl Sources {
    /// An input and the files that it has differences from.
    pub(crate) fn of(input: &Path, bases: Option<&Bases>) -> Result<Self, FileError> {
        let mut sources = Self::default();
        sources.add(input)?;
        sources.add_bases(bases)?;
        Ok(sources)
    }

    /// Adds files and all that they have differences from.
    pub(crate) fn add_bases(&mut self, bases: Option<&Bases>) -> Result<(), FileError> {
        for base in bases.into_iter().flat_map(Bases::all) {
            self.add(base.path())?;
            self.add_bases(base.bases())?;
        }
        Ok(())
    }

    /// Adds a file, or a folder with all that is in it.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn add(&mut self, path: &Path) -> Result<(), FileError> {
        let read = FileError::io("read", path);
        if path.is_dir() {
            self.folders.push(path.canonicalize().map_err(&read)?);
            // A link that leads nowhere is no file.
            self.files.extend(files_below(path)?.iter().filter_map(|file| identity(file).ok()));
        } else {
            self.files.insert(identity(path).map_err(&read)?);
        }
        Ok(())
    }

    /// Whether a file is one of the files, by whichever name or link.
    pub fn has(&self, file: &Path) -> bool {
        identity(file).is_ok_and(|found| self.files.contains(&found))
    }

    /// Refuses an output that is one of the files.
    ///
    /// # Errors
    /// [`FileError::Same`].
    pub fn refuse_file(&self, output: &Path) -> Result<(), FileError> {
        if self.has(output) { Err(FileError::Same { path: output.to_owned() }) } else { Ok(()) }
    }

    /// Refuses an output folder that is one of the folders, or in one.
    ///
    /// # Errors
    /// [`FileError::Same`].
    pub fn refuse_folder(&self, output: &Path) -> Result<(), FileError> {
        let real = real(output);
        match self.folders.iter().any(|folder| real.starts_with(folder)) {
            true => Err(FileError::Same { path: output.to_owned() }),
            false => Ok(()),
        }
    }
}
