//! `zipwire calibrate table`: a table that frames share, from samples.

use std::path::Path;

use zipwire::bench::{TrainError, Trained, train};
use zipwire::codec::{DType, Spec};
use zipwire::traces::{TableFileError, TensorFile, read_input, read_table};
use zipwire::{Cancel, ExecuteError, with_help};

use crate::cli::CalibrateTableArgs;
use crate::commands::{print, print_json};
use crate::error::CliError;
use crate::table;

/// Longest sample, in bytes: training takes them all at once.
const LONGEST: u64 = 1 << 36;

/// A codec that takes tables.
pub(crate) fn codec(text: &str) -> Result<Spec, String> {
    let spec: Spec =
        text.parse().map_err(|error: zipwire::codec::SpecError| with_help(&error, error.help()))?;
    if spec.table_id().is_some() {
        return Err(format!("`{spec}` names a table already\nhelp: leave `table` out"));
    }
    let takes_tables = |id: &&str| Spec::options(id).any(|option| option == "table");
    let known: Vec<&str> = Spec::ids().filter(takes_tables).collect();
    if !known.contains(&spec.codec().id()) {
        return Err(format!(
            "codec `{spec}` takes no table\nhelp: those that do are `{}`",
            known.join("`, `")
        ));
    }
    Ok(spec)
}

pub(crate) fn run(args: &CalibrateTableArgs, cancel: &Cancel) -> Result<(), CliError> {
    let mut samples = Vec::new();
    for path in &args.files {
        samples.extend(read(path, args.dtype, cancel)?);
    }
    let samples: Vec<&[u8]> = samples.iter().map(Vec::as_slice).collect();
    let trained =
        train(&args.codec, args.layout, args.dtype, &samples, cancel).map_err(|error| match error {
            TrainError::Cancelled => ExecuteError::Cancelled.into(),
            error => CliError::Usage(error.to_string()),
        })?;
    if let Some(path) = &args.out {
        super::write_over(path, &trained.file.to_text(), is_table_file, cancel)?;
    }
    if args.json { print_json(&trained) } else { print(text(&trained, samples.len())) }
}

/// Whether a file is one of a table, of another version or damaged though it may be.
fn is_table_file(path: &Path) -> bool {
    !matches!(read_table(path), Err(TableFileError::Read { .. } | TableFileError::Syntax { .. }))
}

/// The values of the type in a file.
fn read(path: &Path, dtype: DType, cancel: &Cancel) -> Result<Vec<Vec<u8>>, CliError> {
    let name = path.display();
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    if extension.eq_ignore_ascii_case("safetensors") {
        let file = TensorFile::open(path)?;
        let all = file.tensors();
        let mut samples = Vec::new();
        for tensor in all.iter().filter(|tensor| tensor.dtype == dtype.name()) {
            if cancel.is_cancelled() {
                return Err(ExecuteError::Cancelled.into());
            }
            samples.push(file.read(tensor)?);
        }
        if samples.is_empty() {
            let mut found: Vec<&str> = all.iter().map(|tensor| tensor.dtype.as_str()).collect();
            found.sort_unstable();
            found.dedup();
            let found = if found.is_empty() { "no tensor".to_owned() } else { found.join(", ") };
            return Err(CliError::Usage(format!(
                "`{name}` has no tensor of type {dtype}: it has {found}\nhelp: choose the type with `--dtype`"
            )));
        }
        return Ok(samples);
    }
    if let Some(other) = DType::ALL.into_iter().find(|other| other.name().eq_ignore_ascii_case(extension))
        && other != dtype
    {
        return Err(CliError::Usage(format!(
            "`{name}` has values of type {other} by its name, and the table is for {dtype}\nhelp: choose the type with `--dtype`"
        )));
    }
    let values = read_input(path, LONGEST)
        .map_err(|error| CliError::Usage(format!("cannot read `{name}`: {error}")))?;
    if !values.len().is_multiple_of(dtype.width()) {
        let bytes = values.len();
        return Err(CliError::Usage(format!(
            "`{name}` has {bytes} bytes, which are no whole number of {dtype} values"
        )));
    }
    Ok(vec![values])
}

fn text(trained: &Trained, samples: usize) -> String {
    let Trained { codec, dtype, layout, bytes_raw, size_pct, own_size_pct, missed_pct, .. } = trained;
    let raw = table::bytes(*bytes_raw as f64);
    format!(
        "`{codec}` from {samples} samples of {dtype}, {raw}\n\
         {size_pct:.3} % of raw in layout {layout} with this table, {own_size_pct:.3} % with one in each frame\n\
         {missed_pct:.4} % of the values are not served by it\n"
    )
}
