//! `zipwire inspect`: what is compressible in tensors, why, and by which codec.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use zipwire::bench::inspect::{TensorReport, Total, inspect, inspect_against, totals};
use zipwire::codec::{Base, Class, Costs, DType, Spec, SpecError, Speed};
use zipwire::scenarios::spec_help;
use zipwire::traces::{TensorFile, read_input};
use zipwire::{Cancel, ExecuteError, with_help};

use super::files::{self, BaseFiles, ModelFile};
use super::{print, print_json};
use crate::cli::InspectArgs;
use crate::commands::bench::specs;
use crate::error::CliError;
use crate::progress::Progress;
use crate::table;

/// The codecs of one argument.
#[derive(Clone, Debug)]
pub(crate) struct Specs(pub(crate) Vec<Spec>);

impl FromStr for Specs {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let specs = specs(text).iter().map(|spec| spec.parse()).collect::<Result<Vec<Spec>, SpecError>>();
        let specs = specs.map_err(|error| with_help(&error, spec_help(&error)))?;
        match specs.iter().find(|spec| spec.table_id().is_some()) {
            None => Ok(Self(specs)),
            Some(spec) => Err(format!(
                "`{spec}` names a table, and no file gives one here\nhelp: `zipwire bench codec --table FILE` measures a codec with a table"
            )),
        }
    }
}

/// Longest file of costs, in bytes: a measured row has less than a kilobyte.
const LONGEST_COSTS: u64 = 16 << 20;

#[derive(Serialize)]
struct FileReport {
    file: PathBuf,
    tensors: Vec<TensorReport>,
    totals: Vec<Total>,
}

pub(crate) fn run(args: &InspectArgs, cancel: &Cancel) -> Result<(), CliError> {
    let codecs = codecs(args)?;
    let base = args.base.as_deref().map(BaseFiles::open).transpose()?;
    let costs = args.costs.as_deref().map(read_costs).transpose()?;
    let models = files::models_of(&args.files)?;
    // One after the other: they may be more than a process may have open.
    let counts = models.iter().map(|model| Ok(TensorFile::open(&model.path)?.tensors().len()));
    let progress = Progress::new(counts.sum::<Result<_, CliError>>()?);
    let mut reports = Vec::new();
    for ModelFile { path, place } in &models {
        let file = TensorFile::open(path)?;
        let mut report = FileReport { file: path.clone(), tensors: Vec::new(), totals: Vec::new() };
        for tensor in file.tensors() {
            if cancel.is_cancelled() {
                return Err(ExecuteError::Cancelled.into());
            }
            progress.begin(&tensor.name);
            let values = file.read(tensor)?;
            let inspected = match &base {
                Some(base) => match base.values(tensor, path, place.as_deref())? {
                    Some((dtype, base)) => {
                        let base = Base::new(dtype, base);
                        inspect_against(tensor, &values, &base, &codecs, costs.as_ref())
                    }
                    None => inspect(tensor, &values, &codecs, costs.as_ref()),
                },
                None => inspect(tensor, &values, &codecs, costs.as_ref()),
            };
            report.tensors.push(inspected.map_err(|error| {
                CliError::Usage(format!("tensor `{}` of `{}`: {error}", tensor.name, path.display()))
            })?);
            progress.end();
        }
        report.totals = totals(&report.tensors);
        reports.push(report);
    }
    drop(progress);
    if args.json {
        return print_json(&serde_json::json!({ "files": reports }));
    }
    let texts: Vec<String> = reports.iter().map(|report| text(report, &codecs) + "\n").collect();
    print(texts.join("\n"))
}

/// The speeds in what `zipwire bench codec --json` prints: of several rows of one codec, type and class, all bytes over all seconds.
fn read_costs(path: &Path) -> Result<Costs, CliError> {
    #[derive(Deserialize)]
    struct Report {
        rows: Vec<Row>,
    }
    #[derive(Deserialize)]
    struct Row {
        codec: String,
        dtype: String,
        zeros_pct: f64,
        bytes_raw: f64,
        encode_gbps: f64,
        decode_gbps: f64,
    }
    let unfit = |reason: String| {
        let help = "speeds are read from what `zipwire bench codec --json` prints";
        CliError::Usage(format!("costs `{}`: {reason}\nhelp: {help}", path.display()))
    };
    let bytes = read_input(path, LONGEST_COSTS).map_err(|error| unfit(error.to_string()))?;
    let report: Report = serde_json::from_slice(&bytes).map_err(|error| unfit(error.to_string()))?;
    // Bytes, and seconds of a billionth of them, by codec, type and whether most values are zero.
    let mut sums = BTreeMap::<(&str, &str, bool), (f64, f64, f64)>::new();
    for row in &report.rows {
        let is_sparse = Class::of_zeros_pct(row.zeros_pct) == Class::Sparse;
        let (bytes, encode, decode) = sums.entry((&row.codec, &row.dtype, is_sparse)).or_default();
        *bytes += row.bytes_raw;
        *encode += row.bytes_raw / row.encode_gbps;
        *decode += row.bytes_raw / row.decode_gbps;
    }
    let mut costs = Costs::default();
    for ((codec, dtype, is_sparse), (bytes, encode, decode)) in sums {
        let Some(dtype) = DType::from_name(dtype) else { continue };
        let class = if is_sparse { Class::Sparse } else { Class::Dense };
        // Rows of codecs that are not chosen among, as zstd, say nothing here.
        costs.set(codec, dtype, class, Speed { encode_gbps: bytes / encode, decode_gbps: bytes / decode });
    }
    if costs == Costs::default() {
        Err(unfit("no speed of a codec that can be chosen: `raw`, `tiered`, `rans` or `planes`".to_owned()))
    } else {
        Ok(costs)
    }
}

/// The codecs that are named, or all; with a base also codecs that take differences from it.
fn codecs(args: &InspectArgs) -> Result<Vec<Spec>, CliError> {
    let Some(named) = &args.codec else {
        let plain = Spec::ids().map(|id| id.parse().expect("ids are specs"));
        return Ok(plain.chain(Spec::deltas().filter(|_| args.base.is_some())).collect());
    };
    if let Some(spec) = named.0.iter().find(|spec| spec.takes_base() && args.base.is_none()) {
        return Err(files::missing_base(spec));
    }
    Ok(named.0.clone())
}

fn text(report: &FileReport, codecs: &[Spec]) -> String {
    let ids: Vec<String> = codecs.iter().map(ToString::to_string).collect();
    let mut header =
        vec!["tensor", "type", "shape", "std", "entropy", "in rows", "in columns", "top 7", "zeros"];
    header.extend(["same rows", "kurtosis", "limit"]);
    header.extend(ids.iter().map(String::as_str));
    header.push("remarks");
    let mut rows = table::new(&header, &[0, 1, header.len() - 1]);
    for tensor in &report.tensors {
        rows.add_row(row(tensor, &ids));
    }
    for Total { dtype, tensors, bytes_raw, size_pct } in &report.totals {
        let mut row = vec![format!("all {tensors}"), dtype.clone(), table::bytes(*bytes_raw as f64)];
        row.resize(header.len() - 1 - ids.len(), String::new());
        row.extend(ids.iter().map(|id| size(size_pct, id)));
        row.push(String::new());
        rows.add_row(row);
    }
    let text = format!("{}\n\n{}", report.file.display(), table::text(&rows));
    match choices(report) {
        Some(choices) => format!("{text}\n\n{choices}"),
        None => text,
    }
}

/// Why codecs that choose chose what they did: a row for each codec that they considered.
fn choices(report: &FileReport) -> Option<String> {
    let header = ["tensor", "codec", "considered", "", "size", "encode", "transfer", "decode"];
    let mut rows = table::new(&header, &[0, 1, 2, 3]);
    for (tensor, choice) in
        report.tensors.iter().flat_map(|tensor| tensor.choices.iter().map(move |choice| (tensor, choice)))
    {
        for estimate in &choice.estimates {
            let time = |us: f64| format!("{us:.1} us");
            rows.add_row(vec![
                tensor.name.clone(),
                choice.codec.clone(),
                estimate.codec.to_owned(),
                if estimate.codec == choice.chosen { "chosen".to_owned() } else { String::new() },
                format!("{:.2} %", estimate.size_pct),
                time(estimate.encode_us),
                time(estimate.transfer_us),
                time(estimate.decode_us),
            ]);
        }
    }
    let text = table::text(&rows);
    report.tensors.iter().any(|tensor| !tensor.choices.is_empty()).then_some(text)
}

fn row(tensor: &TensorReport, codecs: &[String]) -> Vec<String> {
    let shape: Vec<String> = tensor.shape.iter().map(ToString::to_string).collect();
    let shape = if shape.is_empty() { "scalar".to_owned() } else { shape.join("x") };
    let mut row = vec![tensor.name.clone(), tensor.dtype.clone(), shape];
    let number = |value: Option<f64>| table::or_dash(value, |value| format!("{value:.2}"));
    match &tensor.statistics {
        None => row.extend(std::iter::repeat_n("-".to_owned(), 9)),
        Some(statistics) => {
            row.push(table::or_dash(statistics.std, |std| format!("{std:.2e}")));
            row.push(number(Some(statistics.exponent_entropy_bits)));
            row.push(number(statistics.exponent_entropy_in_rows_bits));
            row.push(number(statistics.exponent_entropy_in_columns_bits));
            row.push(format!("{:.1} %", 100.0 * statistics.coverage_top7));
            row.push(format!("{:.1} %", statistics.zeros_pct));
            let percent = |pct: Option<f64>| table::or_dash(pct, |pct| format!("{pct:.1} %"));
            row.push(percent(statistics.repeated_rows_pct));
            row.push(table::or_dash(statistics.kurtosis, |kurtosis| format!("{kurtosis:.1}")));
            row.push(format!("{:.2} %", statistics.limit_pct));
        }
    }
    row.extend(codecs.iter().map(|codec| size(&tensor.size_pct, codec)));
    row.push(tensor.remarks.join(", "));
    row
}

fn size(sizes: &[(String, f64)], codec: &str) -> String {
    let found = sizes.iter().find(|(id, _)| id == codec);
    table::or_dash(found, |(_, pct)| format!("{pct:.2} %"))
}
