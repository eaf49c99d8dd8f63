//! Fig. 10: the All-to-Alls of an iteration, NCCL over ZipCCL.

use super::super::figure::{Figure, Measurement};
use super::training::{NATIVE_AND_ZIPPED, Run, calls, deepseek};

pub(super) const FIGURE: Figure = Figure {
    measurements: &[
        Measurement::of("fig10-deepseek-16", |bench| deepseek(bench, calls, 2)),
        Measurement::of("fig10-deepseek-64", |bench| deepseek(bench, calls, 8)),
        Measurement::of("fig10-qwen3-16", |bench| Ok(calls(bench, Run::Qwen3(2), NATIVE_AND_ZIPPED)?.into())),
        Measurement::of("fig10-qwen3-32", |bench| Ok(calls(bench, Run::Qwen3(4), NATIVE_AND_ZIPPED)?.into())),
        Measurement::of("fig10-qwen3-64", |bench| Ok(calls(bench, Run::Qwen3(8), NATIVE_AND_ZIPPED)?.into())),
    ],
    curves: &[],
};
