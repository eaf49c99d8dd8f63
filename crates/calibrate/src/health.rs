//! Health checks of a series before anything is fitted to it.

use zipwire_cluster::library::LibraryModel;

use crate::series::Series;

/// Below this share of what GPUs and NICs of the kind give, at the largest size, a run is called slow.
const SLOW: f64 = 0.65;
/// Below this share of the less of both neighbours, a size is called a dip.
const DIP: f64 = 0.7;
/// Above this spread of rows of one size, in the middle over sizes, a run is called noisy.
const NOISY: f64 = 0.1;

/// Notes on a series, against a model of healthy hardware of its kind.
pub fn check(series: &Series, healthy: &LibraryModel) -> Vec<String> {
    let mut notes = Vec::new();
    let mut note = |text: String| notes.push(format!("{} ({}): {text}", series.name(), series.file));
    let buses: Vec<f64> = series.points.iter().map(|point| series.bus(point.bytes, point.seconds)).collect();
    if let Some((last, reached, expected)) = slow(series, healthy) {
        note(format!(
            "slow: {:.1} GB/s of bus bandwidth at {}, where hardware of this kind gives about {:.1}; look at the network's \
             plugin, GPUDirect RDMA and the NICs in use before this run is relied on",
            reached / 1e9,
            size(last),
            expected / 1e9
        ));
    }
    for (index, window) in buses.windows(3).enumerate() {
        let (before, at, after) = (window[0], window[1], window[2]);
        if at < DIP * before.min(after) {
            note(format!(
                "dip: {:.2} GB/s of bus bandwidth at {}, between {:.2} and {:.2} at the sizes beside it",
                at / 1e9,
                size(series.points[index + 1].bytes),
                before / 1e9,
                after / 1e9
            ));
        }
    }
    let scatter = series.scatter(0);
    if scatter > NOISY {
        note(format!(
            "noisy: rows of the same size are {:.0} % apart, in the middle over sizes",
            100.0 * scatter
        ));
    }
    notes
}

/// Whether a series is slow at its largest size, for hardware of its kind.
pub(crate) fn is_slow(series: &Series, healthy: &LibraryModel) -> bool {
    slow(series, healthy).is_some()
}

/// The largest size, and the bus bandwidths that it reached and should have, if that is slow.
fn slow(series: &Series, healthy: &LibraryModel) -> Option<(u64, f64, f64)> {
    let last = series.points.last()?;
    let cost = healthy.cost(series.operation, series.ranks());
    let expected = series.bus(last.bytes, cost.seconds(last.bytes as f64));
    let reached = series.bus(last.bytes, last.seconds);
    (reached < SLOW * expected).then_some((last.bytes, reached, expected))
}

/// A size with the largest unit that it is one of at least.
pub(crate) fn size(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let unit = units.into_iter().find(|(shift, _)| bytes >= 1 << shift);
    unit.map_or(format!("{bytes} B"), |(shift, name)| {
        let number = bytes as f64 / f64::from(1_u32 << shift);
        if number.fract() == 0.0 { format!("{number} {name}") } else { format!("{number:.2} {name}") }
    })
}
