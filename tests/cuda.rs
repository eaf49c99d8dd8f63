//! Every scenario on the executor `cuda` below a fake driver: kernels run on the CPU, once as they come and once with delays
//! in all streams.

mod common;

use std::process::ExitCode;

use common::conformance::{Case, cases, conforms};
use common::gpus;
use libtest_mimic::{Failed, Trial};
use zipwire::Executor;
use zipwire::engine::cuda::kernels;
use zipwire_emulation::{Controls, harness};

fn main() -> ExitCode {
    let sources = kernels::sources();
    let texts: Vec<&str> = sources.iter().map(|source| source.text.as_str()).collect();
    // Emulated kernels are slow: fewer bytes of the quickstart.
    harness(&texts, || -> Vec<Trial> { gpus::trials(&cases(32), conforms_delayed_or_not) }, &[])
}

fn conforms_delayed_or_not(case: &Case, variant: usize) -> Result<(), Failed> {
    let controls = Controls::find().expect("the harness has started this below the emulation");
    for (seed, delay_us) in [(0, 0), (1, 300)] {
        controls.set_seed(seed);
        controls.set_delay_us(delay_us);
        conforms(Executor::Cuda, case, Some(&[variant]))?;
    }
    Ok(())
}
