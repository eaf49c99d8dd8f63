//! Fig. 2 by the workload `serving`: time to first token and requests per second, simulated, as functions of what the text does not give.

use super::super::{Bench, Curve, PublishedLevel, ReproduceError};

/// The scenario.
const SCENARIO: &str = "splitzip-serving.toml";

/// Links that the curves have, in GB/s: 10 Gb/s to 400 Gb/s.
const LINKS: [f64; 5] = [1.25, 3.125, 12.5, 25.0, 50.0];
/// Lengths of prompts, in tokens.
const LENGTHS: [u32; 5] = [1024, 4096, 8192, 32_768, 131_072];

/// What a link and a length set.
fn sets(link: f64, length: u32) -> Vec<String> {
    let mut sets: Vec<String> =
        ["gpu_bandwidth", "nic_bandwidth"].iter().map(|key| format!("cluster.{key}={link} GB/s")).collect();
    sets.push(format!("workload.arrivals.input={length}"));
    sets
}

/// Time to the first token, raw over coded.
pub(super) fn ttft(bench: &Bench<'_>, link: f64, length: u32) -> Result<f64, ReproduceError> {
    let simulated = bench.simulate(SCENARIO, &sets(link, length))?;
    Ok(simulated.ttft_s("raw")? / simulated.ttft_s("coded")?)
}

/// Requests per second, coded over raw, of 64 requests that come at once.
pub(super) fn throughput(bench: &Bench<'_>, link: f64, length: u32) -> Result<f64, ReproduceError> {
    let mut sets = sets(link, length);
    sets.push("workload.arrivals.requests=64".to_owned());
    let simulated = bench.simulate(SCENARIO, &sets)?;
    Ok(simulated.requests_per_s("coded")? / simulated.requests_per_s("raw")?)
}

/// Part of the time to the first token that pieces of the cache save, which one piece does not: raw over coded, of both ways.
fn pieces(bench: &Bench<'_>, length: u32) -> Result<[f64; 2], ReproduceError> {
    let of = |way: &str| -> Result<f64, ReproduceError> {
        let mut sets = sets(1.25, length);
        sets.push(format!("workload.pieces={way}"));
        let simulated = bench.simulate(SCENARIO, &sets)?;
        Ok(simulated.ttft_s("raw")? / simulated.ttft_s("coded")?)
    };
    Ok([of("pipelined")?, of("sequential")?])
}

type Speedup = fn(&Bench<'_>, f64, u32) -> Result<f64, ReproduceError>;

fn by_length(bench: &Bench<'_>, speedup: Speedup) -> Result<Vec<Vec<f64>>, ReproduceError> {
    let point = |&length: &u32| {
        let at = |&link: &f64| speedup(bench, link, length);
        let speedups = LINKS.iter().map(at).collect::<Result<Vec<_>, _>>()?;
        Ok([vec![f64::from(length)], speedups].concat())
    };
    LENGTHS.iter().map(point).collect()
}

/// Columns of both curves.
const COLUMNS: &[&str] = &["tokens", "1.25 GB/s", "3.125 GB/s", "12.5 GB/s", "25 GB/s", "50 GB/s"];

pub(super) fn ttft_by_length(bench: &Bench<'_>) -> Result<Curve, ReproduceError> {
    Ok(Curve {
        name: "time to first token by prompt and link",
        title: "time to first token of a request alone, raw over SplitZip, simulated with assumed speeds of computing; the text names neither \
                prompt nor link",
        columns: COLUMNS,
        axes: ["tokens of the prompt", "raw over SplitZip, x"],
        groups: &[],
        published: const { &[PublishedLevel::of("fig2-ttft", "published, at most", None)] },
        points: by_length(bench, ttft)?,
        ranges: None,
    })
}

pub(super) fn throughput_by_length(bench: &Bench<'_>) -> Result<Curve, ReproduceError> {
    Ok(Curve {
        name: "throughput by prompt and link",
        title: "requests per second of 64 that come at once, SplitZip over raw, simulated with assumed speeds of computing",
        columns: COLUMNS,
        axes: ["tokens of the prompt", "SplitZip over raw, x"],
        groups: &[],
        published: const { &[PublishedLevel::of("fig2-throughput", "published, at most", None)] },
        points: by_length(bench, throughput)?,
        ranges: None,
    })
}

pub(super) fn ttft_by_pieces(bench: &Bench<'_>) -> Result<Curve, ReproduceError> {
    let point = |&length: &u32| {
        let [pipelined, sequential] = pieces(bench, length)?;
        Ok(vec![f64::from(length), pipelined, sequential])
    };
    Ok(Curve {
        name: "time to first token by pieces",
        title: "time to first token over a link of 1.25 GB/s, raw over SplitZip, simulated: pieces of 256 tokens of a layer that move while others are \
                coded, or the cache coded, moved and decoded one after the other",
        columns: &["tokens", "pipelined", "sequential"],
        axes: ["tokens of the prompt", "raw over SplitZip, x"],
        groups: &[],
        published: &[],
        points: LENGTHS.iter().map(point).collect::<Result<_, ReproduceError>>()?,
        ranges: None,
    })
}
