//! Starts the processes of a job, and sees to it that all of them end.

use std::env;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use zipwire::mpi::{launcher, library};
use zipwire::mpi_job::JobError;
use zipwire::{Cancel, Output, STATUS_VARIABLE};

use super::Job;
use super::blocks::Blocks;
use super::obituary::Obituary;
use super::watch::Watch;
use crate::error::CliError;

/// What stands for the number of ranks in `--launcher`.
const RANKS: &str = "{ranks}";
/// How Open MPI moves messages over TCP. Left to itself it lets the receiver's leave to send a long message wait until a message that goes
/// the other way has left, which makes links half duplex: `send` cuts messages up.
const TCP_FLAGS: &str = "OMPI_MCA_btl_tcp_flags";
/// How long a launcher that is asked to end may take to end its processes, before these are killed.
const PATIENCE: Duration = Duration::from_secs(10);

/// Starts this command again as so many processes of one job, and waits until all have ended.
pub(super) fn launch(template: Option<&str>, job: &Job, cancel: &Cancel) -> Result<(), CliError> {
    let ranks = job.ranks;
    let words = match template {
        Some(template) => words_of(template, ranks)?,
        None => default_words(ranks)?,
    };
    let folder = tempfile::tempdir().map_err(CliError::Launch)?;
    let watch = Watch::new(folder.path(), ranks).map_err(CliError::Launch)?;
    let hold = cancel.hold();
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).arg(env::current_exe().map_err(CliError::Launch)?);
    command.args(arguments()).env(STATUS_VARIABLE, folder.path());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let place = job.folder.as_deref().map(Place::look);
    let started = command.spawn().map_err(|error| {
        let program = words[0].to_string_lossy();
        CliError::Usage(format!(
            "cannot start `{program}`: {error}\nhelp: `--launcher \"mpirun -n {RANKS}\"` says how ranks are started"
        ))
    });
    let obituary = wait(started?, watch, folder.path(), cancel);
    let verdict = obituary.verdict(ranks);
    if let (Some(place), Err(_)) = (place, &verdict) {
        place.tidy();
    }
    drop(hold);
    verdict
}

/// An output folder, as it was before the ranks began.
struct Place<'a> {
    folder: &'a Path,
    /// Those on the way to it, itself first, that were not there.
    missing: Vec<&'a Path>,
}

impl<'a> Place<'a> {
    fn look(folder: &'a Path) -> Self {
        let missing = folder.ancestors().take_while(|path| !path.as_os_str().is_empty() && !path.exists());
        Self { folder, missing: missing.collect() }
    }

    /// Removes what a rank that was killed has left half made.
    fn tidy(&self) {
        if self.folder.exists() {
            // What a killed process has left is removed, or brought to its end, by whoever takes over its folder.
            drop(Output::create(self.folder));
        }
        for folder in &self.missing {
            // Succeeds only on empty folders.
            let _ = std::fs::remove_dir(folder);
        }
    }
}

/// A launcher and its options as the user says them, which need no library here: ranks may all be on other hosts.
fn words_of(template: &str, ranks: u32) -> Result<Vec<OsString>, CliError> {
    let count = ranks.to_string();
    let words: Vec<OsString> =
        template.split_whitespace().map(|word| word.replace(RANKS, &count).into()).collect();
    if words.is_empty() { Err(CliError::Usage("`--launcher` is empty".to_owned())) } else { Ok(words) }
}

/// The launcher of the library that is found, and its options.
fn default_words(ranks: u32) -> Result<Vec<OsString>, CliError> {
    let library = library().map_err(JobError::from)?;
    let program = launcher(library).ok_or_else(|| {
        let path = library.path.display();
        CliError::Usage(format!(
            "there is no `mpirun` beside `{path}`, nor in PATH\nhelp: `--launcher \"srun -n {RANKS}\"` names another one"
        ))
    })?;
    let mut words = vec![program.into_os_string(), "-n".into(), ranks.to_string().into()];
    if library.is_open_mpi() {
        // A rank and the thread that keeps its messages moving are two; where ranks share cores, more than one on each is what is wanted.
        words.extend(["--oversubscribe", "--bind-to", "none"].map(OsString::from));
        if env::var_os(TCP_FLAGS).is_none() {
            words.extend(["--mca", "btl_tcp_flags", "send"].map(OsString::from));
        }
        if is_root() {
            words.push("--allow-run-as-root".into());
        }
    }
    Ok(words)
}

/// The arguments of this process, less `--launcher`.
fn arguments() -> Vec<OsString> {
    let mut arguments = Vec::new();
    let mut own = env::args_os().skip(1);
    while let Some(argument) = own.next() {
        let text = argument.to_string_lossy();
        if text == "--launcher" {
            own.next();
        } else if !text.starts_with("--launcher=") {
            arguments.push(argument);
        }
    }
    arguments
}

#[cfg(unix)]
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[cfg(not(unix))]
fn is_root() -> bool {
    false
}

/// Waits for the launcher and passes on what it and the ranks write. When the user wants to stop, asks it to end; when it does not, or
/// leaves processes behind, kills.
fn wait(mut child: Child, mut watch: Watch, folder: &Path, cancel: &Cancel) -> Obituary {
    let stderr = relay(child.stderr.take(), std::io::stderr);
    // MPICH has its notices here.
    let stdout = relay(child.stdout.take(), std::io::stdout);
    let mut asked: Option<Instant> = None;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) => {}
            Err(_) => break None,
        }
        match asked {
            None if cancel.is_cancelled() => {
                asked = Some(Instant::now());
                signal(&child, false);
            }
            Some(since) if since.elapsed() > PATIENCE => {
                signal(&child, true);
                break child.wait().ok();
            }
            _ => {}
        }
        watch.look(folder);
    };
    let seen = watch.end_all();
    let mut obituary = Obituary::new(folder, seen);
    // Ends when nobody has the pipe any more.
    let notices = [stderr, stdout].map(|reader| reader.join().unwrap_or_default().text()).join(" ");
    obituary.heard(status, &notices, asked.is_some());
    obituary
}

/// Passes on what ranks write, and keeps what the launcher does.
fn relay<W: Write + 'static>(pipe: Option<impl Read + Send + 'static>, to: fn() -> W) -> JoinHandle<Blocks> {
    thread::spawn(move || {
        let (mut blocks, mut to) = (Blocks::default(), to());
        let lines = pipe.into_iter().flat_map(|pipe| BufReader::new(pipe).split(b'\n'));
        for mut line in lines.map_while(Result::ok) {
            if blocks.take(&String::from_utf8_lossy(&line)) {
                line.push(b'\n');
                // Whoever does not read misses nothing; the launcher must not wait for it.
                let _ = to.write_all(&line).and_then(|()| to.flush());
            }
        }
        blocks
    })
}

/// Asks the launcher to end, or ends it and what is in its group.
#[cfg(unix)]
fn signal(child: &Child, at_once: bool) {
    use rustix::process::{Pid, Signal, kill_process, kill_process_group};
    let Some(id) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else { return };
    // If it is gone, that is what was wanted.
    let _ = if at_once { kill_process_group(id, Signal::KILL) } else { kill_process(id, Signal::TERM) };
}

#[cfg(not(unix))]
fn signal(_: &Child, _: bool) {}
