//! Makes the list of the scenarios and samples that the program carries: `src/shipped.rs` includes it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Folders, and the endings of their files: all that scenarios and papers read.
const FOLDERS: [(&str, &[&str]); 4] = [
    ("scenarios", &["json", "toml"]),
    ("traces/samples", &["csv", "jsonl", "md", "safetensors"]),
    ("traces/samples/licenses", &["txt"]),
    ("traces/samples/requests", &["csv", "gz"]),
];
/// In the folder of scenarios, what belongs to the crate that reads them.
const NO_SCENARIOS: [&str; 3] = ["Cargo.toml", "src", "tests"];

fn main() -> io::Result<()> {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let mut files = Vec::new();
    for (folder, endings) in FOLDERS {
        collect(&root.join(folder), endings, folder == "scenarios", &mut files)?;
    }
    files.sort();
    let mut list = String::from("&[\n");
    for path in files {
        let name = path.strip_prefix(&root).expect("it is below").to_str().expect("our names are ASCII");
        let name = name.replace('\\', "/");
        writeln!(list, "    ({name:?}, include_bytes!({path:?})),").expect("a string takes all");
    }
    list.push_str("]\n");
    fs::write(PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("shipped.rs"), list)
}

/// The files with these endings in a folder, and in those below it.
fn collect(folder: &Path, endings: &[&str], is_deep: bool, files: &mut Vec<PathBuf>) -> io::Result<()> {
    println!("cargo:rerun-if-changed={}", folder.display());
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if is_deep && NO_SCENARIOS.contains(&name.as_ref()) {
            continue;
        }
        if path.is_dir() {
            if is_deep {
                collect(&path, endings, true, files)?;
            }
        } else if path.extension().is_some_and(|ending| endings.iter().any(|&known| ending == known)) {
            files.push(path);
        }
    }
    Ok(())
}
