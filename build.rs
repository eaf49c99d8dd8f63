//! Makes the list of the scenarios and samples that the program carries: `src/shipped.rs` includes it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Folders of two crates, by the variable that each crate's build script sets; where they are in the repository; and the endings of their
/// files: all that scenarios and papers read.
const FOLDERS: [(&str, &str, &[&str]); 4] = [
    (SCENARIOS, "scenarios", &["json", "toml"]),
    (TRACES, "traces/samples", &["csv", "jsonl", "md", "safetensors"]),
    (TRACES, "traces/samples/licenses", &["txt"]),
    (TRACES, "traces/samples/requests", &["csv", "gz"]),
];
const SCENARIOS: &str = "DEP_ZIPWIRE_SCENARIOS_FOLDER";
const TRACES: &str = "DEP_ZIPWIRE_TRACES_FOLDER";
/// In the folder of scenarios, what belongs to the crate that reads them.
const NO_SCENARIOS: [&str; 3] = ["Cargo.toml", "src", "tests"];

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    let mut files = Vec::new();
    for (variable, name, endings) in FOLDERS {
        let root = PathBuf::from(env::var_os(variable).expect("the crate's build script sets it"));
        // The crate's folder is called otherwise in its package.
        let inside = Path::new(name).components().skip(1).collect::<PathBuf>();
        collect(&root.join(inside), name, endings, &mut files)?;
    }
    files.sort();
    let mut list = String::from("&[\n");
    for (name, path) in files {
        writeln!(list, "    ({name:?}, include_bytes!({path:?})),").expect("a string takes all");
    }
    list.push_str("]\n");
    fs::write(PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("shipped.rs"), list)
}

/// The files with these endings in a folder that the program knows as `name`, and where they are; of scenarios also those in folders below.
fn collect(
    folder: &Path,
    name: &str,
    endings: &[&str],
    files: &mut Vec<(String, PathBuf)>,
) -> io::Result<()> {
    println!("cargo::rerun-if-changed={}", folder.display());
    let is_deep = name.starts_with("scenarios");
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let last = path.file_name().unwrap_or_default().to_str().expect("our names are ASCII").to_owned();
        // Packages have files of Cargo's own, which begin with a dot.
        if is_deep && (NO_SCENARIOS.contains(&last.as_str()) || last.starts_with('.')) {
            continue;
        }
        let name = format!("{name}/{last}");
        if path.is_dir() {
            if is_deep {
                collect(&path, &name, endings, files)?;
            }
        } else if path.extension().is_some_and(|ending| endings.iter().any(|&known| ending == known)) {
            files.push((name, path));
        }
    }
    Ok(())
}
