//! Processes that meet without MPI: they say what they say over TCP, and whoever is missing, in the way or gone is named.
//!
//! This program is also each rank: it starts itself, and with the `torchrun` that `ZIPWIRE_TEST_TORCHRUN` names (ignored without it).

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

#[path = "../it/common/mod.rs"]
mod common;
mod processes;
mod ranks;
mod store;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

use processes::{TESTS, TORCHRUN, VARIABLE};

fn main() -> ExitCode {
    if let Ok(name) = std::env::var(VARIABLE) {
        return ranks::run(&name);
    }
    let has_torchrun = std::env::var_os(TORCHRUN).is_some_and(|path| !path.is_empty());
    let trial = |&(name, test): &(&'static str, fn())| {
        let trial = Trial::test(name, move || {
            test();
            Ok(())
        });
        trial.with_ignored_flag(name.starts_with("torchrun") && !has_torchrun)
    };
    libtest_mimic::run(&Arguments::from_args(), TESTS.iter().map(trial).collect()).exit_code()
}
