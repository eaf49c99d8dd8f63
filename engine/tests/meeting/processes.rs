//! Tests that start ranks as processes, and hear what each says.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::ranks::PATIENCE;
use crate::store;

/// Says that this process is a rank, and of which case.
pub(crate) const VARIABLE: &str = "ZIPWIRE_TEST_MEETING";
/// Names PyTorch's launcher.
pub(crate) const TORCHRUN: &str = "ZIPWIRE_TEST_TORCHRUN";

pub(crate) const TESTS: &[(&str, fn())] = &[
    ("ranks_meet_and_run", ranks_meet_and_run),
    ("transfers_are_refused", transfers_are_refused),
    ("a_rank_that_dies_is_blamed", a_rank_that_dies_is_blamed),
    ("a_rank_that_falls_silent_is_blamed", a_rank_that_falls_silent_is_blamed),
    ("a_rank_that_cannot_take_part_says_so_to_all", a_rank_that_cannot_take_part),
    ("a_rank_that_never_comes_is_named", a_rank_that_never_comes_is_named),
    ("rank_0_that_never_comes_is_missed", rank_0_that_never_comes_is_missed),
    ("strangers_disturb_nobody", strangers_disturb_nobody),
    ("a_rank_that_comes_twice_is_not_let_in", a_rank_that_comes_twice),
    ("a_rank_of_another_run_is_not_let_in", a_rank_of_another_run),
    ("a_place_that_is_another_runs_is_tried_again", a_place_that_is_another_runs),
    ("a_rank_without_the_secret_is_not_let_in", a_rank_without_the_secret),
    ("a_port_that_is_taken_is_named", a_port_that_is_taken_is_named),
    ("rank_0_says_in_a_store_where_it_is", rank_0_says_in_a_store_where_it_is),
    ("torchrun_with_its_store", torchrun_with_its_store),
    ("torchrun_static", torchrun_static),
    ("torchrun_that_starts_ranks_again", torchrun_that_starts_ranks_again),
];

/// Time limit for everything.
const LIMIT: Duration = Duration::from_secs(60);

/// A port that is free, for as long as nobody else takes it.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn this_program() -> String {
    std::env::current_exe().unwrap().to_str().unwrap().to_owned()
}

/// A rank that runs.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // A test has failed if it still runs.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(case: &str, port: u16, rank: u32, size: u32) -> Running {
    start_as(case, port, rank, size, "a-run")
}

fn start_as(case: &str, port: u16, rank: u32, size: u32, run: &str) -> Running {
    start_with(case, port, rank, size, ("TORCHELASTIC_RUN_ID", run))
}

fn start_with(case: &str, port: u16, rank: u32, size: u32, variable: (&str, &str)) -> Running {
    let mut command = Command::new(this_program());
    command.env(VARIABLE, case).env("ZIPWIRE_MEET", format!("127.0.0.1:{port}"));
    command.env("RANK", rank.to_string()).env("WORLD_SIZE", size.to_string());
    command.env(variable.0, variable.1);
    Running(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
}

/// The last words of a rank.
fn words(mut rank: Running) -> String {
    let begin = Instant::now();
    while rank.0.try_wait().unwrap().is_none() {
        assert!(begin.elapsed() < LIMIT, "a rank does not end");
        std::thread::sleep(Duration::from_millis(10));
    }
    let (mut said, mut errors) = (String::new(), String::new());
    std::io::Read::read_to_string(&mut rank.0.stdout.take().unwrap(), &mut said).unwrap();
    std::io::Read::read_to_string(&mut rank.0.stderr.take().unwrap(), &mut errors).unwrap();
    assert!(!errors.contains("panicked"), "{errors}");
    said.trim().to_owned()
}

fn start_all(case: &str) -> Vec<Running> {
    let port = free_port();
    (0..4).map(|rank| start(case, port, rank, 4)).collect()
}

fn all_words(ranks: Vec<Running>) -> Vec<String> {
    ranks.into_iter().map(words).collect()
}

fn ranks_meet_and_run() {
    assert_eq!(all_words(start_all("meet")), ["ran 3 iterations", "ran", "ran", "ran"]);
}

fn transfers_are_refused() {
    for said in all_words(start_all("transfers")) {
        let expected =
            "failed: the processes of the job have met without MPI and exchange no bytes of transfers";
        assert!(said.starts_with(expected), "{said}");
    }
}

fn a_rank_that_dies_is_blamed() {
    let begin = Instant::now();
    let said = all_words(start_all("dies"));
    assert!(said[0].starts_with("failed: ") && said[0].contains("rank 2"), "{said:?}");
    assert_eq!(said[2], "");
    assert!(said[1].starts_with("failed: ") && said[3].starts_with("failed: "), "{said:?}");
    // A socket says at once that its peer is gone, and nobody waits for what it cannot say.
    assert!(begin.elapsed() < PATIENCE, "{:?}", begin.elapsed());
}

fn a_rank_that_falls_silent_is_blamed() {
    let mut ranks = start_all("stops");
    let silent = ranks.remove(2);
    let said = all_words(ranks);
    drop(silent);
    assert!(said[0].starts_with("failed: ") && said[0].contains("rank 2"), "{said:?}");
}

fn a_rank_that_cannot_take_part() {
    let said = all_words(start_all("refuses"));
    assert_eq!(said[0], "failed: rank 1 cannot take part: it has no GPU");
    assert_eq!(said[1], "refused");
    assert!(said[2].starts_with("failed: "), "{said:?}");
}

fn a_rank_that_never_comes_is_named() {
    let port = free_port();
    let ranks = (0..3).map(|rank| start("stops", port, rank, 4)).collect();
    let said = all_words(ranks);
    let missing = format!("rank 3 has not come within {} s", PATIENCE.as_secs());
    assert_eq!(said[0], format!("not begun: the processes of the job have not met: {missing}"));
    let told = format!("rank 0 has not let rank 1 in: {missing}");
    assert_eq!(said[1], format!("not begun: the processes of the job have not met: {told}"));
}

fn rank_0_that_never_comes_is_missed() {
    let port = free_port();
    let said = words(start("stops", port, 1, 2));
    assert!(said.contains("rank 1 has not met rank 0 within 3 s: 127.0.0.1:"), "{said}");
}

/// Somebody who looks for a web server, somebody who says nothing, and somebody who leaves at once.
fn strangers_disturb_nobody() {
    let port = free_port();
    let mut ranks = vec![start("meet", port, 0, 4)];
    let connect = || {
        let begin = Instant::now();
        loop {
            match TcpStream::connect(("127.0.0.1", port)) {
                Ok(stream) => return stream,
                Err(error) => assert!(begin.elapsed() < LIMIT, "{error}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let mut web = connect();
    web.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let silent = connect();
    drop(connect());
    ranks.extend((1..4).map(|rank| start("meet", port, rank, 4)));
    assert_eq!(all_words(ranks), ["ran 3 iterations", "ran", "ran", "ran"]);
    drop((web, silent));
}

fn a_rank_that_comes_twice() {
    let port = free_port();
    let (first, one) = (start("stops", port, 0, 3), start("stops", port, 1, 3));
    let process = [one.0.id()];
    // The second one of the two is late.
    std::thread::sleep(Duration::from_millis(500));
    let two = words(start("stops", port, 1, 3));
    let expected = format!(
        "not begun: the processes of the job have not met: rank 0 has not let rank 1 in: process {} on",
        process[0]
    );
    assert!(two.starts_with(&expected) && two.ends_with("has come as this rank before"), "{two}");
    let said = words(first);
    assert!(said.contains("rank 2 has not come within 3 s; not let in: rank 1 (process"), "{said}");
    assert!(words(one).contains("rank 2 has not come within 3 s"));
}

/// End of the words of a rank that rank 0 does not know.
const UNKNOWN: &str = "rank 0 there is of another run, or has another `ZIPWIRE_MEET_SECRET`";

fn a_rank_of_another_run() {
    let port = free_port();
    let mut ranks = vec![start("meet", port, 0, 4)];
    let other = words(start_as("stops", port, 1, 4, "other"));
    let expected = format!("rank 1 has not met rank 0 within 3 s: 127.0.0.1:{port}: {UNKNOWN}");
    assert!(other.ends_with(&expected), "{other}");
    ranks.extend((1..4).map(|rank| start("meet", port, rank, 4)));
    assert_eq!(all_words(ranks), ["ran 3 iterations", "ran", "ran", "ran"]);
}

/// The other run's rank 0 gives up, and that of the right one comes.
fn a_place_that_is_another_runs() {
    let port = free_port();
    let other = start_as("stops", port, 0, 2, "other");
    let mut ranks: Vec<Running> = (1..4).map(|rank| start("meet", port, rank, 4)).collect();
    let other = words(other);
    assert!(other.contains("rank 1 has not come within 3 s; not let in: rank "), "{other}");
    assert!(other.contains("): it is of another run") && !other.contains("a-run"), "{other}");
    ranks.insert(0, start("meet", port, 0, 4));
    assert_eq!(all_words(ranks), ["ran 3 iterations", "ran", "ran", "ran"]);
}

/// Runs that have no name differ by it.
fn a_rank_without_the_secret() {
    let port = free_port();
    let start = |case, rank, secret| start_with(case, port, rank, 4, ("ZIPWIRE_MEET_SECRET", secret));
    let mut ranks = vec![start("meet", 0, "ours")];
    let others = [start("stops", 1, "theirs"), start("stops", 2, "")];
    for other in others.map(words) {
        assert!(other.ends_with(UNKNOWN), "{other}");
    }
    ranks.extend((1..4).map(|rank| start("meet", rank, "ours")));
    assert_eq!(all_words(ranks), ["ran 3 iterations", "ran", "ran", "ran"]);
}

fn a_port_that_is_taken_is_named() {
    let taken = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let said = words(start("meet", port, 0, 2));
    assert!(said.contains(&format!("rank 0 cannot listen on port {port}: ")), "{said}");
    assert!(said.contains("`ZIPWIRE_MEET=HOST:PORT`"), "{said}");
}

/// An entry that an earlier start of the ranks has left there leads nowhere, and is replaced.
fn rank_0_says_in_a_store_where_it_is() {
    let (port, values) = store::start();
    let key = b"/zipwire/job/1/meet".to_vec();
    let stale = format!("{} 0123456789abcdef 127.0.0.1", free_port());
    values.lock().unwrap().insert(key.clone(), stale.clone().into_bytes());
    let start = |rank: u32| {
        let mut command = Command::new(this_program());
        command.env(VARIABLE, "meet").env("RANK", rank.to_string()).env("WORLD_SIZE", "4");
        command.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", port.to_string());
        command.env("TORCHELASTIC_USE_AGENT_STORE", "True");
        command.env("TORCHELASTIC_RUN_ID", "job").env("TORCHELASTIC_RESTART_COUNT", "1");
        Running(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    };
    let mut ranks: Vec<Running> = (1..4).map(start).collect();
    std::thread::sleep(Duration::from_millis(300));
    ranks.insert(0, start(0));
    assert_eq!(all_words(ranks), ["ran 3 iterations", "ran", "ran", "ran"]);
    assert_ne!(values.lock().unwrap()[&key], stale.into_bytes());
}

/// Four ranks under PyTorch's launcher.
fn torchrun(case: &str, arguments: &[&str]) {
    let program = std::env::var_os(TORCHRUN).expect("it is named");
    let mut command = Command::new(program);
    command.args(arguments).args(["--nproc-per-node", "4", "--no-python", &this_program()]);
    let output = command.env(VARIABLE, case).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let mut words: Vec<&str> = said.lines().filter(|line| line.starts_with("ran")).collect();
    words.sort_unstable();
    assert_eq!(
        words,
        ["ran", "ran", "ran", "ran 3 iterations"],
        "{said}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn torchrun_with_its_store() {
    torchrun("meet", &["--standalone"]);
    let endpoint = format!("localhost:{}", free_port());
    torchrun(
        "meet",
        &["--rdzv-backend", "c10d", "--rdzv-endpoint", &endpoint, "--rdzv-id", "job", "--nnodes", "1"],
    );
}

fn torchrun_static() {
    let port = free_port().to_string();
    torchrun(
        "meet",
        &["--nnodes", "1", "--node-rank", "0", "--master-addr", "127.0.0.1", "--master-port", &port],
    );
}

/// The launcher keeps its store, with what was said there before.
fn torchrun_that_starts_ranks_again() {
    torchrun("dies_at_first", &["--standalone", "--max-restarts", "1"]);
}
