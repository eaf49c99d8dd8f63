//! Why a sweep has no result, or not all of it.

use std::path::PathBuf;

use zipwire_scenarios::ScenarioError;

use super::journal::JournalError;
use crate::{ExecuteError, OutputError};

/// Why a sweep ended without its files. Points that fail are no such reason: they are in the files.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SweepError {
    /// A point is not a valid scenario.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The first point cannot be run.
    #[error("{0}\nat the first point of the sweep")]
    First(ExecuteError),
    /// The journal cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A file cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The user asked to stop.
    #[error("{}", stopped(*.done, *.of, .journal))]
    Stopped {
        /// Points that have ended.
        done: usize,
        /// All points.
        of: usize,
        /// Where they are; nothing is there if none has ended.
        journal: PathBuf,
    },
}

fn stopped(done: usize, of: usize, journal: &std::path::Path) -> String {
    if done == 0 {
        return "stopped before a point had ended".to_owned();
    }
    let journal = journal.display();
    format!("stopped: {done} of {of} points are in `{journal}`\nhelp: the same command goes on from there")
}
