//! Fig. 9, and the H800 results at the end of its section: whole iterations, NCCL over ZipCCL.

use super::super::figure::{Figure, Measurement, Ours};
use super::super::{Bench, ReproduceError};
use super::training::{
    NATIVE_AND_ZIPPED, NATIVE_AND_ZIPPED_CALLS, NATIVE_AND_ZIPPED_SUMS, Pair, Run, deepseek, iteration,
};

pub(super) const FIGURE: Figure = Figure {
    measurements: &[
        Measurement::of("fig9-deepseek-16", |bench| deepseek(bench, iteration, 2)),
        Measurement::of("fig9-deepseek-64", |bench| deepseek(bench, iteration, 8)),
        Measurement::of("fig9-qwen3-16", |bench| gain(bench, Run::Qwen3(2), NATIVE_AND_ZIPPED)),
        Measurement::of("fig9-qwen3-32", |bench| gain(bench, Run::Qwen3(4), NATIVE_AND_ZIPPED)),
        Measurement::of("fig9-qwen3-64", |bench| gain(bench, Run::Qwen3(8), NATIVE_AND_ZIPPED)),
        Measurement::of("fig9-llama3-16", |bench| llama3(bench, 2)),
        Measurement::of("fig9-llama3-32", |bench| llama3(bench, 4)),
        Measurement::of("fig9-llama3-64", |bench| llama3(bench, 8)),
        Measurement::of("h800-qwen3", |bench| gain(bench, Run::Qwen3H800, NATIVE_AND_ZIPPED)),
        Measurement::of("h800-llama3", |bench| gain(bench, Run::Llama3H800, NATIVE_AND_ZIPPED_CALLS)),
    ],
    curves: &[],
};

/// Sec. 6.3 has native sums of gradients, and Fig. 15 zipped ones on the same clusters: both cannot be of one system.
fn llama3(bench: &Bench<'_>, nodes: u32) -> Result<Ours, ReproduceError> {
    let run = Run::Llama3(nodes);
    let zipped = iteration(bench, run, NATIVE_AND_ZIPPED_SUMS)?;
    let note = format!(
        "native Reduce-Scatters, as in sec. 6.3; {zipped:.3} with the zipped ones that Fig. 15 has here"
    );
    Ok(Ours::with(iteration(bench, run, NATIVE_AND_ZIPPED_CALLS)?, note))
}

fn gain(bench: &Bench<'_>, run: Run, pair: Pair) -> Result<Ours, ReproduceError> {
    Ok(iteration(bench, run, pair)?.into())
}
