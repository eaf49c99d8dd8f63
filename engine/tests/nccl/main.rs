//! Ranks on GPUs over NCCL, below the fake driver and the fake NCCL: what runs by copies runs here, and what must be noticed is.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../it/common/mod.rs"]
mod common;
mod failures;
#[allow(dead_code, reason = "shared with the tests of copies")]
#[path = "../cuda/jobs.rs"]
mod jobs;
#[path = "../cuda/runs.rs"]
mod runs;

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use libtest_mimic::Trial;
use zipwire_codec::DType;
use zipwire_emulation::harness;
use zipwire_engine::cuda::CudaSetup;
use zipwire_engine::cuda::kernels::sources;
use zipwire_engine::host::RunReport;
use zipwire_engine::nccl::library::{library, share_gpus};
use zipwire_schedule::RunFailure;

/// A test and its name; those called `whole::` are ignored unless asked for, as `.ci/run` does.
type Test = (&'static str, fn());

fn run_on(setup: &CudaSetup<'_>, cancel: &AtomicBool) -> Result<RunReport, Box<RunFailure>> {
    let result = zipwire_engine::nccl::run(setup, library().unwrap(), cancel);
    // The next test may have other GPUs.
    zipwire_engine::nccl::release();
    result
}

fn main() -> ExitCode {
    #[expect(unsafe_code, reason = "the environment is changed while no other thread can read it")]
    // SAFETY: this is the first call of the program, which has no thread but this one.
    unsafe {
        share_gpus();
    }
    let sources = sources();
    let needed = sources.iter().filter(|source| source.dtype.is_none_or(|dtype| dtype == DType::Bf16));
    let texts: Vec<&str> = needed.map(|source| source.text.as_str()).collect();
    let tests = || {
        let trial = |&(name, test): &Test| {
            let trial = Trial::test(name, move || {
                test();
                Ok(())
            });
            trial.with_ignored_flag(name.contains("whole::"))
        };
        [runs::TESTS, failures::TESTS].into_iter().flatten().map(trial).collect()
    };
    harness(&texts, tests, &[])
}
