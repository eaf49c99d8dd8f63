//! The library as a program in C uses it: by the header, linked.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use std::path::Path;
use std::process::Command;

/// Warnings are errors: the header must be clean in programs that are compiled so.
const STRICT: [&str; 5] = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror"];

#[test]
fn a_program_in_c_compresses_and_restores() {
    let folder = tempfile::tempdir().unwrap();
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = folder.path().join("calls");
    // Cargo builds the library before this test, beside it.
    let libraries = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let compiled = Command::new(compiler)
        .args(STRICT)
        .arg(format!("-I{}", here.join("include").display()))
        .arg(here.join("tests/calls.c"))
        .arg(format!("-L{}", libraries.display()))
        .arg(format!("-Wl,-rpath,{}", libraries.display()))
        .arg("-lzipwire_c")
        .arg("-o")
        .arg(&program)
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let ran = Command::new(&program).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}
