//! Files and folders that appear under their names when they are complete and on the disk, or not at all.
//!
//! Only a regular file is replaced, by a regular file, and only with `force`. A folder is never replaced: with `force`, files are put into it.

mod folder;
mod refusal;
mod staged;

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Seek, Write};
use std::path::{Component, Path, PathBuf};

use tempfile::TempPath;

use crate::file::FileError;

pub use folder::OutputFolder;
pub use refusal::{STORE_FILE, Sources, refuse_file, refuse_folder, refuse_store, refuse_twice};
pub use staged::STAGED;

/// A file that is being written beside the place where it will be. Dropped, it is gone.
#[derive(Debug)]
pub struct Output {
    /// Its name in errors.
    shown: PathBuf,
    file: File,
    /// `None` for one without a name.
    place: Option<Place>,
}

#[derive(Debug)]
struct Place {
    path: PathBuf,
    staged: TempPath,
    force: bool,
    rights: Rights,
}

/// Rights of a result: those of its input, or those that new files of this user have.
#[derive(Clone, Copy, Debug)]
enum Rights {
    Usual,
    #[cfg_attr(not(unix), allow(dead_code, reason = "there are none to be kept"))]
    Mode(u32),
}

impl Output {
    /// Begins a file that will be `path`, with the rights that new files of this user have. With `force`, a file may be there, which is replaced.
    ///
    /// # Errors
    /// Errors of [`refuse_file`], and if the folder takes no files.
    pub fn begin(path: &Path, force: bool) -> Result<Self, FileError> {
        Self::begin_with(path, force, Rights::Usual)
    }

    /// [`begin`](Self::begin) for a file with the rights of `input`: from its beginning nobody reads it who cannot read that.
    ///
    /// # Errors
    /// Errors of [`begin`](Self::begin), and if `input` is not there.
    pub fn like(path: &Path, force: bool, input: &Path) -> Result<Self, FileError> {
        Self::begin_with(path, force, Rights::of(input)?)
    }

    /// Begins a file without a name in the folder for temporary files, which is gone with the process: for [`pour`](Self::pour). Errors call it `shown`.
    ///
    /// # Errors
    /// If the folder takes no files.
    pub fn unnamed(shown: &Path) -> Result<Self, FileError> {
        let file = tempfile::tempfile().map_err(FileError::io("create a temporary file for", shown))?;
        Ok(Self { shown: shown.to_owned(), file, place: None })
    }

    fn begin_with(path: &Path, force: bool, rights: Rights) -> Result<Self, FileError> {
        refuse_file(path, force)?;
        staged::sweep(folder(path));
        Self::within(path, path, force, rights)
    }

    /// Begins a file whose place is known to be fit.
    fn within(path: &Path, shown: &Path, force: bool, rights: Rights) -> Result<Self, FileError> {
        let (file, staged) =
            staged::file_in(folder(path), rights.begin()).map_err(FileError::io("create", shown))?;
        let place = Place { path: path.to_owned(), staged, force, rights };
        Ok(Self { shown: shown.to_owned(), file, place: Some(place) })
    }

    /// Name of the file that it will be.
    pub fn path(&self) -> &Path {
        &self.shown
    }

    /// The file, to be written and read.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Puts it on the disk, then in its place, then the folder on the disk. One without a name is gone then.
    ///
    /// # Errors
    /// If the system refuses any of it, or something is in its place by now that it does not replace.
    pub fn finish(self) -> Result<(), FileError> {
        // The file stays open, and so locked, until it has its name.
        let Self { shown, file, place } = self;
        let Some(Place { path, staged, force, rights }) = place else { return Ok(()) };
        rights.set(&file).and_then(|()| file.sync_all()).map_err(FileError::io("write", &shown))?;
        if force {
            refusal::refuse_kind(&path, true)?;
        }
        let placed = if force { staged.persist(&path) } else { staged.persist_noclobber(&path) };
        placed.map_err(|error| match error.error.kind() {
            io::ErrorKind::AlreadyExists => FileError::Exists { path: shown.clone() },
            _ => FileError::Io { action: "create", path: shown.clone(), source: error.error },
        })?;
        sync_folder(folder(&path)).map_err(FileError::io("write the folder of", &shown))
    }

    /// Copies all of it to `out`, and nothing into its place.
    ///
    /// # Errors
    /// If it cannot be read, or `out` takes no more.
    pub fn pour(self, out: &mut dyn Write) -> io::Result<()> {
        let mut file = self.file;
        file.rewind()?;
        io::copy(&mut file, out)?;
        out.flush()
    }
}

impl Rights {
    /// Bits that say who may read, write and run a file.
    #[cfg(unix)]
    const BITS: u32 = 0o777;

    fn of(input: &Path) -> Result<Self, FileError> {
        let metadata = fs::metadata(input).map_err(FileError::io("read", input))?;
        #[cfg(unix)]
        let rights =
            Self::Mode(std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & Self::BITS);
        #[cfg(not(unix))]
        let rights = {
            drop(metadata);
            Self::Usual
        };
        Ok(rights)
    }

    /// Mode in which a file is created, before its rights are set.
    fn begin(self) -> u32 {
        match self {
            Self::Usual => 0o666,
            Self::Mode(_) => 0o600,
        }
    }

    #[cfg_attr(not(unix), allow(unused_variables, reason = "there are none to be set"))]
    fn set(self, file: &File) -> io::Result<()> {
        #[cfg(unix)]
        if let Self::Mode(mode) = self {
            file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(mode))?;
        }
        Ok(())
    }
}

/// The folder that a file is in.
pub fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Puts the names in a folder on the disk.
///
/// # Errors
/// If the system refuses.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    // Elsewhere folders cannot be opened.
    if cfg!(unix) { fs::File::open(folder)?.sync_all() } else { Ok(()) }
}

/// All files below a folder, in the order of their names, but those that a process has not completed. Links are followed.
///
/// # Errors
/// If a folder cannot be read, or a link leads from a folder into itself.
pub fn files_below(from: &Path) -> Result<Vec<PathBuf>, FileError> {
    Ok(Walk::default().below(from, from)?.sorted().files)
}

/// All below a folder, in the order of names.
#[derive(Debug, Default)]
pub struct Below {
    /// Files, also those behind links that are not kept.
    pub files: Vec<PathBuf>,
    /// Links from one place in the folder to another.
    pub links: Vec<Link>,
    /// Folders with nothing in them.
    pub folders: Vec<PathBuf>,
}

/// A symbolic link that says the same in a copy of the folder it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The link.
    pub path: PathBuf,
    /// Its text: a path from the folder that it is in.
    pub target: PathBuf,
    /// The file, folder or link that it names, as a path in the folder.
    pub names: PathBuf,
    /// The file or folder that it leads to through all links that are kept, as a path in the folder.
    pub end: PathBuf,
}

impl Below {
    /// All below a folder but what a process has not completed. Links of relative paths that do not leave the folder are kept, as those of Hugging Face's caches;
    /// all others are followed. Where the system has no such links, all are followed.
    ///
    /// # Errors
    /// If a folder cannot be read, or a link that is followed leads from a folder into itself.
    pub fn of(from: &Path) -> Result<Self, FileError> {
        let kept_in = if cfg!(unix) { from.canonicalize().ok() } else { None };
        Ok(Walk { kept_in, ..Walk::default() }.below(from, from)?.sorted().followed(from))
    }

    /// Each file once, in the order of names: one that links lead to is called by the first of these.
    pub fn once(self, from: &Path) -> Vec<PathBuf> {
        let mut called = self.links_to(from);
        let call = |file: PathBuf| called.remove(&file).map_or(file, |links| links[0].clone());
        let mut files: Vec<PathBuf> = self.files.into_iter().map(call).collect();
        files.sort();
        files
    }

    /// Links to files and folders, through other links too, by the paths of these. `from` is the folder.
    pub fn links_to(&self, from: &Path) -> HashMap<PathBuf, Vec<PathBuf>> {
        let mut all: HashMap<PathBuf, Vec<PathBuf>> = HashMap::new();
        for link in &self.links {
            all.entry(from.join(&link.end)).or_default().push(link.path.clone());
        }
        all
    }

    fn count(&self) -> usize {
        self.files.len() + self.links.len() + self.folders.len()
    }

    fn sorted(mut self) -> Self {
        self.files.sort();
        self.links.sort_by(|a, b| a.path.cmp(&b.path));
        self.folders.sort();
        self
    }

    /// The same with the ends of links that lead to links.
    fn followed(mut self, from: &Path) -> Self {
        let next: HashMap<PathBuf, PathBuf> =
            self.links.iter().map(|link| (link.path.clone(), from.join(&link.names))).collect();
        for link in &mut self.links {
            // No more than all: somebody may make a circle of them meanwhile.
            for _ in 0..next.len() {
                let Some(end) = next.get(&from.join(&link.end)) else { break };
                link.end = end.strip_prefix(from).unwrap_or(end).to_owned();
            }
        }
        self
    }
}

/// A walk through a folder and all in it.
#[derive(Default)]
struct Walk {
    /// The folder's real path, if links within it are kept.
    kept_in: Option<PathBuf>,
    /// Real paths of the folders that it is in just now.
    around: Vec<PathBuf>,
    found: Below,
}

impl Walk {
    fn below(mut self, root: &Path, from: &Path) -> Result<Below, FileError> {
        self.add(root, from)?;
        Ok(self.found)
    }

    fn add(&mut self, root: &Path, folder: &Path) -> Result<(), FileError> {
        let read = FileError::io("read folder", folder);
        let real = folder.canonicalize().map_err(&read)?;
        if self.around.contains(&real) {
            return Err(read(io::Error::other("a link in it leads to a folder that it is in")));
        }
        self.around.push(real);
        let before = self.found.count();
        for entry in fs::read_dir(folder).map_err(&read)? {
            let entry = entry.map_err(&read)?;
            let path = entry.path();
            if staged::is_staged(&entry.file_name()) {
                continue;
            }
            if let Some(link) = self.kept_in.as_deref().and_then(|real| link_within(root, real, &path)) {
                self.found.links.push(link);
            } else if path.is_dir() {
                self.add(root, &path)?;
            } else {
                self.found.files.push(path);
            }
        }
        self.around.pop();
        if self.found.count() == before && folder != root {
            self.found.folders.push(folder.to_owned());
        }
        Ok(())
    }
}

/// A link at `path` that leads to another place below `root`, whose real path is `real`.
fn link_within(root: &Path, real: &Path, path: &Path) -> Option<Link> {
    let target = fs::read_link(path).ok()?;
    let mut names = path.strip_prefix(root).ok()?.parent()?.to_owned();
    for part in target.components() {
        match part {
            Component::Normal(name) if !staged::is_staged(name) => names.push(name),
            Component::CurDir => {}
            Component::ParentDir if names.pop() => {}
            _ => return None,
        }
    }
    // Only folders that are no links lie between, so a copy of the link leads to the copy of the place.
    let (found, meant) = (path.canonicalize().ok()?, root.join(&names).canonicalize().ok()?);
    let is_plain = |name: &Path| root.join(name).canonicalize().is_ok_and(|path| path == real.join(name));
    let is_within = names.file_name().is_some() && found == meant;
    // Where names of other letters lead to a file, too, the link's are not those of the walk.
    let is_spelt = root.join(&names).is_symlink() || real.join(&names) == found;
    let is_kept =
        is_within && is_spelt && is_plain(folder(&names)) && is_plain(folder(path.strip_prefix(root).ok()?));
    is_kept.then(|| Link { path: path.to_owned(), target, end: names.clone(), names })
}
