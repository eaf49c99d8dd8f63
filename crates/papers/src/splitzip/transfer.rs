//! Fig. 3: the transfer of a BF16 cache, simulated.

use super::super::figure::{Figure, Measurement, Ours};
use super::super::{Bench, Curve, PublishedLevel, ReproduceError};

/// The scenario.
const SCENARIO: &str = "splitzip-transfer.toml";

/// Links that the curve has, in GB/s: 100 Gb/s to 3200 Gb/s.
const LINKS: [f64; 6] = [12.5, 25.0, 50.0, 100.0, 200.0, 400.0];

pub(super) const FIGURE: Figure = Figure {
    measurements: &[Measurement::of("fig3-transfer", |bench| {
        let [pipelined, sequential] = speedups(bench, &[])?;
        Ok(Ours::with(pipelined, format!("in chunks; {sequential:.3} in one piece")))
    })],
    curves: &[by_link],
};

/// Raw over coded time, coded in chunks and in one piece.
pub(super) fn speedups(bench: &Bench<'_>, sets: &[String]) -> Result<[f64; 2], ReproduceError> {
    let simulated = bench.simulate(SCENARIO, sets)?;
    let raw = simulated.iteration_s("raw")?;
    Ok([raw / simulated.iteration_s("pipelined")?, raw / simulated.iteration_s("sequential")?])
}

/// What the link, of which the text says nothing, has to do with it.
fn by_link(bench: &Bench<'_>) -> Result<Curve, ReproduceError> {
    let point = |link: f64| {
        let sets = ["gpu_bandwidth", "nic_bandwidth"].map(|key| format!("cluster.{key}={link} GB/s"));
        let [pipelined, sequential] = speedups(bench, &sets)?;
        Ok(vec![link, pipelined, sequential])
    };
    Ok(Curve {
        name: "speedup by link",
        title: "transfer, raw over SplitZip, simulated; as a function of the link, which the text does not name",
        columns: &["GB/s", "in chunks", "in one piece"],
        axes: ["bandwidth of the link, GB/s", "transfer, raw over SplitZip, x"],
        groups: &[],
        published: const { &[PublishedLevel::of("fig3-transfer", "published, at most", None)] },
        points: LINKS.into_iter().map(point).collect::<Result<_, ReproduceError>>()?,
        ranges: None,
    })
}
