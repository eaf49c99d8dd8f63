//! Progressive filling: the levels of all links, from the lowest up.
//!
//! The *share* of a link is its capacity left per flow still open. The link with the lowest share is fixed:
//! the share becomes its level, it becomes the bottleneck of its open flows, and they take their rate from
//! the other links that they cross. Shares only rise while links are fixed, which is used twice: the lowest
//! is searched in a small *band* of links below a ceiling, and with shares that may be old, as lower bounds.
//! The levels of the last filling tell a good ceiling, and their order settles ties, so that a flow does not
//! move between two equally full links by rounding.

use zipwire_schedule::LinkId;

use super::TIE;
use super::bundle::Bundles;
use super::clock::Clocks;
use super::work::Work;

/// Height of a band above the lowest share where the last filling tells none.
const STRETCH: f64 = 1.02;

/// Capacity left for the flows that are still open, and how many there are.
#[derive(Clone, Copy)]
struct Share {
    left: f64,
    open: f64,
}

impl Share {
    fn value(self) -> f64 {
        self.left / self.open
    }
}

/// A link of the band, with a lower bound of its share; infinite once the link is fixed or has no open flow.
struct Candidate {
    bound: f64,
    link: u32,
}

/// How many flows cross each link, and the order of the last filling.
pub(super) struct Filling {
    /// Capacity, and all flows that cross the link.
    full: Vec<Share>,
    /// All links: those with flows of their own by ascending level, then the others.
    order: Vec<u32>,
    /// State and scratch space of one filling.
    shares: Vec<Share>,
    is_fixed: Vec<bool>,
    fixed: Vec<u32>,
    open: Vec<u32>,
    band: Vec<Candidate>,
    switching: Vec<u32>,
    level: f64,
    work: Work,
}

impl Filling {
    pub(super) fn new(capacities: &[f64]) -> Self {
        Self {
            full: capacities.iter().map(|&left| Share { left, open: 0.0 }).collect(),
            order: (0..capacities.len() as u32).collect(),
            shares: Vec::new(),
            is_fixed: vec![false; capacities.len()],
            fixed: Vec::new(),
            open: Vec::new(),
            band: Vec::new(),
            switching: Vec::new(),
            level: 0.0,
            work: Work::default(),
        }
    }

    /// What filling has cost so far.
    pub(super) fn work(&self) -> Work {
        self.work
    }

    /// Adds `change` to the number of flows on each link.
    pub(super) fn count(&mut self, links: &[LinkId], change: f64) {
        for link in links {
            self.full[link.index()].open += change;
        }
    }

    /// Capacity of a link per flow that crosses it.
    pub(super) fn share(&self, link: LinkId) -> f64 {
        self.full[link.index()].value()
    }

    /// Recomputes all levels, and moves the flows whose bottleneck has changed.
    pub(super) fn fill(&mut self, clocks: &mut Clocks, bundles: &mut Bundles) {
        self.work.fillings += 1;
        self.shares.clone_from(&self.full);
        self.level = 0.0;
        self.open.clone_from(&self.order);
        self.retain_open();
        while !self.open.is_empty() {
            let ceiling = self.choose_band(clocks);
            self.fix_band(ceiling, clocks, bundles);
            self.retain_open();
        }
        let (fixed, is_fixed) = (&mut self.fixed, &mut self.is_fixed);
        self.order.retain(|&link| !std::mem::take(&mut is_fixed[link as usize]));
        fixed.append(&mut self.order);
        std::mem::swap(fixed, &mut self.order);
    }

    fn retain_open(&mut self) {
        let (is_fixed, shares) = (&self.is_fixed, &self.shares);
        self.open.retain(|&link| !is_fixed[link as usize] && shares[link as usize].open > 0.0);
    }

    /// Puts all open links below a ceiling into the band, at least one; returns the ceiling.
    fn choose_band(&mut self, clocks: &Clocks) -> f64 {
        // As many links as make searching bands and collecting them cost the same. A level of 0 is that of
        // a link that had no flows of its own: it tells nothing.
        let count = self.open.len().isqrt();
        let mut old =
            self.open[..=count.min(self.open.len() - 1)].iter().rev().map(|&link| clocks.level(link));
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
    fn fix_band(&mut self, ceiling: f64, clocks: &mut Clocks, bundles: &mut Bundles) {
        let mut band = std::mem::take(&mut self.band);
        loop {
            let lowest = band.iter().map(|candidate| candidate.bound).fold(f64::INFINITY, f64::min);
            // The slack is for a share that only rounding lifts over the ceiling it was collected under.
            if lowest > ceiling * (1.0 + TIE) {
                break;
            }
            let tied = lowest * (1.0 + TIE);
            for candidate in band.iter_mut().filter(|candidate| candidate.bound <= tied) {
                let share = self.shares[candidate.link as usize];
                // Rounding must not let a level sink below those fixed before.
                candidate.bound =
                    if share.open > 0.0 { share.value().max(self.level) } else { f64::INFINITY };
                if candidate.bound <= tied {
                    self.level = candidate.bound;
                    self.fix(candidate.link, clocks, bundles);
                    candidate.bound = f64::INFINITY;
                }
            }
        }
        self.band = band;
    }

    /// Makes `link` the bottleneck of its open flows, at the present level.
    fn fix(&mut self, link: u32, clocks: &mut Clocks, bundles: &mut Bundles) {
        // Few links gain flows; counts tell which.
        if self.shares[link as usize].open > f64::from(clocks.count(link)) {
            for incoming in bundles.incoming(link) {
                if !self.is_fixed[incoming.link as usize] {
                    bundles.collect(incoming, &mut self.switching);
                }
            }
        }
        self.work.switched += self.switching.len() as u64;
        for flow in self.switching.drain(..) {
            bundles.take(flow, clocks.bottleneck(flow));
            bundles.put(flow, link);
            clocks.switch(flow, link);
        }
        clocks.set_level(link, self.level);
        self.is_fixed[link as usize] = true;
        self.fixed.push(link);
        self.work.links_relevelled += 1;
        self.work.touches += bundles.outgoing(link).len() as u64;
        let (level, shares) = (self.level, &mut self.shares[..]);
        for outgoing in bundles.outgoing(link) {
            let share = &mut shares[outgoing.link as usize];
            let flows = f64::from(outgoing.flows);
            share.left -= level * flows;
            share.open -= flows;
        }
    }
}
