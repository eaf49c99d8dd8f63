//! A rank, in a process of its own; and the same ranks as threads, for comparison.

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use libtest_mimic::Failed;
use zipwire::engine::host::{self, HostSetup, Permits, RunReport, run_rank};
use zipwire::engine::threads;
use zipwire::scenarios::{Experiment, Source, load};
use zipwire::schedule::Rank;
use zipwire::schedule::plan::Plan;
use zipwire::{Cancel, Prepared};

use super::pipe::Pipe;

/// Says that this process is a rank, and which one of what.
pub(crate) const VARIABLE: &str = "ZIPWIRE_TEST_RANK";
/// Separates what the variable holds: the rank, the epoch in nanoseconds, the scenario, and what is set in it.
pub(crate) const SEPARATOR: char = '\n';

/// Task of a rank.
pub(crate) struct Task {
    rank: Rank,
    epoch: SystemTime,
    file: String,
    sets: Vec<String>,
}

/// Task of this process; `None` if it is no rank.
pub(crate) fn task() -> Option<Task> {
    let text = std::env::var(VARIABLE).ok()?;
    let mut parts = text.split(SEPARATOR).map(str::to_owned);
    let rank = Rank(parts.next()?.parse().ok()?);
    let epoch = SystemTime::UNIX_EPOCH + Duration::from_nanos(parts.next()?.parse().ok()?);
    Some(Task { rank, epoch, file: parts.next()?, sets: parts.collect() })
}

/// Runs all variants of the scenario, one after the other.
pub(crate) fn run(task: &Task) -> ExitCode {
    let experiment = resolve(&task.file, &task.sets);
    let cancel = Cancel::new();
    let prepared = Prepared::new(&experiment, &cancel).expect("scenarios of the tests can be planned");
    let permits = Permits::new(2);
    let mut pipe = None;
    for index in 0..experiment.variants.len() {
        let plan = &prepared.planned(index).plan;
        let memory = host::memory(plan, task.rank).expect("it is small");
        let pipe = pipe.get_or_insert_with(|| Pipe::new(task.rank, memory.clone(), task.epoch));
        pipe.set_memory(memory);
        if run_rank(&setup(&experiment, plan), &permits, pipe).is_err() {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Reports of the same ranks as threads, by variant.
pub(crate) fn as_threads(file: &str, sets: &[String]) -> Result<Vec<(String, RunReport)>, Failed> {
    let experiment = resolve(file, sets);
    let prepared = Prepared::new(&experiment, &Cancel::new())?;
    let report = |index: usize| {
        let setup = setup(&experiment, &prepared.planned(index).plan);
        let report = threads::run(&setup, &AtomicBool::new(false)).map_err(|failure| failure.to_string())?;
        Ok((experiment.variants[index].name.clone(), report))
    };
    (0..experiment.variants.len()).map(report).collect()
}

pub(crate) fn setup<'a>(experiment: &'a Experiment, plan: &'a Plan) -> HostSetup<'a> {
    let payload = experiment.payload.as_ref().expect("scenarios of the tests have bytes");
    HostSetup::new(plan, payload, 0..experiment.iterations)
}

pub(crate) fn resolve(file: &str, sets: &[String]) -> Experiment {
    let source = Source::read(file.as_ref()).expect("the scenario can be read");
    load(&source, sets, None).unwrap_or_else(|error| panic!("{}", error.render(false)))
}
