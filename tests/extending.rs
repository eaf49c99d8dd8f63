//! The pages for extenders: what they show is short, fits the tree as it is, builds, and runs from a scenario.
//!
//! Examples that need no change of the tree are doctests of the root crate. The others are patches; `builds_and_runs` applies all of
//! them to a copy of the tree.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use serde_json::Value;

/// The pages, and whether their example is a patch.
const PAGES: [(&str, bool); 6] = [
    ("codec", false),
    ("order", true),
    ("protocol", true),
    ("algorithm", true),
    ("executor", false),
    ("workload", true),
];

/// Lines of an example at the most.
const MOST_LINES: usize = 60;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let page = |(page, is_patch): (&'static str, bool)| {
        let short = Trial::test(format!("{page}_is_short"), move || is_short(page));
        let applies = Trial::ignorable_test(format!("{page}_applies"), move || applies(page));
        [Some(short), is_patch.then_some(applies)].into_iter().flatten()
    };
    let mut trials: Vec<Trial> = PAGES.into_iter().flat_map(page).collect();
    trials.push(Trial::test("the_table_counts_files", the_table_counts_files));
    // Builds the workspace once more; .ci/run has it.
    trials.push(Trial::ignorable_test("builds_and_runs", builds_and_runs).with_ignored_flag(true));
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(page: &str) -> String {
    fs::read_to_string(root().join(format!("docs/extending/{page}.md"))).unwrap()
}

/// The blocks of a page in a language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let text = read(page);
    let (mut blocks, mut open) = (Vec::new(), None::<(bool, String)>);
    for line in text.lines() {
        open = match (open, line.strip_prefix("```")) {
            (None, Some(of)) => Some((of == language, String::new())),
            (None, None) => None,
            (Some((is_wanted, block)), Some(_)) => {
                blocks.extend(is_wanted.then_some(block));
                None
            }
            (Some((is_wanted, block)), None) => Some((is_wanted, block + line + "\n")),
        };
    }
    assert!(open.is_none(), "{page}: a block has no end");
    blocks
}

/// The patch of a page.
fn patch(page: &str) -> String {
    blocks(page, "diff").concat()
}

fn is_short(page: &str) -> Result<(), Failed> {
    let is_added = |line: &&str| line.starts_with('+') && !line.starts_with("+++");
    let patches = blocks(page, "diff").into_iter().map(|patch| patch.lines().filter(is_added).count());
    let programs = ["rust", "rust,no_run"].into_iter().flat_map(|language| blocks(page, language));
    let programs = programs.map(|program| program.lines().count());
    let lengths: Vec<usize> = patches.chain(programs).collect();
    if lengths.is_empty() {
        return Err("it has no example".into());
    }
    match lengths.iter().find(|lines| **lines > MOST_LINES) {
        Some(lines) => Err(format!("an example has {lines} lines, at most {MOST_LINES} are allowed").into()),
        None => Ok(()),
    }
}

/// Program that applies patches on this machine.
#[derive(Clone, Copy)]
enum Patcher {
    Git,
    Patch,
}

impl Patcher {
    fn find() -> Option<Self> {
        let answers = |program: &str| Command::new(program).arg("--version").output().is_ok();
        if answers("git") { Some(Self::Git) } else { answers("patch").then_some(Self::Patch) }
    }

    /// Applies a patch to a folder, or only says whether that would go well.
    fn apply(self, patch: &str, folder: &Path, is_dry: bool) -> Result<(), Failed> {
        let mut command = match self {
            Self::Git => Command::new("git"),
            Self::Patch => Command::new("patch"),
        };
        match self {
            // In a folder inside of a repository git would leave out what it takes for paths outside of the folder.
            Self::Git => command.env("GIT_CEILING_DIRECTORIES", folder.parent().unwrap()).arg("apply"),
            Self::Patch => command.args(["--strip=1", "--forward", "--batch"]),
        };
        match (self, is_dry) {
            (Self::Git, true) => command.arg("--check"),
            (Self::Patch, true) => command.arg("--dry-run"),
            (_, false) => &mut command,
        };
        let mut child = command
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        child.stdin.take().unwrap().write_all(patch.as_bytes())?;
        succeeded("the patch", &child.wait_with_output()?)
    }
}

const NO_PATCHER: &str = "neither git nor patch can be run here";

fn applies(page: &str) -> Result<Completion, Failed> {
    let Some(patcher) = Patcher::find() else { return Ok(Completion::ignored_with(NO_PATCHER)) };
    patcher.apply(&patch(page), root(), true).map(|()| Completion::Completed)
}

fn succeeded(what: &str, output: &Output) -> Result<(), Failed> {
    if output.status.success() {
        return Ok(());
    }
    let [out, error] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    Err(format!("{what} fails:\n{out}{error}").into())
}

/// The README says how many files of the tree each patch touches.
fn the_table_counts_files() -> Result<(), Failed> {
    let readme = read("README");
    for (page, is_patch) in PAGES {
        let files = patch(page).lines().filter(|line| line.starts_with("+++ ")).count();
        let added = patch(page).lines().filter(|line| line.starts_with("--- /dev/null")).count();
        let counted =
            if is_patch { format!("| {files}, {added} of them new |") } else { "| none |".to_owned() };
        let row = readme.lines().find(|line| line.contains(&format!("]({page}.md)")));
        if !row.is_some_and(|row| row.contains(&counted)) {
            return Err(format!("the row of `{page}` does not say `{counted}`: {row:?}").into());
        }
    }
    Ok(())
}

fn builds_and_runs() -> Result<Completion, Failed> {
    let Some(patcher) = Patcher::find() else { return Ok(Completion::ignored_with(NO_PATCHER)) };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("extending");
    let (tree, target) = (folder.join("tree"), folder.join("target"));
    copy_tree(&tree)?;
    let patched: Vec<&str> = PAGES.iter().filter(|(_, is_patch)| *is_patch).map(|(page, _)| *page).collect();
    for page in &patched {
        patcher.apply(&patch(page), &tree, false)?;
    }
    // One choice of packages and one profile, so that nothing is compiled twice with other features.
    let packages = ["--package", "zipwire", "--package", "zipwire-schedule"];
    let cargo = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO"));
        command
            .arg(arguments[0])
            .arg("--locked")
            .args(&arguments[1..])
            .current_dir(&tree)
            .env("CARGO_TARGET_DIR", &target);
        let output = command.output()?;
        succeeded(&format!("cargo {}", arguments.join(" ")), &output)?;
        Ok::<_, Failed>(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let test = |filter: &str| {
        let arguments =
            [&["test"], &packages[..], &["--test", "it", filter, "--", "--include-ignored"]].concat();
        let is_run =
            cargo(&arguments)?.lines().any(|line| line.starts_with("test ") && line.ends_with("... ok"));
        if is_run { Ok(()) } else { Err(Failed::from(format!("no test is called `{filter}`"))) }
    };
    cargo(&[&["build"], &packages[..], &["--bin", "zipwire", "--test", "it"]].concat())?;
    // The laws of plans: every schedule of every order, protocol and algorithm.
    test("random_schedules::")?;
    let program = target.join("debug").join(format!("zipwire{}", std::env::consts::EXE_SUFFIX));
    for page in patched {
        run_scenario(page, &folder, &program)?;
    }
    codec_outside(&folder, &tree, &target)?;
    Ok(Completion::Completed)
}

/// Runs the scenario of a page, simulated and on threads.
fn run_scenario(page: &str, folder: &Path, program: &Path) -> Result<(), Failed> {
    let file = folder.join(format!("{page}.toml"));
    fs::write(&file, blocks(page, "toml").concat())?;
    let out = folder.join("out").join(page);
    let arguments = ["run", file.to_str().unwrap(), "--on", "sim,threads", "--out", out.to_str().unwrap()];
    output_of(program, &arguments)?;
    let summary: Value = serde_json::from_str(&fs::read_to_string(out.join("summary.json"))?).unwrap();
    delivers_in_another_way(page, &summary)
}

/// Builds the program of the page on codecs as a crate outside of the tree, and uses its codec by the command line.
fn codec_outside(folder: &Path, tree: &Path, target: &Path) -> Result<(), Failed> {
    let own = folder.join("own-codec");
    fs::create_dir_all(own.join("src"))?;
    fs::write(own.join("src/main.rs"), blocks("codec", "rust,no_run").concat())?;
    // With the profiles of the tree, so that what is built is taken.
    let mut manifest = format!(
        "[package]\nname = \"own-codec\"\nedition = \"2024\"\n\n[dependencies]\nzipwire = {{ path = {:?} }}\n\n[workspace]\n",
        tree.to_str().unwrap()
    );
    let mut is_profile = false;
    for line in fs::read_to_string(tree.join("Cargo.toml"))?.lines() {
        is_profile = if line.starts_with('[') { line.starts_with("[profile.") } else { is_profile };
        if is_profile {
            manifest += &format!("{line}\n");
        }
    }
    fs::write(own.join("Cargo.toml"), manifest)?;
    // The same versions, which are here.
    fs::copy(tree.join("Cargo.lock"), own.join("Cargo.lock"))?;
    let output = Command::new(env!("CARGO"))
        .args(["build", "--offline"])
        .current_dir(&own)
        .env("CARGO_TARGET_DIR", target)
        .output()?;
    succeeded("cargo build of a crate outside", &output)?;
    let program = target.join("debug").join(format!("own-codec{}", std::env::consts::EXE_SUFFIX));
    let table = output_of(&program, &["bench", "codec", "--codec", "raw,trim", "--json"])?;
    assert!(table.contains("\"trim\""), "{table}");
    run_scenario("codec", folder, &program)
}

/// Output of a program that must succeed.
fn output_of(program: &Path, arguments: &[&str]) -> Result<String, Failed> {
    let output = Command::new(program).args(arguments).env("NO_COLOR", "1").output()?;
    succeeded(&format!("{} {}", program.display(), arguments.join(" ")), &output)?;
    Ok(String::from_utf8(output.stdout)?)
}

/// All that arrives is what was sent, all variants deliver the same, and no two have the same plan: the example is not an old
/// thing under a new name.
fn delivers_in_another_way(page: &str, summary: &Value) -> Result<(), Failed> {
    let variants = summary["executors"]["threads"].as_object().unwrap();
    assert!(!variants.is_empty(), "{page}: {summary}");
    let (mut digests, mut delivered) = (Vec::new(), Vec::new());
    for (name, result) in variants {
        if result["verified"] != true {
            return Err(format!("{page}: `{name}` is not verified").into());
        }
        let digest = result["plan_digest"].as_str().unwrap();
        if digests.contains(&digest) {
            return Err(format!("{page}: `{name}` has the plan of another variant").into());
        }
        digests.push(digest);
        delivered.push(&result["bytes_raw"]);
    }
    if delivered.iter().any(|bytes| !bytes.is_u64() || *bytes != delivered[0]) {
        return Err(format!("{page}: variants deliver {delivered:?} bytes").into());
    }
    Ok(())
}

/// Copies what git tracks, or what lies here and is no result, to an empty folder.
fn copy_tree(to: &Path) -> Result<(), Failed> {
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(root()).output();
    let names: Vec<PathBuf> = match listed {
        Ok(output) if output.status.success() && !output.stdout.is_empty() => {
            String::from_utf8(output.stdout).unwrap().split_terminator('\0').map(PathBuf::from).collect()
        }
        _ => walk(Path::new(""))?,
    };
    for name in names.iter().filter(|name| root().join(name).is_file()) {
        fs::create_dir_all(to.join(name).parent().unwrap())?;
        fs::copy(root().join(name), to.join(name))?;
    }
    Ok(())
}

fn walk(folder: &Path) -> Result<Vec<PathBuf>, Failed> {
    let mut names = Vec::new();
    for entry in fs::read_dir(root().join(folder))? {
        let name = folder.join(entry?.file_name());
        if ["target", "out", ".git"].map(Path::new).contains(&name.as_path()) {
            continue;
        }
        if root().join(&name).is_dir() { names.extend(walk(&name)?) } else { names.push(name) }
    }
    Ok(names)
}
