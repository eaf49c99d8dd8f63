//! What of a speedup is compression, and what another algorithm.

use std::sync::Arc;

use zipwire_cluster::CodecCost;
use zipwire_scenarios::{CodecChoice, Experiment, Variant};
use zipwire_timeline::Metrics;
use zipwire_traces::Executors;

use crate::executors::SIM;
use crate::{Cancel, ExecuteError, Prepared, Shared};

/// Splits the simulated speedups of coded variants: each is simulated once more with frames as long as their values and a codec that takes
/// no time. What is then left of the speedup is due to its algorithm, its exchanges and its overlap. Adaptive variants, faults and
/// clusters that change in the course of a run are left out: there the same variant would do something else.
///
/// # Errors
/// If a simulation is interrupted, or takes more memory than there is.
pub fn add_splits(
    executors: &mut Executors,
    experiment: &Experiment,
    shared: &Arc<Shared>,
    cancel: &Cancel,
) -> Result<(), ExecuteError> {
    if !experiment.faults.is_empty() || !experiment.drifts.is_empty() {
        return Ok(());
    }
    for variant in experiment.variants.iter().filter(|variant| variant.is_coded() && !variant.is_adaptive()) {
        let result = executors.get(SIM.name(), &variant.name);
        if result.is_none_or(|result| result.speedup.is_none()) {
            continue;
        }
        let Some(free) = uncompressed(experiment, variant) else { continue };
        let mut prepared = Prepared::with(&free, Arc::clone(shared), cancel)?;
        let timeline = prepared.run(0, SIM, cancel)?.timeline;
        let mean_s = Metrics::of(&timeline, prepared.planned(0).plan.bytes_raw()).iteration_s.mean;
        executors.insert_split(SIM.name(), &variant.name, mean_s);
    }
    Ok(())
}

/// The experiment with nothing but a variant that compresses nothing and whose codec is free; it travels as it did.
pub fn uncompressed(experiment: &Experiment, variant: &Variant) -> Option<Experiment> {
    let CodecChoice { spec, .. } = experiment.codec_of(variant)?.clone();
    let cost =
        CodecCost { encode_bytes_per_s: f64::INFINITY, decode_bytes_per_s: f64::INFINITY, launch_s: 0.0 };
    let codec = Some(CodecChoice { spec, cost, ratio: Some(1.0), declared: None });
    let variants = vec![Variant { codec, ..variant.clone() }];
    Some(Experiment { variants, ..experiment.clone() })
}
