//! `zipwire bench held`: what it takes to hold weights compressed.

use std::num::NonZero;

use zipwire::Cancel;
use zipwire::bench::{HeldReport, HeldSettings, bench_held};
use zipwire::codec::Spec;
use zipwire::models::held::Place;

use super::{distinct, print, print_json};
use crate::cli::BenchHeldArgs;
use crate::error::CliError;
use crate::progress::Progress;
use crate::table;

pub(crate) fn run(args: &BenchHeldArgs, cancel: &Cancel) -> Result<(), CliError> {
    let raw: Spec = "raw".parse().expect("this codec has no options");
    let codecs = distinct([raw].into_iter().chain(args.codec.0.iter().cloned()));
    let threads = args.threads.and_then(|threads| NonZero::new(usize::from(threads)));
    let settings = HeldSettings {
        model: args.model.clone(),
        codecs,
        blocks: args.blocks.map(|blocks| blocks as usize),
        as_files: if args.as_files { vec![Place::Memory, Place::Disk] } else { Vec::new() },
        on_gpu: args.gpu,
        threads: threads
            .or_else(|| std::thread::available_parallelism().ok())
            .unwrap_or(NonZero::<usize>::MIN),
        passes: args.passes as usize,
    };
    let progress = Progress::of_unknown("passes");
    let report = bench_held(&settings, cancel)?;
    drop(progress);
    if args.json { print_json(&report) } else { print(text(&report) + "\n") }
}

fn text(report: &HeldReport) -> String {
    let header = [
        "held as",
        "in",
        "held",
        "of raw",
        "buffer",
        "pass",
        "decode",
        "wait",
        "multiply",
        "decode share",
        "decode speed",
        "break-even",
    ];
    let mut lines = table::new(&header, &[0, 1]);
    let speed = |gbps: Option<f64>| table::or_dash(gbps, |gbps| format!("{gbps:.2} GB/s"));
    for row in &report.rows {
        lines.add_row(vec![
            row.codec.clone().unwrap_or_else(|| "files".to_owned()),
            row.place.to_owned(),
            table::bytes(row.bytes_held as f64),
            format!("{:.2} %", row.held_pct),
            table::bytes(row.bytes_buffer as f64),
            table::seconds(row.pass_s),
            table::seconds(row.decode_s),
            table::seconds(row.wait_s),
            table::seconds(row.multiply_s),
            format!("{:.1} %", row.decode_share_pct),
            speed(row.decode_gbps),
            speed(row.break_even_gbps),
        ]);
    }
    let (blocks, threads) = (report.blocks, report.threads);
    let (raw, multiplied) =
        (table::bytes(report.bytes_raw as f64), table::bytes(report.bytes_multiplied as f64));
    format!(
        "{blocks} blocks, {raw} of tensors, of which {multiplied} are matrices that a pass multiplies by a vector; {threads} threads\n\n{}",
        table::text(&lines)
    )
}
