//! The network against closed forms, fixed cases with their inequalities, and the oracle.

mod activities;
mod against_oracle;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zipwire_cluster::{LinkId, NetworkModel, Topology};
use zipwire_schedule::Rank;
use zipwire_sim::{FlowId, Network};

use crate::common::{self, assert_close};
use crate::oracle::Transfer;

pub(crate) struct Run {
    pub(crate) finish_s: Vec<f64>,
    /// Moments at which transfers ended.
    pub(crate) ends: usize,
}

/// Plays transfers on a network, stepping by differences of absolute times as a simulator does.
pub(crate) fn play(capacities: &[f64], transfers: &[Transfer]) -> Run {
    let mut network = Network::new(capacities);
    let mut run = Run { finish_s: vec![f64::NAN; transfers.len()], ends: 0 };
    let mut waiting: Vec<usize> = (0..transfers.len()).collect();
    waiting.sort_by(|&a, &b| transfers[b].start_s.total_cmp(&transfers[a].start_s));
    let mut owner = Vec::new();
    let mut ended = Vec::new();
    let mut now_s = 0.0;
    loop {
        let start_s = waiting.last().map_or(f64::INFINITY, |&i| transfers[i].start_s);
        let next_s = start_s.min(now_s + network.next_in_s());
        if next_s.is_infinite() {
            break;
        }
        network.advance(next_s - now_s);
        now_s = next_s;
        network.take_ended(&mut ended);
        assert!(!ended.is_empty() || start_s == now_s, "nothing ends and nothing starts at {now_s} s");
        assert!(ended.is_sorted());
        run.ends += usize::from(!ended.is_empty());
        for flow in ended.drain(..) {
            let i: usize = owner[flow.index()];
            assert!(run.finish_s[i].is_nan(), "transfer {i} ends twice");
            run.finish_s[i] = now_s;
        }
        while let Some(i) = waiting.pop_if(|i| transfers[*i].start_s <= now_s) {
            let flow = network.add(&transfers[i].links, transfers[i].bytes);
            owner.resize(owner.len().max(flow.index() + 1), usize::MAX);
            owner[flow.index()] = i;
        }
    }
    assert_eq!(network.active(), 0);
    run
}

pub(crate) fn last(times: &[f64]) -> f64 {
    times.iter().copied().fold(0.0, f64::max)
}

pub(crate) fn links<const N: usize>(ids: [u32; N]) -> [LinkId; N] {
    ids.map(LinkId)
}

pub(crate) fn flat(ranks: u32, bandwidth: f64) -> Topology {
    common::flat(ranks, bandwidth, 5e-6)
}

/// Nodes of 8 GPUs with one NIC each.
pub(crate) fn nodes(nodes: u32, gpu_bandwidth: f64, nic_bandwidth: f64) -> Topology {
    common::nodes(nodes, 8, [gpu_bandwidth, nic_bandwidth], [5e-6, 2e-5])
}

/// One transfer per ordered pair of ranks; `size` gives its bytes and when its ends are ready.
pub(crate) fn all_to_all(topology: &Topology, mut size: impl FnMut(u32, u32) -> (u64, f64)) -> Vec<Transfer> {
    let pairs = (0..topology.ranks()).flat_map(|src| (0..topology.ranks()).map(move |dst| (src, dst)));
    let pairs = pairs.filter(|(src, dst)| src != dst);
    let transfers = pairs.map(|(src, dst)| {
        let route = topology.route(Rank(src), Rank(dst));
        let (bytes, ready_s) = size(src, dst);
        Transfer { links: route.links().to_vec(), bytes, start_s: ready_s + route.latency_s }
    });
    transfers.collect()
}

/// Adds one flow of 100 bytes per route and returns the rates.
fn rates<const N: usize>(capacities: &[f64], routes: [&[u32]; N]) -> [f64; N] {
    let mut network = Network::new(capacities);
    let flows = routes.map(|route| {
        let route: Vec<LinkId> = route.iter().copied().map(LinkId).collect();
        network.add(&route, 100)
    });
    flows.map(|flow| network.rate(flow))
}

// Fixed cases with their inequalities: a, b, ... are the rates of the flows in the order of the list, C0, C1, ... capacities.

/// a + b <= C0: a = b = C0 / 2.
#[test]
fn flows_share_a_link_equally() {
    assert_eq!(rates(&[8.0], [&[0], &[0]]), [4.0, 4.0]);
}

/// a <= C0 and a <= C1: a = min(C0, C1).
#[test]
fn a_chain_is_as_fast_as_its_slowest_link() {
    assert_eq!(rates(&[3.0, 5.0], [&[0, 1]]), [3.0]);
    assert_eq!(rates(&[5.0, 3.0], [&[0, 1]]), [3.0]);
}

/// a + b <= C0, a + c <= C1.
/// C = 1, 10: link 0 is the bottleneck of a = b = 1/2, and c takes the rest, 10 - 1/2.
/// C = 1, 1: both links are full, a = b = c = 1/2.
#[test]
fn a_line_of_two_links_and_three_flows() {
    assert_eq!(rates(&[1.0, 10.0], [&[0, 1], &[0], &[1]]), [0.5, 0.5, 9.5]);
    assert_eq!(rates(&[1.0, 1.0], [&[0, 1], &[0], &[1]]), [0.5, 0.5, 0.5]);
}

/// a + b + c <= C0, b + d <= C1, c + d + e <= C2 with C = 12, 3, 9.
/// Shares 4, 3/2, 3: link 1 first, b = d = 3/2. Then a + c <= 10.5, c + e <= 7.5: link 2, c = e = 3.75.
/// Then a = 10.5 - 3.75 = 6.75.
#[test]
fn levels_rise_one_link_at_a_time() {
    let found = rates(&[12.0, 3.0, 9.0], [&[0], &[0, 1], &[0, 2], &[1, 2], &[2]]);
    assert_eq!(found, [6.75, 1.5, 3.75, 1.5, 3.75]);
}

/// a + b + c <= C0 = 3 with b <= C1 = 1 and c <= C2 = 1: all links are full at the same level, 1.
#[test]
fn links_that_fill_at_one_level_agree() {
    assert_eq!(rates(&[3.0, 1.0, 1.0], [&[0], &[0, 1], &[0, 2]]), [1.0, 1.0, 1.0]);
}

/// a <= C0 = 0.1, b <= C1 = 0.1, a + b + c <= C2 = 0.3: all links are full at 0.1, but neither 0.3 / 3 nor
/// 0.3 - 0.1 - 0.1 is 0.1 in binary. Levels that rounding parts are one level.
#[test]
fn rounding_does_not_part_equal_levels() {
    assert_eq!(rates(&[0.1, 0.1, 0.3], [&[0, 2], &[1, 2], &[2]]), [0.1, 0.1, 0.1]);
}

/// a <= C0 = 1e15 for 1000 s, then a + b <= C0 and b <= C1 = 1: b = 1 for its 3 bytes. The clock of link 0
/// reads 1e18 by then, where a double has lost 3 bytes: they must not pass through it.
#[test]
fn a_fast_link_does_not_blur_a_slow_flow() {
    for route in [[0, 1], [1, 0]] {
        let mut network = Network::new(&[1e15, 1.0]);
        network.add(&links([0]), 2_000_000_000_000_000_000);
        network.next_in_s();
        network.advance(1000.0);
        network.add(&links(route), 3);
        assert_eq!(network.next_in_s(), 3.0);
    }
}

/// The same, where a flow of link 1 has come and gone before anything moved: that link is known, but has nothing of its own.
#[test]
fn a_fast_link_does_not_blur_a_slow_flow_over_a_link_without_flows() {
    let mut network = Network::new(&[1e15, 1.0]);
    network.add(&links([0]), 2_000_000_000_000_000_000);
    network.next_in_s();
    let short = network.add(&links([1]), 3);
    network.remove(short);
    network.next_in_s();
    network.advance(1000.0);
    network.add(&links([0, 1]), 3);
    assert_eq!(network.next_in_s(), 3.0);
}

/// a <= C0 = 0.9 and a <= C2 = 1, b <= C1 = 1e15. Then c <= C1, and a + c <= C2 takes a from link 0 before levels are known;
/// a goes at the same moment, and c has all of link 2.
#[test]
fn a_flow_may_go_at_the_moment_that_moves_it_to_another_bottleneck() {
    let mut network = Network::new(&[0.9, 1e15, 1.0, 1.0]);
    let a = network.add(&links([0, 2]), 1 << 40);
    network.add(&links([1]), 1 << 60);
    network.next_in_s();
    let c = network.add(&links([1, 2]), 3);
    network.remove(a);
    assert_eq!(network.rate(c), 1.0);
    assert_eq!(network.next_in_s(), 3.0);
}

/// a <= C0 = 1e15 comes and goes, then b <= C0 and b <= C1 = 0.1. For a moment link 0 promises b so much that nothing of 0.1
/// is left in the digits of what link 1 would have: b = 0.1 all the same.
#[test]
fn a_fast_link_does_not_blur_what_a_slow_one_has_left() {
    let mut network = Network::new(&[1e15, 0.1]);
    let a = network.add(&links([0]), 100);
    network.next_in_s();
    network.remove(a);
    network.next_in_s();
    let b = network.add(&links([0, 1]), 100);
    assert_eq!(network.rate(b), 0.1);
}

/// 2 nodes of 2 GPUs with one NIC, NIC up = 1, GPU up = 4. GPU 0 sends one flow within its node and one to
/// each GPU of the other node, GPU 1 the same.
/// NIC: 4 flows <= 1, each 1/4. GPU up: inner + 2/4 <= 4, so inner = 3.5; each GPU down of node 0 has one.
#[test]
fn two_levels() {
    let topology = Topology { nodes: 2, gpus_per_node: 2, ..nodes(2, 4.0, 1.0) };
    let mut network = Network::new(&topology.capacities());
    let mut add = |src, dst| network.add(topology.route(Rank(src), Rank(dst)).links(), 100);
    let inner = [add(0, 1), add(1, 0)];
    let outer = [add(0, 2), add(0, 3), add(1, 2), add(1, 3)];
    assert!(inner.iter().all(|&flow| network.rate(flow) == 3.5));
    assert!(outer.iter().all(|&flow| network.rate(flow) == 0.25));
}

/// a + b <= C0 = 2: a ends after 100 s of rate 1, then b has 200 left at rate 2, after its removal nothing.
#[test]
fn rates_follow_ends_and_removals() {
    let mut network = Network::new(&[2.0]);
    let a = network.add(&links([0]), 100);
    let b = network.add(&links([0]), 300);
    let mut ended = Vec::new();
    network.advance(60.0);
    network.take_ended(&mut ended);
    assert_eq!((ended.len(), network.next_in_s()), (0, 40.0));
    network.advance(40.0);
    network.take_ended(&mut ended);
    assert_eq!((&ended[..], network.active()), (&[a][..], 1));
    assert_eq!((network.rate(b), network.next_in_s()), (2.0, 100.0));
    network.remove(b);
    assert_eq!((network.active(), network.next_in_s()), (0, f64::INFINITY));
    network.advance(1e6);
    assert_eq!(network.add(&links([0]), 10).index(), b.index());
    assert_eq!(network.next_in_s(), 5.0);
}

/// Equal flows on links that differ by 5e-13 end together, on links that differ by 1e-10 they do not.
#[test]
fn ties_end_together() {
    for (apart, ends) in [(5e-13, 1), (1e-10, 2)] {
        let flow = |link| Transfer { links: vec![LinkId(link)], bytes: 1_000_000, start_s: 0.0 };
        assert_eq!(play(&[1e9, 1e9 * (1.0 - apart)], &[flow(0), flow(1)]).ends, ends);
    }
}

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
