//! What is looked at when fitted constants change: Qwen3-MoE on 32 GPUs, one iteration, because it costs a fourth of 64.

use super::super::Bench;
use super::super::sensitivity::{Result, Subject};

/// The scenario.
const SCENARIO: &str = "zipccl-qwen3.toml";

/// Speedup of iterations and All-to-Alls over NCCL, and of All-to-Alls over design 1.
pub(in super::super) const SUBJECT: Subject =
    Subject { scenario: SCENARIO, results: &["iteration", "All-to-All", "design 1 / 2"], measure };

fn measure(bench: &Bench<'_>, sets: &[String]) -> Result<Vec<f64>> {
    let fixed = ["cluster.nodes=4", "iterations=1"].map(str::to_owned);
    let simulated = bench.simulate(SCENARIO, &[&fixed[..], sets].concat())?;
    let after = simulated.calls_s("static-first")?;
    Ok(vec![
        simulated.iteration_s("native")? / simulated.iteration_s("static-first")?,
        simulated.calls_s("native")? / after,
        simulated.calls_s("size-first")? / after,
    ])
}
