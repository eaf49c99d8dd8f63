//! Broadcasts.

use super::{Call, Flow, Load, Lockstep};
use crate::rank_order::Members;
use crate::{Algorithm, Rank};

impl Call<'_> {
    pub(super) fn broadcast(&self, bytes: u64, members: Members) -> f64 {
        match self.way.algorithm {
            _ if members.count() == 1 => 0.0,
            Algorithm::Library => self.call_s(self.wire(bytes as f64), 1),
            Algorithm::Direct => self.steps(1, false, self.root_to_all(members, self.wire(bytes as f64))),
            Algorithm::Ring => self.chains(bytes, members),
            _ => self.binomial(self.wire(bytes as f64), members),
        }
    }

    pub(super) fn root_to_all(&self, members: Members, bytes: f64) -> Load {
        let src = members.at(0);
        self.network.load(members.receivers().map(|dst| Flow { src, dst, bytes }))
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
    fn chains(&self, bytes: u64, members: Members) -> f64 {
        let (count, slices) = (members.count(), self.way.slices);
        let parts = self.parts(bytes, slices);
        let chains: Vec<Vec<Rank>> =
            self.rings().into_iter().map(|order| members.chain(order, self.ranks())).collect();
        let step = |tick: u32| {
            let mut flows = Vec::new();
            // A slice is as many steps behind the first one as it is nearer to the root.
            for slice in (tick + 2).saturating_sub(count)..slices.min(tick + 1) {
                for (chain, channel) in chains.iter().zip(0..) {
                    let distance = (tick - slice) as usize;
                    let (src, dst) = (chain[distance], chain[distance + 1]);
                    flows.push(Flow { src, dst, bytes: self.wire(parts[slice as usize][channel]) });
                }
            }
            flows
        };
        self.lockstep(!self.choice.protocol.is_coded(), (0..slices + count - 2).map(step))
    }

    /// Along a binomial tree, the longest ways first.
    fn binomial(&self, bytes: f64, members: Members) -> f64 {
        let count = members.count();
        let rounds = count.next_power_of_two().ilog2();
        let round = |round: u32| {
            let stride = 1 << (rounds - 1 - round);
            let senders = (0..count).step_by(2 * stride as usize).filter(|d| d + stride < count);
            senders.map(|d| Flow { src: members.at(d), dst: members.at(d + stride), bytes }).collect()
        };
        self.lockstep(false, (0..rounds).map(round))
    }
}
