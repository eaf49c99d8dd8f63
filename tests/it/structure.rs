//! The shape of the repository: dependency direction, short functions, comments that a search finds, no paths of a machine, no
//! floating-point functions of the system, documents that know every crate and codec.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand};
use zipwire::codec::{Codec, DType, FrameInfo, Layout, Spec};

/// Who may use whom among the crates of the workspace, less the `zipwire-` of their names. `sim` never sees `engine`, nor the
/// reverse, and neither sees the files of `traces`.
const ALLOWED: [(&str, &str); 27] = [
    ("codec", ""),
    ("paper-codecs", "codec"),
    ("kernels", "codec paper-codecs"),
    ("models", "codec paper-codecs kernels"),
    ("kv", "codec"),
    ("c", "codec paper-codecs"),
    ("cluster", ""),
    ("serving", "cluster"),
    ("schedule", "codec cluster"),
    ("timeline", "schedule"),
    ("payload", "schedule"),
    ("traces", "codec paper-codecs models serving schedule timeline payload"),
    ("report", "schedule traces"),
    ("calibrate", "cluster"),
    ("profiles", "codec cluster"),
    ("scenarios", "codec paper-codecs kv serving cluster schedule timeline payload traces profiles"),
    ("sim", "codec serving cluster schedule timeline payload"),
    ("mpi", ""),
    ("nccl", "kernels"),
    ("nccl-shim", "codec paper-codecs kernels"),
    ("engine", "codec kv serving cluster schedule timeline payload kernels mpi nccl"),
    (
        "runner",
        "calibrate codec kv serving cluster schedule timeline payload traces scenarios sim engine kernels mpi nccl",
    ),
    ("advice", "calibrate cluster codec profiles schedule traces scenarios runner"),
    (
        "bench",
        "codec paper-codecs models cluster schedule timeline payload traces scenarios sim kernels runner",
    ),
    ("papers", "codec paper-codecs serving timeline traces report scenarios runner bench"),
    // For tests only: a development dependency of others.
    ("emulation", ""),
    // On top of the facade, which has the command line.
    ("python", "facade"),
];

/// Lines of a function at the most, from `fn` to its closing brace.
const LONGEST_FUNCTION: usize = 70;

/// First words of doc comments that no search looks for.
const RIDDLES: [&str; 5] = ["What", "Whose", "Of", "Those", "As"];

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
    let target_of = |name: &str| short(name).unwrap_or_else(|| "facade".to_owned());
    for package in metadata.workspace_packages() {
        // The facade may use all.
        let Some(name) = short(&package.name) else { continue };
        let allowed = ALLOWED.iter().find(|(crate_name, _)| *crate_name == name);
        let (_, allowed) =
            allowed.unwrap_or_else(|| panic!("`{name}` has no place in the order of dependencies"));
        let used = package.dependencies.iter().filter(|d| d.kind != DependencyKind::Development);
        for dependency in used.filter(|dependency| crates.contains(dependency.name.as_str())) {
            let target = target_of(&dependency.name);
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

/// The codec library is Rust alone: whoever takes it up needs no C compiler for it.
#[test]
fn the_codec_library_links_no_c_library() {
    let metadata = metadata();
    let nodes = &metadata.resolve.as_ref().expect("dependencies are resolved").nodes;
    let package = |id: &cargo_metadata::PackageId| {
        metadata.packages.iter().find(|package| package.id == *id).expect("it is resolved")
    };
    let codec = metadata.packages.iter().find(|package| package.name.as_str() == "zipwire-codec");
    let (mut seen, mut left) = (BTreeSet::new(), vec![&codec.expect("it is in the workspace").id]);
    while let Some(id) = left.pop() {
        if !seen.insert(id) {
            continue;
        }
        let package = package(id);
        assert!(!package.name.ends_with("-sys"), "it needs `{}`", package.name);
        let node = nodes.iter().find(|node| node.id == *id).expect("every package is resolved");
        let is_normal = |kind: &cargo_metadata::DepKindInfo| kind.kind == DependencyKind::Normal;
        left.extend(node.deps.iter().filter(|dep| dep.dep_kinds.iter().any(is_normal)).map(|dep| &dep.pkg));
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
        if ["target", "out", ".git", ".gpu"].contains(&name.as_str()) {
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

/// Name and lines of each function of a formatted file: the closing brace is as deep as the `fn`.
fn functions(text: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut functions = Vec::new();
    for (begin, line) in lines.iter().enumerate() {
        let head = line.trim_start();
        let Some((before, name)) = head.split_once("fn ") else { continue };
        let is_definition = before.split_whitespace().all(|word| {
            let known = ["pub", "const", "unsafe", "extern", "async"];
            known.contains(&word.split('(').next().unwrap_or_default()) || word.starts_with('"')
        });
        if !is_definition || line.ends_with(['}', ';']) {
            continue;
        }
        let indent = &line[..line.len() - head.len()];
        let closes = |line: &&str| {
            let rest = line.strip_prefix(indent);
            rest.is_some_and(|rest| rest == "}" || rest.starts_with(')') && rest.ends_with(';'))
        };
        let length = lines[begin..].iter().position(closes).map_or(0, |end| end + 1);
        let name = name.split(['(', '<']).next().unwrap_or_default();
        functions.push((format!("{name} (line {})", begin + 1), length));
    }
    functions
}

#[test]
fn functions_are_short() {
    let mut seen = 0;
    for (file, text) in sources().iter().filter(|(file, _)| file.ends_with(".rs")) {
        for (name, lines) in functions(text) {
            seen += 1;
            assert!(
                lines <= LONGEST_FUNCTION,
                "{file}: {name} has {lines} lines, at most {LONGEST_FUNCTION}"
            );
        }
    }
    assert!(seen > 1000, "{seen} functions were found: are they recognised?");
}

/// First lines of the paragraphs of doc comments, with their numbers; a heading is no paragraph.
fn doc_comments(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let comment = |line: &&str| {
        let rest = line.trim_start().strip_prefix("//").and_then(|rest| rest.strip_prefix(['/', '!']));
        rest.is_some_and(|rest| rest.starts_with(' ') && !rest.starts_with(" # "))
    };
    let before = std::iter::once("").chain(text.lines());
    let pairs = before.zip(text.lines()).enumerate();
    pairs
        .filter(move |(_, (before, line))| comment(line) && !comment(before))
        .map(|(index, (_, line))| (index + 1, line.trim_start().trim_start_matches(['/', '!']).trim_start()))
}

#[test]
fn doc_comments_begin_with_a_word_that_a_search_would_use() {
    let mut riddles = Vec::new();
    for (file, text) in sources().iter().filter(|(file, _)| file.ends_with(".rs")) {
        let begins = |text: &str| RIDDLES.iter().any(|word| text.split(' ').next() == Some(word));
        let found = doc_comments(text).filter(|(_, text)| begins(text));
        riddles.extend(found.map(|(line, text)| format!("{file}:{line}: {text}")));
    }
    let shown = riddles.iter().take(20).map(String::as_str).collect::<Vec<_>>().join("\n");
    assert!(riddles.is_empty(), "{} comments begin with such a word:\n{shown}", riddles.len());
}

#[test]
fn every_folder_of_crates_is_in_its_readme() {
    let readme = std::fs::read_to_string(root().join("crates/README.md")).expect("the page is there");
    let listed: BTreeSet<&str> = readme
        .lines()
        .filter_map(|line| line.strip_prefix("| [`")?.split_once("/`]").map(|(folder, _)| folder))
        .collect();
    let metadata = metadata();
    let packages = metadata.workspace_packages();
    let folders: BTreeSet<&str> = packages
        .iter()
        .filter_map(|package| package.manifest_path.strip_prefix(root().join("crates")).ok()?.parent())
        .map(cargo_metadata::camino::Utf8Path::as_str)
        .collect();
    assert_eq!(listed, folders, "crates/README.md and the workspace");
    let default: BTreeSet<&str> =
        metadata.workspace_default_packages().iter().map(|package| package.name.as_str()).collect();
    let left_out =
        packages.iter().map(|package| package.name.as_str()).filter(|name| !default.contains(name));
    let left_out: Vec<&str> = left_out.collect();
    assert_eq!(left_out, ["zipwire-emulation", "zipwire-python"], "members that are not built by default");
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
    zipwire::paper_codecs::register();
    let read = |name: &str| std::fs::read_to_string(root().join(name)).expect("the document is there");
    let (table, language, format) =
        (read("docs/capabilities.md"), read("docs/scenarios.md"), read("docs/format.md"));
    for id in Spec::ids() {
        assert!(table.contains(&format!("| `{id}` |")), "docs/capabilities.md has no row for `{id}`");
        assert!(language.contains(&format!("`\"{id}\"`")), "the scenario language does not know `{id}`");
        let codec = id.parse::<Spec>().expect("ids are specs").codec();
        let dtype = DType::ALL.into_iter().find(|dtype| codec.supports(*dtype)).expect("it codes something");
        let frame = codec.as_ref().encode_to_vec(Layout::Compact, dtype, &[]).expect("nothing is whole");
        // The tag is behind magic and version.
        let heading = match FrameInfo::peek(&frame).expect("it is a frame").codec {
            own if own == id => format!("\n## `{id}`, codec {}\n", frame[5]),
            // A codec that makes frames of others.
            _ => format!("\n`{id}` has no frames of its own"),
        };
        assert!(format.contains(&heading), "the format does not have `{}`", heading.trim());
    }
    for prefix in Spec::prefixes() {
        assert!(
            table.contains(&format!("| `{prefix}+X` |")) && format.contains(&format!("\n## `{prefix}+X`, "))
        );
    }
}
