//! Algorithms over several NICs, in slices and along trees, in virtual time: against closed forms, and against what a choice between
//! them rests on.

mod call;
mod estimates;
mod rings;
mod uneven;

use zipwire_cluster::Topology;
use zipwire_codec::DType;
use zipwire_schedule::{Algorithm, Rank, RankRange, SumType};

use crate::algorithms::call::{
    Call, GPU, INTER_S, INTRA_S, LAUNCH_S, NIC, REDUCE, all_gather, all_reduce, assert_takes, broadcast_to,
    nodes, reduce_scatter,
};

// Broadcasts along a chain of n ranks in k slices of S bytes.
const BYTES: u64 = 3 << 20;

/// (k + n - 2)(a + S / (k B)): the last of k slices leaves the root in step k and passes n - 2 ranks on its way to the last one. All
/// steps are one kernel, with one launch.
#[test]
fn slices_follow_one_another_along_a_chain() {
    for (node_count, gpus) in [(1, 2), (1, 4), (1, 7), (4, 1), (5, 1)] {
        let n = node_count * gpus;
        let (latency_s, link) = if node_count == 1 { (INTRA_S, GPU) } else { (INTER_S, NIC) };
        for slices in [1, 2, 4, 16] {
            let upper = RankRange { begin: Rank(n / 2), end: Rank(n) };
            for (root, to, hops) in
                [(0, RankRange::all(n), n - 1), (n - 1, RankRange::all(n), n - 1), (0, upper, n - n / 2)]
            {
                let (topology, work) = (nodes(node_count, gpus, 1), broadcast_to(to, BYTES, root));
                let call = Call::new(topology, work, Algorithm::Ring).slices(slices);
                let step_s = latency_s + BYTES as f64 / f64::from(slices) / link;
                let expected = f64::from(slices + hops - 1) * step_s;
                assert_takes(&call, expected);
                assert_takes(&call.launched(), expected + LAUNCH_S);
            }
        }
    }
}

/// Shards of S bytes.
const SHARD: u64 = 1 << 20;

// Two levels: m nodes of L GPUs with M NICs, latencies a between nodes and b within.
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

// All-Reduces along two trees over n ranks whose links are equal: latency a, bandwidth B, sums at R.
/// Ranks, slices, and how often a call pays a latency, S / B and S / R. In each step the fullest link counts, and behind it the
/// longest sum, without which its rank does not go on.
///
/// n = 2: each rank is the root of a tree and the leaf of the other one: S up, 2 S are added up, S down.
///
/// n = 3: tree 0 is 0 -> 1 <- 2 with shards 0 and 2, tree 1 is 1 -> 2 <- 0 with shard 1. In one slice rank 1 gets 2 S from each of two
/// leaves, adds up 3 terms of 2 S, and sends 2 S to each: 2 a + 8 S/B + 6 S/R. In two slices (shards 0 and 1, then 2): 2 S into both roots,
/// sums of 3 S; then the roots send 2 S down while rank 1 gets 2 S of the second slice and S from the other root, 3 S in all; a
/// sum of 3 S; 2 S down: 3 a + 7 S/B + 6 S/R.
///
/// n = 4: tree 0 is 0 -> 1 -> 2 <- 3 with shards 0 and 2, tree 1 is 2 -> 3 -> 0 <- 1 with shards 1 and 3. In one slice: 2 S from the lowest
/// leaf, 2 terms of 2 S, 4 S into the root, 3 terms of 2 S, 4 S out of it, 2 S down: 4 a + 12 S/B + 10 S/R. In two, a slice of S per tree:
/// S; 2 S into the root (sum 2 S before); 2 S each way at the root (sum 3 S before); 2 S out of it (3 S before); S: 5 a + 8 S/B + 8 S/R.
const CASES: [(u32, u32, f64, f64, f64); 5] = [
    (2, 1, 2.0, 2.0, 2.0),
    (3, 1, 2.0, 8.0, 6.0),
    (3, 2, 3.0, 7.0, 6.0),
    (4, 1, 4.0, 12.0, 10.0),
    (4, 2, 5.0, 8.0, 8.0),
];

#[test]
fn sums_travel_up_and_down_two_trees() {
    for (n, slices, latencies, moved, added) in CASES {
        for (topology, latency_s, link) in [(nodes(1, n, 1), INTRA_S, GPU), (nodes(n, 1, 1), INTER_S, NIC)] {
            for (dtype, sums) in [(DType::F32, SumType::Fp32), (DType::Bf16, SumType::Sent)] {
                let call = Call::new(topology.clone(), all_reduce(n, dtype, SHARD), Algorithm::Tree);
                let call = call.slices(slices).sums(sums);
                let s = SHARD as f64;
                let expected = latencies * latency_s + moved * s / link + added * s / REDUCE;
                assert_takes(&call, expected);
                assert_takes(&call.launched(), expected + LAUNCH_S);
            }
        }
    }
}
