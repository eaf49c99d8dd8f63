//! Scenarios that the program carries are unpacked for a command and leave no file behind.
#![cfg(unix)]

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// The program, which puts temporary files into a folder of their own.
fn zipwire(args: &[&str], temporary: &TempDir) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zipwire"));
    command.args(args).env("TMPDIR", temporary.path());
    command
}

fn count(folder: &TempDir) -> usize {
    fs::read_dir(folder.path()).unwrap().count()
}

#[test]
fn temporary_files_go_when_a_command_ends() {
    let temporary = TempDir::new().unwrap();
    let run = zipwire(&["reproduce", "zipnn"], &temporary).output().unwrap();
    assert!(run.status.success());
    assert_eq!(count(&temporary), 0);
}

#[test]
fn temporary_files_go_when_ctrl_c_stops_a_list() {
    let temporary = TempDir::new().unwrap();
    let mut run = zipwire(&["scenario", "list"], &temporary).spawn().unwrap();
    let begin = Instant::now();
    while count(&temporary) == 0 && begin.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let killed = Command::new("kill").args(["-INT", &run.id().to_string()]).status().unwrap();
    assert!(killed.success());
    assert_eq!((run.wait().unwrap().code(), count(&temporary)), (Some(130), 0));
}
