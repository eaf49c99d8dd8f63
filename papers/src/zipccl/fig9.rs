//! Fig. 9, and the H800 results at the end of its section: whole iterations, NCCL over ZipCCL.

use super::super::figure::{Figure, Measurement};
use super::training::{NATIVE_AND_ZIPPED, NATIVE_AND_ZIPPED_CALLS, Run, iteration};

pub(super) const FIGURE: Figure = Figure {
    measurements: &[
        Measurement {
            id: "fig9-deepseek-16",
            measure: |bench| Ok(iteration(bench, Run::DeepSeek(2), NATIVE_AND_ZIPPED)?.into()),
        },
        Measurement {
            id: "fig9-deepseek-64",
            measure: |bench| Ok(iteration(bench, Run::DeepSeek(8), NATIVE_AND_ZIPPED)?.into()),
        },
        Measurement {
            id: "fig9-qwen3-16",
            measure: |bench| Ok(iteration(bench, Run::Qwen3(2), NATIVE_AND_ZIPPED)?.into()),
        },
        Measurement {
            id: "fig9-qwen3-32",
            measure: |bench| Ok(iteration(bench, Run::Qwen3(4), NATIVE_AND_ZIPPED)?.into()),
        },
        Measurement {
            id: "fig9-qwen3-64",
            measure: |bench| Ok(iteration(bench, Run::Qwen3(8), NATIVE_AND_ZIPPED)?.into()),
        },
        Measurement {
            id: "fig9-llama3-16",
            measure: |bench| Ok(iteration(bench, Run::Llama3(2), NATIVE_AND_ZIPPED_CALLS)?.into()),
        },
        Measurement {
            id: "fig9-llama3-32",
            measure: |bench| Ok(iteration(bench, Run::Llama3(4), NATIVE_AND_ZIPPED_CALLS)?.into()),
        },
        Measurement {
            id: "fig9-llama3-64",
            measure: |bench| Ok(iteration(bench, Run::Llama3(8), NATIVE_AND_ZIPPED_CALLS)?.into()),
        },
        Measurement {
            id: "h800-qwen3",
            measure: |bench| Ok(iteration(bench, Run::Qwen3H800, NATIVE_AND_ZIPPED)?.into()),
        },
        Measurement {
            id: "h800-llama3",
            measure: |bench| Ok(iteration(bench, Run::Llama3H800, NATIVE_AND_ZIPPED_CALLS)?.into()),
        },
    ],
    curves: &[],
};
