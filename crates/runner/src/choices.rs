//! How variants let calls travel, and what their ops are declared to take: what planners, memory estimates, simulations and validation
//! take from a variant.

use zipwire_scenarios::{Experiment, Variant};
use zipwire_schedule::{Choice, CostModel, Protocol};

use crate::slots;

/// What ops of a variant take by themselves.
pub(crate) fn costs(experiment: &Experiment, variant: &Variant) -> CostModel {
    CostModel { host: experiment.host, codec: experiment.codec_of(variant).map(|choice| choice.cost) }
}

/// How a variant lets the calls of all segments travel.
pub(crate) fn choices(experiment: &Experiment, variant: &Variant) -> Vec<Choice> {
    (0..experiment.job.segments.len()).map(|segment| choice(experiment, variant, segment)).collect()
}

/// How a variant lets the call of a segment travel.
pub(crate) fn choice(experiment: &Experiment, variant: &Variant, segment: usize) -> Choice {
    let protocol = variant.protocol_of(&experiment.job.segments[segment].work);
    let is_speculative = protocol == Protocol::Speculative;
    let way = variant.ways[segment];
    Choice {
        protocol,
        algorithm: way.map(|way| way.algorithm),
        channels: way.map_or(1, |way| way.channels),
        slices: way.map_or(1, |way| way.slices),
        sums: experiment.sums,
        layout: variant.layout,
        order: variant.order,
        window: variant.window,
        codec: experiment.codec_of(variant).map(|choice| choice.spec.clone()),
        selection: variant.selection,
        parts: variant.parts,
        ranks_per_node: experiment.topology.gpus_per_node,
        dedup: variant.dedup,
        arenas: variant.arenas,
        speculative_capacity: is_speculative
            .then(|| slots::speculative_capacity(experiment, variant, segment))
            .flatten(),
    }
}
