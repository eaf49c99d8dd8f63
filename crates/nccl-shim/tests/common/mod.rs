//! Helpers of the tests: the library, the C compiler, commands.

use std::path::PathBuf;
use std::process::{Command, Output};

/// The library, which cargo builds before it builds a test.
pub(crate) fn library() -> PathBuf {
    let test = std::env::current_exe().expect("the system tells where this program is");
    let library = test.with_file_name("libzipwire_nccl.so");
    assert!(library.is_file(), "{} is there", library.display());
    library
}

/// The C compiler.
pub(crate) fn compiler() -> Command {
    Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".to_owned()))
}

/// Runs a command that must succeed.
pub(crate) fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|why| panic!("{command:?}: {why}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}
