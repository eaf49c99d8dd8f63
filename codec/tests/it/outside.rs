//! The README's program, as a stranger would have it: a package of its own outside of the workspace.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "programs have files")]

use std::fs;
use std::path::Path;
use std::process::Command;

/// The program of ten lines, from the README.
fn program() -> &'static str {
    let readme = include_str!("../../README.md");
    let (_, behind) = readme.split_once("```rust,no_run\n").unwrap();
    behind.split_once("```").unwrap().0
}

mod whole {
    use super::*;

    #[test]
    #[ignore = "compiles the crate once more: .ci/run runs it"]
    fn the_program_of_the_readme_compresses_and_restores_a_file() {
        assert_eq!(program().lines().skip_while(|line| !line.starts_with("fn main")).count(), 9);
        let codec = Path::new(env!("CARGO_MANIFEST_DIR"));
        // A folder of its own, for sources and for what is built: this process holds the lock of the other one.
        let package = Path::new(env!("CARGO_TARGET_TMPDIR")).join("outside");
        fs::create_dir_all(package.join("src")).unwrap();
        let manifest = format!(
            "[package]\nname = \"outside\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
             [dependencies]\nzipwire-codec = {{ path = {codec:?} }}\n\n[workspace]\n"
        );
        fs::write(package.join("Cargo.toml"), manifest).unwrap();
        fs::write(package.join("src/main.rs"), program()).unwrap();
        // The versions that the workspace has, which are on this machine.
        fs::copy(codec.join("../Cargo.lock"), package.join("Cargo.lock")).unwrap();
        let input = package.join("input");
        let values: Vec<u8> = (0..400_000u32).flat_map(|i| (0x3c00 + i as u16 % 700).to_le_bytes()).collect();
        let bytes = [&values[..], &[7]].concat();
        fs::write(&input, &bytes).unwrap();

        let run = Command::new(env!("CARGO"))
            .args(["run", "--quiet", "--offline", "--"])
            .arg(&input)
            .current_dir(&package)
            .env("CARGO_TARGET_DIR", package.join("target"))
            // What a test under another tool was built with is not meant for this program.
            .env_remove("RUSTFLAGS")
            .output()
            .unwrap();
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        assert!(fs::read(package.join("input.restored")).unwrap() == bytes);
        let compressed = fs::metadata(package.join("input.zpw")).unwrap().len();
        assert!(compressed < bytes.len() as u64 * 3 / 4, "{compressed} of {} bytes", bytes.len());
    }
}
