//! Serving with ranks that are processes over MPI, with the library and the `mpirun` in each of the folders that `ZIPWIRE_TEST_MPI` names,
//! separated by colons. Without it all are ignored.
//!
//! This program is also the rank: it starts itself by `mpirun`.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

#[path = "../it/serving/scenes.rs"]
#[allow(dead_code, reason = "what threads need of it")]
mod scenes;

use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use zipwire_engine::mpi::World;
use zipwire_engine::serving::{Damage, Fault, Instance, ServeError, Served, ServingSetup};
use zipwire_mpi::library;
use zipwire_schedule::{FailureKind, Rank};
use zipwire_serving::{
    ComputeTime, DecodeTime, FailReason, Loss, Move, Outcome, PrefillTime, RequestId, Trouble,
};

use scenes::{Scene, assert_served, assert_tidy, coding, requests};

/// Names the folders.
const PREFIXES: &str = "ZIPWIRE_TEST_MPI";
/// Says that this process is a rank, and of which test.
const VARIABLE: &str = "ZIPWIRE_TEST_SERVING";
/// Text that rank 0 prints if the case has passed.
const GOOD: &str = "all is as it should be";

/// Name of a case, its number of ranks, and what each of them runs.
type Case = (&'static str, u32, fn(&mut World));

const CASES: [Case; 5] = [
    ("moves_every_byte", 4, moves),
    ("moves_between_instances_of_different_widths", 6, moves_wide),
    ("lets_go_of_what_is_cancelled", 4, cancels),
    ("goes_on_without_an_instance_that_dies", 4, loses),
    ("names_what_is_damaged", 4, damages),
];

fn main() -> ExitCode {
    if let Ok(name) = std::env::var(VARIABLE) {
        return rank(&name);
    }
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    let named = std::env::var(PREFIXES).unwrap_or_default();
    let prefixes: Vec<&str> = named.split(':').filter(|prefix| !prefix.is_empty()).collect();
    let is_missing = prefixes.is_empty();
    let prefixes = if is_missing { vec!["absent"] } else { prefixes };
    let trial = |prefix: &str, (name, ranks, _): &Case| {
        let (prefix, name, ranks) = (prefix.to_owned(), *name, *ranks);
        let folder =
            Path::new(&prefix).file_name().map_or_else(String::new, |name| name.to_string_lossy().into());
        Trial::test(format!("{folder}::{name}"), move || start(Path::new(&prefix), name, ranks))
            .with_kind("mpi")
            .with_ignored_flag(is_missing)
    };
    let trials = prefixes.iter().flat_map(|prefix| CASES.iter().map(|case| trial(prefix, case))).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Starts the processes of a case, and hears what rank 0 says.
fn start(prefix: &Path, name: &str, ranks: u32) -> Result<(), Failed> {
    let libraries = prefix.join("lib");
    let mut command = Command::new(prefix.join("bin/mpirun"));
    command.args(["-n", &ranks.to_string()]);
    if libraries.join("libmpi.so.40").is_file() {
        command.args(["--oversubscribe", "--bind-to", "none", "--allow-run-as-root"]);
    }
    command.arg(std::env::current_exe()?).env(VARIABLE, name).env("ZIPWIRE_MPI_LIB", libraries);
    let output = command.output()?;
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if said.contains(GOOD) { Ok(()) } else { Err(format!("{}: {said}\n{errors}", output.status).into()) }
}

fn rank(name: &str) -> ExitCode {
    let cancel = Arc::new(AtomicBool::new(false));
    let mut world = World::begin(library().unwrap(), None, cancel).unwrap();
    let (_, _, case) = CASES.iter().find(|(other, ..)| *other == name).unwrap();
    case(&mut world);
    if world.rank() == Rank(0) {
        println!("{GOOD}");
        world.has_said_all(Some(0));
    }
    world.finish().unwrap();
    ExitCode::SUCCESS
}

/// Serves as this process's rank; at rank 0 what it came to.
fn serve(world: &mut World, setup: &ServingSetup<'_>) -> Result<Option<Served>, ServeError> {
    if world.rank() == Rank(0) {
        world.tell(b"serve").unwrap();
        world.align().unwrap();
    } else {
        assert!(world.next_task().unwrap().is_some(), "there is something to do");
    }
    world.serve("a test", setup)
}

fn check(world: &mut World, scene: &Scene, codec: Option<&str>) {
    if let Some(served) = serve(world, &scene.setup(codec)).unwrap() {
        assert_served(&served);
        assert_eq!((served.bytes_raw, served.totals.bytes_verified), (scene.bytes(), scene.bytes()));
        assert_eq!(served.bytes_wire < served.bytes_raw, codec.is_some());
    }
}

fn moves(world: &mut World) {
    for moves in Move::ALL {
        for codec in [None, Some("tiered"), Some("rans")] {
            let mut scene = Scene::grouped([1, 1]);
            scene.config.moves = moves;
            check(world, &scene, codec);
            let mut scene = Scene::latent([1, 1]);
            scene.config.moves = moves;
            check(world, &scene, codec);
        }
    }
    let scene = Scene::grouped([1, 1]);
    let mut setup = scene.setup(None);
    let whole = coding("tiered");
    setup.coding = Some(zipwire_engine::serving::Coding { is_pipelined: false, ..whole });
    if let Some(served) = serve(world, &setup).unwrap() {
        assert_served(&served);
    }
}

fn moves_wide(world: &mut World) {
    for ranks in [[2, 1], [1, 2]] {
        check(world, &Scene::grouped(ranks), Some("tiered"));
        check(world, &Scene::latent(ranks), None);
    }
}

/// A fifth of a millisecond for each token of a prompt, and twenty for each step.
fn slowly(setup: &mut ServingSetup<'_>) {
    setup.time_scale = 1.0;
    setup.compute = ComputeTime {
        prefill: PrefillTime { token_s: 2e-4, ..PrefillTime::default() },
        decode: DecodeTime { step_s: 0.02, ..DecodeTime::default() },
    };
}

fn cancels(world: &mut World) {
    for moves in Move::ALL {
        let mut scene = Scene::grouped([1, 1]);
        scene.config.moves = moves;
        scene.requests = requests(&[600; 12], 0.01);
        let mut setup = scene.setup(Some("tiered"));
        slowly(&mut setup);
        let leaves = |request: u32| Trouble {
            at_s: 0.02 + 0.035 * f64::from(request),
            what: Loss::Request(RequestId(request)),
        };
        let troubles: Vec<Trouble> = (0..12).map(leaves).collect();
        setup.troubles = &troubles;
        if let Some(served) = serve(world, &setup).unwrap() {
            assert_tidy(&served);
            assert!(served.census.failed > 0, "{:?}", served.census);
        }
    }
}

fn loses(world: &mut World) {
    for (what, instance) in [
        (Loss::Prefill(1), Instance::Prefill(1)),
        (Loss::Decode(0), Instance::Decode(0)),
        // That of the process that decides for all.
        (Loss::Prefill(0), Instance::Prefill(0)),
    ] {
        let mut scene = Scene::grouped([1, 1]);
        scene.requests = requests(&[600; 16], 0.02);
        let mut setup = scene.setup(Some("tiered"));
        slowly(&mut setup);
        setup.lost_after = Duration::from_millis(1500);
        let troubles = [Trouble { at_s: 0.15, what }];
        setup.troubles = &troubles;
        if let Some(served) = serve(world, &setup).unwrap() {
            assert_tidy(&served);
            assert_eq!(served.lost.iter().map(|lost| lost.instance).collect::<Vec<_>>(), [instance]);
            let records = served.recorder.records().iter();
            let lost = records.filter(|record| record.outcome == Outcome::Failed(FailReason::InstanceLost));
            assert!(lost.count() > 0 && served.census.finished > 0, "{:?}", served.census);
        }
    }
}

fn damages(world: &mut World) {
    let scene = Scene::grouped([1, 1]);
    let mut setup = scene.setup(Some("tiered"));
    let faults = [Fault { request: RequestId(3), layer: 2, damage: Damage::Flip(60) }];
    setup.faults = &faults;
    let error = serve(world, &setup).unwrap_err();
    if world.rank() == Rank(0) {
        let ServeError::Failed { request, kind, .. } = &error else { panic!("{error}") };
        assert_eq!((*request, *kind), (Some(RequestId(3)), FailureKind::Corrupt), "{error}");
    }
}
