//! Link usage, against a plain sum over flows.

use crate::oracle;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zipwire_cluster::{LinkId, Topology};
use zipwire_schedule::Rank;
use zipwire_sim::{FlowId, Network};

/// Bytes per second over each link, flow by flow, at the rates of textbook filling.
fn summed(capacities: &[f64], routes: &[&[LinkId]]) -> Vec<f64> {
    let mut rates = vec![0.0; capacities.len()];
    for (route, rate) in routes.iter().zip(oracle::rates(capacities, routes)) {
        route.iter().for_each(|link| rates[link.index()] += rate);
    }
    rates
}

/// All pairs of unequal sizes on two levels, some links slower than the others, flow by flow to the last end.
#[test]
fn usage_is_the_sum_of_the_rates_of_the_flows() {
    for seed in 0..8 {
        let random = &mut ChaCha8Rng::seed_from_u64(seed);
        let topology = Topology {
            nodes: 3,
            gpus_per_node: 4,
            nics_per_node: random.random_range(1..=4),
            gpu_bandwidth: random.random_range(1e9..50e9),
            nic_bandwidth: random.random_range(1e9..50e9),
            latency_intra_s: 0.0,
            latency_inter_s: 0.0,
            fabric: zipwire_cluster::Fabric::Nodes,
            nodes_per_domain: 1,
            link_bandwidths: [(LinkId(3), 0.7e9), (LinkId(24), 0.3e9)].into(),
        };
        let capacities = topology.capacities();
        let mut network = Network::new(&capacities);
        let pairs =
            (0..12).flat_map(|src| (0..12).map(move |dst| (src, dst))).filter(|(src, dst)| src != dst);
        let mut flows: Vec<(FlowId, Vec<LinkId>)> = pairs
            .map(|(src, dst)| {
                let route = topology.route(Rank(src), Rank(dst)).links().to_vec();
                (network.add(&route, random.random_range(1..1 << 24)), route)
            })
            .collect();
        let (mut usage, mut ended) = (Vec::new(), Vec::new());
        while !flows.is_empty() {
            network.usage(&mut usage);
            let routes: Vec<&[LinkId]> = flows.iter().map(|(_, route)| &route[..]).collect();
            for ((found, expected), capacity) in
                usage.iter().zip(summed(&capacities, &routes)).zip(&capacities)
            {
                assert!((found - expected).abs() <= 1e-9 * capacity, "seed {seed}: {found} {expected}");
            }
            let step_s = network.next_in_s();
            network.advance(step_s);
            network.take_ended(&mut ended);
            flows.retain(|(flow, _)| !ended.contains(flow));
            ended.clear();
        }
        network.usage(&mut usage);
        assert!(usage.iter().all(|&rate| rate == 0.0), "nothing moves at the end");
    }
}
