//! Progressive filling: the levels of all links, from the lowest up.
//!
//! The *share* of a link is its capacity left per flow still open. The link with the lowest share is fixed:
//! the share becomes its level, it becomes the bottleneck of its open flows, and they take their rate from
//! the other links that they cross. The links that were fixed, in this order, are the *bottlenecks*; all
//! others have capacity left.
//!
//! A filling after few changes repairs the last one ([`super::repair`]); one after many starts from the bottom,
//! here. Shares only rise while links are fixed, which is used twice: the lowest is searched in a small *band*
//! of links below a ceiling, and with shares that may be old, as lower bounds. The levels of the last filling
//! tell a good ceiling, and their order settles ties, so that a flow does not move between two equally full
//! links by rounding.

use super::activity::{Activities, Activity};
use super::bundle::{Bundles, List};
use super::clock::Clocks;
use super::sleep::Sleepers;
use super::{TIE, Work};

/// Height of a band above the lowest share where the last filling tells none.
const STRETCH: f64 = 1.02;
/// How far apart rates must be for one to lose digits on the clock of the other, or in what is left for it.
pub(super) const FAR: f64 = 1e3;
/// The position of a link that is not in the order.
pub(super) const NOWHERE: u32 = u32::MAX;

/// Capacity left for the flows that are still open, and how many there are.
#[derive(Clone, Copy)]
struct Share {
    left: f64,
    open: f64,
}

impl Share {
    /// Share of each open flow; no bound where none is open.
    fn value(self) -> f64 {
        if self.open > 0.0 { self.left / self.open } else { f64::INFINITY }
    }
}

/// A link of the band, with a lower bound of its share; infinite once the link is fixed or has no open flow.
struct Candidate {
    bound: f64,
    link: u32,
}

/// How many flows cross each link, and the last filling.
pub(super) struct Filling {
    pub(super) capacities: Vec<f64>,
    /// Flows that cross each link.
    counts: Vec<f64>,
    /// Capacity, less what flows that are bottlenecked elsewhere take. Of links that sleep it means nothing.
    pub(super) left: Vec<f64>,
    /// The bottlenecks by ascending level: every flow is bottlenecked at the first of its links. A link whose last flow
    /// has gone may stay a while.
    pub(super) order: Vec<u32>,
    /// Where in the order each link is.
    pub(super) position: Vec<u32>,
    /// By link, of those in the order.
    pub(super) levels: Vec<f64>,
    /// Links that are awake and not in the order.
    pub(super) idle: Vec<u32>,
    pub(super) sleepers: Sleepers,
    pub(super) touched: Touched,
    pub(super) marks: Marks,
    /// The lowest position in the order that may have to change.
    pub(super) restart: u32,
    /// Flows that have come and gone since the last filling.
    changes: usize,
    /// Whether the next filling is one from the bottom.
    is_stale: bool,
    /// Whether the order holds a link without flows of its own.
    pub(super) has_dead: bool,
    /// The lowest capacity.
    pub(super) slowest: f64,
    /// Whether a repair has let the digits of what some link has left be lost.
    pub(super) is_blurred: bool,
    pub(super) switching: Vec<u32>,
    pub(super) work: Work,
    shares: Vec<Share>,
    open: Vec<u32>,
    band: Vec<Candidate>,
    is_fixed: Vec<bool>,
    level: f64,
}

impl Filling {
    pub(super) fn new(capacities: &[f64]) -> Self {
        let links = capacities.len();
        Self {
            capacities: capacities.to_vec(),
            counts: vec![0.0; links],
            left: capacities.to_vec(),
            order: Vec::new(),
            position: vec![NOWHERE; links],
            levels: vec![0.0; links],
            idle: (0..links as u32).collect(),
            sleepers: Sleepers::new(links),
            touched: Touched { links: Vec::new(), are_all: true },
            marks: Marks::default(),
            restart: NOWHERE,
            changes: 0,
            is_stale: true,
            has_dead: false,
            slowest: capacities.iter().copied().fold(f64::INFINITY, f64::min),
            is_blurred: false,
            switching: Vec::new(),
            work: Work::default(),
            shares: Vec::new(),
            open: Vec::new(),
            band: Vec::new(),
            is_fixed: vec![false; links],
            level: 0.0,
        }
    }

    /// Counts a flow that has come and stands for so many, over `links`; returns the link that is its bottleneck until the next filling.
    pub(super) fn enter(
        &mut self,
        links: impl Iterator<Item = u32> + Clone,
        times: u32,
        clocks: &mut Clocks,
        bundles: &mut Bundles,
    ) -> u32 {
        self.count(links.clone(), f64::from(times));
        let share = |link: &u32| self.capacities[*link as usize] / self.counts[*link as usize];
        let lowest = links.clone().min_by(|a, b| share(a).total_cmp(&share(b)));
        let lowest = lowest.expect("a flow crosses a link");
        if self.is_stale {
            return lowest;
        }
        let lowest_share = share(&lowest);
        links.clone().filter(|&link| bundles.is_asleep(link)).for_each(|link| self.sleepers.disturb(link));
        let first = links.min_by_key(|&link| self.position[link as usize]).unwrap_or(lowest);
        if self.position[first as usize] == NOWHERE {
            self.insert(lowest, self.order.len(), clocks, bundles);
            return lowest;
        }
        // The first one is as good as any, unless it is so much faster than the true bottleneck that the rounding of its
        // clock would count.
        if lowest != first && lowest_share * FAR < self.levels[first as usize] {
            let is_lower = |link: &u32| self.levels[*link as usize] <= lowest_share;
            self.insert(lowest, self.order.partition_point(is_lower), clocks, bundles);
            return lowest;
        }
        first
    }

    /// Counts a part of an activity that has come or gone. Repairs know of flows alone.
    pub(super) fn weigh(&mut self, link: u32, weight: f64) {
        self.counts[link as usize] += weight;
        self.is_stale = true;
    }

    /// Counts a flow that has gone.
    pub(super) fn leave(&mut self, links: impl Iterator<Item = u32> + Clone, times: u32) {
        self.count(links, -f64::from(times));
    }

    fn count(&mut self, links: impl Iterator<Item = u32> + Clone, change: f64) {
        for link in links.clone() {
            self.counts[link as usize] += change;
        }
        self.changes += 1;
        self.is_stale |= self.changes > 8 + self.order.len() / 8;
        if self.is_stale {
            return;
        }
        for link in links {
            self.restart = self.restart.min(self.position[link as usize]);
        }
        self.marks.truncate(self.restart as usize);
    }

    /// Recomputes the levels, and moves the flows whose bottleneck has changed.
    pub(super) fn fill(&mut self, clocks: &mut Clocks, bundles: &mut Bundles, activities: &mut Activities) {
        self.work.fillings += 1;
        if self.is_stale || !self.repair(clocks, bundles) {
            self.fill_from_the_bottom(clocks, bundles, activities);
        }
        (self.restart, self.changes, self.is_stale) = (NOWHERE, 0, !activities.is_empty());
    }

    fn fill_from_the_bottom(
        &mut self,
        clocks: &mut Clocks,
        bundles: &mut Bundles,
        activities: &mut Activities,
    ) {
        activities.open();
        self.marks.truncate(0);
        let full = self.capacities.iter().zip(&self.counts).map(|(&left, &open)| Share { left, open });
        self.shares.clear();
        self.shares.extend(full);
        self.level = 0.0;
        self.open.clone_from(&self.order);
        let others =
            (0..self.capacities.len() as u32).filter(|&link| self.position[link as usize] == NOWHERE);
        self.open.extend(others);
        self.order.clear();
        self.retain_open();
        while !self.open.is_empty() {
            let ceiling = self.choose_band();
            self.fix_band(ceiling, clocks, bundles, activities);
            self.retain_open();
        }
        self.position.fill(NOWHERE);
        for (position, &link) in (0..).zip(&self.order) {
            self.position[link as usize] = position;
        }
        self.is_fixed.fill(false);
        self.left.clear();
        self.left.extend(self.shares.iter().map(|share| share.left));
        self.touched.add_all();
        self.has_dead = false;
        self.commit(0, clocks);
        self.bed(bundles);
    }

    fn retain_open(&mut self) {
        let (is_fixed, shares) = (&self.is_fixed, &self.shares);
        self.open.retain(|&link| !is_fixed[link as usize] && shares[link as usize].open > 0.0);
    }

    /// Puts all open links below a ceiling into the band, at least one; returns the ceiling.
    fn choose_band(&mut self) -> f64 {
        // As many links as make searching bands and collecting them cost the same. A link that was not in the order has
        // no level: it tells nothing.
        let count = self.open.len().isqrt().min(self.open.len() - 1);
        let old_level = |&link: &u32| match self.position[link as usize] {
            NOWHERE => 0.0,
            _ => self.levels[link as usize],
        };
        let mut old = self.open[..=count].iter().rev().map(old_level);
        let ceiling = old.find(|&level| level > 0.0).unwrap_or(0.0).max(self.level);
        self.collect_band(ceiling);
        if !self.band.is_empty() {
            return ceiling;
        }
        let values = self.open.iter().map(|&link| self.shares[link as usize].value());
        let ceiling = values.fold(f64::INFINITY, f64::min).max(self.level) * STRETCH;
        self.collect_band(ceiling);
        ceiling
    }

    fn collect_band(&mut self, ceiling: f64) {
        self.band.clear();
        for &link in &self.open {
            let share = self.shares[link as usize];
            if share.left <= ceiling * share.open {
                self.band.push(Candidate { bound: share.value(), link });
            }
        }
    }

    /// Fixes links of the band, lowest share first, until every share left is above the ceiling.
    fn fix_band(
        &mut self,
        ceiling: f64,
        clocks: &mut Clocks,
        bundles: &mut Bundles,
        activities: &mut Activities,
    ) {
        let mut band = std::mem::take(&mut self.band);
        loop {
            let lowest = band.iter().map(|candidate| candidate.bound).fold(f64::INFINITY, f64::min);
            if self.stop_bounded(lowest.min(ceiling), activities) {
                continue;
            }
            // The slack is for a share that only rounding lifts over the ceiling it was collected under.
            if lowest > ceiling * (1.0 + TIE) {
                break;
            }
            let tied = lowest * (1.0 + TIE);
            for candidate in band.iter_mut().filter(|candidate| candidate.bound <= tied) {
                // Rounding must not let a level sink below those fixed before.
                let value = self.shares[candidate.link as usize].value();
                candidate.bound = value.max(self.level);
                if candidate.bound <= tied {
                    self.level = candidate.bound;
                    self.fix(candidate.link, clocks, bundles);
                    let crossing = activities.iter_mut().filter(|it| it.is_open());
                    for activity in crossing.filter(|it| it.crosses(candidate.link)) {
                        self.stop(activity);
                    }
                    candidate.bound = f64::INFINITY;
                }
            }
        }
        self.band = band;
    }

    /// Stops the open activity of the lowest bound, if that is no higher than `most`. Shares of links do not sink by that.
    fn stop_bounded(&mut self, most: f64, activities: &mut Activities) -> bool {
        let open = activities.iter_mut().filter(|activity| activity.is_open() && activity.bound() <= most);
        let Some(activity) = open.min_by(|a, b| a.bound().total_cmp(&b.bound())) else { return false };
        self.level = activity.bound().max(self.level);
        self.stop(activity);
        true
    }

    /// Stops an activity at the present level, and takes its rates from the links that it crosses.
    fn stop(&mut self, activity: &mut Activity) {
        activity.stop(self.level);
        for &(link, weight) in activity.weights() {
            let share = &mut self.shares[link as usize];
            share.left -= self.level * weight;
            share.open -= weight;
        }
        self.work.touches += activity.weights().len() as u64;
    }

    /// Makes `link` the bottleneck of its open flows, at the present level.
    fn fix(&mut self, link: u32, clocks: &mut Clocks, bundles: &mut Bundles) {
        // Few links gain flows; counts tell which.
        if self.shares[link as usize].open > f64::from(clocks.count(link)) {
            for &incoming in bundles.incoming(link) {
                if !self.is_fixed[incoming.link as usize] {
                    bundles.collect(incoming, &mut self.switching);
                }
            }
            self.switch_to(link, clocks, bundles);
        }
        self.is_fixed[link as usize] = true;
        self.order.push(link);
        self.levels[link as usize] = self.level;
        let (level, shares) = (self.level, &mut self.shares[..]);
        for list in [bundles.outgoing(link), bundles.outgoing_asleep(link)] {
            list.for_each(|other, flows| {
                let share = &mut shares[other as usize];
                share.left -= level * flows;
                share.open -= flows;
            });
            self.work.touches += list.len() as u64;
        }
    }

    /// Makes `link` the bottleneck of the flows that were collected.
    pub(super) fn switch_to(&mut self, link: u32, clocks: &mut Clocks, bundles: &mut Bundles) {
        self.work.switched += self.switching.len() as u64;
        for flow in self.switching.drain(..) {
            let old = clocks.bottleneck(flow);
            self.sleepers.switched(flow, clocks.level(old));
            bundles.take(flow, old);
            bundles.put(flow, link);
            clocks.switch(flow, link);
        }
    }

    /// Hands the levels from a position on to the clocks. Returns the largest factor by which a rate has grown.
    pub(super) fn commit(&mut self, first: usize, clocks: &mut Clocks) -> f64 {
        let mut growth: f64 = 1.0;
        for flow_growth in self.sleepers.take_switched(clocks, &self.levels) {
            growth = growth.max(flow_growth);
        }
        for &link in &self.order[first..] {
            let (new, old) = (self.levels[link as usize], clocks.level(link));
            if new != old && clocks.count(link) > 0 {
                if old > 0.0 {
                    growth = growth.max(new / old);
                }
                clocks.set_level(link, new);
                self.work.links_relevelled += 1;
            }
        }
        growth
    }
}

/// The links of which something may have been taken, or all: what a filling puts back first.
pub(super) struct Touched {
    links: Vec<u32>,
    pub(super) are_all: bool,
}

impl Touched {
    /// The other links of bundles. Where that is not few of all links, copying all is faster.
    pub(super) fn add(&mut self, list: &List, links: usize) {
        if self.are_all {
            return;
        }
        if self.links.len() + list.len() > links / 8 {
            return self.add_all();
        }
        list.for_each(|other, _| self.links.push(other));
    }

    /// One more link.
    pub(super) fn add_one(&mut self, link: u32) {
        if !self.are_all {
            self.links.push(link);
        }
    }

    pub(super) fn add_all(&mut self) {
        self.are_all = true;
        self.links.clear();
    }

    /// Gives the links their capacity back.
    pub(super) fn put_back(&mut self, left: &mut Vec<f64>, capacities: &[f64]) {
        if std::mem::take(&mut self.are_all) {
            left.clear();
            left.extend_from_slice(capacities);
        }
        self.links.drain(..).for_each(|link| left[link as usize] = capacities[link as usize]);
    }
}

// Marks: copies of what all links have left part-way up the last filling, from which the next one can start.
//
// A mark stays right while nothing changes below it: flows that come and go above take nothing there.

/// Most marks. Each costs a copy when it is made; between two, levels are pushed again.
const MOST: usize = 16;

struct Mark {
    /// Links of the order that are fixed in it.
    position: usize,
    left: Vec<f64>,
}

/// Marks by ascending position, none of them 0: that one is known anyway.
#[derive(Default)]
pub(super) struct Marks {
    marks: Vec<Mark>,
    /// Memory of marks that are gone.
    spare: Vec<Vec<f64>>,
    /// Links between two marks.
    distance: usize,
    /// The position of the next one.
    due: usize,
}

impl Marks {
    /// Forgets the marks above a position.
    pub(super) fn truncate(&mut self, position: usize) {
        while self.marks.last().is_some_and(|mark| mark.position > position) {
            self.spare.extend(self.marks.pop().map(|mark| mark.left));
        }
        self.expect();
    }

    /// Copies the highest mark; returns its position, or 0 without any. Further marks are even over an order of so many
    /// links.
    pub(super) fn restore(&mut self, order_len: usize, left: &mut Vec<f64>) -> usize {
        self.distance = order_len / (MOST + 1) + 1;
        let position = self.marks.last().map_or(0, |mark| {
            left.clone_from(&mark.left);
            mark.position
        });
        self.expect();
        position
    }

    /// Makes a mark if one is due at this position.
    #[inline]
    pub(super) fn offer(&mut self, position: usize, left: &[f64]) {
        if position >= self.due {
            self.make(position, left);
        }
    }

    #[inline(never)]
    fn make(&mut self, position: usize, left: &[f64]) {
        if self.marks.len() < MOST {
            let mut copy = self.spare.pop().unwrap_or_default();
            copy.clear();
            copy.extend_from_slice(left);
            self.marks.push(Mark { position, left: copy });
        }
        self.expect();
    }

    /// When the next mark is due.
    fn expect(&mut self) {
        let last = self.marks.last().map_or(0, |mark| mark.position);
        self.due = if self.marks.len() < MOST { last + self.distance } else { usize::MAX };
    }
}
