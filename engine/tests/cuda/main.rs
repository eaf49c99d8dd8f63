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
use zipwire_codec::DType;
use zipwire_emulation::harness;
use zipwire_engine::cuda::kernels::Source;

use zipwire_engine::cuda::run as run_on;

/// A test and its name; those called `whole::` are ignored unless asked for, as `.ci/run` does.
type Test = (&'static str, fn());

fn main() -> ExitCode {
    let sources = zipwire_engine::cuda::kernels::sources();
    // Frames of BF16, and of partial sums in FP32.
    let is_needed = |source: &&Source| {
        source
            .dtype
            .is_none_or(|dtype| dtype == DType::Bf16 || dtype == DType::F32 && source.name == "tiered")
    };
    let sources = sources.iter().filter(is_needed);
    let texts: Vec<&str> = sources.map(|source| source.text.as_str()).collect();
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
