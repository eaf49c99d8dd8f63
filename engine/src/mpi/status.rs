//! Status files: what each process is doing, kept on disk for when it has gone.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Names the folder in which processes say what they are doing.
pub const STATUS_VARIABLE: &str = "ZIPWIRE_STATUS";

/// Name of the pipe in that folder that a rank holds open while it lives, if the program that started it watches.
pub fn alive_file(rank: u32) -> String {
    format!("rank-{rank}.alive")
}

/// Bytes of each of the two lines of a file, with the line break: where the second one is never depends on the first.
const LINE: usize = 256;

/// A file with two lines: the identity of the process, and its activity.
#[derive(Debug)]
pub(super) struct StatusFile {
    file: File,
    doing: String,
    /// Pipe that is held open while the process lives.
    _alive: Option<File>,
}

/// Contents of a status file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The rank.
    pub rank: u32,
    /// Number of its process, on its host.
    pub process: u32,
    /// The host.
    pub host: String,
    /// Its last activity, as words that follow its name.
    pub doing: String,
}

impl StatusFile {
    /// The file of a rank, in the folder that the environment names; `None` if it names none, or the folder is not there, as on other
    /// hosts than the one where the job was started.
    pub(super) fn from_environment(rank: u32, host: &str) -> Option<Self> {
        let folder = PathBuf::from(std::env::var_os(STATUS_VARIABLE)?);
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(folder.join(format!("rank-{rank}.status")))
            .ok()?;
        file.write_all(&line(&format!("{} {host}", std::process::id()))).ok()?;
        let alive = OpenOptions::new().write(true).open(folder.join(alive_file(rank))).ok();
        let mut status = Self { file, doing: String::new(), _alive: alive };
        status.write("has begun");
        Some(status)
    }

    /// The process has done and said all; `code` is rank 0's exit code.
    pub(super) fn end(&mut self, code: Option<u8>) {
        self.write(&code.map_or_else(|| ENDED.to_owned(), ended_with));
    }

    /// Records the current activity. Errors of writing are ignored: the file only helps later diagnosis.
    pub(super) fn write(&mut self, doing: &str) {
        if self.doing != doing {
            self.doing.clear();
            self.doing.push_str(doing);
            let _ = write_at(&mut self.file, &line(doing), LINE as u64);
        }
    }
}

/// Last status of a process that has finished and reported everything.
const ENDED: &str = "is done";

/// Start of the last status of a process in which a run has failed.
pub(super) const FAILED: &str = "has failed";

/// Start of the last status of a healthy process that ended because the launcher or another rank said so.
pub(super) const TOLD: &str = "was told to end";

/// Whether a process has itself given up a run.
pub fn has_failed(doing: &str) -> bool {
    doing.starts_with(FAILED)
}

/// Whether a process has said what became of its run: so it was there after whatever ended this.
pub fn is_witness(doing: &str) -> bool {
    is_done(doing) || has_failed(doing) || doing.starts_with(TOLD)
}

/// Last status of rank 0: the exit code with which it ends, whose cause it has printed.
fn ended_with(code: u8) -> String {
    format!("{ENDED} with {code}")
}

/// Whether what a process was doing last is that it has ended.
pub fn is_done(doing: &str) -> bool {
    doing.starts_with(ENDED)
}

/// Exit code of rank 0, if its last status says that it has ended with one and printed why.
pub fn reported(doing: &str) -> Option<u8> {
    doing.strip_prefix(ENDED)?.strip_prefix(" with ")?.parse().ok()
}

/// Reads the status files in a folder, sorted by rank.
///
/// # Errors
/// If the folder cannot be read. Files that a process was just making are left out.
pub fn read_statuses(folder: &Path) -> io::Result<Vec<Status>> {
    let mut statuses: Vec<Status> =
        std::fs::read_dir(folder)?.filter_map(|entry| read(&entry.ok()?.path())).collect();
    statuses.sort_by_key(|status| status.rank);
    Ok(statuses)
}

fn read(path: &Path) -> Option<Status> {
    let rank = path.file_name()?.to_str()?.strip_prefix("rank-")?.strip_suffix(".status")?.parse().ok()?;
    let text = String::from_utf8_lossy(&std::fs::read(path).ok()?).into_owned();
    let (who, doing) = text.split_once('\n')?;
    let (process, host) = who.trim_end().split_once(' ')?;
    Some(Status {
        rank,
        process: process.parse().ok()?,
        host: host.to_owned(),
        doing: doing.trim_end().to_owned(),
    })
}

/// A text of one line, cut or filled up to the length that all have.
fn line(text: &str) -> Vec<u8> {
    let mut end = text.len().min(LINE - 1);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut line = text[..end].replace('\n', " ").into_bytes();
    line.resize(LINE - 1, b' ');
    line.push(b'\n');
    line
}

#[cfg(unix)]
fn write_at(file: &mut File, bytes: &[u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

#[cfg(not(unix))]
fn write_at(file: &mut File, bytes: &[u8], offset: u64) -> io::Result<()> {
    use std::io::{Seek, SeekFrom};
    file.seek(SeekFrom::Start(offset))?;
    file.write_all(bytes)
}
