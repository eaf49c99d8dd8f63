//! A matrix of bytes between ranks, as `NCCL_TESTS_ALLTOALLV_MATRIX_FILE` has it.

use crate::error::LogError;

/// Bytes that each rank sends to each rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrafficMatrix {
    /// By sender and receiver.
    pub bytes: Vec<Vec<u64>>,
}

/// Reads a square matrix: a line for each sender, with bytes for each receiver, separated by blanks or commas. Lines that begin with
/// `#` are comments.
///
/// # Errors
/// Names the line that is no row of a square matrix.
pub fn parse_matrix(file: &str, text: &str) -> Result<TrafficMatrix, LogError> {
    let not = |line: usize, reason: String| LogError::NotAMatrix { file: file.to_owned(), line, reason };
    let mut rows: Vec<(usize, Vec<u64>)> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.trim_start().starts_with('#') {
            continue;
        }
        let fields = line.split(|c: char| c == ',' || c.is_whitespace()).filter(|field| !field.is_empty());
        let numbers = fields.map(|field| {
            field.parse().map_err(|_| not(index + 1, format!("`{field}` is no number of bytes")))
        });
        rows.push((index + 1, numbers.collect::<Result<_, _>>()?));
    }
    let ranks = rows.len();
    if ranks == 0 {
        return Err(not(text.lines().count().max(1), "there is no line with numbers".to_owned()));
    }
    match rows.iter().find(|(_, row)| row.len() != ranks) {
        Some((line, row)) => Err(not(*line, format!("{} numbers, in a matrix of {ranks} lines", row.len()))),
        None => Ok(TrafficMatrix { bytes: rows.into_iter().map(|(_, row)| row).collect() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_is_square() {
        let matrix = parse_matrix("m", "# bytes\n0 10\n20, 0\n").unwrap();
        assert_eq!(matrix.bytes, [[0, 10], [20, 0]]);
        let error = |text: &str| parse_matrix("m", text).unwrap_err().to_string();
        assert!(error("1 2\n3\n").starts_with("m:2: 1 numbers, in a matrix of 2 lines"));
        assert!(error("1 x\n3 4\n").starts_with("m:1: `x` is no number of bytes"));
        assert!(error("").starts_with("m:1: there is no line with numbers"));
    }
}
