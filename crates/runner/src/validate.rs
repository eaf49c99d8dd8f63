//! Holds predictions against measurements: the same plans simulated and run on paced links, or on hosts as they are.

use std::sync::Arc;

use zipwire_calibrate::HostConstants;
use zipwire_cluster::{NetworkModel, Topology};
use zipwire_codec::Spec;
use zipwire_engine::threads::{CodecWork, Coding, Pace};
use zipwire_scenarios::{Experiment, Variant};
use zipwire_schedule::{Algorithm, CostModel, Deadlines, Lane, Plan, SegmentId};
use zipwire_timeline::{CriticalPath, Deviation, Metrics, Timeline};

use crate::choices::costs;
use crate::critical_path::critical_path;
use crate::execute::check_start;
use crate::executors::{PlanReport, RunConditions, SIM, cores};
use crate::probe::probe;
use crate::{Cancel, ExecuteError, Executor, Planned, Prepared, Shared};

/// Unpaced iterations in which the codec of this machine is measured. Each op counts with its shortest: in the first one
/// memory is touched for the first time, and in any of them other work may be in the way of caches and memory.
const WARM_UPS: u32 = 3;

/// Real codec work may take at most this share of the time that is declared for it, so that it never sets the pace. Half
/// would do on a machine with nothing else to do; a third leaves room for other load.
const CODEC_SHARE: f64 = 1.0 / 3.0;

/// Seconds of this machine that the shortest iteration takes at the least: then the moments by which threads wake up late,
/// and those in which bytes are really copied, do not matter.
const SHORTEST_ITERATION_S: f64 = 2.0;

/// Arguments of [`validate`].
#[derive(Clone, Copy, Debug)]
pub struct ValidationSetup<'a> {
    /// The simulated experiment.
    pub experiment: &'a Experiment,
    /// The experiment that is run for real: the same, or the same work on a cluster other than the scenario's.
    pub real: &'a Experiment,
    /// Executor of the real run, whose links can be paced.
    pub executor: &'a dyn Executor,
    /// Replaces the least dilation that lets this machine keep up and that makes iterations long enough to be measured;
    /// less than that is refused.
    pub dilation: Option<f64>,
}

/// How well the simulator predicts the variants of a scenario.
#[derive(Clone, Debug)]
pub struct Validation {
    /// Seconds of this machine for a second of the cluster.
    pub dilation: f64,
    /// The variants, in the scenario's order.
    pub variants: Vec<VariantValidation>,
}

/// How well the simulator predicts one variant.
#[derive(Clone, Debug)]
pub struct VariantValidation {
    /// Its name.
    pub name: String,
    /// Mean iteration time of the simulation, in seconds.
    pub predicted_s: f64,
    /// Mean iteration time of the paced run, in seconds of the cluster.
    pub measured_s: f64,
    /// Critical path of the predicted iteration: a paced run models links by itself, and takes all else as the scenario declares it.
    /// `None` if iterations have plans of their own.
    pub critical_path: Option<CriticalPath>,
    /// Whether calls of a library are among its ops: their times are declared, too.
    pub calls_library: bool,
    /// The op or transfer whose duration was predicted worst; `None` if nothing ran, or if iterations have plans of their own.
    pub largest_deviation: Option<Deviation>,
    /// How well this machine kept up with the pace; `None` on hosts that run as fast as they can.
    pub paced: Option<Pacing>,
    /// The simulation.
    pub simulated: Timeline,
    /// The measurement, in seconds of the cluster.
    pub measured: Timeline,
}

/// Load of a paced run on this machine.
#[derive(Clone, Copy, Debug)]
pub struct Pacing {
    /// Share of this machine's cores that the codec took.
    pub codec_share: f64,
    /// Seconds of the cluster that a codec op waited for a core, on average.
    pub core_wait_s: f64,
}

impl VariantValidation {
    /// Measured / predicted - 1.
    pub fn error(&self) -> f64 {
        self.measured_s / self.predicted_s - 1.0
    }

    /// The part of the predicted iteration, from 0 to 1, that goes to moving bytes and to latencies of links: what is modelled twice, and so
    /// what an agreement is about. `None` if iterations have plans of their own.
    pub fn on_links(&self) -> Option<f64> {
        let path = &self.critical_path.as_ref()?.critical_path_s;
        let seconds = |name| path.get(name).copied().unwrap_or_default();
        Some((seconds("links") + seconds("latency")) / path.values().sum::<f64>())
    }
}

impl Validation {
    /// Whether both order the variants alike. Variants whose predictions are within `tolerance` of each other are equal.
    pub fn ranking_agrees(&self, tolerance: f64) -> bool {
        let pairs: Vec<[f64; 2]> =
            self.variants.iter().map(|variant| [variant.predicted_s, variant.measured_s]).collect();
        is_same_order(&pairs, tolerance)
    }
}

/// Whether predictions and measurements, in pairs, rank alike. Predictions that are within `tolerance` of each other are equal.
pub(crate) fn is_same_order(pairs: &[[f64; 2]], tolerance: f64) -> bool {
    let apart = |a: f64, b: f64| (a / b).max(b / a) > 1.0 + tolerance;
    pairs.iter().enumerate().all(|(index, [predicted, measured])| {
        let behind = &pairs[index + 1..];
        behind
            .iter()
            .all(|[other, found]| !apart(*predicted, *other) || (predicted < other) == (measured < found))
    })
}

/// Simulates every variant and runs it on paced links; `begin` hears of each step before it begins. `prepared` are the
/// plans of `setup.experiment`.
///
/// # Errors
/// If a run fails, a byte is wrong, the user stops it, the dilation is too small, or the real run would do other work
/// than the simulation.
pub fn validate(
    prepared: &mut Prepared<'_>,
    setup: &ValidationSetup<'_>,
    cancel: &Cancel,
    mut begin: impl FnMut(String),
) -> Result<Validation, ExecuteError> {
    let ValidationSetup { experiment, real, executor, dilation } = *setup;
    let Some(iterations) = real.as_iterations() else {
        return Err(ExecuteError::NoTime(real.variants[0].name.clone()));
    };
    check_model(real)?;
    check_start(real, executor)?;
    check_same_work(prepared, experiment, real, cancel)?;
    prepared.check_plans(SIM)?;
    prepared.check_plans(executor)?;
    let mut predictions = Vec::new();
    let mut needed = 1.0_f64;
    for (index, variant) in experiment.variants.iter().enumerate() {
        begin(format!("{}: simulating", variant.name));
        let prediction = prepared.predict(index, real, cancel)?;
        needed = needed.max(SHORTEST_ITERATION_S / prediction.iteration_s);
        predictions.push(prediction);
        if needs_measuring(prepared, index) {
            begin(format!("{}: measuring the codec of this machine", variant.name));
            needed = needed.max(prepared.needed_dilation(index, executor, real, cancel)?);
        }
    }
    let needed = needed.ceil();
    if let Some(asked) = dilation.filter(|&asked| asked < needed) {
        return Err(ExecuteError::Dilation { asked, needed });
    }
    let mut pace = Pace {
        topology: real.topology.clone(),
        costs: CostModel { host: real.host, codec: None },
        durations: iterations.durations.clone(),
        dilation: dilation.unwrap_or(needed).max(1.0),
    };
    let mut variants = Vec::new();
    for (index, prediction) in predictions.into_iter().enumerate() {
        let variant = &experiment.variants[index];
        pace.costs = costs(real, &real.variants[index]);
        begin(format!("{}: running at 1/{} of the speed", variant.name, pace.dilation));
        let deadlines = prediction.deadlines.as_ref().filter(|_| !iterations.faults.is_empty());
        let report = if variant.is_adaptive() {
            prepared.run_adaptive(index, executor, Some(&pace), cancel)?.0
        } else {
            let conditions = RunConditions { faults: &iterations.faults, deadlines, pace: Some(&pace) };
            prepared.run_own_plan(index, executor, experiment.iterations, conditions, cancel)?
        };
        variants.push(compare(
            prepared.planned(index),
            experiment,
            variant,
            prediction,
            report,
            pace.dilation,
        ));
    }
    Ok(Validation { dilation: pace.dilation, variants })
}

struct Prediction {
    timeline: Timeline,
    /// Deadlines of a run with faults. Without faults a run may take any time: it is a measurement.
    deadlines: Option<Deadlines>,
    iteration_s: f64,
}

fn compare(
    planned: &Planned,
    experiment: &Experiment,
    variant: &Variant,
    prediction: Prediction,
    report: PlanReport,
    dilation: f64,
) -> VariantValidation {
    let Prediction { timeline: simulated, iteration_s: predicted_s, .. } = prediction;
    let measured_s = mean_iteration_s(&report.timeline, planned);
    let calls = report.codec_work.calls.values();
    let (work_s, waiting_s, ops) = calls.fold((0.0, 0.0, 0), |(work, waiting, ops), call| {
        (work + call.work_s, waiting + call.waiting_s, ops + call.ops)
    });
    let run_s = measured_s * f64::from(experiment.iterations) * dilation;
    VariantValidation {
        name: variant.name.clone(),
        predicted_s,
        measured_s,
        critical_path: (!variant.is_adaptive())
            .then(|| critical_path(experiment, variant, &planned.plan, &simulated)),
        calls_library: calls_library(variant),
        largest_deviation: Deviation::largest(&simulated, &report.timeline)
            .filter(|_| !variant.is_adaptive()),
        paced: Some(Pacing {
            codec_share: work_s / (run_s * cores() as f64),
            core_wait_s: waiting_s / dilation / (ops as f64).max(1.0),
        }),
        simulated,
        measured: report.timeline,
    }
}

/// Refuses a real run that would do other work than the simulation. What it takes from `real`, links, costs and times,
/// may differ; what it shares with the simulation may not.
///
/// # Errors
/// Names the first difference and the variant that it concerns.
pub(crate) fn check_same_work(
    prepared: &Prepared<'_>,
    simulated: &Experiment,
    real: &Experiment,
    cancel: &Cancel,
) -> Result<(), ExecuteError> {
    let names =
        |experiment: &Experiment| experiment.variants.iter().map(|v| v.name.clone()).collect::<Vec<_>>();
    let ratio = |experiment: &Experiment| {
        let of = |variant| experiment.codec_of(variant).and_then(|choice| choice.ratio);
        experiment.variants.iter().map(of).collect::<Vec<_>>()
    };
    let slack = |experiment: &Experiment| experiment.as_iterations().map(|iterations| iterations.slack);
    let shared = [
        ("name", simulated.name == real.name),
        ("seed", simulated.seed == real.seed),
        ("iteration count", simulated.iterations == real.iterations),
        ("list of variants", names(simulated) == names(real)),
        ("payload", simulated.payload == real.payload),
        ("ratio", ratio(simulated) == ratio(real)),
        ("deadline", slack(simulated) == slack(real)),
    ];
    if let Some((what, _)) = shared.into_iter().find(|(_, is_same)| !is_same) {
        return Err(ExecuteError::OtherWork { variant: simulated.variants[0].name.clone(), what });
    }
    let planned = Prepared::new(real, cancel)?;
    let mut pairs = prepared.variants().zip(planned.variants());
    match pairs.find(|((_, simulated), (_, real))| simulated.digest != real.digest) {
        Some(((variant, _), _)) => {
            Err(ExecuteError::OtherWork { variant: variant.name.clone(), what: "plan" })
        }
        None => Ok(()),
    }
}

/// Paced links know contention, and no other model than max-min describes them.
pub(crate) fn check_model(real: &Experiment) -> Result<(), ExecuteError> {
    if real.model == NetworkModel::MaxMin { Ok(()) } else { Err(ExecuteError::Model(real.model)) }
}

fn mean_iteration_s(timeline: &Timeline, planned: &Planned) -> f64 {
    Metrics::of(timeline, planned.plan.bytes_raw()).iteration_s.mean
}

/// Whether some collective of a variant, or of one of its arms, is a call of a library.
fn calls_library(variant: &Variant) -> bool {
    let ways = std::iter::once(variant).chain(&variant.arms).flat_map(|variant| &variant.ways);
    ways.flatten().any(|way| way.algorithm == Algorithm::Library)
}

/// Whether a variant has, or may have, ops that do real work of which a cost is declared: codecs and sums, those of a library
/// too.
pub(crate) fn needs_measuring(prepared: &Prepared<'_>, index: usize) -> bool {
    if prepared.experiment.variants[index].is_adaptive() {
        return true;
    }
    let programs = &prepared.planned(index).plan.programs;
    programs.iter().flat_map(|program| &program.ops).any(|op| {
        op.kind.lane() == Lane::Codec
            || op.kind.library().is_some_and(|library| library.collective.is_reduction())
    })
}

impl Prepared<'_> {
    /// Simulates the variant with the faults of the scenario, and with deadlines if the simulation or `real` has faults.
    fn predict(
        &mut self,
        index: usize,
        real: &Experiment,
        cancel: &Cancel,
    ) -> Result<Prediction, ExecuteError> {
        let experiment = self.experiment;
        let variant = &experiment.variants[index];
        let iterations = experiment.iterations;
        let expected = match variant.is_adaptive() {
            true => self.run_adaptive(index, SIM, None, cancel)?.0,
            false => self.run_own_plan(index, SIM, iterations, RunConditions::NONE, cancel)?,
        };
        let expected = expected.timeline;
        let has_faults = !(experiment.faults().is_empty() && real.faults().is_empty());
        let deadlines = has_faults.then(|| self.deadlines(index, &expected));
        let timeline = match experiment.faults() {
            [] => expected,
            faults => {
                let conditions = RunConditions { faults, deadlines: deadlines.as_ref(), pace: None };
                self.run_own_plan(index, SIM, iterations, conditions, cancel)?.timeline
            }
        };
        let iteration_s = mean_iteration_s(&timeline, self.planned(index));
        if iteration_s == 0.0 {
            return Err(ExecuteError::NoTime(variant.name.clone()));
        }
        Ok(Prediction { timeline, deadlines, iteration_s })
    }

    /// Measures the codec and sum ops of a variant on this machine; of an adaptive one, under each arm.
    fn codec_works(
        &mut self,
        index: usize,
        executor: &dyn Executor,
        cancel: &Cancel,
    ) -> Result<Vec<CodecWork>, ExecuteError> {
        let variant = &self.experiment.variants[index];
        if !variant.is_adaptive() {
            let report = self.run_own_plan(index, executor, WARM_UPS, RunConditions::NONE, cancel)?;
            return Ok(vec![report.codec_work]);
        }
        self.codec_works_of_arms(index, executor, WARM_UPS, cancel)
    }

    /// The least dilation at which the real work of the ops of a call, which are open together, takes no more than its
    /// share of the time that `real` declares for one of them.
    pub(crate) fn needed_dilation(
        &mut self,
        index: usize,
        executor: &dyn Executor,
        real: &Experiment,
        cancel: &Cancel,
    ) -> Result<f64, ExecuteError> {
        let works = self.codec_works(index, executor, cancel)?;
        let costs = costs(real, &real.variants[index]);
        let plan = &self.planned(index).plan;
        let needed = works.iter().flat_map(|work| &work.calls).map(|((segment, coding), call)| {
            let (launch_s, speed) = match coding {
                // The sums of a library have the whole time of its call.
                Coding::Library => (declared_call_s(plan, *segment, &real.topology, &costs), f64::INFINITY),
                Coding::Local(kind) => costs.rate(*kind),
            };
            let declared_s = launch_s + call.bytes_raw as f64 / call.ops.max(1) as f64 / speed;
            call.least_s.values().sum::<f64>() / cores() as f64 / declared_s / CODEC_SHARE
        });
        Ok(needed.fold(1.0, f64::max))
    }
}

/// Declared seconds of the reduction of a segment that a library carries out.
fn declared_call_s(plan: &Plan, segment: SegmentId, topology: &Topology, costs: &CostModel) -> f64 {
    let ops = plan.programs.iter().flat_map(|program| &program.ops).filter(|op| op.segment == segment);
    let mut calls = ops.filter_map(|op| op.kind.library());
    calls
        .find(|call| call.collective.is_reduction())
        .map_or(0.0, |call| costs.call_s(call, topology, call.ring_bytes(|_| 0)))
}

/// Arguments of [`validate_on_hosts`].
/// Runs are on hosts as they are: links, codecs and hosts take what they take, and probes have measured what that is.
#[derive(Clone, Copy, Debug)]
pub struct HostValidationSetup<'a> {
    /// The experiment that is run.
    pub experiment: &'a Experiment,
    /// The simulated experiment: the same with constants of the hosts ([`Experiment::on_hosts`]).
    pub predicted: &'a Experiment,
    /// Executor of the real run.
    pub executor: &'a dyn Executor,
}

/// Codecs of an experiment, each once and without options: what codes at a speed of its own.
fn codecs(experiment: &Experiment) -> Vec<Spec> {
    let variants =
        experiment.variants.iter().flat_map(|variant| std::iter::once(variant).chain(&variant.arms));
    let coded = variants.filter(|variant| variant.is_coded());
    let mut ids: Vec<&str> = coded
        .filter_map(|variant| experiment.codec_of(variant))
        .map(|choice| choice.spec.codec().id())
        // What stands in front of a codec has no speed of its own to measure.
        .filter(|id| Spec::ids().any(|known| known == *id))
        .collect();
    ids.sort_unstable();
    ids.dedup();
    ids.into_iter().map(|id| id.parse().expect("an identifier is a spec")).collect()
}

/// Measures the constants that a prediction of this experiment needs, by [`probe`].
///
/// # Errors
/// Errors of [`probe`], and if a variant calls a library, of which no probe knows the cost.
pub fn probe_for(
    experiment: &Experiment,
    executor: &dyn Executor,
    cancel: &Cancel,
    begin: impl FnMut(String),
) -> Result<HostConstants, ExecuteError> {
    check_calls(experiment)?;
    probe(executor, &experiment.topology, &codecs(experiment), cancel, begin)
}

/// Simulates every variant, and runs it twice: in the first run every byte is compared, connections are made, and memory is touched; the
/// second one is measured, and compares nothing. `begin` hears of each step before it begins.
///
/// # Errors
/// If a run fails, a byte is wrong, the user stops it, a variant calls a library, or other work would be run than is simulated.
pub fn validate_on_hosts(
    setup: &HostValidationSetup<'_>,
    cancel: &Cancel,
    mut begin: impl FnMut(String),
) -> Result<Validation, ExecuteError> {
    let HostValidationSetup { experiment, predicted, executor } = *setup;
    let mut simulating = Prepared::new(predicted, cancel)?;
    check_calls(experiment)?;
    check_same_work(&simulating, predicted, experiment, cancel)?;
    simulating.check(SIM)?;
    let run_all = |verifies: bool, begin: &mut dyn FnMut(String)| {
        let shared = Arc::new(Shared::default().verifying(verifies));
        let mut running = Prepared::with(experiment, shared, cancel)?;
        running.check(executor)?;
        let run = |(index, variant): (usize, &Variant)| {
            begin(format!(
                "{}: {}",
                variant.name,
                if verifies { "comparing every byte" } else { "measuring" }
            ));
            Ok(running.run(index, executor, cancel)?.timeline)
        };
        experiment.variants.iter().enumerate().map(run).collect::<Result<Vec<_>, ExecuteError>>()
    };
    drop(run_all(true, &mut begin)?);
    let measured = run_all(false, &mut begin)?;
    let mut variants = Vec::new();
    for (index, measured) in measured.into_iter().enumerate() {
        let variant = &predicted.variants[index];
        begin(format!("{}: simulating", variant.name));
        let simulated = simulating.run(index, SIM, cancel)?.timeline;
        let planned = simulating.planned(index);
        let predicted_s = mean_iteration_s(&simulated, planned);
        if predicted_s == 0.0 {
            return Err(ExecuteError::NoTime(variant.name.clone()));
        }
        let is_one_plan = !variant.is_adaptive();
        variants.push(VariantValidation {
            name: variant.name.clone(),
            predicted_s,
            measured_s: mean_iteration_s(&measured, planned),
            critical_path: is_one_plan.then(|| critical_path(predicted, variant, &planned.plan, &simulated)),
            calls_library: false,
            largest_deviation: Deviation::largest(&simulated, &measured).filter(|_| is_one_plan),
            paced: None,
            simulated,
            measured,
        });
    }
    Ok(Validation { dilation: 1.0, variants })
}

/// Probes measure transfers; what a library makes of a collective is its own.
fn check_calls(experiment: &Experiment) -> Result<(), ExecuteError> {
    match experiment.variants.iter().find(|variant| calls_library(variant)) {
        Some(variant) => Err(ExecuteError::UnknownCall(variant.name.clone())),
        None => Ok(()),
    }
}
