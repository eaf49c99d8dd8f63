//! Which constants of a scenario a speedup depends on most.

use zipwire_scenarios::{CodecChoice, Experiment};
use zipwire_traces::{Executors, Sensitivity};

use crate::critical_path::last;
use crate::executors::SIM;
use crate::split::coded;
use crate::{Cancel, ExecuteError, Prepared};

/// A constant is made so many times as large.
const MORE: f64 = 1.1;
/// How many constants are named.
const NAMED: usize = 2;
/// Changes of a speedup below this, as a part of it, are none.
const NOTHING: f64 = 1e-4;

/// A constant: what it is called in scenarios, and how it is made larger.
type Constant = (&'static str, fn(&mut Experiment));

const CONSTANTS: [Constant; 10] = [
    ("cluster.gpu_bandwidth", |experiment| experiment.topology.gpu_bandwidth *= MORE),
    ("cluster.nic_bandwidth", |experiment| experiment.topology.nic_bandwidth *= MORE),
    ("cluster.latency_intra", |experiment| experiment.topology.latency_intra_s *= MORE),
    ("cluster.latency_inter", |experiment| experiment.topology.latency_inter_s *= MORE),
    ("cluster.launch", |experiment| experiment.host.launch_s *= MORE),
    ("cluster.host_sync", |experiment| experiment.host.sync_s *= MORE),
    ("cluster.reduce", |experiment| experiment.host.reduce_bytes_per_s *= MORE),
    ("codec.speed", |experiment| {
        for CodecChoice { cost, .. } in codecs(experiment) {
            cost.encode_bytes_per_s *= MORE;
            cost.decode_bytes_per_s *= MORE;
        }
    }),
    ("codec.speed.launch", |experiment| codecs(experiment).for_each(|codec| codec.cost.launch_s *= MORE)),
    ("compute", |experiment| {
        experiment.durations = std::mem::take(&mut experiment.durations).scaled(MORE);
    }),
];

/// The codec of a scenario, and those that variants have of their own.
fn codecs(experiment: &mut Experiment) -> impl Iterator<Item = &mut CodecChoice> {
    let own = experiment.variants.iter_mut().filter_map(|variant| variant.codec.as_mut());
    own.chain(&mut experiment.codec)
}

/// The constants on which the speedup of the best coded variant depends most, the first most of all, each with the speedup if it were a tenth
/// larger and all else as it is; with the plans of the variants. Those of calls of a library are not looked at. Nothing where no coded
/// variant has a simulated speedup, faults or drift are part of it, or the first variant is adaptive, whose plans would follow.
///
/// # Errors
/// If a simulation is interrupted, or takes more memory than there is.
pub fn sensitivities(
    executors: &Executors,
    prepared: &mut Prepared<'_>,
    cancel: &Cancel,
) -> Result<Vec<Sensitivity>, ExecuteError> {
    let experiment = prepared.experiment();
    let speedup = |name: &str| executors.get(SIM.name(), name)?.speedup;
    let speedups = coded(experiment, executors)
        .into_iter()
        .filter_map(|(index, variant)| Some((speedup(&variant.name)?, index)));
    let best = last(speedups).filter(|_| !experiment.variants[0].is_adaptive());
    let Some((now, best)) = best else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for (constant, enlarge) in CONSTANTS {
        let mut changed = experiment.clone();
        enlarge(&mut changed);
        let mut mean_s = |index| prepared.mean_s_as(&changed, &changed.variants[index], index, cancel);
        let speedup = mean_s(0)? / mean_s(best)?;
        if (speedup / now - 1.0).abs() > NOTHING {
            found.push(Sensitivity { variant: experiment.variants[best].name.clone(), constant, speedup });
        }
    }
    // The order among equals is that of the constants.
    found.sort_by(|a, b| (b.speedup - now).abs().total_cmp(&(a.speedup - now).abs()));
    found.truncate(NAMED);
    Ok(found)
}
