//! Lists the files that come with the program, for `src/shipped.rs` to embed: scenarios, and the recordings that they read.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs, io};

/// Folders whose files are embedded, with those below.
const FOLDERS: [&str; 2] = ["scenarios", "traces/samples"];

/// What in them is none of it: the code of the crate `zipwire-scenarios`, and logs that no scenario reads.
const LEFT_OUT: [&str; 5] = [
    "scenarios/src",
    "scenarios/tests",
    "scenarios/Cargo.toml",
    "scenarios/DESIGN.md",
    "traces/samples/nccl-tests",
];

fn main() -> io::Result<()> {
    let variable = |name| env::var(name).map_err(io::Error::other);
    let root = variable("CARGO_MANIFEST_DIR")?;
    let mut names = Vec::new();
    for folder in FOLDERS {
        println!("cargo::rerun-if-changed={folder}");
        collect(Path::new(&root), folder, &mut names)?;
    }
    names.sort();
    let mut list = String::from("&[\n");
    for name in names {
        let path = Path::new(&root).join(&name);
        let _ = writeln!(list, "    ({name:?}, include_bytes!({path:?})),");
    }
    list.push_str("]\n");
    fs::write(Path::new(&variable("OUT_DIR")?).join("shipped.rs"), list)
}

/// Names of the files below a folder, from the root of the repository.
fn collect(root: &Path, folder: &str, names: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let name = format!("{folder}/{}", entry.file_name().display());
        if LEFT_OUT.contains(&name.as_str()) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            collect(root, &name, names)?;
        } else {
            names.push(name);
        }
    }
    Ok(())
}
