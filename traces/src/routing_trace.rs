//! Recorded routing in: tokens per expert over the steps of a training run (CSV).

use std::io::Read;
use std::path::Path;

use csv::{ErrorKind, Position, ReaderBuilder, StringRecord, Trim};

use crate::{TraceError, open_bounded};

/// Longest file, in bytes.
const LONGEST: u64 = 1 << 30;

/// Columns before the experts'.
const KEYS: [&str; 2] = ["step", "layer"];

/// One step of one layer: token copies by expert, summed over the ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutingStep {
    /// Training step, from 0.
    pub step: u64,
    /// Layer of the model, from 0.
    pub layer: u32,
    /// Token copies by expert.
    pub tokens: Vec<u64>,
}

/// All rows of the CSV file at `path`, in the file's order. The columns are `step`, `layer`, `e0`, `e1` and so on, one
/// per expert.
///
/// # Errors
/// If the file cannot be read, has other columns or no rows, or if a row is ragged or holds anything but
/// non-negative integers; with line and column.
pub fn read_routing_trace(path: &Path) -> Result<Vec<RoutingStep>, TraceError> {
    let file = open_bounded(path, LONGEST).map_err(TraceError::io(path))?;
    parse_routing_trace(file, path)
}

/// Like [`read_routing_trace`], of content that is already open or in memory; errors call it `path`.
///
/// # Errors
/// See [`read_routing_trace`].
pub fn parse_routing_trace(content: impl Read, path: &Path) -> Result<Vec<RoutingStep>, TraceError> {
    let bad = |(line, column, reason)| TraceError::BadCsv { path: path.to_owned(), line, column, reason };
    let from_csv = |error: csv::Error| from_csv(path, error);

    let mut reader = ReaderBuilder::new().trim(Trim::All).from_reader(content);
    check_header(reader.headers().map_err(from_csv)?).map_err(bad)?;

    let steps = reader.records().map(|row| parse(&row.map_err(from_csv)?).map_err(bad));
    let steps = steps.collect::<Result<Vec<_>, _>>()?;
    if steps.is_empty() {
        return Err(TraceError::NoRecords { path: path.to_owned() });
    }
    Ok(steps)
}

/// Line, name of the column, reason.
type Bad = (u64, String, String);

fn check_header(header: &StringRecord) -> Result<(), Bad> {
    // One expert at least, so that a file with nothing but keys is found wanting `e0`.
    for index in 0..header.len().max(KEYS.len() + 1) {
        let needed = column(index);
        let reason = match header.get(index) {
            Some(found) if found == needed => continue,
            Some(found) => format!("the header has `{found}` where `{needed}` is needed"),
            None => format!("the header lacks `{needed}`"),
        };
        return Err((1, needed, reason));
    }
    Ok(())
}

fn parse(row: &StringRecord) -> Result<RoutingStep, Bad> {
    let number = |index: usize| {
        let field = &row[index];
        let reason = || format!("`{field}` is not a non-negative integer");
        field.parse::<u64>().map_err(|_| (line(row.position()), column(index), reason()))
    };
    let layer = number(1)?;
    let layer = u32::try_from(layer)
        .map_err(|_| (line(row.position()), column(1), format!("layer `{layer}` does not fit 32 bits")))?;
    let tokens = (KEYS.len()..row.len()).map(number).collect::<Result<_, _>>()?;
    Ok(RoutingStep { step: number(0)?, layer, tokens })
}

/// The error of the CSV reader itself, with its place.
fn from_csv(path: &Path, error: csv::Error) -> TraceError {
    let reason = error.to_string();
    let (position, index, reason) = match error.into_kind() {
        ErrorKind::Io(source) => return TraceError::Io { path: path.to_owned(), source },
        ErrorKind::UnequalLengths { pos, expected_len, len } => {
            let index = len.min(expected_len);
            (pos, index as usize, format!("the row has `{len}` columns, the header has `{expected_len}`"))
        }
        ErrorKind::Utf8 { pos, err } => (pos, err.field(), "the field is not UTF-8".to_owned()),
        _ => (None, 0, reason),
    };
    TraceError::BadCsv { path: path.to_owned(), line: line(position.as_ref()), column: column(index), reason }
}

/// The name that column `index` must have.
fn column(index: usize) -> String {
    KEYS.get(index).map_or_else(|| format!("e{}", index - KEYS.len()), |&key| key.to_owned())
}

fn line(position: Option<&Position>) -> u64 {
    position.map_or(1, Position::line)
}
