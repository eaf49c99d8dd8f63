//! Adaptive variants: a switcher chooses the way of each call before each iteration and learns from what it took.
//!
//! Each iteration is a plan of its own: choose, plan, run, exchange statistics, observe. The exchange is a call of the
//! plan, so its time is part of the result. On real ranks each plan moves real bytes, of which every received one is compared; the switcher sees
//! the times of all ranks, as it would from the statistics that they exchange.

mod arms;
mod oracle;
mod plans;
mod tables;

pub(crate) use arms::Arms;
pub(crate) use plans::{Key, Plans};

use serde_json::json;
use zipwire_codec::Table;
use zipwire_engine::threads::{CodecWork, Pace};
use zipwire_payload::Payload;
use zipwire_scenarios::{Experiment, Variant};
use zipwire_schedule::Protocol;
use zipwire_schedule::switcher::{Class, Decision, Round, Switcher};
use zipwire_timeline::Note;
use zipwire_traces::{SwitcherClass, SwitcherDecision, SwitcherSummary};

use crate::executors::{PlanReport, PlanRun, Recipe, RunConditions};
use crate::{Cancel, ExecuteError, Executor, Prepared};
use oracle::{Lengths, Oracle};
use tables::Recalibration;

impl Prepared<'_> {
    /// Runs all iterations of the adaptive variant at `index`, on links that are paced if a pace is given. Where no bytes move, every fixed choice
    /// is run beside it.
    pub(crate) fn run_adaptive(
        &mut self,
        index: usize,
        executor: &dyn Executor,
        pace: Option<&Pace>,
        cancel: &Cancel,
    ) -> Result<(PlanReport, SwitcherSummary), ExecuteError> {
        let experiment = self.experiment;
        let variant = &experiment.variants[index];
        let arms = Arms::new(experiment, variant);
        let is_real = executor.capabilities().is_real;
        let mut runs = Runs {
            prepared: self,
            index,
            executor,
            pace,
            cancel,
            arms: &arms,
            plans: Plans::new(&arms),
            payload: is_real.then(|| arms.payload(executor)).transpose()?,
            lengths: (!is_real).then(Lengths::default),
        };
        let recalibration = Recalibration::new(experiment, variant, cancel);
        let oracle = (!is_real).then(|| Oracle::new(variant.arms.len()));
        adaptive_loop(&mut runs, experiment, recalibration, oracle)
    }

    /// Work of the codec and of sums in so many iterations of the adaptive variant at `index`, under each arm.
    pub(crate) fn codec_works_of_arms(
        &mut self,
        index: usize,
        executor: &dyn Executor,
        iterations: u32,
        cancel: &Cancel,
    ) -> Result<Vec<CodecWork>, ExecuteError> {
        let variant = &self.experiment.variants[index];
        let arms = Arms::new(self.experiment, variant);
        let (mut plans, payload) = (Plans::new(&arms), arms.payload(executor)?);
        let work = |arm| {
            let key = (vec![arm; arms.raw_bytes.len()], true);
            let plan = plans.get(&key)?;
            let run = PlanRun {
                index,
                plan: &plan,
                recipe: Recipe::Adaptive { key: &key, table: None },
                payload: Some(&payload),
                iterations: 0..iterations,
                conditions: RunConditions::NONE,
            };
            Ok(self.run_plan(executor, &run, cancel)?.codec_work)
        };
        (0..variant.arms.len()).map(work).collect()
    }
}

/// Single iterations of an adaptive variant, of which each has a plan of its own.
struct Runs<'a, 'e> {
    prepared: &'a mut Prepared<'e>,
    index: usize,
    executor: &'a dyn Executor,
    pace: Option<&'a Pace>,
    cancel: &'a Cancel,
    arms: &'a Arms<'e>,
    plans: Plans<'a, 'e>,
    payload: Option<Payload>,
    /// Lengths of iterations that were run; kept where they can be run again under other choices.
    lengths: Option<Lengths>,
}

impl Runs<'_, '_> {
    /// Runs an iteration, whole; also gives the bytes before coding, which are those of its plan.
    fn run(&mut self, iteration: u32, key: &Key) -> Result<(PlanReport, u64), ExecuteError> {
        let plan = self.plans.get(key)?;
        let run = PlanRun {
            index: self.index,
            plan: &plan,
            recipe: Recipe::Adaptive { key, table: self.plans.table() },
            payload: self.payload.as_ref(),
            iterations: iteration..iteration + 1,
            conditions: RunConditions { pace: self.pace, ..RunConditions::NONE },
        };
        let report = self.prepared.run_plan(self.executor, &run, self.cancel)?;
        if let Some(lengths) = &mut self.lengths {
            lengths.insert(self.prepared.experiment, iteration, key, report.timeline.end_s());
        }
        Ok((report, plan.bytes_raw()))
    }

    /// Seconds of an iteration. Iterations that find the same take the same time.
    fn length_s(&mut self, iteration: u32, key: &Key) -> Result<f64, ExecuteError> {
        let lengths = self.lengths.as_mut();
        match lengths.and_then(|lengths| lengths.get(self.prepared.experiment, iteration, key)) {
            Some(length_s) => Ok(length_s),
            None => Ok(self.run(iteration, key)?.0.timeline.end_s()),
        }
    }

    /// From the next iteration on, frames name this table.
    fn use_table(&mut self, table: &Table) {
        self.plans.use_table(table);
        if let Some(lengths) = &mut self.lengths {
            lengths.clear();
        }
    }
}

/// Runs all iterations: choose, plan, run, observe.
fn adaptive_loop(
    runs: &mut Runs<'_, '_>,
    experiment: &Experiment,
    mut recalibration: Option<Recalibration<'_>>,
    mut oracle: Option<Oracle>,
) -> Result<(PlanReport, SwitcherSummary), ExecuteError> {
    let mut switcher = runs.arms.switcher();
    let mut all = PlanReport::default();
    let mut log = Log::default();
    let warm_up = switcher.warm_up().min(experiment.iterations);
    let mut times = Times::default();
    let mut raw = 0_u128;
    for iteration in 0..experiment.iterations {
        let round = switcher.choose(iteration);
        let key = (round.arms.clone(), round.exchanges);
        let (mut ran, bytes_raw) = runs.run(iteration, &key)?;
        raw += u128::from(bytes_raw);
        let report = arms::report(&ran.timeline, &runs.arms.raw_bytes);
        ran.timeline.notes = log.add(&switcher, &round, experiment);
        let length_s = ran.timeline.elapsed_s();
        all.append(ran);
        if iteration < warm_up {
            times.warm_up_s += length_s;
        } else {
            times.elapsed_s += length_s;
            times.exchange_s += report.exchange_s;
            if let Some(oracle) = &mut oracle {
                oracle.add(runs, &switcher, &round, iteration, length_s)?;
            }
        }
        if round.exchanges {
            switcher.observe(iteration, &round, &report);
            if let Some(recalibration) = &mut recalibration {
                let plan = runs.plans.get(&key)?;
                if let Some(table) = recalibration.observe(iteration, &plan)? {
                    runs.use_table(&table);
                }
            }
        }
    }
    let count = u128::from(experiment.iterations.max(1));
    let bytes_raw = u64::try_from((raw + count / 2) / count).expect("a mean is no larger than its terms");
    let tables = recalibration.map_or(Vec::new(), |recalibration| recalibration.tables);
    let summary = SwitcherSummary {
        bytes_raw,
        warm_up_iterations: warm_up,
        tables,
        decisions: log.decisions,
        ..summary(&switcher, &experiment.variants[runs.index], &times, oracle.as_ref())
    };
    Ok((all, summary))
}

/// Seconds of the iterations of a run.
#[derive(Default)]
struct Times {
    warm_up_s: f64,
    /// Behind the warm-up.
    elapsed_s: f64,
    /// The part of `elapsed_s` that is in exchanges of statistics.
    exchange_s: f64,
}

/// Summary of a run's switcher, without what its iterations add up to.
fn summary(
    switcher: &Switcher,
    variant: &Variant,
    times: &Times,
    oracle: Option<&Oracle>,
) -> SwitcherSummary {
    let class = |class: &Class| SwitcherClass { name: class.name.clone(), calls: class.segments.len() };
    let native = variant.arms.iter().position(|arm| arm.protocol == Protocol::Native);
    SwitcherSummary {
        bytes_raw: 0,
        arms: switcher.arms().iter().map(|arm| arm.name.clone()).collect(),
        classes: switcher.classes().iter().map(class).collect(),
        warm_up_iterations: 0,
        warm_up_s: times.warm_up_s,
        elapsed_s: times.elapsed_s,
        probing_share: oracle.map(|oracle| oracle.probing_share(times.elapsed_s)),
        statistics_share: share(times.exchange_s, times.elapsed_s),
        regret: oracle.and_then(Oracle::regret),
        over_best_arm: oracle.and_then(Oracle::over_best_arm),
        over_native: oracle.zip(native).and_then(|(oracle, arm)| oracle.over_arm(arm)),
        decisions: Vec::new(),
        tables: Vec::new(),
    }
}

/// Part of a time; 0 of none.
fn share(part_s: f64, all_s: f64) -> f64 {
    if all_s > 0.0 { part_s / all_s } else { 0.0 }
}

/// The decisions that changed something.
#[derive(Default)]
struct Log {
    decisions: Vec<SwitcherDecision>,
    /// The arm of each class.
    used: Vec<Option<usize>>,
}

impl Log {
    /// Adds what is new in a round; the same as notes for its timeline.
    fn add(&mut self, switcher: &Switcher, round: &Round, experiment: &Experiment) -> Vec<Note> {
        self.used.resize(switcher.classes().len(), None);
        let mut notes = Vec::new();
        for decision in &round.decisions {
            if decision.segment.is_none() {
                if self.used[decision.class] == Some(decision.arm) {
                    continue;
                }
                self.used[decision.class] = Some(decision.arm);
            }
            let Decision { iteration, class, segment, arm, costs_s, reason } = decision;
            let name = |arm: usize| switcher.arms()[arm].name.clone();
            let segment = segment.map(|segment| experiment.job().segments[segment.index()].name.to_string());
            let costs = (0..).map(name).zip(costs_s.iter().map(|&seconds| json!(seconds)));
            let class_name = &switcher.classes()[*class].name;
            let args = json!({
                "iteration": iteration,
                "class": class_name,
                "call": segment,
                "reason": reason.name(),
                "costs_s": costs.collect::<serde_json::Map<_, _>>(),
            });
            let args = args.to_string();
            notes.push(Note { at_s: 0.0, name: format!("{class_name}: {}", name(*arm)), args });
            self.decisions.push(SwitcherDecision {
                iteration: *iteration,
                class: *class,
                segment,
                arm: name(*arm),
                reason: reason.name(),
                costs_s: costs_s.clone(),
            });
        }
        notes
    }
}
