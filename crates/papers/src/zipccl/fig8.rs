//! Fig. 8: what a late GPU costs if the others begin without it, and if they wait.

use super::super::figure::{Figure, Measurement, Ours};
use super::super::{Bench, ReproduceError};

/// The scenario, in which x is 1 GB and takes a second.
const SCENARIO: &str = "zipccl-fig8.toml";
/// When the late GPU is ready, in seconds.
const LATE_S: f64 = 4.0;
/// All wait for it.
const ALL_WAIT: &str = r#"workload.start=["4 s", "4 s", "4 s", "4 s"]"#;

pub(super) const FIGURE: Figure = Figure {
    measurements: &[
        Measurement::of("fig8-early", |bench| after(bench, &[])),
        Measurement::of("fig8-waiting", |bench| after(bench, &[ALL_WAIT.to_owned()])),
    ],
    curves: &[],
};

fn after(bench: &Bench<'_>, sets: &[String]) -> Result<Ours, ReproduceError> {
    Ok((bench.simulate(SCENARIO, sets)?.iteration_s("native")? - LATE_S).into())
}
