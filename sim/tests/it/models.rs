//! Cheaper network models against their definitions.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zipwire_cluster::{LinkId, NetworkModel};
use zipwire_sim::{FlowId, Network};

const AGREEMENT: f64 = 1e-12;

/// Rate of a flow over `route`, if all of `routes` are under way.
fn defined(model: NetworkModel, capacities: &[f64], routes: &[Vec<LinkId>], route: &[LinkId]) -> f64 {
    let users = |link| match model {
        NetworkModel::Ports => routes.iter().filter(|route| route.contains(&link)).count(),
        NetworkModel::AlphaBeta => 1,
        NetworkModel::MaxMin => panic!("not a cheaper model"),
    };
    let parts = route.iter().map(|&link| capacities[link.index()] / users(link) as f64);
    parts.fold(f64::INFINITY, f64::min)
}

#[test]
fn every_rate_after_every_change() {
    for seed in 0..60 {
        let rng = &mut ChaCha8Rng::seed_from_u64(seed);
        let model = if seed % 2 == 0 { NetworkModel::Ports } else { NetworkModel::AlphaBeta };
        let links = rng.random_range(1..12);
        let capacities: Vec<f64> = (0..links).map(|_| f64::from(rng.random_range(1..9))).collect();
        let mut network = Network::with_model(&capacities, model);
        let mut flows: Vec<(FlowId, Vec<LinkId>)> = Vec::new();
        for _ in 0..80 {
            for _ in 0..rng.random_range(1..4) {
                if flows.is_empty() || rng.random_bool(0.6) {
                    let mut route: Vec<LinkId> = (0..links).map(LinkId).collect();
                    route.retain(|_| rng.random_bool(0.4));
                    route.truncate(Network::MAX_HOPS);
                    if !route.is_empty() {
                        flows.push((network.add(&route, 1 << 40), route));
                    }
                } else {
                    let (flow, _) = flows.swap_remove(rng.random_range(0..flows.len()));
                    network.remove(flow);
                }
            }
            let routes: Vec<_> = flows.iter().map(|(_, route)| route.clone()).collect();
            for (flow, route) in &flows {
                let expected = defined(model, &capacities, &routes, route);
                let rate = network.rate(*flow);
                assert!((rate / expected - 1.0).abs() < AGREEMENT, "{seed}: {rate}, expected {expected}");
            }
        }
    }
}

/// Two flows share link 0, 6 bytes per second, and one of them is held back by link 1, 1 byte per second: the other gets 5
/// under max-min, its own 3 with ports, all 6 alone.
#[test]
fn what_a_flow_leaves_unused() {
    let rate = |model| {
        let mut network = Network::with_model(&[6.0, 1.0], model);
        network.add(&[LinkId(0), LinkId(1)], 1 << 40);
        let free = network.add(&[LinkId(0)], 1 << 40);
        network.rate(free)
    };
    assert_eq!(NetworkModel::ALL.map(rate), [5.0, 3.0, 6.0]);
}

/// 120 and 60 bytes over one link of 10 bytes per second: 60 bytes end at 12 s, and the rest goes on at full speed to
/// 18 s; alone they take 12 s and 6 s.
#[test]
fn time_passes_at_the_rates() {
    let ends = |model| {
        let mut network = Network::with_model(&[10.0], model);
        network.add(&[LinkId(0)], 120);
        network.add(&[LinkId(0)], 60);
        let mut now_s = 0.0;
        let mut ends = Vec::new();
        let mut ended = Vec::new();
        while network.active() > 0 {
            let seconds = network.next_in_s();
            network.advance(seconds);
            now_s += seconds;
            ended.clear();
            network.take_ended(&mut ended);
            ends.extend(ended.iter().map(|_| now_s));
        }
        ends
    };
    assert_eq!(ends(NetworkModel::Ports), [12.0, 18.0]);
    assert_eq!(ends(NetworkModel::AlphaBeta), [6.0, 12.0]);
}
