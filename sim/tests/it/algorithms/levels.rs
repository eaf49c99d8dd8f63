//! Two levels: m nodes of L GPUs with M NICs, shards of S bytes, latencies a between nodes and b within.

use zipwire_cluster::Topology;
use zipwire_codec::DType;
use zipwire_schedule::{Algorithm, SumType};

use crate::algorithms::call::{
    Call, GPU, INTER_S, INTRA_S, LAUNCH_S, NIC, REDUCE, all_gather, all_reduce, assert_takes, nodes,
    reduce_scatter,
};

const SHARD: u64 = 1 << 20;

/// Nodes, GPUs and NICs of a node.
const CLUSTERS: [(u32, u32, u32); 5] = [(2, 4, 1), (2, 4, 2), (2, 4, 4), (3, 4, 4), (4, 2, 1)];

/// Seconds in which each rank moves `sum` bytes to each other rank of its place: a + (m - 1) `sum` L / (M B_nic), or what its own link takes.
fn between_s(topology: &Topology, sum: f64) -> f64 {
    let share = NIC * f64::from(topology.nics_per_node) / f64::from(topology.gpus_per_node);
    INTER_S + f64::from(topology.nodes - 1) * sum / share.min(GPU)
}

/// Seconds in which each rank moves what is for m shards to each other rank of its node: b + (L - 1) m S / B_gpu.
fn within_s(topology: &Topology, shard: f64) -> f64 {
    INTRA_S + f64::from((topology.gpus_per_node - 1) * topology.nodes) * shard / GPU
}

/// First between nodes, then within; each an exchange of its own with its launch.
#[test]
fn an_all_gather_on_two_levels() {
    for (m, gpus, nics) in CLUSTERS {
        let topology = nodes(m, gpus, nics);
        let call = Call::new(topology.clone(), all_gather(m * gpus, SHARD), Algorithm::Hierarchical);
        let expected = between_s(&topology, SHARD as f64) + within_s(&topology, SHARD as f64);
        assert_takes(&call, expected);
        assert_takes(&call.launched(), expected + 2.0 * LAUNCH_S);
    }
}

/// Within nodes, where the contributions of L ranks to m shards are read; then the sums of m nodes, in their own type: four ops with
/// launches. An All-Reduce then gathers in the type of the contributions.
#[test]
fn reductions_on_two_levels() {
    for (m, gpus, nics) in CLUSTERS {
        for (dtype, sums, width) in [
            (DType::F32, SumType::Fp32, 1.0),
            (DType::Bf16, SumType::Fp32, 2.0),
            (DType::Bf16, SumType::Sent, 1.0),
        ] {
            let (topology, s) = (nodes(m, gpus, nics), SHARD as f64);
            let of = |work| Call::new(topology.clone(), work, Algorithm::Hierarchical).sums(sums);
            let call = of(reduce_scatter(m * gpus, dtype, SHARD));
            let read = f64::from(m * gpus) * s + f64::from(m) * width * s;
            let scatter_s = within_s(&topology, s) + between_s(&topology, width * s) + read / REDUCE;
            assert_takes(&call, scatter_s);
            assert_takes(&call.launched(), scatter_s + 4.0 * LAUNCH_S);
            let gather_s = between_s(&topology, s) + within_s(&topology, s);
            let call = of(all_reduce(m * gpus, dtype, SHARD)).launched();
            assert_takes(&call, scatter_s + gather_s + 6.0 * LAUNCH_S);
        }
    }
}
