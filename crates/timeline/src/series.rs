//! A series in time of bounded length: rows of values, each valid until the next. Usage of the links of a network is one.
//!
//! While there is room every change is kept. After that, a state is kept if it lasts until some least distance after the
//! one kept before has passed: a state that lasts longer than the distance is never lost, and which ones are kept depends
//! on their times alone. It averages nothing: a value is that of its moment.

/// Rows of `width` values over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    width: usize,
    most_rows: usize,
    times_s: Vec<f64>,
    values: Vec<f64>,
    least_distance_s: f64,
}

impl Series {
    /// An empty series that holds at most `most_rows` rows, at least 4.
    pub fn new(width: usize, most_rows: usize) -> Self {
        assert!(width > 0, "a row has values");
        let most_rows = most_rows.max(4);
        Self { width, most_rows, times_s: Vec::new(), values: Vec::new(), least_distance_s: 0.0 }
    }

    /// Times in seconds and rows, in the order of time.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = (f64, &[f64])> {
        self.times_s.iter().copied().zip(self.values.chunks_exact(self.width))
    }

    /// Rows from the one on that holds at a time.
    fn rows_from(&self, time_s: f64) -> impl Iterator<Item = (f64, &[f64])> {
        let first = self.times_s.partition_point(|&begin_s| begin_s <= time_s).saturating_sub(1);
        self.times_s[first..].iter().copied().zip(self.values[first * self.width..].chunks_exact(self.width))
    }

    /// Seconds: of what lasts less, some is left out. 0 if nothing is.
    pub fn least_distance_s(&self) -> f64 {
        self.least_distance_s
    }

    /// Whether a state that lasts until `end_s` is to be added.
    pub fn wants(&self, end_s: f64) -> bool {
        self.times_s.last().is_none_or(|last| end_s >= last + self.least_distance_s)
    }

    /// Adds what holds from `begin_s` on, which is not before the last row.
    ///
    /// # Panics
    /// If the row has not the width of the series.
    pub fn add(&mut self, begin_s: f64, row: &[f64]) {
        assert_eq!(row.len(), self.width, "rows of a series are equally wide");
        if self.times_s.len() >= self.most_rows {
            self.thin_out(begin_s, self.most_rows / 2);
        }
        self.times_s.push(begin_s);
        self.values.extend_from_slice(row);
    }

    /// Some columns of the series, thinned out to at most `most_rows` rows.
    pub fn select(&self, columns: &[usize], most_rows: usize) -> Self {
        let mut selected = Self { most_rows: most_rows.max(4), width: columns.len(), ..self.clone() };
        selected.values =
            self.rows().flat_map(|(_, row)| columns.iter().map(|&column| row[column])).collect();
        if let Some(&last_s) = self.times_s.last() {
            selected.thin_out(last_s, selected.most_rows);
        }
        selected
    }

    /// Leaves at most `most` rows, by the rule by which they are added.
    fn thin_out(&mut self, end_s: f64, most: usize) {
        while self.times_s.len() > most {
            let mean_s = (end_s - self.times_s[0]) / most as f64;
            // Many rows of one moment are no reason to never end.
            self.least_distance_s = (2.0 * self.least_distance_s).max(mean_s).max(f64::MIN_POSITIVE);
            let (mut kept, mut last_s) = (0, f64::NEG_INFINITY);
            for row in 0..self.times_s.len() {
                let until_s = self.times_s.get(row + 1).copied().unwrap_or(f64::INFINITY);
                if until_s >= last_s + self.least_distance_s {
                    last_s = self.times_s[row];
                    self.times_s[kept] = last_s;
                    self.values.copy_within(row * self.width..(row + 1) * self.width, kept * self.width);
                    kept += 1;
                }
            }
            self.times_s.truncate(kept);
            self.values.truncate(kept * self.width);
        }
    }
}

/// Most values, links times samples, that are kept: 8 MB.
const MOST_VALUES: usize = 1 << 20;
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

    /// Lets states of these lengths pass; the values of each are its index.
    fn played(mut series: Series, lengths_s: impl IntoIterator<Item = f64>) -> Series {
        let mut now_s = 0.0;
        for (index, length_s) in lengths_s.into_iter().enumerate() {
            if series.wants(now_s + length_s) {
                series.add(now_s, &vec![index as f64; series.width]);
            }
            assert!(series.rows().len() <= series.most_rows);
            now_s += length_s;
        }
        series
    }

    #[test]
    fn every_change_is_kept_while_there_is_room() {
        let series = played(Series::new(2, 4), [1.0, 0.25, 3.0]);
        let rows: Vec<_> = series.rows().map(|(s, row)| (s, row.to_vec())).collect();
        assert_eq!(rows, [(0.0, vec![0.0; 2]), (1.0, vec![1.0; 2]), (1.25, vec![2.0; 2])]);
        assert_eq!(series.least_distance_s(), 0.0);
    }

    #[test]
    fn a_long_series_is_thinned_out_evenly() {
        for (width, most_rows) in [(1, 4096), (1000, 1024), (3, 64)] {
            let series = played(Series::new(width, most_rows), (0..40_000).map(|_| 0.5));
            let times: Vec<f64> = series.rows().map(|(s, _)| s).collect();
            assert!((most_rows / 4..=most_rows).contains(&times.len()), "{} of {most_rows}", times.len());
            let widest = times.windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f64::max);
            assert!(widest <= series.least_distance_s() + 0.5, "{widest}");
            assert!(series.rows().all(|(s, row)| row.iter().all(|&value| value == 2.0 * s)), "of its moment");
        }
    }

    /// States that a viewer must not miss: the wait after a burst, and a pause within one.
    #[test]
    fn long_states_among_many_short_ones_are_never_lost() {
        let length_s = |index: usize| if index % 10_000 == 9_999 { 100.0 } else { 1e-3 };
        let series = played(Series::new(1, 1024), (0..60_000).map(length_s));
        assert!(series.least_distance_s() < 100.0);
        for series in [series.select(&[0], 1024), series.select(&[0], 128)] {
            assert!(series.least_distance_s() < 100.0);
            let kept: Vec<f64> = series.rows().map(|(_, row)| row[0]).collect();
            let mut long = (0..60_000).filter(|index| index % 10_000 == 9_999);
            assert!(long.all(|index| kept.contains(&f64::from(index))));
        }
    }

    #[test]
    fn selected_columns_keep_their_values() {
        let mut series = Series::new(3, 16);
        (0..10).for_each(|i| series.add(f64::from(i), &[0.0, f64::from(i), 10.0 + f64::from(i)]));
        let selected = series.select(&[2, 1], 4);
        assert!(selected.rows().len() <= 4);
        assert!(selected.rows().all(|(s, row)| row == [10.0 + s, s]));
        assert_eq!(series.select(&[1], 16).rows().len(), 10);
    }

    #[test]
    fn rows_of_one_moment_can_be_thinned_out() {
        let mut series = Series::new(1, 8);
        (0..1000).for_each(|i| series.add(0.0, &[f64::from(i)]));
        assert!(series.rows().len() <= 8);
    }

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
