//! Links that are far from full sleep: fillings push nothing to them, because nothing that they could find there
//! would matter.
//!
//! A sleeper has room for so much: its flows could grow by a factor before it is full. No flow has grown by more
//! than the product of the largest factors by which any level has risen in each filling since; while that product
//! is less than the room, the link cannot be a bottleneck. Beyond, the rates of its flows are summed up again.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::bundle::Bundles;
use super::clock::Clocks;
use super::fill::{Filling, NOWHERE};
use crate::queue::Ordered;

/// A link is put to sleep if its flows could grow by this factor.
const ROOM: f64 = 1.5;
/// A sleeper that is looked at stays asleep if its flows could grow by this factor.
const LEAST_ROOM: f64 = 1.1;
/// Fillings between two looks at who could sleep.
const LOOK: u64 = 32;
/// Where the product of factors starts again from 1, long before it overflows.
const MOST_GROWTH: f64 = 1e100;

/// Links that sleep, and until when.
pub(super) struct Sleepers {
    /// The product of factors at which each sleeper must be looked at, the lowest first; stale where `wake_at` says another one, or the link is awake.
    queue: BinaryHeap<Reverse<(Ordered, u32)>>,
    wake_at: Vec<f64>,
    /// Numbers by which sleepers have gone to sleep: in this order they are looked at.
    bedtime: Vec<u64>,
    bedtimes: u64,
    /// Product of the factors so far.
    growth: f64,
    /// Sleepers that have got flows.
    disturbed: Vec<u32>,
    /// Flows that have another bottleneck now, and the level of the old one.
    switched: Vec<(u32, f64)>,
    /// Scratch space.
    due: Vec<u32>,
}

impl Sleepers {
    pub(super) fn new(links: usize) -> Self {
        Self {
            queue: BinaryHeap::new(),
            wake_at: vec![0.0; links],
            bedtime: vec![0; links],
            bedtimes: 0,
            growth: 1.0,
            disturbed: Vec::new(),
            switched: Vec::new(),
            due: Vec::new(),
        }
    }

    /// A sleeper has got a flow.
    pub(super) fn disturb(&mut self, link: u32) {
        self.disturbed.push(link);
    }

    /// A flow has left a bottleneck of this level.
    pub(super) fn switched(&mut self, flow: u32, level: f64) {
        if !self.queue.is_empty() && level > 0.0 {
            self.switched.push((flow, level));
        }
    }

    /// The factors by which the rates of flows have changed that have another bottleneck and have not gone since. Of a flow
    /// that has switched more than once the first entry is right, and the others do no harm: a level between is no lower.
    pub(super) fn take_switched(&mut self, clocks: &Clocks, levels: &[f64]) -> impl Iterator<Item = f64> {
        let active = self.switched.drain(..).filter(|&(flow, _)| clocks.is_active(flow));
        active.map(|(flow, old)| levels[clocks.bottleneck(flow) as usize] / old)
    }

    /// Puts a link to sleep.
    fn bed(&mut self, link: u32, room: f64) {
        self.bedtime[link as usize] = self.bedtimes;
        self.bedtimes += 1;
        self.wake_at[link as usize] = f64::NAN;
        self.put(link, room);
    }

    fn put(&mut self, link: u32, room: f64) {
        let wake_at = room * self.growth;
        let old = std::mem::replace(&mut self.wake_at[link as usize], wake_at);
        // It is in the queue; a link without flows is looked at when it gets one.
        if wake_at == old || wake_at == f64::INFINITY {
            return;
        }
        if self.queue.len() > 64 + 2 * self.wake_at.len() {
            let wake_at = &self.wake_at;
            self.queue.retain(|Reverse((at, link))| wake_at[*link as usize] == at.0);
        }
        self.queue.push(Reverse((Ordered(wake_at), link)));
    }

    fn clear(&mut self) {
        self.queue.clear();
        self.disturbed.clear();
        self.growth = 1.0;
    }

    /// Takes the sleepers that must be looked at out of the queue, in the order in which they have gone to sleep.
    fn take_due(&mut self, bundles: &Bundles, due: &mut Vec<u32>) {
        while let Some(&Reverse((Ordered(wake_at), link))) = self.queue.peek() {
            let is_stale = !bundles.is_asleep(link) || self.wake_at[link as usize] != wake_at;
            if !is_stale && wake_at > self.growth {
                break;
            }
            self.queue.pop();
            if !is_stale {
                due.push(link);
            }
        }
        due.sort_unstable_by_key(|&link| self.bedtime[link as usize]);
        due.dedup();
    }

    /// Starts the product of factors again from 1 once it is very large.
    fn shrink(&mut self, bundles: &Bundles) {
        if self.growth > MOST_GROWTH {
            let growth = std::mem::replace(&mut self.growth, 1.0);
            for Reverse((_, link)) in std::mem::take(&mut self.queue).into_sorted_vec() {
                // A link that is there twice has one that is stale.
                if bundles.is_asleep(link) && self.wake_at[link as usize] > MOST_GROWTH {
                    self.wake_at[link as usize] /= growth;
                    self.queue.push(Reverse((Ordered(self.wake_at[link as usize]), link)));
                }
            }
        }
    }
}

impl Filling {
    /// After a filling from the bottom: every link that has room sleeps, all others that are no bottleneck are idle.
    pub(super) fn bed(&mut self, bundles: &mut Bundles) {
        self.sleepers.clear();
        self.idle.clear();
        for link in 0..self.capacities.len() as u32 {
            let is_ordered = self.position[link as usize] != NOWHERE;
            let room = if is_ordered { 0.0 } else { self.room(link) };
            bundles.set_asleep(link, room >= ROOM);
            if room >= ROOM {
                self.sleepers.bed(link, room);
            } else if !is_ordered {
                self.idle.push(link);
            }
        }
    }

    /// By what factor the flows of a link that is awake could grow.
    fn room(&self, link: u32) -> f64 {
        let capacity = self.capacities[link as usize];
        capacity / (capacity - self.left[link as usize]).max(0.0)
    }

    /// Now and then: idle links that have room go to sleep.
    pub(super) fn deactivate(&mut self, bundles: &mut Bundles) {
        if !self.work.fillings.is_multiple_of(LOOK) {
            return;
        }
        let mut idle = std::mem::take(&mut self.idle);
        idle.retain(|&link| {
            let room = self.room(link);
            if room >= ROOM {
                bundles.set_asleep(link, true);
                self.sleepers.bed(link, room);
            }
            room < ROOM
        });
        self.idle = idle;
    }

    /// Flows have grown by a factor: looks at the sleepers that may be full now. Those that are nearly so wake up.
    pub(super) fn wake_all(&mut self, growth: f64, bundles: &mut Bundles) {
        self.sleepers.growth *= growth;
        let mut due = std::mem::take(&mut self.sleepers.due);
        std::mem::swap(&mut due, &mut self.sleepers.disturbed);
        due.drain(..).for_each(|link| self.look_at(link, bundles));
        self.sleepers.disturbed.append(&mut due);
        self.sleepers.take_due(bundles, &mut due);
        due.drain(..).for_each(|link| self.look_at(link, bundles));
        self.sleepers.due = due;
        self.sleepers.shrink(bundles);
    }

    /// Sums up the rates over a sleeper. Wakes it if it has little room.
    fn look_at(&mut self, link: u32, bundles: &mut Bundles) {
        if !bundles.is_asleep(link) {
            return;
        }
        let capacity = self.capacities[link as usize];
        let rates = bundles.crossing(link).map(|(at, flows)| self.levels[at as usize] * flows);
        let used: f64 = rates.sum();
        self.work.touches += bundles.incoming(link).len() as u64;
        if capacity >= LEAST_ROOM * used {
            self.sleepers.put(link, capacity / used);
            return;
        }
        self.left[link as usize] = capacity - used;
        self.touched.add_one(link);
        self.wake(link, bundles);
        self.idle.push(link);
    }

    /// Wakes a link; what marks say of it is not true.
    fn wake(&mut self, link: u32, bundles: &mut Bundles) {
        bundles.set_asleep(link, false);
        self.marks.truncate(0);
    }

    /// Puts a link into the order at a position, or moves it down to there.
    pub(super) fn insert(&mut self, link: u32, to: usize, clocks: &mut Clocks, bundles: &mut Bundles) {
        let mut from = self.position[link as usize] as usize;
        if self.position[link as usize] == NOWHERE {
            if bundles.is_asleep(link) {
                self.wake(link, bundles);
            } else {
                self.idle.retain(|&idle| idle != link);
            }
            from = self.order.len();
            self.order.push(link);
        }
        self.levels[link as usize] = self.level_below(to);
        self.rotate(to, from, clocks, bundles);
        self.restart = self.restart.min(to as u32);
    }
}
