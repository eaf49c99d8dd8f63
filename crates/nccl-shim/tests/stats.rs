//! The library in front of a NCCL that writes down each call: every call goes on as it came, and is a line of the journal.
#![cfg(target_os = "linux")]

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use common::{compiler, library, run};

/// A folder with a NCCL that writes calls down, and a program that is linked to it.
struct Bench(TempDir);

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("there is a folder for temporary files");
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
        let nccl = folder.path().join("libnccl.so.2");
        run(compiler()
            .args(["-O1", "-shared", "-fPIC", "-Wl,-soname,libnccl.so.2", "-o"])
            .arg(&nccl)
            .arg(sources.join("recorder.c")));
        run(compiler()
            .args(["-O1", "-pthread", "-o"])
            .arg(folder.path().join("calls"))
            .arg(sources.join("calls.c"))
            .arg(&nccl)
            .arg("-Wl,-rpath,$ORIGIN"));
        Self(folder)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn calls(&self, what: &str) -> Command {
        let mut command = Command::new(self.path().join("calls"));
        command.arg(what).current_dir(self.path());
        command
    }

    fn with_library(&self, what: &str, mode: &str) -> Command {
        let mut command = self.calls(what);
        command.env("LD_PRELOAD", library()).env("ZIPWIRE_NCCL", mode);
        command
    }

    /// A program that opens a library for itself.
    fn opener(&self) -> PathBuf {
        let program = self.path().join("opened");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/opened.c");
        run(compiler().arg("-o").arg(&program).arg(source).arg("-ldl"));
        program
    }

    /// All journals, by name.
    fn journals(&self) -> Vec<Vec<Value>> {
        let names = fs::read_dir(self.path()).expect("the folder is there");
        let mut names: Vec<PathBuf> = names.map(|entry| entry.expect("it can be read").path()).collect();
        names.sort();
        let is_journal = |path: &&PathBuf| path.to_string_lossy().contains("jsonl");
        let lines = |path: &PathBuf| {
            let text = fs::read_to_string(path).expect("it can be read");
            text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
        };
        names.iter().filter(is_journal).map(lines).collect()
    }
}

fn names(text: &str) -> BTreeSet<&str> {
    text.lines().filter(|line| !line.starts_with('#')).collect()
}

fn exports() -> BTreeSet<String> {
    let listed = run(Command::new("nm").args(["-D", "--defined-only"]).arg(library()));
    let listed = String::from_utf8(listed.stdout).expect("names are text");
    listed.lines().filter_map(|line| line.split_whitespace().last()).map(str::to_owned).collect()
}

#[test]
fn exports_are_names_of_nccl() {
    let of_nccl = names(include_str!("libnccl.txt"));
    let exports = exports();
    assert!(exports.len() > 20, "{exports:?}");
    let others: Vec<&String> = exports.iter().filter(|name| !of_nccl.contains(name.as_str())).collect();
    assert!(others.is_empty(), "NCCL has no {others:?}");
    // Whatever PyTorch imports is in NCCL or here.
    let of_torch = names(include_str!("torch.txt"));
    assert_eq!(of_torch.len(), 51);
    assert!(of_torch.is_subset(&of_nccl));
}

#[test]
fn every_export_goes_on_as_it_came() {
    let bench = Bench::new();
    let plain = String::from_utf8(run(&mut bench.calls("all")).stdout).unwrap();
    let called: BTreeSet<String> =
        plain.lines().filter_map(|line| Some(format!("nccl{}", line.split_once(' ')?.0))).collect();
    assert_eq!(called, exports(), "the program calls each");
    for mode in ["", "off", "stats", "on", "wrong"] {
        let output = run(&mut bench.with_library("all", mode));
        assert_eq!(String::from_utf8(output.stdout).unwrap(), plain, "mode {mode}");
        let told = String::from_utf8(output.stderr).unwrap();
        let lines = usize::from(!["", "off"].contains(&mode));
        assert_eq!(told.lines().count(), lines, "mode {mode}: {told}");
        assert_eq!(told.contains("`sync`"), ["on", "wrong"].contains(&mode), "mode {mode}: {told}");
    }
    assert_eq!(bench.journals().len(), 1, "in mode stats only");
}

#[test]
fn each_call_is_a_line() {
    let bench = Bench::new();
    run(bench.with_library("all", "stats").env("ZIPWIRE_NCCL_ASSUME", "bf16").env("RANK", "3"));
    let journals = bench.journals();
    let [journal] = &journals[..] else { panic!("{journals:?}") };
    let (first, last) = (&journal[0], journal.last().unwrap());
    assert_eq!(
        (&first["zipwire_nccl"], &first["rank"], &first["kind"]),
        (&1.into(), &3.into(), &"start".into())
    );
    assert_eq!((&last["kind"], &last["lost"]), (&"end".into(), &0.into()));
    assert_eq!(last["lines"], journal.len());
    assert_eq!(last["ops"]["send"]["bytes"], 4_194_304);
    let ops: Vec<&Value> = journal.iter().filter(|line| line["kind"] == "op").collect();
    let names: Vec<&str> = ops.iter().map(|line| line["op"].as_str().unwrap()).collect();
    let expected =
        "all_gather all_reduce reduce_scatter reduce broadcast bcast all_to_all gather scatter send recv";
    assert_eq!(names.join(" "), expected);
    let op = |name: &str| ops[names.iter().position(|known| *known == name).unwrap()];
    let (gather, reduce, send, recv) = (op("all_gather"), op("reduce"), op("send"), op("recv"));
    assert_eq!((&gather["bytes"], &gather["dtype"]), (&(2 << 20).into(), &"bfloat16".into()));
    assert_eq!(
        (&gather["stream"], &gather["rank"], &gather["nranks"]),
        (&"0xd".into(), &1.into(), &4.into())
    );
    assert_eq!((&gather["eligible"], &send["eligible"]), (&false.into(), &true.into()));
    assert_eq!((&reduce["redop"], &reduce["root"], &reduce["count"]), (&"max".into(), &3.into(), &43.into()));
    assert_eq!((&send["group"], &send["peer"], &recv["group"]), (&1.into(), &2.into(), &1.into()));
    assert_eq!((&recv["dtype"], &recv["bytes"]), (&99.into(), &0.into()));
    assert!(gather.get("group").is_none());
    let lives: Vec<&Value> = journal.iter().filter(|line| line["kind"] == "comm").collect();
    let names: Vec<&str> = lives.iter().map(|line| line["op"].as_str().unwrap()).collect();
    let expected = "comm_init_rank comm_split comm_init_rank_config comm_init_rank_scalable comm_shrink comm_grow comm_init_all comm_abort comm_destroy";
    assert_eq!(names.join(" "), expected);
    assert_eq!(lives[0]["comm"], lives[2]["comm"], "one unique id is one name");
    assert_eq!(lives[1]["parent"], lives[0]["comm"]);
    assert_ne!(lives[1]["comm"], lives[0]["comm"]);
}

#[test]
fn communicators_that_are_not_made_are_not_looked_for() {
    let bench = Bench::new();
    run(&mut bench.with_library("simulated", "stats"));
    run(bench.with_library("failed", "stats").env("RECORDER_RESULT", "CommInitRank:4"));
    assert!(bench.journals().is_empty(), "nothing was made or called");
}

#[test]
fn communicators_that_do_not_block_are_asked_when_they_are_used() {
    let bench = Bench::new();
    let output = run(bench.with_library("progress", "stats").env("RECORDER_RESULT", "CommInitRankConfig:7"));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(!told.contains("before it is made") && told.lines().count() == 1, "{told}");
    let journals = bench.journals();
    let lines: Vec<&Value> = journals[0].iter().filter(|line| line.get("comm").is_some()).collect();
    let ops: Vec<&str> = lines.iter().map(|line| line["op"].as_str().unwrap()).collect();
    assert_eq!(ops.join(" "), "comm_init_rank_config comm_abort comm_init_rank_config all_reduce all_reduce");
    assert!(lines.iter().all(|line| line["comm"] == lines[0]["comm"] && !line["comm"].is_null()));
    // The writer may come to the line of a beginning when the first call has been made.
    assert!(lines[1]["rank"].is_null());
    assert_eq!((&lines[4]["rank"], &lines[4]["nranks"]), (&1.into(), &4.into()));
}

#[test]
fn children_and_threads_have_their_lines() {
    let bench = Bench::new();
    let path = "journal.jsonl";
    run(bench.with_library("fork", "stats").env("ZIPWIRE_NCCL_LOG", path).env("RECORDER_QUIET", "1"));
    let journals = bench.journals();
    assert_eq!(journals.len(), 2, "a process and its child");
    for journal in &journals {
        let last = journal.last().unwrap();
        assert_eq!((&last["ops"]["all_reduce"]["calls"], &last["lost"]), (&1000.into(), &0.into()));
        assert_eq!(journal.len(), 1002);
    }
    let bench = Bench::new();
    run(bench.with_library("threads", "stats").env("RECORDER_QUIET", "1"));
    assert_eq!(bench.journals()[0].last().unwrap()["ops"]["all_reduce"]["calls"], 4000);
}

#[test]
fn journals_are_files_of_their_own() {
    let bench = Bench::new();
    run(bench.with_library("1", "stats").env("RANK", "3"));
    let names = fs::read_dir(bench.path()).unwrap().map(|entry| entry.unwrap());
    let journal =
        names.into_iter().find(|entry| entry.file_name().to_string_lossy().contains("jsonl")).unwrap();
    let host = String::from_utf8(run(Command::new("uname").arg("-n")).stdout).unwrap();
    let host = host.trim().split('.').next().unwrap();
    let name = journal.file_name().into_string().unwrap();
    assert!(name.starts_with(&format!("zipwire-nccl.{host}.3.")), "{name}");
    assert_eq!(journal.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    // A link that somebody has laid is not followed.
    let victim = bench.path().join("victim");
    fs::write(&victim, "text").unwrap();
    symlink(&victim, bench.path().join("link3")).unwrap();
    let output = run(bench.with_library("1", "stats").env("ZIPWIRE_NCCL_LOG", "link%r").env("RANK", "3"));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("no journal"), "{told}");
    assert_eq!(fs::read_to_string(&victim).unwrap(), "text");
}

#[test]
fn a_journal_that_cannot_be_written_stops_nothing() {
    let bench = Bench::new();
    let output = run(bench.with_library("all", "stats").env("ZIPWIRE_NCCL_LOG", "missing/journal"));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("ZIPWIRE_NCCL_LOG") && told.lines().count() == 1, "{told}");
    // Lines that find the queue full are counted, and nobody waits: more calls than the queue has room for, at once.
    let bench = Bench::new();
    run(bench.with_library("200000", "stats").env("RECORDER_QUIET", "1"));
    let journal = &bench.journals()[0];
    let last = journal.last().unwrap();
    assert_eq!(last["ops"]["all_reduce"]["calls"], 200_000);
    let written = journal.iter().filter(|line| line["kind"] == "op").count() as u64;
    assert_eq!(written + last["lost"].as_u64().unwrap(), 200_000);
}

/// A second NCCL would not know the communicators of the first one: what the process has loaded is used, whatever its file is called, and functions
/// that it lacks are not taken from elsewhere.
#[test]
fn a_nccl_that_is_loaded_goes_before_one_that_can_be() {
    let bench = Bench::new();
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let whole = bench.path().join("libwhole.so");
    let flags = ["-O1", "-shared", "-fPIC", "-DOLD", "-DPREFIX=\"whole \"", "-Wl,-soname,libwhole.so", "-o"];
    run(compiler().args(flags).arg(&whole).arg(sources.join("recorder.c")));
    let program = bench.opener();
    let opened = |library: &Path, names: &[&str]| {
        let mut command = Command::new(&program);
        command
            .arg("global")
            .arg(library)
            .args(names)
            .env("LD_PRELOAD", self::library())
            .current_dir(bench.path());
        command.env("LD_LIBRARY_PATH", bench.path());
        String::from_utf8(run(&mut command).stdout).unwrap()
    };
    let names = ["ncclAllReduce", "ncclAlltoAll"];
    assert_eq!(opened(&whole, &names), "whole AllReduce 1 2 3 4 5 6 7 0\n0\n5\n");
    // Without one, the usual one is loaded.
    let other = opened(Path::new("libm.so.6"), &names[..1]);
    assert_eq!(other, "AllReduce 1 2 3 4 5 6 7 0\n0\n");
}

/// Another library in front of NCCL, behind this one, gets its calls.
#[test]
fn a_second_library_in_front_of_nccl_is_not_left_out() {
    let bench = Bench::new();
    let second = bench.path().join("libsecond.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/second.c");
    run(compiler().args(["-shared", "-fPIC", "-o"]).arg(&second).arg(source).arg("-ldl"));
    let both = format!("{}:{}", library().display(), second.display());
    let output = run(bench.with_library("progress", "off").env("LD_PRELOAD", both));
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.matches("second\nAllReduce").count(), 2, "{text}");
}

/// vLLM opens NCCL with `ctypes.CDLL(VLLM_NCCL_SO_PATH)` and asks this handle for functions: then NCCL's own must be found in it as well, and
/// a library that only depends on both gives them in the right order.
#[test]
fn a_program_that_opens_it_finds_all_of_nccl() {
    let bench = Bench::new();
    let opened = bench.path().join("libzipwire_nccl_opened.so");
    run(compiler()
        .args(["-shared", "-o"])
        .arg(&opened)
        .arg("-Wl,--no-as-needed")
        .arg(library())
        .arg(bench.path().join("libnccl.so.2"))
        .arg("-Wl,-rpath,$ORIGIN"));
    let program = bench.opener();
    let mut command = Command::new(&program);
    command.arg("handle").arg(&opened).args(["ncclOfTheFuture", "ncclAllReduce"]);
    command.current_dir(bench.path()).env("ZIPWIRE_NCCL", "stats");
    let output = run(&mut command);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "2\nAllReduce 1 2 3 4 5 6 7 0\n0\n");
    let journal = &bench.journals()[0];
    assert_eq!(journal.iter().filter(|line| line["op"] == "all_reduce").count(), 1);
}
