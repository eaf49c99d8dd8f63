//! Broadcasts.

use super::Call;
use super::lockstep::Lockstep;
use super::network::{Flow, Load};
use crate::{Algorithm, Rank};

impl Call<'_> {
    /// Seconds of a broadcast of so many raw bytes.
    pub(super) fn broadcast(&self, bytes: u64, root: Rank) -> f64 {
        match self.way.algorithm {
            Algorithm::Direct => self.steps(1, false, self.root_to_all(root, self.wire(bytes as f64))),
            Algorithm::Ring => self.chains(bytes, root),
            _ => self.binomial(self.wire(bytes as f64), root),
        }
    }

    /// So many bytes from the root to every other rank.
    pub(super) fn root_to_all(&self, root: Rank, bytes: f64) -> Load {
        let receivers = (0..self.ranks()).map(Rank).filter(|&dst| dst != root);
        self.network.load(receivers.map(|dst| Flow { src: root, dst, bytes }))
    }

    /// Steps of ranks that wait for their peers only; those of one kernel have one launch.
    fn lockstep(&self, is_kernel: bool, steps: impl Iterator<Item = Vec<Flow>>) -> f64 {
        let (stages, launch_s) = (self.stages(), self.costs.host.launch_s);
        let (once_s, each_s) = if is_kernel { (stages * launch_s, 0.0) } else { (0.0, stages * launch_s) };
        let mut lockstep = Lockstep::new(self.network, once_s);
        steps.for_each(|flows| lockstep.step(flows.into_iter(), stages, each_s));
        lockstep.seconds()
    }

    /// Slices that follow one another from the root on, on each channel.
    fn chains(&self, bytes: u64, root: Rank) -> f64 {
        let (ranks, orders, slices) = (self.ranks(), self.rings(), self.way.slices);
        let parts = self.parts(bytes, slices);
        let roots: Vec<u32> = orders.iter().map(|order| order.position(root, ranks)).collect();
        let step = |tick: u32| {
            let mut flows = Vec::new();
            // A slice is as many steps behind the first one as it is nearer to the root.
            for slice in (tick + 2).saturating_sub(ranks)..slices.min(tick + 1) {
                for ((order, first), channel) in orders.iter().zip(&roots).zip(0..) {
                    let at = |distance: u32| order.rank((first + distance) % ranks, ranks);
                    let (src, dst) = (at(tick - slice), at(tick - slice + 1));
                    flows.push(Flow { src, dst, bytes: self.wire(parts[slice as usize][channel]) });
                }
            }
            flows
        };
        self.lockstep(!self.choice.protocol.is_coded(), (0..slices + ranks - 2).map(step))
    }

    /// Along a binomial tree, the longest ways first.
    fn binomial(&self, bytes: f64, root: Rank) -> f64 {
        let ranks = self.ranks();
        let rounds = ranks.next_power_of_two().ilog2();
        let at = |distance: u32| Rank((root.0 + distance) % ranks);
        let round = |round: u32| {
            let stride = 1 << (rounds - 1 - round);
            let senders = (0..ranks).step_by(2 * stride as usize).filter(|d| d + stride < ranks);
            senders.map(|d| Flow { src: at(d), dst: at(d + stride), bytes }).collect()
        };
        self.lockstep(false, (0..rounds).map(round))
    }
}
