//! All-Gathers and All-to-Alls alone: those of Llama 3 8B in Fig. 10, and Fig. 13.

use super::super::figure::{Figure, Measurement, Ours};
use super::super::{Bench, Curve, PublishedLevel, ReproduceError};
use super::training::{NATIVE_AND_ZIPPED_CALLS, NODES};

/// Fig. 10, Llama 3 8B. The text says that its All-Gathers were measured on their own, with their coding (sec. 6.4).
pub(super) const LAYERS: Figure = Figure {
    measurements: &[
        Measurement::of("fig10-llama3-16", |bench| Ok(layer(bench, 2)?.into())),
        Measurement::of("fig10-llama3-32", |bench| Ok(layer(bench, 4)?.into())),
        Measurement::of("fig10-llama3-64", |bench| Ok(layer(bench, 8)?.into())),
    ],
    curves: &[],
};

/// Fig. 13, of which the text has one mean over sizes and GPU counts for each collective, and neither.
pub(super) const FIGURE: Figure = Figure {
    measurements: &[
        Measurement::of("fig13-all-to-all", |bench| mean(bench, speedup_of_all_to_all)),
        Measurement::of("fig13-all-gather", |bench| mean(bench, speedup_of_all_gather)),
        Measurement::of("fig13-all-to-all-small", |bench| {
            Ok(mean_of(bench, speedup_of_all_to_all, SMALL)?.into())
        }),
        Measurement::of("fig13-all-gather-small", |bench| {
            Ok(mean_of(bench, speedup_of_all_gather, SMALL)?.into())
        }),
    ],
    curves: &[by_size, by_least_size],
};

/// Bytes of a layer of Llama 3 8B, parameters or gradients, in BF16.
pub(super) const LAYER_BYTES: u64 = 2 * 218_112_000;
/// GPUs of a node.
const GPUS: u32 = 8;

/// Mebibytes of a buffer: what a rank has for an All-to-All, and what it ends up with in an All-Gather.
const SIZES_MIB: [u32; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];

/// What counts as small.
const SMALL: &[u32] = &[SIZES_MIB[0]];

/// NCCL over ZipCCL, for so many mebibytes on so many nodes.
type Speedup = fn(&Bench<'_>, u32, u32) -> Result<f64, ReproduceError>;

fn layer(bench: &Bench<'_>, nodes: u32) -> Result<f64, ReproduceError> {
    all_gather(bench, nodes, LAYER_BYTES)
}

/// Of an All-Gather of so many bytes.
fn all_gather(bench: &Bench<'_>, nodes: u32, bytes: u64) -> Result<f64, ReproduceError> {
    let shard = bytes / u64::from(GPUS * nodes);
    speedup(bench, "zipccl-all-gather.toml", nodes, shard)
}

fn speedup_of_all_gather(bench: &Bench<'_>, nodes: u32, mebibytes: u32) -> Result<f64, ReproduceError> {
    all_gather(bench, nodes, u64::from(mebibytes) << 20)
}

fn speedup_of_all_to_all(bench: &Bench<'_>, nodes: u32, mebibytes: u32) -> Result<f64, ReproduceError> {
    speedup(bench, "zipccl-all-to-all.toml", nodes, u64::from(mebibytes) << 20)
}

fn speedup(bench: &Bench<'_>, scenario: &str, nodes: u32, bytes: u64) -> Result<f64, ReproduceError> {
    let sets = [format!("cluster.nodes={nodes}"), format!("workload.bytes_per_rank={bytes} B")];
    NATIVE_AND_ZIPPED_CALLS.speedup(&*bench.simulate(scenario, &sets)?)
}

/// The mean over all GPU counts and these sizes, in mebibytes.
fn mean_of(bench: &Bench<'_>, of: Speedup, sizes: &[u32]) -> Result<f64, ReproduceError> {
    let mut sum = 0.0;
    for nodes in NODES {
        for mebibytes in sizes {
            sum += of(bench, nodes, *mebibytes)?;
        }
    }
    Ok(sum / (NODES.len() * sizes.len()) as f64)
}

/// Over all sizes, and what it would be over the largest alone, because the text gives no sizes.
fn mean(bench: &Bench<'_>, of: Speedup) -> Result<Ours, ReproduceError> {
    let [all, largest] =
        [&SIZES_MIB[..], &SIZES_MIB[SIZES_MIB.len() - 1..]].map(|sizes| mean_of(bench, of, sizes));
    let note = format!(
        "powers of two from 1 MiB to 1 GiB on 16, 32 and 64 GPUs, because the text gives no sizes; {:.3} at 1 GiB alone, the most of any \
         choice",
        largest?
    );
    Ok(Ours::with(all?, note))
}

fn by_size(bench: &Bench<'_>) -> Result<Curve, ReproduceError> {
    let point = |mebibytes: u32| {
        let mut point = vec![f64::from(mebibytes)];
        for of in [speedup_of_all_to_all, speedup_of_all_gather] {
            for nodes in [2, 8] {
                point.push(of(bench, nodes, mebibytes)?);
            }
        }
        Ok(point)
    };
    Ok(Curve {
        name: "Fig. 13 by size",
        title: "Fig. 13: NCCL over ZipCCL, by the size of a rank's buffer; the text has means over sizes that it does not give",
        columns: &[
            "MiB",
            "All-to-All, 16 GPUs",
            "All-to-All, 64 GPUs",
            "All-Gather, 16 GPUs",
            "All-Gather, 64 GPUs",
        ],
        axes: ["buffer of a rank, MiB", "NCCL over ZipCCL, x"],
        groups: &[],
        published: MEANS,
        points: SIZES_MIB.into_iter().map(point).collect::<Result<_, ReproduceError>>()?,
        ranges: None,
    })
}

/// Means over sizes that the text does not give.
const MEANS: &[PublishedLevel] = &[
    PublishedLevel::of("fig13-all-to-all", "published mean: All-to-All", None),
    PublishedLevel::of("fig13-all-gather", "published mean: All-Gather", None),
];

fn by_least_size(bench: &Bench<'_>) -> Result<Curve, ReproduceError> {
    let point = |(from, mebibytes): (usize, u32)| {
        let [to_all, gather] =
            [speedup_of_all_to_all, speedup_of_all_gather].map(|of| mean_of(bench, of, &SIZES_MIB[from..]));
        Ok(vec![f64::from(mebibytes), to_all?, gather?])
    };
    Ok(Curve {
        name: "Fig. 13 by least size",
        title: "Fig. 13: mean of 16, 32 and 64 GPUs and of all powers of two from this size to 1 GiB",
        columns: &["from MiB", "All-to-All", "All-Gather"],
        axes: ["least buffer of a rank in the mean, MiB", "NCCL over ZipCCL, x"],
        groups: &[],
        published: const {
            &[
                PublishedLevel::of("fig13-all-to-all", "published mean: All-to-All", Some(1)),
                PublishedLevel::of("fig13-all-gather", "published mean: All-Gather", Some(2)),
            ]
        },
        points: SIZES_MIB.into_iter().enumerate().map(point).collect::<Result<_, ReproduceError>>()?,
        ranges: None,
    })
}
