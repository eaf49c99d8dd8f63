//! The shape of the repository: dependency direction, file sizes, no paths of a machine, no floating-point functions of
//! the system, documents that know every codec.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand};
use zipwire::codec::{DType, FrameInfo, Layout, Spec, encode_to_vec};

/// Who may use whom among the crates of the workspace, less the `zipwire-` of their names. `sim` never sees `engine`, nor the
/// reverse, and neither sees the files of `traces`.
const ALLOWED: [(&str, &str); 19] = [
    ("codec", ""),
    ("kernels", "codec"),
    ("models", "codec kernels"),
    ("kv", "codec"),
    ("cluster", ""),
    ("serving", "cluster"),
    ("schedule", "codec cluster"),
    ("timeline", "schedule"),
    ("payload", "schedule"),
    ("traces", "codec models serving schedule timeline payload"),
    ("calibrate", "cluster"),
    ("scenarios", "codec kv serving cluster schedule timeline payload traces"),
    ("sim", "codec serving cluster schedule timeline payload"),
    ("mpi", ""),
    ("engine", "codec kv serving cluster schedule timeline payload kernels mpi"),
    (
        "runner",
        "calibrate codec kv serving cluster schedule timeline payload traces scenarios sim engine kernels mpi",
    ),
    ("bench", "codec models cluster schedule timeline payload traces scenarios sim kernels runner"),
    ("papers", "codec serving timeline traces scenarios runner bench"),
    // For tests only: a development dependency of others.
    ("emulation", ""),
];

/// Lines of a source file at the most, tests included, and of the median one.
const LONGEST: usize = 500;
const MEDIAN: usize = 200;

/// Bytes of a tracked file at the most.
const LARGEST: u64 = 1 << 20;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn metadata() -> Metadata {
    MetadataCommand::new().manifest_path(root().join("Cargo.toml")).exec().expect("cargo knows the workspace")
}

#[test]
fn dependencies_point_one_way() {
    let metadata = metadata();
    let crates: BTreeSet<String> = metadata.workspace_packages().iter().map(|p| p.name.to_string()).collect();
    let short = |name: &str| name.strip_prefix("zipwire-").map(str::to_owned);
    for package in metadata.workspace_packages() {
        // The facade may use all.
        let Some(name) = short(&package.name) else { continue };
        let allowed = ALLOWED.iter().find(|(crate_name, _)| *crate_name == name);
        let (_, allowed) =
            allowed.unwrap_or_else(|| panic!("`{name}` has no place in the order of dependencies"));
        let used = package.dependencies.iter().filter(|d| d.kind != DependencyKind::Development);
        for dependency in used.filter(|dependency| crates.contains(dependency.name.as_str())) {
            let target = short(&dependency.name).expect("nothing depends on the facade");
            assert!(allowed.split(' ').any(|name| name == target), "`{name}` must not depend on `{target}`");
        }
    }
}

/// The samplers of `rand_distr` compute with the portable crate `libm` unless something switches on the standard
/// library's functions, which differ between systems: then the same seed would give other draws elsewhere.
#[test]
fn samplers_do_not_use_the_systems_libm() {
    let metadata = metadata();
    let resolve = metadata.resolve.as_ref().expect("dependencies are resolved");
    for name in ["num-traits", "rand_distr"] {
        let package = metadata.packages.iter().find(|package| package.name.as_str() == name);
        let id = &package.unwrap_or_else(|| panic!("`{name}` is a dependency")).id;
        let node = resolve.nodes.iter().find(|node| node.id == *id).expect("every package is resolved");
        let features: Vec<&str> = node.features.iter().map(|feature| feature.as_str()).collect();
        for forbidden in ["std", "std_math"] {
            assert!(!features.contains(&forbidden), "`{name}` has feature `{forbidden}`: {features:?}");
        }
    }
}

/// Files that git tracks, or, without git, all below the root that builds do not make.
fn tracked() -> Vec<String> {
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(root()).output();
    let names = match listed {
        Ok(output) if output.status.success() && !output.stdout.is_empty() => {
            String::from_utf8(output.stdout).expect("file names are UTF-8")
        }
        _ => walk(root()).join("\0"),
    };
    names.split('\0').filter(|name| root().join(name).is_file()).map(str::to_owned).collect()
}

fn walk(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).expect("folders can be read") {
        let path = entry.expect("folders can be read").path();
        let name =
            path.strip_prefix(root()).expect("the walk stays below the root").to_string_lossy().into_owned();
        if ["target", "out", ".git"].contains(&name.as_str()) {
            continue;
        }
        if path.is_dir() { names.extend(walk(&path)) } else { names.push(name) }
    }
    names
}

fn sources() -> BTreeMap<String, String> {
    let is_source = |name: &String| [".rs", ".py", ".cu"].iter().any(|ending| name.ends_with(ending));
    let read = |name: String| {
        let text = std::fs::read_to_string(root().join(&name)).expect("sources are UTF-8");
        (name, text)
    };
    tracked().into_iter().filter(is_source).map(read).collect()
}

#[test]
fn files_are_short() {
    let mut lengths: Vec<usize> = Vec::new();
    for (name, text) in &sources() {
        let lines = text.lines().count();
        assert!(lines <= LONGEST, "{name} has {lines} lines, at most {LONGEST} are allowed");
        lengths.push(lines);
    }
    lengths.sort_unstable();
    let median = lengths[lengths.len() / 2];
    assert!(median <= MEDIAN, "the median file has {median} lines, at most {MEDIAN} are allowed");
}

#[test]
fn files_are_small() {
    for name in tracked() {
        let bytes = root().join(&name).metadata().expect("tracked files exist").len();
        assert!(bytes <= LARGEST, "{name} has {bytes} bytes, at most {LARGEST} are allowed");
    }
}

#[test]
fn no_paths_of_a_machine() {
    // Spelt apart so that this file does not find itself.
    let roots = ["work", "tmp", "root", "home", "Users", "farm"].map(|folder| format!("/{folder}/"));
    for (name, text) in sources() {
        for (number, line) in text.lines().enumerate() {
            let found = roots.iter().find(|path| line.contains(path.as_str()));
            assert!(found.is_none(), "{name}:{}: names a path of a machine: {line}", number + 1);
        }
    }
}

#[test]
fn documents_know_every_codec() {
    let read = |name: &str| std::fs::read_to_string(root().join(name)).expect("the document is there");
    let (readme, language, format) = (read("README.md"), read("docs/scenarios.md"), read("docs/format.md"));
    for id in Spec::ids() {
        assert!(readme.contains(&format!("`{id}`")), "the README does not know `{id}`");
        assert!(language.contains(&format!("`\"{id}\"`")), "the scenario language does not know `{id}`");
        let codec = id.parse::<Spec>().expect("ids are specs").codec();
        let dtype = DType::ALL.into_iter().find(|dtype| codec.supports(*dtype)).expect("it codes something");
        let frame = encode_to_vec(codec.as_ref(), Layout::Compact, dtype, &[]).expect("nothing is whole");
        // The tag is behind magic and version.
        let heading = match FrameInfo::peek(&frame).expect("it is a frame").codec {
            own if own == id => format!("\n## `{id}`, codec {}\n", frame[5]),
            // A codec that makes frames of others.
            _ => format!("\n`{id}` has no frames of its own"),
        };
        assert!(format.contains(&heading), "the format does not have `{}`", heading.trim());
    }
    for prefix in Spec::prefixes() {
        assert!(readme.contains(&format!("`{prefix}+`")) && format.contains(&format!("\n## `{prefix}+X`, ")));
    }
}
