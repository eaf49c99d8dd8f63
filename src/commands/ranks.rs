//! Commands whose ranks are processes. A process that a launcher has started is one of the ranks; any other one starts them.

use std::collections::BTreeSet;

use zipwire::executors::Ranks;
use zipwire::launch::{self, Attendance, RanksToStart, Role, StartError, attended};
use zipwire::{Cancel, Executor};

use crate::cli::MpiArgs;
use crate::error::CliError;
use crate::table;

/// Runs a command whose ranks are those of `executors`. Where they are processes, there are as many as `job` says: on rank 0 of a job this process
/// runs `command`; other ranks follow rank 0; a process that is no rank starts them all, and reports how they ended.
pub(crate) fn with_ranks(
    executors: &[&dyn Executor],
    arguments: &MpiArgs,
    job: impl FnOnce() -> Result<RanksToStart, CliError>,
    cancel: &Cancel,
    command: impl FnOnce() -> Result<(), CliError>,
) -> Result<(), CliError> {
    let processes = executors.iter().find(|executor| executor.capabilities().ranks == Ranks::Processes);
    let Some(executor) = processes else { return command() };
    let failed = |error| CliError::of_job(*executor, error);
    if launch::launched().is_none() {
        let started = launch::start(arguments.launcher.as_deref(), &job()?, cancel);
        return started.map_err(|error| match error {
            StartError::Mpi(error) => failed(error.into()),
            error => error.into(),
        });
    }
    if arguments.launcher.is_some() {
        let why = "this process was started by a launcher already";
        return Err(CliError::Usage(format!("`--launcher` has no effect: {why}")));
    }
    // What has failed is to be said by rank 0, and others wait for that: no signal of a launcher ends a rank at once. For good, as a process is
    // a rank until it ends.
    std::mem::forget(cancel.hold());
    let needs_mpi = executors.iter().any(|executor| executor.capabilities().needs_mpi);
    match launch::join(arguments.stall, needs_mpi, cancel).map_err(failed)? {
        Role::Other => Ok(()),
        Role::First => {
            let result = command();
            if let Err(error) = &result {
                // Others end when this process says so, and what starts them may end this process then.
                error.say();
            }
            if let Some(attendance) = launch::attendance().filter(|_| result.is_ok()) {
                say!("{}", line(&attendance));
            }
            let code = result.as_ref().map_or_else(CliError::exit_code, |()| 0);
            let finished = launch::finish(code);
            result.map_err(|error| CliError::Said(error.exit_code()))?;
            finished.map_err(failed)
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
        "{}{hosts} host{}, over {}",
        attended(members.len()),
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
