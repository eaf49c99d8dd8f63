//! Predictions against runs on hosts as they are: links, codecs and hosts take what they take, and probes have measured what that is.

use std::sync::Arc;

use zipwire_calibrate::HostConstants;
use zipwire_codec::Spec;
use zipwire_scenarios::{Experiment, Variant};
use zipwire_timeline::Deviation;

use super::{Validation, VariantValidation, calls_library, check_same_work, mean_iteration_s};
use crate::critical_path::critical_path;
use crate::executors::SIM;
use crate::probe::probe;
use crate::{Cancel, ExecuteError, Executor, Prepared, Shared};

/// Arguments of [`validate_on_hosts`].
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
/// As [`probe`], and if a variant calls a library, of which no probe knows the cost.
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
