//! Jobs that the program starts by itself, as for a user, in which a rank is killed, ends or stalls.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::Installed;

/// How often ranks are killed, ended and stalled: a few times in a short test, hundreds of times in a long one.
const COUNT: &str = "ZIPWIRE_TEST_MPI_FAILURES";
/// The first seed.
const SEED: &str = "ZIPWIRE_SEED";
/// Tells processes of one run from all others of the machine.
const MARK: &str = "ZIPWIRE_TEST_MARK";
/// A scenario of six ranks that runs for long.
const SCENARIO: &str = "scenarios/smoke/protocols-2x3.toml";
const RANKS: u32 = 6;
/// How long nothing may happen before ranks give up, in these tests.
const STALL: &str = "4 s";
/// No run takes longer to end.
const DEADLINE: Duration = Duration::from_secs(60);

pub(crate) fn count() -> u32 {
    std::env::var(COUNT).ok().and_then(|count| count.parse().ok()).unwrap_or(6)
}

/// Failure of a rank.
#[derive(Clone, Copy, Debug)]
enum Blow {
    Killed,
    /// Its process ends with an exit code, and does not end MPI.
    Ended,
    Stopped,
}

impl Blow {
    const ALL: [Self; 3] = [Self::Killed, Self::Ended, Self::Stopped];

    fn signal(self) -> &'static str {
        match self {
            Self::Killed => "-KILL",
            // Of the script that the launcher takes for the rank.
            Self::Ended => "-USR1",
            Self::Stopped => "-STOP",
        }
    }
}

fn command(installed: &Installed, arguments: &[&str], out: &Path, mark: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zipwire"));
    command
        .args(["run"])
        .args(arguments)
        .arg("--out")
        .arg(out)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("ZIPWIRE_MPI_LIB", installed.libraries())
        .env(MARK, mark)
        .env("NO_COLOR", "1");
    command
}

/// The table of both executors, with all verified, and the files of both.
pub(crate) fn quickstart(installed: &Installed, _: u32) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let arguments = ["scenarios/quickstart.toml", "--on", "sim,mpi", "--set", "workload.model.hidden=256"];
    let output = command(installed, &arguments, folder.path(), "quickstart").output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let verified = text.lines().filter(|line| line.trim_end().ends_with(" yes")).count();
    let files: Vec<String> = names(folder.path())?;
    let timelines = |executor: &str| files.iter().filter(|name| name.starts_with(executor)).count();
    if output.status.success()
        && verified >= 2
        && timelines("mpi") == verified
        && timelines("sim") == verified
    {
        return Ok(());
    }
    Err(format!("{files:?}\n{text}\n{}", String::from_utf8_lossy(&output.stderr)).into())
}

/// Requests are served by processes as simulated, with every byte verified.
pub(crate) fn serves(installed: &Installed, _: u32) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let model = r#"workload.model={ preset = "llama3-8b", layers = 2 }"#;
    let arguments = ["scenarios/serving/paced.toml", "--on", "sim,mpi", "--set", model];
    let output = command(installed, &arguments, folder.path(), "serving-paced").output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let verified = text.lines().filter(|line| line.trim_end().ends_with(" yes")).count();
    let summary = std::fs::read(folder.path().join("summary.json")).unwrap_or_default();
    let summary: serde_json::Value = serde_json::from_slice(&summary).unwrap_or_default();
    let finished = |executor: &str| summary["executors"][executor]["tiered"]["requests"]["finished"].as_u64();
    if output.status.success() && verified == 3 && finished("mpi") == Some(20) && finished("sim") == Some(20)
    {
        return Ok(());
    }
    Err(format!("{verified} verified\n{text}\n{}", String::from_utf8_lossy(&output.stderr)).into())
}

/// The machine is said to have the library, and its launcher.
pub(crate) fn doctor(installed: &Installed, _: u32) -> Result<(), Failed> {
    let mut doctor = Command::new(env!("CARGO_BIN_EXE_zipwire"));
    let output = doctor.args(["doctor", "--json"]).env("ZIPWIRE_MPI_LIB", installed.libraries()).output()?;
    let all: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout)?;
    let is_found = |part| all.iter().any(|finding| finding["part"] == part && finding["found"] == true);
    let names = |path: &Path| {
        all.iter().any(|finding| finding["what"].to_string().contains(&path.display().to_string()))
    };
    if is_found("MPI") && is_found("mpi") && names(&installed.launcher()) {
        return Ok(());
    }
    Err(format!("{all:#?}").into())
}

/// Probes measure plausible constants, and a scenario takes the file that they write.
pub(crate) fn probes(installed: &Installed, ranks: u32) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("hosts.toml");
    let mut probe = super::jobs::launcher(installed, ranks)?;
    probe.arg(env!("CARGO_BIN_EXE_zipwire")).args(["calibrate", "probe", "--json", "--codec", "window7"]);
    probe.args(["--gpus-per-node", &ranks.to_string(), "-o"]).arg(&file);
    let output = probe.output()?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let measured: serde_json::Value = serde_json::from_slice(&output.stdout).map_err(|_| errors.clone())?;
    let number = |path: &str| measured.pointer(path).and_then(serde_json::Value::as_f64).unwrap_or(0.0);
    // Any machine of these years copies more than 100 MB and less than 10 TB in a second.
    let rates = [
        "/intra/line/bytes_per_s",
        "/codecs/0/encode/bytes_per_s",
        "/codecs/0/decode/bytes_per_s",
        "/reduce_bytes_per_s",
    ];
    if let Some(rate) = rates.iter().find(|rate| !(1e8..1e13).contains(&number(rate))) {
        return Err(format!("{rate} is {}\n{errors}", number(rate)).into());
    }
    let mut run = Command::new(env!("CARGO_BIN_EXE_zipwire"));
    run.args(["scenario", "check", "scenarios/smoke/all-to-all-equal-2x4.toml", "--set"]);
    run.arg(format!("cluster={{ file = \"{}\", nodes = 1, gpus_per_node = 8 }}", file.display()));
    let checked = run.current_dir(env!("CARGO_MANIFEST_DIR")).output()?;
    if checked.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&checked.stderr).into_owned().into())
}

/// A scenario is predicted with constants that probes measure just before, and both timelines are written.
pub(crate) fn validation(installed: &Installed, _: u32) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_zipwire"));
    command.args(["validate", "scenarios/smoke/broadcast-pair-1x2.toml", "--on", "mpi", "--json", "--out"]);
    command.arg(folder.path()).current_dir(env!("CARGO_MANIFEST_DIR"));
    let output = command.env("ZIPWIRE_MPI_LIB", installed.libraries()).output()?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).map_err(|_| errors.clone())?;
    let variants = report["variants"].as_object().ok_or("there are no variants")?;
    let is_time = |value: &serde_json::Value| value.as_f64().is_some_and(|seconds| seconds > 0.0);
    let are_times = variants.values().all(|it| is_time(&it["predicted_s"]) && is_time(&it["measured_s"]));
    let files = names(folder.path())?;
    let timelines = |executor: &str| files.iter().filter(|name| name.starts_with(executor)).count();
    let are_written = timelines("sim") == variants.len() && timelines("mpi") == variants.len();
    if output.status.success() && !variants.is_empty() && are_times && are_written {
        return Ok(());
    }
    Err(format!("{report}\n{files:?}\n{errors}").into())
}

fn names(folder: &Path) -> Result<Vec<String>, Failed> {
    let name = |entry: std::io::Result<fs::DirEntry>| Ok(entry?.file_name().to_string_lossy().into_owned());
    fs::read_dir(folder)?.map(name).collect()
}

/// A launcher that starts another number of processes than the scenario has ranks.
pub(crate) fn other_number(installed: &Installed, processes: u32) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let mut launcher = super::jobs::launcher(installed, processes)?;
    launcher.arg(env!("CARGO_BIN_EXE_zipwire")).args(["run", SCENARIO, "--on", "mpi", "--out"]);
    let output = launcher.arg(folder.path().join("out")).current_dir(env!("CARGO_MANIFEST_DIR")).output()?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let says = errors.contains("the scenario has 6 ranks, and 3 processes were started");
    if says && output.status.code() == Some(2) && names(folder.path())?.is_empty() {
        return Ok(());
    }
    Err(format!("{:?}: {errors}", output.status).into())
}

/// A rank is killed, crashes or stalls at a random moment: it is named, all others end, and nothing is left.
pub(crate) fn random(installed: &Installed, count: u32) -> Result<(), Failed> {
    let seed: u64 = std::env::var(SEED).ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    for run in 0..count {
        let mut random = ChaCha8Rng::seed_from_u64(seed + u64::from(run));
        let victim = random.random_range(0..RANKS);
        let blow = Blow::ALL[run as usize % Blow::ALL.len()];
        let pause = Duration::from_millis(random.random_range(0..1500));
        let said = strike(installed, victim, blow, pause, &format!("{}-{run}", std::process::id()));
        said.map_err(|error| {
            let what = error.message().unwrap_or("no message").to_owned();
            format!("run {run} with seed {seed}, rank {victim} {blow:?} after {pause:?}: {what}")
        })?;
    }
    Ok(())
}

fn strike(installed: &Installed, victim: u32, blow: Blow, pause: Duration, mark: &str) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let out = folder.path().join("out");
    let arguments = [SCENARIO, "--on", "mpi", "--set", "iterations=2000", "--stall", STALL];
    let mut started = command(installed, &arguments, &out, mark);
    if matches!(blow, Blow::Ended) {
        let launcher = super::jobs::words(installed, "{ranks}")?.join(" ");
        started.args(["--launcher", &format!("{launcher} sh tests/mpi/ends.sh")]);
    }
    let mut child = started.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let struck = rank_of(mark, victim).and_then(|process| {
        std::thread::sleep(pause);
        let target = if matches!(blow, Blow::Ended) { parent(process)? } else { process };
        let killed = Command::new("kill").args([blow.signal(), &target.to_string()]).status()?;
        if killed.success() { Ok(()) } else { Err("the rank has ended before".into()) }
    });
    let output = finish(&mut child).inspect_err(|_| end_all(mark))?;
    struck?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    // Of a rank that stalls others report; of one that is gone the launcher does.
    let names = [format!("rank {victim} (process "), format!("rank {victim} is to blame")];
    let first = errors.lines().find(|line| line.starts_with("error: ")).unwrap_or_default().to_owned();
    if !names.iter().any(|name| first.contains(name)) {
        return Err(format!("it is not named: {errors}").into());
    }
    if output.status.code() != Some(1) {
        return Err(format!("{:?}: {errors}", output.status).into());
    }
    nothing_left(mark, folder.path())
}

/// A rank that ends or stops before MPI connects it with the others: it is named, and all end.
pub(crate) fn absent(installed: &Installed, _: u32) -> Result<(), Failed> {
    for how in ["ends", "stops"] {
        let (folder, mark) = (tempfile::tempdir()?, format!("{}-{how}", std::process::id()));
        let arguments = [SCENARIO, "--on", "mpi", "--stall", STALL];
        let mut started = command(installed, &arguments, &folder.path().join("out"), &mark);
        let launcher = super::jobs::words(installed, "{ranks}")?.join(" ");
        started.args(["--launcher", &format!("{launcher} sh tests/mpi/absent.sh {how}")]);
        let mut child = started.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let output = finish(&mut child).inspect_err(|_| end_all(&mark))?;
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.code() != Some(1) || !errors.contains("rank 1 had not come up") {
            return Err(format!("{how}: {:?}: {errors}", output.status).into());
        }
        nothing_left(&mark, folder.path())?;
    }
    Ok(())
}

/// The process that has started a process.
fn parent(process: u32) -> Result<u32, Failed> {
    let text = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("PPid:")).ok_or("it has no parent")?;
    Ok(line.trim().parse()?)
}

/// Waits for the program to end, and reads what it wrote.
fn finish(child: &mut Child) -> Result<Output, Failed> {
    let mut pipes: (Vec<u8>, Vec<u8>) = Default::default();
    let (mut out, mut err) = (child.stdout.take(), child.stderr.take());
    let status = std::thread::scope(|scope| {
        scope.spawn(|| out.as_mut().map(|pipe| pipe.read_to_end(&mut pipes.0)));
        scope.spawn(|| err.as_mut().map(|pipe| pipe.read_to_end(&mut pipes.1)));
        let begin = Instant::now();
        loop {
            match child.try_wait() {
                Ok(None) if begin.elapsed() < DEADLINE => std::thread::sleep(Duration::from_millis(20)),
                Ok(Some(status)) => break Some(status),
                _ => {
                    // Or the threads wait for ever.
                    let _ = child.kill();
                    break None;
                }
            }
        }
    });
    let status = status.ok_or("the program does not end")?;
    Ok(Output { status, stdout: pipes.0, stderr: pipes.1 })
}

/// Ends what a failed test has left.
fn end_all(mark: &str) {
    for (process, _) in processes(mark) {
        // It may just have ended.
        let _ = Command::new("kill").args(["-KILL", &process.to_string()]).status();
    }
}

/// No process of the run is left, and no file.
fn nothing_left(mark: &str, folder: &Path) -> Result<(), Failed> {
    let begin = Instant::now();
    // Launchers end a moment after those who wait for them.
    while !processes(mark).is_empty() && begin.elapsed() < Duration::from_secs(5) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let left = processes(mark);
    if !left.is_empty() {
        return Err(format!("processes are left: {left:?}").into());
    }
    let files = names(folder)?;
    if files.is_empty() { Ok(()) } else { Err(format!("files are left: {files:?}").into()) }
}

/// The process of a rank, once it runs something: what it is doing is in a file.
fn rank_of(mark: &str, rank: u32) -> Result<u32, Failed> {
    let begin = Instant::now();
    while begin.elapsed() < DEADLINE {
        let all = processes(mark);
        let variables = all.iter().flat_map(|(_, variables)| variables);
        let folder = variables.filter_map(|variable| variable.strip_prefix("ZIPWIRE_STATUS=")).next();
        let file = folder.map(|folder| PathBuf::from(folder).join(format!("rank-{rank}.status")));
        let text = file.and_then(|file| fs::read_to_string(file).ok()).unwrap_or_default();
        let process = text.split(' ').next().and_then(|process| process.parse().ok());
        if let Some(process) = process.filter(|_| text.contains("iteration")) {
            return Ok(process);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err("the rank does not begin".into())
}

/// Processes with this mark in their environments, with what is in these; only programs, as what is a moment old is its parent's copy.
fn processes(mark: &str) -> Vec<(u32, Vec<String>)> {
    let mark = format!("{MARK}={mark}");
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let of = |entry: fs::DirEntry| {
        let process: u32 = entry.file_name().to_str()?.parse().ok()?;
        let environment = fs::read(entry.path().join("environ")).ok()?;
        let variables: Vec<String> = environment
            .split(|byte| *byte == 0)
            .map(|variable| String::from_utf8_lossy(variable).into_owned())
            .collect();
        variables.contains(&mark).then_some((process, variables))
    };
    entries.filter_map(of).collect()
}

/// Ctrl-C at the program that has started the ranks.
pub(crate) fn stopped(installed: &Installed, _: u32) -> Result<(), Failed> {
    let (folder, mark) = (tempfile::tempdir()?, format!("{}-stopped", std::process::id()));
    let arguments = [SCENARIO, "--on", "mpi", "--set", "iterations=2000"];
    let mut child = command(installed, &arguments, &folder.path().join("out"), &mark)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let begun = rank_of(&mark, 1);
    Command::new("kill").args(["-INT", &child.id().to_string()]).status()?;
    let output = finish(&mut child)?;
    begun?;
    if output.status.code() != Some(130) {
        return Err(format!("{:?}: {}", output.status, String::from_utf8_lossy(&output.stderr)).into());
    }
    nothing_left(&mark, folder.path())
}
