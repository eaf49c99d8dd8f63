//! Times of whole bursts against closed forms, and bursts that are too large for the oracle.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zipwire_cluster::{LinkId, Topology};

use crate::common::assert_close;
use crate::network::play::{all_to_all, flat, last, nodes, play};
use crate::oracle::Transfer;

/// N - 1 flows of S bytes on every link: a + (N - 1) S / B, all at once.
#[test]
fn flat_burst() {
    for ranks in [2, 3, 8, 64] {
        let topology = flat(ranks, 25e9);
        let run = play(&topology.capacities(), &all_to_all(&topology, |_, _| (1 << 20, 0.0)));
        assert_close(last(&run.finish_s), 5e-6 + f64::from(ranks - 1) * 1048576.0 / 25e9);
        assert_eq!(run.ends, 1);
    }
}

/// 8 (N - 8) flows of S bytes on every NIC, which limits: a + 8 (N - 8) S / B_nic. One end for the flows
/// within the nodes and one for those between them.
#[test]
fn two_level_burst() {
    for count in [2, 4, 8] {
        for gpu_bandwidth in [25e9, 150e9] {
            let topology = nodes(count, gpu_bandwidth, 25e9);
            let run = play(&topology.capacities(), &all_to_all(&topology, |_, _| (1 << 20, 0.0)));
            let peers = f64::from(8 * count - 8);
            assert_close(last(&run.finish_s), 2e-5 + 8.0 * peers * 1048576.0 / 25e9);
            assert_eq!(run.ends, 2);
        }
    }
}

/// Figure 8 of ZipCCL: 4 GPUs, unit links, x on the pairs of GPU 1 and 2x on all others. A late GPU costs
/// less than its delay if the others do not wait for it.
#[test]
fn a_late_gpu_delays_only_its_own_transfers() {
    let x = 1_000_000u64;
    let time = x as f64;
    let topology = Topology { latency_intra_s: 0.0, ..flat(4, 1.0) };
    let finish_s = |late_s: f64, others_s: f64| {
        let transfers = all_to_all(&topology, |src, dst| match src == 1 || dst == 1 {
            true => (x, late_s),
            false => (2 * x, others_s),
        });
        last(&play(&topology.capacities(), &transfers).finish_s)
    };
    assert_close(finish_s(0.0, 0.0), 5.0 * time);
    for late in [0.1, 0.5, 1.0, 1.7, 2.0, 2.5, 4.0, 5.0, 9.0] {
        let late_s = late * time;
        assert_close(finish_s(late_s, 0.0), f64::max(5.0 * time, late_s + 3.0 * time));
        assert_close(finish_s(late_s, late_s), late_s + 5.0 * time);
    }
}

/// 4 GPUs on a shared bus, x per pair: the bus has 12x to move. While GPU 1 is late the other six pairs keep it busy for
/// 6x, so being late by as much costs nothing, and only what is beyond costs time.
#[test]
fn a_busy_bus_hides_a_late_gpu() {
    let (x, bandwidth) = (1_000_000, 1e9);
    let pairs = (0..4).flat_map(|src| (0..4).map(move |dst| (src, dst))).filter(|(src, dst)| src != dst);
    let transfers = |late_s: f64| -> Vec<Transfer> {
        let start_s = |src, dst| if src == 1 || dst == 1 { late_s } else { 0.0 };
        let transfer = |(src, dst)| Transfer { links: vec![LinkId(0)], bytes: x, start_s: start_s(src, dst) };
        pairs.clone().map(transfer).collect()
    };
    let pair_s = x as f64 / bandwidth;
    for late in [0.0, 0.5, 1.0, 3.0, 5.9, 6.0, 6.5, 20.0] {
        let run = play(&[bandwidth], &transfers(late * pair_s));
        assert_close(last(&run.finish_s), f64::max(12.0, late + 6.0) * pair_s);
    }
}

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
