//! Starts the processes of a job, passes on what they write, and sees to it that all of them end.

#[cfg(target_os = "linux")]
use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, BufRead, BufReader, PipeReader, Write};
#[cfg(target_os = "linux")]
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

#[cfg(target_os = "linux")]
use rustix::{
    event::{Timespec, epoll},
    fs::{self, FileType, Mode, OFlags},
    process::{Pid, Signal, kill_process},
};
#[cfg(target_os = "linux")]
use zipwire_engine::mpi::alive_file;
use zipwire_engine::mpi::{STATUS_VARIABLE, read_statuses};
use zipwire_mpi::{MpiError, launcher, library};

use super::exit_report::ExitReport;
use crate::{Cancel, Output};

/// Placeholder for the number of ranks in `--launcher`.
const RANKS: &str = "{ranks}";
/// Setting of Open MPI for messages over TCP. By default it lets the receiver's leave to send a long message wait until a message that goes
/// the other way has left, which makes links half duplex: `send` cuts messages up.
const TCP_FLAGS: &str = "OMPI_MCA_btl_tcp_flags";
/// Time that a launcher has to end its processes when it is asked to, before these are killed.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time that processes have to end when their launcher has, before they are killed.
#[cfg(target_os = "linux")]
const RANK_PATIENCE: Duration = Duration::from_secs(3);
/// Interval at which the launcher is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// First words of a launcher's lines that stand in no block.
const NOTICES: [&str; 6] = [
    "mpirun noticed",
    "prterun noticed",
    "YOUR APPLICATION TERMINATED",
    "This typically refers to a problem with your application",
    "Please see the FAQ page for debugging suggestions",
    "[mpiexec@",
];

/// Ranks to start, and the folder that they write to.
#[derive(Clone, Debug)]
pub struct RanksToStart {
    /// Number of ranks.
    pub ranks: u32,
    /// Output folder of rank 0, if it has one.
    pub folder: Option<PathBuf>,
}

/// Ranks were not started, or have not ended well.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "fields are named by the messages")]
#[non_exhaustive]
pub enum StartError {
    #[error("stopped")]
    Stopped,
    /// Rank 0 has ended with this code, and has said why.
    #[error("exit code {0}")]
    Said(u8),
    /// A rank has ended badly, and how.
    #[error("{0}")]
    RanksEnded(String),
    #[error("`--launcher` is empty")]
    EmptyLauncher,
    #[error(
        "there is no `mpirun` beside `{}`, nor in PATH\n\
         help: `--launcher \"srun -n {RANKS}\"` names another one",
        library.display()
    )]
    NoLauncher { library: PathBuf },
    #[error(
        "cannot start `{program}`: {source}\n\
         help: `--launcher \"mpirun -n {RANKS}\"` says how ranks are started"
    )]
    Program { program: String, source: io::Error },
    #[error("cannot start ranks: {0}")]
    Io(#[from] io::Error),
    #[error("cannot start threads: {0}")]
    Threads(io::Error),
    #[error(transparent)]
    Mpi(#[from] MpiError),
}

/// Begin of the line by which rank 0 says that all is done, also on a host whose files cannot be seen from where the job was started.
pub fn attended(ranks: impl Display) -> String {
    format!("{ranks} processes on ")
}

/// Starts the command of this process again as so many processes of one job, and waits until all have ended. `template` is the launcher with its
/// options, in which `{ranks}` is their number; by default the one of the MPI library that is found.
///
/// # Errors
/// If ranks cannot be started, one of them fails, or the user stops them.
pub fn start(template: Option<&str>, job: &RanksToStart, cancel: &Cancel) -> Result<(), StartError> {
    let ranks = job.ranks;
    let words = match template {
        Some(template) => words_of(template, ranks)?,
        None => default_words(ranks)?,
    };
    let folder = tempfile::tempdir()?;
    let watch = Watch::new(folder.path(), ranks)?;
    let hold = cancel.hold();
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).args(program()?);
    command.args(arguments()).env(STATUS_VARIABLE, folder.path());
    // Threads that the system refuses are noticed before any rank is there. The command holds the other ends of both pipes.
    let (errors, stderr) = io::pipe()?;
    let (output, stdout) = io::pipe()?;
    command.stdin(Stdio::null()).stdout(stdout).stderr(stderr);
    let is_done = Arc::new(AtomicBool::new(false));
    let relays = [
        relay(errors, std::io::stderr, Said { ranks, is_done: Arc::clone(&is_done) })?,
        // MPICH has its notices here.
        relay(output, std::io::stdout, Said { ranks, is_done: Arc::clone(&is_done) })?,
    ];
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let place = job.folder.as_deref().map(Place::look);
    let started = command.spawn().map_err(|source| {
        let program = words[0].to_string_lossy().into_owned();
        StartError::Program { program, source }
    });
    drop(command);
    let mut report = wait(started?, watch, folder.path(), cancel);
    // Both end when no process has the pipe any more.
    let notices = relays.map(|relay| relay.join().unwrap_or_default()).concat();
    report.notices = notices.split_whitespace().collect::<Vec<_>>().join(" ");
    report.is_done = is_done.load(Ordering::Relaxed);
    report.launcher = words[0].to_string_lossy().into_owned();
    let verdict = report.verdict(ranks);
    if let (Some(place), Err(_)) = (place, &verdict) {
        place.tidy();
    }
    drop(hold);
    verdict
}

/// An output folder, and which of its ancestors were missing before the ranks began.
struct Place<'a> {
    folder: &'a Path,
    /// Itself first.
    missing: Vec<&'a Path>,
}

impl<'a> Place<'a> {
    fn look(folder: &'a Path) -> Self {
        let missing = folder.ancestors().take_while(|path| !path.as_os_str().is_empty() && !path.exists());
        Self { folder, missing: missing.collect() }
    }

    /// Removes the staged files of a rank that was killed, as the next run would.
    fn tidy(&self) {
        if self.folder.exists() {
            drop(Output::create(self.folder));
        }
        for folder in &self.missing {
            // Succeeds only on empty folders.
            let _ = std::fs::remove_dir(folder);
        }
    }
}

/// The launcher and its options as the user gives them. No library is needed here: ranks may all be on other hosts.
fn words_of(template: &str, ranks: u32) -> Result<Vec<OsString>, StartError> {
    let count = ranks.to_string();
    let words: Vec<OsString> =
        template.split_whitespace().map(|word| word.replace(RANKS, &count).into()).collect();
    if words.is_empty() { Err(StartError::EmptyLauncher) } else { Ok(words) }
}

/// The launcher of the library that is found, and its options.
fn default_words(ranks: u32) -> Result<Vec<OsString>, StartError> {
    let library = library()?;
    let program =
        launcher(library).ok_or_else(|| StartError::NoLauncher { library: library.path.clone() })?;
    let mut words = vec![program.into_os_string(), "-n".into(), ranks.to_string().into()];
    if library.is_open_mpi() {
        // A rank has a second thread that keeps its messages moving, and ranks may share cores.
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

/// Words that start this program, and its arguments, where they are not those of the process.
static PROGRAM: OnceLock<(Vec<OsString>, Vec<OsString>)> = OnceLock::new();

/// Says by which words this program is started, and with which arguments it was, for a program in a process of another one, such as an interpreter. The first call counts.
pub fn set_program(program: Vec<OsString>, arguments: Vec<OsString>) {
    PROGRAM.get_or_init(|| (program, arguments));
}

/// The words that start this program: the path of the executable, unless [`set_program`] has said others.
///
/// # Errors
/// If the system does not know the path.
pub fn program() -> io::Result<Vec<OsString>> {
    match PROGRAM.get() {
        Some((program, _)) => Ok(program.clone()),
        None => Ok(vec![env::current_exe()?.into_os_string()]),
    }
}

/// The arguments of this program, less `--launcher`.
fn arguments() -> Vec<OsString> {
    let mut arguments = Vec::new();
    let own = PROGRAM.get().map_or_else(|| env::args_os().skip(1).collect(), |(_, own)| own.clone());
    let mut own = own.into_iter();
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

/// Waits for the launcher. When the user wants to stop, asks it to end; when it does not, or leaves processes behind, kills.
fn wait(mut child: Child, mut watch: Watch, folder: &Path, cancel: &Cancel) -> ExitReport {
    let mut asked: Option<Instant> = None;
    let exit = loop {
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
        watch.look();
    };
    let ended = watch.end_all(folder);
    // Without the folder nothing is known of the ranks.
    let statuses = read_statuses(folder).unwrap_or_default();
    ExitReport { statuses, ended, exit, was_stopped: asked.is_some(), ..ExitReport::default() }
}

/// Notice of the line by which rank 0 says that all is done.
struct Said {
    ranks: u32,
    is_done: Arc<AtomicBool>,
}

/// Passes on lines of ranks, and returns the launcher's.
fn relay<W: Write + 'static>(
    pipe: PipeReader,
    to: fn() -> W,
    said: Said,
) -> Result<JoinHandle<String>, StartError> {
    let pass_on = move || {
        let (mut notices, mut is_inside, mut to) = (String::new(), false, to());
        for mut line in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
            let text = String::from_utf8_lossy(&line);
            if text.contains(&attended(said.ranks)) {
                said.is_done.store(true, Ordering::Relaxed);
            }
            match notice(&text, &mut is_inside) {
                Some(notice) => notices = notices + notice + "\n",
                None => {
                    line.push(b'\n');
                    // The launcher must not wait for a reader that has gone.
                    let _ = to.write_all(&line).and_then(|()| to.flush());
                }
            }
        }
        notices
    };
    thread::Builder::new().name("relay".to_owned()).spawn(pass_on).map_err(StartError::Threads)
}

/// A launcher's line, which is within two rulers or begins as such lines do; `None` for a line of a rank.
fn notice<'l>(line: &'l str, is_inside: &mut bool) -> Option<&'l str> {
    let text = line.trim_end();
    if text.len() >= 40 && ['-', '='].iter().any(|&dash| text.chars().all(|c| c == dash)) {
        *is_inside = !*is_inside;
        return Some("");
    }
    let is_notice = *is_inside || NOTICES.iter().any(|begin| text.starts_with(begin));
    is_notice.then(|| text.trim_start_matches("= ").trim_start_matches('='))
}

/// Pipes that ranks on this host hold open for as long as they are there. The order in which they close says which rank ended first: the
/// system closes the files of a process before it says that this has ended, and a launcher that sees its own connections close ends all
/// others. Handles of processes tell their order too late: tried, with MPICH they name a rank that the launcher has ended.
#[cfg(target_os = "linux")]
struct Watch {
    queue: OwnedFd,
    open: BTreeMap<u32, OwnedFd>,
    /// Ranks in the order in which they ended.
    ended: Vec<u32>,
}

#[cfg(target_os = "linux")]
impl Watch {
    fn new(folder: &Path, ranks: u32) -> io::Result<Self> {
        let queue = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut open = BTreeMap::new();
        for rank in 0..ranks {
            let path = folder.join(alive_file(rank));
            fs::mknodat(fs::CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let pipe = fs::open(&path, flags, Mode::empty())?;
            // Nothing is ever written, so the only event is that the rank's end is closed.
            epoll::add(&queue, &pipe, epoll::EventData::new_u64(rank.into()), epoll::EventFlags::HUP)?;
            open.insert(rank, pipe);
        }
        Ok(Self { queue, open, ended: Vec::new() })
    }

    /// Waits until a rank ends, or a moment.
    fn look(&mut self) {
        let mut events = [std::mem::MaybeUninit::uninit(); 64];
        let limit = Timespec::try_from(LOOK).ok();
        // A signal ends the waiting, too, and the caller looks for it.
        let Ok((events, _)) = epoll::wait(&self.queue, &mut events, limit.as_ref()) else { return };
        for event in events {
            let rank = u32::try_from(event.data.u64()).expect("it is a rank");
            // Dropped, the pipe is out of the queue.
            if self.open.remove(&rank).is_some() {
                self.ended.push(rank);
            }
        }
    }

    /// Kills ranks that run on although the launcher has ended. Their pipes are open, so their numbers are no other process's.
    fn end_all(mut self, folder: &Path) -> Vec<u32> {
        let name = rustix::system::uname();
        let own = name.nodename().to_str().unwrap_or_default().split('.').next();
        let mut begun = read_statuses(folder).unwrap_or_default();
        begun.retain(|status| status.host.split('.').next() == own);
        let is_left = |watch: &Self| begun.iter().any(|status| watch.open.contains_key(&status.rank));
        let begin = Instant::now();
        while is_left(&self) && begin.elapsed() < RANK_PATIENCE {
            self.look();
        }
        for status in begun.iter().filter(|status| self.open.contains_key(&status.rank)) {
            if let Some(id) = i32::try_from(status.process).ok().and_then(Pid::from_raw) {
                // It may have ended just now.
                let _ = kill_process(id, Signal::KILL);
            }
        }
        self.ended
    }
}

/// Processes cannot be held on to elsewhere, so it is left to the launcher to end them.
#[cfg(not(target_os = "linux"))]
struct Watch;

#[cfg(not(target_os = "linux"))]
impl Watch {
    fn new(_: &Path, _: u32) -> io::Result<Self> {
        Ok(Self)
    }

    fn look(&mut self) {
        thread::sleep(LOOK);
    }

    fn end_all(self, _: &Path) -> Vec<u32> {
        Vec::new()
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_are_told_from_lines_of_ranks() {
        let said = "table of rank 0\n\
            --------------------------------------------------------------------------\n\
            prterun noticed that process rank 2 with PID 26362 on node vm exited on\n\
            signal 9 (Killed).\n\
            --------------------------------------------------------------------------\n\
            error: rank 1 says\n";
        let mut is_inside = false;
        let (notices, shown): (Vec<_>, Vec<_>) =
            said.lines().map(|line| (notice(line, &mut is_inside), line)).partition(|(it, _)| it.is_some());
        let shown: Vec<&str> = shown.into_iter().map(|(_, line)| line).collect();
        assert_eq!(shown, ["table of rank 0", "error: rank 1 says"]);
        let words: Vec<&str> =
            notices.iter().filter_map(|(notice, _)| *notice).flat_map(str::split_whitespace).collect();
        assert_eq!(
            words.join(" "),
            "prterun noticed that process rank 2 with PID 26362 on node vm exited on signal 9 (Killed)."
        );
    }
}
