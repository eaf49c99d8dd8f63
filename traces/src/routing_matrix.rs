//! Recorded routing in: how many token copies each source rank sent to each expert (JSONL).

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use ndarray::Array2;
use serde::Deserialize;

use crate::{TraceError, open_bounded};

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

/// A line of the file.
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
const LONGEST: u64 = 4 << 30;
const LONGEST_LINE: u64 = 64 << 20;

/// All records of the JSONL file at `path`, in the file's order. A line is an object with `step`, `layer`, `ranks`,
/// `sharding`, `tokens_per_rank`, `topk` and `matrix`, the counts as a list of rows; other keys are ignored, as are
/// empty lines.
///
/// # Errors
/// If the file cannot be read or holds no record, or if a line is not such an object, its matrix is ragged, or
/// has another number of rows than `ranks` says.
pub fn read_routing_matrices(path: &Path) -> Result<Vec<RoutingMatrix>, TraceError> {
    let file = open_bounded(path, LONGEST).map_err(TraceError::io(path))?;
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
            matrices.push(parse(line.strip_suffix(b"\n").unwrap_or(&line)).map_err(bad)?);
        }
    }
    if matrices.is_empty() {
        return Err(TraceError::NoRecords { path: path.to_owned() });
    }
    Ok(matrices)
}

/// The record on `line`, or column and reason.
fn parse(line: &[u8]) -> Result<RoutingMatrix, (usize, String)> {
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
