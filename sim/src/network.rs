//! The fluid state of the network between two events: how fast every flow moves, and which one ends first.
//!
//! The rate of a flow is the lowest *level* among the links that it crosses, where the level of a link is
//! the rate that it gives to the flows that it bottlenecks. So each link keeps a clock that runs at its
//! level, flows carry finish tags on the clock of their bottleneck ([`clock`]), and time passes for links
//! only, never for flows. Max-min fair levels come from progressive filling ([`fill`], [`repair`]), which sees
//! flows as counts per pair of links ([`bundle`]); those of cheaper models from each link alone ([`ports`]).
//!
//! This is not a packet model: no queues, no windows, no losses. It knows neither latency nor absolute
//! time: whoever drives it adds a flow when the flow's first byte moves.

mod activity;
mod bundle;
mod clock;
mod fill;
mod ports;
mod repair;
mod sleep;

use zipwire_cluster::{LinkId, NetworkModel};

use activity::Activities;
pub use activity::ActivityId;
use bundle::Bundles;
use clock::Clocks;
use fill::Filling;
use ports::Ports;

/// Ties closer than this, relative to a flow's bytes or to a level, are one event or one level.
const TIE: f64 = 1e-12;

/// A flow in a [`Network`]; the number is given to another flow once this one has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(u32);

impl FlowId {
    /// Position in a table of flows; stays below the largest number of flows that were active at once.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Work of a [`Network`] since it was made, in counts that are the same on every machine. Not time, and no part of any result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Times that levels were brought up to date: once for all flows that come and go at one moment.
    pub fillings: u64,
    /// Links whose level was computed anew, summed over fillings.
    pub links_relevelled: u64,
    /// Times that a level was taken from what another link has left.
    pub touches: u64,
    /// Flows that got another bottleneck.
    pub switched: u64,
}

/// How the level of a link follows from the flows that cross it.
enum Rule {
    MaxMin(Box<Filling>),
    Ports(Ports),
}

/// Flows over links of fixed capacity, and how far each has come.
///
/// ```
/// use zipwire_cluster::LinkId;
/// use zipwire_sim::Network;
///
/// let mut network = Network::new(&[10.0]);
/// let short = network.add(&[LinkId(0)], 100);
/// let long = network.add(&[LinkId(0)], 300);
/// assert_eq!(network.rate(short), 5.0);
///
/// let mut ended = Vec::new();
/// assert_eq!(network.next_in_s(), 20.0);
/// network.advance(20.0);
/// network.take_ended(&mut ended);
/// assert_eq!(ended, [short]);
/// assert_eq!(network.rate(long), 10.0);
/// assert_eq!(network.next_in_s(), 20.0);
/// ```
pub struct Network {
    clocks: Clocks,
    bundles: Bundles,
    activities: Activities,
    rule: Rule,
    /// Numbers below `numbers` that no flow has now.
    free: Vec<u32>,
    numbers: u32,
    /// Flows have come or gone since the levels were computed.
    is_changed: bool,
    /// Seconds until the next end, unless time or a flow has made it stale.
    next_in_s: Option<f64>,
    /// Scratch space.
    near: Vec<u32>,
}

impl Network {
    /// The most links that a flow can cross.
    pub const MAX_HOPS: usize = bundle::MAX_HOPS;

    /// A network without flows whose rates are max-min fair; `capacities` are bytes per second by [`LinkId`], positive
    /// and finite.
    pub fn new(capacities: &[f64]) -> Self {
        Self::with_model(capacities, NetworkModel::MaxMin)
    }

    /// A network like that of [`Network::new`], with rates after `model`.
    pub fn with_model(capacities: &[f64], model: NetworkModel) -> Self {
        Self::folded(capacities, &vec![1; capacities.len()], model)
    }

    /// A network in which each flow stands for as many, on each link, as `crossed` says: all of them get the same rate. Activities are as they
    /// are, with all their bytes.
    pub fn folded(capacities: &[f64], crossed: &[u32], model: NetworkModel) -> Self {
        let crossed: Vec<f64> = crossed.iter().map(|&count| f64::from(count)).collect();
        let capacities: Vec<f64> =
            capacities.iter().zip(&crossed).map(|(capacity, count)| capacity / count).collect();
        let capacities = &capacities[..];
        for (link, &capacity) in capacities.iter().enumerate() {
            assert!(capacity > 0.0 && capacity.is_finite(), "link {link} has capacity {capacity}");
        }
        Self {
            clocks: Clocks::new(capacities.len()),
            bundles: Bundles::new(capacities.len()),
            activities: Activities::new(crossed),
            rule: match model {
                NetworkModel::MaxMin => Rule::MaxMin(Box::new(Filling::new(capacities))),
                NetworkModel::Ports | NetworkModel::AlphaBeta => Rule::Ports(Ports::new(capacities, model)),
            },
            free: Vec::new(),
            numbers: 0,
            is_changed: false,
            next_in_s: None,
            near: Vec::new(),
        }
    }

    /// Adds a flow of `bytes` over distinct `links`; its latency is over. Flows without bytes or links
    /// never reach the network.
    pub fn add(&mut self, links: &[LinkId], bytes: u64) -> FlowId {
        self.add_effective(links, bytes as f64)
    }

    /// Adds a flow that counts as so many bytes on its links: more than it moves, if they lose some for it.
    pub fn add_effective(&mut self, links: &[LinkId], bytes: f64) -> FlowId {
        self.add_several(links, bytes, 1)
    }

    /// Adds so many flows of `bytes` each that come and go together, as one.
    pub fn add_several(&mut self, links: &[LinkId], bytes: f64, times: u32) -> FlowId {
        assert!(bytes > 0.0, "a flow without bytes ends at once, outside the network");
        let flow = self.free.pop().unwrap_or_else(|| {
            self.numbers += 1;
            self.numbers - 1
        });
        self.bundles.enter(flow, links, times);
        let path = links.iter().map(|link| link.0);
        let link = match &mut self.rule {
            Rule::MaxMin(filling) => filling.enter(path, times, &mut self.clocks, &mut self.bundles),
            Rule::Ports(ports) => ports.enter(path, times),
        };
        self.bundles.put(flow, link);
        self.clocks.enter(flow, link, bytes, times);
        self.touch();
        FlowId(flow)
    }

    /// Adds an activity with these bytes over distinct links, by ascending link and all positive, that takes `moving_s` seconds where no link
    /// holds it back; its latency is over.
    pub fn add_activity(&mut self, demand: &[(LinkId, f64)], moving_s: f64) -> ActivityId {
        let capacities = match &self.rule {
            Rule::MaxMin(filling) => &filling.capacities,
            Rule::Ports(ports) => ports.capacities(),
        };
        let number = self.activities.add(demand, moving_s, capacities);
        self.weigh(self.activities.get(number).weights().to_vec(), 1.0);
        ActivityId(number)
    }

    /// Appends the activities that have ended by now to `ended`, in ascending order.
    pub fn take_ended_activities(&mut self, ended: &mut Vec<ActivityId>) {
        while let Some(number) = self.activities.due(self.clocks.elapsed_s()) {
            let activity = self.activities.end(number);
            self.weigh(activity.weights().to_vec(), -1.0);
            ended.push(ActivityId(number));
        }
    }

    /// Counts the weights of an activity that has come, or gone.
    fn weigh(&mut self, weights: Vec<(u32, f64)>, sign: f64) {
        for (link, weight) in weights {
            match &mut self.rule {
                Rule::MaxMin(filling) => filling.weigh(link, sign * weight),
                Rule::Ports(ports) => ports.weigh(link, sign * weight),
            }
        }
        self.touch();
    }

    /// Takes an active flow out before its end.
    pub fn remove(&mut self, flow: FlowId) {
        assert!(self.clocks.is_active(flow.0), "flow {} has ended", flow.0);
        self.leave(flow.0);
    }

    /// Flows that have not ended.
    pub fn active(&self) -> usize {
        self.numbers as usize - self.free.len()
    }

    /// Bytes per second that an active flow moves at now.
    pub fn rate(&mut self, flow: FlowId) -> f64 {
        assert!(self.clocks.is_active(flow.0), "flow {} has ended", flow.0);
        self.settle();
        self.clocks.level(self.clocks.bottleneck(flow.0))
    }

    /// Cost of solving so far.
    pub fn work(&self) -> Work {
        match &self.rule {
            Rule::MaxMin(filling) => filling.work,
            Rule::Ports(ports) => ports.work(),
        }
    }

    /// Seconds until the next flow or activity ends, infinite when there is none. The filling happens here, once for
    /// all that have come and gone since the last call.
    pub fn next_in_s(&mut self) -> f64 {
        self.settle();
        let (clocks, activities) = (&self.clocks, &self.activities);
        *self.next_in_s.get_or_insert_with(|| clocks.next_in_s().min(activities.next_in_s()))
    }

    /// Lets `seconds` pass, at most [`Network::next_in_s`] up to rounding.
    ///
    /// Idle time counts: rounding is judged by all the seconds passed since the network was made, so a
    /// driver that steps by differences of absolute times ends its flows at the steps meant for them.
    pub fn advance(&mut self, seconds: f64) {
        let next_in_s = self.next_in_s();
        let slack = 1e-9 * (self.clocks.elapsed_s() + seconds);
        assert!(
            (0.0..=next_in_s + slack).contains(&seconds),
            "cannot advance {seconds} s: the next flow ends in {next_in_s} s"
        );
        self.clocks.advance(seconds);
        self.activities.advance(seconds);
        self.next_in_s = None;
    }

    /// Appends the flows that have ended by now to `ended`, in ascending order.
    pub fn take_ended(&mut self, ended: &mut Vec<FlowId>) {
        let first = ended.len();
        let mut near = std::mem::take(&mut self.near);
        self.clocks.near_due(&mut near);
        for link in near.drain(..) {
            while let Some(flow) = self.clocks.due(link) {
                self.leave(flow);
                ended.push(FlowId(flow));
            }
        }
        self.near = near;
        ended[first..].sort_unstable();
    }

    /// Writes the bytes per second that move over every link now to `rates`, by [`LinkId`].
    /// Costs one step per pair of links that flows have in common, not one per flow.
    ///
    /// ```
    /// use zipwire_cluster::LinkId;
    /// use zipwire_sim::Network;
    ///
    /// let mut network = Network::new(&[10.0, 100.0, 100.0]);
    /// network.add(&[LinkId(0), LinkId(1)], 100);
    /// network.add(&[LinkId(0), LinkId(1)], 100);
    /// let mut rates = Vec::new();
    /// network.usage(&mut rates);
    /// assert_eq!(rates, [10.0, 10.0, 0.0]);
    /// ```
    pub fn usage(&mut self, rates: &mut Vec<f64>) {
        self.settle();
        rates.clear();
        rates.resize(self.clocks.links() as usize, 0.0);
        for link in 0..self.clocks.links() {
            let level = self.clocks.level(link);
            if self.clocks.count(link) > 0 {
                rates[link as usize] += level * f64::from(self.clocks.count(link));
                for list in [self.bundles.outgoing(link), self.bundles.outgoing_asleep(link)] {
                    list.for_each(|other, flows| rates[other as usize] += level * flows);
                }
            }
        }
        for activity in self.activities.iter() {
            for &(link, weight) in activity.weights() {
                rates[link as usize] += activity.level() * weight;
            }
        }
    }

    fn leave(&mut self, flow: u32) {
        self.bundles.take(flow, self.clocks.bottleneck(flow));
        self.clocks.leave(flow);
        let times = self.bundles.times(flow);
        match &mut self.rule {
            Rule::MaxMin(filling) => filling.leave(self.bundles.links(flow), times),
            Rule::Ports(ports) => ports.leave(self.bundles.links(flow), times),
        }
        self.free.push(flow);
        self.touch();
    }

    fn touch(&mut self) {
        self.is_changed = true;
        self.next_in_s = None;
    }

    /// Brings levels and bottlenecks up to date.
    fn settle(&mut self) {
        if std::mem::take(&mut self.is_changed) {
            match &mut self.rule {
                Rule::MaxMin(filling) => {
                    filling.fill(&mut self.clocks, &mut self.bundles, &mut self.activities);
                }
                Rule::Ports(ports) => ports.fill(&mut self.clocks, &mut self.bundles, &mut self.activities),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three flows as one, beside another over one of their links.
    #[test]
    fn several_flows_as_one_get_what_each_gets() {
        for model in [NetworkModel::MaxMin, NetworkModel::Ports] {
            let ends = |several: &[u32]| {
                let mut network = Network::with_model(&[12.0, 100.0, 5.0], model);
                for &times in several {
                    network.add_several(&[LinkId(0), LinkId(1)], 30.0, times);
                }
                network.add(&[LinkId(0), LinkId(2)], 40);
                let (mut ended, mut all, mut time_s) = (Vec::new(), Vec::new(), 0.0);
                while network.active() > 0 {
                    let in_s = network.next_in_s();
                    network.advance(in_s);
                    time_s += in_s;
                    network.take_ended(&mut ended);
                    all.push(time_s);
                }
                all
            };
            assert_eq!(ends(&[3]), ends(&[1, 1, 1]), "{model:?}");
            assert_eq!(ends(&[2, 1]), ends(&[1, 1, 1]), "{model:?}");
        }
    }

    #[test]
    fn a_flow_that_stands_for_four_gets_what_each_of_four_gets() {
        for (crossed, flows) in [(1, 4), (4, 1)] {
            let mut network = Network::folded(&[10.0, 50.0], &[crossed, 1], NetworkModel::MaxMin);
            let demand = [(LinkId(0), 90.0), (LinkId(1), 90.0)];
            network.add_activity(&demand, 10.0);
            assert_eq!(network.next_in_s(), 10.0);
            network.advance(1.0);
            network.add_activity(&demand, 10.0);
            assert_eq!(network.next_in_s(), 81.0 / 5.0, "each has half of the first link");
            let flows: Vec<FlowId> = (0..flows).map(|_| network.add(&[LinkId(0)], 4)).collect();
            assert_eq!(network.rate(flows[0]), 10.0 / 6.0, "four flows and two activities");
        }
    }
}
