//! The command line of zipwire.

use std::process::ExitCode;

fn main() -> ExitCode {
    zipwire::main()
}
