//! Traffic that is too much for the oracle, and the same bits each time.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::network::play::{all_to_all, flat, last, nodes, play};

fn unequal(seed: u64) -> impl FnMut(u32, u32) -> (u64, f64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    move |_, _| (random.random_range(1 << 18..7 << 18), 0.0)
}

/// 64 ranks, all pairs, every transfer with an end of its own: too many for the oracle. The busiest link
/// bounds the time from below, and fair shares of random sizes keep it busy nearly to the end.
#[test]
fn unequal_all_to_all_of_64_ranks() {
    for topology in [flat(64, 25e9), nodes(8, 25e9, 25e9), nodes(8, 200e9, 25e9)] {
        let transfers = all_to_all(&topology, unequal(1));
        let run = play(&topology.capacities(), &transfers);
        assert!(run.ends > 4000, "{} ends of {} transfers", run.ends, transfers.len());
        let mut busy_s = vec![0.0; topology.capacities().len()];
        for transfer in &transfers {
            for link in &transfer.links {
                busy_s[link.index()] += transfer.bytes as f64 / topology.capacities()[link.index()];
            }
        }
        let bound_s = last(&busy_s);
        let makespan_s = last(&run.finish_s);
        assert!((bound_s..1.2 * bound_s + 2e-5).contains(&makespan_s), "{makespan_s} s, bound {bound_s} s");
    }
}

/// The same traffic gives the same bits, whatever order the process hashes in.
#[test]
fn runs_are_reproducible() {
    let topology = nodes(2, 50e9, 25e9);
    let transfers = all_to_all(&topology, unequal(3));
    let [a, b] = [(), ()].map(|()| play(&topology.capacities(), &transfers).finish_s);
    assert!(a.iter().zip(&b).all(|(a, b)| a.to_bits() == b.to_bits()));
}
