//! Broadcasts along a chain of n ranks in k slices of S bytes.

use zipwire_schedule::{Algorithm, Rank, RankRange};

use crate::algorithms::call::{
    Call, GPU, INTER_S, INTRA_S, LAUNCH_S, NIC, assert_takes, broadcast_to, nodes,
};

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
