//! Layouts of frames where a scenario leaves them open: GPUs have kernels for one only.

use zipwire_codec::Layout;
use zipwire_scenarios::Experiment;

use crate::Executor;

/// Takes the layout that GPUs have kernels for where a scenario says nothing, on all executors: they run the same plans.
/// Returns the variants that have it now.
pub fn choose_layouts(experiment: &mut Experiment, executors: &[Executor]) -> Vec<String> {
    if !executors.contains(&Executor::Cuda) {
        return Vec::new();
    }
    let mut chosen = Vec::new();
    for variant in &mut experiment.variants {
        if variant.protocol.layout() == Some(Layout::Compact) && variant.layout.is_none() {
            variant.layout = Some(Layout::Split);
            chosen.push(variant.name.clone());
        }
    }
    chosen
}
