//! Whole training iterations: which segments there are, what they move, and how long they compute.

use ndarray::ArcArray2;
use zipwire_scenarios::Experiment;
use zipwire_schedule::{CallKind, Rank, Slot, Work};

use crate::common::{Folder, routing_record};

mod experts;
mod sharded;
mod sums;
mod times;

/// Four ranks that train a small model; `workload` and `compute` are the rest of their tables.
pub(crate) fn training(kind: &str, workload: &str, compute: &str) -> String {
    format!(
        r#"name = "test"
[cluster]
nodes = 2
gpus_per_node = 2
gpu_bandwidth = "25 GB/s"
nic_bandwidth = "25 GB/s"
latency_intra = "5 us"
latency_inter = "10 us"
[workload]
kind = "{kind}"
sequence = 32
{workload}
[compute]
{compute}
"#
    )
}

/// Two layers with experts, 64 values per token.
pub(crate) const MODEL: &str =
    "model = { layers = 2, hidden = 64, heads = 4, experts = 8, top_k = 2, expert_intermediate = 96 }";

pub(crate) const TIMES: &str = "attention = \"50 us\"\nexpert = \"80 us\"";

/// Without sums of gradients.
pub(crate) fn moe(workload: &str) -> String {
    training("moe-training", &format!("{MODEL}\ngradients = \"none\"\n{workload}"), TIMES)
}

/// A recording of layers 2 and 5, of which each prefers other experts.
pub(crate) fn recorded() -> Folder {
    let records = [(2, [8, 0, 0, 0, 0, 0, 0, 0]), (5, [0, 0, 0, 0, 4, 4, 0, 0])]
        .map(|(layer, shares)| [1, 2].map(|step| routing_record(step, layer, 4, "domain", &shares)).concat());
    let trace = "step,layer,e0,e1,e2,e3,e4,e5,e6,e7\n1,2,8,0,0,0,0,0,0,0\n1,5,0,0,0,0,4,4,0,0\n";
    Folder::new().with("matrix.jsonl", records.concat()).with("trace.csv", trace)
}

pub(crate) fn names(experiment: &Experiment) -> Vec<&str> {
    experiment.job().segments.iter().map(|segment| &*segment.name).collect()
}

pub(crate) fn tokens<'a>(experiment: &'a Experiment, segment: &str) -> &'a ArcArray2<u64> {
    match &experiment.job().segments[position(experiment, segment)].work {
        Work::Call { kind: CallKind::AllToAll { bytes, .. }, .. } => bytes,
        other => panic!("{other:?} is no All-to-All"),
    }
}

pub(crate) fn position(experiment: &Experiment, segment: &str) -> usize {
    names(experiment).iter().position(|name| *name == segment).unwrap_or_else(|| panic!("no `{segment}`"))
}

/// Seconds of a phase on a rank in the first iteration.
pub(crate) fn seconds(experiment: &Experiment, segment: &str, rank: u32) -> f64 {
    experiment.expect_iterations().durations.get(0, position(experiment, segment), Rank(rank))
}

pub(crate) fn writes<'a>(experiment: &'a Experiment, phase: &str) -> &'a [Slot] {
    match &experiment.job().segments[position(experiment, phase)].work {
        Work::Compute { writes, .. } => writes,
        other => panic!("{other:?} is no phase"),
    }
}

#[track_caller]
pub(crate) fn assert_near(found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 1e-12, "{found} instead of {expected}");
}
