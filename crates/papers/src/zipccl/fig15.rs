//! Fig. 15: Reduce-Scatters without the adaptive switcher over those with it, on seven clusters.
//!
//! The text leaves open what runs without it. Read as native Reduce-Scatters, which is what the numbers are compared with, parity
//! is where the switcher stays native; the curve has the other reading, too, in which everything is zipped.

use super::super::figure::{Figure, Measurement, Ours};
use super::super::{Bench, Curve, PublishedLevel, ReproduceError};
use super::all_gather::LAYER_BYTES;

pub(super) const FIGURE: Figure = Figure {
    measurements: &[
        Measurement::of("fig15-1", |bench| gain(bench, 0)),
        Measurement::of("fig15-2", |bench| gain(bench, 1)),
        Measurement::of("fig15-3", |bench| gain(bench, 2)),
        Measurement::of("fig15-4", |bench| gain(bench, 3)),
        Measurement::of("fig15-5", |bench| gain(bench, 4)),
        Measurement::of("fig15-6", |bench| gain(bench, 5)),
        Measurement::of("fig15-7", |bench| gain(bench, 6)),
        Measurement::of("fig15-mean", mean),
        Measurement::of("fig15-iteration-least", least_iteration),
    ],
    curves: &[by_configuration],
};

const SCENARIO: &str = "zipccl-reduce-scatter.toml";

/// The All-to-All that formula 7 is profiled with.
const ALL_TO_ALL: &str = "zipccl-all-to-all.toml";

/// What it is in iterations.
const ITERATION: &str = "zipccl-llama3.toml";

/// Nodes, and GPUs of each.
const CONFIGURATIONS: [(u32, u32); 7] = [(1, 8), (2, 8), (4, 8), (8, 8), (8, 1), (8, 2), (8, 4)];
/// What the figure calls them.
const GROUPS: [&str; 7] =
    ["(1) 1 x 8", "(2) 2 x 8", "(3) 4 x 8", "(4) 8 x 8", "(5) 8 x 1", "(6) 8 x 2", "(7) 8 x 4"];

/// Bytes in BF16 of two lengths from which the switcher knows the lines of formulas 6 and 7.
const PROFILED: [u64; 2] = [LAYER_BYTES / 16, LAYER_BYTES / 4];

/// Seconds of a Reduce-Scatter in both ways.
#[derive(Clone, Copy, Debug)]
struct Times {
    /// The library's call. Formula 6 has nothing else: that gradients are widened before it is part of copying them into its buffer.
    native: f64,
    /// The same, and what widening takes.
    widened: f64,
    /// Coding, the All-to-All, decoding and adding up.
    zipped: f64,
}

/// What the figure says of one cluster.
#[derive(Clone, Copy, Debug)]
struct Gains {
    is_zipped: bool,
    over_native: f64,
    over_widened: f64,
    over_zipped: f64,
}

fn times(bench: &Bench<'_>, (nodes, gpus): (u32, u32), bytes: u64) -> Result<Times, ReproduceError> {
    let sets = [
        format!("cluster.nodes={nodes}"),
        format!("cluster.gpus_per_node={gpus}"),
        format!("workload.bytes_per_rank={bytes} B"),
    ];
    let simulated = bench.simulate(SCENARIO, &sets)?;
    Ok(Times {
        native: simulated.moving_s("native")?,
        widened: simulated.iteration_s("native")?,
        zipped: simulated.iteration_s("zipped")?,
    })
}

/// A line of formulas 6 and 7 in bytes, through two profiled lengths: `a + b d`.
#[derive(Clone, Copy, Debug)]
struct Line {
    alpha_s: f64,
    beta_s_per_byte: f64,
}

impl Line {
    fn through(points: [(f64, f64); 2]) -> Self {
        let [(short, short_s), (long, long_s)] = points;
        let beta_s_per_byte = (long_s - short_s) / (long - short);
        Self { alpha_s: short_s - beta_s_per_byte * short, beta_s_per_byte }
    }

    fn seconds(self, bytes: f64) -> f64 {
        self.alpha_s + self.beta_s_per_byte * bytes
    }
}

/// Whether the switcher takes the zipped Reduce-Scatter, by formulas 6 and 7 as written: `d` is the size of the native one, in FP32; a
/// zipped one has an uncompressed All-to-All's time for `e s d` bytes, with `e` as coded here and `s` a half, BF16 for FP32.
fn choose_zipped(bench: &Bench<'_>, (nodes, gpus): (u32, u32)) -> Result<bool, ReproduceError> {
    let (s, bf16_per_fp32) = (0.5, 2.0);
    let [short, long] = PROFILED.map(|bytes| -> Result<_, ReproduceError> {
        let sets = [
            format!("cluster.nodes={nodes}"),
            format!("cluster.gpus_per_node={gpus}"),
            format!("workload.bytes_per_rank={bytes} B"),
        ];
        let all_to_all_s = bench.simulate(ALL_TO_ALL, &sets)?.iteration_s("native")?;
        Ok((bytes as f64, times(bench, (nodes, gpus), bytes)?.native, all_to_all_s))
    });
    let (short, long) = (short?, long?);
    let reduce_scatter =
        Line::through([short, long].map(|(bytes, native_s, _)| (bf16_per_fp32 * bytes, native_s)));
    let all_to_all = Line::through([short, long].map(|(bytes, _, all_to_all_s)| (bytes, all_to_all_s)));
    let sets = [format!("cluster.nodes={nodes}"), format!("cluster.gpus_per_node={gpus}")];
    let e = bench.simulate(SCENARIO, &sets)?.wire_fraction("zipped")?;
    let d = bf16_per_fp32 * LAYER_BYTES as f64;
    Ok(all_to_all.seconds(e * s * d) < reduce_scatter.seconds(d))
}

fn gains(bench: &Bench<'_>, configuration: (u32, u32)) -> Result<Gains, ReproduceError> {
    let Times { native, widened, zipped } = times(bench, configuration, LAYER_BYTES)?;
    let is_zipped = choose_zipped(bench, configuration)?;
    let over = |before: f64, stays: f64| before / if is_zipped { zipped } else { stays };
    Ok(Gains {
        is_zipped,
        over_native: over(native, native),
        over_widened: over(widened, widened),
        over_zipped: over(zipped, native),
    })
}

fn gain(bench: &Bench<'_>, index: usize) -> Result<Ours, ReproduceError> {
    let gains = gains(bench, CONFIGURATIONS[index])?;
    let way = if gains.is_zipped { "zipped" } else { "native" };
    let note = format!("the switcher takes {way}; over one that is always zipped {:.3}", gains.over_zipped);
    Ok(Ours::with(gains.over_native, note))
}

/// Means of all configurations.
fn mean(bench: &Bench<'_>) -> Result<Ours, ReproduceError> {
    let all = CONFIGURATIONS.iter().map(|&configuration| gains(bench, configuration));
    let all = all.collect::<Result<Vec<Gains>, _>>()?;
    let mean = |of: fn(&Gains) -> f64| all.iter().map(of).sum::<f64>() / all.len() as f64;
    let note = format!(
        "{:.3} if the time of widening counts as the library's; over Reduce-Scatters that are always zipped {:.3}",
        mean(|gains| gains.over_widened),
        mean(|gains| gains.over_zipped)
    );
    Ok(Ours::with(mean(|gains| gains.over_native), note))
}

/// Speedup of Llama 3's iteration if its Reduce-Scatters are as the switcher has them, over native ones; its All-Gathers are zipped in both.
fn iteration(bench: &Bench<'_>, configuration: (u32, u32)) -> Result<f64, ReproduceError> {
    if !gains(bench, configuration)?.is_zipped {
        return Ok(1.0);
    }
    let (nodes, gpus) = configuration;
    let sets = [format!("cluster.nodes={nodes}"), format!("cluster.gpus_per_node={gpus}")];
    let simulated = bench.simulate(ITERATION, &sets)?;
    Ok(simulated.iteration_s("zipped")? / simulated.iteration_s("zipped-sums")?)
}

/// The least of all configurations, and their mean.
fn least_iteration(bench: &Bench<'_>) -> Result<Ours, ReproduceError> {
    let all = CONFIGURATIONS.iter().map(|&configuration| iteration(bench, configuration));
    let all = all.collect::<Result<Vec<f64>, _>>()?;
    let least = all.iter().copied().fold(f64::INFINITY, f64::min);
    let mean = all.iter().sum::<f64>() / all.len() as f64;
    Ok(Ours::with(
        least,
        format!("their mean is {mean:.3}, beside the 1.39 that the text has for one of the two"),
    ))
}

fn by_configuration(bench: &Bench<'_>) -> Result<Curve, ReproduceError> {
    let point = |(index, configuration): (usize, (u32, u32))| {
        let Gains { over_native, over_widened, over_zipped, .. } = gains(bench, configuration)?;
        Ok(vec![(index + 1) as f64, over_native, over_widened, over_zipped])
    };
    Ok(Curve {
        name: "Fig. 15 by configuration",
        title: "Fig. 15: Reduce-Scatter without switcher over with it, if all are native without it (with and without the time of \
                widening), and if all are zipped",
        columns: &["configuration", "native", "native, with widening", "always zipped"],
        axes: ["cluster, nodes x GPUs of each", "Reduce-Scatter without over with switcher, x"],
        groups: &GROUPS,
        published: const { &[PublishedLevel::of("fig15-mean", "published mean", None)] },
        points: CONFIGURATIONS.into_iter().enumerate().map(point).collect::<Result<_, ReproduceError>>()?,
        ranges: None,
    })
}
