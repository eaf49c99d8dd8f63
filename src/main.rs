//! The command line of zipwire. Results go to stdout; progress, hints and errors to stderr.

mod cli;
mod commands;
mod error;
mod progress;
mod table;

use std::process::ExitCode;

use clap::Parser;
use zipwire::Cancel;

use crate::cli::{Cli, Command};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = Cancel::on_ctrl_c().map_err(error::CliError::from).and_then(|cancel| match cli.command {
        Command::Run(args) => commands::run::run(&args, &cancel),
        Command::Validate(args) => commands::validate::run(&args, &cancel),
        Command::Plan(args) => commands::plan::run(&args, &cancel),
        Command::Diff(args) => commands::diff::run(&args, &cancel),
        Command::Inspect(args) => commands::inspect::run(&args, &cancel),
        Command::Bench(command) => commands::bench::run(&command, &cancel),
        Command::Scenario(command) => commands::scenario::run(&command, &cancel),
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if !error.is_broken_pipe() {
                eprintln!("{}", error.render());
            }
            ExitCode::from(error.exit_code())
        }
    }
}
