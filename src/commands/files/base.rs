//! `--base`: files with tensors as they were before.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zipwire::codec::DType;
use zipwire::models::file::{Bases, Below, Model, TensorInfo};

use super::{SAFETENSORS, no_model, restored_name};
use crate::error::CliError;

/// Files that `--base` names, opened once for all files of a command.
#[derive(Default)]
pub(crate) struct BaseFiles {
    base: PathBuf,
    /// Each with its place in the folder, without what its name says of compression. A file by itself has no place.
    files: Vec<(PathBuf, Arc<Model>)>,
}

impl BaseFiles {
    /// Opens a file, or all models of a folder. Of a model that is there compressed and not, the compressed one counts: its digest is known.
    pub(crate) fn open(base: &Path) -> Result<Self, CliError> {
        let mut all = Self { base: base.to_owned(), files: Vec::new() };
        if !base.is_dir() {
            all.files.push((PathBuf::new(), Arc::new(Model::open(base)?)));
            return Ok(all);
        }
        for path in Below::of(base)?.once(base) {
            let place = plain(path.strip_prefix(base).unwrap_or(&path));
            match Model::open(&path).map(Arc::new) {
                Ok(model) => match all.files.iter_mut().find(|(other, _)| *other == place) {
                    Some((_, other)) if model.is_compressed() => *other = model,
                    Some(_) => {}
                    None => all.files.push((place, model)),
                },
                Err(error) if path.extension().is_some_and(|ending| ending == SAFETENSORS) => {
                    say!("warning: no part of the base: {error}");
                }
                Err(_) => {}
            }
        }
        if all.files.is_empty() { Err(no_model(base)) } else { Ok(all) }
    }

    /// The base that a command may have.
    pub(super) fn open_any(base: Option<&Path>) -> Result<Self, CliError> {
        base.map_or_else(|| Ok(Self::default()), Self::open)
    }

    /// The base for a file, which is in `folder` if that is worked on as a whole: the file at the same place in its folder counts first, then those beside
    /// that place, then all others.
    pub(crate) fn of(&self, file: &Path, folder: Option<&Path>) -> Option<Bases> {
        let within = folder.and_then(|folder| file.strip_prefix(folder).ok());
        let place = plain(within.unwrap_or_else(|| Path::new(file.file_name().unwrap_or_default())));
        let mut ranks = [const { Vec::new() }; 3];
        for (other, model) in &self.files {
            let rank = if *other == place { 0 } else { 1 + usize::from(other.parent() != place.parent()) };
            ranks[rank].push(Arc::clone(model));
        }
        (!self.files.is_empty()).then(|| Bases::new(ranks))
    }

    /// Type and values of what a tensor of `file` was before; `None` if no codec knows its type.
    pub(crate) fn values(
        &self,
        tensor: &TensorInfo,
        file: &Path,
    ) -> Result<Option<(DType, Vec<u8>)>, CliError> {
        let Some(dtype) = DType::from_name(&tensor.dtype) else { return Ok(None) };
        let (base, name) = (self.base.display(), &tensor.name);
        let bases = self.of(file, None).unwrap_or_default();
        let Some(model) = bases.model_with(name)? else {
            let message = format!("base `{base}` has no tensor `{name}`, as `{}` has", file.display());
            return Err(CliError::Usage(message));
        };
        let before = model.tensor(name)?;
        if (&before.dtype, &before.shape) != (&tensor.dtype, &tensor.shape) {
            let message = format!(
                "tensor `{name}` is {} {:?} in base `{base}` and {} {:?} in `{}`\nhelp: differences are taken from as many values of the same type",
                before.dtype,
                before.shape,
                tensor.dtype,
                tensor.shape,
                file.display()
            );
            return Err(CliError::Usage(message));
        }
        Ok(Some((dtype, model.read(name)?)))
    }
}

/// Name of a file before it was compressed, if it was.
fn plain(name: &Path) -> PathBuf {
    restored_name(name).unwrap_or_else(|| name.to_owned())
}

/// Error for a codec that takes differences when no base is named.
pub(crate) fn missing_base(codec: &impl Display) -> CliError {
    CliError::Usage(format!(
        "`{codec}` takes differences from a base, and there is none\nhelp: name it by `--base FILE`"
    ))
}
