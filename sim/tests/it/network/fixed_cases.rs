//! Fixed cases with their inequalities. `a`, `b`, ... are the rates of the flows in the order of the list, C0, C1, ...
//! capacities.

use zipwire_cluster::{LinkId, Topology};
use zipwire_schedule::Rank;
use zipwire_sim::Network;

use crate::network::play::{links, nodes, play};
use crate::oracle::Transfer;

/// Adds one flow of 100 bytes per route and returns the rates.
fn rates<const N: usize>(capacities: &[f64], routes: [&[u32]; N]) -> [f64; N] {
    let mut network = Network::new(capacities);
    let flows = routes.map(|route| {
        let route: Vec<LinkId> = route.iter().copied().map(LinkId).collect();
        network.add(&route, 100)
    });
    flows.map(|flow| network.rate(flow))
}

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
