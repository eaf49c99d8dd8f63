//! Benchmark of single collectives on a cluster, in the columns of nccl-tests: uncompressed, and coded in any protocol.
//!
//! Uncompressed operations are the library's where the cluster has costs of it, and else planned. Coded ones are planned. Plans are
//! simulated, or run on real ranks; large ones are predicted in closed form. [`By`] says which it was.

mod call;
mod closed;
mod error;
mod row;
mod scenario;
mod sends;
mod size;
#[cfg(test)]
mod tests;

use zipwire_cluster::library::Operation;
use zipwire_runner::executors::MPI;
use zipwire_runner::{Cancel, Executor};
use zipwire_scenarios::Experiment;
use zipwire_schedule::Protocol;

pub use self::error::CollectiveBenchError;
pub use self::row::{By, CollectiveReport, CollectiveRow};
pub use self::scenario::{ClusterSource, CollectiveCluster, CollectiveCodec};
pub use self::size::{OPERATIONS, TYPE_NAME, count, redop};

use self::call::{Call, REAL_ITERATIONS, SIMULATED_RANKS, SIMULATED_TRANSFERS};
use self::scenario::{OneCall, experiment};

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
        if bench.executor.is_real() {
            // What cannot be run is refused before anything is: the largest come last.
            let largest = calls.len() - bench.protocols.len()..;
            calls[largest].iter().try_for_each(|call| call.check(cancel))?;
        }
    }
    for call in calls {
        begin(format!("{} {} B {}", call.operation.name(), call.bytes, call.protocol.name()));
        if bench.executor == MPI && Some(&call.protocol) == bench.protocols.first() {
            report.rows.extend(call.of_mpi()?);
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
        (Some(coded), None) if !bench.executor.is_real() => {
            Err(CollectiveBenchError::NoRatio { variant: coded.name() })
        }
        (_, Some(_)) if bench.executor.is_real() => {
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
        bench.sizes.iter().filter_map(|&asked| size::size(operation, ranks, asked)).collect();
    let (op, least) = (operation.name(), size::least(operation, ranks));
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

/// Remarks below the table.
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
    let Some(model) = cluster.host.library.model.filter(|_| has(By::Simulation) || has(By::ClosedForm))
    else {
        return notes;
    };
    notes.push("transfers of plans are as fast as sends of the cluster's library".to_owned());
    if model.hardware.shape(cluster.topology.ranks()).domains < cluster.topology.nodes {
        notes.push(
            "NVLink connects several nodes here: the library knows it, plans send between nodes over NICs"
                .to_owned(),
        );
    }
    notes
}
