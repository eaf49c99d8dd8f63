//! Scenarios, presets and samples that the program carries, so that they are there wherever it is started.

use std::io;
use std::path::Path;

use tempfile::TempDir;

use crate::error::CliError;

/// Paths in the repository, and contents.
const FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/shipped.rs"));

/// Writes all files below `folder`, which is made if it is not there, as they lie in the repository; gives how many.
pub(crate) fn unpack(folder: &Path) -> io::Result<usize> {
    for (name, content) in FILES {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap_or(folder))?;
        std::fs::write(path, content)?;
    }
    Ok(FILES.len())
}

/// The files in a folder that goes when this value does.
pub(crate) fn unpacked() -> Result<TempDir, CliError> {
    let folder = TempDir::with_prefix("zipwire-").map_err(CliError::Unpack)?;
    unpack(folder.path()).map_err(CliError::Unpack)?;
    Ok(folder)
}
