//! Networks, transfers on them, and when these end.

use zipwire_cluster::{LinkId, Topology};
use zipwire_schedule::Rank;
use zipwire_sim::Network;

use crate::common;
use crate::oracle::Transfer;

/// Outcome of a list of transfers.
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
