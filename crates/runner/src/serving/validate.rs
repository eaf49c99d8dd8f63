//! Holds simulated serving against real ranks on paced links, request by request.

use zipwire_engine::serving::Pace;
use zipwire_scenarios::{Experiment, Serving, Variant};
use zipwire_serving::{Percentiles, Record, Summary};

use super::simulate;
use crate::executors::{SIM, ServeRun};
use crate::validate::is_same_order;
use crate::{Cancel, ExecuteError, Executor, Prepared};

/// Seconds of this machine that coding a group is declared to take at the least: threads wake up late, and other work takes a core for a while.
const SHORTEST_GROUP_S: f64 = 5e-3;
/// Seconds of this machine that a run takes at the least.
const SHORTEST_S: f64 = 2.0;

/// How well the simulator predicts what users wait.
#[derive(Clone, Debug)]
pub struct ServingValidation {
    /// Seconds of this machine for a second of the cluster.
    pub dilation: f64,
    /// The variants, in the scenario's order.
    pub variants: Vec<ServingVariantValidation>,
}

/// How well the simulator predicts one variant.
#[derive(Clone, Debug)]
pub struct ServingVariantValidation {
    /// Its name.
    pub name: String,
    /// The simulation.
    pub predicted: Summary,
    /// The measurement, in seconds of the cluster.
    pub measured: Summary,
    /// Errors of the times to the first token, |measured / predicted - 1| per request. `None` if no request has one on both sides.
    pub ttft_error: Option<Percentiles>,
    /// Errors of the times to the last token, likewise.
    pub e2e_error: Option<Percentiles>,
    /// Requests that ended differently.
    pub other_ends: usize,
    /// Groups that took longer than declared, although slowed down, and seconds of the cluster by which they did.
    pub late: (u64, f64),
}

impl ServingValidation {
    /// Whether both order the variants alike by their mean time to the first token. Variants whose predictions are within `tolerance` of each other are
    /// equal.
    pub fn ranking_agrees(&self, tolerance: f64) -> bool {
        let means = |summary: &Summary| summary.metrics.ttft_s.map_or(f64::NAN, |ttft| ttft.mean);
        let pairs: Vec<[f64; 2]> = self
            .variants
            .iter()
            .map(|variant| [means(&variant.predicted), means(&variant.measured)])
            .collect();
        is_same_order(&pairs, tolerance)
    }
}

/// Arguments of [`validate_serving`].
#[derive(Clone, Copy, Debug)]
pub struct ServingValidationSetup<'a> {
    /// The simulated experiment.
    pub simulated: &'a Prepared<'a>,
    /// The experiment that is run for real: the same, or the same requests on a cluster that is not the scenario's.
    pub real: &'a Prepared<'a>,
    /// Executor of the real run, which serves on links that can be paced.
    pub executor: &'a dyn Executor,
    /// Replaces the least dilation that lets this machine keep up; less than that is refused.
    pub dilation: Option<f64>,
}

/// Simulates every variant and serves it on paced links. `begin` hears of each step before it begins.
///
/// # Errors
/// If a run fails, the user stops it, the dilation is less than this machine needs to keep up, or the real run would serve other requests.
pub fn validate_serving(
    setup: &ServingValidationSetup<'_>,
    cancel: &Cancel,
    mut begin: impl FnMut(String),
) -> Result<ServingValidation, ExecuteError> {
    let ServingValidationSetup { simulated: prepared, real, executor, dilation } = *setup;
    let (simulated, other) = (prepared.experiment(), real.experiment());
    let (Some(serving), Some(on_cluster)) = (simulated.as_serving(), other.as_serving()) else {
        unreachable!("whoever validates serving has a scenario of it")
    };
    check_same_work(simulated, serving, other, on_cluster)?;
    let mut predictions = Vec::new();
    let mut needed = 1.0_f64;
    for (index, variant) in simulated.variants.iter().enumerate() {
        // The prediction is the simulator's, whichever executor measures.
        begin(format!("{SIM}: {}", variant.name));
        let outcome = simulate(simulated, &ServeRun { index, serving, pace: None }, cancel)?;
        begin(format!("work of {} on this machine", variant.name));
        let unpaced = executor.serve(real, &ServeRun { index, serving: on_cluster, pace: None }, cancel)?;
        needed = needed.max(unpaced.least_dilation);
        needed = needed.max(coding_dilation(simulated, serving, variant));
        let length_s = outcome.timeline.end_s();
        if length_s > 0.0 {
            needed = needed.max(SHORTEST_S / length_s);
        }
        predictions.push(outcome.served);
    }
    let dilation = match dilation {
        Some(asked) if asked < needed => return Err(ExecuteError::Dilation { asked, needed }),
        Some(asked) => asked,
        None => needed,
    };
    let variants = predictions.into_iter().enumerate().map(|(index, predicted)| {
        let name = simulated.variants[index].name.clone();
        begin(format!("{executor}: {name}"));
        let pace = Some(Pace { topology: &other.topology, dilation });
        let report = executor.serve(real, &ServeRun { index, serving: on_cluster, pace }, cancel)?;
        let measured = report.served;
        let pairs = || predicted.records.iter().zip(&measured.records);
        Ok(ServingVariantValidation {
            name,
            ttft_error: errors(pairs(), Record::ttft_s),
            e2e_error: errors(pairs(), Record::e2e_s),
            other_ends: pairs().filter(|(a, b)| a.outcome != b.outcome).count(),
            predicted: predicted.summary,
            measured: measured.summary,
            late: report.late,
        })
    });
    let variants = variants.collect::<Result<_, ExecuteError>>()?;
    Ok(ServingValidation { dilation, variants })
}

/// Refuses a real run that would serve other requests than the simulation.
fn check_same_work(
    simulated: &Experiment,
    serving: &Serving,
    real: &Experiment,
    on_cluster: &Serving,
) -> Result<(), ExecuteError> {
    let names = |experiment: &Experiment| -> Vec<String> {
        experiment.variants.iter().map(|variant| variant.name.clone()).collect()
    };
    let shared = [
        ("list of requests", serving.requests == on_cluster.requests),
        ("pair of pools", serving.config == on_cluster.config && serving.shards == on_cluster.shards),
        ("seed", simulated.seed == real.seed),
        ("payload", simulated.payload == real.payload),
        ("list of variants", names(simulated) == names(real)),
    ];
    match shared.into_iter().find(|(_, is_same)| !is_same) {
        Some((what, _)) => Err(ExecuteError::OtherWork { variant: simulated.variants[0].name.clone(), what }),
        None => Ok(()),
    }
}

/// Least dilation at which coding a group takes [`SHORTEST_GROUP_S`] as declared.
fn coding_dilation(simulated: &Experiment, serving: &Serving, variant: &Variant) -> f64 {
    let Some(choice) = simulated.codec_of(variant).filter(|_| variant.is_coded()) else { return 1.0 };
    let geometry = serving.geometry;
    let group = geometry.row_len() * geometry.planes() * geometry.group_tokens() as usize;
    let fastest = choice.cost.encode_bytes_per_s.max(choice.cost.decode_bytes_per_s);
    SHORTEST_GROUP_S * fastest / group as f64
}

fn errors<'a>(
    pairs: impl Iterator<Item = (&'a Record, &'a Record)>,
    of: impl Fn(&Record) -> Option<f64>,
) -> Option<Percentiles> {
    Percentiles::of(pairs.filter_map(|(predicted, measured)| {
        Some((of(measured)? / of(predicted)? - 1.0).abs()).filter(|error| error.is_finite())
    }))
}
