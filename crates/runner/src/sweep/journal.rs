//! The journal of a sweep: a line for every point that has ended, so that a sweep that is interrupted goes on where it was.
//!
//! The first line says which sweep it is; then come the points, in the order in which they ended. It is the only place where rows
//! are kept: reports read them from here. So no line is believed: each has a checksum and says which point of which sweep it is of
//! ([`line`](super::line)). What a killed process left half-written at the end is dropped; a line that is damaged counts for nothing, and its
//! point is run again.
//!
//! Lines are synced once a second at the most, and when the sweep stops: a power failure costs the points since then, and no more.

use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use zipwire_scenarios::Sweep;

use super::line::{Identities, Line};
use super::{Row, Setup};
use crate::storage::{Storage, StoredFile};

/// Name of the file in the output folder.
pub(crate) const NAME: &str = "sweep.partial.jsonl";

/// Version of the format.
const FORMAT: u32 = 2;
/// Lines are on the device after this time, if others follow.
const SYNCED_AFTER: Duration = Duration::from_secs(1);

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
    /// Whether rows say what explains them.
    pub(crate) explains: bool,
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
    /// A line is not what was written.
    #[error("`{}` was damaged while it was read: point {point}\nhelp: the same command runs that point again", path.display())]
    Damaged {
        /// The journal.
        path: PathBuf,
        /// The point, from 1.
        point: usize,
    },
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
pub(crate) struct Journal<'a> {
    storage: &'a dyn Storage,
    path: PathBuf,
    identities: Identities<'a>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    file: Box<dyn StoredFile>,
    /// Begin and length of the line of each point that has ended.
    lines: Vec<Option<(u64, usize)>>,
    done: usize,
    synced: Instant,
}

/// What was found in a journal that was there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Whether a half-written line at its end was dropped.
    pub(crate) dropped: bool,
    /// Lines that are not what was written, and count for nothing.
    pub(crate) damaged: usize,
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
            explains: setup.explains,
        }
    }

    /// The first line. It has no checksum: all of it is compared with what it should be.
    fn to_line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).expect("headers have string keys only");
        line.push(b'\n');
        line
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
            ("`--no-verdict`", self.explains == other.explains),
            ("the scenario, or a file that it names,", self == other),
        ];
        parts.into_iter().find(|(_, is_same)| !is_same).map(|(what, _)| what)
    }
}

impl<'a> Journal<'a> {
    /// Opens the journal in `folder`, which nobody else writes to, or begins one. With `fresh`, what was there is dropped.
    pub(crate) fn open(
        storage: &'a dyn Storage,
        folder: &Path,
        header: &Header,
        sweep: &'a Sweep,
        fresh: bool,
    ) -> Result<(Self, Found), JournalError> {
        let path = folder.join(NAME);
        let failed = |source| JournalError::Io { path: path.clone(), source };
        let mut file = storage.append(&path).map_err(failed)?;
        if fresh {
            file.set_len(0).map_err(failed)?;
        }
        let identities = Identities::new(sweep, &header.digest);
        let mut found = Found::default();
        let mut lines = vec![None; header.points];
        let length = file.len().map_err(failed)?;
        let mut text = BufReader::new(&mut *file);
        let mut line = Vec::new();
        let mut end = next_line(&mut text, &mut line).map_err(failed)? as u64;
        if end == 0 {
            // Nothing, or a header that was not written to its end.
            let mut begin = || {
                file.set_len(0)?;
                file.write_all(&header.to_line())?;
                file.sync()?;
                storage.sync_folder(folder)
            };
            begin().map_err(failed)?;
        } else {
            let Ok(other) = serde_json::from_slice::<Header>(&line) else {
                return Err(JournalError::NotJournal(path));
            };
            let differs = other.difference(header);
            let mut others = 0;
            loop {
                let bytes = next_line(&mut text, &mut line).map_err(failed)?;
                if bytes == 0 {
                    break;
                }
                others += 1;
                // Points of another sweep cannot be looked up in this one.
                if differs.is_none() {
                    match identities.check(&line).filter(|point| *point < lines.len()) {
                        Some(point) => lines[point] = Some((end, bytes)),
                        None => found.damaged += 1,
                    }
                }
                end += bytes as u64;
            }
            if let Some(differs) = differs {
                return Err(JournalError::Other { path, done: others, differs });
            }
            found.dropped = end < length;
            if found.dropped {
                file.set_len(end).map_err(failed)?;
            }
        }
        let done = lines.iter().flatten().count();
        let state = Mutex::new(State { file, lines, done, synced: Instant::now() });
        Ok((Self { storage, path, identities, state }, found))
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
        let line = Line { point, identity: self.identities.of(point), row }.to_bytes();
        let mut state = self.state();
        let added = state.file.seek(SeekFrom::End(0)).and_then(|begin| {
            state.file.write_all(&line)?;
            if state.synced.elapsed() >= SYNCED_AFTER {
                state.file.sync()?;
                state.synced = Instant::now();
            }
            Ok(begin)
        });
        let begin = added.map_err(|source| self.failed(source))?;
        if state.lines[point].replace((begin, line.len())).is_none() {
            state.done += 1;
        }
        Ok(())
    }

    /// Returns when all lines are on the device.
    pub(crate) fn sync(&self) -> Result<(), JournalError> {
        self.state().file.sync().map_err(|source| self.failed(source))
    }

    /// What a point that has ended came to.
    pub(crate) fn read(&self, point: usize) -> Result<Row, JournalError> {
        let mut state = self.state();
        let (begin, len) = state.lines[point].expect("only points that have ended are read");
        let mut line = vec![0; len];
        let read = state.file.seek(SeekFrom::Start(begin)).and_then(|_| state.file.read_exact(&mut line));
        drop(state);
        read.map_err(|source| self.failed(source))?;
        let row = self.identities.parse(&line).filter(|line| line.point == point).map(|line| line.row);
        row.ok_or_else(|| JournalError::Damaged { path: self.path.clone(), point: point + 1 })
    }

    /// Removes the file: what it held is elsewhere now, or is nothing.
    pub(crate) fn remove(self) -> Result<(), JournalError> {
        self.storage.remove_file(&self.path).map_err(|source| self.failed(source))
    }

    fn failed(&self, source: io::Error) -> JournalError {
        JournalError::Io { path: self.path.clone(), source }
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
