//! The command line, in this process.

use std::ffi::OsString;

use pyo3::prelude::*;

/// Runs a command of `zipwire` and gives its exit code. `program` are the words that start this program, `args` what follows them.
#[pyfunction]
pub(crate) fn run_command(py: Python<'_>, program: Vec<OsString>, args: Vec<OsString>) -> u8 {
    py.detach(|| zipwire::run_as(program, args))
}
