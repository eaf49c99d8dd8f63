//! Flows that share links, max-min fairly, as in the simulator; flows that end nearly together end in one event.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use zipwire_cluster::Route;

/// A flow over the links of a route.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moving {
    pub(super) route: Route,
    pub(super) bytes: f64,
}

/// Ends that are nearer to one another than this part of the time that has passed are one event, and so are begins.
const TIE: f64 = 2e-3;

/// Flows that move or wait for their time, over links of given capacities, in bytes per second.
pub(super) struct Sharing<'a> {
    flows: &'a [Moving],
    capacities: &'a [f64],
    /// Flows that are to begin, the next one on top: the bits of the time of their first byte, which order as times do.
    begins: BinaryHeap<Reverse<(u64, usize)>>,
    active: Vec<usize>,
    /// Bytes and bytes per second, by flow.
    left: Vec<f64>,
    rates: Vec<f64>,
    /// Links that flows cross.
    links: Vec<usize>,
    /// Capacity that is left, and active flows, by link.
    free: Vec<f64>,
    crossing: Vec<Vec<usize>>,
    open: Vec<u32>,
}

impl<'a> Sharing<'a> {
    pub(super) fn new(flows: &'a [Moving], capacities: &'a [f64]) -> Self {
        let mut links: Vec<usize> =
            flows.iter().flat_map(|flow| flow.route.links()).map(|link| link.index()).collect();
        links.sort_unstable();
        links.dedup();
        Self {
            flows,
            capacities,
            begins: BinaryHeap::new(),
            active: Vec::new(),
            left: flows.iter().map(|flow| flow.bytes).collect(),
            rates: vec![0.0; flows.len()],
            links,
            free: capacities.to_vec(),
            crossing: vec![Vec::new(); capacities.len()],
            open: vec![0; capacities.len()],
        }
    }

    /// Lets a flow begin at a time, in seconds from 0 on.
    pub(super) fn begin(&mut self, flow: usize, begin_s: f64) {
        self.begins.push(Reverse((begin_s.to_bits(), flow)));
    }

    /// Lets time pass until no flow is left. `ended` is told which flows have ended, and when, and may let others begin.
    pub(super) fn run(&mut self, mut ended: impl FnMut(&mut Self, usize, f64)) {
        let Some(first_s) = self.next_begin_s() else { return };
        let (mut now_s, mut early) = (first_s, Vec::new());
        loop {
            let tie_s = TIE * (now_s - first_s);
            while let Some(Reverse((begin, flow))) = self.begins.peek().copied()
                && f64::from_bits(begin) <= now_s + tie_s
            {
                self.begins.pop();
                self.active.push(flow);
                early.push((flow, f64::from_bits(begin) - now_s));
            }
            let next_begin_s = self.next_begin_s();
            if self.active.is_empty() {
                match next_begin_s {
                    Some(begin_s) => now_s = begin_s,
                    None => return,
                }
                continue;
            }
            self.fill();
            // Who is let in before its time has so much more to move.
            early
                .drain(..)
                .for_each(|(flow, by_s): (usize, f64)| self.left[flow] += by_s.max(0.0) * self.rates[flow]);
            let next_s = self.active.iter().map(|&flow| self.left_s(flow)).fold(f64::INFINITY, f64::min);
            let passed_s = next_begin_s.map_or(next_s, |begin_s| next_s.min(begin_s - now_s));
            let over_s = passed_s + TIE * (now_s + passed_s - first_s);
            let active = std::mem::take(&mut self.active);
            let (over, still): (Vec<usize>, Vec<usize>) =
                active.into_iter().partition(|&flow| self.left_s(flow) <= over_s);
            still.iter().for_each(|&flow| self.left[flow] -= passed_s * self.rates[flow]);
            self.active = still;
            for flow in over {
                let end_s = now_s + self.left_s(flow);
                ended(self, flow, end_s);
            }
            now_s += passed_s;
        }
    }

    fn next_begin_s(&self) -> Option<f64> {
        self.begins.peek().map(|Reverse((begin, _))| f64::from_bits(*begin))
    }

    fn left_s(&self, flow: usize) -> f64 {
        self.left[flow] / self.rates[flow]
    }

    /// Rates of all active flows: the link that has least for each of its flows is filled first.
    fn fill(&mut self) {
        let Self { flows, capacities, active, rates, links, free, crossing, open, .. } = self;
        for &link in links.iter() {
            (free[link], open[link]) = (capacities[link], 0);
            crossing[link].clear();
        }
        for &flow in active.iter() {
            rates[flow] = -1.0;
            for link in flows[flow].route.links() {
                crossing[link.index()].push(flow);
                open[link.index()] += 1;
            }
        }
        loop {
            let level = |link: usize| free[link] / f64::from(open[link]);
            let filling = links.iter().copied().filter(|&link| open[link] > 0);
            let least = filling.min_by(|&a, &b| level(a).total_cmp(&level(b)));
            let Some(link) = least else { return };
            let rate = level(link).max(f64::MIN_POSITIVE);
            for &flow in &crossing[link] {
                if rates[flow] >= 0.0 {
                    continue;
                }
                rates[flow] = rate;
                for other in flows[flow].route.links() {
                    free[other.index()] -= rate;
                    open[other.index()] -= 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use zipwire_cluster::{Fabric, Rank, Topology};

    use super::*;

    /// Two flows out of one GPU, whose link carries 100 bytes per second, to GPUs of which one has a second sender a second later. Each
    /// link has two flows until the first one ends at 2 s; those that are left have 50 bytes left, or 100, and a link each.
    #[test]
    fn flows_share_links_until_they_end() {
        let topology = Topology {
            nodes: 1,
            gpus_per_node: 4,
            nics_per_node: 1,
            gpu_bandwidth: 100.0,
            nic_bandwidth: 100.0,
            latency_intra_s: 0.0,
            latency_inter_s: 0.0,
            fabric: Fabric::Nodes,
            nodes_per_domain: 1,
            link_bandwidths: BTreeMap::new(),
        };
        let moving = |src, dst, bytes| Moving { route: topology.route(Rank(src), Rank(dst)), bytes };
        let flows = [moving(0, 1, 100.0), moving(0, 2, 200.0), moving(3, 1, 100.0)];
        let capacities = topology.capacities();
        let mut sharing = Sharing::new(&flows, &capacities);
        [0.0, 0.0, 1.0].into_iter().enumerate().for_each(|(flow, begin_s)| sharing.begin(flow, begin_s));
        let mut ends_s = [0.0; 3];
        sharing.run(|_, flow, end_s| ends_s[flow] = end_s);
        for (found, expected) in ends_s.iter().zip([2.0, 3.0, 2.5]) {
            assert!((found - expected).abs() < 1e-9, "{found}, not {expected}");
        }
    }
}
