//! Scenarios and recordings that come with the program, so that it works in any folder: those of the repository when it was built.

use std::path::{Path, PathBuf};
use std::{fs, io};

use tempfile::TempDir;
use zipwire::{Cancel, Hold};

use crate::error::CliError;

/// Path in the repository and content of each file. `build.rs` lists them.
const FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/shipped.rs"));

/// Where the scenarios are among them.
const SCENARIOS: &str = "scenarios";

/// The files in a folder for temporary ones, until this is dropped.
#[derive(Debug)]
pub(crate) struct Shipped {
    folder: TempDir,
    /// Dropped last: Ctrl-C waits until the folder is removed.
    _hold: Hold,
}

impl Shipped {
    /// # Errors
    /// If the system has no room for a few megabytes of temporary files.
    pub(crate) fn unpack(cancel: &Cancel) -> Result<Self, CliError> {
        let hold = cancel.hold();
        let folder = TempDir::with_prefix("zipwire-").map_err(CliError::Temporary)?;
        write(folder.path()).map_err(CliError::Temporary)?;
        Ok(Self { folder, _hold: hold })
    }

    /// The folder in which all of them are.
    pub(crate) fn root(&self) -> &Path {
        self.folder.path()
    }

    /// The folder of the scenarios.
    pub(crate) fn scenarios(&self) -> PathBuf {
        self.root().join(SCENARIOS)
    }

    /// The folder of the papers' scenarios.
    pub(crate) fn papers(&self) -> PathBuf {
        self.scenarios().join("paper")
    }
}

/// Writes them to a new folder.
///
/// # Errors
/// If there is something of that name already, or the files cannot be written: then the folder may have some of them.
pub(crate) fn write_new(folder: &Path) -> Result<(), CliError> {
    fs::create_dir(folder).and_then(|()| write(folder)).map_err(|error| {
        CliError::Usage(format!(
            "cannot write scenarios to `{}`: {error}\nhelp: name a folder that is not there yet, in one that is",
            folder.display()
        ))
    })
}

fn write(folder: &Path) -> io::Result<()> {
    for (name, content) in FILES {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().expect("names have folders"))?;
        fs::write(path, content)?;
    }
    Ok(())
}
