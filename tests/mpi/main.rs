//! Ranks as processes over MPI, with the library and the `mpirun` in each of the folders that `ZIPWIRE_TEST_MPI` names, separated by
//! colons: installed prefixes, such as virtual environments. Without it all are ignored by name, but once each.
//!
//! This program is also the rank: it starts itself by `mpirun`.

#[allow(dead_code)] // What GPUs need of it.
#[path = "../it/common/conformance.rs"]
mod conformance;
mod failures;
mod jobs;

use std::path::PathBuf;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};
use zipwire::simd_from_environment;

/// Names the folders.
const PREFIXES: &str = "ZIPWIRE_TEST_MPI";
/// Numbers of processes: those of all scenarios that conformance compares.
const PROCESSES: [u32; 8] = [2, 3, 4, 5, 6, 7, 8, 16];
/// Name of a test run that no launcher has begun.
const ABSENT: &str = "absent";

/// An installed MPI.
#[derive(Clone, Debug)]
pub(crate) struct Installed {
    pub(crate) prefix: PathBuf,
}

impl Installed {
    /// The folder's last part, for names of tests.
    fn name(&self) -> String {
        self.prefix.file_name().map_or_else(|| ABSENT.to_owned(), |name| name.to_string_lossy().into_owned())
    }

    /// The folder with the libraries.
    pub(crate) fn libraries(&self) -> PathBuf {
        self.prefix.join("lib")
    }

    /// The program that starts processes.
    pub(crate) fn launcher(&self) -> PathBuf {
        self.prefix.join("bin/mpirun")
    }
}

fn main() -> ExitCode {
    simd_from_environment().unwrap_or_else(|error| panic!("{error}"));
    if let Some(task) = jobs::task() {
        return jobs::rank(&task);
    }
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    let named = std::env::var(PREFIXES).unwrap_or_default();
    let installed: Vec<Installed> = named
        .split(':')
        .filter(|prefix| !prefix.is_empty())
        .map(|prefix| Installed { prefix: PathBuf::from(prefix) })
        .collect();
    let trials = if installed.is_empty() {
        trials(&Installed { prefix: PathBuf::from(ABSENT) }, true)
    } else {
        installed.iter().flat_map(|installed| trials(installed, false)).collect()
    };
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trials(installed: &Installed, is_missing: bool) -> Vec<Trial> {
    let name = installed.name();
    let trial =
        |what: String, test: fn(&Installed, u32) -> Result<(), libtest_mimic::Failed>, number: u32| {
            let installed = installed.clone();
            Trial::test(format!("{name}::{what}"), move || test(&installed, number))
                .with_kind("mpi")
                .with_ignored_flag(is_missing)
        };
    let conformance =
        PROCESSES.map(|count| trial(format!("conformance_of_{count}_processes"), jobs::conforms, count));
    let failures = [
        trial("quickstart_from_the_command_line".to_owned(), failures::quickstart, 4),
        trial("requests_are_served_from_the_command_line".to_owned(), failures::serves, 4),
        trial("doctor_finds_it".to_owned(), failures::doctor, 0),
        trial("probes_measure_the_hosts".to_owned(), failures::probes, 2),
        trial("predictions_are_held_against_hosts".to_owned(), failures::validation, 2),
        trial("another_number_of_processes_is_refused".to_owned(), failures::other_number, 3),
        trial("whoever_ends_first_is_named".to_owned(), failures::random, failures::count()),
        trial("whoever_never_comes_up_is_named".to_owned(), failures::absent, 0),
        trial("ctrl_c_ends_all".to_owned(), failures::stopped, 0),
    ];
    conformance.into_iter().chain(failures).collect()
}
