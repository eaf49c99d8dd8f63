//! The journal of a sweep: a line for every point that has ended, so that a sweep that is interrupted goes on where it was.
//!
//! The first line says which sweep it is; then come the points, in the order in which they ended. What a killed process
//! left half-written at the end is dropped. It is the only place where rows are kept: reports read them from here.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use zipwire_scenarios::Sweep;

use super::{Row, Setup};

/// Name of the file in the output folder.
pub(crate) const NAME: &str = "sweep.partial.jsonl";

/// Version of the format.
const FORMAT: u32 = 1;

/// Which sweep a journal is of: all that its rows depend on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Header {
    sweep_journal: u32,
    /// Version of the program.
    pub(crate) version: String,
    pub(crate) scenario: String,
    /// Of the scenario and the files that it names.
    pub(crate) digest: String,
    pub(crate) points: usize,
    pub(crate) executors: Vec<String>,
    /// Those asked for; all if empty.
    pub(crate) variants: Vec<String>,
    /// Whether the timelines of points are written.
    pub(crate) timelines: bool,
}

/// A line of the file.
#[derive(Serialize, Deserialize)]
struct Line<R> {
    /// From 0.
    point: usize,
    row: R,
}

/// Why there is no journal.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// It is of a sweep with other results.
    #[error(
        "`{}` has {done} points of another sweep: {differs} is another one\n\
         help: `--fresh` drops them and starts anew; `--out` writes to another folder",
        path.display()
    )]
    Other {
        /// The journal.
        path: PathBuf,
        /// Points that it has.
        done: usize,
        /// In what the sweeps differ.
        differs: &'static str,
    },
    /// It is something else.
    #[error("`{}` is no journal of a sweep\nhelp: `--fresh` writes over it; `--out` writes to another folder", .0.display())]
    NotJournal(PathBuf),
    /// Another process has it open.
    #[error("another process runs a sweep in this folder: it has `{}` open\nhelp: `--out` writes to another folder", .0.display())]
    Busy(PathBuf),
    /// The system does not let it be read or written.
    #[error("cannot use the journal `{}`: {source}", path.display())]
    Io {
        /// The journal.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
}

/// An open journal; shared by the threads that run points.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    file: File,
    /// Begin and length of the line of each point that has ended.
    lines: Vec<Option<(u64, usize)>>,
    done: usize,
}

impl Header {
    /// That of a sweep of which all points were checked.
    pub(crate) fn of(setup: &Setup<'_>, scenario: &str) -> Self {
        Self {
            sweep_journal: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            scenario: scenario.to_owned(),
            digest: setup.sweep.digest(),
            points: setup.sweep.point_count(),
            executors: setup.executors.iter().map(|executor| executor.name().to_owned()).collect(),
            variants: setup.variants.to_vec(),
            timelines: setup.timelines,
        }
    }

    /// In what two sweeps differ.
    fn difference(&self, other: &Self) -> Option<&'static str> {
        let parts = [
            (
                "the version of the program",
                (&self.sweep_journal, &self.version) == (&other.sweep_journal, &other.version),
            ),
            ("the list of executors", self.executors == other.executors),
            ("the list of variants", self.variants == other.variants),
            ("`--timelines`", self.timelines == other.timelines),
            ("the scenario, or a file that it names,", self == other),
        ];
        parts.into_iter().find(|(_, is_same)| !is_same).map(|(what, _)| what)
    }
}

impl Journal {
    /// Opens the journal in `folder`, or begins one. Also says whether a half-written line was dropped. With `fresh`, what was
    /// there is dropped.
    pub(crate) fn open(folder: &Path, header: &Header, fresh: bool) -> Result<(Self, bool), JournalError> {
        let path = folder.join(NAME);
        let failed = |source| JournalError::Io { path: path.clone(), source };
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(JournalError::Busy(path)),
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        if fresh {
            file.set_len(0).map_err(failed)?;
        }
        let mut text = BufReader::new(&file);
        let mut line = Vec::new();
        let mut end = next_line(&mut text, &mut line).map_err(failed)? as u64;
        let mut lines = vec![None; header.points];
        let mut done = 0;
        let mut dropped = false;
        if end == 0 {
            // Nothing, or a header that was not written to its end.
            file.set_len(0).map_err(failed)?;
            file.write_all(&json_line(header)).map_err(failed)?;
        } else {
            let Ok(found) = serde_json::from_slice::<Header>(&line) else {
                return Err(JournalError::NotJournal(path));
            };
            let differs = found.difference(header);
            let mut is_seen = vec![None; found.points.min(Sweep::MOST_POINTS).max(header.points)];
            let length = file.metadata().map_err(failed)?.len();
            loop {
                let bytes = next_line(&mut text, &mut line).map_err(failed)?;
                let read = serde_json::from_slice::<Line<Row>>(&line).ok().filter(|_| bytes > 0);
                let Some(Line { point, .. }) = read.filter(|line| line.point < is_seen.len()) else { break };
                if is_seen[point].replace((end, bytes)).is_none() {
                    done += 1;
                }
                end += bytes as u64;
            }
            if let Some(differs) = differs {
                return Err(JournalError::Other { path, done, differs });
            }
            lines = is_seen;
            dropped = end < length;
            if dropped {
                file.set_len(end).map_err(failed)?;
            }
        }
        let state = State { file, lines, done };
        Ok((Self { path, state: Mutex::new(state) }, dropped))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Points that have ended.
    pub(crate) fn done(&self) -> usize {
        self.state().done
    }

    /// Points that have not, in order.
    pub(crate) fn open_points(&self) -> Vec<usize> {
        let state = self.state();
        (0..state.lines.len()).filter(|&point| state.lines[point].is_none()).collect()
    }

    /// Adds what a point came to.
    pub(crate) fn append(&self, point: usize, row: &Row) -> Result<(), JournalError> {
        let line = json_line(&Line { point, row });
        let mut state = self.state();
        let added = state.file.seek(SeekFrom::End(0)).and_then(|begin| {
            state.file.write_all(&line)?;
            Ok(begin)
        });
        let begin = added.map_err(|source| JournalError::Io { path: self.path.clone(), source })?;
        if state.lines[point].replace((begin, line.len())).is_none() {
            state.done += 1;
        }
        Ok(())
    }

    /// What a point that has ended came to.
    pub(crate) fn read(&self, point: usize) -> io::Result<Row> {
        let mut state = self.state();
        let (begin, len) = state.lines[point].expect("only points that have ended are read");
        let mut line = vec![0; len];
        state.file.seek(SeekFrom::Start(begin))?;
        state.file.read_exact(&mut line)?;
        Ok(serde_json::from_slice::<Line<Row>>(&line)?.row)
    }

    /// Removes the file: what it held is elsewhere now, or is nothing.
    pub(crate) fn remove(self) -> Result<(), JournalError> {
        std::fs::remove_file(&self.path).map_err(|source| JournalError::Io { path: self.path, source })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it holds the lock but a read of a point that has not ended.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The next line with its break, and its length; 0 if there is no whole line left.
fn next_line(text: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<usize> {
    line.clear();
    let bytes = text.read_until(b'\n', line)?;
    Ok(if line.ends_with(b"\n") { bytes } else { 0 })
}

fn json_line(value: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(value).expect("rows and headers have string keys only");
    line.push(b'\n');
    line
}
