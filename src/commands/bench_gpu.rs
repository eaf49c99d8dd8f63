//! `zipwire bench gpu`: the kernels on a GPU, beside copies.

use zipwire::bench::{GpuReport, GpuSettings, bench_gpu};
use zipwire::codec::{DType, Spec};
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
    if args.least > args.most || args.least < 2 || !args.least.is_multiple_of(2) {
        let (least, most) = (args.least, args.most);
        let message = format!(
            "sizes from {least} to {most} bytes cannot be measured\nhelp: `--least` is even and not above `--most`"
        );
        return Err(CliError::Usage(message));
    }
    let codecs: Vec<Spec> = match &args.codec {
        Some(specs) => specs.0.clone(),
        None => kernels::sources()
            .iter()
            // Differences are no codec by themselves.
            .filter_map(|source| source.name.parse().ok())
            .collect(),
    };
    let values = values(args)?;
    let mut sizes: Vec<u64> = std::iter::successors(Some(args.least), |size| size.checked_mul(STEP))
        .take_while(|size| *size < args.most)
        .collect();
    sizes.push(args.most);
    let settings = GpuSettings {
        device: args.device,
        codecs: &codecs,
        dtype: DType::Bf16,
        values: &values,
        seed: args.seed,
        sizes: &sizes,
        rotated: args.rotate,
        shortest_s: f64::from(args.round_ms) * 1e-3,
    };
    let report = bench_gpu(&settings, cancel)?;
    if args.json { print_json(&report) } else { print(text(&report) + "\n") }
}

/// All BF16 values of the files, or synthetic ones.
fn values(args: &BenchGpuArgs) -> Result<Vec<u8>, CliError> {
    let mut values = Vec::new();
    for path in &args.files {
        let file = TensorFile::open(path)?;
        for tensor in
            file.tensors().iter().filter(|tensor| DType::from_name(&tensor.dtype) == Some(DType::Bf16))
        {
            values.extend(file.read(tensor)?);
        }
    }
    if args.files.is_empty() {
        let rows = Rows::gaussian(SYNTHETIC.0, SYNTHETIC.1);
        values.extend((0..rows.row_count()).flat_map(|row| rows.row(row).to_vec()));
    }
    if values.is_empty() {
        return Err(CliError::Usage(
            "there are no BF16 values in the files\nhelp: leave them out for synthetic values".to_owned(),
        ));
    }
    Ok(values)
}

fn text(report: &GpuReport) -> String {
    let header =
        ["codec", "type", "raw", "size", "encode", "of copy", "decode", "of copy", "in batches", "copy"];
    let mut lines = table::new(&header, &[0, 1]);
    for row in &report.rows {
        let speed = |gbps: f64| format!("{gbps:.1} GB/s");
        let share = |share: f64| format!("{share:.3}");
        lines.add_row(vec![
            row.codec.clone(),
            row.dtype.to_owned(),
            table::bytes(row.bytes_raw as f64),
            format!("{:.2} %", row.size_pct),
            speed(row.encode_gbps),
            share(row.encode_share),
            speed(row.decode_gbps),
            share(row.decode_share),
            speed(row.decode_batch_gbps),
            speed(row.copy_gbps),
        ]);
    }
    let GpuReport { device, arch, frames_compared, .. } = report;
    format!(
        "{device}, {arch}; {frames_compared} frames of all kinds and those of every row have the bytes that the CPU writes; \
         shares are bytes read and written over those of the copy\n\n{}",
        table::text(&lines)
    )
}
