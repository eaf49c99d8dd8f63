//! Recorded routing in: tokens per expert over the steps of a training run (CSV), and from each source rank to each expert (JSONL).

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use csv::{ErrorKind, Position, ReaderBuilder, StringRecord, Trim};
use ndarray::Array2;
use serde::Deserialize;

use crate::{TraceError, open_bounded};

/// Longest file, in bytes.
const LONGEST_TRACE: u64 = 1 << 30;

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
    let file = open_bounded(path, LONGEST_TRACE).map_err(TraceError::io(path))?;
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

    let steps = reader.records().map(|row| parse_step(&row.map_err(from_csv)?).map_err(bad));
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

fn parse_step(row: &StringRecord) -> Result<RoutingStep, Bad> {
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

/// One recorded step of one layer: token copies by source rank and expert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutingMatrix {
    /// Training step, from 0.
    pub step: u64,
    /// Layer of the model, from 0.
    pub layer: u32,
    /// How the data was dealt to the ranks: `domain` (a rank reads one text domain) or `shuffled`.
    pub sharding: String,
    /// Number of source ranks: the rows of `counts`.
    pub rank_count: u32,
    /// Experts per token.
    pub top_k: u32,
    /// Tokens of each source rank, before the copies to `top_k` experts.
    pub tokens_per_rank: u64,
    /// Token copies, source rank x expert.
    pub counts: Array2<u64>,
}

#[derive(Deserialize)]
#[serde(
    expecting = "an object with `step`, `layer`, `ranks`, `sharding`, `tokens_per_rank`, `topk` and `matrix`"
)]
struct Record {
    step: u64,
    layer: u32,
    ranks: u32,
    sharding: String,
    tokens_per_rank: u64,
    topk: u32,
    matrix: Vec<Vec<u64>>,
}

/// Longest file, and longest line of it, in bytes.
const LONGEST_FILE: u64 = 4 << 30;
const LONGEST_LINE: u64 = 64 << 20;

/// All records of the JSONL file at `path`, in the file's order. A line is an object with `step`, `layer`, `ranks`,
/// `sharding`, `tokens_per_rank`, `topk` and `matrix`, the counts as a list of rows; other keys are ignored, as are
/// empty lines.
///
/// # Errors
/// If the file cannot be read or holds no record, or if a line is not such an object, its matrix is ragged, or
/// has another number of rows than `ranks` says.
pub fn read_routing_matrices(path: &Path) -> Result<Vec<RoutingMatrix>, TraceError> {
    let file = open_bounded(path, LONGEST_FILE).map_err(TraceError::io(path))?;
    parse_routing_matrices(file, path)
}

/// Like [`read_routing_matrices`], of content that is already open or in memory; errors call it `path`.
///
/// # Errors
/// See [`read_routing_matrices`].
pub fn parse_routing_matrices(content: impl Read, path: &Path) -> Result<Vec<RoutingMatrix>, TraceError> {
    let mut text = BufReader::new(content);
    let (mut matrices, mut line) = (Vec::new(), Vec::new());
    for number in 1.. {
        line.clear();
        let read = text.by_ref().take(LONGEST_LINE + 1).read_until(b'\n', &mut line);
        if read.map_err(TraceError::io(path))? == 0 {
            break;
        }
        let bad =
            |(column, reason)| TraceError::BadJsonl { path: path.to_owned(), line: number, column, reason };
        if line.len() as u64 > LONGEST_LINE {
            return Err(bad((1, format!("the line has more than `{LONGEST_LINE}` bytes"))));
        }
        if !line.trim_ascii().is_empty() {
            matrices.push(parse_line(line.strip_suffix(b"\n").unwrap_or(&line)).map_err(bad)?);
        }
    }
    if matrices.is_empty() {
        return Err(TraceError::NoRecords { path: path.to_owned() });
    }
    Ok(matrices)
}

/// The record on `line`, or column and reason.
fn parse_line(line: &[u8]) -> Result<RoutingMatrix, (usize, String)> {
    let record: Record = serde_json::from_slice(line)
        .map_err(|error| (error.column().max(1), TraceError::json_reason(&error)))?;
    let whole = |reason: String| (1, reason);

    let rank_count = record.ranks;
    if rank_count == 0 {
        return Err(whole("`ranks` is `0`".to_owned()));
    }
    if record.matrix.len() != rank_count as usize {
        let rows = record.matrix.len();
        return Err(whole(format!("`matrix` has `{rows}` rows where `ranks` is `{rank_count}`")));
    }
    let experts = record.matrix[0].len();
    if experts == 0 {
        return Err(whole("`matrix` has no columns".to_owned()));
    }
    if let Some((row, counts)) = record.matrix.iter().enumerate().find(|(_, row)| row.len() != experts) {
        let found = counts.len();
        return Err(whole(format!(
            "`matrix` is ragged: row `{row}` has `{found}` columns, row `0` has `{experts}`"
        )));
    }
    let counts = Array2::from_shape_vec((record.matrix.len(), experts), record.matrix.concat())
        .expect("every row has the same number of columns");
    Ok(RoutingMatrix {
        step: record.step,
        layer: record.layer,
        sharding: record.sharding,
        rank_count,
        top_k: record.topk,
        tokens_per_rank: record.tokens_per_rank,
        counts,
    })
}
