//! Seconds of a planned operation in closed form: those of [`estimate`](zipwire_schedule::estimate), and those of an All-to-All and
//! of sends to the next rank, which have one way only.

use zipwire_cluster::library::Operation;
use zipwire_cluster::{CodecCost, HostCost, Topology};
use zipwire_codec::Layout;
use zipwire_scenarios::Experiment;
use zipwire_schedule::estimate::{Costs, Way, best};
use zipwire_schedule::{Algorithm, CallKind, Choice, Protocol, Rank, Work};

use super::sends::{as_sent, as_single_sends};

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
    let (work, variant) = (&experiment.job.segments[0].work, &experiment.variants[0]);
    let codec = experiment.codec_of(variant).map(|codec| codec.cost);
    let library = &experiment.host.library;
    if let Some((topology, load)) = straight(experiment, operation, ratio) {
        let is_coded = variant.protocol.is_coded();
        let codec_s = codec.filter(|_| is_coded).map_or(0.0, |codec| load.codec_s(codec));
        let seconds = load.exchange_s(&experiment.host, variant.protocol, ratio) + codec_s;
        return Planned { way: None, topology, seconds, codec_s };
    }
    // As `best` does: a library's own rings and trees are what it makes of its calls.
    let is_called = work.collective().is_some_and(|of| library.knows(of));
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
            ..Choice::of(variant.protocol, None)
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
    let (work, variant) = (&experiment.job.segments[0].work, &experiment.variants[0]);
    if let Some((topology, load)) = straight(experiment, operation, 1.0) {
        return (topology, load.exchange_s(&experiment.host, variant.protocol, 1.0));
    }
    let way = way.expect("all others have several ways");
    let library = experiment.host.library.model.as_ref();
    let topology = as_sent(&experiment.topology, library, operation, way.algorithm);
    let costs =
        Costs { topology: &topology, host: &experiment.host, codec: Some(CodecCost::FREE), ratio: 1.0 };
    let pinned = Some(way.algorithm);
    let choice = Choice { algorithm: pinned, sums: experiment.sums, ..Choice::of(variant.protocol, None) };
    let (_, seconds) = best(work, &choice, &costs, (Some(way.channels), Some(way.slices)), true)
        .expect("the way is one of the operation's");
    (topology, seconds)
}

/// The cluster of an All-to-All or of single sends, and what they do to it; `None` for what has several ways.
fn straight(experiment: &Experiment, operation: Operation, ratio: f64) -> Option<(Topology, Load)> {
    let Work::Call { kind: CallKind::AllToAll { bytes, .. }, .. } = &experiment.job.segments[0].work else {
        return None;
    };
    let (cluster, model) = (&experiment.topology, experiment.host.library.model.as_ref());
    let topology = match operation {
        Operation::SendRecv => as_single_sends(cluster, model, bytes[(0, 1)] as f64 / ratio),
        _ => as_sent(cluster, model, operation, Algorithm::Direct),
    };
    let moves = bytes.indexed_iter().filter(|((src, dst), len)| src != dst && **len > 0);
    let load = Load::of(&topology, moves.map(|((src, dst), &len)| (src as u32, dst as u32, len)));
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
    /// Seconds before the last transfer moves.
    latency_s: f64,
    /// Seconds in which the fullest link moves raw bytes.
    moving_s: f64,
    /// Bytes that each rank sends and receives.
    ends: Vec<(u64, u64)>,
}

impl Load {
    /// That of so many bytes from one rank to another each.
    fn of(topology: &Topology, moves: impl Iterator<Item = (u32, u32, u64)>) -> Self {
        let capacities = topology.capacities();
        let mut on_link = vec![0_u64; capacities.len()];
        let mut ends = vec![(0, 0); topology.ranks() as usize];
        let mut latency_s = 0.0_f64;
        for (src, dst, len) in moves {
            let route = topology.route(Rank(src), Rank(dst));
            latency_s = latency_s.max(route.latency_s);
            for link in route.links() {
                on_link[link.index()] += len;
            }
            ends[src as usize].0 += len;
            ends[dst as usize].1 += len;
        }
        let seconds = on_link.iter().zip(capacities).map(|(&bytes, capacity)| bytes as f64 / capacity);
        Self { latency_s, moving_s: seconds.fold(0.0, f64::max), ends }
    }

    /// Seconds of moving, with the sizes that travel besides.
    fn exchange_s(&self, host: &HostCost, protocol: Protocol, ratio: f64) -> f64 {
        let HostCost { launch_s, sync_s, .. } = *host;
        let begin_s = launch_s + self.latency_s;
        let stages = if protocol.layout() == Some(Layout::Split) { 2.0 } else { 1.0 };
        let (sizes_s, ratio) = if protocol.is_coded() { (begin_s + sync_s, ratio) } else { (0.0, 1.0) };
        stages * begin_s + sizes_s + self.moving_s / ratio
    }

    /// Seconds of coding at the busiest rank.
    fn codec_s(&self, codec: CodecCost) -> f64 {
        let of = |&(sent, received): &(u64, u64)| {
            sent as f64 / codec.encode_bytes_per_s + received as f64 / codec.decode_bytes_per_s
        };
        2.0 * codec.launch_s + self.ends.iter().map(of).fold(0.0, f64::max)
    }
}
