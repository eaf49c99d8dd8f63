//! Iterations that cannot be: the first line of the message.

use crate::common::error;
use crate::training::iteration::{MODEL, TIMES, moe, training};

#[test]
fn wrong_iterations_are_refused() {
    let message = |text: &str| error(text, &[]).lines().next().unwrap().to_owned();
    for (text, expected) in [
        (
            training("moe-training", "model = \"llama3-8b\"\nrouting = \"uniform\"", TIMES),
            "error: unknown model `llama3-8b`",
        ),
        (
            moe("routing = \"uniform\"\nmicro_batch = 1000000"),
            "error: `tokens of a rank in a micro-batch` is out of range: `32000000`",
        ),
        (
            training("moe-training", &format!("{MODEL}\nrouting = \"uniform\""), "dense = \"1 TFLOP/s\""),
            "error: `compute` needs exactly one of `expert_gemm` and `expert`, found none",
        ),
        (
            training(
                "moe-training",
                &format!("{MODEL}\nrouting = \"uniform\""),
                &format!("{TIMES}\nfloor_forward = \"1 us\""),
            ),
            "error: `compute.floor_forward` has no effect: the time of a layer is given",
        ),
        (
            training("fsdp", "model = \"llama3-8b\"", "dense = \"60 GB/s\""),
            "error: `compute.dense` is a number of operations per second, and `GB/s` is no unit of that",
        ),
        (
            training("fsdp", "model = { preset = \"deepseek-v3\", layers = 2 }", "layer = \"1 ms\""),
            "error: `workload.model.dense_layers` is out of range: `3`",
        ),
        (
            training("fsdp", "model = { preset = \"deepseek-v3\", head_size = 2 }", "layer = \"1 ms\""),
            "error: `workload.model.head_size` has no effect: the latent attention of this preset has sizes of its own",
        ),
        (
            training("fsdp", "model = { layers = 1, hidden = 64, heads = 4 }", "layer = \"1 ms\""),
            "error: missing key `intermediate` in `workload.model`",
        ),
        (
            moe("routing = \"uniform\"").replace("top_k = 2", "top_k = 9"),
            "error: a token cannot go to `9` of `8` experts",
        ),
        (
            moe("routing = { zipf = 1.0, groups = 3, top_groups = 1 }"),
            "error: `workload.routing.groups` is out of range: `3`",
        ),
        (
            moe("routing = { zipf = 1.0, groups = 8, top_groups = 1 }"),
            "error: `workload.routing.top_groups` is out of range: `1`",
        ),
        (
            moe("routing = { zipf = 1.0, groups = 4 }"),
            "error: missing key `top_groups` in `workload.routing`",
        ),
        (
            moe("routing = { trace = \"t.csv\", groups = 4, top_groups = 1 }"),
            "error: `workload.routing.groups` has no effect: a recording says what its gate chose",
        ),
        (
            moe("routing = { dirichlet = 1.0 }\nsequence = 16777216\nmicro_batches = 2\ntokens = \"shared\"")
                .replace("sequence = 32\n", ""),
            "error: `token copies of all ranks and calls` is out of range: `536870912`",
        ),
        (
            moe("routing = \"uniform\"")
                .replace("layers = 2", "layers = 2, dense_layers = 2, intermediate = 9"),
            "error: `workload.model.dense_layers` is out of range: `2`",
        ),
    ] {
        assert_eq!(message(&text), expected);
    }
}
