//! What the links of a network carried over time. It knows neither routes nor transfers.

use crate::series::Series;

/// Most values, links times samples, that are kept: 8 MB.
const MOST_VALUES: usize = 1 << 20;
/// Most samples of few links.
const MOST_SAMPLES: usize = 4096;

/// A directed link.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// What it is called: `nic 1 down`.
    pub name: String,
    /// Its capacity.
    pub bytes_per_s: f64,
    /// Whether it belongs to one GPU, rather than to a node or the fabric.
    pub is_of_gpu: bool,
}

/// Bytes per second over each link at successive moments, each valid until the next: rates at these moments, not means.
///
/// However long a run is, there are at most 4096 samples, and fewer if there are more than 256 links. Of states that last
/// less than [`LinkUsage::least_distance_s`] some are left out; which, follows from their times alone.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkUsage {
    links: Vec<Link>,
    samples: Series,
}

impl LinkUsage {
    /// Without samples.
    ///
    /// # Panics
    /// If there is no link.
    pub fn new(links: Vec<Link>) -> Self {
        let samples = Series::new(links.len(), MOST_SAMPLES.min(MOST_VALUES / links.len().max(1)));
        Self { links, samples }
    }

    /// The links, in the order of the rates.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// Seconds since the start of the run and bytes per second over each link from then on, in the order of time.
    pub fn samples(&self) -> impl ExactSizeIterator<Item = (f64, &[f64])> {
        self.samples.rows()
    }

    /// Seconds: of states that last less, some are left out. 0 if none is.
    pub fn least_distance_s(&self) -> f64 {
        self.samples.least_distance_s()
    }

    /// Whether a state that lasts until `end_s` is to be added.
    pub fn wants(&self, end_s: f64) -> bool {
        self.samples.wants(end_s)
    }

    /// Adds the rates that hold from `begin_s` on, which is not before the last sample.
    ///
    /// # Panics
    /// If there is not one rate per link.
    pub fn add(&mut self, begin_s: f64, rates: &[f64]) {
        self.samples.add(begin_s, rates);
    }

    /// Adds what a run of the same links saw that began `offset_s` after the start of this one. Capacities stay those of this run.
    pub(crate) fn append(&mut self, later: &Self, offset_s: f64) {
        let mut rows = later.samples().peekable();
        while let Some((begin_s, rates)) = rows.next() {
            let lasts = rows.peek().is_none_or(|&(until_s, _)| self.wants(offset_s + until_s));
            if lasts {
                self.add(offset_s + begin_s, rates);
            }
        }
    }

    /// Some of the links, with at most `most_samples` samples.
    pub fn select(&self, links: &[usize], most_samples: usize) -> Self {
        let samples = self.samples.select(links, most_samples);
        Self { links: links.iter().map(|&link| self.links[link].clone()).collect(), samples }
    }
}
