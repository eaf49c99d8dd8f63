//! Bandwidth that point-to-point sends of the library reach on a cluster: it limits the transfers of a plan.

use zipwire_cluster::Topology;
use zipwire_cluster::library::{Constant, LibraryModel, Operation, WireProtocol};
use zipwire_schedule::Algorithm;

/// The cluster as sends of its library find it. Links of plans lose nothing, and a library's own collectives are measured: a coded
/// variant would gain by that alone. So links have the rates that the model has of sends, and each peer beyond the NVLink domain
/// to which a rank sends in an exchange takes its time.
pub(super) fn as_sent(
    topology: &Topology,
    model: Option<&LibraryModel>,
    operation: Operation,
    algorithm: Algorithm,
) -> Topology {
    let mut sent = topology.clone();
    let Some(LibraryModel { hardware, constants }) = model else { return sent };
    let shape = hardware.shape(topology.ranks());
    sent.gpu_bandwidth *= constants.get(Constant::LinkShare) * constants.get(Constant::PeerLinkShare);
    if shape.ranks_per_domain == 2.0 {
        sent.gpu_bandwidth *= constants.get(Constant::PairShare);
    }
    sent.nic_bandwidth *= constants.get(Constant::PeerNicShare);
    let peers = peers_beyond(topology, operation, algorithm);
    sent.latency_inter_s += f64::from(peers) * constants.get(Constant::PeerHop);
    sent
}

/// The cluster as single sends of so many bytes find it, of every rank to the next: short ones have few channels, and are slower.
pub(super) fn as_single_sends(topology: &Topology, model: Option<&LibraryModel>, bytes: f64) -> Topology {
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
    if topology.nodes == 1 {
        return 0;
    }
    match (operation, algorithm) {
        (Operation::SendRecv, _) => 1,
        (_, Algorithm::Direct) => topology.ranks() - topology.gpus_per_node,
        (_, Algorithm::Hierarchical) => topology.nodes - 1,
        (_, Algorithm::Library) => 0,
        // Around rings and along trees it sends to one at a time.
        _ => 1,
    }
}
