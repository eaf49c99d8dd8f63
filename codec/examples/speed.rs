//! Speed and size of all codecs on one core, portable and with SIMD, beside `memcpy` in the same run.
//!
//! `cargo run --release -p zipwire-codec --example speed [FILE...]`: without files the values are drawn from
//! N(0, 0.02^2); a file holds little-endian BF16 values and nothing else. GB/s count raw bytes (10^9); the best of
//! several rounds over a buffer larger than the caches.
//!
//! A process has one SIMD level, so each level of the machine is measured by a process of its own, one after the other.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "an example may read clocks and files"
)]

use std::error::Error;
use std::process::{Command, Stdio};
use std::time::Instant;

use rand::SeedableRng;
use rand_distr::{Distribution, Normal};
use zipwire_codec::{DType, Layout, SimdLevel, Spec, decode, force_simd, simd_level, simd_levels};

const BYTES: usize = 64 << 20;
const ROUNDS: usize = 7;

/// All codecs, and their options that cost time.
fn specs() -> impl Iterator<Item = &'static str> {
    Spec::ids().chain(["window7:scale=std", "window7:scale=mean-abs"])
}

/// What makes a process measure one level, and print bare numbers.
const LEVEL: &str = "--level=";

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let level = arguments.first().and_then(|first| first.strip_prefix(LEVEL)).map(SimdLevel::from_name);
    if let Some(level) = level {
        arguments.remove(0);
        force_simd(level.ok_or("unknown level")?)?;
        return measure(&values(arguments.first())?);
    }
    println!("SIMD level of this machine: {}", simd_level());
    let files: Vec<Option<String>> =
        if arguments.is_empty() { vec![None] } else { arguments.into_iter().map(Some).collect() };
    for file in files {
        compare(file.as_deref())?;
    }
    Ok(())
}

/// Prints a table with all levels of the machine.
fn compare(file: Option<&str>) -> Result<(), Box<dyn Error>> {
    let levels = simd_levels();
    let mut columns: Vec<Vec<Vec<f64>>> = Vec::new();
    for level in &levels {
        let mut command = Command::new(std::env::current_exe()?);
        let output = command.arg(format!("{LEVEL}{level}")).args(file).stderr(Stdio::inherit()).output()?;
        if !output.status.success() {
            return Err(format!("level {level} fails").into());
        }
        let row = |line: &str| line.split_whitespace().map(str::parse).collect::<Result<Vec<f64>, _>>();
        columns.push(String::from_utf8(output.stdout)?.lines().map(row).collect::<Result<_, _>>()?);
    }
    println!("{}: {} values, GB/s", file.unwrap_or("N(0, 0.02^2)"), columns[0][0][0]);
    let copies: Vec<String> = columns.iter().map(|rows| format!("{:.2}", rows[0][1])).collect();
    println!("  memcpy {}", copies.join(" and "));
    let titles: Vec<String> = levels
        .iter()
        .flat_map(|level| ["encode", "decode"].map(|what| format!("{what} {level}")))
        .map(|title| format!("{title:>16}"))
        .collect();
    println!("  {:<23} {:<8} {:>8} {}", "codec", "layout", "size %", titles.concat());
    let names = specs().flat_map(|spec| Layout::ALL.map(|layout| (spec, layout.name())));
    for (row, (spec, layout)) in names.enumerate() {
        let speeds = columns.iter().flat_map(|rows| &rows[row + 1][1..]);
        let speeds: Vec<String> = speeds.map(|speed| format!("{speed:16.2}")).collect();
        println!("  {spec:<23} {layout:<8} {:8.2} {}", columns[0][row + 1][0], speeds.concat());
    }
    Ok(())
}

/// Prints the number of values and the speed of `memcpy`, then a line per codec and layout: size in percent, speeds.
fn measure(values: &[u8]) -> Result<(), Box<dyn Error>> {
    if values.is_empty() {
        return Err("there are no values".into());
    }
    // Small inputs are repeated, so that a round takes long enough to be measured.
    let repeats = (BYTES / values.len()).max(1);
    let mut out = vec![1; values.len()];
    let copy = best(values.len() * repeats, || {
        for _ in 0..repeats {
            std::hint::black_box(&mut out).copy_from_slice(std::hint::black_box(values));
        }
    });
    let count = values.len() / 2;
    println!("{count} {copy}");
    for text in specs() {
        let codec = text.parse::<Spec>()?.codec();
        for layout in Layout::ALL {
            let static_len = codec.static_len(layout, DType::Bf16, count);
            let mut static_section = vec![1; static_len];
            let mut dynamic_section = vec![1; codec.bound(layout, DType::Bf16, count) - static_len];
            let mut dynamic_len = 0;
            let encode_speed = best(values.len() * repeats, || {
                for _ in 0..repeats {
                    dynamic_len = codec
                        .encode(layout, DType::Bf16, values, &mut static_section, &mut dynamic_section)
                        .expect("the buffers have the lengths that the codec asks for");
                }
            });
            let dynamic_section = &dynamic_section[..dynamic_len];
            out.fill(1);
            let decode_speed = best(values.len() * repeats, || {
                for _ in 0..repeats {
                    decode(layout, DType::Bf16, &static_section, dynamic_section, &mut out)
                        .expect("the frame has just been encoded");
                }
            });
            assert!(out == values, "{text} in layout {layout} is not lossless");
            let percent = 100.0 * (static_len + dynamic_len) as f64 / values.len() as f64;
            println!("{percent} {encode_speed} {decode_speed}");
        }
    }
    Ok(())
}

/// GB/s of the fastest round.
fn best(bytes: usize, mut round: impl FnMut()) -> f64 {
    let seconds = (0..ROUNDS).map(|_| {
        let begin = Instant::now();
        round();
        begin.elapsed().as_secs_f64()
    });
    bytes as f64 / seconds.fold(f64::INFINITY, f64::min) / 1e9
}

/// The values in a file, or Gaussian ones.
fn values(file: Option<&String>) -> Result<Vec<u8>, Box<dyn Error>> {
    let Some(file) = file else { return Ok(gaussian()) };
    let mut values = std::fs::read(file)?;
    values.truncate(values.len() / 2 * 2);
    Ok(values)
}

fn gaussian() -> Vec<u8> {
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
    let normal = Normal::new(0.0f32, 0.02).expect("the deviation is positive");
    let bf16 = |x: f32| (((x.to_bits() + 0x7fff + ((x.to_bits() >> 16) & 1)) >> 16) as u16).to_le_bytes();
    (0..BYTES / 2).flat_map(|_| bf16(normal.sample(&mut rng))).collect()
}
