//! The main function of tests that need the emulation: a process that starts itself again below the fake libraries.

use std::env;
use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Trial};

use crate::Emulation;

/// Tells a process that it was started below the fake libraries.
const CHILD: &str = "ZIPWIRE_EMULATION_CHILD";
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

/// Runs `tests` in a process that has loaded the fake libraries with the kernels of `sources`, one test after the other.
///
/// Where nothing can be emulated, all tests are reported as ignored, by name.
#[must_use]
pub fn harness(sources: &[&str], tests: fn() -> Vec<Trial>, scenes: &[Scene]) -> ExitCode {
    if let Some(name) = env::var_os(SCENE) {
        let scene = scenes.iter().find(|scene| name == scene.name);
        return (scene.unwrap_or_else(|| panic!("there is no scene {name:?}")).run)();
    }
    let mut arguments = Arguments::from_args();
    // Seeds and counters belong to the process, and the emulation itself uses all cores.
    arguments.test_threads = Some(1);
    if arguments.list || env::var_os(CHILD).is_some() {
        return libtest_mimic::run(&arguments, tests()).exit_code();
    }
    match Emulation::build(sources, "tests") {
        Ok(emulation) => {
            eprint!("{}", emulation.warnings());
            let mut child = this_program();
            let status =
                child.args(env::args_os().skip(1)).envs(emulation.environment()).env(CHILD, "1").status();
            let status = status.expect("a program that runs can be started again");
            ExitCode::from(u8::try_from(status.code().unwrap_or(101)).unwrap_or(101))
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

/// This program with the task to run one scene. It inherits the emulation of the calling process; `Command::envs` with
/// [`Emulation::environment`] gives it another one.
///
/// # Panics
///
/// If the system does not tell where this program is.
#[must_use]
pub fn scene(name: &str) -> Command {
    let mut command = this_program();
    command.env(SCENE, name).env(CHILD, "1");
    command
}

fn this_program() -> Command {
    Command::new(env::current_exe().expect("the system tells where this program is"))
}
