//! SIGTERM and Ctrl-C while nothing is done: a program that plans, checks a plan, or waits for input, ends soon and leaves nothing.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use tempfile::TempDir;

use crate::common::{Ended, can, zipwire};
use crate::trial;

/// Time for the end after a signal.
const SOON: Duration = Duration::from_secs(2);

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("a_run_that_plans_ends_soon_after_a_signal", a_run_that_plans_ends_soon_after_a_signal)
            .with_ignored_flag(!can("kill", &["-l"])),
        trial("a_pipe_that_is_stopped_leaves_nothing", a_pipe_that_is_stopped_leaves_nothing)
            .with_ignored_flag(!can("kill", &["-l"])),
    ]
}

fn kill(signal: &str, process: u32) {
    assert!(Command::new("kill").args([signal, &process.to_string()]).status().unwrap().success());
}

/// Input has come, and no more comes.
fn a_pipe_that_is_stopped_leaves_nothing() {
    let values: Vec<u8> = (0..1_500_000_u32).flat_map(|i| (0x3c00 + i as u16 % 900).to_le_bytes()).collect();
    let compress: &[&str] = &["compress", "-", "--dtype", "bf16"];
    let start = |args: &[&str], input: &[u8]| {
        let mut command = zipwire(args);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (mut stdin, input) = (child.stdin.take().unwrap(), input.to_vec());
        let writer = std::thread::spawn(move || stdin.write_all(&input).map(|()| stdin));
        (child, writer)
    };
    let (child, writer) = start(compress, &values);
    drop(writer);
    let packed = child.wait_with_output().unwrap().stdout;
    let half = &packed[..packed.len() / 2];
    for (args, input) in [(compress, &values[..]), (compress, &values[..10]), (&["decompress", "-"], half)] {
        let folder = TempDir::new().unwrap();
        let out = folder.path().join("out");
        let (child, writer) = start(&[args, &["-o", out.to_str().unwrap()]].concat(), input);
        let stdin = writer.join().unwrap().unwrap();
        let begin = Instant::now();
        while fs::read_dir(folder.path()).unwrap().count() == 0 && begin.elapsed() < 10 * SOON {
            std::thread::sleep(Duration::from_millis(10));
        }
        let begin = Instant::now();
        kill("-INT", child.id());
        let ended = Ended::wait(child);
        ended.expect(130, "stopped");
        assert!(begin.elapsed() < SOON, "{args:?}: {:?}", begin.elapsed());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{args:?}");
        drop(stdin);
    }
}

fn a_run_that_plans_ends_soon_after_a_signal() {
    let scenarios = ["llama3-fsdp-64", "qwen3-64"];
    for (scenario, signal) in scenarios.into_iter().zip(["-TERM", "-INT"]) {
        // Once while it plans the first variant, once while it checks plans or later.
        for after in [Duration::from_millis(300), Duration::from_millis(1500)] {
            let path = format!("scenarios/training/{scenario}.toml");
            let folder = TempDir::new().unwrap();
            let mut command = zipwire(&["run", &path, "--out", folder.path().join("out").to_str().unwrap()]);
            let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            std::thread::sleep(after);
            let begin = Instant::now();
            kill(signal, child.id());
            let ended = Ended::wait(child);
            ended.expect(130, "stopped");
            assert!(begin.elapsed() < SOON, "{scenario}: {:?} after {signal}", begin.elapsed());
        }
    }
}
