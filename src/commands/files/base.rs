//! `--base`: files with tensors as they were before.

use std::fmt::Display;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zipwire::codec::DType;
use zipwire::models::file::{
    Bases, Below, FileError, HeaderError, Model, Sources, TensorInfo, begins_compressed,
};

use super::{SAFETENSORS, no_model, restored_name};
use crate::error::CliError;

/// Files that `--base` names, opened once for all files of a command.
#[derive(Default)]
pub(crate) struct BaseFiles {
    base: PathBuf,
    is_folder: bool,
    files: Vec<BaseFile>,
}

struct BaseFile {
    /// Its place in the folder, without what its name says of compression. A file by itself has no place.
    place: PathBuf,
    model: Arc<Model>,
    /// Whether nothing is coded against it, as the same model is there in another form.
    is_copy: bool,
}

impl BaseFiles {
    /// Opens a file, or all models of a folder. Of a model that is there compressed and not, new differences are taken from the compressed one: its digest is
    /// known.
    pub(crate) fn open(base: &Path) -> Result<Self, CliError> {
        Self::open_but(base, &Sources::default())
    }

    /// The base that a command may have.
    pub(super) fn open_any(base: Option<&Path>) -> Result<Self, CliError> {
        base.map_or_else(|| Ok(Self::default()), Self::open)
    }

    /// The base that may be there for these files and folders, which are none of it: their differences from one another give nothing back without them.
    pub(super) fn open_for(inputs: &[PathBuf], base: Option<&Path>) -> Result<Self, CliError> {
        let Some(base) = base else { return Ok(Self::default()) };
        let mut own = Sources::default();
        inputs.iter().try_for_each(|input| own.add(input))?;
        Self::open_but(base, &own)
    }

    fn open_but(base: &Path, own: &Sources) -> Result<Self, CliError> {
        let is_folder = base.is_dir();
        let mut all = Self { base: base.to_owned(), is_folder, files: Vec::new() };
        let paths = if is_folder { Below::of(base)?.once(base) } else { vec![base.to_owned()] };
        let (others, left_out): (Vec<_>, Vec<_>) = paths.into_iter().partition(|path| !own.has(path));
        for path in others {
            match Model::open(&path) {
                Ok(model) => {
                    // Others may be more than a process may have open.
                    if is_folder {
                        model.close();
                    }
                    all.add(plain(path.strip_prefix(base).unwrap_or(&path)), model);
                }
                Err(error) if !is_folder || is_of_system(&error) => return Err(error.into()),
                Err(error) if is_called_model(&path) => say!("warning: no part of the base: {error}"),
                Err(_) => {}
            }
        }
        match (all.files.is_empty(), left_out.is_empty()) {
            (true, true) => Err(no_model(base)),
            (true, false) => Err(FileError::OwnBase { path: base.to_owned() }.into()),
            (false, _) => Ok(all),
        }
    }

    fn add(&mut self, place: PathBuf, model: Model) {
        let model = Arc::new(model);
        let known = self.files.iter_mut().find(|known| !known.is_copy && known.place == place);
        let is_copy = match known {
            Some(known) if model.is_compressed() && !known.model.is_compressed() => {
                known.is_copy = true;
                false
            }
            known => known.is_some(),
        };
        self.files.push(BaseFile { place, model, is_copy });
    }

    /// The base for a file, whose place is one in the folder that is worked on as a whole, if one is: the file at the same place in the base counts first, then those beside
    /// that place, then all others.
    pub(crate) fn of(&self, file: &Path, place: Option<&Path>) -> Option<Bases> {
        let place = plain(place.unwrap_or_else(|| Path::new(file.file_name().unwrap_or_default())));
        let (mut ranks, mut copies) = ([const { Vec::new() }; 3], Vec::new());
        for BaseFile { place: other, model, is_copy } in &self.files {
            // Those that the file before was read with.
            if self.is_folder {
                model.close();
            }
            let rank = if *other == place { 0 } else { 1 + usize::from(other.parent() != place.parent()) };
            let list = if *is_copy { &mut copies } else { &mut ranks[rank] };
            list.push(Arc::clone(model));
        }
        (!self.files.is_empty()).then(|| Bases::new(ranks).with_copies(copies))
    }

    /// Type and values of what a tensor of `file` was before; `None` if no codec knows its type.
    pub(crate) fn values(
        &self,
        tensor: &TensorInfo,
        file: &Path,
        place: Option<&Path>,
    ) -> Result<Option<(DType, Vec<u8>)>, CliError> {
        let Some(dtype) = DType::from_name(&tensor.dtype) else { return Ok(None) };
        let (base, name) = (self.base.display(), &tensor.name);
        let bases = self.of(file, place).unwrap_or_default();
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

/// Whether the system does not give a file that is there.
fn is_of_system(error: &FileError) -> bool {
    let source = match error {
        FileError::Io { source, .. } | FileError::Header { source: HeaderError::Io(source), .. } => source,
        _ => return false,
    };
    // Links that lead nowhere, pipes and files of a few bytes are no models.
    !matches!(source.kind(), ErrorKind::NotFound | ErrorKind::InvalidInput | ErrorKind::UnexpectedEof)
}

/// Whether a file is a model by its name or its first bytes.
fn is_called_model(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == SAFETENSORS) || begins_compressed(path)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_refuses_is_told_from_what_is_no_model() {
        let io = |kind: ErrorKind| FileError::io("read", Path::new("x"))(kind.into());
        let header =
            |kind: ErrorKind| FileError::Header { path: "x".into(), source: HeaderError::Io(kind.into()) };
        for kind in [ErrorKind::PermissionDenied, ErrorKind::Other] {
            assert!(is_of_system(&io(kind)) && is_of_system(&header(kind)));
        }
        assert!(!is_of_system(&io(ErrorKind::NotFound)) && !is_of_system(&io(ErrorKind::InvalidInput)));
        assert!(!is_of_system(&FileError::Cancelled));
    }
}
