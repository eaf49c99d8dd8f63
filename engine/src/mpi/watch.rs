//! Watch over calls of MPI that return when all processes have made them: one that stops, or ends without MPI, would keep the others in
//! such a call for ever. Whoever has waited too long ends, and its launcher ends the rest.

use std::convert::Infallible;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use zipwire_mpi::{Endpoint, Library, end_process, environment};

use super::WorldError;
use super::status::{FAILED, STATUS_VARIABLE, StatusFile, read_statuses, status_file};

/// Interval at which a process that waits says so.
const BEAT: Duration = Duration::from_millis(100);
/// Silence after which a process that waits as others do is taken for a stopped one.
const SILENT: Duration = Duration::from_secs(1);
/// Most ranks that a message names.
const NAMED: usize = 8;
/// Exit code of a process that has given up.
const GAVE_UP: u8 = 1;

/// Initialises MPI together with all processes of the job, which must have come up `within` some time. Returns this process's status file, if
/// its launcher says which rank it is and the file can be had.
///
/// # Errors
/// If MPI fails, or no thread can be started for the watch.
pub(super) fn begin(
    library: &'static Library,
    within: Duration,
) -> Result<(Endpoint, Option<StatusFile>), WorldError> {
    let launched = environment::launched();
    let rank = launched.as_ref().map(|launched| launched.rank);
    let status = Mutex::new(rank.and_then(|rank| StatusFile::from_environment(rank, &host())));
    let note = |doing: &str| {
        let mut status = status.lock().unwrap_or_else(PoisonError::into_inner);
        status.as_mut().map(|status| status.write(doing)).is_some()
    };
    let ranks = launched.and_then(|launched| launched.size).unwrap_or(0);
    let waiting = |waited: Duration| _ = note(&is_in("MPI_Init", waited));
    let give_up = |waited: Duration| {
        let why = why("MPI_Init", "had not come up", waited, ranks);
        if !note(&format!("{FAILED} {why}")) {
            complain(rank, &why);
        }
    };
    let is_in_call = AtomicBool::new(true);
    let endpoint = watched(within, &is_in_call, waiting, give_up, || Endpoint::begin(library))
        .map_err(WorldError::Watch)??;
    let status = status.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok((endpoint, status))
}

/// Does what all processes of the job must do. After `within` some time, suspensions of this process not counted, `give_up` is called, and the
/// process ends; until then `waiting` is, now and then, with the time that has passed. Time counts while `is_in_call` is set: what is done before and
/// behind the call is not its time.
///
/// # Errors
/// If the system refuses a thread.
pub(super) fn watched<T>(
    within: Duration,
    is_in_call: &AtomicBool,
    waiting: impl Fn(Duration) + Send,
    give_up: impl FnOnce(Duration) + Send,
    call: impl FnOnce() -> T,
) -> io::Result<T> {
    let (is_made, made) = channel::<Infallible>();
    thread::scope(|scope| {
        let watch = move || {
            if let Some(waited) = wait(within, is_in_call, &made, waiting) {
                give_up(waited);
                end_process(GAVE_UP);
            }
        };
        thread::Builder::new().name("watch".to_owned()).spawn_scoped(scope, watch)?;
        let result = call();
        drop(is_made);
        Ok(result)
    })
}

/// Waits until the other end of the channel is dropped; else the time waited, when that is too long.
fn wait(
    within: Duration,
    is_in_call: &AtomicBool,
    made: &Receiver<Infallible>,
    waiting: impl Fn(Duration),
) -> Option<Duration> {
    let (mut waited, mut last) = (Duration::ZERO, Instant::now());
    while made.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
        // A process that was stopped goes on where it was: it is not for it to blame others.
        let since = std::mem::replace(&mut last, Instant::now()).elapsed().min(SILENT / 2);
        if !is_in_call.load(Ordering::Relaxed) {
            continue;
        }
        waited += since;
        if waited > within {
            return Some(waited);
        }
        waiting(waited);
    }
    None
}

/// Status of a process that waits in a call of MPI.
pub(super) fn is_in(call: &str, waited: Duration) -> String {
    format!("had been in {call} for {}", seconds(waited))
}

/// Why a process of a job of so many ranks has given up a call of MPI, in words that follow its name and how it failed; `lack` says what those
/// did that it waited for.
pub(super) fn why(call: &str, lack: &str, waited: Duration, ranks: u32) -> String {
    let missing = missing(ranks);
    let who = if missing.is_empty() { "another rank".to_owned() } else { missing.join(", ") };
    format!("after {} in {call}: {who} {lack}", seconds(waited))
}

/// Ranks that have not begun, of so many, or that do not go on; none where this cannot be seen from here.
fn missing(ranks: u32) -> Vec<String> {
    let Some(folder) = std::env::var_os(STATUS_VARIABLE) else { return Vec::new() };
    let folder = Path::new(&folder);
    let Ok(statuses) = read_statuses(folder) else { return Vec::new() };
    let now = SystemTime::now();
    let is_silent = |rank: u32| {
        let written = std::fs::metadata(folder.join(status_file(rank))).and_then(|file| file.modified());
        written.is_ok_and(|written| now.duration_since(written).is_ok_and(|silence| silence > SILENT))
    };
    let has_begun = |rank: u32| statuses.iter().any(|status| status.rank == rank);
    let missing = (0..ranks).filter(|rank| !has_begun(*rank) || is_silent(*rank));
    missing.take(NAMED).map(|rank| format!("rank {rank}")).collect()
}

/// Says on stderr why this process ends, where no process has started it that would report.
pub(super) fn complain(rank: Option<u32>, why: &str) {
    let rank = rank.map_or_else(|| "this process".to_owned(), |rank| format!("rank {rank}"));
    let help =
        "`--stall` says how long to wait; a rank that lacks memory, has ended or was stopped never comes up";
    // Whether anybody reads it does not matter.
    let _ = writeln!(io::stderr(), "error: {rank} gives up {why}\nhelp: {help}");
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

/// Name of this host, before MPI can say it.
#[cfg(unix)]
pub(super) fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(not(unix))]
pub(super) fn host() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_else(|_| "this host".to_owned())
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn a_call_that_returns_is_not_given_up() {
        let said = Mutex::new(Vec::new());
        let call = || {
            thread::sleep(3 * BEAT);
            7
        };
        let waiting = |waited| said.lock().unwrap().push(waited);
        let is_in_call = AtomicBool::new(true);
        let done =
            watched(Duration::from_secs(60), &is_in_call, waiting, |_| panic!("it has returned"), call);
        assert_eq!(done.unwrap(), 7);
        assert!(!said.into_inner().unwrap().is_empty(), "it says that it waits");
    }

    #[test]
    fn time_before_a_call_is_not_its_time() {
        let is_in_call = AtomicBool::new(false);
        let waiting = |_| panic!("it is not in the call");
        let done = watched(
            BEAT,
            &is_in_call,
            waiting,
            |_| panic!("it is not in the call"),
            || {
                thread::sleep(4 * BEAT);
                7
            },
        );
        assert_eq!(done.unwrap(), 7);
    }

    #[test]
    fn a_call_that_does_not_return_is_given_up() {
        let (_never, made) = channel::<Infallible>();
        let said = RefCell::new(Vec::new());
        let within = 4 * BEAT;
        let is_in_call = AtomicBool::new(true);
        let waited = wait(within, &is_in_call, &made, |waited| said.borrow_mut().push(waited)).unwrap();
        assert!(waited > within && !said.into_inner().is_empty());
    }
}
