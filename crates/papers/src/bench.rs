//! Inputs of measurements: the scenarios of a folder, each simulated once, and samples.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use zipwire_runner::executors::SIM;
use zipwire_runner::{Cancel, ExecuteError, Prepared};
use zipwire_scenarios::{Source, load};
use zipwire_serving::Metrics as Requests;
use zipwire_timeline::Metrics;

use crate::ReproduceError;

/// Where samples are, from the folder of the papers' scenarios.
const SAMPLES: &str = "../../traces/samples";

/// A scenario file and the values that replace its own.
type Key = (String, Vec<String>);

/// The folder of the papers' scenarios, and what has been simulated of it.
#[derive(Debug)]
pub struct Bench<'a> {
    folder: &'a Path,
    cancel: &'a Cancel,
    simulated: RefCell<BTreeMap<Key, Rc<Simulated>>>,
    /// Scenarios that were asked for.
    used: RefCell<BTreeSet<String>>,
    /// Values that replace those of scenarios, behind what a measurement replaces itself.
    moved: Vec<Moved>,
    /// Number that is added to the seeds of scenarios.
    seeds_on: u64,
}

/// A value that replaces that of some scenarios; of all, where none are named.
#[derive(Debug)]
struct Moved {
    files: Vec<String>,
    set: String,
}

/// All variants of a scenario.
#[derive(Debug)]
pub(super) struct Simulated {
    scenario: String,
    variants: BTreeMap<String, Metrics>,
    /// Variants of workload `serving`.
    requests: BTreeMap<String, Requests>,
}

impl<'a> Bench<'a> {
    /// Nothing simulated yet.
    pub(super) fn new(folder: &'a Path, cancel: &'a Cancel) -> Self {
        Self {
            folder,
            cancel,
            simulated: RefCell::default(),
            used: RefCell::default(),
            moved: Vec::new(),
            seeds_on: 0,
        }
    }

    /// Adds `seeds_on` to the seed of each scenario.
    pub(super) fn with_seeds_on(mut self, seeds_on: u64) -> Self {
        self.seeds_on = seeds_on;
        self
    }

    /// A bench of short runs: one iteration of each scenario, with the values of `shorter` (file and value) replaced.
    pub(super) fn of_short_runs(folder: &'a Path, cancel: &'a Cancel, shorter: &[(&str, &str)]) -> Self {
        let one = Self::new(folder, cancel).with_moved(&[], "iterations=1".to_owned());
        shorter
            .iter()
            .fold(one, |bench, (file, set)| bench.with_moved(&[(*file).to_owned()], (*set).to_owned()))
    }

    /// With a value of `files`, or of all scenarios if there are none, replaced as `--set` does it.
    pub(super) fn with_moved(mut self, files: &[String], set: String) -> Self {
        self.moved.push(Moved { files: files.to_vec(), set });
        self
    }

    /// The scenarios that were asked for since this was last called.
    pub(super) fn take_used(&self) -> BTreeSet<String> {
        self.used.take()
    }

    /// Whether the user wants it to go on.
    pub(super) fn proceed(&self) -> Result<(), ReproduceError> {
        if self.cancel.is_cancelled() { Err(ExecuteError::Cancelled.into()) } else { Ok(()) }
    }

    pub(super) fn sample(&self, file: &str) -> PathBuf {
        self.folder.join(SAMPLES).join(file)
    }

    /// Simulates all variants of a scenario of the folder with `sets` as `--set` takes them, or remembers it.
    pub(super) fn simulate(&self, scenario: &str, sets: &[String]) -> Result<Rc<Simulated>, ReproduceError> {
        self.used.borrow_mut().insert(scenario.to_owned());
        let key = (scenario.to_owned(), sets.to_owned());
        if let Some(known) = self.simulated.borrow().get(&key) {
            return Ok(Rc::clone(known));
        }
        let sets = [sets, &self.moved_of(scenario)].concat();
        let source = Source::read(&self.folder.join(scenario))?;
        let mut experiment = load(&source, &sets, None)?;
        if self.seeds_on > 0 {
            experiment = load(&source, &sets, Some(experiment.seed.wrapping_add(self.seeds_on)))?;
        }
        let mut prepared = Prepared::new(&experiment, self.cancel)?;
        let (mut variants, mut requests) = (BTreeMap::new(), BTreeMap::new());
        for (index, variant) in experiment.variants.iter().enumerate() {
            let outcome = prepared.run(index, SIM, self.cancel)?;
            if let Some(served) = outcome.served {
                variants.insert(variant.name.clone(), served.metrics);
                requests.insert(variant.name.clone(), served.summary.metrics);
                continue;
            }
            let bytes_raw = prepared.planned(index).plan.bytes_raw();
            variants.insert(variant.name.clone(), Metrics::of(&outcome.timeline, bytes_raw));
        }
        let simulated = Rc::new(Simulated { scenario: scenario.to_owned(), variants, requests });
        self.simulated.borrow_mut().insert(key, Rc::clone(&simulated));
        Ok(simulated)
    }

    fn moved_of(&self, scenario: &str) -> Vec<String> {
        let is_of =
            |moved: &&Moved| moved.files.is_empty() || moved.files.iter().any(|file| file == scenario);
        self.moved.iter().filter(is_of).map(|moved| moved.set.clone()).collect()
    }
}

impl Simulated {
    /// Mean seconds of an iteration.
    pub(super) fn iteration_s(&self, variant: &str) -> Result<f64, ReproduceError> {
        Ok(self.metrics(variant)?.iteration_s.mean)
    }

    /// Mean seconds of an iteration in which a rank does not compute: all its calls, with their coding and the waiting in
    /// them. That is what a timer around the calls shows where they overlap with nothing.
    pub(super) fn calls_s(&self, variant: &str) -> Result<f64, ReproduceError> {
        let metrics = self.metrics(variant)?;
        Ok(metrics.iteration_s.mean - metrics.compute_s)
    }

    /// Mean seconds of an iteration in which a rank sends or receives; of a call of a library, all from when the last rank has come.
    pub(super) fn moving_s(&self, variant: &str) -> Result<f64, ReproduceError> {
        Ok(self.metrics(variant)?.comm_s)
    }

    /// Bytes on the wire over those before compression.
    pub(super) fn wire_fraction(&self, variant: &str) -> Result<f64, ReproduceError> {
        let metrics = self.metrics(variant)?;
        Ok(metrics.bytes_wire as f64 / metrics.bytes_raw as f64)
    }

    /// Mean seconds to the first token of a request.
    pub(super) fn ttft_s(&self, variant: &str) -> Result<f64, ReproduceError> {
        let seconds = self.requests.get(variant).and_then(|requests| requests.ttft_s);
        Ok(seconds.ok_or_else(|| self.missing(variant))?.mean)
    }

    /// Requests that were served per second, from the first arrival to the last end.
    pub(super) fn requests_per_s(&self, variant: &str) -> Result<f64, ReproduceError> {
        let requests = self.requests.get(variant).ok_or_else(|| self.missing(variant))?;
        Ok(f64::from(requests.finished) / requests.duration_s)
    }

    fn missing(&self, variant: &str) -> ReproduceError {
        ReproduceError::NoVariant { scenario: self.scenario.clone(), variant: variant.to_owned() }
    }

    fn metrics(&self, variant: &str) -> Result<&Metrics, ReproduceError> {
        self.variants.get(variant).ok_or_else(|| self.missing(variant))
    }
}
