//! `zipwire bench gpu`: the kernels on a GPU, beside copies.

use std::io::{Write, stdout};

use serde::Serialize;
use serde_json::json;
use zipwire::bench::{GpuReport, GpuSettings, bench_gpu};
use zipwire::codec::{DType, Layout, Spec};
use zipwire::kernels::Coder;
use zipwire::payload::Rows;
use zipwire::traces::TensorFile;
use zipwire::{Cancel, kernels};

use super::{print, print_json};
use crate::cli::BenchGpuArgs;
use crate::error::CliError;
use crate::table;

/// Standard deviation and seed of the synthetic values.
const SYNTHETIC: (f64, u64) = (0.02, 1);
/// From one size to the next.
const STEP: u64 = 4;

pub(crate) fn run(args: &BenchGpuArgs, cancel: &Cancel) -> Result<(), CliError> {
    let widest = args.types.iter().map(|dtype| dtype.width() as u64).max().unwrap_or(1);
    if args.least > args.most || args.least < widest || !args.least.is_multiple_of(widest) {
        let (least, most) = (args.least, args.most);
        let message = format!(
            "sizes from {least} to {most} bytes cannot be measured\nhelp: `--least` is a multiple of {widest}, the bytes of a value, and \
             not above `--most`"
        );
        return Err(CliError::Usage(message));
    }
    let codecs: Vec<Spec> = match &args.codec {
        Some(specs) => specs.0.clone(),
        // Codecs have a source for each type; sums are no codec.
        None => {
            let mut codecs: Vec<Spec> =
                kernels::sources().iter().filter_map(|source| source.name.parse().ok()).collect();
            codecs.dedup();
            codecs
        }
    };
    let has_kernels = |spec: &Spec| args.types.iter().any(|dtype| Coder::check(spec, *dtype).is_ok());
    let codecs: Vec<Spec> =
        codecs.into_iter().filter(|spec| args.codec.is_some() || has_kernels(spec)).collect();
    let types = DType::ALL.into_iter().filter(|dtype| args.types.contains(dtype));
    let values =
        types.map(|dtype| Ok((dtype, values(args, dtype)?))).collect::<Result<Vec<_>, CliError>>()?;
    let layouts: Vec<Layout> =
        Layout::ALL.into_iter().filter(|layout| args.layout.contains(layout)).collect();
    let sizes = if args.compare_only { Vec::new() } else { sizes(args, widest) };
    let settings = GpuSettings {
        device: args.device,
        codecs: &codecs,
        layouts: &layouts,
        values: &values,
        seed: args.seed,
        sizes: &sizes,
        sums: !args.no_sums,
        rotated: args.rotate,
        shortest_s: f64::from(args.round_ms) * 1e-3,
        warm_up_s: f64::from(args.warm_up_ms) * 1e-3,
    };
    let mut printed = Ok(());
    let report = bench_gpu(&settings, cancel, &mut |result| {
        if args.json_lines && printed.is_ok() {
            printed = print_line(result);
        }
    })?;
    printed?;
    if args.json_lines {
        let GpuReport { device, arch, cache, frames_compared, .. } = &report;
        let common = json!({ "kind": "end", "device": device, "arch": arch, "cache": cache, "frames_compared": frames_compared });
        print_line(&common)?;
    } else if args.json {
        print_json(&report)?;
    } else {
        print(text(&report) + "\n")?;
    }
    Ok(report.check()?)
}

/// Sizes to measure, in bytes.
fn sizes(args: &BenchGpuArgs, widest: u64) -> Vec<u64> {
    let mut sizes: Vec<u64> = std::iter::successors(Some(args.least), |size| size.checked_mul(STEP))
        .take_while(|size| *size < args.most)
        .collect();
    sizes.push(args.most / widest * widest);
    sizes.dedup();
    sizes
}

/// Prints a result on a line of its own, at once.
fn print_line(value: &impl Serialize) -> Result<(), CliError> {
    let mut out = stdout().lock();
    serde_json::to_writer(&mut out, value).map_err(std::io::Error::from)?;
    writeln!(out)?;
    Ok(out.flush()?)
}

pub(crate) fn value_type(name: &str) -> Result<DType, String> {
    DType::from_name(name).ok_or_else(|| {
        let names: Vec<&str> = DType::ALL.iter().map(|dtype| dtype.name()).collect();
        format!("unknown type `{name}`: expected one of {}", names.join(", "))
    })
}

/// All values of a type in the files, or synthetic ones.
fn values(args: &BenchGpuArgs, dtype: DType) -> Result<Vec<u8>, CliError> {
    let mut values = Vec::new();
    for path in &args.files {
        let file = TensorFile::open(path)?;
        for tensor in file.tensors().iter().filter(|tensor| DType::from_name(&tensor.dtype) == Some(dtype)) {
            values.extend(file.read(tensor)?);
        }
    }
    if args.files.is_empty() {
        values = synthetic(dtype);
    }
    if values.is_empty() {
        return Err(CliError::Usage(format!(
            "there are no {dtype} values in the files\nhelp: leave the files out for synthetic values, or name the types that they have \
             with `--type`"
        )));
    }
    Ok(values)
}

/// Gaussian values, rounded towards zero; of FP32 the lower half is random, and FP8 ones are 64 times as large: their range is small, so
/// tensors are scaled before they are quantized.
fn synthetic(dtype: DType) -> Vec<u8> {
    let (upper, lower) = (Rows::gaussian(SYNTHETIC.0, SYNTHETIC.1), Rows::noise(SYNTHETIC.1));
    let lower = lower.as_bytes().as_chunks::<2>().0.iter().cycle();
    let halves = upper.as_bytes().as_chunks::<2>().0.iter().zip(lower);
    let bits =
        halves.map(|(&[third, fourth], &[first, second])| u32::from_le_bytes([first, second, third, fourth]));
    bits.flat_map(|bits| narrowed(dtype, bits).to_le_bytes().into_iter().take(dtype.width())).collect()
}

/// The value of a type next to an FP32 value, towards zero; what is too small for a normal one is zero, and nothing is too large.
fn narrowed(dtype: DType, bits: u32) -> u32 {
    let (exponent, mantissa) = match dtype {
        DType::Bf16 => (8, 7),
        DType::F16 => (5, 10),
        DType::F32 => return bits,
        DType::F8E4M3 => (4, 3),
        DType::F8E5M2 => (5, 2),
    };
    let sign = bits >> 31 << (exponent + mantissa);
    let scale = if dtype.width() == 1 { 6 } else { 0 };
    let biased = (bits >> 23 & 0xff) + scale + (1 << (exponent - 1)) - 1;
    match biased.checked_sub(127) {
        None | Some(0) => sign,
        Some(biased) => sign | biased << mantissa | (bits & 0x7f_ffff) >> (23 - mantissa),
    }
}

fn text(report: &GpuReport) -> String {
    let speed = |gbps: f64| format!("{gbps:.1} GB/s");
    let share = |share: f64| format!("{share:.3}");
    let header = [
        "codec",
        "type",
        "layout",
        "raw",
        "size",
        "encode",
        "of copy",
        "decode",
        "of copy",
        "in batches",
        "copy",
    ];
    let mut lines = table::new(&header, &[0, 1, 2]);
    for row in &report.rows {
        lines.add_row(vec![
            row.codec.clone(),
            row.dtype.to_owned(),
            row.layout.to_owned(),
            table::bytes(row.bytes_raw as f64),
            format!("{:.2} %", row.size_pct),
            table::or_dash(row.encode_gbps, speed),
            table::or_dash(row.encode_share, share),
            speed(row.decode_gbps),
            share(row.decode_share),
            speed(row.decode_batch_gbps),
            speed(row.copy_gbps),
        ]);
    }
    let mut sums = table::new(&["sums of", "read", "speed", "of copy"], &[]);
    for row in &report.sums {
        sums.add_row(vec![
            row.terms.to_string(),
            table::bytes(row.bytes_read as f64),
            speed(row.read_gbps),
            share(row.share),
        ]);
    }
    let GpuReport { device, arch, frames_compared, .. } = report;
    let wrong: u64 = report.comparisons.iter().map(|comparison| comparison.wrong).sum();
    let sums = if report.sums.is_empty() { String::new() } else { format!("\n\n{}", table::text(&sums)) };
    let failures: String = report.failures.iter().map(|failure| format!("\nfailed: {failure}")).collect();
    format!(
        "{device}, {arch}; {} of {frames_compared} frames of all kinds and those of every row have the bytes that the CPU writes; \
         shares are bytes read and written over those of the copy\n\n{}{sums}{failures}",
        frames_compared - wrong,
        table::text(&lines)
    )
}
