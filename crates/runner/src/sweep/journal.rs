//! The journal of a sweep: a line for every point that has ended, so that a sweep that is interrupted goes on where it was.
//!
//! The first line says which sweep it is; then come the points, in the order in which they ended:
//! `{"xxh3":"<32 hexadecimal digits>","line":{"point":0,"identity":"...","row":{...}}}`. It is the only place where rows are kept: reports
//! read them from here. So no line is believed: the checksum covers the bytes of `line`, which says of which point of which sweep it is. A
//! half-written line at the end is dropped; a line that is damaged counts for nothing, and its point is run again.
//!
//! Lines are synced once a second at the most, and when the sweep stops: a power failure costs the points since then, and no more.

use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;
use zipwire_scenarios::Sweep;

use super::{SweepRow, SweepSetup};
use crate::storage::{Entry, Open, Storage, StoredFile};

/// Name of the file in the output folder.
pub(crate) const NAME: &str = "sweep.partial.jsonl";

/// How the first line begins.
const BEGIN: &[u8] = b"{\"sweep_journal\":";
/// Version of the format.
const FORMAT: u32 = 3;
/// Time after which lines are on the device, if others follow.
const SYNCED_AFTER: Duration = Duration::from_secs(1);
/// Text before the checksum, between it and `line`, and behind that.
const BEFORE: &[u8] = b"{\"xxh3\":\"";
const BETWEEN: &[u8] = b"\",\"line\":";
const BEHIND: &[u8] = b"}\n";
const DIGITS: usize = 32;

/// The first line: everything that the rows of a sweep depend on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Header {
    sweep_journal: u32,
    version: String,
    scenario: String,
    /// Hash of the scenario and the files that it names.
    pub(crate) digest: String,
    points: usize,
    executors: Vec<String>,
    /// The variants that were asked for; all if empty.
    variants: Vec<String>,
    /// Whether the timelines of points are written.
    timelines: bool,
    /// Whether rows say what explains them.
    explains: bool,
    /// Whether ranks that are alike are simulated once.
    #[serde(default)]
    folds: bool,
}

/// The content of a line of a point.
#[derive(Serialize, Deserialize)]
pub(super) struct Line<R> {
    /// From 0.
    pub(super) point: usize,
    /// Hash of the sweep, the point's number, and the values that it sets.
    pub(super) identity: String,
    pub(super) row: R,
}

/// A journal cannot be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "fields are named by the messages")]
#[non_exhaustive]
pub enum JournalError {
    #[error(
        "`{}` has {done} points of another sweep: {differs} is another one\n\
         help: `--fresh` drops them and starts anew; `--out` writes to another folder",
        path.display()
    )]
    Other { path: PathBuf, done: usize, differs: &'static str },
    #[error("`{}` is no journal of a sweep\nhelp: move it away, or choose another folder with `--out`", .0.display())]
    NotJournal(PathBuf),
    #[error("the first line of `{}` is damaged\nhelp: `--fresh` begins anew; `--out` writes to another folder", .0.display())]
    Header(PathBuf),
    /// A line changed after it was checked. Points count from 1.
    #[error("`{}` was damaged while it was read: point {point}\nhelp: the same command runs that point again", path.display())]
    Damaged { path: PathBuf, point: usize },
    #[error("cannot use the journal `{}`: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// An open journal; shared by the threads that run points.
#[derive(Debug)]
pub(crate) struct Journal<'a> {
    storage: &'a dyn Storage,
    path: PathBuf,
    sweep: &'a Sweep,
    digest: String,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    file: Box<dyn StoredFile>,
    /// Offset and length of the line of each point that has ended.
    lines: Vec<Option<(u64, usize)>>,
    done: usize,
    synced: Instant,
}

/// Damage that was found in a journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Whether a half-written last line was dropped.
    pub(crate) dropped: bool,
    /// Lines that are not as they were written, and count for nothing.
    pub(crate) damaged: usize,
}

impl Header {
    /// The header of a sweep whose points were all checked.
    pub(crate) fn of(setup: &SweepSetup<'_>, scenario: &str) -> Self {
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
            folds: setup.folds,
        }
    }

    /// The first line. It has no checksum: all of it is compared with what it should be.
    fn to_line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).expect("headers have string keys only");
        line.push(b'\n');
        line
    }

    /// First part in which two sweeps differ.
    fn difference(&self, other: &Self) -> Option<&'static str> {
        let parts = [
            (
                "the version of the program",
                (&self.sweep_journal, &self.version) == (&other.sweep_journal, &other.version),
            ),
            ("the list of executors", self.executors == other.executors),
            ("the list of variants", self.variants == other.variants),
            ("`--timelines`", self.timelines == other.timelines),
            ("`--unfolded`", self.folds == other.folds),
            ("`--no-verdict`", self.explains == other.explains),
            ("the scenario, or a file that it names,", self == other),
        ];
        parts.into_iter().find(|(_, is_same)| !is_same).map(|(what, _)| what)
    }
}

impl<'a> Journal<'a> {
    /// Opens or begins the journal in `folder`, which this process has locked. With `fresh`, the old one is dropped.
    pub(crate) fn open(
        storage: &'a dyn Storage,
        folder: &Path,
        header: &Header,
        sweep: &'a Sweep,
        fresh: bool,
    ) -> Result<(Self, Found), JournalError> {
        let path = folder.join(NAME);
        let failed = |source| JournalError::Io { path: path.clone(), source };
        if !matches!(storage.entry(&path).map_err(failed)?, None | Some(Entry::File(_))) {
            return Err(failed(io::Error::other("it is no file")));
        }
        let mut file = storage.open(&path, Open::Append).map_err(failed)?;
        if !begins_as_journal(&mut *file).map_err(failed)? {
            return Err(JournalError::NotJournal(path));
        }
        if fresh {
            file.set_len(0).map_err(failed)?;
        }
        let mut text = BufReader::new(&mut *file);
        let mut line = Vec::new();
        let mut end = next_line(&mut text, &mut line).map_err(failed)? as u64;
        let (mut found, mut lines) = (Found::default(), vec![None; header.points]);
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
            let damaged = |_| JournalError::Header(path.clone());
            let other: Header = serde_json::from_slice(&line).map_err(damaged)?;
            let differs = other.difference(header);
            let mut all = 0;
            loop {
                let bytes = next_line(&mut text, &mut line).map_err(failed)?;
                if bytes == 0 {
                    break;
                }
                all += 1;
                // Points of another sweep cannot be looked up in this one.
                match parse(sweep, &header.digest, &line).filter(|_| differs.is_none()) {
                    Some(line) => lines[line.point] = Some((end, bytes)),
                    None => found.damaged += 1,
                }
                end += bytes as u64;
            }
            if let Some(differs) = differs {
                return Err(JournalError::Other { path, done: all, differs });
            }
            found.dropped = !line.is_empty();
            if found.dropped {
                file.set_len(end).map_err(failed)?;
            }
        }
        let done = lines.iter().flatten().count();
        let state = Mutex::new(State { file, lines, done, synced: Instant::now() });
        Ok((Self { storage, path, sweep, digest: header.digest.clone(), state }, found))
    }

    pub(crate) fn done(&self) -> usize {
        self.state().done
    }

    /// Points that have not ended, in order.
    pub(crate) fn open_points(&self) -> Vec<usize> {
        let state = self.state();
        (0..state.lines.len()).filter(|&point| state.lines[point].is_none()).collect()
    }

    /// Adds the row of a point.
    pub(crate) fn append(&self, point: usize, row: &SweepRow) -> Result<(), JournalError> {
        let line = Line { point, identity: identity(self.sweep, &self.digest, point), row }.to_bytes();
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

    /// The row of a point that has ended.
    pub(crate) fn read(&self, point: usize) -> Result<SweepRow, JournalError> {
        let mut state = self.state();
        let (begin, len) = state.lines[point].expect("only points that have ended are read");
        let mut line = vec![0; len];
        let read = state.file.seek(SeekFrom::Start(begin)).and_then(|_| state.file.read_exact(&mut line));
        drop(state);
        read.map_err(|source| self.failed(source))?;
        let line = parse(self.sweep, &self.digest, &line).filter(|line| line.point == point);
        line.map(|line| line.row)
            .ok_or_else(|| JournalError::Damaged { path: self.path.clone(), point: point + 1 })
    }

    /// Removes the file, when its rows are in the result or there are none.
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

impl<R: Serialize> Line<R> {
    /// The line with its checksum and its break.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let body = serde_json::to_vec(self).expect("rows have string keys only");
        let sum = format!("{:032x}", xxh3_128(&body));
        [BEFORE, sum.as_bytes(), BETWEEN, &body, BEHIND].concat()
    }
}

/// Hash of a sweep, the number of a point, and the values that it sets.
pub(super) fn identity(sweep: &Sweep, digest: &str, point: usize) -> String {
    let values = serde_json::Value::Array(sweep.values(point));
    format!("{:032x}", xxh3_128(format!("{digest}\n{point}\n{values}").as_bytes()))
}

/// Parses a line with its break; `None` unless it is as it was written for a point of this sweep.
fn parse(sweep: &Sweep, digest: &str, line: &[u8]) -> Option<Line<SweepRow>> {
    let (sum, rest) = line.strip_prefix(BEFORE)?.split_at_checked(DIGITS)?;
    let body = rest.strip_prefix(BETWEEN)?.strip_suffix(BEHIND)?;
    if sum != format!("{:032x}", xxh3_128(body)).as_bytes() {
        return None;
    }
    let line: Line<SweepRow> = serde_json::from_slice(body).ok()?;
    if line.point >= sweep.point_count() || line.identity != identity(sweep, digest, line.point) {
        return None;
    }
    let expected = sweep.paths().zip(sweep.values(line.point));
    let set = line.row.set.iter().map(|(path, value)| (path.as_str(), value.clone()));
    set.eq(expected).then_some(line)
}

/// Whether a file begins as journals do, as far as it goes; it is at its beginning then.
fn begins_as_journal(file: &mut dyn StoredFile) -> io::Result<bool> {
    let mut begin = Vec::new();
    file.take(BEGIN.len() as u64).read_to_end(&mut begin)?;
    file.rewind()?;
    Ok(BEGIN.starts_with(&begin))
}

/// Longest line of a journal, in bytes: a row of many variants and ranks has less.
const LONGEST_LINE: u64 = 64 << 20;

/// Reads a line with its break, and gives its length; 0 if there is no whole line left, and then `line` is the rest.
fn next_line(text: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<usize> {
    line.clear();
    let bytes = text.take(LONGEST_LINE).read_until(b'\n', line)?;
    Ok(if line.ends_with(b"\n") { bytes } else { 0 })
}
