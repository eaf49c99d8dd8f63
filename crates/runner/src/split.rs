//! Splits a speedup into a factor of compression and a factor of the algorithm.

use zipwire_cluster::CodecCost;
use zipwire_scenarios::{CodecChoice, Experiment, Variant};
use zipwire_traces::Executors;

use crate::executors::SIM;
use crate::{Cancel, ExecuteError, Prepared};

/// Splits the simulated speedups of coded variants: each is simulated once more with frames as long as their values and a codec that takes
/// no time. What is then left of the speedup is due to its algorithm, its exchanges and its overlap. Adaptive variants, faults and
/// clusters that change in the course of a run are left out: there the same variant would do something else.
///
/// # Errors
/// If a simulation is interrupted, or takes more memory than there is.
pub fn add_splits(
    executors: &mut Executors,
    prepared: &mut Prepared<'_>,
    cancel: &Cancel,
) -> Result<(), ExecuteError> {
    for (index, variant) in coded(prepared.experiment(), executors) {
        let Some(free) = free_codec(prepared.experiment(), variant) else { continue };
        let mean_s = prepared.mean_s_with(free, index, cancel)?;
        executors.insert_split(SIM.name(), &variant.name, mean_s);
    }
    Ok(())
}

/// Coded variants with a simulated speedup that is theirs alone: no adaptive ones, and none of runs with faults or drift.
pub(crate) fn coded<'a>(experiment: &'a Experiment, executors: &Executors) -> Vec<(usize, &'a Variant)> {
    if !experiment.faults().is_empty() || !experiment.drifts().is_empty() {
        return Vec::new();
    }
    let has_speedup = |variant: &Variant| {
        executors.get(SIM.name(), &variant.name).is_some_and(|result| result.speedup.is_some())
    };
    let all = experiment.variants.iter().enumerate();
    all.filter(|(_, variant)| variant.is_coded() && !variant.is_adaptive() && has_speedup(variant)).collect()
}

/// The codec of a variant, if it saved nothing and took no time.
fn free_codec(experiment: &Experiment, variant: &Variant) -> Option<CodecChoice> {
    let own = experiment.codec_of(variant)?.clone();
    Some(CodecChoice { cost: CodecCost::FREE, ratio: Some(1.0), declared: None, ..own })
}

/// The experiment with nothing but a variant that compresses nothing and whose codec is free; it travels as it did.
pub fn uncompressed(experiment: &Experiment, variant: &Variant) -> Option<Experiment> {
    let codec = Some(free_codec(experiment, variant)?);
    let variants = vec![Variant { codec, ..variant.clone() }];
    Some(Experiment { variants, ..experiment.clone() })
}
