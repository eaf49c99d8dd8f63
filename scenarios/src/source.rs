//! Where a scenario comes from.

use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::files::read_text;
use crate::problem::Problem;

/// The text of a scenario, before it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// How errors call it: the path as the user gave it.
    pub name: String,
    /// The TOML text.
    pub text: String,
    /// The folder that relative paths in the text start from.
    pub base: PathBuf,
}

impl Source {
    /// Reads a scenario file.
    ///
    /// # Errors
    /// When the file cannot be read or is not UTF-8.
    pub fn read(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let text = read_text(path)
            .map_err(|source| Problem::Unreadable { path: path.to_owned(), source }.nowhere())?;
        let base = path.parent().unwrap_or(Path::new("")).to_owned();
        Ok(Self { name, text, base })
    }

    /// A scenario from memory.
    pub fn from_text(name: impl Into<String>, text: impl Into<String>, base: impl Into<PathBuf>) -> Self {
        Self { name: name.into(), text: text.into(), base: base.into() }
    }

    /// First line of the comment that opens the text; lines for editors, which begin with `#:`, are none of it.
    pub fn description(&self) -> Option<String> {
        let is_text = |line: &&str| !line.trim().is_empty() && !line.starts_with("#:");
        let line = self.text.lines().find(is_text)?;
        let text = line.trim().strip_prefix('#')?.trim_start_matches('#').trim();
        (!text.is_empty()).then(|| text.to_owned())
    }
}
