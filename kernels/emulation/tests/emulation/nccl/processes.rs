//! Ranks as processes, of a program in C.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::time::Duration;

use crate::Test;

pub(crate) const TESTS: &[Test] = &[
    ("nccl::processes::random_groups", random_groups),
    ("nccl::processes::share_a_device_as_two_hosts", || says_nothing(&["hosts"])),
    ("nccl::processes::one_that_dies_leaves_a_hang_that_abort_ends", || says_nothing(&["dies"])),
    ("nccl::processes::leave_no_shared_memory", leftovers),
];

/// The program, compiled and linked with the fake libraries.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let paths = std::env::var_os("LD_LIBRARY_PATH").unwrap();
        let libraries = std::env::split_paths(&paths).next().unwrap();
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("ranks-{}", std::process::id()));
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/emulation/nccl/ranks.c");
        let compiler = std::env::var_os("CXX").unwrap_or_else(|| "c++".into());
        let mut command = Command::new(compiler);
        command
            .args(["-O1", "-Wall", "-Wextra", "-x", "c"])
            .arg(source)
            .args(["-x", "none", "-o"])
            .arg(&program);
        let output =
            command.args(["libcuda.so", "libnccl.so"].map(|name| libraries.join(name))).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{said}");
        program
    })
}

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(program());
    command.args(arguments).env("FAKECUDA_DEVICES", "4").env("FAKECUDA_DELAY_US", "200");
    command.output().unwrap()
}

/// Runs the program, whose result is its exit code.
fn says_nothing(arguments: &[&str]) {
    let output = run(arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
}

fn random_groups() {
    let seed = std::process::id().to_string();
    eprintln!("seed {seed}");
    says_nothing(&["groups", &seed, "1000"]);
}

/// Shared memory of this process's children that is still there.
fn left_over(process: u32) -> usize {
    let of_process = format!("fakenccl-{process}-");
    let files = std::fs::read_dir("/dev/shm").unwrap();
    files.filter(|file| file.as_ref().unwrap().file_name().to_string_lossy().starts_with(&of_process)).count()
}

fn leftovers() {
    let leave = |how: &str| {
        let mut child = Command::new(program()).args(["leaves", how]).spawn().unwrap();
        let process = child.id();
        child.wait().unwrap();
        process
    };
    assert_eq!(left_over(leave("exit")), 0);
    let killed = leave("kill");
    assert_eq!(left_over(killed), 1, "nobody could take it away");
    // It may be that others only begin.
    std::thread::sleep(Duration::from_millis(2100));
    says_nothing(&["cleans"]);
    assert_eq!(left_over(killed), 0);
}
