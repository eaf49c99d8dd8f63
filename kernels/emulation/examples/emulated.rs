//! Runs a command below the emulation: what it loads as CUDA's driver is the fake one, with the kernels of BF16 and of sums.
//!
//! ```sh
//! cargo run -p zipwire-emulation --example emulated -- target/debug/zipwire bench gpu --most 65536 --round-ms 1
//! ```

use std::process::{Command, ExitCode};

use zipwire_codec::DType;
use zipwire_emulation::Emulation;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let Some(program) = arguments.next() else {
        eprintln!("expected a command to run below the emulation");
        return ExitCode::from(2);
    };
    let sources = zipwire_kernels::sources();
    let sources = sources.iter().filter(|source| source.dtype.is_none_or(|dtype| dtype == DType::Bf16));
    let texts: Vec<&str> = sources.map(|source| source.text.as_str()).collect();
    let emulation = match Emulation::build(&texts, "tests") {
        Ok(emulation) => emulation,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(if error.is_absence() { 77 } else { 1 });
        }
    };
    match Command::new(&program).args(arguments).envs(emulation.environment()).status() {
        Ok(status) => ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)),
        Err(error) => {
            eprintln!("error: cannot run {}: {error}", program.display());
            ExitCode::from(1)
        }
    }
}
