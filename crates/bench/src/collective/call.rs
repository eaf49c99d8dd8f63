//! One row: how its time is found.

use std::sync::Arc;

use zipwire_cluster::HostCost;
use zipwire_cluster::library::Operation;
use zipwire_runner::executors::SIM;
use zipwire_runner::mpi_job::{self, MpiCollective};
use zipwire_runner::{Cancel, ExecuteError, Prepared, Shared, executors, split};
use zipwire_scenarios::Experiment;
use zipwire_schedule::estimate::Way;
use zipwire_schedule::{Algorithm, Collective, Protocol, WHOLE_PLAN_RANKS};
use zipwire_timeline::Metrics;

use super::closed::{Planned, is_known, plan, uncompressed};
use super::row::{By, CollectiveRow};
use super::scenario::{self, OneCall, experiment, stated};
use super::{CollectiveBench, CollectiveBenchError};

/// Most transfers of a plan that is simulated: an All-to-All of 128 ranks in three stages, and what takes a second.
pub(super) const SIMULATED_TRANSFERS: u64 = 50_000;

/// Most ranks of a plan that is simulated: larger ones are not checked as a whole.
pub(super) const SIMULATED_RANKS: u32 = WHOLE_PLAN_RANKS;

/// Iterations of a real run.
pub(super) const REAL_ITERATIONS: u32 = 5;

/// One operation of one size in one protocol, on a cluster.
pub(super) struct Call<'a> {
    pub(super) bench: &'a CollectiveBench,
    pub(super) cluster: &'a Experiment,
    pub(super) operation: Operation,
    pub(super) bytes: u64,
    pub(super) protocol: Protocol,
}

/// Result of a call, before it is set in relation to other rows.
pub(super) struct Outcome {
    pub(super) algorithm: String,
    pub(super) time_s: f64,
    ratio: f64,
    pub(super) codec_s: f64,
    /// Seconds of the same call at ratio 1 with a codec that takes no time; `None` if it is not coded or not predicted.
    pub(super) uncompressed_s: Option<f64>,
    by: By,
}

impl Call<'_> {
    pub(super) fn row(
        &self,
        cancel: &Cancel,
        notes: &mut Vec<String>,
    ) -> Result<CollectiveRow, CollectiveBenchError> {
        Ok(self.row_of(self.outcome(cancel, notes)?))
    }

    fn row_of(&self, outcome: Outcome) -> CollectiveRow {
        let Outcome { algorithm, time_s, ratio, codec_s, uncompressed_s, by } = outcome;
        let topology = &self.cluster.topology;
        let algbw = self.bytes as f64 / time_s / 1e9;
        let effective_busbw = algbw * self.operation.bus_factor(topology.ranks());
        CollectiveRow {
            op: self.operation.name(),
            variant: self.protocol.name(),
            algorithm,
            nodes: topology.nodes,
            gpus_per_node: topology.gpus_per_node,
            bytes: self.bytes,
            time_s,
            algbw,
            busbw: effective_busbw / ratio,
            effective_busbw,
            ratio,
            codec_s,
            uncompressed_s,
            speedup: None,
            split: None,
            by,
        }
    }

    /// Measures the MPI library's own collective between the real ranks; `None` if MPI has no such collective.
    pub(super) fn of_mpi(&self) -> Result<Option<CollectiveRow>, CollectiveBenchError> {
        let collective = match self.operation {
            Operation::AllToAll => Some(MpiCollective::AllToAll),
            Operation::AllGather => Some(MpiCollective::AllGather),
            Operation::Broadcast => Some(MpiCollective::Broadcast),
            Operation::AllReduce => Some(MpiCollective::AllReduce),
            Operation::ReduceScatter => Some(MpiCollective::ReduceScatter),
            _ => None,
        };
        let Some(collective) = collective else { return Ok(None) };
        let timed = mpi_job::time_collective(collective, self.bytes, REAL_ITERATIONS);
        let time_s = timed.map_err(|error| self.failed(error))?;
        let outcome = Outcome {
            algorithm: collective.function().to_owned(),
            time_s,
            ratio: 1.0,
            codec_s: 0.0,
            uncompressed_s: None,
            by: By::Mpi,
        };
        Ok(Some(CollectiveRow { variant: "mpi", ..self.row_of(outcome) }))
    }

    fn outcome(&self, cancel: &Cancel, notes: &mut Vec<String>) -> Result<Outcome, CollectiveBenchError> {
        if cancel.is_cancelled() {
            return Err(self.failed(ExecuteError::Cancelled));
        }
        let is_real = self.bench.executor.is_real();
        let ranks = self.cluster.topology.ranks();
        if let Some((way, time_s)) = library(&self.cluster.host, self.operation, ranks, self.bytes)
            .filter(|_| !self.protocol.is_coded() && !is_real)
        {
            return Ok(Outcome {
                algorithm: format!("library {way}"),
                time_s,
                ratio: 1.0,
                codec_s: 0.0,
                uncompressed_s: None,
                by: By::Library,
            });
        }
        let (operation, protocol) = (self.operation, self.protocol);
        let mut experiment = self.experiment()?;
        let warnings = experiment.warnings();
        notes.extend(warnings.into_iter().filter(|warning| !notes.contains(warning)).collect::<Vec<_>>());
        if is_real {
            return self.run(&mut experiment, cancel);
        }
        let ratio = self.bench.codec.ratio.filter(|_| protocol.is_coded()).unwrap_or(1.0);
        let planned = plan(&experiment, operation, ratio);
        if ranks > SIMULATED_RANKS || transfers(&planned, operation, protocol, ranks) > SIMULATED_TRANSFERS {
            if !is_known(protocol) {
                let (op, variant) = (operation.name(), protocol.name());
                return Err(CollectiveBenchError::NoClosedForm { op, variant, ranks });
            }
            let Planned { way, seconds, codec_s, .. } = planned;
            let algorithm = self.algorithm(way, ratio);
            let uncompressed_s = protocol.is_coded().then(|| uncompressed(&experiment, operation, way).1);
            let by = By::ClosedForm;
            return Ok(Outcome { algorithm, time_s: seconds, ratio, codec_s, uncompressed_s, by });
        }
        self.simulate(experiment, planned, cancel)
    }

    /// Simulates its plan, and that of the same without compression if it is coded.
    pub(super) fn simulate(
        &self,
        mut experiment: Experiment,
        planned: Planned,
        cancel: &Cancel,
    ) -> Result<Outcome, CollectiveBenchError> {
        experiment.variants[0].ways = vec![planned.way];
        let free = split::uncompressed(&experiment, &experiment.variants[0]);
        experiment.topology = planned.topology;
        let outcome = self.run(&mut experiment, cancel)?;
        let Some(mut free) = free.filter(|_| self.protocol.is_coded()) else { return Ok(outcome) };
        free.topology = uncompressed(&free, self.operation, planned.way).0;
        let uncompressed_s = Some(self.run(&mut free, cancel)?.time_s);
        Ok(Outcome { uncompressed_s, ..outcome })
    }

    fn failed(&self, source: ExecuteError) -> CollectiveBenchError {
        let (op, bytes, variant) = (self.operation.name(), self.bytes, self.protocol.name());
        let executor = self.bench.executor.name();
        match source {
            ExecuteError::Memory { needed, limit, .. } => {
                CollectiveBenchError::Memory { op, bytes, variant, executor, needed, limit }
            }
            ExecuteError::TooLarge { plans, check, timeline, limit } => {
                let needed = plans + check.max(timeline);
                CollectiveBenchError::Memory { op, bytes, variant, executor, needed, limit }
            }
            source => CollectiveBenchError::Execute { op, bytes, source: Box::new(source) },
        }
    }

    /// Its scenario.
    pub(super) fn experiment(&self) -> Result<Experiment, CollectiveBenchError> {
        let Self { bench, operation, bytes, protocol, .. } = *self;
        let stated = stated(operation, self.cluster.topology.ranks(), bytes);
        let iterations = if bench.executor.is_real() { REAL_ITERATIONS } else { 1 };
        let (cluster, codec) = (&bench.cluster, &bench.codec);
        let call = OneCall { cluster, codec, operation, bytes: stated, protocol, iterations };
        let mut experiment = experiment(&call)?;
        if operation == Operation::SendRecv {
            scenario::to_the_next_only(&mut experiment, bytes);
        }
        Ok(experiment)
    }

    /// Whether it can be run, without running it.
    pub(super) fn check(&self, cancel: &Cancel) -> Result<(), CollectiveBenchError> {
        let mut experiment = self.experiment()?;
        self.prepare(&mut experiment, cancel)?.check(self.bench.executor).map_err(|error| self.failed(error))
    }

    fn prepare<'e>(
        &self,
        experiment: &'e mut Experiment,
        cancel: &Cancel,
    ) -> Result<Prepared<'e>, CollectiveBenchError> {
        executors::settle(experiment, &[self.bench.executor]);
        let shared = Arc::new(Shared::with_memory(self.bench.memory).verifying(self.bench.verifies));
        Prepared::with(experiment, shared, cancel).map_err(|error| self.failed(error))
    }

    /// Carries a plan out, in simulation or for real.
    fn run(&self, experiment: &mut Experiment, cancel: &Cancel) -> Result<Outcome, CollectiveBenchError> {
        let executor = self.bench.executor;
        let ways = experiment.variants[0].ways.clone();
        let mut prepared = self.prepare(experiment, cancel)?;
        let outcome = prepared.run(0, executor, cancel).map_err(|error| self.failed(error))?;
        let metrics = Metrics::of(&outcome.timeline, prepared.planned(0).plan.bytes_raw());
        let ratio = metrics.ratio.filter(|_| self.protocol.is_coded()).unwrap_or(1.0);
        Ok(Outcome {
            algorithm: self.algorithm(ways[0], ratio),
            time_s: metrics.iteration_s.mean,
            ratio,
            codec_s: metrics.codec_s - metrics.reduce_s,
            uncompressed_s: None,
            by: if executor == SIM { By::Simulation } else { By::Execution },
        })
    }

    /// The way by name: a library's with what the library makes of it.
    fn algorithm(&self, way: Option<Way>, ratio: f64) -> String {
        let ranks = self.cluster.topology.ranks();
        match way.map(|way| way.algorithm) {
            None => Algorithm::Direct.name().to_owned(),
            Some(Algorithm::Library) => {
                let coded = (self.bytes as f64 / ratio) as u64;
                let way = library(&self.cluster.host, self.operation, ranks, coded);
                way.map_or_else(|| Algorithm::Library.name().to_owned(), |(way, _)| format!("library {way}"))
            }
            Some(algorithm) => algorithm.name().to_owned(),
        }
    }
}

/// How the cluster's library carries an operation out, and the seconds; `None` where that is not known.
fn library(host: &HostCost, operation: Operation, ranks: u32, bytes: u64) -> Option<(&'static str, f64)> {
    let (collective, count) = match operation {
        Operation::AllGather => (Collective::AllGather, bytes / u64::from(ranks)),
        Operation::ReduceScatter => (Collective::ReduceScatter, bytes / u64::from(ranks)),
        Operation::AllReduce => (Collective::AllReduce, bytes),
        _ => {
            let cost = host.library.model?.cost(operation, ranks);
            return Some((cost.best(bytes as f64).name(), cost.seconds(bytes as f64)));
        }
    };
    let cost = host.library.of(collective, ranks)?;
    let moved = collective.ring_bytes(ranks, count);
    Some((cost.way(moved), cost.seconds(ranks, moved)))
}

/// Transfers of a plan, about.
fn transfers(planned: &Planned, operation: Operation, protocol: Protocol, ranks: u32) -> u64 {
    let ranks = u64::from(ranks);
    let pieces = match (operation, planned.way) {
        (Operation::SendRecv, _) => ranks,
        (Operation::Broadcast, Some(way)) => (ranks - 1) * u64::from(way.channels) * u64::from(way.slices),
        (_, None | Some(Way { algorithm: Algorithm::Direct | Algorithm::Hierarchical, .. })) => {
            ranks * (ranks - 1)
        }
        (_, Some(Way { algorithm: Algorithm::Library, .. })) => ranks,
        (_, Some(way)) => ranks * (ranks - 1) * u64::from(way.channels) * u64::from(way.slices),
    };
    let rounds = if operation == Operation::AllReduce { 2 } else { 1 };
    u64::from(protocol.exchanges()) * pieces * rounds
}
