//! A filling after few changes: the last one, repaired from the lowest link that they concern.
//!
//! Links are fixed again in the order of the last filling. It is nearly right: levels change by little, so links change
//! places with their neighbours only. Every flow is bottlenecked at the first of its links in the order, so the share of
//! a link whose turn it is is what the links before it have left for the flows that are its own; no flow need be looked
//! at. A link that turns out to be lower than some that were fixed before it moves down. Where flows cross it and one of
//! these, what was fixed in between is undone first, and it takes over these flows; where none do, neither of the two
//! would have noticed the other, and nothing is undone. Whatever the order is at the end, levels ascend in it and no
//! link carries more than it can: that is progressive filling.

use super::TIE;
use super::bundle::Bundles;
use super::clock::Clocks;
use super::fill::{FAR, Filling, NOWHERE};

impl Filling {
    /// Repairs the last filling; `false` if its order is of so little use that it is better to start from the bottom, or so
    /// wrong that digits are lost.
    pub(super) fn repair(&mut self, clocks: &mut Clocks, bundles: &mut Bundles) -> bool {
        self.is_blurred = false;
        let start = (self.restart as usize).min(self.order.len());
        self.drop_empty(start, clocks);
        let marked = self.marks.restore(self.order.len(), &mut self.left);
        match marked {
            0 => self.touched.put_back(&mut self.left, &self.capacities),
            _ => self.touched.add_all(),
        }
        for at in marked..start {
            self.offer_mark(at);
            self.push(self.order[at], bundles);
        }
        let mut lowest = start;
        let mut at = start;
        // What the steps of a good order need, several times over.
        let mut patience = 8 * (self.order.len() - start) + 64;
        loop {
            while at < self.order.len() {
                if patience == 0 || self.is_blurred {
                    return false;
                }
                patience -= 1;
                self.offer_mark(at);
                at = self.step(at, &mut lowest, clocks, bundles);
            }
            let overfull = self.overfull().or_else(|| {
                let growth = self.commit(lowest, clocks);
                lowest = self.order.len();
                self.wake_all(growth, bundles);
                self.overfull()
            });
            let Some(link) = overfull else { break };
            self.idle.retain(|&idle| idle != link);
            self.order.push(link);
            at = self.descend(self.order.len() - 1, clocks, bundles);
            lowest = lowest.min(at);
        }
        self.deactivate(bundles);
        true
    }

    /// Makes a mark if one is due at this position, unless so little has been taken that doing it again is faster than copies.
    fn offer_mark(&mut self, at: usize) {
        if self.touched.are_all {
            self.marks.offer(at, &self.left);
        }
    }

    /// Fixes the next link, or finds that others must be fixed again. Returns where to go on.
    fn step(&mut self, at: usize, lowest: &mut usize, clocks: &mut Clocks, bundles: &mut Bundles) -> usize {
        let mut share = self.share(self.order[at], clocks);
        if let Some(&next) = self.order.get(at + 1)
            && self.is_lower(next, self.order[at], share, clocks, bundles)
        {
            self.rotate(at, at + 1, clocks, bundles);
            share = self.share(next, clocks);
        }
        let link = self.order[at];
        let floor = self.level_below(at);
        if share == f64::INFINITY {
            if self.is_overfull(link) {
                let to = self.descend(at, clocks, bundles);
                *lowest = to.min(*lowest);
                return to;
            }
            self.has_dead = true;
            self.levels[link as usize] = floor;
            return at + 1;
        }
        let mut to = at;
        if share < floor * (1.0 - TIE) {
            let mut shared = None;
            while to > 0 && self.level_below(to) > share * (1.0 + TIE) {
                to -= 1;
                if bundles.is_shared(self.order[to], link) {
                    shared = Some(to);
                }
            }
            *lowest = to.min(*lowest);
            if let Some(to) = shared {
                self.undo(to, at, bundles);
                self.rotate(to, at, clocks, bundles);
                return to;
            }
            self.rotate(to, at, clocks, bundles);
        }
        // Rounding must not let a level sink below those fixed before.
        self.levels[link as usize] = share.max(self.level_below(to));
        self.push(link, bundles);
        at + 1
    }

    /// Whether a link would be lower than the one before it, of this share, if it took over their common flows.
    fn is_lower(&self, link: u32, before: u32, share: f64, clocks: &Clocks, bundles: &Bundles) -> bool {
        let (left, own) = (self.left[link as usize], f64::from(clocks.count(link)));
        let limit = share * (1.0 - TIE);
        // Their common flows are looked up only where the old level makes it likely that they matter. If it was wrong,
        // the link is found out of order when it is its turn.
        let is_likely = share > self.levels[link as usize];
        left < limit * own || is_likely && left < limit * (own + bundles.flows(before, link))
    }

    /// Share that each flow of its own would get at a link whose turn it is; no bound without any.
    fn share(&self, link: u32, clocks: &Clocks) -> f64 {
        let own = clocks.count(link);
        if own == 0 { f64::INFINITY } else { self.left[link as usize] / f64::from(own) }
    }

    /// The level of the link before a position; 0 at the bottom.
    pub(super) fn level_below(&self, position: usize) -> f64 {
        position.checked_sub(1).map_or(0.0, |below| self.levels[self.order[below] as usize])
    }

    /// Whether more moves over a link without flows of its own than it can carry.
    fn is_overfull(&self, link: u32) -> bool {
        self.left[link as usize] < -TIE * self.capacities[link as usize]
    }

    fn overfull(&self) -> Option<u32> {
        self.idle.iter().copied().find(|&link| self.is_overfull(link))
    }

    /// Moves an overfull link down to where it still had room for all flows that are above.
    fn descend(&mut self, from: usize, clocks: &mut Clocks, bundles: &mut Bundles) -> usize {
        let link = self.order[from];
        let mut to = from;
        let mut open = 0.0;
        while to > 0 && (open == 0.0 || self.left[link as usize] < open * self.level_below(to)) {
            open += bundles.flows(self.order[to - 1], link);
            self.undo(to - 1, to, bundles);
            to -= 1;
        }
        self.rotate(to, from, clocks, bundles);
        to
    }

    /// Moves the link at position `from` down to `to`. Flows that cross it and a link that is behind it now are its own
    /// from now on.
    pub(super) fn rotate(&mut self, to: usize, from: usize, clocks: &mut Clocks, bundles: &mut Bundles) {
        self.marks.truncate(to);
        let link = self.order[from];
        for &behind in &self.order[to..from] {
            bundles.collect_shared(behind, link, &mut self.switching);
        }
        if !self.switching.is_empty() {
            self.switch_to(link, clocks, bundles);
        }
        self.order[to..=from].rotate_right(1);
        for position in to..=from {
            self.position[self.order[position] as usize] = position as u32;
        }
    }

    /// Takes the rates of a link's own flows from the others that they cross.
    fn push(&mut self, link: u32, bundles: &Bundles) {
        let (level, left) = (self.levels[link as usize], &mut self.left[..]);
        let list = bundles.outgoing(link);
        self.touched.add(list, left.len());
        list.for_each(|other, flows| left[other as usize] -= level * flows);
        self.work.touches += list.len() as u64;
    }

    /// Undoes the pushes of the links at positions `from..to`.
    fn undo(&mut self, from: usize, to: usize, bundles: &Bundles) {
        for &link in self.order[from..to].iter().rev() {
            let (level, left) = (self.levels[link as usize], &mut self.left[..]);
            let list = bundles.outgoing(link);
            self.touched.add(list, left.len());
            // A level far above a link's capacity takes the digits of the capacity with it.
            if level > FAR * self.slowest {
                let capacities = &self.capacities;
                let is_blurred = &mut self.is_blurred;
                list.for_each(|other, _| {
                    *is_blurred |= left[other as usize] < -FAR * capacities[other as usize];
                });
            }
            list.for_each(|other, flows| left[other as usize] += level * flows);
            self.work.touches += list.len() as u64;
        }
    }

    /// Takes links without flows of their own out of the order, from a position on.
    fn drop_empty(&mut self, from: usize, clocks: &Clocks) {
        if !std::mem::take(&mut self.has_dead) {
            return;
        }
        let mut kept = from;
        for index in from..self.order.len() {
            let link = self.order[index];
            if clocks.count(link) == 0 {
                self.position[link as usize] = NOWHERE;
                self.idle.push(link);
            } else {
                self.position[link as usize] = kept as u32;
                self.order[kept] = link;
                kept += 1;
            }
        }
        self.order.truncate(kept);
    }
}
