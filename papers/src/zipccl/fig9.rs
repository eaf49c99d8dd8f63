//! Fig. 9, and the H800 results at the end of its section: whole iterations, NCCL over ZipCCL.

use super::super::figure::{Figure, Measurement, Ours};
use super::super::{Bench, ReproduceError};
use super::training::{NATIVE_AND_ZIPPED, NATIVE_AND_ZIPPED_CALLS, Pair, Run, iteration};

pub(super) const FIGURE: Figure = Figure {
    measurements: &[
        Measurement::of("fig9-deepseek-16", |bench| gain(bench, Run::DeepSeek(2), NATIVE_AND_ZIPPED)),
        Measurement::of("fig9-deepseek-64", |bench| gain(bench, Run::DeepSeek(8), NATIVE_AND_ZIPPED)),
        Measurement::of("fig9-qwen3-16", |bench| gain(bench, Run::Qwen3(2), NATIVE_AND_ZIPPED)),
        Measurement::of("fig9-qwen3-32", |bench| gain(bench, Run::Qwen3(4), NATIVE_AND_ZIPPED)),
        Measurement::of("fig9-qwen3-64", |bench| gain(bench, Run::Qwen3(8), NATIVE_AND_ZIPPED)),
        Measurement::of("fig9-llama3-16", |bench| gain(bench, Run::Llama3(2), NATIVE_AND_ZIPPED_CALLS)),
        Measurement::of("fig9-llama3-32", |bench| gain(bench, Run::Llama3(4), NATIVE_AND_ZIPPED_CALLS)),
        Measurement::of("fig9-llama3-64", |bench| gain(bench, Run::Llama3(8), NATIVE_AND_ZIPPED_CALLS)),
        Measurement::of("h800-qwen3", |bench| gain(bench, Run::Qwen3H800, NATIVE_AND_ZIPPED)),
        Measurement::of("h800-llama3", |bench| gain(bench, Run::Llama3H800, NATIVE_AND_ZIPPED_CALLS)),
    ],
    curves: &[],
};

fn gain(bench: &Bench<'_>, run: Run, pair: Pair) -> Result<Ours, ReproduceError> {
    Ok(iteration(bench, run, pair)?.into())
}
