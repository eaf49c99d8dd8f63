//! ZipCCL: means over sizes of collectives (Fig. 13), extremes over GPU counts (Fig. 14), exponents of tensors (Fig. 16) and of normal
//! distributions.

use libm::exp2;
use serde::Deserialize;
use zipwire_codec::{DType, FrameShape, Layout, Spec};
use zipwire_paper_codecs::scale::gaussian::{Choice, bits, coverage, start};

use crate::measure::{Ours, Speedup};
use crate::samples::{Bits, Counts};
use crate::{Bench, ReproduceError};

/// Half of the layers: all layers are alike, and what a constant changes in one of them it changes in all.
pub(super) const SHORTER: &[(&str, &str)] =
    &[("zipccl-qwen3.toml", "workload.model.layers=8"), ("zipccl-llama3.toml", "workload.model.layers=16")];

/// Bytes of a layer of Llama 3 8B, parameters or gradients, in BF16.
pub(super) const LAYER_BYTES: u64 = 2 * 218_112_000;
/// Nodes of eight A6000 on which figures have Qwen3-MoE, Llama 3 8B and calls alone.
const NODES: [u32; 3] = [2, 4, 8];
/// GPUs of a node.
const GPUS: u32 = 8;
/// Mebibytes of a buffer: what a rank has for an All-to-All, and what it ends up with in an All-Gather.
const SIZES_MIB: [u32; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
/// Values of a frame whose static section is measured.
const FRAME_VALUES: usize = 1 << 24;
/// Exponents of a window.
const WINDOW: usize = 7;
/// Points of an octave, which is the period of coverage in sigma.
const OCTAVE: u32 = 8;

/// A collective that Fig. 13 measures alone.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Collective {
    AllToAll,
    AllGather,
}

impl Collective {
    /// Time of NCCL over that of ZipCCL, for a buffer of so many mebibytes on so many nodes.
    fn speedup(self, bench: &Bench<'_>, nodes: u32, mebibytes: u32) -> Result<f64, ReproduceError> {
        let bytes = u64::from(mebibytes) << 20;
        let (scenario, bytes) = match self {
            Self::AllToAll => ("zipccl-all-to-all.toml", bytes),
            Self::AllGather => ("zipccl-all-gather.toml", bytes / u64::from(GPUS * nodes)),
        };
        let sets = [format!("cluster.nodes={nodes}"), format!("workload.bytes_per_rank={bytes} B")];
        let simulated = bench.simulate(scenario, &sets)?;
        Ok(simulated.iteration_s("native")? / simulated.iteration_s("zipped")?)
    }

    /// Mean speedup over all GPU counts and these sizes, in mebibytes.
    fn mean(self, bench: &Bench<'_>, sizes: &[u32]) -> Result<f64, ReproduceError> {
        let mut sum = 0.0;
        for nodes in NODES {
            for mebibytes in sizes {
                sum += self.speedup(bench, nodes, *mebibytes)?;
            }
        }
        Ok(sum / (NODES.len() * sizes.len()) as f64)
    }
}

/// Mean over all sizes, and what it would be over the largest alone, because the text gives no sizes.
pub(super) fn mean_over_sizes(bench: &Bench<'_>, collective: Collective) -> Result<Ours, ReproduceError> {
    let all = collective.mean(bench, &SIZES_MIB)?;
    let largest = collective.mean(bench, &SIZES_MIB[SIZES_MIB.len() - 1..])?;
    let note = format!(
        "powers of two from 1 MiB to 1 GiB on 16, 32 and 64 GPUs, because the text gives no sizes; {largest:.3} at 1 GiB alone, the most of any \
         choice"
    );
    Ok(Ours::with(all, note))
}

pub(super) fn mean_of_smallest(bench: &Bench<'_>, collective: Collective) -> Result<Ours, ReproduceError> {
    Ok(collective.mean(bench, &SIZES_MIB[..1])?.into())
}

/// Means of both collectives from each size on.
pub(super) fn means_by_least_size(bench: &Bench<'_>) -> Result<Vec<Vec<f64>>, ReproduceError> {
    let point = |(from, mebibytes): (usize, u32)| {
        let [to_all, gather] = [Collective::AllToAll, Collective::AllGather]
            .map(|collective| collective.mean(bench, &SIZES_MIB[from..]));
        Ok(vec![f64::from(mebibytes), to_all?, gather?])
    };
    SIZES_MIB.into_iter().enumerate().map(point).collect()
}

/// The speedup that `pick` prefers over all GPU counts, and on how many GPUs that is.
pub(super) fn extreme(
    bench: &Bench<'_>,
    speedup: &Speedup,
    pick: fn(f64, f64) -> bool,
) -> Result<Ours, ReproduceError> {
    let mut found: Option<(f64, u32)> = None;
    for nodes in NODES {
        let value = speedup.measure(bench, &[format!("cluster.nodes={nodes}")])?;
        if found.is_none_or(|(best, _)| pick(value, best)) {
            found = Some((value, nodes));
        }
    }
    let (value, nodes) = found.expect("there are GPU counts");
    Ok(Ours::with(value, format!("on {} GPUs", GPUS * nodes)))
}

/// Bits per value in the paper's layout that do not depend on the values; our frames also have the index of escapes there.
pub(super) fn fixed_bits() -> Ours {
    zipwire_paper_codecs::register();
    let codec = "window7".parse::<Spec>().expect("the codec is there").codec();
    let shape = FrameShape::new(Layout::Split, DType::Bf16, FRAME_VALUES);
    let ours = 8.0 * codec.static_len(shape) as f64 / FRAME_VALUES as f64;
    Ours::with(bits(1.0), format!("a frame has {ours:.3}, with header, windows and the index of escapes"))
}

/// Closeness of tensors to a normal distribution: the percentage of values with one of seven exponents, 96.97 to 97.87 for a normal
/// distribution.
pub(super) fn seven_exponents(bench: &Bench<'_>, sample: &str) -> Result<Ours, ReproduceError> {
    let tensors = Counts::by_tensor(bench, sample, Bits::Exponent)?;
    let covered: f64 =
        tensors.iter().map(|exponents| exponents.coverage(WINDOW) * exponents.total() as f64).sum();
    let values: u64 = tensors.iter().map(Counts::total).sum();
    let note = format!("{} tensors of `{sample}`, each with seven exponents of its own", tensors.len());
    Ok(Ours::with(100.0 * covered / values as f64, note))
}

/// Percentage of values in the window if its start is rounded by each rule, over an octave of sigma.
pub(super) fn coverage_by_rounding() -> Vec<Vec<f64>> {
    let point = |step: u32| {
        let sigma = exp2(f64::from(step) / f64::from(OCTAVE));
        let covered = |choice| coverage(sigma, start(sigma, choice));
        let percent =
            [Choice::Best, Choice::Round, Choice::Floor, Choice::Ceil].map(|choice| 100.0 * covered(choice));
        [&[sigma][..], &percent].concat()
    };
    (0..OCTAVE).map(point).collect()
}
