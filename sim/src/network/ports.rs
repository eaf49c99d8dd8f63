//! Cheaper rules than max-min: the level of a link follows from the link alone.
//!
//! Either each link divides its capacity equally among the flows that cross it, and what one of them leaves unused goes to
//! nobody ([`NetworkModel::Ports`]), or every flow has each link for itself ([`NetworkModel::AlphaBeta`]). A flow is
//! bottlenecked at the lowest of its links, as in max-min, but a level changes only where flows come or go.

use zipwire_cluster::NetworkModel;

use super::Work;
use super::activity::Activities;
use super::bundle::Bundles;
use super::clock::Clocks;

/// How many flows cross each link, and what each of them can have.
pub(super) struct Ports {
    capacities: Vec<f64>,
    /// Whether flows share a link.
    is_shared: bool,
    counts: Vec<f64>,
    levels: Vec<f64>,
    /// Links over which flows have come or gone since the last filling.
    changed: Vec<u32>,
    moving: Vec<u32>,
    work: Work,
}

impl Ports {
    /// Links without flows under a model that is not max-min.
    pub(super) fn new(capacities: &[f64], model: NetworkModel) -> Self {
        Self {
            capacities: capacities.to_vec(),
            is_shared: match model {
                NetworkModel::Ports => true,
                NetworkModel::AlphaBeta => false,
                NetworkModel::MaxMin => panic!("max-min levels do not follow from single links"),
            },
            counts: vec![0.0; capacities.len()],
            levels: capacities.to_vec(),
            changed: Vec::new(),
            moving: Vec::new(),
            work: Work::default(),
        }
    }

    pub(super) fn work(&self) -> Work {
        self.work
    }

    pub(super) fn capacities(&self) -> &[f64] {
        &self.capacities
    }

    /// Counts a part of an activity that has come or gone.
    pub(super) fn weigh(&mut self, link: u32, weight: f64) {
        self.counts[link as usize] += weight;
        self.changed.push(link);
    }

    /// Counts a flow that has come; returns its bottleneck.
    pub(super) fn enter(&mut self, links: impl Iterator<Item = u32> + Clone, times: u32) -> u32 {
        for link in links.clone() {
            self.counts[link as usize] += f64::from(times);
            self.changed.push(link);
        }
        self.lowest(links)
    }

    /// Counts a flow that has gone.
    pub(super) fn leave(&mut self, links: impl Iterator<Item = u32>, times: u32) {
        for link in links {
            self.counts[link as usize] -= f64::from(times);
            self.changed.push(link);
        }
    }

    /// The first of the links that give a flow least.
    fn lowest(&self, links: impl Iterator<Item = u32>) -> u32 {
        let level = |link: &u32| self.levels[*link as usize];
        links.min_by(|a, b| level(a).total_cmp(&level(b))).expect("a flow crosses a link")
    }

    /// Brings levels and bottlenecks up to date.
    pub(super) fn fill(&mut self, clocks: &mut Clocks, bundles: &mut Bundles, activities: &mut Activities) {
        self.work.fillings += 1;
        self.changed.sort_unstable();
        self.changed.dedup();
        if self.is_shared {
            self.level_changed(bundles);
        }
        self.moving.sort_unstable();
        self.moving.dedup();
        for flow in self.moving.drain(..) {
            let (old, level) = (clocks.bottleneck(flow), |link: u32| self.levels[link as usize]);
            // Where several links are lowest, it stays.
            let new =
                bundles.links(flow).fold(old, |low, link| if level(link) < level(low) { link } else { low });
            if new != old {
                bundles.take(flow, old);
                bundles.put(flow, new);
                clocks.switch(flow, new);
                self.changed.push(new);
                self.work.switched += 1;
            }
        }
        for link in self.changed.drain(..) {
            if clocks.count(link) > 0 && clocks.level(link) != self.levels[link as usize] {
                clocks.set_level(link, self.levels[link as usize]);
                self.work.links_relevelled += 1;
            }
        }
        for activity in activities.iter_mut() {
            let levels = activity.weights().iter().map(|&(link, weight)| {
                if self.is_shared {
                    self.levels[link as usize]
                } else {
                    self.capacities[link as usize] / weight
                }
            });
            activity.stop(levels.fold(activity.bound(), f64::min));
        }
    }

    /// Gives the links that have changed new levels, and collects flows whose bottleneck may not be the lowest link any
    /// more.
    fn level_changed(&mut self, bundles: &Bundles) {
        let old: Vec<f64> = self.changed.iter().map(|&link| self.levels[link as usize]).collect();
        for &link in &self.changed {
            let link = link as usize;
            let count = self.counts[link];
            self.levels[link] = self.capacities[link] / if count > 0.0 { count } else { 1.0 };
        }
        for (&link, old) in self.changed.iter().zip(old) {
            let new = self.levels[link as usize];
            self.work.touches += 1;
            if new > old {
                bundles.outgoing(link).for_each(|other, _| {
                    if self.levels[other as usize] < new {
                        bundles.collect_shared(link, other, &mut self.moving);
                    }
                });
                self.work.touches += bundles.outgoing(link).len() as u64;
            } else {
                for &incoming in bundles.incoming(link) {
                    if self.levels[incoming.link as usize] > new {
                        bundles.collect(incoming, &mut self.moving);
                    }
                }
                self.work.touches += bundles.incoming(link).len() as u64;
            }
        }
    }
}
