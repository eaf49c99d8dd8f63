//! Counter tracks of links: which are drawn, and their values over time.

use zipwire_timeline::{Link, LinkUsage};

use super::track::nanoseconds;

/// Most tracks: more are not readable.
const MOST_TRACKS: usize = 64;
/// At least as many bytes as a counter event takes, name included.
const EVENT_BYTES: u64 = 128;
/// First letters of the unit of a link's counter, which no other counter's has.
pub(super) const UNIT: &str = "% of ";

pub(super) struct LinkTracks {
    /// In the order of the cluster's links.
    pub(super) tracks: Vec<LinkTrack>,
    /// Links that carried anything.
    pub(super) busy: usize,
    /// Samples of each track, before equal ones are left out.
    pub(super) samples: usize,
    /// Seconds: of states that last less, some are left out.
    pub(super) least_distance_s: f64,
}

pub(super) struct LinkTrack {
    pub(super) name: String,
    /// `% of 25 GB/s`
    pub(super) unit: String,
    /// Whether the link is a GPU's. Such links have a process of their own: viewers sort counters by name, and would show them first.
    pub(super) is_of_gpu: bool,
    /// (Time in nanoseconds, use in thousandths of the capacity from then on), changes only.
    pub(super) changes: Vec<(i64, u32)>,
}

impl LinkTracks {
    /// Links that carried something, in at most `bytes` bytes of a trace: those of nodes and the fabric, the busiest if
    /// there are many; with them those of GPUs if all are few, or if there are no others.
    pub(super) fn of(usage: &LinkUsage, bytes: u64) -> Self {
        let busy = busiest_first(usage);
        let shared: Vec<usize> =
            busy.iter().copied().filter(|&link| !usage.links()[link].is_of_gpu).collect();
        let mut shown = if busy.len() <= MOST_TRACKS || shared.is_empty() { busy.clone() } else { shared };
        shown.truncate(MOST_TRACKS);
        // Those of GPUs come last.
        shown.sort_by_key(|&link| (usage.links()[link].is_of_gpu, link));
        if shown.is_empty() {
            return Self { tracks: Vec::new(), busy: 0, samples: 0, least_distance_s: 0.0 };
        }
        let most_samples = usize::try_from(bytes / EVENT_BYTES).unwrap_or(usize::MAX) / shown.len();
        let drawn = usage.select(&shown, most_samples);
        let track = |(index, link): (usize, &Link)| LinkTrack::of(link, &drawn, index);
        Self {
            tracks: drawn.links().iter().enumerate().map(track).collect(),
            busy: busy.len(),
            samples: drawn.samples().len(),
            least_distance_s: drawn.least_distance_s(),
        }
    }

    /// Bytes of a trace that are enough for them.
    pub(super) fn most_bytes(&self) -> u64 {
        let events: usize = self.tracks.iter().map(|track| track.changes.len()).sum();
        events as u64 * EVENT_BYTES
    }
}

impl LinkTrack {
    fn of(link: &Link, usage: &LinkUsage, index: usize) -> Self {
        let mut changes: Vec<(i64, u32)> = Vec::new();
        for (time_s, rates) in usage.samples() {
            let (ns, used) = (nanoseconds(time_s), (1000.0 * rates[index] / link.bytes_per_s).round() as u32);
            match changes.last_mut() {
                Some(last) if last.0 == ns => last.1 = used,
                Some(last) if last.1 == used => {}
                Some(_) | None => changes.push((ns, used)),
            }
        }
        let unit = format!("{UNIT}{} GB/s", (link.bytes_per_s / 1e6).round() / 1e3);
        Self { name: link.name.clone(), unit, is_of_gpu: link.is_of_gpu, changes }
    }
}

/// Links that carried something, those first of whose capacity most was used on average; of equal ones the first.
fn busiest_first(usage: &LinkUsage) -> Vec<usize> {
    let mut shares = vec![0.0; usage.links().len()];
    let ends = usage.samples().skip(1).map(|(end_s, _)| end_s);
    for ((begin_s, rates), end_s) in usage.samples().zip(ends) {
        for ((share, rate), link) in shares.iter_mut().zip(rates).zip(usage.links()) {
            *share += (end_s - begin_s) * rate / link.bytes_per_s;
        }
    }
    let mut busy: Vec<usize> = (0..shares.len()).filter(|&link| shares[link] > 0.0).collect();
    busy.sort_by(|&a, &b| shares[b].total_cmp(&shares[a]).then(a.cmp(&b)));
    busy
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(name: &str, is_of_gpu: bool) -> Link {
        Link { name: name.to_owned(), bytes_per_s: 50e9, is_of_gpu }
    }

    fn names(tracks: &LinkTracks) -> Vec<&str> {
        tracks.tracks.iter().map(|track| track.name.as_str()).collect()
    }

    #[test]
    fn values_are_thousandths_of_the_capacity_and_repeat_never() {
        let mut usage =
            LinkUsage::new(vec![link("gpu 0 up", true), link("nic 0 up", false), link("idle", false)]);
        for (us, rates) in [(0, [25e9, 50e9, 0.0]), (2, [25e9, 12.34e9, 0.0]), (5, [0.0; 3])] {
            usage.add(f64::from(us) * 1e-6, &rates);
        }
        let tracks = LinkTracks::of(&usage, 1 << 20);
        assert_eq!(names(&tracks), ["nic 0 up", "gpu 0 up"]);
        assert_eq!(tracks.tracks[0].changes, [(0, 1000), (2000, 247), (5000, 0)]);
        assert_eq!(tracks.tracks[1].changes, [(0, 500), (5000, 0)]);
        assert_eq!(tracks.tracks[0].unit, "% of 50 GB/s");
        assert_eq!((tracks.busy, tracks.samples), (2, 3));
    }

    #[test]
    fn of_many_links_the_busiest_shared_ones_are_drawn() {
        let gpus = (0..100).map(|i| link(&format!("gpu {i} up"), true));
        let nics = (0..100).map(|i| link(&format!("nic {i} up"), false));
        let mut usage = LinkUsage::new(gpus.chain(nics).collect());
        let rates: Vec<f64> = (0..200).map(|i| if i < 100 { 50e9 } else { f64::from(i) * 1e8 }).collect();
        usage.add(0.0, &rates);
        usage.add(1.0, &[0.0; 200]);
        let tracks = LinkTracks::of(&usage, 1 << 20);
        let expected: Vec<String> = (36..100).map(|i| format!("nic {i} up")).collect();
        assert_eq!(names(&tracks), expected);
        assert_eq!(tracks.busy, 200);
    }

    #[test]
    fn where_only_gpus_have_links_they_are_drawn() {
        let mut usage = LinkUsage::new((0..100).map(|i| link(&format!("gpu {i} up"), true)).collect());
        usage.add(0.0, &[1e9; 100]);
        usage.add(1.0, &[0.0; 100]);
        assert_eq!(LinkTracks::of(&usage, 1 << 20).tracks.len(), MOST_TRACKS);
        assert!(LinkTracks::of(&LinkUsage::new(vec![link("gpu 0 up", true)]), 1 << 20).tracks.is_empty());
    }

    #[test]
    fn no_more_events_than_fit() {
        let mut usage = LinkUsage::new((0..10).map(|i| link(&format!("nic {i} up"), false)).collect());
        (0..2000).for_each(|i| usage.add(f64::from(i), &[f64::from(i) * 1e7; 10]));
        for bytes in [10_000, 100_000, 1_000_000] {
            let events: usize = LinkTracks::of(&usage, bytes).tracks.iter().map(|t| t.changes.len()).sum();
            assert!(
                events as u64 * EVENT_BYTES <= bytes && events as u64 * EVENT_BYTES > bytes / 8,
                "{events}"
            );
        }
    }
}
