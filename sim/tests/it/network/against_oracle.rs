//! Random traffic against the oracle.

use std::collections::BTreeMap;

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zipwire_cluster::{Fabric, LinkId, Topology};
use zipwire_sim::{FlowId, Network};

use crate::common::{assert_close, log_uniform};
use crate::network::{all_to_all, links, nodes, play};
use crate::oracle::{self, Transfer};

/// The worst relative difference between the finish times of the network and of the oracle.
fn disagreement(capacities: &[f64], transfers: &[Transfer]) -> f64 {
    let expected = oracle::finish_times(capacities, transfers);
    let found = play(capacities, transfers).finish_s;
    found
        .iter()
        .zip(&expected)
        .map(|(&a, &b)| (a - b).abs() / b.abs())
        .fold(0.0, |worst, d| if d > worst { d } else { worst })
}

#[track_caller]
fn assert_agrees(capacities: &[f64], transfers: &[Transfer], case: &str) {
    let worst = disagreement(capacities, transfers);
    assert!(worst <= 1e-9, "{case}: finish times differ by {worst:e}");
}

/// 1 to 4 distinct links.
fn random_route(random: &mut ChaCha8Rng, link_count: usize) -> Vec<LinkId> {
    let mut links: Vec<LinkId> = (0..link_count as u32).map(LinkId).collect();
    let hops = random.random_range(1..=link_count.min(Network::MAX_HOPS));
    links.partial_shuffle(random, hops).0.to_vec()
}

#[test]
fn arbitrary_routes_sizes_and_capacities() {
    for seed in 0..400 {
        let random = &mut ChaCha8Rng::seed_from_u64(seed);
        let decades = random.random_range(0.0..6.0);
        let link_count = random.random_range(1..=12);
        let capacities: Vec<f64> =
            (0..link_count).map(|_| log_uniform(random, 1e6, 1e6 * libm::pow(10.0, decades))).collect();
        let most_bytes = log_uniform(random, 1.0, 1e12);
        let spread_s = if random.random_bool(0.3) { 0.0 } else { most_bytes / 1e6 * random.random::<f64>() };
        let transfers: Vec<Transfer> = (0..random.random_range(1..60))
            .map(|_| Transfer {
                links: random_route(random, link_count),
                bytes: log_uniform(random, 1.0, most_bytes).round() as u64,
                start_s: spread_s * random.random::<f64>(),
            })
            .collect();
        assert_agrees(&capacities, &transfers, &format!("seed {seed}"));
    }
}

#[test]
fn all_to_alls_on_flat_and_two_level_topologies() {
    for seed in 0..120 {
        let random = &mut ChaCha8Rng::seed_from_u64(seed);
        let gpus_per_node = random.random_range(1..=4);
        let topology = Topology {
            nodes: if gpus_per_node == 1 { 2 } else { random.random_range(1..=3) },
            gpus_per_node,
            nics_per_node: random.random_range(1..=gpus_per_node),
            gpu_bandwidth: log_uniform(random, 1e9, 1e12),
            nic_bandwidth: log_uniform(random, 1e9, 1e11),
            latency_intra_s: 5e-6,
            latency_inter_s: 2e-5,
            fabric: Fabric::Nodes,
            nodes_per_domain: 1,
            link_bandwidths: BTreeMap::new(),
        };
        let mut capacities = topology.capacities();
        if random.random_bool(0.5) {
            capacities.iter_mut().for_each(|capacity| *capacity *= random.random_range(0.1..1.0));
        }
        let ready_s: Vec<f64> = (0..topology.ranks())
            .map(|_| random.random_range(0.0..1e-2) * random.random_range(0.0..1.0))
            .collect();
        let staggered = random.random_bool(0.7);
        let least = log_uniform(random, 1.0, 1e8);
        let transfers = all_to_all(&topology, |src, dst| {
            let ready_s =
                if staggered { f64::max(ready_s[src as usize], ready_s[dst as usize]) } else { 0.0 };
            (log_uniform(random, least, 1e8).round() as u64, ready_s)
        });
        assert_agrees(&capacities, &transfers, &format!("seed {seed}"));
    }
}

/// Few distinct sizes, starts and capacities, so that levels and ends coincide all the time.
#[test]
fn ties_of_levels_and_ends() {
    for seed in 0..200 {
        let random = &mut ChaCha8Rng::seed_from_u64(seed);
        let link_count = random.random_range(2..=10);
        let unit = [1.0, 0.1, 3e9][random.random_range(0..3)];
        let capacities: Vec<f64> =
            (0..link_count).map(|_| unit * f64::from(random.random_range(1..=3))).collect();
        let transfers: Vec<Transfer> = (0..random.random_range(2..60))
            .map(|_| Transfer {
                links: random_route(random, link_count),
                bytes: 840 * random.random_range(1..=3),
                start_s: 280.0 / unit * f64::from(random.random_range(0..=3)),
            })
            .collect();
        assert_agrees(&capacities, &transfers, &format!("seed {seed}"));
    }
}

/// The same traffic at 1e-6 and 1e6 times the bandwidth: from microseconds to days.
#[test]
fn agreement_does_not_depend_on_the_time_scale() {
    for scale in [1e-6, 1e-3, 1.0, 1e3, 1e6] {
        let topology = nodes(2, 100e9 * scale, 25e9 * scale);
        let random = &mut ChaCha8Rng::seed_from_u64(8);
        let transfers = all_to_all(&topology, |src, _| {
            (random.random_range(1 << 16..1 << 20), f64::from(src % 3) * 1e-5 / scale)
        });
        assert_agrees(&topology.capacities(), &transfers, &format!("scale {scale}"));
    }
}

/// A transfer keeps three links busy for an hour while short ones come and go: clocks that have run to
/// 1e14 bytes must still time 50 KB. Agreement holds for the duration of the short ones as well, as far as
/// a double can tell times apart at one hour (5e-13 s).
#[test]
fn short_transfers_at_the_end_of_a_long_one() {
    let capacities = [40e9, 50e9, 100e9];
    let random = &mut ChaCha8Rng::seed_from_u64(5);
    let mut transfers =
        vec![Transfer { links: links([0, 1, 2]).to_vec(), bytes: 144_000_000_000_000, start_s: 0.0 }];
    for _ in 0..300 {
        let start_s = random.random_range(0.0..3600.0f64).floor() + random.random_range(0.0..5e-6);
        let bytes = random.random_range(50_000..500_000);
        transfers.push(Transfer { links: random_route(random, 3), bytes, start_s });
    }
    assert_agrees(&capacities, &transfers, "finish times");
    let expected = oracle::finish_times(&capacities, &transfers);
    let found = play(&capacities, &transfers).finish_s;
    for ((found, expected), transfer) in found.iter().zip(&expected).zip(&transfers) {
        let duration_s = expected - transfer.start_s;
        assert!((found - expected).abs() <= 1e-9 * duration_s + 4.0 * 3600.0 * f64::EPSILON);
    }
}

/// Flows come and go, by end or by removal; after each change every rate is compared, not only ends.
#[test]
fn every_rate_after_every_change() {
    for seed in 0..60 {
        let random = &mut ChaCha8Rng::seed_from_u64(seed);
        let link_count = random.random_range(2..=10);
        let capacities: Vec<f64> = (0..link_count).map(|_| log_uniform(random, 1e6, 1e11)).collect();
        let mut network = Network::new(&capacities);
        let mut flows: Vec<(FlowId, Vec<LinkId>)> = Vec::new();
        let mut ended = Vec::new();
        for _ in 0..80 {
            match random.random_range(0..10) {
                0 if !flows.is_empty() => {
                    let (flow, _) = flows.swap_remove(random.random_range(0..flows.len()));
                    network.remove(flow);
                }
                1..4 if !flows.is_empty() => {
                    let step_s = network.next_in_s();
                    network.advance(step_s);
                    network.take_ended(&mut ended);
                    assert!(!ended.is_empty(), "stepping to the next end ends a flow");
                    flows.retain(|(flow, _)| !ended.contains(flow));
                    ended.clear();
                }
                _ => {
                    let route = random_route(random, link_count);
                    let bytes = log_uniform(random, 1.0, 1e12).round() as u64;
                    flows.push((network.add(&route, bytes), route));
                }
            }
            assert_eq!(network.active(), flows.len());
            let routes: Vec<&[LinkId]> = flows.iter().map(|(_, route)| &route[..]).collect();
            for ((flow, _), expected) in flows.iter().zip(oracle::rates(&capacities, &routes)) {
                assert_close(network.rate(*flow), expected);
            }
        }
    }
}
