//! The accuracy board: `accuracy FOLDER OUT [--release]` predicts all logs of nccl-tests in a folder (`*.txt`), and writes `accuracy.md` and
//! `accuracy.svg` beside `accuracy.csv`, which has the figures of the last release. It ends with 1 where hardware is predicted worse than
//! there by more than a point. `--release` makes the figures of now those of the last release.

#![allow(clippy::disallowed_methods, reason = "it reads and writes files")]
#![allow(clippy::unwrap_used, reason = "whoever runs it sees what is missing")]

mod board;

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use board::{Board, Last, entries};

fn main() -> ExitCode {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let is_release = args.iter().any(|arg| arg == "--release");
    args.retain(|arg| arg != "--release");
    let [folder, out] = args.as_slice() else { panic!("usage: accuracy FOLDER OUT [--release]") };
    let out = Path::new(out);
    let last = Last::parse(&fs::read_to_string(out.join("accuracy.csv")).unwrap_or_default());
    let board = Board::of(entries(Path::new(folder), ""));
    fs::write(out.join("accuracy.md"), board.document(&last)).unwrap();
    fs::write(out.join("accuracy.svg"), board.picture()).unwrap();
    if is_release {
        fs::write(out.join("accuracy.csv"), board.figures()).unwrap();
        return ExitCode::SUCCESS;
    }
    let worse = board.worse_than(&last);
    worse.iter().for_each(|line| eprintln!("worse: {line}"));
    println!("{} logs, {} groups worse by more than a point", board.len(), worse.len());
    if worse.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
