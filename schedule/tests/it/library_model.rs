//! The model of a library: which ways it finds the best, and what it takes from the hardware.

use zipwire_cluster::library::{Constant, Generation, Hardware, LibraryModel, Operation};
use zipwire_cluster::{CallCost, DeclaredCost, LibraryCost};
use zipwire_schedule::Collective;

const GIB: f64 = 1024.0 * 1024.0 * 1024.0;

/// Nodes of H100 with a 400 Gb/s NIC for each GPU.
fn hopper(nodes: u32, gpus_per_node: u32) -> LibraryModel {
    let hardware = Hardware {
        nodes,
        gpus_per_node,
        gpu_bytes_per_s: 450e9,
        node_bytes_per_s: 50e9 * f64::from(gpus_per_node),
        nvlink_domain: 0,
    };
    LibraryModel { hardware, constants: Generation::Hopper.constants() }
}

fn bus(model: &LibraryModel, operation: Operation, bytes: f64) -> f64 {
    let ranks = model.hardware.ranks();
    operation.bus_factor(ranks) * bytes / model.cost(operation, ranks).seconds(bytes)
}

fn way(model: &LibraryModel, operation: Operation, bytes: f64) -> &'static str {
    model.cost(operation, model.hardware.ranks()).best(bytes).name()
}

#[test]
fn short_calls_take_ll_and_long_ones_simple() {
    let node = hopper(1, 8);
    assert_eq!(way(&node, Operation::AllReduce, 8.0), "ring/LL");
    assert_eq!(way(&node, Operation::AllReduce, 8.0 * GIB), "nvls/Simple");
    assert_eq!(way(&node, Operation::AllGather, 16.0 * 1024.0 * 1024.0), "ring/LL128");
    assert_eq!(way(&node, Operation::AllToAll, GIB), "peers/Simple");
    assert_eq!(way(&hopper(4, 8), Operation::AllReduce, 8.0), "tree/LL", "fewer steps than a ring");
}

#[test]
fn trees_between_two_nodes_beat_their_nics() {
    // Two GPUs per node: 100 GB/s of NICs. A ring gets no more, a tree carries all values once each way.
    let (two, four) = (hopper(2, 2), hopper(4, 2));
    assert!(bus(&two, Operation::AllGather, 8.0 * GIB) < 100e9);
    let reduced = bus(&two, Operation::AllReduce, 8.0 * GIB);
    assert!((120e9..150e9).contains(&reduced), "{reduced}");
    assert!(bus(&four, Operation::AllReduce, 8.0 * GIB) < 100e9);
}

#[test]
fn without_nvls_a_node_reduces_around_a_ring() {
    let mut node = hopper(1, 8);
    let with = bus(&node, Operation::AllReduce, 8.0 * GIB);
    node.constants.set(Constant::NvlsShare, 0.0);
    assert_eq!(way(&node, Operation::AllReduce, 8.0 * GIB), "ring/Simple");
    assert!(bus(&node, Operation::AllReduce, 8.0 * GIB) < 0.85 * with);
}

#[test]
fn all_to_alls_share_nics_by_what_leaves_the_node() {
    // 72 of 79 peers are on other nodes: the bus bandwidth is more than that of a NIC's share by as much.
    let nodes = hopper(10, 8);
    let reached = bus(&nodes, Operation::AllToAll, 16.0 * GIB);
    let share = nodes.peer_nic_share(80, 72);
    let limit = 50e9 * share * 79.0 / 72.0;
    assert!(reached < limit && reached > 0.97 * limit, "{reached} of {limit}");
}

#[test]
fn twice_the_nics_are_twice_the_bandwidth_between_nodes() {
    let one = hopper(4, 1);
    let mut two = one;
    two.hardware.node_bytes_per_s *= 2.0;
    let ratio = bus(&two, Operation::AllGather, 64.0 * GIB) / bus(&one, Operation::AllGather, 64.0 * GIB);
    assert!((1.95..=2.0).contains(&ratio), "{ratio}");
}

#[test]
fn short_sends_have_few_channels() {
    // As measured on 8 GPUs: 80 GB/s below 128 MiB, all of a link from 512 MiB on.
    let node = hopper(1, 8);
    let (short, long) = (64.0 * 1024.0 * 1024.0, 2.0 * GIB);
    assert!((70e9..90e9).contains(&bus(&node, Operation::SendRecv, short)));
    assert!((340e9..375e9).contains(&bus(&node, Operation::SendRecv, long)));
}

#[test]
fn more_bytes_and_more_nodes_never_take_less() {
    for operation in Operation::ALL {
        let seconds = |nodes: u32, bytes: f64| {
            let model = hopper(nodes, 8);
            model.cost(operation, model.hardware.ranks()).seconds(bytes)
        };
        let quarters = |exponent: u32| [1.0, 1.25, 1.5, 1.75].map(|part| part * (1_u64 << exponent) as f64);
        let sizes: Vec<f64> = (0..36).flat_map(quarters).collect();
        for nodes in [1, 2, 3, 4, 16, 128] {
            for pair in sizes.windows(2) {
                let (less, more) = (seconds(nodes, pair[0]), seconds(nodes, pair[1]));
                assert!(less <= more, "{} on {nodes}: {} bytes", operation.name(), pair[1]);
            }
        }
        for (few, many) in [(2, 3), (4, 16), (16, 128)] {
            assert!(seconds(few, GIB) <= seconds(many, GIB), "{} {few} {many}", operation.name());
        }
    }
}

#[test]
fn calls_of_plans_count_by_the_bytes_of_a_ring() {
    let model = hopper(2, 8);
    let library = LibraryCost { model: Some(model), ..LibraryCost::default() };
    for collective in Collective::ALL {
        let cost = library.of(collective, 16).unwrap();
        // 64 MiB that all ranks have, or get: of an All-Gather or a Reduce-Scatter a sixteenth of it is each rank's.
        let (size, shard) = (64 << 20, 4 << 20);
        let is_whole = matches!(collective, Collective::AllReduce | Collective::Broadcast);
        let count = if is_whole { size } else { shard };
        let ring_bytes = collective.ring_bytes(16, count);
        let expected = model.cost(collective.into(), 16).seconds(size as f64);
        let got = cost.seconds(16, ring_bytes);
        assert!((got / expected - 1.0).abs() < 1e-9, "{}: {got}, {expected}", collective.name());
        assert_eq!(cost.way(ring_bytes), model.cost(collective.into(), 16).best(size as f64).name());
    }
}

/// Declared costs go before the model, and are unchanged: one latency and one bandwidth, to the last bit.
#[test]
fn declared_costs_are_as_declared() {
    let declared = DeclaredCost { latency_s: 30e-6, per_rank_s: 6e-6, bytes_per_s: 22e9 };
    let library =
        LibraryCost { all_gather: Some(declared), model: Some(hopper(2, 8)), ..LibraryCost::default() };
    let cost = library.of(Collective::AllGather, 16).unwrap();
    assert_eq!(cost, CallCost::Declared(declared));
    assert_eq!(cost.seconds(16, 1_000_000), 30e-6 + 6e-6 * 15.0 + 1e6 / 22e9);
    assert_eq!(cost.way(0), "declared");
    assert!(matches!(library.of(Collective::AllReduce, 16), Some(CallCost::Modelled(_))));
    assert!(LibraryCost::default().of(Collective::AllReduce, 16).is_none());
    assert!(library.knows(Collective::ReduceScatter) && !LibraryCost::default().knows(Collective::AllGather));
}
