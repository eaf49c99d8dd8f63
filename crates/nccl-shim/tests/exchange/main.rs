//! Ranks that exchange messages through the library, which is there on Linux only.

use std::process::ExitCode;

use libtest_mimic::Arguments;

#[cfg(target_os = "linux")]
mod ranks;

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    let trials = ranks::trials();
    #[cfg(not(target_os = "linux"))]
    let trials = Vec::new();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
