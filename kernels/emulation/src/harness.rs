//! The main function of tests that need the emulation: a process that starts itself again below the fake libraries.

use std::env;
use std::io::Write;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread::{self, available_parallelism};

use libtest_mimic::{Arguments, Trial};

use crate::Emulation;

/// Tells a process that it was started below the fake libraries, and which part of the tests it has, as `PART/PARTS`.
const CHILD: &str = "ZIPWIRE_EMULATION_CHILD";
/// Parts of the tests at the most: each is a process beside the others, with devices of its own.
const MOST_PARTS: usize = 8;
/// Names the scene that a process is to run instead of tests.
const SCENE: &str = "ZIPWIRE_EMULATION_SCENE";

/// Something that runs in a process of its own, because it ends badly or needs other kernels or settings.
#[derive(Clone, Copy, Debug)]
pub struct Scene {
    /// How [`scene`] calls it.
    pub name: &'static str,
    /// Its body; the process ends with the exit code.
    pub run: fn() -> ExitCode,
}

/// Whether this process was asked for tests that are ignored otherwise: a plain run needs fewer kernels.
#[must_use]
pub fn plays_whole_forms() -> bool {
    env::args().any(|argument| ["--ignored", "--include-ignored"].contains(&argument.as_str()))
}

/// Runs `tests` in processes that have loaded the fake libraries with the kernels of `sources`: one for each core, and in each of them
/// one test after the other.
///
/// Where nothing can be emulated, all tests are reported as ignored, by name.
#[must_use]
pub fn harness(sources: &[&str], tests: fn() -> Vec<Trial>, scenes: &[Scene]) -> ExitCode {
    if let Some(name) = env::var_os(SCENE) {
        let scene = scenes.iter().find(|scene| name == scene.name);
        return (scene.unwrap_or_else(|| panic!("there is no scene {name:?}")).run)();
    }
    let mut arguments = Arguments::from_args();
    // Seeds and counters belong to the process.
    arguments.test_threads = Some(1);
    if arguments.list {
        return libtest_mimic::run(&arguments, tests()).exit_code();
    }
    if let Ok(part) = env::var(CHILD) {
        return libtest_mimic::run(&arguments, of_part(tests(), &part)).exit_code();
    }
    match Emulation::build(sources, "tests") {
        Ok(emulation) => {
            eprint!("{}", emulation.warnings());
            // A test that was named needs no company.
            let cores = if arguments.exact { 1 } else { available_parallelism().map_or(1, usize::from) };
            in_parts(&emulation, cores.min(MOST_PARTS))
        }
        Err(error) if error.is_absence() => {
            eprintln!("tests below the emulation are ignored: {error}");
            let ignored = |trial: Trial| {
                let reason = error.to_string();
                Trial::test(trial.name(), move || Err(reason.into())).with_ignored_flag(true)
            };
            libtest_mimic::run(&arguments, tests().into_iter().map(ignored).collect()).exit_code()
        }
        Err(error) => panic!("{error}"),
    }
}

/// Starts this program once for each part of the tests; the output of all but the first is printed at their end.
fn in_parts(emulation: &Emulation, parts: usize) -> ExitCode {
    let start = |part: usize| {
        let mut command = this_program();
        command.args(env::args_os().skip(1)).envs(emulation.environment());
        command.env(CHILD, format!("{part}/{parts}"));
        if part > 0 {
            command.stdout(Stdio::piped());
        }
        command.spawn().expect("a program that runs can be started again")
    };
    // A thread for each reads what it prints: a full pipe would stop it.
    let wait = |child: Child| thread::spawn(|| child.wait_with_output());
    let children: Vec<_> = (0..parts).map(start).map(wait).collect();
    let mut worst = 0;
    for child in children {
        let output = child.join().expect("it only reads").expect("a child can be waited for");
        // Nobody may be there to read it.
        let _ = std::io::stdout().write_all(&output.stdout);
        worst = worst.max(output.status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(101));
    }
    ExitCode::from(worst)
}

/// The tests of one part: every n-th of those that a plain run plays, and every n-th of the others.
fn of_part(mut tests: Vec<Trial>, part: &str) -> Vec<Trial> {
    let (part, parts) = part.split_once('/').expect("it is `PART/PARTS`");
    let [part, parts] = [part, parts].map(|number| number.parse::<usize>().expect("it is a number"));
    let mut counts = [0; 2];
    tests.retain(|test| {
        let count = &mut counts[usize::from(test.has_ignored_flag())];
        *count += 1;
        *count % parts == part
    });
    tests
}

/// This program with the task to run one scene. It inherits the emulation of the calling process; `Command::envs` with
/// [`Emulation::environment`] gives it another one.
///
/// # Panics
///
/// If the system does not tell where this program is.
#[must_use]
pub fn scene(name: &str) -> Command {
    let mut command = this_program();
    command.env(SCENE, name);
    command
}

fn this_program() -> Command {
    Command::new(env::current_exe().expect("the system tells where this program is"))
}
