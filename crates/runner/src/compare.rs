//! All variants of an experiment on some executors, side by side.

use zipwire_scenarios::{Experiment, Variant};
use zipwire_timeline::{Bandwidths, Metrics, Timeline, Updates};
use zipwire_traces::Executors;

use crate::critical_path::critical_path;
use crate::{Cancel, ExecuteError, Executor, Planned, Prepared, Served};

/// Results of a comparison.
#[derive(Debug)]
pub struct Comparison {
    /// The runs that ended well.
    pub executors: Executors,
    /// The runs that failed, in order.
    pub failed: Vec<Failed>,
    /// Faults that had no effect in runs that ended well.
    pub unfired: Vec<Unfired>,
}

/// A fault that a run did not suffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfired {
    /// Its position in the scenario, from 0 as in paths of `--set`.
    pub fault: usize,
    /// The executor.
    pub executor: &'static dyn Executor,
    /// The variant.
    pub variant: String,
}

/// A run that a rank ended by failing.
#[derive(Debug)]
pub struct Failed {
    /// The executor.
    pub executor: &'static dyn Executor,
    /// The variant.
    pub variant: String,
    /// How it failed.
    pub error: ExecuteError,
}

/// A run that has just ended well.
#[derive(Debug)]
pub struct RunResult<'a> {
    /// The experiment.
    pub experiment: &'a Experiment,
    /// The executor.
    pub executor: &'static dyn Executor,
    /// The variant.
    pub variant: &'a str,
    /// Its plan.
    pub planned: &'a Planned,
    /// Spans of all ranks.
    pub timeline: Timeline,
    /// Seconds of its mean iteration; 0 for workload `serving`, which has none.
    pub iteration_s: f64,
    /// Outcome of the requests of workload `serving`.
    pub served: Option<Served>,
}

/// Runs every variant on every executor. Speedups are over `first_variant`, whether it runs or not. `begin` is told what
/// begins; `keep` is given what has ended well, before it is dropped. `explains` says whether to find what simulated variants are bound
/// by, but adaptive ones, whose plan differs from iteration to iteration.
///
/// # Errors
/// Errors of `keep`, and whatever ends a run before a rank fails: that is in the result.
pub fn compare<E: From<ExecuteError>>(
    prepared: &mut Prepared<'_>,
    executors: &[&'static dyn Executor],
    first_variant: &str,
    explains: bool,
    cancel: &Cancel,
    mut begin: impl FnMut(&dyn Executor, &str),
    mut keep: impl FnMut(&RunResult<'_>) -> Result<(), E>,
) -> Result<Comparison, E> {
    let experiment = prepared.experiment;
    let mut compared =
        Comparison { executors: Executors::new(first_variant), failed: Vec::new(), unfired: Vec::new() };
    for &executor in executors {
        for (index, variant) in experiment.variants.iter().enumerate() {
            begin(executor, &variant.name);
            let outcome = match prepared.run(index, executor, cancel) {
                Ok(outcome) => outcome,
                // One variant that fails says nothing about the others.
                Err(error) if error.is_run_failure() => {
                    compared.failed.push(Failed { executor, variant: variant.name.clone(), error });
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let planned = prepared.planned(index);
            let switched = outcome.switcher.as_ref().map(|switcher| switcher.bytes_raw);
            let bytes_raw = switched.unwrap_or_else(|| planned.plan.bytes_raw());
            let of_timeline = || Metrics::with_ranks(&outcome.timeline, bytes_raw);
            let (metrics, by_rank) = match &outcome.served {
                Some(served) => (served.metrics, None),
                None => tracing::info_span!("metrics", variant = %variant.name).in_scope(|| {
                    let (metrics, by_rank) = of_timeline();
                    (metrics, Some(by_rank))
                }),
            };
            let (timed, digest, name) = (outcome.is_timed, planned.digest.clone(), executor.name());
            compared.executors.insert(name, timed, &variant.name, metrics, digest, outcome.verified);
            let iterations = experiment.as_iterations().filter(|_| timed);
            // Where ranks train, the time is not that of a call.
            let calls = iterations.filter(|iterations| iterations.cycle.is_none());
            if let Some(bandwidths) = calls.and_then(|calls| Bandwidths::of(&calls.job, &metrics)) {
                compared.executors.insert_bandwidths(name, &variant.name, bandwidths);
            }
            let unfired = |&fault: &usize| Unfired { fault, executor, variant: variant.name.clone() };
            compared.unfired.extend(outcome.unfired.iter().map(unfired));
            let choice = experiment.codec_of(variant).filter(|_| variant.is_coded());
            let declared = choice.and_then(|choice| choice.declared.as_ref());
            let summary = compared.executors.inserted(name, &variant.name);
            summary.by_rank = by_rank;
            summary.alike = Some(outcome.timeline.alike()).filter(|&alike| alike > 1);
            summary.requests = outcome.served.as_ref().map(|served| served.summary);
            let cycle = iterations.and_then(|iterations| iterations.cycle);
            summary.updates = cycle.and_then(|cycle| Updates::of(&outcome.timeline, cycle));
            summary.switcher = outcome.switcher;
            summary.algorithms = algorithms(experiment, variant);
            summary.codec_speed_basis = declared.map(|declared| declared.basis.name());
            summary.faults_not_fired = outcome.unfired;
            let timeline = outcome.timeline;
            let is_simulated = !executor.capabilities().is_real;
            let is_explained =
                explains && is_simulated && !variant.is_adaptive() && experiment.as_iterations().is_some();
            summary.critical_path =
                is_explained.then(|| critical_path(experiment, variant, &planned.plan, &timeline));
            let (served, variant) = (outcome.served, &variant.name);
            let iteration_s = if served.is_some() { 0.0 } else { metrics.iteration_s.mean };
            keep(&RunResult { experiment, executor, variant, planned, timeline, iteration_s, served })?;
        }
    }
    Ok(compared)
}

/// In which algorithms the calls of a variant, or of all its arms, travel, by collective; none of collectives that have only one.
fn algorithms(experiment: &Experiment, variant: &Variant) -> Vec<(&'static str, &'static str)> {
    let arms = if variant.is_adaptive() { variant.arms.as_slice() } else { std::slice::from_ref(variant) };
    let mut all = Vec::new();
    for (index, segment) in experiment.work.segments().iter().enumerate() {
        for arm in arms {
            let algorithm = arm.ways[index].map(|way| way.algorithm.name());
            let named = segment.work.collective_name().zip(algorithm);
            all.extend(named.filter(|named| !all.contains(named)));
        }
    }
    all
}
