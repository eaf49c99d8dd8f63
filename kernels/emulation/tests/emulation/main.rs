//! The emulation itself: toy kernels through cudarc, and whether planted faults are found.
#![allow(unsafe_code)]
// Its functions are tests, which Clippy does not see without the usual harness.
#![allow(clippy::unwrap_used)]

mod builds;
mod devices;
mod faults;
mod gpu;
mod graphs;
mod intrinsics;
mod kernels;
mod memory;
mod nccl;
mod speed;
mod streams;

use std::process::ExitCode;

use libtest_mimic::Trial;
use zipwire_emulation::harness;

/// All sources of these tests.
const SOURCES: [&str; 3] = [include_str!("toys.cu"), include_str!("intrinsics.cu"), include_str!("pack.cu")];

fn main() -> ExitCode {
    let tests = || {
        let modules = [
            builds::TESTS,
            devices::TESTS,
            faults::TESTS,
            graphs::TESTS,
            intrinsics::TESTS,
            kernels::TESTS,
            memory::TESTS,
            speed::TESTS,
            streams::TESTS,
            &nccl::tests(),
        ];
        let trial = |&(name, test): &Test| {
            Trial::test(name, move || {
                test();
                Ok(())
            })
        };
        modules.into_iter().flatten().map(trial).collect()
    };
    let scenes: Vec<_> = [faults::SCENES, memory::SCENES, nccl::SCENES].concat();
    harness(&SOURCES, tests, &scenes)
}

/// A test and its name.
type Test = (&'static str, fn());
