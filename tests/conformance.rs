//! Every scenario on every executor against the simulator. One named test per scenario and executor, and one per codec where
//! the scenario has all protocols; on GPUs one per variant, as not all of them have kernels. Executors that are not there are
//! reported as ignored, and so are variants that they refuse.

#[path = "it/common/mod.rs"]
mod common;

use std::process::ExitCode;

use common::conformance::{cases, conforms};
use common::gpus;
use libtest_mimic::{Arguments, Trial};
use zipwire::executors::Ranks;
use zipwire::{Executor, executors, simd_from_environment};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    simd_from_environment().unwrap_or_else(|error| panic!("{error}"));
    // A sixteenth of the quickstart's bytes.
    let cases = cases(256);
    // Ranks of `mpi` are processes: `tests/mpi` starts them.
    let real = executors::ALL.iter().copied().filter(|executor| {
        let capabilities = executor.capabilities();
        capabilities.is_real && capabilities.ranks == Ranks::Inside
    });
    let trials = real.flat_map(|executor| {
        let is_missing = executor.missing().is_some();
        let on_gpus = gpus::EXECUTORS.into_iter().find(|(known, _)| *known == executor && !is_missing);
        if let Some(on_gpus) = on_gpus {
            let test =
                |executor: &dyn Executor, case: &_, variant| conforms(executor, case, Some(&[variant]));
            return gpus::trials(&cases, on_gpus, |_, _| false, test);
        }
        let trial = |case: &common::conformance::Case| {
            let (name, case) = (format!("{}::{executor}", case.name), case.clone());
            Trial::test(name, move || conforms(executor, &case, None))
                .with_kind("conformance")
                .with_ignored_flag(is_missing)
        };
        cases.iter().map(trial).collect()
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}
