//! Activities: what crosses many links at once, each with bytes of its own, and goes on at one pace over all of them.
//!
//! An activity rises with the level of its fullest link as a flow does, and takes a multiple of that level from each other link, its *weight* there:
//! the bytes that it has on a link over those on the one that would hold it back if it were alone. A full link stops it, and so does the
//! bound that it comes with. There are few at a time, so each is gone through by itself.

use zipwire_cluster::LinkId;

use super::TIE;
use super::clock::ROUNDING;

/// Weights are multiples of one over this: sums of them and of a hundred thousand flows are exact, and what the last activity leaves is 0.
const GRAIN: f64 = (1_u64 << 36) as f64;

/// An activity in a [`Network`](super::Network); the number is given to another one once this one has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActivityId(pub(super) u32);

/// One that has not ended.
pub(super) struct Activity {
    /// By ascending link.
    weights: Vec<(u32, f64)>,
    /// Level beyond which it does not go.
    bound: f64,
    /// Bytes on its fullest link.
    bytes: f64,
    /// How many of them are left.
    left: f64,
    level: f64,
    is_open: bool,
}

impl Activity {
    /// Capacities are those of a part of each link: one over what `crossed` says.
    fn new(demand: &[(LinkId, f64)], moving_s: f64, capacities: &[f64], crossed: &[f64]) -> Self {
        let share = |link: LinkId, bytes: f64| bytes / crossed[link.index()];
        let fullness = |&(link, bytes): &(LinkId, f64)| share(link, bytes) / capacities[link.index()];
        let fullest = demand.iter().reduce(|best, other| {
            let order = fullness(other).total_cmp(&fullness(best)).then(best.1.total_cmp(&other.1));
            if order.is_gt() { other } else { best }
        });
        let bytes = fullest.expect("an activity crosses a link").1;
        let weight = |share: f64| (share * GRAIN).ceil() / GRAIN;
        let weights =
            demand.iter().map(|&(link, other)| (link.0, weight(share(link, other) / bytes))).collect();
        Self { weights, bound: bytes / moving_s, bytes, left: bytes, level: 0.0, is_open: false }
    }

    /// Bytes per second that it takes of each link that it crosses, for each of its level.
    pub(super) fn weights(&self) -> &[(u32, f64)] {
        &self.weights
    }

    pub(super) fn crosses(&self, link: u32) -> bool {
        self.weights.binary_search_by_key(&link, |&(link, _)| link).is_ok()
    }

    pub(super) fn bound(&self) -> f64 {
        self.bound
    }

    pub(super) fn level(&self) -> f64 {
        self.level
    }

    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Stops its rise.
    pub(super) fn stop(&mut self, level: f64) {
        (self.level, self.is_open) = (level, false);
    }
}

/// All that have not ended.
pub(super) struct Activities {
    list: Vec<Option<Activity>>,
    /// How many flows each one of a link stands for.
    crossed: Vec<f64>,
}

impl Activities {
    pub(super) fn new(crossed: Vec<f64>) -> Self {
        Self { list: Vec::new(), crossed }
    }

    pub(super) fn add(&mut self, demand: &[(LinkId, f64)], moving_s: f64, capacities: &[f64]) -> u32 {
        let number = self.list.iter().position(Option::is_none).unwrap_or(self.list.len());
        if number == self.list.len() {
            self.list.push(None);
        }
        self.list[number] = Some(Activity::new(demand, moving_s, capacities, &self.crossed));
        number as u32
    }

    pub(super) fn get(&self, number: u32) -> &Activity {
        self.list[number as usize].as_ref().expect("the activity has not ended")
    }

    pub(super) fn end(&mut self, number: u32) -> Activity {
        self.list[number as usize].take().expect("an activity ends once")
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.iter().all(Option::is_none)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Activity> {
        self.list.iter().flatten()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Activity> {
        self.list.iter_mut().flatten()
    }

    /// Lets all rise again, from 0.
    pub(super) fn open(&mut self) {
        self.iter_mut().for_each(|activity| activity.is_open = true);
    }

    pub(super) fn next_in_s(&self) -> f64 {
        self.iter().map(|activity| activity.left / activity.level).fold(f64::INFINITY, f64::min).max(0.0)
    }

    pub(super) fn advance(&mut self, seconds: f64) {
        self.iter_mut().for_each(|activity| activity.left -= activity.level * seconds);
    }

    /// The next one that has moved all its bytes, up to a tie or rounding.
    pub(super) fn due(&self, elapsed_s: f64) -> Option<u32> {
        let is_due = |activity: &Activity| {
            activity.left <= TIE * activity.bytes + ROUNDING * activity.level * elapsed_s
        };
        let number = self.list.iter().position(|activity| activity.as_ref().is_some_and(is_due))?;
        Some(number as u32)
    }
}
