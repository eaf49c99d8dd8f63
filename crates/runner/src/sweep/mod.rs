//! Runs all points of a sweep: several at the same time where they are simulated, one after the other on real ranks. The row of a
//! point is in a journal as soon as it has ended, so a sweep can be interrupted and goes on later.
//!
//! `zipwire-scenarios` lists the points, and [`compare`](crate::compare) runs one of them. The files are the same, byte for byte,
//! whatever the number of threads and interruptions.

mod journal;
mod point;
mod report;
#[cfg(test)]
mod tests;

pub use journal::JournalError;
pub use report::{FailedRun, Run, SweepRow};

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rayon::prelude::*;
use zipwire_scenarios::{ScenarioError, Sweep};

use crate::storage::System;
use crate::{Cancel, ExecuteError, Executor, Output, OutputError, Shared};
use journal::{Found, Header, Journal};
use point::{Admission, Points, Stop};
use report::{Rows, SweepSummary};

/// All that a sweep depends on, and where it goes.
#[derive(Debug)]
pub struct SweepSetup<'a> {
    /// The scenario.
    pub sweep: &'a Sweep,
    /// Executors, each once, at least one.
    pub executors: &'a [&'static dyn Executor],
    /// Only these variants; all if empty.
    pub variants: &'a [String],
    /// Points at the same time, at least 1.
    pub jobs: usize,
    /// The output folder.
    pub folder: &'a Path,
    /// Whether to write the timelines of every point, to `points/<point>` in the output folder, from 1.
    pub timelines: bool,
    /// Whether to say what simulated variants are bound by, and what of a speedup is compression.
    pub explains: bool,
    /// Whether to start anew where an interrupted sweep could go on.
    pub fresh: bool,
    /// Bytes of memory that all points at the same time may take; by default what the system could give.
    pub memory: Option<u64>,
    /// Whether executors that move bytes compare what they receive with what was sent.
    pub verifies: bool,
    /// Whether ranks that are alike may be planned and simulated once; only where nothing but the simulator runs.
    pub folds: bool,
    /// How many rows the report has.
    pub shown: usize,
}

/// Result of a sweep that has ended. Its files are in the output folder.
#[derive(Debug)]
pub struct SweepReport {
    /// The first rows, as many as were asked for.
    pub rows: Vec<SweepRow>,
    /// All points.
    pub points: usize,
    /// Points of which a run failed.
    pub failed: usize,
}

/// A sweep ended without its files. Points that fail are no such error: they are in the files.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "fields are named by the messages")]
#[non_exhaustive]
pub enum SweepError {
    /// A point is not a valid scenario.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    #[error("{0}\nat the first point of the sweep")]
    First(ExecuteError),
    /// The journal cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A file cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
    #[error("{}", stopped(*.done, *.of, .journal))]
    Stopped {
        /// Points that have ended.
        done: usize,
        /// All points.
        of: usize,
        /// File of the points that have ended, if any has.
        journal: PathBuf,
    },
}

fn stopped(done: usize, of: usize, journal: &Path) -> String {
    if done == 0 {
        return "stopped before a point had ended".to_owned();
    }
    let journal = journal.display();
    format!("stopped: {done} of {of} points are in `{journal}`\nhelp: the same command goes on from there")
}

/// Progress of a sweep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SweepEvent<'a> {
    /// All points are valid, and the journal is open.
    Begun {
        /// Points that had ended before.
        done: usize,
        /// Whether a half-written line was dropped.
        dropped: bool,
        /// Lines that are not as they were written: their points are run again.
        damaged: usize,
    },
    /// A point had ended before, and is in the journal.
    Found(&'a SweepRow),
    /// A point has ended, and is in the journal.
    Ended(&'a SweepRow),
}

/// Runs the points that are not in the journal yet, and writes `sweep.csv` and `summary.json` when all have ended. `observe` is
/// called from several threads.
///
/// # Errors
/// If a point is not valid, before any has run; if a file cannot be used; or if the user stops it: the journal then has what
/// was done.
pub fn run(
    setup: &SweepSetup<'_>,
    cancel: &Cancel,
    observe: &(dyn Fn(SweepEvent<'_>) + Sync),
) -> Result<SweepReport, SweepError> {
    let path = setup.folder.join(journal::NAME);
    let count = setup.sweep.point_count();
    let stopped = |done| SweepError::Stopped { done, of: count, journal: path.clone() };
    check(setup.sweep, cancel)?;
    let shared = Shared::with_memory(setup.memory).verifying(setup.verifies).among(setup.jobs);
    let shared = Arc::new(shared.folding(setup.folds));
    let admission = Admission::new(shared.memory.bytes());
    let points = Points { setup, shared, admission };
    points.check_first(cancel).map_err(|error| match error {
        ExecuteError::Cancelled => stopped(0),
        error => SweepError::First(error),
    })?;

    let base = setup.sweep.base()?;
    let _hold = cancel.hold();
    let mut output = Output::create(setup.folder)?;
    let header = Header::of(setup, &base.name);
    let (journal, found) = Journal::open(&System, setup.folder, &header, setup.sweep, setup.fresh)?;
    let Found { dropped, damaged } = found;
    observe(SweepEvent::Begun { done: journal.done(), dropped, damaged });
    let open = journal.open_points();
    for point in (0..count).filter(|point| open.binary_search(point).is_err()) {
        observe(SweepEvent::Found(&journal.read(point)?));
    }
    let worked = work(&points, &journal, cancel, observe);
    let done = journal.done();
    if done == 0 {
        journal.remove()?;
        worked?;
        return Err(stopped(done));
    }
    if worked.is_err() || done < count {
        journal.sync()?;
    }
    worked?;
    if done < count {
        return Err(stopped(done));
    }

    let rows = || Rows { journal: &journal, count };
    let summary = SweepSummary {
        scenario: &base.name,
        seed: base.seed,
        version: env!("CARGO_PKG_VERSION"),
        rows: rows(),
    };
    crate::write_record(&mut output, &base)?;
    output.write("sweep.csv", |out| rows().write_csv(setup.sweep.paths(), out))?;
    output.write("summary.json", |out| summary.write(out))?;
    let report = report(&journal, count, setup.shown)?;
    if cancel.is_cancelled() {
        return Err(stopped(done));
    }
    output.commit()?;
    journal.remove()?;
    Ok(report)
}

/// Whether all points are valid scenarios, on all cores.
///
/// # Errors
/// The first point that is not, or that the user stopped it.
pub fn check(sweep: &Sweep, cancel: &Cancel) -> Result<(), SweepError> {
    let _span = tracing::info_span!("check points").entered();
    let wrong = (0..sweep.point_count()).into_par_iter().find_map_first(|point| {
        if cancel.is_cancelled() {
            return Some(SweepError::Stopped { done: 0, of: sweep.point_count(), journal: PathBuf::new() });
        }
        sweep.check(point).err().map(SweepError::Scenario)
    });
    wrong.map_or(Ok(()), Err)
}

/// Runs open points on `jobs` threads, until none is left, the user stops it, or an error stops all.
///
/// These are threads of their own, not those of rayon's pool: a point may wait for frame lengths that another one measures on
/// that pool, and a thread of the pool that waits there could be the one that has to measure.
fn work(
    points: &Points<'_>,
    journal: &Journal<'_>,
    cancel: &Cancel,
    observe: &(dyn Fn(SweepEvent<'_>) + Sync),
) -> Result<(), SweepError> {
    let open = journal.open_points();
    let next = AtomicUsize::new(0);
    let broken: Mutex<Option<SweepError>> = Mutex::new(None);
    let is_broken = || broken.lock().unwrap_or_else(PoisonError::into_inner).is_some();
    let worker = || {
        while !cancel.is_cancelled() && !is_broken() {
            let Some(&point) = open.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
            let ended = points.run(point, cancel).and_then(|row| {
                journal.append(point, &row).map_err(|error| Stop::Broken(error.into()))?;
                Ok(row)
            });
            match ended {
                Ok(row) => observe(SweepEvent::Ended(&row)),
                Err(Stop::Cancelled) => return,
                Err(Stop::Broken(error)) => {
                    broken.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        // This thread is one of them: where the system refuses others, there are fewer.
        for _ in 1..points.setup.jobs.min(open.len()) {
            if std::thread::Builder::new().spawn_scoped(scope, worker).is_err() {
                break;
            }
        }
        worker();
    });
    broken.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

/// The first rows, and the count of what failed.
fn report(journal: &Journal<'_>, count: usize, shown: usize) -> Result<SweepReport, SweepError> {
    let mut report = SweepReport { rows: Vec::new(), points: count, failed: 0 };
    for point in 0..count {
        let row = journal.read(point)?;
        report.failed += usize::from(!row.failed.is_empty());
        if point < shown {
            report.rows.push(row);
        }
    }
    Ok(report)
}
