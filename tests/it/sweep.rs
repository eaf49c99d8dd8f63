//! Sweeps as a user meets them: which rows there are, and that neither threads nor interruptions change a byte of them.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tempfile::TempDir;
use zipwire::executors::SIM;
use zipwire::scenarios::{Source, Sweep, open};
use zipwire::sweep::{SweepError, SweepEvent, SweepSetup};
use zipwire::{Cancel, executors};

/// Four ranks; start times are drawn, and sizes are those of real frames.
const SCENARIO: &str = r#"name = "swept"
seed = 3
iterations = 2
[cluster]
nodes = 2
gpus_per_node = 2
gpu_bandwidth = "25 GB/s"
nic_bandwidth = "25 GB/s"
latency_intra = "5 us"
latency_inter = "10 us"
[workload]
kind = "moe"
model = { experts = 8, top_k = 2, hidden = 256, tokens_per_rank = 64 }
routing = { dirichlet = 4.0 }
skew = { base = "10 us" }
payload = { gaussian = 0.02 }
[codec]
id = "window7"
speed = { encode = "180 GB/s", decode = "260 GB/s" }
[[variant]]
name = "native"
[[variant]]
name = "static-first"
protocol = "static-first"
"#;

/// 3 x 2 x 2 points.
const SWEEP: &str = r#"[sweep]
"cluster.nic_bandwidth" = ["5 GB/s", "25 GB/s", "100 GB/s"]
seed = [3, 4]
"variant.static-first.window" = [1, 3]
"#;

/// A scenario in a folder of its own, and the folder `out` beside it.
struct Case {
    folder: TempDir,
}

impl Case {
    fn new(sweep: &str) -> Self {
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("swept.toml"), format!("{SCENARIO}{sweep}")).unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn journal(&self) -> PathBuf {
        self.path("out/sweep.partial.jsonl")
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zipwire"));
        command.arg("run").arg(self.path("swept.toml")).arg("--out").arg(self.path("out"));
        command.args(args).env("NO_COLOR", "1");
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Contents of the files of a sweep that has ended.
    #[track_caller]
    fn files(&self) -> (String, String) {
        let read = |name: &str| fs::read_to_string(self.path("out").join(name)).unwrap();
        assert!(!self.journal().exists(), "the journal goes when the files are there");
        (read("summary.json"), read("sweep.csv"))
    }

    fn sweep(&self) -> Sweep {
        open(&Source::read(&self.path("swept.toml")).unwrap(), &[], None).unwrap().into_sweep().unwrap()
    }

    /// Runs the sweep in this process until `most` points have ended; gives what was there before.
    fn run_until(&self, most: usize) -> (Result<(), SweepError>, SweepEvent<'static>) {
        let (sweep, folder, cancel) = (self.sweep(), self.path("out"), Cancel::new());
        let setup = SweepSetup {
            sweep: &sweep,
            executors: &[SIM],
            variants: &[],
            jobs: 1,
            folder: &folder,
            timelines: false,
            explains: true,
            fresh: false,
            memory: None,
            verifies: true,
            folds: true,
            shown: 0,
        };
        let (ended, begun) = (AtomicUsize::new(0), Mutex::new(None));
        let run = zipwire::sweep::run(&setup, &cancel, &|event| match event {
            SweepEvent::Begun { done, dropped, damaged } => {
                *begun.lock().unwrap() = Some(SweepEvent::Begun { done, dropped, damaged });
            }
            SweepEvent::Found(_) => {}
            SweepEvent::Ended(_) => {
                if ended.fetch_add(1, Ordering::Relaxed) + 1 == most {
                    cancel.cancel();
                }
            }
        });
        (run.map(|_| ()), begun.into_inner().unwrap().expect("the sweep has begun"))
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[track_caller]
fn expect(output: &Output, code: i32, message: &str) {
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{error}");
    assert!(error.contains(message), "{error}");
}

#[test]
fn rows_are_what_single_runs_give_in_the_order_of_the_sweep() {
    let case = Case::new(SWEEP);
    expect(&case.run(&[]), 0, "all rows are in sweep.csv");
    let (summary, csv) = case.files();
    let summary: Value = serde_json::from_str(&summary).unwrap();
    assert_eq!((&summary["scenario"], &summary["seed"]), (&json!("swept"), &json!(3)));
    let mut rows = summary["rows"].as_array().unwrap().iter();
    let mut lines = csv.lines();
    let header = lines.next().unwrap();
    assert!(header.starts_with(
        "point,cluster.nic_bandwidth,seed,variant.static-first.window,executor,variant,iteration_mean_s,"
    ));
    let column = |line: &str, name: &str| {
        let index = header.split(',').position(|column| column == name).unwrap();
        line.split(',').nth(index).unwrap().to_owned()
    };
    fs::write(case.path("single.toml"), SCENARIO).unwrap();
    let mut point = 0;
    for bandwidth in ["5 GB/s", "25 GB/s", "100 GB/s"] {
        for seed in [3, 4] {
            for window in [1, 3] {
                point += 1;
                let row = rows.next().unwrap();
                let set = json!({
                    "cluster.nic_bandwidth": bandwidth, "seed": seed, "variant.static-first.window": window,
                });
                assert_eq!(row["set"], set);
                let mut single = Command::new(env!("CARGO_BIN_EXE_zipwire"));
                single.arg("run").arg(case.path("single.toml")).arg("--out").arg(case.path("single"));
                single.args(["--json", "--seed", &seed.to_string()]);
                single.args(["--set", &format!("cluster.nic_bandwidth={bandwidth}")]);
                single.args(["--set", &format!("variant.static-first.window={window}")]);
                let single: Value = serde_json::from_slice(&single.output().unwrap().stdout).unwrap();
                assert_eq!(row["executors"], single["executors"], "{set}");
                for variant in ["native", "static-first"] {
                    let result = &row["executors"]["sim"][variant];
                    let begin = format!(
                        "{point},{bandwidth},{seed},{window},sim,{variant},{},",
                        result["iteration_s"]["mean"]
                    );
                    let line = lines.next().unwrap();
                    assert!(line.starts_with(&begin), "{line}\n{begin}");
                    for amount in ["received", "compute", "wait"] {
                        for key in ["max_over_mean", "gini"] {
                            let number = &result["imbalance"][amount][key];
                            assert!(number.is_number());
                            assert_eq!(column(line, &format!("{amount}_{key}")), number.to_string());
                        }
                    }
                    assert!(line.ends_with(&format!(",{},,,", result["plan_digest"].as_str().unwrap())));
                }
            }
        }
    }
    assert!(rows.next().is_none() && lines.next().is_none());
}

#[test]
fn the_number_of_threads_changes_no_byte() {
    let files = |jobs: &str, rayon: &str| {
        let case = Case::new(SWEEP);
        let output =
            case.command(&["--jobs", jobs, "--json"]).env("RAYON_NUM_THREADS", rayon).output().unwrap();
        expect(&output, 0, "");
        let files = case.files();
        assert_eq!(text(&output.stdout), files.0);
        files
    };
    let serial = files("1", "1");
    assert_eq!(files("4", "3"), serial);
    assert_eq!(files("12", "1"), serial);
}

#[test]
fn an_interrupted_sweep_goes_on_where_it_was() {
    let whole = Case::new(SWEEP);
    whole.run_until(usize::MAX).0.unwrap();
    let case = Case::new(SWEEP);
    let mut done = 0;
    // In three parts: 5 points, 4 more, and the rest.
    for part in [5, 4] {
        let (stopped, begun) = case.run_until(part);
        assert_eq!(begun, SweepEvent::Begun { done, dropped: false, damaged: 0 });
        done += part;
        let stopped = stopped.unwrap_err();
        assert!(matches!(stopped, SweepError::Stopped { done: now, of: 12, .. } if now == done));
        let message = stopped.to_string();
        assert!(
            message.contains(&format!("{done} of 12 points")) && message.contains("goes on"),
            "{message}"
        );
        assert_eq!(fs::read_dir(case.path("out")).unwrap().count(), 1, "nothing but the journal");
    }
    let output = case.run(&["--jobs", "3"]);
    expect(&output, 0, "9 of 12 points were there already");
    assert_eq!(case.files(), whole.files());
}

/// Half a line at the end of the journal, as `kill -9` or a full disk leaves it.
#[test]
fn a_half_written_line_is_dropped() {
    let whole = Case::new(SWEEP);
    whole.run_until(usize::MAX).0.unwrap();
    let case = Case::new(SWEEP);
    case.run_until(4).0.unwrap_err();
    let journal = fs::read_to_string(case.journal()).unwrap();
    let lines: Vec<&str> = journal.split_inclusive('\n').collect();
    assert_eq!(lines.len(), 5, "a header and four points");
    // Torn anywhere: inside the header, at a line's end, and inside a line, also in one that is whole but for its break.
    let torn = |cut: usize| &journal[..journal.len() - cut];
    let last = lines[4].len();
    for (text, done, dropped, damaged) in [
        (torn(1), 3, true, 0),
        (torn(last / 2), 3, true, 0),
        (torn(last - 1), 3, true, 0),
        (torn(last), 3, false, 0),
        (&lines[0][..20], 0, false, 0),
        ("", 0, false, 0),
        (&format!("{journal}{}", "\0".repeat(50)), 4, true, 0),
        (&format!("{journal}{{\"point\":99,\"row\":{{}}}}\n"), 4, false, 1),
    ] {
        fs::write(case.journal(), text).unwrap();
        let (run, begun) = case.run_until(1);
        assert_eq!(begun, SweepEvent::Begun { done, dropped, damaged }, "{text}");
        run.unwrap_err();
        let (run, begun) = case.run_until(1);
        assert_eq!(
            begun,
            SweepEvent::Begun { done: done + 1, dropped: false, damaged },
            "what followed is whole: {text}"
        );
        run.unwrap_err();
    }
    fs::write(case.journal(), torn(7)).unwrap();
    expect(&case.run(&[]), 0, "half-written line, which was dropped");
    assert_eq!(case.files(), whole.files());
}

#[cfg(unix)]
#[test]
fn signals_end_a_sweep_and_lose_nothing() {
    use std::time::{Duration, Instant};

    // Long enough to be interrupted; the points are small.
    let seeds: Vec<String> = (0..400).map(|seed| seed.to_string()).collect();
    let table = format!("[sweep]\nseed = [{}]\niterations = [50, 51]\n", seeds.join(", "));
    let case = Case::new(&table);
    for (signal, code) in [("-INT", Some(130)), ("-KILL", None)] {
        let mut run = case.command(&[]).stderr(std::process::Stdio::piped()).spawn().unwrap();
        let length = || fs::metadata(case.journal()).map_or(0, |file| file.len());
        let (begin, before) = (Instant::now(), length());
        while length() < before + 10_000 && begin.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(2));
        }
        assert!(Command::new("kill").args([signal, &run.id().to_string()]).status().unwrap().success());
        let mut error = String::new();
        std::io::Read::read_to_string(&mut run.stderr.take().unwrap(), &mut error).unwrap();
        assert_eq!(run.wait().unwrap().code(), code, "{error}");
        assert_eq!(error.contains("the same command goes on from there"), code.is_some(), "{error}");
        assert!(length() >= before + 10_000 && !case.path("out/summary.json").exists());
    }
    let (stopped, begun) = case.run_until(1);
    assert!(matches!(begun, SweepEvent::Begun { done: 8.., .. }), "{begun:?}");
    stopped.unwrap_err();
}

#[test]
fn a_sweep_that_stops_before_its_first_point_leaves_nothing() {
    let case = Case::new(SWEEP);
    let (sweep, folder, cancel) = (case.sweep(), case.path("out"), Cancel::new());
    cancel.cancel();
    let setup = SweepSetup {
        sweep: &sweep,
        executors: &[SIM],
        variants: &[],
        jobs: 2,
        folder: &folder,
        timelines: false,
        explains: true,
        fresh: false,
        memory: None,
        verifies: true,
        folds: false,
        shown: 0,
    };
    let stopped = zipwire::sweep::run(&setup, &cancel, &|_| {}).unwrap_err();
    assert!(matches!(stopped, SweepError::Stopped { done: 0, .. }), "{stopped}");
    assert!(!folder.exists());
}

#[test]
fn the_journal_of_another_sweep_is_kept_until_it_is_given_up() {
    let case = Case::new(SWEEP);
    case.run_until(4).0.unwrap_err();
    let journal = fs::read(case.journal()).unwrap();
    let refused = |args: &[&str], what: &str| {
        let output = case.run(args);
        expect(&output, 2, &format!("has 4 points of another sweep: {what} is another one"));
        assert!(text(&output.stderr).contains("`--fresh` drops them"));
        assert_eq!(fs::read(case.journal()).unwrap(), journal);
    };
    refused(&["--set", "iterations=3"], "the scenario, or a file that it names,");
    refused(&["--set", "sweep.seed=[3, 4, 5]"], "the scenario, or a file that it names,");
    refused(&["--variant", "native"], "the list of variants");
    refused(&["--on", "sim,threads"], "the list of executors");
    refused(&["--timelines"], "`--timelines`");
    fs::write(case.journal(), text(&journal).replace("\"version\":\"", "\"version\":\"9.")).unwrap();
    expect(&case.run(&[]), 2, "the version of the program is another one");
    fs::write(case.journal(), "point,seed\n").unwrap();
    for fresh in [&[][..], &["--fresh"]] {
        expect(&case.run(fresh), 2, "is no journal of a sweep");
        assert_eq!(fs::read(case.journal()).unwrap(), b"point,seed\n", "a file of somebody else stays");
    }
    fs::write(case.journal(), "{\"sweep_journal\":\n").unwrap();
    expect(&case.run(&[]), 2, "`--fresh` begins anew");
    expect(&case.run(&["--set", "iterations=3", "--fresh"]), 0, "");
    assert!(case.files().0.contains("\"rows\""));
}

#[test]
fn two_processes_do_not_write_one_journal() {
    let case = Case::new(SWEEP);
    case.run_until(4).0.unwrap_err();
    let other = zipwire::Output::create(&case.path("out")).unwrap();
    expect(&case.run(&["--fresh"]), 2, "another process writes to output folder");
    drop(other);
    expect(&case.run(&[]), 0, "4 of 12 points were there already");
}

#[test]
fn a_point_that_fails_is_in_its_row_and_the_others_go_on() {
    let fault = "[[fault]]\nkind = \"delay\"\nsrc = 0\ndst = 1\nby = \"1 us\"\n\
        [sweep]\n\"fault.0.by\" = [\"1 us\", \"1 s\", \"2 us\"]\n";
    let case = Case::new(fault);
    let output = case.run(&[]);
    expect(&output, 1, "1 of 3 points failed");
    assert!(text(&output.stdout).contains("failed"), "{}", text(&output.stdout));
    let (summary, csv) = case.files();
    let summary: Value = serde_json::from_str(&summary).unwrap();
    for (row, fails) in summary["rows"].as_array().unwrap().iter().zip([false, true, false]) {
        assert_eq!(row["executors"]["sim"]["native"].is_null(), fails, "{row}");
        assert_eq!(row["failed"].is_null(), !fails, "{row}");
    }
    let failed = &summary["rows"][1]["failed"];
    assert_eq!((&failed[0]["executor"], &failed[1]["variant"]), (&json!("sim"), &json!("static-first")));
    assert!(failed[0]["error"].as_str().unwrap().contains("variant `native` on `sim` failed"), "{failed}");
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let errors: Vec<bool> =
        reader.records().map(|line| !line.unwrap().iter().next_back().unwrap().is_empty()).collect();
    assert_eq!(errors, [false, false, true, true, false, false]);
}

/// Errors that only planning shows are found when the point is planned.
#[test]
fn a_point_without_a_plan_is_a_failed_one() {
    let case = Case::new("[sweep]\n\"codec.ratio\" = [1.3, 3.0]\n");
    expect(&case.run(&[]), 1, "1 of 2 points failed");
    assert!(case.files().1.contains("its static sections alone make"), "{}", case.files().1);
    let case = Case::new("[sweep]\n\"codec.ratio\" = [3.0, 1.3]\n");
    expect(&case.run(&[]), 2, "at the first point of the sweep");
    assert!(!case.path("out").exists());
}

#[test]
fn bad_input_is_refused_before_anything_runs() {
    let case = Case::new("[sweep]\n\"cluster.nodes\" = [2, 4, 0]\n");
    let output = case.run(&[]);
    expect(&output, 2, "`cluster.nodes` is out of range: `0`, at point 3 of 3: `cluster.nodes = 0`");
    assert!(text(&output.stderr).contains("swept.toml:26:26"), "{}", text(&output.stderr));
    let sane = Case::new(SWEEP);
    expect(&sane.run(&["--variant", "fast"]), 2, "unknown variant `fast`");
    expect(&sane.run(&["--seed", "9"]), 2, "`--seed` has no effect");
    expect(&sane.run(&["--ranks"]), 2, "`--ranks` has no effect");
    expect(&sane.run(&["--on", "threads", "--jobs", "2"]), 2, "one after the other");
    for executor in executors::ALL.iter().filter(|executor| executor.missing().is_some()) {
        let refusal = format!("`{executor}` is not available here");
        expect(&sane.run(&["--on", executor.name()]), 3, &refusal);
    }
    let ratio = "[sweep]\n\"codec.ratio\" = [1.2, 1.3]\n";
    let text = format!("{SCENARIO}{ratio}").replace("payload = { gaussian = 0.02 }\n", "");
    fs::write(sane.path("swept.toml"), text.replace("[codec]\n", "[codec]\nratio = 1.1\n")).unwrap();
    expect(&sane.run(&["--on", "threads"]), 2, "the scenario states a ratio and no payload");
    assert!(!case.path("out").exists() && !sane.path("out").exists());
    let single = Case::new("");
    for flag in [&["--jobs", "2"][..], &["--fresh"], &["--timelines"]] {
        expect(&single.run(flag), 2, "has no effect: the scenario has no `[sweep]`");
    }
}

#[test]
fn real_ranks_run_point_by_point() {
    let case = Case::new("[sweep]\n\"variant.static-first.window\" = [1, 3]\n");
    expect(&case.run(&["--on", "sim,threads", "--variant", "static-first"]), 0, "");
    let summary: Value = serde_json::from_str(&case.files().0).unwrap();
    for row in summary["rows"].as_array().unwrap() {
        assert_eq!(row["executors"]["threads"]["static-first"]["verified"], true);
        assert_eq!(row["executors"]["sim"]["static-first"]["verified"], Value::Null);
        assert_eq!(row["executors"]["sim"].as_object().unwrap().len(), 1);
    }
}

#[test]
fn timelines_are_written_when_asked_for() {
    let case = Case::new("[sweep]\nseed = [1, 2]\n");
    expect(&case.run(&[]), 0, "");
    let names = fs::read_dir(case.path("out")).unwrap().map(|entry| entry.unwrap().file_name());
    let visible = names.filter(|name| !name.to_string_lossy().starts_with('.')).count();
    assert_eq!(visible, 3, "three files and no timeline");
    expect(&case.run(&["--timelines"]), 0, "");
    let trace = |path: &Path| -> Value { serde_json::from_slice(&fs::read(path).unwrap()).unwrap() };
    for point in [1, 2] {
        let path = case.path(&format!("out/points/{point}/sim-native.trace.json"));
        assert_eq!(trace(&path)["otherData"]["seed"].to_string().trim_matches('"'), point.to_string());
    }
}

/// Frames are encoded once for all points that have the same ones: what the sweep changes here is no part of them.
#[test]
fn points_share_what_they_measured() {
    let measured = |sweep: &str| {
        let case = Case::new(sweep);
        let profile = case.path("profile.json");
        expect(&case.run(&["--jobs", "2", "--profile", profile.to_str().unwrap()]), 0, "");
        let entries: Vec<Value> = serde_json::from_slice(&fs::read(&profile).unwrap()).unwrap();
        let begins = |entry: &&Value| entry["ph"] == "B" && entry["name"] == "measure frame sizes";
        entries.iter().filter(begins).count()
    };
    // Dispatch and combine, in the layout of the only coded variant.
    let shared = "[sweep]\n\"cluster.nic_bandwidth\" = [\"5 GB/s\", \"9 GB/s\"]\n\
        \"codec.speed.encode\" = [\"1 GB/s\", \"9 GB/s\"]\n\"variant.static-first.window\" = [1, 2]\n";
    assert_eq!(measured(shared), 2);
    assert_eq!(measured("[sweep]\nseed = [1, 2, 3]\n"), 6, "chunks are drawn by the seed");
    assert_eq!(measured("[sweep]\n\"workload.payload.gaussian\" = [0.02, 0.03]\n"), 4);
    assert_eq!(measured("[sweep]\n\"codec.id\" = [\"window7\", \"codebook16\", \"tiered\"]\n"), 6);
    assert_eq!(measured("[sweep]\n\"workload.model.hidden\" = [256, 512]\n"), 4);
    assert_eq!(measured("[sweep]\n\"codec.ratio\" = [1.2, 1.3]\n"), 0);
}

#[test]
fn commands_that_take_one_scenario_take_it_without_the_sweep() {
    let case = Case::new(SWEEP);
    let zipwire = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zipwire"));
        let output = command.args(args).arg(case.path("swept.toml")).env("NO_COLOR", "1").output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        (text(&output.stdout), text(&output.stderr))
    };
    let (check, _) = zipwire(&["scenario", "check"]);
    assert!(check.contains("12 points"), "{check}");
    let (check, _) = zipwire(&["scenario", "check", "--json"]);
    let check: Value = serde_json::from_str(&check).unwrap();
    let paths = ["cluster.nic_bandwidth", "seed", "variant.static-first.window"];
    assert_eq!(check["sweep"], json!({ "points": 12, "paths": paths }));
    let (plan, said) = zipwire(&["plan"]);
    assert!(said.contains("without its `[sweep]`"), "{said}");
    let mut file = OpenOptions::new().write(true).truncate(true).open(case.path("swept.toml")).unwrap();
    file.write_all(SCENARIO.as_bytes()).unwrap();
    assert_eq!(zipwire(&["plan"]), (plan, String::new()));
}
