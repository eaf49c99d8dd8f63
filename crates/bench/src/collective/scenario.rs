//! Scenario of a row: every call is built and read as an experiment.

use std::path::PathBuf;

use zipwire_cluster::CodecCost;
use zipwire_cluster::library::Operation;
use zipwire_scenarios::{Experiment, ScenarioError, Source, load};
use zipwire_schedule::{CallKind, Protocol, Work};

use super::size::DTYPE;

/// Where the hardware comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterSource {
    /// A preset of this name.
    Preset(String),
    /// A file with the keys of `[cluster]`.
    File(PathBuf),
}

/// Cluster that all rows share.
#[derive(Clone, Debug)]
pub struct CollectiveCluster {
    /// The hardware.
    pub source: ClusterSource,
    /// Nodes; those of the hardware file by default.
    pub nodes: Option<u32>,
    /// GPUs of each node; those of the hardware file by default.
    pub gpus_per_node: Option<u32>,
}

/// The codec of coded variants.
#[derive(Clone, Debug)]
pub struct CollectiveCodec {
    /// Its spec, as in scenarios.
    pub spec: String,
    /// Speed of the codec; by default the one that the cluster declares.
    pub speed: Option<CodecCost>,
    /// Raw over coded bytes, where nothing is encoded.
    pub ratio: Option<f64>,
}

/// Standard deviation of the values of real runs, about that of weights and activations.
const GAUSSIAN_STD: f64 = 0.02;

/// One operation in one protocol.
#[derive(Clone, Copy)]
pub(super) struct OneCall<'a> {
    pub(super) cluster: &'a CollectiveCluster,
    pub(super) codec: &'a CollectiveCodec,
    pub(super) operation: Operation,
    /// Bytes as scenarios state them ([`stated`]).
    pub(super) bytes: u64,
    pub(super) protocol: Protocol,
    pub(super) iterations: u32,
}

pub(super) fn experiment(call: &OneCall<'_>) -> Result<Experiment, ScenarioError> {
    load(&Source::from_text("the scenario of `bench collective`", text(call), "."), &[], None)
}

fn text(&OneCall { cluster, codec, operation, bytes, protocol, iterations }: &OneCall<'_>) -> String {
    let quoted = |text: &str| toml::Value::from(text).to_string();
    let source = match &cluster.source {
        ClusterSource::Preset(name) => format!("preset = {}", quoted(name)),
        ClusterSource::File(path) => format!("file = {}", quoted(&path.to_string_lossy())),
    };
    let number = |key: &str, value: Option<u32>| value.map_or_else(String::new, |n| format!("{key} = {n}\n"));
    let (collective, key) = match operation {
        Operation::AllReduce => ("all-reduce", "bytes_per_rank"),
        Operation::AllGather => ("all-gather", "bytes_per_rank"),
        Operation::ReduceScatter => ("reduce-scatter", "bytes_per_rank"),
        Operation::AllToAll | Operation::SendRecv => ("all-to-all", "bytes_per_rank"),
        Operation::Broadcast => ("broadcast", "bytes"),
        Operation::Reduce => unreachable!("it is none of `OPERATIONS`"),
    };
    let mut text = format!(
        "name = \"{}\"\niterations = {iterations}\n\n[cluster]\n{source}\n{}{}\n[workload]\nkind = \"collective\"\n\
         collective = \"{collective}\"\n{key} = \"{bytes} B\"\npayload = {{ gaussian = {GAUSSIAN_STD} }}\n",
        operation.name(),
        number("nodes", cluster.nodes),
        number("gpus_per_node", cluster.gpus_per_node),
    );
    if protocol.is_coded() {
        text += &format!("\n[codec]\nid = {}\n", quoted(&codec.spec));
        if let Some(ratio) = codec.ratio {
            text += &format!("ratio = {ratio:?}\n");
        }
        if let Some(CodecCost { encode_bytes_per_s, decode_bytes_per_s, launch_s }) = codec.speed {
            text += &format!(
                "speed = {{ encode = \"{encode_bytes_per_s:?} B/s\", decode = \"{decode_bytes_per_s:?} B/s\", launch = \"{launch_s:?} s\" }}\n"
            );
        }
    }
    let name = protocol.name();
    text + &format!("\n[[variant]]\nname = \"{name}\"\nprotocol = \"{name}\"\n")
}

/// Bytes as the scenario states them, of a size as nccl-tests has it.
pub(super) fn stated(operation: Operation, ranks: u32, bytes: u64) -> u64 {
    match operation {
        Operation::AllGather => bytes / u64::from(ranks),
        // Any number does that gives each pair something: it is replaced.
        Operation::SendRecv => u64::from(ranks) * DTYPE.width() as u64,
        _ => bytes,
    }
}

/// A `sendrecv` is an All-to-All in which every rank has bytes for the next one only.
pub(super) fn to_the_next_only(experiment: &mut Experiment, bytes: u64) {
    let ranks = experiment.topology.ranks() as usize;
    for segment in &mut experiment.job.segments {
        if let Work::Call { kind: CallKind::AllToAll { bytes: matrix, .. }, .. } = &mut segment.work {
            for ((src, dst), len) in matrix.indexed_iter_mut() {
                *len = if dst == (src + 1) % ranks { bytes } else { 0 };
            }
        }
    }
}
