//! Errors of a model against measurements.

use zipwire_cluster::library::{Hardware, LibraryModel};

use crate::series::Series;

/// Bytes from which bandwidth matters, and below which latency does: 32 MiB.
pub const LARGE_BYTES: u64 = 32 << 20;

/// How well a series is met.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Score {
    /// Mean of how far bus bandwidth is off, as a share of the measured one, over sizes of 32 MiB and more; none if there are none.
    pub large: Option<f64>,
    /// Largest of these errors.
    pub worst_large: Option<f64>,
    /// Largest factor between modelled and measured time, either way, over sizes below 32 MiB; none if there are none.
    pub worst_small: Option<f64>,
}

/// Holds a model against a series that ran on `model`'s hardware.
pub fn score(series: &Series, model: &LibraryModel) -> Score {
    let cost = model.cost(series.operation, series.ranks());
    let mut score = Score::default();
    let mut large = Vec::new();
    for point in &series.points {
        let modelled = cost.seconds(point.bytes as f64);
        if point.bytes >= LARGE_BYTES {
            large.push((point.seconds / modelled - 1.0).abs());
        } else {
            let factor = (modelled / point.seconds).max(point.seconds / modelled);
            score.worst_small = Some(score.worst_small.map_or(factor, |worst: f64| worst.max(factor)));
        }
    }
    if !large.is_empty() {
        score.large = Some(large.iter().sum::<f64>() / large.len() as f64);
        score.worst_large = large.iter().copied().reduce(f64::max);
    }
    score
}

/// The model of a series' hardware.
pub(crate) fn model(hardware: Hardware, constants: zipwire_cluster::library::Constants) -> LibraryModel {
    LibraryModel { hardware, constants }
}
