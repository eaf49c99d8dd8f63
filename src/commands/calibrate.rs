//! `zipwire calibrate`: constants of a cluster, from what nccl-tests measured on it, or from probes; and tables of codecs, from samples.

mod probe;
pub(crate) mod shared_table;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;

use serde::Serialize;
use zipwire::calibrate::{
    AffineFit, CLUSTER_FILE_MARK, Calibration, Given, HOSTS_FILE_MARK, Nics, Series, calibrate, cluster_file,
    parse_log,
};
use zipwire::cluster::library::{Constant, Operation};
use zipwire::models::file::{FileError, Output};
use zipwire::scenarios::{Source, check_hardware};
use zipwire::traces::open_bounded;
use zipwire::{Cancel, ExecuteError};

use super::{print, print_json};
use crate::cli::{CalibrateCommand, CalibrateNcclTestsArgs};
use crate::error::CliError;
use crate::table;

/// Longest log, in bytes: half a million rows, more than a run of a day prints.
const LONGEST: u64 = 64 << 20;

pub(crate) fn run(command: &CalibrateCommand, cancel: &Cancel) -> Result<(), CliError> {
    match command {
        CalibrateCommand::NcclTests(args) => nccl_tests(args, cancel),
        CalibrateCommand::Probe(args) => probe::run(args, cancel),
        CalibrateCommand::Table(args) => shared_table::run(args, cancel),
    }
}

/// An operation by the name that nccl-tests has for it.
pub(crate) fn operation(name: &str) -> Result<Operation, String> {
    Operation::named(name).ok_or_else(|| {
        let names = Operation::ALL.map(Operation::name).join(", ");
        format!("expected one of {names}")
    })
}

fn nccl_tests(args: &CalibrateNcclTestsArgs, cancel: &Cancel) -> Result<(), CliError> {
    let given =
        Given { nodes: args.nodes, gpus_per_node: args.gpus_per_node, operation: args.op, nics: args.nics };
    let (mut series, mut notes) = (Vec::<Series>::new(), Vec::new());
    for path in &args.files {
        if cancel.is_cancelled() {
            return Err(ExecuteError::Cancelled.into());
        }
        let log = parse_log(&path.display().to_string(), &read(path)?, given);
        let log = log.map_err(|error| CliError::Usage(error.to_string()))?;
        series.extend(log.series);
        notes.extend(log.notes);
    }
    let mut calibration = {
        let _span = tracing::info_span!("fit").entered();
        calibrate(&series).map_err(|error| CliError::Usage(error.to_string()))?
    };
    notes.append(&mut calibration.notes);
    calibration.notes = notes;
    if let Some(path) = &args.out {
        write_file(path, &cluster_file(&calibration), cancel)?;
    }
    if args.json {
        return print_json(&Report::of(&calibration));
    }
    print(text(&calibration))?;
    calibration.notes.iter().for_each(|note| say!("note: {note}"));
    if let Some(path) = &args.out {
        say!(
            "the cluster is in {}: `bench collective --cluster` and scenarios (`[cluster] file`) take it",
            path.display()
        );
    }
    Ok(())
}

/// NICs of a node, as `8x200G`.
pub(crate) fn nics(text: &str) -> Result<Nics, String> {
    Nics::parse(text).ok_or_else(|| {
        "expected the number of NICs of a node and the line rate of each, for instance `8x200G`: at most 128, of 1 to 1600 Gb/s".to_owned()
    })
}

/// Refuses a file that scenarios would refuse.
fn check(path: &Path, text: &str) -> Result<(), CliError> {
    let name = path.display().to_string();
    check_hardware(&Source::from_text(&name, text, ".")).map_err(|error| {
        CliError::Usage(format!(
            "`{name}` is not written, since scenarios would refuse it: what was measured has values that no cluster has\n{}",
            error.render(false)
        ))
    })
}

fn read(path: &Path) -> Result<String, CliError> {
    let name = path.display();
    let mut bytes = Vec::new();
    open_bounded(path, LONGEST)
        .and_then(|mut file| file.read_to_end(&mut bytes))
        .map_err(|error| CliError::Usage(format!("cannot read `{name}`: {error}")))?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
        CliError::Usage(format!(
            "{name}:{line}: this is no text (byte {at})\nhelp: pass the output of an nccl-tests program, as text or as what its \
             `-J` wrote"
        ))
    })
}

/// Writes a cluster file, whole or not at all; over one that a calibration wrote, but over nothing else.
fn write_file(path: &Path, text: &str, cancel: &Cancel) -> Result<(), CliError> {
    check(path, text)?;
    write_over(path, text, is_cluster_file, cancel)
}

/// Writes a file, whole or not at all; over one that `is_own` knows as such a file, but over nothing else.
fn write_over(path: &Path, text: &str, is_own: fn(&Path) -> bool, cancel: &Cancel) -> Result<(), CliError> {
    let _hold = cancel.hold();
    let refused = |error: &dyn Display| {
        CliError::Usage(format!(
            "cannot write `{}`: {error}\nhelp: choose another file, in a writable folder, with `-o`",
            path.display()
        ))
    };
    if path.exists() && !is_own(path) {
        return Err(refused(&"it exists, and no calibration wrote it"));
    }
    let write = || -> Result<(), FileError> {
        let output = Output::begin(path, true)?;
        output.file().write_all(text.as_bytes()).map_err(FileError::io("write", path))?;
        output.finish()
    };
    write().map_err(|error| refused(&error))
}

/// Longest first line of a cluster file, in bytes.
const LONGEST_MARK: u64 = 4096;

/// Whether a file begins as those of calibrations do.
fn is_cluster_file(path: &Path) -> bool {
    let mut first = String::new();
    let begin = |file| BufReader::new(file).take(LONGEST_MARK).read_line(&mut first);
    let read = open_bounded(path, LONGEST).and_then(begin);
    read.is_ok() && [CLUSTER_FILE_MARK, HOSTS_FILE_MARK].iter().any(|mark| first.contains(mark))
}

/// The JSON. Times in seconds, bandwidths in bytes per second.
#[derive(Serialize)]
struct Report<'c> {
    fits: &'c [AffineFit],
    held_out: HeldReport,
    notes: &'c [String],
    series: Vec<SeriesReport<'c>>,
    cluster: ClusterReport,
    constants: BTreeMap<&'static str, ConstantReport>,
}

#[derive(Serialize)]
struct HeldReport {
    mean_abs_error_pct: f64,
    /// Error at sizes of 32 MiB and more.
    mean_abs_error_large_pct: Option<f64>,
    rows: usize,
}

/// How well the model meets a series.
#[derive(Serialize)]
struct SeriesReport<'c> {
    file: &'c str,
    op: &'static str,
    nodes: u32,
    gpus_per_node: u32,
    sizes: usize,
    peak_busbw: f64,
    /// Mean over sizes of 32 MiB and more.
    busbw_error_pct: Option<f64>,
    /// Over sizes below 32 MiB.
    worst_factor: Option<f64>,
}

#[derive(Serialize)]
struct ClusterReport {
    gpu: &'static str,
    nodes: u32,
    gpus_per_node: u32,
    nics_per_node: u32,
    gpu_bytes_per_s: f64,
    nic_bytes_per_s: f64,
}

#[derive(Serialize)]
struct ConstantReport {
    value: f64,
    determined: bool,
}

impl<'c> Report<'c> {
    fn of(calibration: &'c Calibration) -> Self {
        let Calibration { site, fit, lines, scores, held, notes } = calibration;
        let percent = |share: Option<f64>| share.map(|share| 100.0 * share);
        let series = scores.iter().map(|(series, score)| SeriesReport {
            file: &series.file,
            op: series.operation.name(),
            nodes: series.nodes,
            gpus_per_node: series.gpus_per_node,
            sizes: series.points.len(),
            peak_busbw: series.peak_bus(),
            busbw_error_pct: percent(score.large),
            worst_factor: score.worst_small,
        });
        let constants = Constant::ALL.into_iter().map(|constant| {
            let (value, determined) = (fit.constants.get(constant), fit.determined.contains(&constant));
            (constant.key(), ConstantReport { value, determined })
        });
        Self {
            fits: lines,
            held_out: HeldReport {
                mean_abs_error_pct: 100.0 * held.mean_abs_error,
                mean_abs_error_large_pct: percent(held.mean_abs_error_large),
                rows: held.rows,
            },
            notes,
            series: series.collect(),
            cluster: ClusterReport {
                gpu: site.gpu.name,
                nodes: site.nodes,
                gpus_per_node: site.gpus_per_node,
                nics_per_node: site.nics_per_node,
                gpu_bytes_per_s: site.gpu.bytes_per_s,
                nic_bytes_per_s: site.nic_bytes_per_s,
            },
            constants: constants.collect(),
        }
    }
}

/// Tables: lines by range of sizes, then how well the model of all of them meets each series.
fn text(calibration: &Calibration) -> String {
    let header = ["op", "nodes x GPUs", "from", "to", "alpha", "GB/s", "R2", "residual"];
    let mut lines = table::new(&header, &[0, 1]);
    for line in &calibration.lines {
        lines.add_row([
            line.operation.name().to_owned(),
            format!("{} x {}", line.nodes, line.gpus_per_node),
            table::bytes(line.from_bytes as f64),
            table::bytes(line.to_bytes as f64),
            table::seconds(line.alpha_s),
            table::or_dash(line.bytes_per_s, |bytes_per_s| format!("{:.2}", bytes_per_s / 1e9)),
            format!("{:.5}", line.r2),
            format!("{:.1} %", line.residual_pct),
        ]);
    }
    let header = [
        "op",
        "nodes x GPUs",
        "sizes",
        "peak busbw GB/s",
        "off from 32 MiB on",
        "worst factor below",
        "file",
    ];
    let mut scores = table::new(&header, &[0, 1, 6]);
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    for (series, score) in &calibration.scores {
        scores.add_row([
            series.operation.name().to_owned(),
            format!("{} x {}", series.nodes, series.gpus_per_node),
            series.points.len().to_string(),
            format!("{:.2}", series.peak_bus() / 1e9),
            or_dash(score.large.map(|error| format!("{:.1} %", 100.0 * error))),
            or_dash(score.worst_small.map(|factor| format!("{factor:.2}"))),
            series.file.clone(),
        ]);
    }
    let held = &calibration.held;
    let large = held
        .mean_abs_error_large
        .map_or(String::new(), |error| format!(", {:.1} % from 32 MiB on", 100.0 * error));
    format!(
        "Lines by range of sizes: alpha + size / bandwidth\n{}\n\nOne model for all\n{}\n\nAt {} sizes that a fit did not know: {:.1} % \
         off in the mean{large}\n",
        table::text(&lines),
        table::text(&scores),
        held.rows,
        100.0 * held.mean_abs_error,
    )
}
