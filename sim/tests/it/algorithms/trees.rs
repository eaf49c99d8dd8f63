//! All-Reduces along two trees over n ranks whose links are equal: shards of S bytes, latency a, bandwidth B, sums at R.

use zipwire_codec::DType;
use zipwire_schedule::{Algorithm, SumType};

use crate::algorithms::call::{
    Call, GPU, INTER_S, INTRA_S, LAUNCH_S, NIC, REDUCE, all_reduce, assert_takes, nodes,
};

const SHARD: u64 = 1 << 20;

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
