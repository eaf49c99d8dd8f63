//! Reads the network now and then, for the timeline's series of link usage.

use zipwire_cluster::Topology;
use zipwire_timeline::{Link, LinkUsage};

use crate::network::Network;

/// The series of a run, and the state of the network that is not in it yet.
pub(crate) struct Meter {
    usage: LinkUsage,
    /// Scratch space.
    rates: Vec<f64>,
    /// Seconds from the start of the run to the barrier before the iteration.
    barrier_s: f64,
    /// Since when the network has been as it is, in seconds since the barrier; `None` once that is in the series.
    since_s: Option<f64>,
}

impl Meter {
    pub(crate) fn new(topology: &Topology) -> Self {
        let links = topology.links().zip(topology.capacities()).map(|(link, bytes_per_s)| {
            let name = topology.link_name(link);
            // `gpu 3 up`; in graphs `gpu 3 -> left` and `left -> gpu 3`.
            let is_of_gpu = name.split(" -> ").any(|end| end.starts_with("gpu "));
            Link { name, bytes_per_s, is_of_gpu }
        });
        Self { usage: LinkUsage::new(links.collect()), rates: Vec::new(), barrier_s: 0.0, since_s: None }
    }

    /// An iteration begins, with no flows.
    pub(crate) fn begin(&mut self, barrier_s: f64) {
        (self.barrier_s, self.since_s) = (barrier_s, Some(0.0));
    }

    /// Flows have come or gone.
    pub(crate) fn change(&mut self, now_s: f64) {
        self.since_s = Some(now_s);
    }

    /// Time passes until `until_s`, for a network in which nothing happens meanwhile.
    pub(crate) fn pass(&mut self, until_s: f64, network: &mut Network) {
        let Some(since_s) = self.since_s else { return };
        if until_s > since_s && self.usage.wants(self.barrier_s + until_s) {
            network.usage(&mut self.rates);
            self.usage.add(self.barrier_s + since_s, &self.rates);
            self.since_s = None;
        }
    }

    /// The series of a run that has ended: nothing moves any more.
    pub(crate) fn end(mut self, end_s: f64) -> LinkUsage {
        self.usage.add(end_s, &vec![0.0; self.usage.links().len()]);
        self.usage
    }
}
