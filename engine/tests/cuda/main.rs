//! The executor `cuda` on kernels that run on the CPU below a fake driver: ranks on one device and on several, under random
//! delays; what must be noticed is noticed, and ends all ranks.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../it/common/mod.rs"]
mod common;
mod failures;
mod jobs;
mod runs;
mod scenes;
mod sums;
mod waits;

use std::process::ExitCode;

use libtest_mimic::Trial;
use zipwire_emulation::harness;

/// A test and its name; those called `whole::` are ignored unless asked for, as `.ci/run` does.
type Test = (&'static str, fn());

fn main() -> ExitCode {
    let sources = zipwire_engine::cuda::kernels::sources();
    let texts: Vec<&str> = sources.iter().map(|source| source.text.as_str()).collect();
    let tests = || {
        let trial = |&(name, test): &Test| {
            let trial = Trial::test(name, move || {
                test();
                Ok(())
            });
            trial.with_ignored_flag(name.contains("whole::"))
        };
        [runs::TESTS, sums::TESTS, failures::TESTS, scenes::TESTS, waits::TESTS]
            .into_iter()
            .flatten()
            .map(trial)
            .collect()
    };
    harness(&texts, tests, &[scenes::SCENES, sums::SCENES].concat())
}
