//! Commands whose ranks are processes. A process that a launcher has started is one of the ranks; any other one starts them.

mod exit_report;
mod launch;

use std::collections::BTreeSet;
use std::path::PathBuf;

use zipwire::Cancel;
use zipwire::engine::STUCK_AFTER;
use zipwire::mpi_job::{self, Attendance, Role};

use crate::cli::MpiArgs;
use crate::error::CliError;
use crate::table;

/// Ranks to start, and the folder that they write to.
pub(crate) struct Job {
    pub(crate) ranks: u32,
    /// Output folder of rank 0, if it has one.
    pub(crate) folder: Option<PathBuf>,
}

/// Runs a command with as many processes as `job` says. On rank 0 of a job this process runs `command`; other ranks follow rank 0; a process
/// that is no rank starts them all, and reports how they ended.
pub(crate) fn with_ranks(
    arguments: &MpiArgs,
    job: impl FnOnce() -> Result<Job, CliError>,
    cancel: &Cancel,
    command: impl FnOnce() -> Result<(), CliError>,
) -> Result<(), CliError> {
    if !mpi_job::is_launched() {
        return launch::launch(arguments.launcher.as_deref(), &job()?, cancel);
    }
    if arguments.launcher.is_some() {
        let why = "this process was started by a launcher already";
        return Err(CliError::Usage(format!("`--launcher` has no effect: {why}")));
    }
    // What has failed is to be said by rank 0, and others wait for that: no signal of a launcher ends a rank at once. For good, as a process is
    // a rank until it ends.
    std::mem::forget(cancel.hold());
    match mpi_job::join(arguments.stall.unwrap_or(STUCK_AFTER), cancel)? {
        Role::Other => Ok(()),
        Role::First => {
            let result = command();
            if let Err(error) = &result {
                // Others end when this process says so, and what starts them may end this process then.
                error.say();
            }
            if let Some(attendance) = mpi_job::attendance().filter(|_| result.is_ok()) {
                say!("{}", line(&attendance));
            }
            let code = result.as_ref().map_or_else(CliError::exit_code, |()| 0);
            let finished = mpi_job::finish(code);
            result.map_err(|error| CliError::Said(error.exit_code()))?;
            Ok(finished?)
        }
    }
}

/// Line on the processes, hosts and library of the job, and how well clocks agree.
fn line(attendance: &Attendance) -> String {
    let Attendance { members, library, aligned_s } = attendance;
    let hosts = members.iter().map(|member| &member.host).collect::<BTreeSet<_>>().len();
    let levels: BTreeSet<&str> = members.iter().map(|member| member.simd.as_str()).collect();
    // Libraries say much of themselves: the name and version come first.
    let version = library.lines().next().unwrap_or_default().split(',').next().unwrap_or_default();
    let version: Vec<&str> = version.split_whitespace().collect();
    let mut line = format!(
        "{} processes on {hosts} host{}, over {}",
        members.len(),
        if hosts == 1 { "" } else { "s" },
        version.join(" ")
    );
    if let Some(aligned_s) = aligned_s {
        line.push_str(&format!("; clocks aligned within {}", table::seconds(*aligned_s)));
    }
    if levels.len() > 1 {
        let of = |level: &&str| {
            let count = members.iter().filter(|member| member.simd == *level).count();
            format!("{level} in {count}")
        };
        let counts: Vec<String> = levels.iter().map(of).collect();
        line.push_str(&format!("; codecs use {}", counts.join(", ")));
    }
    line
}
