//! Files that zipwire writes and may write again: they have a mark near their beginning, and no other file is ever replaced.

use std::fmt::Display;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

use zipwire::Cancel;
use zipwire::models::file::{FileError, Output};
use zipwire::traces::open_input;

use crate::error::CliError;

/// Bytes that mark a kind of files, and the command that writes them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Marked {
    pub(crate) mark: &'static [u8],
    /// Bytes before the mark.
    pub(crate) at: u64,
    pub(crate) command: &'static str,
}

impl Marked {
    /// Whether a file is of this kind.
    pub(crate) fn is(self, path: &Path) -> bool {
        let (mut first, length) = (Vec::new(), self.at + self.mark.len() as u64);
        let read = open_input(path).and_then(|file| file.take(length).read_to_end(&mut first));
        read.is_ok() && first.get(self.at as usize..) == Some(self.mark)
    }

    /// Refuses a file that is there and of no such kind.
    pub(crate) fn refuse_others(self, path: &Path) -> Result<(), CliError> {
        if path.exists() && !self.is(path) {
            let reason = format!("it exists, and `zipwire {}` did not write it", self.command);
            return Err(refused(path, &reason));
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
            return Err(refused(path, &format!("there is no folder `{}`", folder.display())));
        }
        Ok(())
    }

    /// Writes a file, whole or not at all; over one of its kind that is there, and over nothing else.
    pub(crate) fn write(
        self,
        path: &Path,
        cancel: &Cancel,
        content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), CliError> {
        let _hold = cancel.hold();
        self.refuse_others(path)?;
        let write = || -> Result<(), FileError> {
            let output = Output::begin(path, true)?;
            let mut file = BufWriter::new(output.file());
            content(&mut file).map_err(FileError::io("write", path))?;
            file.flush().map_err(FileError::io("write", path))?;
            drop(file);
            output.finish()
        };
        write().map_err(|error| refused(path, &error))
    }
}

fn refused(path: &Path, error: &dyn Display) -> CliError {
    CliError::Usage(format!(
        "cannot write `{}`: {error}\nhelp: choose another file, in a writable folder",
        path.display()
    ))
}
