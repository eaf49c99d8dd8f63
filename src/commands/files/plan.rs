//! Outputs of `compress` and `decompress`: all of them are known, and found fit, before the first one is written.

use std::collections::HashSet;
use std::ffi::OsStr;
#[cfg(unix)]
use std::ffi::OsString;
use std::io::stdout;
use std::path::{Path, PathBuf};

use zipwire::Cancel;
use zipwire::models::file::{
    Below, FileError, Link, Output, OutputFolder, Sources, refuse_file, refuse_folder, refuse_twice,
};

use super::{io_error, is_stdout};
use crate::error::CliError;

/// Names of outputs where the user gives none.
pub(super) struct Naming {
    /// Name of what is made of a file, beside it.
    pub(super) file: fn(&Path) -> Option<PathBuf>,
    /// Name of what is made of a folder, beside it.
    pub(super) folder: fn(&Path) -> Option<PathBuf>,
    /// Whether something is made of a file in a folder that has these names, its own and those of links to it; others are copied.
    pub(super) makes: fn(&Path, &[&Path]) -> bool,
}

/// All outputs of a command.
pub(super) struct Plan {
    /// The folder that several outputs are put into, which is made if it is not there.
    folder: Option<PathBuf>,
    targets: Vec<Target>,
}

enum Target {
    Stdout { from: PathBuf },
    File { from: PathBuf, to: PathBuf },
    Folder { from: PathBuf, to: PathBuf, items: Vec<Item>, links: Links, empty: Vec<PathBuf> },
}

/// A file of a folder that is made of another folder.
struct Item {
    from: PathBuf,
    /// Its path in the new folder.
    name: PathBuf,
    /// Path in the folder by which a user knows it: that of the first link to it, if there is one.
    place: PathBuf,
    is_copy: bool,
}

/// Links of a folder to places in it, which the new folder has, too.
struct Links {
    /// Path of the folder.
    from: PathBuf,
    all: Vec<Link>,
    /// Name of what is made of a file.
    file: fn(&Path) -> Option<PathBuf>,
}

impl Plan {
    /// Outputs of `files`, at `out` or beside each. Nothing is written.
    ///
    /// # Errors
    /// If one of them has no name, would replace what is read, another output, or anything that `force` does not let it replace.
    pub(super) fn new(
        files: &[PathBuf],
        out: Option<&Path>,
        base: Option<&Path>,
        force: bool,
        naming: &Naming,
    ) -> Result<Self, CliError> {
        if out.is_some_and(is_stdout) {
            return match files {
                [from] if !from.is_dir() => {
                    Ok(Self { folder: None, targets: vec![Target::Stdout { from: from.clone() }] })
                }
                _ => Err(CliError::Usage(
                    "one file is written to stdout, and no more\nhelp: `-o` names a folder for several"
                        .to_owned(),
                )),
            };
        }
        let several = files.len() > 1;
        let targets = files.iter().map(|file| Target::new(file, out, several, naming));
        let folder = out.filter(|_| several).map(Path::to_owned);
        let plan = Self { folder, targets: targets.collect::<Result<_, _>>()? };
        let mut sources = Sources::default();
        files.iter().map(PathBuf::as_path).chain(base).try_for_each(|file| sources.add(file))?;
        plan.check(&sources, force)?;
        Ok(plan)
    }

    fn check(&self, sources: &Sources, force: bool) -> Result<(), FileError> {
        let mut pairs = Vec::new();
        for target in &self.targets {
            if let Target::Folder { to, .. } = target {
                sources.refuse_folder(to)?;
            }
            pairs.extend(target.outputs());
        }
        pairs.iter().try_for_each(|(_, to)| sources.refuse_file(to))?;
        refuse_twice(&pairs)?;
        if let Some(folder) = self.folder.as_deref().filter(|folder| folder.exists() && !folder.is_dir()) {
            refuse_folder(folder, true)?;
        }
        for target in &self.targets {
            match target {
                Target::Stdout { .. } => {}
                Target::File { to, .. } => refuse_file(to, force)?,
                Target::Folder { from, to, items, links, empty } => {
                    refuse_folder(to, force)?;
                    let links = links.renamed(&Item::made(from, items));
                    let new = links.iter().filter(|(name, says)| !OutputFolder::has_link(to, name, says));
                    let names = items.iter().map(|item| &item.name);
                    OutputFolder::refuse_names(to, names.chain(new.map(|(name, _)| name)))?;
                    OutputFolder::refuse_folders(to, empty.iter().map(PathBuf::as_path))?;
                }
            }
        }
        Ok(())
    }

    /// Writes everything: `make` fills the output of each file that is not copied, and is told the place of one of a folder. Where it gives `false`, there is none; of
    /// a folder, the file is copied then.
    pub(super) fn carry_out(
        &self,
        force: bool,
        cancel: &Cancel,
        mut make: impl FnMut(&Path, Option<&Path>, &Output) -> Result<bool, CliError>,
    ) -> Result<(), CliError> {
        if let Some(folder) = &self.folder {
            std::fs::create_dir_all(folder).map_err(io_error("create folder", folder))?;
        }
        for target in &self.targets {
            // A file without a name is gone with the process.
            let _hold = (!matches!(target, Target::Stdout { .. })).then(|| cancel.hold());
            match target {
                Target::Stdout { from } => {
                    let output = Output::unnamed(Path::new("stdout"))?;
                    if make(from, None, &output)? {
                        output.pour(&mut stdout().lock())?;
                    }
                }
                Target::File { from, to } => {
                    let output = Output::like(to, force, from)?;
                    if make(from, None, &output)? {
                        output.finish()?;
                    }
                }
                Target::Folder { from, to, items, links, empty } => {
                    let folder = OutputFolder::like(to, force, from)?;
                    let mut made = Item::made(from, items);
                    for item in items {
                        if !item.is_copy {
                            let output = folder.file(&item.name, &item.from)?;
                            if make(&item.from, Some(&item.place), &output)? {
                                output.finish()?;
                                continue;
                            }
                        }
                        let name = item.from.strip_prefix(from).unwrap_or(&item.name);
                        folder.copy(name, &item.from, &|| cancel.is_cancelled())?;
                        made.remove(name);
                    }
                    empty.iter().try_for_each(|name| folder.folder(name))?;
                    for (name, target) in links.renamed(&made) {
                        folder.link(&name, &target)?;
                    }
                    folder.finish()?;
                }
            }
        }
        Ok(())
    }
}

impl Target {
    fn new(from: &Path, out: Option<&Path>, several: bool, naming: &Naming) -> Result<Self, CliError> {
        let is_folder = from.is_dir();
        let name = || -> Result<PathBuf, CliError> {
            let of = if is_folder { naming.folder } else { naming.file };
            let unnamed = || {
                CliError::Usage(format!(
                    "the name of `{}` does not say how the output is called\nhelp: `-o` names the output",
                    from.display()
                ))
            };
            of(&named(from)?).ok_or_else(unnamed)
        };
        let to = match out {
            None => name()?,
            Some(out) if several || (!is_folder && out.is_dir()) => {
                out.join(name()?.file_name().unwrap_or_default())
            }
            Some(out) => out.to_owned(),
        };
        let from = from.to_owned();
        if !is_folder {
            return Ok(Self::File { from, to });
        }
        let below = Below::of(&from)?;
        let (links_to, Below { files, links, folders }) = (below.links_to(&from), below);
        let within = |path: &Path| path.strip_prefix(&from).unwrap_or(path).to_owned();
        let item = |file: PathBuf| {
            let links = links_to.get(&file).into_iter().flatten();
            let names: Vec<&Path> = links.map(PathBuf::as_path).chain([&*file]).collect();
            let (name, place) = (within(&file), within(names[0]));
            let made = (naming.file)(&name).filter(|_| (naming.makes)(&file, &names));
            Item { is_copy: made.is_none(), name: made.unwrap_or(name), place, from: file }
        };
        let items = files.into_iter().map(item).collect();
        let empty = folders.iter().map(|folder| within(folder)).collect();
        let links = Links { from: from.clone(), all: links, file: naming.file };
        Ok(Self::Folder { from, to, items, links, empty })
    }

    /// Inputs and their outputs.
    fn outputs(&self) -> Vec<(PathBuf, PathBuf)> {
        match self {
            Self::Stdout { .. } => Vec::new(),
            Self::File { from, to } => vec![(from.clone(), to.clone())],
            Self::Folder { from, to, items, empty, .. } if items.is_empty() && empty.is_empty() => {
                vec![(from.clone(), to.clone())]
            }
            Self::Folder { from, to, items, links, empty } => {
                let folders = empty.iter().map(|name| (from.join(name), to.join(name)));
                let files = items.iter().map(|item| (item.from.clone(), to.join(&item.name)));
                let renamed = links.renamed(&Item::made(from, items));
                let links = links.all.iter().zip(renamed);
                files
                    .chain(folders)
                    .chain(links.map(|(link, (name, _))| (link.path.clone(), to.join(name))))
                    .collect()
            }
        }
    }
}

impl Item {
    /// Paths of the files of a folder that something is made of.
    fn made(from: &Path, items: &[Self]) -> HashSet<PathBuf> {
        let made = items.iter().filter(|item| !item.is_copy);
        made.filter_map(|item| Some(item.from.strip_prefix(from).ok()?.to_owned())).collect()
    }
}

impl Links {
    /// Name and target of each link, where something was made of these files: a link to one is renamed as it is.
    fn renamed(&self, made: &HashSet<PathBuf>) -> Vec<(PathBuf, PathBuf)> {
        let both = |link: &Link| {
            let renamed = |name: &Path| (self.file)(name).filter(|_| made.contains(&link.end));
            let name = renamed(self.name(link)).unwrap_or_else(|| self.name(link).to_owned());
            let file = renamed(&link.names);
            let target = file.as_deref().and_then(Path::file_name).map(|file| with_last(&link.target, file));
            (name, target.unwrap_or_else(|| link.target.clone()))
        };
        self.all.iter().map(both).collect()
    }

    /// Path of a link in the folder.
    fn name<'a>(&self, link: &'a Link) -> &'a Path {
        link.path.strip_prefix(&self.from).unwrap_or(&link.path)
    }
}

/// A path with another last name, and the same bytes in front of it.
#[cfg(unix)]
fn with_last(path: &Path, name: &OsStr) -> PathBuf {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};

    let path = path.as_os_str().as_bytes();
    let begin = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    OsString::from_vec([&path[..begin], name.as_bytes()].concat()).into()
}

#[cfg(not(unix))]
fn with_last(path: &Path, name: &OsStr) -> PathBuf {
    path.with_file_name(name)
}

/// A path that ends with a name: `.` and `..` have one, too.
fn named(path: &Path) -> Result<PathBuf, CliError> {
    if path.file_name().is_some() {
        return Ok(path.to_owned());
    }
    path.canonicalize().map_err(io_error("read", path))
}
