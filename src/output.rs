//! The output folder of a run: its files appear when all of them are complete, `summary.json` last, or not at all.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// An output folder that is being filled. Files are written to a hidden folder inside it and moved into place by
/// [`Output::commit`]; dropped before, it leaves nothing behind.
#[derive(Debug)]
pub struct Output {
    folder: PathBuf,
    /// Folders that did not exist before, outermost first.
    created: Vec<PathBuf>,
    staging: Option<TempDir>,
    names: Vec<String>,
}

/// The output folder cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to output folder `{}`: {source}\nhelp: choose a writable one with `--out`", folder.display())]
pub struct OutputError {
    folder: PathBuf,
    source: io::Error,
    is_refused: bool,
}

impl OutputError {
    /// Whether the folder could not be used from the start, rather than failing later, on a full disk for instance.
    pub fn is_refused(&self) -> bool {
        self.is_refused
    }
}

/// Begin of the names of hidden folders; the id of the process that fills one follows.
const STAGING: &str = ".zipwire-";

/// Removes what processes left here that were killed before they could: folders named after processes that are gone.
fn remove_abandoned(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let process =
            name.to_str().and_then(|name| name.strip_prefix(STAGING)?.split('-').next()?.parse::<u32>().ok());
        // Where processes cannot be looked up this way, nothing is known to be gone, and everything stays.
        let can_tell = Path::new("/proc/self").exists();
        if process.is_some_and(|id| can_tell && !Path::new("/proc").join(id.to_string()).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

impl Output {
    /// Makes sure that `folder` can be written, before anything is computed for it.
    ///
    /// # Errors
    /// If it cannot be created or written.
    pub fn create(folder: &Path) -> Result<Self, OutputError> {
        let failed = |source| OutputError { folder: folder.to_owned(), source, is_refused: true };
        let missing = folder.ancestors().take_while(|path| !path.as_os_str().is_empty() && !path.exists());
        let mut output = Self {
            folder: folder.to_owned(),
            created: missing.map(Path::to_owned).collect(),
            staging: None,
            names: Vec::new(),
        };
        if folder.exists() && !folder.is_dir() {
            return Err(failed(io::Error::other("it is not a folder")));
        }
        fs::create_dir_all(folder).map_err(failed)?;
        remove_abandoned(folder);
        let staging = tempfile::Builder::new()
            .prefix(&format!("{STAGING}{}-", std::process::id()))
            .tempdir_in(folder)
            .map_err(failed)?;
        output.staging = Some(staging);
        Ok(output)
    }

    /// Where the files will be.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes one file.
    ///
    /// # Errors
    /// If it cannot be written in full.
    pub fn write(
        &mut self,
        name: &str,
        content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), OutputError> {
        let failed = |source| OutputError { folder: self.folder.clone(), source, is_refused: false };
        let staging = self.staging.as_ref().expect("an output is staged until it is committed");
        let mut file = BufWriter::new(File::create(staging.path().join(name)).map_err(failed)?);
        content(&mut file).and_then(|()| file.flush()).map_err(failed)?;
        self.names.push(name.to_owned());
        Ok(())
    }

    /// Moves all files into place.
    ///
    /// # Errors
    /// If the system refuses to move one.
    pub fn commit(mut self) -> Result<(), OutputError> {
        let staging = self.staging.take().expect("an output is committed once");
        for name in &self.names {
            fs::rename(staging.path().join(name), self.folder.join(name)).map_err(|source| OutputError {
                folder: self.folder.clone(),
                source,
                is_refused: false,
            })?;
        }
        self.created.clear();
        Ok(())
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        self.staging = None;
        for folder in &self.created {
            // Succeeds only on empty folders: what others put there meanwhile stays.
            let _ = fs::remove_dir(folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &'static str) -> impl FnOnce(&mut dyn Write) -> io::Result<()> {
        move |out| out.write_all(text.as_bytes())
    }

    #[test]
    fn committed_files_stand_alone() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("a/b");
        let mut output = Output::create(&folder).unwrap();
        output.write("x", text("1")).unwrap();
        assert!(!folder.join("x").exists(), "nothing before the commit");
        output.commit().unwrap();
        let names: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["x"]);
    }

    #[test]
    fn a_dropped_output_leaves_nothing() {
        let root = tempfile::tempdir().unwrap();
        let mut output = Output::create(&root.path().join("a/b")).unwrap();
        output.write("x", text("1")).unwrap();
        drop(output);
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_dropped_output_keeps_older_files() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("older"), "2").unwrap();
        let mut output = Output::create(root.path()).unwrap();
        output.write("older", text("1")).unwrap();
        drop(output);
        assert_eq!(fs::read_to_string(root.path().join("older")).unwrap(), "2");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_killed_processes_left_is_removed() {
        let root = tempfile::tempdir().unwrap();
        // Linux gives out no process id above 2^22.
        fs::create_dir(root.path().join(".zipwire-99999999-abc")).unwrap();
        fs::create_dir(root.path().join(".zipwire-other")).unwrap();
        let running = root.path().join(format!(".zipwire-{}-abc", std::process::id()));
        fs::create_dir(&running).unwrap();
        drop(Output::create(root.path()).unwrap());
        let mut left: Vec<_> =
            fs::read_dir(root.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        left.sort();
        assert_eq!(left.len(), 2);
        assert!(left.contains(&running));
    }

    #[test]
    fn a_folder_beneath_a_file_is_refused() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("file"), "").unwrap();
        let error = Output::create(&root.path().join("file/out")).unwrap_err();
        assert!(error.to_string().contains("--out"), "{error}");
    }
}
