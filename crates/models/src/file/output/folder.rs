//! Folders of results: a new one appears whole; into one that is there, files are put, and nothing else in it changes.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::file::output::staged::{self, StagedFolder};
use crate::file::output::{Output, Rights, folder, refusal, refuse_folder, sync_folder};
use crate::file::{FileError, open_input};

/// Bytes that are copied without a look at whether to stop.
const COPIED_AT_ONCE: u64 = 64 << 20;

/// A folder that is being filled, beside the place where it will be, or in the folder that is there. Dropped, what was filled is gone.
#[derive(Debug)]
pub struct OutputFolder {
    path: PathBuf,
    /// The folder that rights of folders are taken from.
    like: Option<PathBuf>,
    /// Whether the folder was there.
    merges: bool,
    staged: StagedFolder,
}

/// Folders and files of a result, as paths in it, each folder in front of what is in it.
#[derive(Debug, Default)]
struct Content {
    folders: Vec<PathBuf>,
    files: Vec<PathBuf>,
}

impl OutputFolder {
    /// Begins a folder that will be `path`. With `force` it may be there: files of the same names are replaced then, and nothing else is touched.
    ///
    /// # Errors
    /// Errors of [`refuse_folder`], and if the folder that it will be in takes none.
    pub fn begin(path: &Path, force: bool) -> Result<Self, FileError> {
        Self::begin_with(path, force, None)
    }

    /// [`begin`](Self::begin) for a folder whose folders, if they are new, have the rights of those of the folder `from`.
    ///
    /// # Errors
    /// Errors of [`begin`](Self::begin).
    pub fn like(path: &Path, force: bool, from: &Path) -> Result<Self, FileError> {
        Self::begin_with(path, force, Some(from.to_owned()))
    }

    fn begin_with(path: &Path, force: bool, like: Option<PathBuf>) -> Result<Self, FileError> {
        let merges = refuse_folder(path, force)?;
        staged::sweep(folder(path));
        // A folder that is there may be of another file system than the one that it is in.
        let beside = if merges { path } else { folder(path) };
        staged::sweep(beside);
        let staged = StagedFolder::begin(beside).map_err(FileError::io("create", path))?;
        Ok(Self { path: path.to_owned(), like, merges, staged })
    }

    /// The folder, to be filled with files that are on the disk.
    pub fn root(&self) -> PathBuf {
        self.staged.root()
    }

    /// Begins a file of it, called `name` in it, with the rights of `input`. The folders that it is in are made.
    ///
    /// # Errors
    /// If the system refuses, or such a file was begun before.
    pub fn file(&self, name: &Path, input: &Path) -> Result<Output, FileError> {
        let (place, shown) = (self.root().join(name), self.path.join(name));
        fs::create_dir_all(folder(&place)).map_err(FileError::io("create", &shown))?;
        Output::within(&place, &shown, false, Rights::of(input)?)
    }

    /// Copies a file into it, unless `cancelled` says to stop.
    ///
    /// # Errors
    /// If it cannot be read, and errors of [`file`](Self::file); [`FileError::Cancelled`].
    pub fn copy(&self, name: &Path, input: &Path, cancelled: &dyn Fn() -> bool) -> Result<(), FileError> {
        let source = open_input(input).map_err(FileError::io("read", input))?;
        let copy = self.file(name, input)?;
        loop {
            if cancelled() {
                return Err(FileError::Cancelled);
            }
            let mut part = (&source).take(COPIED_AT_ONCE);
            let copied = io::copy(&mut part, &mut copy.file()).map_err(FileError::io("copy", input))?;
            if copied == 0 {
                return copy.finish();
            }
        }
    }

    /// Makes a folder in it, called `name`, and those that it is in.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn folder(&self, name: &Path) -> Result<(), FileError> {
        let (place, shown) = (self.root().join(name), self.path.join(name));
        fs::create_dir_all(place).map_err(FileError::io("create", &shown))
    }

    /// Makes a symbolic link in it, called `name`, that says `target`. The folders that it is in are made.
    ///
    /// # Errors
    /// If the system refuses, or has no such links.
    pub fn link(&self, name: &Path, target: &Path) -> Result<(), FileError> {
        let (place, shown) = (self.root().join(name), self.path.join(name));
        let create = FileError::io("create", &shown);
        fs::create_dir_all(folder(&place)).map_err(&create)?;
        #[cfg(unix)]
        let made = std::os::unix::fs::symlink(target, &place);
        #[cfg(not(unix))]
        let made = Err(io::Error::new(io::ErrorKind::Unsupported, target.display().to_string()));
        made.map_err(create)
    }

    /// Whether a link that says `target` is there already, so that nothing is replaced.
    pub fn has_link(path: &Path, name: &Path, target: &Path) -> bool {
        fs::read_link(path.join(name)).is_ok_and(|found| found == target)
    }

    /// Refuses files that could not be put into the folder that is there, by their names in it.
    ///
    /// # Errors
    /// [`FileError::Kind`] for what is no file or, on the way there, no folder; [`FileError::InStore`].
    pub fn refuse_names<'a>(
        path: &Path,
        names: impl IntoIterator<Item = &'a PathBuf>,
    ) -> Result<(), FileError> {
        for name in names {
            Self::refuse_folders(path, [folder(name)])?;
            refusal::refuse_kind(&path.join(name), true)?;
        }
        Ok(())
    }

    /// Refuses folders that could not be made in the folder that is there, by their names in it.
    ///
    /// # Errors
    /// [`FileError::Kind`] for what is no folder; [`FileError::InStore`].
    pub fn refuse_folders<'a>(
        path: &Path,
        names: impl IntoIterator<Item = &'a Path>,
    ) -> Result<(), FileError> {
        for name in names {
            let mut within = path.to_owned();
            for part in name.components() {
                within.push(part);
                refuse_folder(&within, true)?;
            }
        }
        Ok(())
    }

    /// Puts a new folder in its place, as a whole; or each file in its place, one after the other: whoever is interrupted there has files that are old or
    /// new, each of them whole, and has the rest by another try.
    ///
    /// # Errors
    /// If the system refuses any of it, or something is in the way by now.
    pub fn finish(self) -> Result<(), FileError> {
        let root = self.root();
        let create = FileError::io("create", &self.path);
        let mut content = Content::default();
        content.read(&root, Path::new("")).map_err(&create)?;
        for name in &content.folders {
            self.set_rights(&root, name, true).map_err(&create)?;
            sync_folder(&root.join(name)).map_err(&create)?;
        }
        let new = if self.merges { self.merge(&content)? } else { self.appear(content)? };
        // Last: a folder that its owner may not write into takes no files.
        for name in new.iter().rev() {
            self.set_rights(&self.path, name, false).map_err(&create)?;
        }
        Ok(())
    }

    /// Gives a folder the rights that it is to have, and meanwhile those that its owner needs.
    #[cfg(unix)]
    fn set_rights(&self, root: &Path, name: &Path, meanwhile: bool) -> io::Result<()> {
        use std::os::unix::fs::PermissionsExt;

        const OWNER: u32 = 0o700;
        let mode_of = |path| fs::metadata(path).map(|metadata| metadata.permissions().mode());
        let Some(from) = &self.like else { return Ok(()) };
        // Without its input, which has gone meanwhile, it is the owner's alone.
        let mode = mode_of(from.join(name)).unwrap_or(OWNER) & Rights::BITS;
        if !meanwhile && mode & OWNER == OWNER {
            return Ok(());
        }
        let path = root.join(name);
        // Bits that it has from the folder that it is in, as that of the group, stay.
        let others = mode_of(path.clone())? & !Rights::BITS;
        let mode = if meanwhile { mode | OWNER } else { mode };
        fs::set_permissions(path, fs::Permissions::from_mode(others | mode))
    }

    #[cfg(not(unix))]
    fn set_rights(&self, _: &Path, _: &Path, _: bool) -> io::Result<()> {
        Ok(())
    }

    /// Moves a new folder to its place. Gives the new folders.
    fn appear(&self, content: Content) -> Result<Vec<PathBuf>, FileError> {
        let create = FileError::io("create", &self.path);
        rename_new(&self.root(), &self.path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty => {
                FileError::FolderExists { path: self.path.clone() }
            }
            _ => create(error),
        })?;
        sync_folder(folder(&self.path)).map_err(create)?;
        Ok(content.folders)
    }

    /// Moves all files to their places. Gives the folders that are new.
    fn merge(&self, content: &Content) -> Result<Vec<PathBuf>, FileError> {
        let is_there = |name: &&PathBuf| {
            fs::read_link(self.root().join(name)).is_ok_and(|link| Self::has_link(&self.path, name, &link))
        };
        let files: Vec<&PathBuf> = content.files.iter().filter(|name| !is_there(name)).collect();
        Self::refuse_names(&self.path, files.iter().copied())?;
        Self::refuse_folders(&self.path, content.folders.iter().map(PathBuf::as_path))?;
        let mut new = Vec::new();
        for name in &content.folders {
            let path = self.path.join(name);
            if path.symlink_metadata().is_err() {
                fs::create_dir(&path).map_err(FileError::io("create", &path))?;
                self.set_rights(&self.path, name, true).map_err(FileError::io("create", &path))?;
                new.push(name.clone());
            }
        }
        for name in files {
            let path = self.path.join(name);
            fs::rename(self.root().join(name), &path).map_err(FileError::io("create", &path))?;
        }
        for name in &content.folders {
            let path = self.path.join(name);
            sync_folder(&path).map_err(FileError::io("write", &path))?;
        }
        Ok(new)
    }
}

impl Content {
    fn read(&mut self, root: &Path, within: &Path) -> io::Result<()> {
        self.folders.push(within.to_owned());
        let mut entries = fs::read_dir(root.join(within))?.collect::<io::Result<Vec<_>>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let name = within.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                self.read(root, &name)?;
            } else {
                self.files.push(name);
            }
        }
        Ok(())
    }
}

/// Renames a folder, and replaces nothing: in one step, where the file system has one.
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        use rustix::io::Errno;

        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            // The file system, or the kernel, does not have it.
            Err(Errno::INVAL | Errno::NOSYS) => {}
            renamed => return Ok(renamed?),
        }
    }
    if to.symlink_metadata().is_ok() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    fs::rename(from, to)
}
