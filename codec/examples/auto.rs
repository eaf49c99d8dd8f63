//! Errors of the model that `auto` chooses by, measured on real tensors, and the distance of its choices from the best ones.
//!
//! `cargo run --release -p zipwire-codec --example auto -- [--table] FILE...`: the files are safetensors; tensors of 8 KiB and
//! more are coded on one core from and into memory that was just used, the best of several rounds. `--table` prints the rows of
//! `codec/src/auto/measured.rs`; without it, for each goal, how many bytes or seconds the choices take beyond the best choices,
//! on all tensors together and on the worst one, and then what choosing takes.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "an example may read clocks and files"
)]

use std::error::Error;
use std::time::Instant;

use safetensors::SafeTensors;
use zipwire_codec::{Auto, Class, Codec, DType, Decoder, FrameShape, Goal, Layout, Spec};

const LEAST_BYTES: usize = 8 << 10;
const ROUNDS: usize = 15;
/// Shares of `tiered` between which tensors are taken together for a point of a line.
const STEPS: [f64; 7] = [0.05, 0.2, 0.35, 0.5, 0.62, 0.72, 0.86];

struct Tensor {
    name: String,
    dtype: DType,
    row: usize,
    values: Vec<u8>,
    class: Class,
    coded: Vec<Coded>,
}

/// Size and times of one codec on a tensor.
struct Coded {
    codec: &'static str,
    bytes: usize,
    /// Without front matter.
    share: f64,
    split: f64,
    encode_s: f64,
    decode_s: f64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut files: Vec<String> = std::env::args().skip(1).collect();
    let table = files.first().is_some_and(|first| first == "--table");
    if table {
        files.remove(0);
    }
    let mut tensors = Vec::new();
    for file in &files {
        let bytes = std::fs::read(file)?;
        for (name, view) in SafeTensors::deserialize(&bytes)?.tensors() {
            let Some(dtype) = DType::from_name(&format!("{:?}", view.dtype())) else { continue };
            if view.data().len() >= LEAST_BYTES {
                let row = view.shape().last().copied().unwrap_or(0);
                let name = format!("{} {name}", file.rsplit('/').next().unwrap_or(file));
                tensors.push(measure(name, dtype, row, view.data().to_vec())?);
            }
        }
    }
    if table {
        print_table(&tensors);
        return Ok(());
    }
    println!(
        "{} tensors of {} bytes",
        tensors.len(),
        tensors.iter().map(|tensor| tensor.values.len()).sum::<usize>()
    );
    for goal in [
        Goal::Size,
        Goal::Speed,
        Goal::Link { bytes_per_s: 100_000_000 },
        Goal::Link { bytes_per_s: 300_000_000 },
        Goal::Link { bytes_per_s: 1_000_000_000 },
        Goal::Link { bytes_per_s: 3_000_000_000 },
        Goal::Link { bytes_per_s: 25_000_000_000 },
    ] {
        regret(goal, &tensors)?;
    }
    price(&tensors)
}

fn measure(name: String, dtype: DType, row: usize, values: Vec<u8>) -> Result<Tensor, Box<dyn Error>> {
    let zeros = values.chunks(dtype.width()).filter(|value| value.iter().all(|byte| *byte == 0)).count();
    let count = values.len() / dtype.width();
    let class = Class::of_zeros_pct(100.0 * zeros as f64 / count as f64);
    let mut coded = Vec::new();
    for codec in Auto::new(Goal::Size).estimates(dtype, &values)?.iter().map(|estimate| estimate.codec) {
        let built = codec.parse::<Spec>()?.for_rows(row).codec();
        let [compact, split] = Layout::ALL
            .map(|layout| code(built.as_ref(), layout, dtype, &values))
            .into_iter()
            .rev()
            .collect::<Result<Vec<_>, _>>()?
            .try_into()
            .map_err(|_| "two layouts")?;
        let shape = FrameShape::new(Layout::Compact, dtype, count);
        let front = built.bound(shape) - values.len();
        coded.push(Coded {
            codec,
            bytes: compact.0,
            share: compact.0.saturating_sub(front) as f64 / values.len() as f64,
            split: split.0 as f64 / values.len() as f64,
            encode_s: compact.1,
            decode_s: compact.2,
        });
    }
    Ok(Tensor { name, dtype, row, values, class, coded })
}

/// Bytes of the frame, seconds of encoding and decoding.
fn code(
    codec: &dyn Codec,
    layout: Layout,
    dtype: DType,
    values: &[u8],
) -> Result<(usize, f64, f64), Box<dyn Error>> {
    let shape = FrameShape::new(layout, dtype, values.len() / dtype.width());
    let mut fixed = vec![1; codec.static_len(shape)];
    let mut dynamic = vec![1; codec.bound(shape) - fixed.len()];
    let mut out = vec![1; values.len()];
    let mut best = (0, f64::INFINITY, f64::INFINITY);
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        let len = codec.encode(layout, dtype, values, &mut fixed, &mut dynamic)?;
        let between = Instant::now();
        Decoder::new().decode(layout, dtype, &fixed, &dynamic[..len], &mut out)?;
        best.0 = fixed.len() + len;
        best.1 = best.1.min((between - begin).as_secs_f64());
        best.2 = best.2.min(between.elapsed().as_secs_f64());
    }
    assert!(out == values, "what is decoded is what was encoded");
    Ok(best)
}

fn seconds(goal: Goal, coded: &Coded) -> f64 {
    let transfer = match goal {
        Goal::Size => return coded.bytes as f64,
        Goal::Speed => 0.0,
        Goal::Link { bytes_per_s } => coded.bytes as f64 / bytes_per_s as f64,
    };
    coded.encode_s + transfer + coded.decode_s
}

/// Prints what is lost by choosing, in points of the raw size or percent of the time, and by each codec if it were the only one.
fn regret(goal: Goal, tensors: &[Tensor]) -> Result<(), Box<dyn Error>> {
    let (mut best_sum, mut chosen_sum, mut raw_sum) = (0.0, 0.0, 0.0);
    let (mut worst, mut where_worst, mut picks) = (0.0, String::new(), std::collections::BTreeMap::new());
    let mut right = 0;
    for tensor in tensors {
        let auto = Auto::new(goal).row(tensor.row as u32);
        let estimates = auto.estimates(tensor.dtype, &tensor.values)?;
        let chosen = auto.best(&estimates).ok_or("there are speeds")?.codec;
        let cost = |coded: &Coded| seconds(goal, coded);
        let least = tensor.coded.iter().map(cost).fold(f64::INFINITY, f64::min);
        let taken = tensor.coded.iter().find(|coded| coded.codec == chosen).map_or(f64::NAN, cost);
        let unit = if goal == Goal::Size { tensor.values.len() as f64 } else { least };
        let lost = 100.0 * (taken - least) / unit;
        right += usize::from(lost < 0.005);
        *picks.entry(chosen).or_insert(0) += 1;
        if lost > worst {
            worst = lost;
            where_worst = format!("{chosen} for {}", tensor.name);
        }
        (best_sum, chosen_sum, raw_sum) =
            (best_sum + least, chosen_sum + taken, raw_sum + tensor.values.len() as f64);
    }
    let unit = if goal == Goal::Size { raw_sum } else { best_sum };
    let lost = 100.0 * (chosen_sum - best_sum) / unit;
    let mut only = Vec::new();
    for codec in ["raw", "tiered", "rans"] {
        let sum: f64 = tensors
            .iter()
            .flat_map(|tensor| tensor.coded.iter().filter(|coded| coded.codec == codec))
            .map(|coded| seconds(goal, coded))
            .sum();
        only.push(format!("{codec} {:.2}", 100.0 * (sum - best_sum) / unit));
    }
    println!(
        "{goal:?}: lost {lost:.3}, worst {worst:.2} ({where_worst}); best choice for {right} of {}; choices {picks:?}; alone: {}",
        tensors.len(),
        only.join(", ")
    );
    Ok(())
}

/// Prints the time of choosing as a share of encoding by `tiered`, for tensors that are repeated up to some sizes.
fn price(tensors: &[Tensor]) -> Result<(), Box<dyn Error>> {
    for len in [128 << 10, 1 << 20, 4 << 20, 16 << 20] {
        for dtype in DType::ALL {
            let mut shares = Vec::new();
            for tensor in
                tensors.iter().filter(|tensor| tensor.dtype == dtype && tensor.values.len() > 100_000)
            {
                let values: Vec<u8> = tensor.values.iter().copied().cycle().take(len).collect();
                let tiered = "tiered".parse::<Spec>()?.for_rows(tensor.row).codec();
                let (_, encode_s, _) = code(tiered.as_ref(), Layout::Compact, dtype, &values)?;
                let auto = Auto::default().row(tensor.row as u32);
                let mut best = f64::INFINITY;
                for _ in 0..ROUNDS {
                    let begin = Instant::now();
                    std::hint::black_box(auto.estimates(dtype, &values)?);
                    best = best.min(begin.elapsed().as_secs_f64());
                }
                shares.push(100.0 * best / encode_s);
                if shares.len() == 8 {
                    break;
                }
            }
            let mean = shares.iter().sum::<f64>() / shares.len() as f64;
            let most = shares.iter().copied().fold(0.0, f64::max);
            println!(
                "choosing for {} KiB of {dtype}: {mean:.1} % of encoding by tiered, at most {most:.1} %",
                len >> 10
            );
        }
    }
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn print_table(tensors: &[Tensor]) {
    let codecs: Vec<&str> = tensors
        .iter()
        .max_by_key(|tensor| tensor.coded.len())
        .map_or(Vec::new(), |tensor| tensor.coded.iter().map(|coded| coded.codec).collect());
    for codec in codecs {
        println!("{codec}");
        for dtype in DType::ALL {
            let pairs: Vec<(&Tensor, &Coded, &Coded)> = tensors
                .iter()
                .filter(|tensor| tensor.dtype == dtype)
                .filter_map(|tensor| {
                    let find = |id: &str| tensor.coded.iter().find(|coded| coded.codec == id);
                    Some((tensor, find("tiered")?, find(codec)?))
                })
                .collect();
            if pairs.is_empty() {
                continue;
            }
            let mut points = vec![if codec == "raw" { (0.0, 1.0) } else { (0.0, 0.0) }];
            for step in 0..=STEPS.len() {
                let (from, to) =
                    (if step == 0 { 0.0 } else { STEPS[step - 1] }, STEPS.get(step).copied().unwrap_or(1.0));
                let inside =
                    || pairs.iter().filter(|(_, tiered, _)| tiered.share > from && tiered.share <= to);
                if inside().count() > 0 && codec != "raw" {
                    let x = median(inside().map(|pair| pair.1.share).collect());
                    let y = x + median(inside().map(|pair| pair.2.share - pair.1.share).collect());
                    if x - points[points.len() - 1].0 > 0.002 && x < 0.995 {
                        points.push((x, y));
                    }
                }
            }
            points.push((1.0, 1.0));
            let points: Vec<String> = points.iter().map(|(x, y)| format!("({x:.4}, {y:.4})")).collect();
            let speed = |class: Class| {
                let inside = || {
                    pairs.iter().filter(|(tensor, ..)| {
                        tensor.class == class || pairs.iter().all(|(tensor, ..)| tensor.class != class)
                    })
                };
                let bytes: f64 = inside().map(|(tensor, ..)| tensor.values.len() as f64).sum();
                let gbps = |part: fn(&Coded) -> f64| {
                    bytes / inside().map(|(_, _, coded)| part(coded)).sum::<f64>() / 1e9
                };
                let (encode, decode) = (gbps(|coded| coded.encode_s), gbps(|coded| coded.decode_s));
                format!("Speed {{ encode_gbps: {encode:.2}, decode_gbps: {decode:.2} }}")
            };
            let dense = pairs.iter().filter(|(tensor, ..)| tensor.class == Class::Dense);
            let split = median(dense.map(|(_, _, coded)| coded.split).collect());
            println!(
                "        Known {{ dtype: DType::{dtype:?}, shares: &[{}], split: {split:.3}, dense: {}, sparse: {} }},",
                points.join(", "),
                speed(Class::Dense),
                speed(Class::Sparse)
            );
        }
    }
}
