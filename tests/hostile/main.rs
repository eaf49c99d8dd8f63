//! The program under hostile conditions: damaged files, processes that are killed, too little memory, too few threads, pipes
//! for files, names with control characters. docs/hostile.md says which test is which finding.
//!
//! A test that needs what this machine lacks is reported as ignored.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
mod faults;
mod inputs;
mod journal;
mod memory;
mod output;
#[cfg(unix)]
mod processes;
mod signals;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

fn main() -> ExitCode {
    let mut trials = Vec::new();
    trials.extend(faults::trials());
    trials.extend(inputs::trials());
    trials.extend(journal::trials());
    trials.extend(memory::trials());
    trials.extend(output::trials());
    #[cfg(unix)]
    trials.extend(processes::trials());
    trials.extend(signals::trials());
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// A test that panics if it fails.
fn trial(name: &str, test: fn()) -> Trial {
    Trial::test(name, move || {
        test();
        Ok(())
    })
}
