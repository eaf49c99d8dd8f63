//! Scenarios, presets and samples that the program carries, so that they are there wherever it is started.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use tempfile::TempDir;

use crate::error::CliError;

/// Paths in the repository, and contents.
const FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/shipped.rs"));

/// Whether the program carries a file of this path.
pub(crate) fn has(path: &Path) -> bool {
    FILES.iter().any(|(name, _)| Path::new(name) == path)
}

/// Writes all files below `folder`, which is empty or not there, as they lie in the repository; gives how many. Nothing of them is left if
/// that fails, or `is_stopped`.
pub(crate) fn unpack(folder: &Path, is_stopped: impl Fn() -> bool) -> io::Result<usize> {
    let was_there = folder.exists();
    let write = |(name, content): &(&str, &[u8])| {
        if is_stopped() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap_or(folder))?;
        fs::write(path, content)
    };
    match FILES.iter().try_for_each(write) {
        Ok(()) => Ok(FILES.len()),
        Err(error) => {
            remove(folder, was_there);
            Err(error)
        }
    }
}

/// Removes what of the files is below `folder`, and folders that are empty then; itself, unless it `was_there`.
fn remove(folder: &Path, was_there: bool) {
    for (name, _) in FILES {
        // It may not have been written.
        let _ = fs::remove_file(folder.join(name));
    }
    let parents = FILES.iter().flat_map(|(name, _)| Path::new(name).ancestors().skip(1));
    let parents: BTreeSet<&Path> = parents.collect();
    // The longest path is the last one. The empty path is `folder`, and others stay if they are not empty.
    for parent in parents.iter().rev().filter(|parent| !was_there || !parent.as_os_str().is_empty()) {
        let _ = fs::remove_dir(folder.join(parent));
    }
}

/// The files in a folder that goes when this value does.
pub(crate) fn unpacked() -> Result<TempDir, CliError> {
    let folder = TempDir::with_prefix("zipwire-").map_err(CliError::Unpack)?;
    unpack(folder.path(), || false).map_err(CliError::Unpack)?;
    Ok(folder)
}
