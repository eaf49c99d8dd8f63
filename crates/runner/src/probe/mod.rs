//! Measures the hosts that ranks run on: small scenarios whose times say what a constant of a cluster is.
//!
//! Probes are plans like all others, carried out by the executor that runs scenarios: so what a message or a codec costs is what it costs
//! there. Nothing is compared in them.

mod codecs;
mod links;

use std::sync::Arc;
use std::time::Instant;

use zipwire_calibrate::{HostConstants, Line};
use zipwire_cluster::{Fabric, Topology};
use zipwire_codec::Spec;
use zipwire_scenarios::{Source, load};
use zipwire_timeline::Timeline;

use crate::{Cancel, ExecuteError, Executor, Prepared, Shared};

/// Iterations of a probe of which the first one does not count: connections are made in it, and memory is touched for the first time.
const ROUNDS: u32 = 4;

/// Bytes that are copied to see how fast memory is: more than caches hold.
const COPIED: usize = 64 << 20;

/// Measures what constants the hosts have, for a cluster of this shape: its nodes, their ranks and NICs, and leaves of a fat tree, are as the
/// topology says, its bandwidths and latencies are not looked at. Codecs are those of `specs`; `begin` hears of each step before it
/// begins. It takes less than a minute on links of 100 Mbit/s and more, and eight nodes.
///
/// # Errors
/// If a run fails, or the user stops it.
pub fn probe(
    executor: &dyn Executor,
    topology: &Topology,
    specs: &[Spec],
    cancel: &Cancel,
    mut begin: impl FnMut(String),
) -> Result<HostConstants, ExecuteError> {
    let prober = Prober { executor, topology, cancel };
    let nodes_per_leaf = match &topology.fabric {
        Fabric::FatTree(tree) => Some(tree.nodes_per_leaf),
        _ => None,
    };
    let mut constants = HostConstants {
        nodes: topology.nodes,
        gpus_per_node: topology.gpus_per_node,
        nics_per_node: topology.nics_per_node,
        nodes_per_leaf,
        ..HostConstants::default()
    };
    begin("links".to_owned());
    prober.links(&mut constants)?;
    begin("sharing of links".to_owned());
    prober.shared_links(&mut constants)?;
    for spec in specs {
        begin(format!("codec `{spec}`"));
        match prober.codec(spec, &constants)? {
            Some(codec) => constants.codecs.push(codec),
            None => {
                let note = format!("codec `{spec}` takes less time than the clock shows: left out");
                constants.notes.push(note);
            }
        }
    }
    begin("sums and copies".to_owned());
    constants.reduce_bytes_per_s = prober.sums(&constants)?;
    constants.copy_bytes_per_s = copy_bytes_per_s();
    Ok(constants)
}

/// Runs probes.
struct Prober<'a> {
    executor: &'a dyn Executor,
    topology: &'a Topology,
    cancel: &'a Cancel,
}

impl Prober<'_> {
    /// Runs the work of a scenario, and variants if any, of which the first one counts.
    fn run(&self, work: &str, rounds: u32) -> Result<Timeline, ExecuteError> {
        let Topology { nodes, gpus_per_node, nics_per_node, .. } = self.topology;
        let text = format!(
            "name = \"probe\"\niterations = {rounds}\n\n[cluster]\nnodes = {nodes}\ngpus_per_node = {gpus_per_node}\n\
             nics_per_node = {nics_per_node}\ngpu_bandwidth = \"1 GB/s\"\nnic_bandwidth = \"1 GB/s\"\n\
             latency_intra = \"1 us\"\nlatency_inter = \"1 us\"\n\n{work}"
        );
        let experiment = load(&Source::from_text("probe", text, ""), &[], None)
            .unwrap_or_else(|error| panic!("probes are scenarios: {}", error.render(false)));
        let shared = Arc::new(Shared::default().verifying(false));
        let mut prepared = Prepared::with(&experiment, shared, self.cancel)?;
        Ok(prepared.run(0, self.executor, self.cancel)?.timeline)
    }

    /// Seconds of the iterations that count, the median.
    fn seconds(&self, work: &str, rounds: u32) -> Result<f64, ExecuteError> {
        let timeline = self.run(work, rounds)?;
        let end_s = |iteration: u32| {
            let spans = timeline.spans.iter().filter(|span| span.iteration == iteration);
            spans.map(|span| span.end_s).fold(0.0, f64::max)
        };
        Ok(median((1..rounds).map(end_s).collect()))
    }
}

/// Bytes per second of a copy in memory, the best of several.
fn copy_bytes_per_s() -> f64 {
    let source = vec![1_u8; COPIED];
    let mut target = vec![0_u8; COPIED];
    let copies = (0..4).map(|_| {
        let begin = Instant::now();
        target.copy_from_slice(std::hint::black_box(&source));
        std::hint::black_box(&target);
        begin.elapsed().as_secs_f64()
    });
    COPIED as f64 / copies.fold(f64::INFINITY, f64::min)
}

/// The value in the middle, the upper one of two.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A line through the medians of the times of each size.
fn line_of(mut samples: Vec<(u64, f64)>) -> Option<Line> {
    samples.retain(|(bytes, seconds)| *bytes > 0 && *seconds > 0.0);
    samples.sort_by_key(|(bytes, _)| *bytes);
    let medians: Vec<(u64, f64)> = samples
        .chunk_by(|a, b| a.0 == b.0)
        .map(|same| (same[0].0, median(same.iter().map(|(_, seconds)| *seconds).collect())))
        .collect();
    (!medians.is_empty()).then(|| Line::through(&medians))
}
