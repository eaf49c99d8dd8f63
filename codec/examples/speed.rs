//! Speed and size of all codecs on one core, portable and with SIMD, beside `memcpy` in the same run.
//!
//! `cargo run --release -p zipwire-codec --example speed -- [--type=TYPE] [FILE...]`: values of a type, BF16 unless another
//! one is named, drawn from N(0, 0.02^2) without files; a file holds little-endian values and nothing else. GB/s count raw
//! bytes (10^9); the best of several rounds over a buffer larger than the caches.
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
use zipwire_codec::{
    DType, Decoder, FrameShape, Layout, SimdLevel, Spec, force_simd, simd_level, simd_levels,
};

const BYTES: usize = 64 << 20;
const ROUNDS: usize = 7;

/// All codecs that code the type, and their options that cost time.
fn specs(dtype: DType) -> impl Iterator<Item = &'static str> {
    let all = Spec::ids().chain(["window7:scale=std", "window7:scale=mean-abs"]);
    all.filter(move |text| text.parse::<Spec>().is_ok_and(|spec| spec.codec().supports(dtype)))
}

/// Argument with which the example measures one level in a child process that prints bare numbers.
const LEVEL: &str = "--level=";
const TYPE: &str = "--type=";

fn main() -> Result<(), Box<dyn Error>> {
    zipwire_paper_codecs::register();
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut dtype = DType::Bf16;
    if let Some(name) = arguments.first().and_then(|first| first.strip_prefix(TYPE)) {
        dtype = DType::from_name(name).ok_or("unknown type")?;
        arguments.remove(0);
    }
    let level = arguments.first().and_then(|first| first.strip_prefix(LEVEL)).map(SimdLevel::from_name);
    if let Some(level) = level {
        arguments.remove(0);
        force_simd(level.ok_or("unknown level")?)?;
        return measure(dtype, &values(dtype, arguments.first())?);
    }
    println!("SIMD level of this machine: {}", simd_level());
    let files: Vec<Option<String>> =
        if arguments.is_empty() { vec![None] } else { arguments.into_iter().map(Some).collect() };
    for file in files {
        compare(dtype, file.as_deref())?;
    }
    Ok(())
}

/// Prints a table with all levels of the machine.
fn compare(dtype: DType, file: Option<&str>) -> Result<(), Box<dyn Error>> {
    let levels = simd_levels();
    let mut columns: Vec<Vec<Vec<f64>>> = Vec::new();
    for level in &levels {
        let mut command = Command::new(std::env::current_exe()?);
        command.args([format!("{TYPE}{dtype}"), format!("{LEVEL}{level}")]).args(file);
        let output = command.stderr(Stdio::inherit()).output()?;
        if !output.status.success() {
            return Err(format!("level {level} fails").into());
        }
        let row = |line: &str| line.split_whitespace().map(str::parse).collect::<Result<Vec<f64>, _>>();
        columns.push(String::from_utf8(output.stdout)?.lines().map(row).collect::<Result<_, _>>()?);
    }
    println!("{}: {} values of type {dtype}, GB/s", file.unwrap_or("N(0, 0.02^2)"), columns[0][0][0]);
    let copies: Vec<String> = columns.iter().map(|rows| format!("{:.2}", rows[0][1])).collect();
    println!("  memcpy {}", copies.join(" and "));
    let titles: Vec<String> = levels
        .iter()
        .flat_map(|level| ["encode", "decode"].map(|what| format!("{what} {level}")))
        .map(|title| format!("{title:>16}"))
        .collect();
    println!("  {:<23} {:<8} {:>8} {}", "codec", "layout", "size %", titles.concat());
    let names = specs(dtype).flat_map(|spec| Layout::ALL.map(|layout| (spec, layout.name())));
    for (row, (spec, layout)) in names.enumerate() {
        let speeds = columns.iter().flat_map(|rows| &rows[row + 1][1..]);
        let speeds: Vec<String> = speeds.map(|speed| format!("{speed:16.2}")).collect();
        println!("  {spec:<23} {layout:<8} {:8.2} {}", columns[0][row + 1][0], speeds.concat());
    }
    Ok(())
}

/// Prints the number of values and the speed of `memcpy`, then a line per codec and layout: size in percent, speeds.
fn measure(dtype: DType, values: &[u8]) -> Result<(), Box<dyn Error>> {
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
    let count = values.len() / dtype.width();
    println!("{count} {copy}");
    for text in specs(dtype) {
        let codec = text.parse::<Spec>()?.codec();
        for layout in Layout::ALL {
            let static_len = codec.static_len(FrameShape::new(layout, dtype, count));
            let mut static_section = vec![1; static_len];
            let mut dynamic_section =
                vec![1; codec.bound(FrameShape::new(layout, dtype, count)) - static_len];
            let mut dynamic_len = 0;
            let encode_speed = best(values.len() * repeats, || {
                for _ in 0..repeats {
                    dynamic_len = codec
                        .encode(layout, dtype, values, &mut static_section, &mut dynamic_section)
                        .expect("the buffers have the lengths that the codec asks for");
                }
            });
            let dynamic_section = &dynamic_section[..dynamic_len];
            out.fill(1);
            let decode_speed = best(values.len() * repeats, || {
                for _ in 0..repeats {
                    Decoder::new()
                        .decode(layout, dtype, &static_section, dynamic_section, &mut out)
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
fn values(dtype: DType, file: Option<&String>) -> Result<Vec<u8>, Box<dyn Error>> {
    let Some(file) = file else { return Ok(gaussian(dtype)) };
    let mut values = std::fs::read(file)?;
    values.truncate(values.len() / dtype.width() * dtype.width());
    Ok(values)
}

fn gaussian(dtype: DType) -> Vec<u8> {
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
    let normal = Normal::new(0.0f32, 0.02).expect("the deviation is positive");
    // Fields of the exponent and the mantissa, and what is added to the former.
    let (exponent_bits, mantissa_bits) = match dtype {
        DType::Bf16 => (8, 7),
        DType::F16 => (5, 10),
        DType::F32 => (8, 23),
        DType::F8E4M3 => (4, 3),
        DType::F8E5M2 => (5, 2),
    };
    let bias_difference = 127 - ((1 << (exponent_bits - 1)) - 1);
    let narrowed = |x: f32| {
        // Rounded to nearest at the last bit that is kept; what is too small becomes zero.
        let bits = x.to_bits() + if mantissa_bits < 23 { 1 << (22 - mantissa_bits) } else { 0 };
        let kept =
            ((bits & 0x7fff_ffff) >> (23 - mantissa_bits)).saturating_sub(bias_difference << mantissa_bits);
        kept | bits >> 31 << (exponent_bits + mantissa_bits)
    };
    let bytes = |x: f32| narrowed(x).to_le_bytes().into_iter().take(dtype.width());
    (0..BYTES / dtype.width()).flat_map(|_| bytes(normal.sample(&mut rng))).collect()
}
