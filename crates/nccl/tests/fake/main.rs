//! Communicators of the fake library below the fake driver: ranks are threads, each with a device of its own. All transfers and collectives
//! are run by two versions, with one of which all-to-all is a group.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod collectives;
mod failures;
mod ranks;
mod transfers;
mod versions;

use std::process::ExitCode;

use libtest_mimic::Trial;
use zipwire_emulation::harness;

/// A test and its name.
type Test = (&'static str, fn());

fn main() -> ExitCode {
    let tests = || {
        let trial = |&(name, test): &Test| {
            Trial::test(name, move || {
                test();
                Ok(())
            })
        };
        let tests = [transfers::TESTS, collectives::TESTS, failures::TESTS, versions::TESTS];
        tests.into_iter().flatten().map(trial).collect()
    };
    harness(&[], tests, &[failures::SCENES, versions::SCENES].concat())
}
