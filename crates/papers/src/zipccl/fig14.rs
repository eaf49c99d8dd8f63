//! Fig. 14: design 1 over design 2 of the zipped All-to-All.

use super::super::figure::{Figure, Measurement};
use super::super::{Bench, Curve, PublishedLevel, ReproduceError};
use super::training::{DESIGNS, NATIVE_AND_DESIGN_1, NODES, Run, calls, extreme, iteration};

pub(super) const FIGURE: Figure = Figure {
    measurements: &[
        Measurement::of("fig14-iteration-least", |bench| {
            extreme(bench, iteration, DESIGNS, |new, best| new < best)
        }),
        Measurement::of("fig14-iteration-most", |bench| {
            extreme(bench, iteration, DESIGNS, |new, best| new > best)
        }),
        Measurement::of("fig14-all-to-all-least", |bench| {
            extreme(bench, calls, DESIGNS, |new, best| new < best)
        }),
        Measurement::of("fig14-all-to-all-most", |bench| {
            extreme(bench, calls, DESIGNS, |new, best| new > best)
        }),
        Measurement::of("fig14-all-to-all-64", |bench| Ok(calls(bench, Run::Qwen3(8), DESIGNS)?.into())),
        Measurement::of("fig14-native-iteration", |bench| {
            extreme(bench, iteration, NATIVE_AND_DESIGN_1, |new, best| new > best)
        }),
        Measurement::of("fig14-native-all-to-all", |bench| {
            extreme(bench, calls, NATIVE_AND_DESIGN_1, |new, best| new > best)
        }),
    ],
    curves: &[by_gpus],
};

/// All GPU counts, of which the text gives the range only.
fn by_gpus(bench: &Bench<'_>) -> Result<Curve, ReproduceError> {
    let point = |nodes: u32| {
        let run = Run::Qwen3(nodes);
        Ok(vec![f64::from(8 * nodes), iteration(bench, run, DESIGNS)?, calls(bench, run, DESIGNS)?])
    };
    Ok(Curve {
        name: "Fig. 14 by GPUs",
        title: "Fig. 14, Qwen3-MoE: design 1 over design 2, simulated; the text has the range over all GPU counts",
        columns: &["GPUs", "iteration", "All-to-All"],
        axes: ["GPUs", "design 1 over design 2, x"],
        groups: &[],
        published: const {
            &[
                PublishedLevel::of("fig14-iteration-least", "published: iteration, least", Some(1)),
                PublishedLevel::of("fig14-iteration-most", "published: iteration, most", Some(1)),
                PublishedLevel::of("fig14-all-to-all-least", "published: All-to-All, least", Some(2)),
                PublishedLevel::of("fig14-all-to-all-most", "published: All-to-All, most", Some(2)),
            ]
        },
        points: NODES.into_iter().map(point).collect::<Result<_, ReproduceError>>()?,
        ranges: None,
    })
}
