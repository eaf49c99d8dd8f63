//! Files that are to be stored, cut into parts.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use crate::file::{FileError, Header, files_below, open_input};

use crate::store::StoreError;
use crate::store::address::NO_DTYPE;
use crate::store::manifest::{folder_that_is_a_file, is_within};

/// Ending of the names of files with tensors.
const SAFETENSORS: &str = ".safetensors";

/// A file that is to be stored.
#[derive(Debug)]
pub(crate) struct Source {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// Path in the checkpoint.
    pub(crate) name: String,
    pub(crate) bytes: u64,
}

/// Successive bytes of a file.
#[derive(Debug)]
pub(crate) struct Item {
    /// Number of the file.
    pub(crate) source: usize,
    /// Name of the tensor, if it is one.
    pub(crate) tensor: Option<String>,
    pub(crate) dtype: String,
    /// Values of a row.
    pub(crate) row: usize,
    /// Where it begins in the file.
    pub(crate) at: u64,
    pub(crate) bytes: u64,
}

/// All files, ordered by their names, and their parts. A folder is stored as the files below it, with the names that they have in it.
///
/// # Errors
/// If a file cannot be read or is a safetensors file that is cut or damaged, two have the same name, or there are none.
pub(crate) fn gather(inputs: &[PathBuf]) -> Result<(Vec<Source>, Vec<Item>), StoreError> {
    let mut named = Vec::new();
    for input in inputs {
        if input.is_dir() {
            for file in files_below(input)? {
                let name = name_of(file.strip_prefix(input).unwrap_or(&file), &file)?;
                named.push((name, file));
            }
        } else {
            let name = input.file_name().map_or(Path::new(""), Path::new);
            named.push((name_of(name, input)?, input.clone()));
        }
    }
    named.sort();
    if named.is_empty() {
        return Err(StoreError::NoFiles);
    }
    if let Some(pair) = named.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(StoreError::SamePath { path: pair[0].0.clone() });
    }
    if let Some(path) =
        folder_that_is_a_file(&named.iter().map(|(name, _)| name.as_str()).collect::<BTreeSet<_>>())
    {
        return Err(StoreError::SamePath { path: path.to_owned() });
    }
    let (mut sources, mut items) = (Vec::new(), Vec::new());
    for (number, (name, path)) in named.into_iter().enumerate() {
        let bytes = cut(number, &name, &path, &mut items)?;
        sources.push(Source { path, name, bytes });
    }
    Ok((sources, items))
}

/// The name in a checkpoint.
fn name_of(within: &Path, path: &Path) -> Result<String, StoreError> {
    let bad = |why| StoreError::BadPath { path: path.to_owned(), why };
    let mut names = Vec::new();
    for component in within.components() {
        let Component::Normal(name) = component else { return Err(bad("it has no name")) };
        names.push(name.to_str().ok_or_else(|| bad("its name is not UTF-8"))?);
    }
    let name = names.join("/");
    if is_within(&name) { Ok(name) } else { Err(bad("it has no name")) }
}

/// Adds the parts of a file, and gives its length.
fn cut(source: usize, name: &str, path: &Path, items: &mut Vec<Item>) -> Result<u64, StoreError> {
    let read = FileError::io("read", path);
    let file = open_input(path).map_err(&read)?;
    let no_tensor =
        |bytes: u64| Item { source, tensor: None, dtype: NO_DTYPE.to_owned(), row: 1, at: 0, bytes };
    if !name.ends_with(SAFETENSORS) {
        let bytes = file.metadata().map_err(&read)?.len();
        items.push(no_tensor(bytes));
        return Ok(bytes);
    }
    let header = Header::read(&file).map_err(|source| FileError::Header { path: path.to_owned(), source })?;
    let values_at = header.bytes().len() as u64;
    items.push(no_tensor(values_at));
    let tensors = header.tensors();
    let end = tensors.last().map_or(0, |tensor| tensor.range.end);
    items.extend(tensors.into_iter().map(|tensor| Item {
        source,
        at: values_at + tensor.range.start,
        bytes: tensor.bytes(),
        row: tensor.shape.last().copied().unwrap_or(1),
        tensor: Some(tensor.name),
        dtype: tensor.dtype,
    }));
    Ok(values_at + end)
}
