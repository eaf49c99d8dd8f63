//! Speedups of training iterations, for the figures that have them.

use std::rc::Rc;

use super::super::bench::Simulated;
use super::super::figure::Ours;
use super::super::{Bench, ReproduceError};

/// A model on a cluster.
#[derive(Clone, Copy, Debug)]
pub(super) enum Run {
    /// DeepSeek-V3 on so many nodes of eight A6000.
    DeepSeek(u32),
    /// The same of expert layers alone, without dense ones and without a vocabulary.
    DeepSeekExperts(u32),
    /// Qwen3-MoE on so many nodes of eight A6000.
    Qwen3(u32),
    /// Llama 3 8B on so many nodes of eight A6000.
    Llama3(u32),
    /// Qwen3-MoE on 16 H800.
    Qwen3H800,
    /// Llama 3 8B on 16 H800.
    Llama3H800,
}

/// Nodes of eight A6000 on which figures have Qwen3-MoE, Llama 3 8B and calls alone.
pub(super) const NODES: [u32; 3] = [2, 4, 8];

/// The variants of which times are compared.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    before: &'static str,
    after: &'static str,
}

/// NCCL and ZipCCL.
pub(super) const NATIVE_AND_ZIPPED: Pair = Pair { before: "native", after: "static-first" };
/// NCCL and ZipCCL, where the first one's collectives are calls of the library.
pub(super) const NATIVE_AND_ZIPPED_CALLS: Pair = Pair { before: "native", after: "zipped" };
/// NCCL and ZipCCL, which sums its gradients zipped, too.
pub(super) const NATIVE_AND_ZIPPED_SUMS: Pair = Pair { before: "native", after: "zipped-sums" };
/// NCCL and design 1 of the zipped All-to-All.
pub(super) const NATIVE_AND_DESIGN_1: Pair = Pair { before: "native", after: "size-first" };
/// Designs 1 and 2 of the zipped All-to-All.
pub(super) const DESIGNS: Pair = Pair { before: "size-first", after: "static-first" };

impl Pair {
    /// Time of an iteration before over after.
    pub(super) fn speedup(self, simulated: &Simulated) -> Result<f64, ReproduceError> {
        Ok(simulated.iteration_s(self.before)? / simulated.iteration_s(self.after)?)
    }
}

/// Time of an iteration before over after.
pub(super) fn iteration(bench: &Bench<'_>, run: Run, pair: Pair) -> Result<f64, ReproduceError> {
    pair.speedup(&*run.simulate(bench)?)
}

/// Time of all All-to-Alls of an iteration, before over after.
pub(super) fn calls(bench: &Bench<'_>, run: Run, pair: Pair) -> Result<f64, ReproduceError> {
    let simulated = run.simulate(bench)?;
    Ok(simulated.calls_s(pair.before)? / simulated.calls_s(pair.after)?)
}

/// A speedup of a run: [`iteration`] or [`calls`].
pub(super) type Speedup = fn(&Bench<'_>, Run, Pair) -> Result<f64, ReproduceError>;

/// Of DeepSeek-V3 on so many nodes, and what it would be of expert layers alone.
pub(super) fn deepseek(bench: &Bench<'_>, speedup: Speedup, nodes: u32) -> Result<Ours, ReproduceError> {
    let [whole, cut] = [Run::DeepSeek(nodes), Run::DeepSeekExperts(nodes)];
    let note = format!(
        "{:.3} with four expert layers, no dense ones and no vocabulary: the text says four layers, and not which",
        speedup(bench, cut, NATIVE_AND_ZIPPED)?
    );
    Ok(Ours::with(speedup(bench, whole, NATIVE_AND_ZIPPED)?, note))
}

/// The least or the most of the GPU counts of Qwen3-MoE, and on how many GPUs that is.
pub(super) fn extreme(
    bench: &Bench<'_>,
    measure: Speedup,
    pair: Pair,
    pick: fn(f64, f64) -> bool,
) -> Result<Ours, ReproduceError> {
    let mut found: Option<(f64, u32)> = None;
    for nodes in NODES {
        let value = measure(bench, Run::Qwen3(nodes), pair)?;
        if found.is_none_or(|(best, _)| pick(value, best)) {
            found = Some((value, nodes));
        }
    }
    let (value, nodes) = found.expect("there are GPU counts");
    Ok(Ours::with(value, format!("on {} GPUs", 8 * nodes)))
}

impl Run {
    fn simulate(self, bench: &Bench<'_>) -> Result<Rc<Simulated>, ReproduceError> {
        let nodes = |nodes: u32| [format!("cluster.nodes={nodes}")];
        match self {
            Self::DeepSeek(count) => bench.simulate("zipccl-deepseek.toml", &nodes(count)),
            Self::DeepSeekExperts(count) => {
                let cut = ["workload.model.dense_layers=0", "workload.model.vocabulary=0"].map(str::to_owned);
                bench.simulate("zipccl-deepseek.toml", &[&nodes(count)[..], &cut].concat())
            }
            Self::Qwen3(count) => bench.simulate("zipccl-qwen3.toml", &nodes(count)),
            Self::Llama3(count) => bench.simulate("zipccl-llama3.toml", &nodes(count)),
            Self::Qwen3H800 => bench.simulate("zipccl-h800-qwen3.toml", &[]),
            Self::Llama3H800 => bench.simulate("zipccl-h800-llama3.toml", &[]),
        }
    }
}
