//! ZipCCL's adaptive switcher (Fig. 15): Reduce-Scatters without it over those with it, on seven clusters.
//!
//! The text leaves open what runs without it. Read as native Reduce-Scatters, which is what the numbers are compared with, parity
//! is where the switcher stays native; the curve also has the other reading, in which everything is zipped.

use crate::measure::Ours;
use crate::zipccl::LAYER_BYTES;
use crate::{Bench, ReproduceError};

const SCENARIO: &str = "zipccl-reduce-scatter.toml";

/// The All-to-All that formula 7 is profiled with.
const ALL_TO_ALL: &str = "zipccl-all-to-all.toml";

/// Llama 3 with Reduce-Scatters of both kinds.
const ITERATION: &str = "zipccl-llama3.toml";

/// Nodes, and GPUs of each.
const CONFIGURATIONS: [(u32, u32); 7] = [(1, 8), (2, 8), (4, 8), (8, 8), (8, 1), (8, 2), (8, 4)];
/// Bytes in BF16 of two lengths from which the switcher knows the lines of formulas 6 and 7.
const PROFILED: [u64; 2] = [LAYER_BYTES / 16, LAYER_BYTES / 4];

/// Seconds of a Reduce-Scatter, native and zipped.
#[derive(Clone, Copy, Debug)]
struct Times {
    /// The library's call alone, as in formula 6: the widening of gradients is part of copying them into its buffer.
    native: f64,
    /// The same with the time of widening.
    widened: f64,
    /// Coding, the All-to-All, decoding and adding up.
    zipped: f64,
}

/// Result of Fig. 15 for one cluster.
#[derive(Clone, Copy, Debug)]
struct Gains {
    is_zipped: bool,
    over_native: f64,
    over_widened: f64,
    over_zipped: f64,
}

/// Values that a cluster, and the bytes of a rank, replace in a scenario.
fn sets_for((nodes, gpus): (u32, u32), bytes: Option<u64>) -> Vec<String> {
    let cluster = [format!("cluster.nodes={nodes}"), format!("cluster.gpus_per_node={gpus}")];
    cluster.into_iter().chain(bytes.map(|bytes| format!("workload.bytes_per_rank={bytes} B"))).collect()
}

fn times(bench: &Bench<'_>, cluster: (u32, u32), bytes: u64) -> Result<Times, ReproduceError> {
    let simulated = bench.simulate(SCENARIO, &sets_for(cluster, Some(bytes)))?;
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
fn choose_zipped(bench: &Bench<'_>, cluster: (u32, u32)) -> Result<bool, ReproduceError> {
    let (s, bf16_per_fp32) = (0.5, 2.0);
    let [short, long] = PROFILED.map(|bytes| -> Result<_, ReproduceError> {
        let all_to_all_s =
            bench.simulate(ALL_TO_ALL, &sets_for(cluster, Some(bytes)))?.iteration_s("native")?;
        Ok((bytes as f64, times(bench, cluster, bytes)?.native, all_to_all_s))
    });
    let (short, long) = (short?, long?);
    let reduce_scatter =
        Line::through([short, long].map(|(bytes, native_s, _)| (bf16_per_fp32 * bytes, native_s)));
    let all_to_all = Line::through([short, long].map(|(bytes, _, all_to_all_s)| (bytes, all_to_all_s)));
    let e = bench.simulate(SCENARIO, &sets_for(cluster, None))?.wire_fraction("zipped")?;
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

pub(super) fn gain(bench: &Bench<'_>, index: usize) -> Result<Ours, ReproduceError> {
    let gains = gains(bench, CONFIGURATIONS[index])?;
    let way = if gains.is_zipped { "zipped" } else { "native" };
    let note = format!("the switcher takes {way}; over one that is always zipped {:.3}", gains.over_zipped);
    Ok(Ours::with(gains.over_native, note))
}

pub(super) fn mean(bench: &Bench<'_>) -> Result<Ours, ReproduceError> {
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
    let simulated = bench.simulate(ITERATION, &sets_for(configuration, None))?;
    Ok(simulated.iteration_s("zipped")? / simulated.iteration_s("zipped-sums")?)
}

/// The least of all configurations, and their mean.
pub(super) fn least_iteration(bench: &Bench<'_>) -> Result<Ours, ReproduceError> {
    let all = CONFIGURATIONS.iter().map(|&configuration| iteration(bench, configuration));
    let all = all.collect::<Result<Vec<f64>, _>>()?;
    let least = all.iter().copied().fold(f64::INFINITY, f64::min);
    let mean = all.iter().sum::<f64>() / all.len() as f64;
    Ok(Ours::with(
        least,
        format!("their mean is {mean:.3}, beside the 1.39 that the text has for one of the two"),
    ))
}

/// Gains by the number of the cluster: over native Reduce-Scatters, without and with the time of widening, and over zipped ones.
pub(super) fn points(bench: &Bench<'_>) -> Result<Vec<Vec<f64>>, ReproduceError> {
    let point = |(index, configuration): (usize, (u32, u32))| {
        let Gains { over_native, over_widened, over_zipped, .. } = gains(bench, configuration)?;
        Ok(vec![(index + 1) as f64, over_native, over_widened, over_zipped])
    };
    CONFIGURATIONS.into_iter().enumerate().map(point).collect()
}
