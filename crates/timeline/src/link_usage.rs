//! Usage of the links of a network over time. It knows neither routes nor transfers.

use crate::series::Series;

/// Most values, links times samples, that are kept: 8 MB.
const MOST_VALUES: usize = 1 << 20;
/// Most samples of few links.
const MOST_SAMPLES: usize = 4096;

/// A directed link.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Name: `nic 1 down`.
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

    /// How much of a link's capacity was used from one moment of the run to a later one, from 0 to 1; 0 if there is no time between.
    pub fn share(&self, link: usize, begin_s: f64, end_s: f64) -> f64 {
        let mut rows = self.samples.rows_from(begin_s).peekable();
        let mut bytes = 0.0;
        while let Some((from_s, rates)) = rows.next().filter(|&(from_s, _)| from_s < end_s) {
            let until_s = rows.peek().map_or(end_s, |&(until_s, _)| until_s.min(end_s));
            bytes += rates[link] * (until_s - from_s.max(begin_s)).max(0.0);
        }
        if end_s > begin_s { bytes / (end_s - begin_s) / self.links[link].bytes_per_s } else { 0.0 }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_by_hand() {
        let link = |name: &str| Link { name: name.to_owned(), bytes_per_s: 10.0, is_of_gpu: false };
        let mut usage = LinkUsage::new(vec![link("a"), link("b")]);
        for (begin_s, rates) in [(0.0, [10.0, 0.0]), (1.0, [5.0, 10.0]), (3.0, [0.0, 2.0]), (4.0, [0.0, 0.0])]
        {
            usage.add(begin_s, &rates);
        }
        let shares = |begin_s, end_s| [0, 1].map(|link| usage.share(link, begin_s, end_s));
        assert_eq!(shares(0.0, 1.0), [1.0, 0.0], "one state");
        assert_eq!(shares(0.5, 2.5), [(5.0 + 7.5) / 20.0, 15.0 / 20.0], "parts of two");
        assert_eq!(shares(0.0, 4.0), [20.0 / 40.0, 22.0 / 40.0], "all");
        assert_eq!(shares(3.0, 8.0), [0.0, 2.0 / 50.0], "beyond the end");
        assert_eq!(shares(2.0, 2.0), [0.0, 0.0]);
    }
}
