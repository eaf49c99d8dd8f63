//! Tables of several operations and shapes in one file, as collections of measurements have them. A comment names the columns:
//!
//! ```text
//! # op ngpus dtype size_B time_us busbw_GBs
//! all_gather 2 half 512 8.98 0.03
//! # op nodes gpus size_B time_oop_us algbw_oop ...
//! all_reduce 2 8 8589934592 17930 479.07 ...
//! ```
//!
//! `ngpus` are those of one node, `gpus` those of all nodes.

use std::collections::BTreeMap;

use zipwire_cluster::library::Operation;

use crate::error::LogError;
use crate::header::Header;
use crate::log::{Given, Log};
use crate::series::{Series, Timed, points};

/// The names of columns, if the line is the comment that has them.
pub(crate) fn columns(line: &str) -> Option<Vec<&str>> {
    let names: Vec<&str> = line.trim_start().strip_prefix('#')?.split_whitespace().collect();
    (names.first() == Some(&"op") && names.contains(&"size_B")).then_some(names)
}

/// Key of a series: operation, nodes, GPUs per node, type.
type Key = (Operation, u32, u32, String);

pub(crate) fn parse(file: &str, text: &str, given: Given) -> Result<Log, LogError> {
    let mut header = Header::default();
    let mut names = None;
    let mut rows: BTreeMap<Key, Vec<Timed>> = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        if let Some(found) = columns(line) {
            names = Some(found);
        } else if let Some(comment) = line.trim_start().strip_prefix('#') {
            header.read(comment);
        } else if !line.trim().is_empty() {
            let row = names.as_deref().and_then(|names| row(names, line));
            let (key, value) = row.ok_or_else(|| LogError::NotARow {
                file: file.to_owned(),
                line: index + 1,
                text: line.trim().chars().take(60).collect(),
            })?;
            rows.entry(key).or_default().push(value);
        }
    }
    if rows.is_empty() {
        return Err(LogError::Empty { file: file.to_owned(), lines: text.lines().count().max(1) });
    }
    let is_wanted = |(operation, nodes, gpus, _): &Key| {
        given.operation.is_none_or(|wanted| wanted == *operation)
            && given.nodes.is_none_or(|wanted| wanted == *nodes)
            && given.gpus_per_node.is_none_or(|wanted| wanted == *gpus)
    };
    let series = rows.into_iter().filter(|(key, _)| is_wanted(key));
    let series = series.map(|((operation, nodes, gpus_per_node, dtype), rows)| Series {
        file: file.to_owned(),
        operation,
        nodes,
        gpus_per_node,
        gpu: header.gpu.clone(),
        nics: header.nics_of(gpus_per_node),
        dtype,
        points: points(rows),
    });
    let series: Vec<Series> = series.collect();
    if series.is_empty() {
        return Err(LogError::Empty { file: file.to_owned(), lines: text.lines().count().max(1) });
    }
    Ok(Log { series, notes: Vec::new() })
}

fn row(names: &[&str], line: &str) -> Option<(Key, Timed)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let field =
        |name: &str| names.iter().position(|column| *column == name).and_then(|at| fields.get(at).copied());
    let time = |name: &str| field(name)?.parse().ok().filter(|us: &f64| us.is_finite() && *us > 0.0);
    let operation = Operation::named(field("op")?)?;
    let bytes: u64 = field("size_B")?.parse().ok()?;
    let count = |name: &str| field(name)?.parse::<u32>().ok().filter(|count| *count > 0);
    let (nodes, gpus) = match (count("ngpus"), count("nodes"), count("gpus")) {
        (Some(gpus), None, None) => (1, gpus),
        (None, Some(nodes), Some(gpus)) if gpus % nodes == 0 => (nodes, gpus / nodes),
        _ => return None,
    };
    if nodes * gpus < 2 {
        return None;
    }
    let us = time("time_us").or_else(|| time("time_oop_us"))?;
    let in_place = time("time_ip_us").map(|us| us * 1e-6);
    let dtype = field("dtype").unwrap_or("float").to_owned();
    Some(((operation, nodes, gpus, dtype), (bytes, us * 1e-6, in_place)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_one_series_for_each_operation_and_shape() {
        let text = "# gpu: H100-SXM; one node\n# op ngpus dtype size_B time_us busbw_GBs\nall_gather 2 half 512 8.98 0.03\n\
                    all_gather 2 half 1024 9.0 0.06\nall_gather 4 half 512 9.9 0.03\n";
        let log = parse("t", text, Given::default()).unwrap();
        let shapes: Vec<_> = log.series.iter().map(|series| (series.name(), series.points.len())).collect();
        assert_eq!(shapes, [("all_gather 1x2".to_owned(), 2), ("all_gather 1x4".to_owned(), 1)]);
        let only = parse("t", text, Given { gpus_per_node: Some(4), ..Given::default() }).unwrap();
        assert_eq!(only.series.len(), 1);
        let error = parse("t", &text.replace("9.0 0", "x 0"), Given::default()).unwrap_err().to_string();
        assert!(error.starts_with("t:4: this is no row"), "{error}");
    }
}
