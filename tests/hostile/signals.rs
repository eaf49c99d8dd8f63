//! SIGTERM and Ctrl-C while nothing is written: a program that plans, or checks a plan, ends soon.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::Trial;

use crate::common::{Ended, can, zipwire};
use crate::trial;

/// Time for the end after a signal.
const SOON: Duration = Duration::from_secs(2);

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("a_check_ends_soon_after_a_signal", a_check_ends_soon_after_a_signal)
            .with_ignored_flag(!can("kill", &["-l"])),
    ]
}

fn a_check_ends_soon_after_a_signal() {
    let scenarios = ["llama3-fsdp-64", "qwen3-64"];
    for (scenario, signal) in scenarios.into_iter().zip(["-TERM", "-INT"]) {
        // Once while it reads and plans the first variant, once later.
        for after in [Duration::from_millis(300), Duration::from_millis(1500)] {
            let path = format!("scenarios/training/{scenario}.toml");
            let mut command = zipwire(&["scenario", "check", &path]);
            let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            std::thread::sleep(after);
            let begin = Instant::now();
            assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
            let ended = Ended::wait(child);
            ended.expect(130, "stopped");
            assert!(begin.elapsed() < SOON, "{scenario}: {:?} after {signal}", begin.elapsed());
        }
    }
}
