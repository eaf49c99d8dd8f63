//! Fig. 15: Reduce-Scatters without the adaptive switcher over those with it, on seven clusters.
//!
//! The text leaves open what runs without it. Read as native Reduce-Scatters, which is what the numbers are compared with, parity
//! is where the switcher stays native; the curve has the other reading, too, in which everything is zipped.

use super::super::figure::{Figure, Measurement, Ours};
use super::super::{Bench, Curve, ReproduceError};
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

/// What it is in iterations.
const ITERATION: &str = "zipccl-llama3.toml";

/// Nodes, and GPUs of each.
const CONFIGURATIONS: [(u32, u32); 7] = [(1, 8), (2, 8), (4, 8), (8, 8), (8, 1), (8, 2), (8, 4)];

/// Two lengths from which the switcher knows the lines of formulas 6 and 7.
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

/// Whether `zipped` is expected to be shorter: both formulas are straight lines in the length, through what was profiled.
fn choose_zipped(profile: [Times; 2]) -> bool {
    let expected = |seconds: fn(&Times) -> f64| {
        let [short, long] = [seconds(&profile[0]), seconds(&profile[1])];
        let beta = (long - short) / (PROFILED[1] - PROFILED[0]) as f64;
        long + beta * (LAYER_BYTES - PROFILED[1]) as f64
    };
    expected(|times| times.zipped) < expected(|times| times.native)
}

fn gains(bench: &Bench<'_>, configuration: (u32, u32)) -> Result<Gains, ReproduceError> {
    let profile = [times(bench, configuration, PROFILED[0])?, times(bench, configuration, PROFILED[1])?];
    let Times { native, widened, zipped } = times(bench, configuration, LAYER_BYTES)?;
    let is_zipped = choose_zipped(profile);
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
        columns: &["configuration", "native", "and widening", "always zipped"],
        points: CONFIGURATIONS.into_iter().enumerate().map(point).collect::<Result<_, ReproduceError>>()?,
    })
}
