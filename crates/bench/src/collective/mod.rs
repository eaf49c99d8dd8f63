//! Benchmark of single collectives on a cluster, in the columns of nccl-tests: uncompressed, and coded in any protocol.
//!
//! Uncompressed operations are the library's where the cluster has costs of it, and else planned. Coded ones are planned. Plans are
//! simulated, or run on real ranks; large ones are predicted in closed form. [`By`] says which it was.

mod call;
mod row;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use zipwire_cluster::CodecCost;
use zipwire_cluster::library::Operation;
use zipwire_runner::{Cancel, ExecuteError, Executor};
use zipwire_scenarios::{Experiment, ExperimentWork, Iterations, ScenarioError, Source, load};
use zipwire_schedule::{CallKind, Protocol, Work};

use self::call::{Call, REAL_ITERATIONS, SIMULATED_RANKS, SIMULATED_TRANSFERS};
use self::row::DTYPE;

pub use self::row::{By, CollectiveReport, CollectiveRow};
pub use self::row::{OPERATIONS, TYPE_NAME, count, redop};

/// Settings of a benchmark of collectives.
#[derive(Clone, Debug)]
pub struct CollectiveBench {
    /// Cluster that it runs or is simulated on.
    pub cluster: CollectiveCluster,
    /// Codec of the coded protocols.
    pub codec: CollectiveCodec,
    /// Operations, of [`OPERATIONS`].
    pub operations: Vec<Operation>,
    /// Sizes in bytes, as nccl-tests counts them for each operation; each is rounded down to equal parts of whole values.
    pub sizes: Vec<u64>,
    /// Protocols, beside one another.
    pub protocols: Vec<Protocol>,
    /// Runs plans: the simulator or one that moves bytes.
    pub executor: &'static dyn Executor,
    /// Whether real runs compare what they receive with what was sent.
    pub verifies: bool,
    /// Whether the simulator may plan and simulate ranks that are alike once.
    pub folds: bool,
    /// Bytes of memory that a run may take; what the system could give by default.
    pub memory: Option<u64>,
}

/// All rows. `begin` is told what begins, in words.
///
/// # Errors
/// If the cluster or the codec is not right, sizes are too small, or a run fails or is stopped.
pub fn bench_collective(
    bench: &CollectiveBench,
    cancel: &Cancel,
    mut begin: impl FnMut(String),
) -> Result<CollectiveReport, CollectiveBenchError> {
    check_ratio(bench)?;
    let cluster = cluster(bench)?;
    let ranks = cluster.topology.ranks();
    let mut report = CollectiveReport { rows: Vec::new(), notes: cluster.warnings() };
    let mut calls = Vec::new();
    for &operation in &bench.operations {
        let sizes = sizes(bench, operation, ranks, &mut report.notes)?;
        let all =
            sizes.iter().flat_map(|&bytes| bench.protocols.iter().map(move |&protocol| (bytes, protocol)));
        calls.extend(all.map(|(bytes, protocol)| Call {
            bench,
            cluster: &cluster,
            operation,
            bytes,
            protocol,
        }));
        if bench.executor.capabilities().is_real {
            // What cannot be run is refused before anything is: the largest come last.
            let largest = calls.len() - bench.protocols.len()..;
            calls[largest].iter().try_for_each(|call| call.check(cancel))?;
        }
    }
    for call in calls {
        begin(format!("{} {} B {}", call.operation.name(), call.bytes, call.protocol.name()));
        if Some(&call.protocol) == bench.protocols.first() {
            report.rows.extend(call.of_library(cancel)?);
        }
        report.rows.push(call.row(cancel, &mut report.notes)?);
    }
    row::compare(&mut report.rows);
    report.notes.extend(notes(bench, &cluster, &report.rows));
    Ok(report)
}

/// How many ranks the cluster has.
///
/// # Errors
/// If the cluster is not right.
pub fn ranks(bench: &CollectiveBench) -> Result<u32, CollectiveBenchError> {
    Ok(cluster(bench)?.topology.ranks())
}

/// The cluster, from the scenario of the smallest operation that any can do.
fn cluster(bench: &CollectiveBench) -> Result<Experiment, CollectiveBenchError> {
    let CollectiveBench { cluster, codec, .. } = bench;
    let (operation, protocol) = (Operation::Broadcast, Protocol::Native);
    Ok(experiment(&OneCall { cluster, codec, operation, bytes: 2, protocol, iterations: 1 })?)
}

fn check_ratio(bench: &CollectiveBench) -> Result<(), CollectiveBenchError> {
    let coded = bench.protocols.iter().find(|protocol| protocol.is_coded());
    match (coded, bench.codec.ratio) {
        (Some(coded), None) if !bench.executor.capabilities().is_real => {
            Err(CollectiveBenchError::NoRatio { variant: coded.name() })
        }
        (_, Some(_)) if bench.executor.capabilities().is_real => {
            Err(CollectiveBenchError::RatioOfReal { executor: bench.executor.name() })
        }
        _ => Ok(()),
    }
}

/// Sizes of an operation; those in which a rank's part would be empty are left out.
fn sizes(
    bench: &CollectiveBench,
    operation: Operation,
    ranks: u32,
    notes: &mut Vec<String>,
) -> Result<Vec<u64>, CollectiveBenchError> {
    let mut sizes: Vec<u64> =
        bench.sizes.iter().filter_map(|&asked| row::size(operation, ranks, asked)).collect();
    let (op, least) = (operation.name(), row::least(operation, ranks));
    if sizes.is_empty() {
        return Err(CollectiveBenchError::TooSmall { op, ranks, least });
    }
    if sizes.len() < bench.sizes.len() {
        notes
            .push(format!("{op} among {ranks} ranks has at least {least} bytes; smaller sizes are left out"));
    }
    sizes.dedup();
    Ok(sizes)
}

fn notes(bench: &CollectiveBench, cluster: &Experiment, rows: &[CollectiveRow]) -> Vec<String> {
    let mut notes = Vec::new();
    let has = |by: By| rows.iter().any(|row| row.by == by);
    if has(By::ClosedForm) {
        notes.push(format!(
            "plans of more than {SIMULATED_TRANSFERS} transfers or {SIMULATED_RANKS} ranks are not simulated: their rows are closed forms"
        ));
    }
    if has(By::Execution) {
        let compared =
            if bench.verifies { "in which every byte was compared" } else { "in which nothing was compared" };
        notes.push(format!(
            "times are this machine's, means of {REAL_ITERATIONS} runs {compared}, and not the cluster's"
        ));
    }
    if cluster.host.library.model.is_some() && (has(By::Simulation) || has(By::ClosedForm)) {
        notes.push("transfers of plans are as fast as sends of the cluster's library".to_owned());
    }
    notes
}

/// Why there are no rows.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "fields are named by the messages")]
pub enum CollectiveBenchError {
    /// The cluster or the codec is not right.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    #[error("{op} of {bytes} bytes: {source}")]
    Execute { op: &'static str, bytes: u64, source: Box<ExecuteError> },
    #[error(
        "{op} of {bytes} bytes in variant `{variant}` needs {:.2} GB of memory on `{executor}`, {limit}\n\
         help: choose a smaller `--end` or fewer ranks",
        *.needed as f64 / 1e9
    )]
    Memory {
        op: &'static str,
        bytes: u64,
        variant: &'static str,
        executor: &'static str,
        needed: u64,
        /// How much there is, in words.
        limit: String,
    },
    /// Coded rows are simulated with a ratio, which depends on what is sent.
    #[error(
        "variant `{variant}` needs the ratio of raw to coded bytes, which depends on the tensors\n\
         help: state `--ratio`, for instance as `zipwire inspect FILE.safetensors` finds it for yours"
    )]
    NoRatio { variant: &'static str },
    #[error("`--ratio` has no effect on `{executor}`, which encodes real values\nhelp: leave `--ratio` out")]
    RatioOfReal { executor: &'static str },
    /// A plan that is too large to be simulated, in a protocol whose closed form leaves out too much.
    #[error(
        "the plan of {op} in variant `{variant}` among {ranks} ranks is too large to be simulated, and no closed form of it is known\n\
         help: use fewer ranks (`--nodes`), or variants `native`, `size-first` or `static-first`"
    )]
    NoClosedForm { op: &'static str, variant: &'static str, ranks: u32 },
    #[error(
        "the smallest {op} among {ranks} ranks has {least} bytes\n\
         help: choose a larger `--end`"
    )]
    TooSmall { op: &'static str, ranks: u32, least: u64 },
}

/// Where the hardware comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterSource {
    /// A preset of this name.
    Preset(String),
    /// A file with the keys of `[cluster]`, and the preset that has what it lacks, if the file does not name it.
    File(PathBuf, Option<String>),
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
struct OneCall<'a> {
    cluster: &'a CollectiveCluster,
    codec: &'a CollectiveCodec,
    operation: Operation,
    /// Bytes as scenarios state them ([`stated`]).
    bytes: u64,
    protocol: Protocol,
    iterations: u32,
}

fn experiment(call: &OneCall<'_>) -> Result<Experiment, ScenarioError> {
    load(&Source::from_text("the scenario of `bench collective`", text(call), "."), &[], None)
}

fn text(&OneCall { cluster, codec, operation, bytes, protocol, iterations }: &OneCall<'_>) -> String {
    let quoted = |text: &str| toml::Value::from(text).to_string();
    let source = match &cluster.source {
        ClusterSource::Preset(name) => format!("preset = {}", quoted(name)),
        ClusterSource::File(path, preset) => {
            let preset = preset.as_ref().map(|name| format!("preset = {}\n", quoted(name)));
            format!("{}file = {}", preset.unwrap_or_default(), quoted(&path.to_string_lossy()))
        }
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
fn stated(operation: Operation, ranks: u32, bytes: u64) -> u64 {
    match operation {
        Operation::AllGather => bytes / u64::from(ranks),
        // Any number does that gives each pair something: it is replaced.
        Operation::SendRecv => u64::from(ranks) * DTYPE.width() as u64,
        _ => bytes,
    }
}

/// A `sendrecv` is an All-to-All in which every rank has bytes for the next one only.
fn to_the_next_only(experiment: &mut Experiment, bytes: u64) {
    let ranks = experiment.topology.ranks() as usize;
    let ExperimentWork::Iterations(Iterations { job, .. }) = &mut experiment.work else {
        unreachable!("a collective is a call of an iteration")
    };
    for segment in &mut job.segments {
        if let Work::Call { kind: CallKind::AllToAll { bytes: matrix, .. }, .. } = &mut segment.work {
            for ((src, dst), len) in matrix.indexed_iter_mut() {
                *len = if dst == (src + 1) % ranks { bytes } else { 0 };
            }
        }
    }
}
