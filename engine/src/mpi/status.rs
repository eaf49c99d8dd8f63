//! Status files: each process writes into one what it is doing, for the process that has started it and reports when it is gone.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Environment variable that names the folder of status files.
pub const STATUS_VARIABLE: &str = "ZIPWIRE_STATUS";

/// Name of the pipe that a rank holds open while it is there, in that folder, if the process that has started it watches.
pub fn alive_file(rank: u32) -> String {
    format!("rank-{rank}.alive")
}

/// Name of the file of a rank's status, in that folder.
pub(super) fn status_file(rank: u32) -> String {
    format!("rank-{rank}.status")
}

/// Bytes of each of the two lines of a file, with the line break: the place of the second one never depends on the first.
const LINE: usize = 256;

/// Status of a process that is connected with all others.
pub(super) const BEGUN: &str = "has begun";
/// First words of the status of a process that has done and said all.
const ENDED: &str = "is done";
/// First words of the status of a process that has itself given up a run.
pub(super) const FAILED: &str = "has failed";
/// First words of the status of a process that was well, and let its run go because the launcher or another rank said so.
pub(super) const TOLD: &str = "was told to end";

/// A file with two lines: the process and its host, and what it is doing.
#[derive(Debug)]
pub(super) struct StatusFile {
    rank: u32,
    file: File,
    doing: String,
    /// Held open for as long as the process is there.
    _alive: Option<File>,
}

/// Content of a status file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The rank.
    pub rank: u32,
    /// Number of its process, on its host.
    pub process: u32,
    /// The host.
    pub host: String,
    /// Its last activity, in words that follow its name.
    pub doing: String,
}

/// Outcome of a process's run, as far as its status says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was at work.
    Unknown,
    /// It has itself given up the run.
    Failed,
    /// It was well, and let the run go because the launcher or another rank said so.
    ToldToEnd,
    /// It has done and said all; rank 0 with this exit code.
    Done(Option<u8>),
}

impl Status {
    /// The outcome that the first words of [`doing`](Self::doing) say.
    pub fn outcome(&self) -> Outcome {
        if let Some(rest) = self.doing.strip_prefix(ENDED) {
            Outcome::Done(rest.strip_prefix(" with ").and_then(|code| code.parse().ok()))
        } else if self.doing.starts_with(FAILED) {
            Outcome::Failed
        } else if self.doing.starts_with(TOLD) {
            Outcome::ToldToEnd
        } else {
            Outcome::Unknown
        }
    }
}

impl StatusFile {
    /// The file of a rank, in the folder that the environment names; `None` if it names none, or the folder is not there, as on other
    /// hosts than the one where the job was started.
    pub(super) fn from_environment(rank: u32, host: &str) -> Option<Self> {
        Self::create(&folder()?, rank, host)
    }

    /// The file of the rank that MPI says this process is in a job of so many. Variables of launchers, by which it had an earlier one, can be left over
    /// from another job, in which case processes may share that.
    pub(super) fn of_rank(early: Option<&Self>, rank: u32, ranks: u32, host: &str) -> Option<Self> {
        Self::create_in_place_of(early, &folder()?, rank, ranks, host)
    }

    fn create_in_place_of(
        early: Option<&Self>,
        folder: &Path,
        rank: u32,
        ranks: u32,
        host: &str,
    ) -> Option<Self> {
        // That of another rank is replaced by that rank.
        if let Some(early) = early.filter(|early| early.rank >= ranks) {
            let _ = std::fs::remove_file(folder.join(status_file(early.rank)));
        }
        Self::create(folder, rank, host)
    }

    /// Makes the file anew: whoever has an older one of this name open writes to that.
    fn create(folder: &Path, rank: u32, host: &str) -> Option<Self> {
        let alive = match OpenOptions::new().write(true).open(folder.join(alive_file(rank))) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            opened => Some(opened.ok()?),
        };
        let path = folder.join(status_file(rank));
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return None,
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(path).ok()?;
        file.write_all(&line(&format!("{} {host}", std::process::id()))).ok()?;
        let mut status = Self { rank, file, doing: String::new(), _alive: alive };
        status.write(BEGUN);
        Some(status)
    }

    /// Says that the process has done and said all; `code` is rank 0's exit code.
    pub(super) fn end(&mut self, code: Option<u8>) {
        self.write(&code.map_or_else(|| ENDED.to_owned(), |code| format!("{ENDED} with {code}")));
    }

    /// Replaces the second line. Errors are ignored: nothing depends on the file but a message.
    pub(super) fn write(&mut self, doing: &str) {
        if self.doing != doing {
            self.doing.clear();
            self.doing.push_str(doing);
            let _ = write_at(&mut self.file, &line(doing), LINE as u64);
        }
    }
}

/// The folder that the environment names.
fn folder() -> Option<PathBuf> {
    std::env::var_os(STATUS_VARIABLE).map(PathBuf::from)
}

/// Status files in a folder, by rank.
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
    let (process, doing) = (process.parse().ok()?, doing.trim_end().to_owned());
    Some(Status { rank, process, host: host.to_owned(), doing })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_process_writes_to_the_file_of_its_own_rank_whatever_variables_say() {
        let folder = std::env::temp_dir().join(format!("zipwire-status-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let hosts = ["a", "b", "c"];
        // All say that they are rank 1, and one says that it is a rank that the job does not have.
        let early = [1, 1, 7].into_iter().zip(hosts);
        let early: Vec<_> = early.map(|(rank, host)| StatusFile::create(&folder, rank, host)).collect();
        let mut settled: Vec<_> = (0..)
            .zip(early.into_iter().zip(hosts))
            .map(|(rank, (early, host))| {
                assert!(early.is_some());
                StatusFile::create_in_place_of(early.as_ref(), &folder, rank, 3, host).unwrap()
            })
            .collect();
        settled[1].write("waits");
        let found = read_statuses(&folder).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        let found: Vec<_> =
            found.iter().map(|status| (status.rank, status.host.as_str(), status.doing.as_str())).collect();
        assert_eq!(found, [(0, "a", BEGUN), (1, "b", "waits"), (2, "c", BEGUN)]);
    }
}
