//! `zipwire bench collective`: collectives of a cluster in the columns of nccl-tests.

use std::path::PathBuf;

use zipwire::Cancel;
use zipwire::bench::{
    By, ClusterSource, CollectiveBench, CollectiveCluster, CollectiveCodec, CollectiveReport, CollectiveRow,
    OPERATIONS, TYPE_NAME, bench_collective, count, ranks, redop,
};
use zipwire::cluster::CodecCost;
use zipwire::cluster::library::Operation;
use zipwire::executors::Ranks;
use zipwire::launch::RanksToStart;
use zipwire::scenarios::{Dimension, nearest, presets};
use zipwire::schedule::Protocol;

use super::ranks::with_ranks;
use super::{distinct, print, print_json};
use crate::cli::BenchCollectiveArgs;
use crate::error::CliError;
use crate::progress::Progress;
use crate::table;

/// Most sizes.
const SIZES: usize = 64;

pub(crate) fn run(args: &BenchCollectiveArgs, cancel: &Cancel) -> Result<(), CliError> {
    let capabilities = args.on.capabilities();
    if capabilities.ranks == Ranks::Processes && args.op.contains(&Operation::SendRecv) {
        let name = Operation::SendRecv.name();
        return Err(CliError::Usage(format!(
            "`--op {name}` does not run on `{}` yet\nhelp: `zipwire run` takes scenarios of transfers there",
            args.on
        )));
    }
    let job = || Ok(RanksToStart { ranks: ranks(&bench(args)?)?, folder: None });
    with_ranks(&[args.on], &args.mpi, job, cancel, || run_here(args, cancel))
}

/// The benchmark that the arguments describe.
fn bench(args: &BenchCollectiveArgs) -> Result<CollectiveBench, CliError> {
    let sizes = sizes(args)?;
    Ok(CollectiveBench {
        cluster: CollectiveCluster {
            source: cluster(args.cluster.as_deref(), args.preset.as_deref())?,
            nodes: args.nodes,
            gpus_per_node: args.gpus_per_node,
        },
        codec: CollectiveCodec { spec: args.codec.clone(), speed: args.codec_speed, ratio: args.ratio },
        operations: distinct(args.op.iter().copied()),
        sizes,
        protocols: distinct(args.variants.iter().copied()),
        executor: args.on,
        verifies: !args.no_verify,
        folds: !args.unfolded,
        memory: args.memory,
    })
}

fn run_here(args: &BenchCollectiveArgs, cancel: &Cancel) -> Result<(), CliError> {
    let bench = bench(args)?;
    let progress = Progress::new(bench.operations.len() * bench.sizes.len() * bench.protocols.len());
    let report = bench_collective(&bench, cancel, |step| progress.next(&step));
    drop(progress);
    let report = report?;
    if args.json {
        return print_json(&report);
    }
    print(text(&bench, &report))?;
    report.notes.iter().for_each(|note| say!("note: {note}"));
    Ok(())
}

fn sizes(args: &BenchCollectiveArgs) -> Result<Vec<u64>, CliError> {
    let BenchCollectiveArgs { begin, end, factor, .. } = *args;
    if begin > end {
        let message = format!(
            "`--begin` of {begin} B is above `--end` of {end} B\nhelp: sizes go from `--begin` up, times `--factor` each"
        );
        return Err(CliError::Usage(message));
    }
    let all = std::iter::successors(Some(begin), |size| size.checked_mul(u64::from(factor)));
    let sizes: Vec<u64> = all.take_while(|size| *size <= end).collect();
    if sizes.len() > SIZES {
        let message = format!(
            "there are {} sizes from {begin} B to {end} B, and at most {SIZES} are taken\nhelp: choose a larger `--factor`",
            sizes.len()
        );
        return Err(CliError::Usage(message));
    }
    Ok(sizes)
}

/// The name of a preset.
pub(crate) fn preset(name: &str) -> Result<String, String> {
    let names = || presets().iter().map(|preset| preset.name);
    names().find(|known| *known == name).map(str::to_owned).ok_or_else(|| {
        let meant =
            nearest(name, names()).map_or_else(String::new, |near| format!("did you mean `{near}`? "));
        format!("{meant}expected one of {}", names().collect::<Vec<_>>().join(", "))
    })
}

/// A preset by its name, or else a file, with the preset that has what the file lacks.
fn cluster(argument: Option<&str>, preset: Option<&str>) -> Result<ClusterSource, CliError> {
    let names = || presets().iter().map(|preset| preset.name);
    let help = format!(
        "help: presets are {}; `zipwire calibrate nccl-tests LOGS... -o FILE` writes files of one's own clusters",
        names().collect::<Vec<_>>().join(", ")
    );
    let Some(argument) = argument else {
        return Err(CliError::Usage(format!("`--cluster` names a preset or a file, and is missing\n{help}")));
    };
    if names().any(|name| name == argument) {
        if preset.is_some() {
            let message =
                format!("`--cluster {argument}` is a preset already\nhelp: `--preset` has what a file lacks");
            return Err(CliError::Usage(message));
        }
        return Ok(ClusterSource::Preset(argument.to_owned()));
    }
    let path = PathBuf::from(argument);
    if path.is_file() {
        return Ok(ClusterSource::File(path, preset.map(str::to_owned)));
    }
    let meant =
        nearest(argument, names()).map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
    Err(CliError::Usage(format!("`--cluster {argument}` is neither a preset nor a file{meant}\n{help}")))
}

pub(crate) fn op_help() -> String {
    format!("Operations, separated by commas, as nccl-tests calls them: {}", operation_names())
}

fn operation_names() -> String {
    OPERATIONS.map(Operation::name).join(", ")
}

/// An operation by the name that nccl-tests has for it.
pub(crate) fn operation(name: &str) -> Result<Operation, String> {
    OPERATIONS.into_iter().find(|operation| operation.name() == name).ok_or_else(|| {
        let meant = meant(name, OPERATIONS.map(Operation::name));
        format!("{meant}expected one of {}", operation_names())
    })
}

pub(crate) fn protocol(name: &str) -> Result<Protocol, String> {
    let names = Protocol::ALL.map(Protocol::name);
    Protocol::ALL
        .into_iter()
        .find(|protocol| protocol.name() == name)
        .ok_or_else(|| format!("{}expected one of {}", meant(name, names), names.join(", ")))
}

fn meant<const N: usize>(name: &str, names: [&'static str; N]) -> String {
    nearest(name, names).map_or_else(String::new, |near| format!("did you mean `{near}`? "))
}

/// Raw over coded bytes.
pub(crate) fn ratio(text: &str) -> Result<f64, String> {
    let ratio = text.parse().ok().filter(|ratio: &f64| (0.01..=1e4).contains(ratio));
    ratio.ok_or_else(|| {
        "expected a number from 0.01 to 10000: raw over coded bytes, for instance 1.4".to_owned()
    })
}

/// Bandwidths of encoding and decoding, and the time of launching either.
pub(crate) fn speed(text: &str) -> Result<CodecCost, String> {
    let parts: Vec<&str> = text.split(',').collect();
    let bandwidth =
        |text: &str| Dimension::Bandwidth.parse(text).filter(|value| *value > 0.0 && value.is_finite());
    let time = |text: &str| Dimension::Time.parse(text).filter(|value| *value >= 0.0 && value.is_finite());
    let parsed = match parts.as_slice() {
        [encode, decode] => bandwidth(encode).zip(bandwidth(decode)).zip(Some(0.0)),
        [encode, decode, launch] => bandwidth(encode).zip(bandwidth(decode)).zip(time(launch)),
        _ => None,
    };
    let parsed = parsed.map(|((encode_bytes_per_s, decode_bytes_per_s), launch_s)| CodecCost {
        encode_bytes_per_s,
        decode_bytes_per_s,
        launch_s,
    });
    parsed.ok_or_else(|| {
        "expected bandwidths of encoding and decoding and, if it is not none, the time of a launch: `ENCODE GB/s,DECODE GB/s,LAUNCH us`"
            .to_owned()
    })
}

/// A size as nccl-tests takes it, in bytes or with `K`, `M` or `G` for powers of 1024, or with its unit.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let (digits, power) = match text.trim_end().char_indices().next_back() {
        Some((at, 'k' | 'K')) => (&text[..at], 1),
        Some((at, 'm' | 'M')) => (&text[..at], 2),
        Some((at, 'g' | 'G')) => (&text[..at], 3),
        _ => (text, 0),
    };
    match digits.trim().parse::<u64>() {
        Ok(count) => count.checked_mul(1 << (10 * power)).filter(|bytes| *bytes > 0),
        Err(_) => crate::cli::bytes(text).ok(),
    }
    .ok_or_else(|| "expected a size, for instance `32M` as in nccl-tests, or `32 MiB`".to_owned())
}

fn text(bench: &CollectiveBench, report: &CollectiveReport) -> String {
    let mut text = String::new();
    for &operation in &bench.operations {
        let rows: Vec<&CollectiveRow> = report.rows.iter().filter(|row| row.op == operation.name()).collect();
        let Some(first) = rows.first() else { continue };
        let (nodes, gpus) = (first.nodes, first.gpus_per_node);
        text += &format!(
            "{}, {nodes} x {gpus} ranks, on {}; bandwidths in GB/s\n{}\n\n",
            operation.name(),
            bench.executor,
            of_operation(operation, &rows)
        );
    }
    text.truncate(text.trim_end().len());
    text + "\n"
}

fn of_operation(operation: Operation, rows: &[&CollectiveRow]) -> String {
    let header = [
        "size (B)",
        "count",
        "type",
        "redop",
        "variant",
        "algorithm",
        "by",
        "time (us)",
        "algbw",
        "busbw",
        "effective busbw",
        "ratio",
        "codec (us)",
        "speedup",
        "by compression",
        "by algorithm",
    ];
    let mut lines = table::new(&header, &[2, 3, 4, 5, 6]);
    for row in rows {
        let two = |value: f64| format!("{value:.2}");
        let factor = |value: Option<f64>| table::or_dash(value, |value| format!("{value:.3}"));
        lines.add_row(vec![
            row.bytes.to_string(),
            count(operation, row.nodes * row.gpus_per_node, row.bytes).to_string(),
            TYPE_NAME.to_owned(),
            redop(operation).to_owned(),
            row.variant.to_owned(),
            row.algorithm.clone(),
            by(row.by),
            two(row.time_s * 1e6),
            two(row.algbw),
            two(row.busbw),
            two(row.effective_busbw),
            format!("{:.3}", row.ratio),
            two(row.codec_s * 1e6),
            factor(row.speedup),
            factor(row.split.map(|split| split.compression)),
            factor(row.split.map(|split| split.algorithm)),
        ]);
    }
    // Sizes and variants tell rows apart.
    table::text(&lines.with_keys(&[0, 4]))
}

fn by(by: By) -> String {
    let by = match by {
        By::Simulation => "simulation",
        By::ClosedForm => "closed form",
        By::Library => "library",
        By::Execution => "execution",
        By::Own(executor) => return executor.to_uppercase(),
    };
    by.to_owned()
}
