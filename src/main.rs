//! The command line of zipwire. Results go to stdout; progress, hints and errors to stderr.

#![warn(clippy::print_stderr, clippy::print_stdout)]

/// Writes a line to stderr. If its reader is gone, nothing happens; `eprintln!` would panic.
macro_rules! say {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($words)*);
    }};
}

mod cli;
mod commands;
mod error;
mod profile;
mod progress;
mod shipped;
mod table;

use std::process::ExitCode;

use clap::Parser;
use zipwire::{Cancel, simd_from_environment};

use crate::cli::{Cli, Command};
use crate::error::CliError;
use crate::profile::Profile;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let profile = match cli.profile.as_deref().map(Profile::start).transpose() {
        Ok(profile) => profile,
        Err(error) => return report(&error),
    };
    let result = run(&cli.command, profile.is_some());
    // Also when the command has failed or was stopped: then it is of most use.
    let profiled = profile.map_or(Ok(()), Profile::finish);
    match (result, profiled) {
        (Ok(()), Ok(())) => ExitCode::SUCCESS,
        (Err(error), Ok(())) | (Ok(()), Err(error)) => report(&error),
        (Err(error), Err(lost)) => {
            report(&lost);
            report(&error)
        }
    }
}

fn run(command: &Command, is_profiled: bool) -> Result<(), CliError> {
    simd_from_environment()?;
    let cancel = Cancel::on_ctrl_c()?;
    large_files_are_errors()?;
    // A profile is of most use when the command was stopped.
    let _hold = is_profiled.then(|| cancel.hold());
    let _span = tracing::info_span!("command", name = %command.name()).entered();
    match command {
        Command::Run(args) => commands::run::run(args, &cancel),
        Command::Validate(args) => commands::validate::run(args, &cancel),
        Command::Plan(args) => commands::plan::run(args, &cancel),
        Command::Diff(args) => commands::diff::run(args, &cancel),
        Command::Reproduce(args) => commands::reproduce::run(args, &cancel),
        Command::Inspect(args) => commands::inspect::run(args, &cancel),
        Command::Compress(args) => commands::files::compress::run(args, &cancel),
        Command::Decompress(args) => commands::files::compress::run_decompress(args, &cancel),
        Command::Verify(args) => commands::files::compress::run_verify(args, &cancel),
        Command::Cat(args) => commands::files::read::cat(args),
        Command::Ls(args) => commands::files::read::ls(args),
        Command::Store(command) => commands::store::run(command, &cancel),
        Command::Bench(command) => commands::bench::run(command, &cancel),
        Command::Calibrate(command) => commands::calibrate::run(command, &cancel),
        Command::Scenario(command) => commands::scenario::run(command, &cancel),
    }
}

/// A file that grows beyond `ulimit -f` is an error of the write, after which this program cleans up, and no signal that ends it.
fn large_files_are_errors() -> Result<(), CliError> {
    #[cfg(unix)]
    signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Default::default())
        .map_err(CliError::FileSizeSignal)?;
    Ok(())
}

/// Says why a command has failed; gives its exit code.
fn report(error: &CliError) -> ExitCode {
    error.say();
    ExitCode::from(error.exit_code())
}
