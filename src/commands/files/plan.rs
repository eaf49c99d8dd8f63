//! Outputs of `compress` and `decompress`: all of them are known, and found fit, before the first one is written.

use std::io::stdout;
use std::path::{Path, PathBuf};

use zipwire::Cancel;
use zipwire::models::file::{
    FileError, Output, OutputFolder, Sources, files_below, refuse_file, refuse_folder, refuse_twice,
};

use super::{io_error, is_stdout};
use crate::error::CliError;

/// Names of outputs where the user gives none.
pub(super) struct Naming {
    /// Name of what is made of a file, beside it.
    pub(super) file: fn(&Path) -> Option<PathBuf>,
    /// Name of what is made of a folder, beside it.
    pub(super) folder: fn(&Path) -> Option<PathBuf>,
    /// Whether something is made of a file in a folder; others are copied.
    pub(super) makes: fn(&Path) -> bool,
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
    Folder { from: PathBuf, to: PathBuf, items: Vec<Item> },
}

/// A file of a folder that is made of another folder.
struct Item {
    from: PathBuf,
    /// Its path in the new folder.
    name: PathBuf,
    is_copy: bool,
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
                Target::Folder { to, items, .. } => {
                    refuse_folder(to, force)?;
                    OutputFolder::refuse_names(to, items.iter().map(|item| &item.name))?;
                }
            }
        }
        Ok(())
    }

    /// Writes everything: `make` fills the output of each file that is not copied, which may be one of a folder. Where it gives `false`, there is none; of
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
                Target::Folder { from, to, items } => {
                    let folder = OutputFolder::like(to, force, from)?;
                    for item in items {
                        if !item.is_copy {
                            let output = folder.file(&item.name, &item.from)?;
                            if make(&item.from, Some(from), &output)? {
                                output.finish()?;
                                continue;
                            }
                        }
                        let name = item.from.strip_prefix(from).unwrap_or(&item.name);
                        folder.copy(name, &item.from, &|| cancel.is_cancelled())?;
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
        let mut items = Vec::new();
        for file in files_below(&from)? {
            let name = file.strip_prefix(&from).unwrap_or(&file).to_owned();
            let made = (naming.file)(&name).filter(|_| (naming.makes)(&file));
            items.push(Item { from: file, is_copy: made.is_none(), name: made.unwrap_or(name) });
        }
        Ok(Self::Folder { from, to, items })
    }

    /// Inputs and their outputs.
    fn outputs(&self) -> Vec<(PathBuf, PathBuf)> {
        match self {
            Self::Stdout { .. } => Vec::new(),
            Self::File { from, to } => vec![(from.clone(), to.clone())],
            Self::Folder { from, to, items } if items.is_empty() => vec![(from.clone(), to.clone())],
            Self::Folder { to, items, .. } => {
                items.iter().map(|item| (item.from.clone(), to.join(&item.name))).collect()
            }
        }
    }
}

/// A path that ends with a name: `.` and `..` have one, too.
fn named(path: &Path) -> Result<PathBuf, CliError> {
    if path.file_name().is_some() {
        return Ok(path.to_owned());
    }
    path.canonicalize().map_err(io_error("read", path))
}
