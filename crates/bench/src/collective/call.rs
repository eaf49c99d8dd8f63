//! One row: how its time is found, by simulating, by running, or in closed form.

use std::sync::Arc;

use zipwire_cluster::library::{Constant, LibraryModel, Operation, WireProtocol};
use zipwire_cluster::{CodecCost, HostCost, Topology};
use zipwire_runner::executors;
use zipwire_runner::{Cancel, ExecuteError, Prepared, Shared, split};
use zipwire_scenarios::Experiment;
use zipwire_schedule::estimate::{Costs, Way, best, stages};
use zipwire_schedule::{Algorithm, CallKind, Choice, Collective, Protocol, Rank, WHOLE_PLAN_RANKS, Work};
use zipwire_timeline::Metrics;

use super::row::{By, CollectiveRow};
use super::{CollectiveBench, CollectiveBenchError, OneCall, experiment, stated, to_the_next_only};

/// Most transfers of a plan that is simulated: an All-to-All of 128 ranks in three stages, and what takes a second.
pub(super) const SIMULATED_TRANSFERS: u64 = 50_000;

/// Most ranks of a plan that is simulated: larger ones are not checked as a whole.
pub(super) const SIMULATED_RANKS: u32 = WHOLE_PLAN_RANKS;

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

    /// Measures a collective of the executor's own library between the real ranks; `None` if it has none.
    pub(super) fn of_library(&self, cancel: &Cancel) -> Result<Option<CollectiveRow>, CollectiveBenchError> {
        let executor = self.bench.executor;
        let ranks = self.cluster.topology.ranks();
        let timed = executor.time_library(self.operation, ranks, self.bytes, REAL_ITERATIONS, cancel);
        let Some(time) = timed.map_err(|error| self.failed(error))? else { return Ok(None) };
        let outcome = Outcome {
            algorithm: time.function.to_owned(),
            time_s: time.seconds,
            ratio: 1.0,
            codec_s: 0.0,
            uncompressed_s: None,
            by: By::Own(executor.name()),
        };
        Ok(Some(CollectiveRow { variant: executor.name(), ..self.row_of(outcome) }))
    }

    fn outcome(&self, cancel: &Cancel, notes: &mut Vec<String>) -> Result<Outcome, CollectiveBenchError> {
        if cancel.is_cancelled() {
            return Err(self.failed(ExecuteError::Cancelled));
        }
        let is_real = self.bench.executor.capabilities().is_real;
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
        let adapt = |experiment: &mut Experiment, topology: Topology| match self.operation {
            // Its sends are the library's in plans, too.
            Operation::AllToAll => {}
            operation => {
                experiment.topology = topology;
                experiment.variants[0].may_call &= operation != Operation::SendRecv;
            }
        };
        adapt(&mut experiment, planned.topology);
        let outcome = self.run(&mut experiment, cancel)?;
        let Some(mut free) = free.filter(|_| self.protocol.is_coded()) else { return Ok(outcome) };
        let (topology, _) = uncompressed(&free, self.operation, planned.way);
        adapt(&mut free, topology);
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
            ExecuteError::TooLarge { plans, check, timeline, limit, .. } => {
                let needed = plans + check.max(timeline);
                CollectiveBenchError::Memory { op, bytes, variant, executor, needed, limit }
            }
            source => CollectiveBenchError::Execute { op, bytes, source: Box::new(source) },
        }
    }

    pub(super) fn experiment(&self) -> Result<Experiment, CollectiveBenchError> {
        let Self { bench, operation, bytes, protocol, .. } = *self;
        let stated = stated(operation, self.cluster.topology.ranks(), bytes);
        let iterations = if bench.executor.capabilities().is_real { REAL_ITERATIONS } else { 1 };
        let (cluster, codec) = (&bench.cluster, &bench.codec);
        let call = OneCall { cluster, codec, operation, bytes: stated, protocol, iterations };
        let mut experiment = experiment(&call)?;
        if operation == Operation::SendRecv {
            to_the_next_only(&mut experiment, bytes);
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
        let is_simulated = !self.bench.executor.capabilities().is_real;
        let shared = Shared::with_memory(self.bench.memory).verifying(self.bench.verifies);
        let shared = Arc::new(shared.folding(is_simulated && self.bench.folds));
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
            by: if executor.capabilities().is_real { By::Execution } else { By::Simulation },
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

/// An operation as it is planned.
#[derive(Clone, Debug)]
pub(super) struct Planned {
    /// Its way; `None` where there is only one.
    pub(super) way: Option<Way>,
    /// The cluster on which its transfers are predicted.
    pub(super) topology: Topology,
    /// Seconds of all.
    pub(super) seconds: f64,
    /// Seconds in which the mean rank codes.
    pub(super) codec_s: f64,
}

/// Whether the seconds are near those of a simulation, and not only good for a choice between algorithms.
pub(super) fn is_known(protocol: Protocol) -> bool {
    matches!(protocol, Protocol::Native | Protocol::SizeFirst | Protocol::StaticFirst)
}

/// The way that takes least time. `ratio` is that of coded bytes.
pub(super) fn plan(experiment: &Experiment, operation: Operation, ratio: f64) -> Planned {
    let (work, variant) = (&experiment.job().segments[0].work, &experiment.variants[0]);
    let codec = experiment.codec_of(variant).map(|codec| codec.cost);
    let library = &experiment.host.library;
    if let Some((topology, load)) = straight(experiment, operation, ratio) {
        let is_coded = variant.protocol.is_coded();
        let codec_s = codec.filter(|_| is_coded).map_or(0.0, |codec| load.codec_s(codec));
        let seconds = load.exchange_s(&experiment.host, variant.protocol) + codec_s;
        return Planned { way: None, topology, seconds, codec_s };
    }
    // As `best` does: a library's own rings and trees are what it makes of its calls.
    let is_called = work.collective(experiment.topology.ranks()).is_some_and(|of| library.knows(of));
    let is_candidate = |algorithm: &&Algorithm| match algorithm {
        Algorithm::Library => is_called,
        _ => !(is_called && algorithm.is_of_libraries()),
    };
    let candidates = work.algorithms().iter().filter(is_candidate).filter_map(|&algorithm| {
        let topology = as_sent(&experiment.topology, library.model.as_ref(), operation, algorithm);
        let costs = Costs { topology: &topology, host: &experiment.host, codec, ratio };
        let choice = Choice {
            algorithm: Some(algorithm),
            sums: experiment.sums,
            ..Choice::of(variant.protocol, experiment.codec_of(variant).map(|codec| codec.spec.clone()))
        };
        let rings = (variant.channels, variant.slices);
        // What cannot be pinned is not what comes out.
        let (way, seconds) =
            best(work, &choice, &costs, rings, true).filter(|(way, _)| way.algorithm == algorithm)?;
        let codec_s = if variant.protocol.is_coded() {
            let free = Costs { codec: Some(CodecCost::FREE), ..costs };
            let (_, without_s) = best(work, &choice, &free, (Some(way.channels), Some(way.slices)), true)?;
            match (work, codec) {
                (Work::Call { kind: CallKind::Broadcast { bytes, .. }, .. }, Some(codec)) => {
                    of_broadcast(codec, *bytes, topology.ranks())
                }
                _ => seconds - without_s,
            }
        } else {
            0.0
        };
        Some(Planned { way: Some(way), topology, seconds, codec_s })
    });
    let least = candidates.reduce(|least, other| if other.seconds < least.seconds { other } else { least });
    least.expect("every collective can go straight, or along a tree")
}

/// The cluster on which an operation that is coded would travel in a way if nothing were saved by it, and the seconds: with ratio 1 and a
/// codec that takes no time.
pub(super) fn uncompressed(
    experiment: &Experiment,
    operation: Operation,
    way: Option<Way>,
) -> (Topology, f64) {
    let (work, variant) = (&experiment.job().segments[0].work, &experiment.variants[0]);
    if let Some((topology, load)) = straight(experiment, operation, 1.0) {
        return (topology, load.exchange_s(&experiment.host, variant.protocol));
    }
    let way = way.expect("all others have several ways");
    let library = experiment.host.library.model.as_ref();
    let topology = as_sent(&experiment.topology, library, operation, way.algorithm);
    let costs =
        Costs { topology: &topology, host: &experiment.host, codec: Some(CodecCost::FREE), ratio: 1.0 };
    let pinned = Some(way.algorithm);
    let spec = experiment.codec_of(variant).map(|codec| codec.spec.clone());
    let choice = Choice { algorithm: pinned, sums: experiment.sums, ..Choice::of(variant.protocol, spec) };
    let (_, seconds) = best(work, &choice, &costs, (Some(way.channels), Some(way.slices)), true)
        .expect("the way is one of the operation's");
    (topology, seconds)
}

/// The cluster of an All-to-All or of single sends, and what they do to it; `None` for what has several ways.
fn straight(experiment: &Experiment, operation: Operation, ratio: f64) -> Option<(Topology, Load)> {
    let Work::Call { kind: CallKind::AllToAll { bytes, .. }, .. } = &experiment.job().segments[0].work else {
        return None;
    };
    let (cluster, model) = (&experiment.topology, experiment.host.library.model.as_ref());
    let variant = &experiment.variants[0];
    let spec = experiment.codec_of(variant).map(|codec| codec.spec.clone());
    let work = &experiment.job().segments[0].work;
    let shares = stages(&Choice::of(variant.protocol, spec), work.dtype(), ratio);
    let moves = bytes.indexed_iter().filter(|((src, dst), len)| src != dst && **len > 0);
    let moves = moves.map(|((src, dst), &len)| (Rank(src as u32), Rank(dst as u32), len));
    if let Some(model) = model.filter(|_| operation == Operation::AllToAll) {
        // A group of the library's sends, of each rank alike.
        let of_rank = moves.clone().filter(|(src, ..)| src.0 == 0);
        let beyond = of_rank.clone().filter(|&(src, dst, _)| !cluster.is_near(src, dst)).count();
        let sent = of_rank.map(|(.., len)| len as f64 / ratio).sum::<f64>();
        let group = |share: f64| {
            let sends = model.sends(cluster, (sent * share) as u64, beyond as u32);
            let load =
                Load::of(cluster, moves.clone(), |src, dst| sends.loss(cluster, src, dst) * share / ratio);
            Load { begin_s: sends.latency_s, ..load }
        };
        let sizes_s = group(0.0).begin_s;
        let groups = shares.iter().map(|share| group(*share));
        let all = groups.reduce(|a, b| Load {
            begin_s: a.begin_s + b.begin_s,
            moving_s: a.moving_s + b.moving_s,
            ..a
        });
        let load = all.expect("a call has a stage");
        return Some((cluster.clone(), Load { sizes_s, ..load }));
    }
    let topology = match operation {
        Operation::SendRecv => as_single_sends(cluster, model, bytes[(0, 1)] as f64 / ratio),
        _ => as_sent(cluster, model, operation, Algorithm::Direct),
    };
    let load = Load::of(&topology, moves, |_, _| 1.0 / ratio);
    let begin_s = experiment.host.launch_s + load.begin_s;
    let load = Load { begin_s: shares.len() as f64 * begin_s, sizes_s: begin_s, ..load };
    Some((topology, load))
}

/// Seconds of coding of a broadcast, of the mean rank: one encodes, and the others decode.
fn of_broadcast(codec: CodecCost, bytes: u64, ranks: u32) -> f64 {
    let (bytes, ranks) = (bytes as f64, f64::from(ranks));
    let (encode_s, decode_s) = (bytes / codec.encode_bytes_per_s, bytes / codec.decode_bytes_per_s);
    codec.launch_s + (encode_s + (ranks - 1.0) * decode_s) / ranks
}

/// Load of an exchange in which every transfer goes straight to its receiver.
struct Load {
    /// Seconds before the last transfer moves, of all stages.
    begin_s: f64,
    /// The same of the exchange of sizes.
    sizes_s: f64,
    /// Seconds in which the fullest link moves all bytes.
    moving_s: f64,
    /// Bytes that each rank sends and receives.
    ends: Vec<(u64, u64)>,
}

impl Load {
    /// Load of so many bytes from one rank to another each, which count as many times as much on links.
    fn of(
        topology: &Topology,
        moves: impl Iterator<Item = (Rank, Rank, u64)>,
        loss: impl Fn(Rank, Rank) -> f64,
    ) -> Self {
        let capacities = topology.capacities();
        let mut on_link = vec![0.0; capacities.len()];
        let mut ends = vec![(0, 0); topology.ranks() as usize];
        let mut latency_s = 0.0_f64;
        for (src, dst, len) in moves {
            let (route, effective) = (topology.route(src, dst), len as f64 * loss(src, dst));
            latency_s = latency_s.max(route.latency_s);
            for link in route.links() {
                on_link[link.index()] += effective;
            }
            ends[src.index()].0 += len;
            ends[dst.index()].1 += len;
        }
        let seconds = on_link.iter().zip(capacities).map(|(bytes, capacity)| bytes / capacity);
        Self { begin_s: latency_s, sizes_s: latency_s, moving_s: seconds.fold(0.0, f64::max), ends }
    }

    /// Seconds of moving, with the sizes that travel besides.
    fn exchange_s(&self, host: &HostCost, protocol: Protocol) -> f64 {
        let sizes_s = if protocol.is_coded() { self.sizes_s + host.sync_s } else { 0.0 };
        self.begin_s + sizes_s + self.moving_s
    }

    /// Seconds of coding at the busiest rank.
    fn codec_s(&self, codec: CodecCost) -> f64 {
        let of = |&(sent, received): &(u64, u64)| {
            sent as f64 / codec.encode_bytes_per_s + received as f64 / codec.decode_bytes_per_s
        };
        2.0 * codec.launch_s + self.ends.iter().map(of).fold(0.0, f64::max)
    }
}

/// The cluster as sends of its library find it. Links of plans lose nothing, and a library's own collectives are measured: a coded
/// variant would gain by that alone. So links have the rates that the model has of sends, and each peer beyond the NVLink domain
/// to which a rank sends in an exchange takes its time.
fn as_sent(
    topology: &Topology,
    model: Option<&LibraryModel>,
    operation: Operation,
    algorithm: Algorithm,
) -> Topology {
    let mut sent = topology.clone();
    let Some(model) = model else { return sent };
    if algorithm == Algorithm::Library {
        return sent;
    }
    let LibraryModel { hardware, constants } = model;
    let shape = hardware.shape(topology.ranks());
    sent.gpu_bandwidth *= constants.get(Constant::LinkShare) * constants.get(Constant::PeerLinkShare);
    if shape.ranks_per_domain == 2.0 {
        sent.gpu_bandwidth *= constants.get(Constant::PairShare);
    }
    let peers = peers_beyond(topology, operation, algorithm);
    sent.nic_bandwidth *= model.peer_nic_share(topology.ranks(), peers);
    sent.latency_inter_s += f64::from(peers) * constants.get(Constant::PeerHop);
    sent
}

/// The cluster as single sends of so many bytes find it, of every rank to the next: short ones have few channels, and are slower.
fn as_single_sends(topology: &Topology, model: Option<&LibraryModel>, bytes: f64) -> Topology {
    let mut sent = as_sent(topology, model, Operation::SendRecv, Algorithm::Direct);
    if let Some(model) = model {
        let cost = model.cost(Operation::SendRecv, topology.ranks());
        let way = cost.candidates().find(|way| way.protocol == WireProtocol::Simple);
        let way = way.expect("sends have this protocol");
        sent.gpu_bandwidth = sent.gpu_bandwidth.min(bytes / (way.seconds(bytes) - way.latency_s));
    }
    sent
}

/// Peers in other nodes to which a rank sends in one exchange.
fn peers_beyond(topology: &Topology, operation: Operation, algorithm: Algorithm) -> u32 {
    if topology.nodes <= topology.nodes_per_domain {
        return 0;
    }
    match (operation, algorithm) {
        (Operation::SendRecv, _) => 1,
        (_, Algorithm::Direct) => topology.ranks() - topology.gpus_per_node * topology.nodes_per_domain,
        (_, Algorithm::Hierarchical) => topology.nodes - topology.nodes_per_domain,
        (_, Algorithm::Library) => 0,
        // Around rings and along trees it sends to one at a time.
        _ => 1,
    }
}
