//! Records that rccl-tests writes with `-Z`, one for each measurement: CSV, or JSON in an array or a line each.

use serde_json::{Map, Value};

use crate::error::LogError;
use crate::header::{Header, MOST_GPUS, MOST_NODES, Naming, Program};
use crate::json::{measured, number};
use crate::row::Row;
use crate::run::Run;

/// Runs of a file, in their order; none if it has no such records.
///
/// # Errors
/// If it has such records and others.
pub(crate) fn parse(file: &str, text: &str, notes: &mut Vec<String>) -> Result<Option<Vec<Run>>, LogError> {
    let records = match csv(text) {
        Some(records) => records,
        None => match json(file, text, notes)? {
            Some(records) => records,
            None => return Ok(None),
        },
    };
    let mut runs: Vec<Run> = Vec::new();
    for (line, record) in records {
        let parts = header(&record).zip(row(line, &record));
        let (header, (row, is_in_place)) = parts.ok_or_else(|| LogError::Json {
            file: file.to_owned(),
            line,
            reason: "this is no measurement of rccl-tests".to_owned(),
        })?;
        let run = match runs.iter_mut().find(|run| run.header == header) {
            Some(run) => run,
            None => {
                runs.push(Run { header, rows: Vec::new() });
                runs.last_mut().expect("it was just added")
            }
        };
        match run.rows.last_mut() {
            Some(last) if is_in_place && is_same(last, &row) => last.second = Some(row.first),
            _ => run.rows.push(row),
        }
    }
    Ok((!runs.is_empty()).then_some(runs))
}

/// Whether a row has measured the same out of place, and nothing in place.
fn is_same(row: &Row, other: &Row) -> bool {
    (row.bytes, &row.dtype, &row.redop) == (other.bytes, &other.dtype, &other.redop) && row.second.is_none()
}

/// Lines of records, and their fields by names in lower case.
type Records = Vec<(usize, Map<String, Value>)>;

/// Records of a CSV, as text; none if its first line does not name their columns.
fn csv(text: &str) -> Option<Records> {
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let (_, first) = lines.next()?;
    let names: Vec<String> = first.split(',').map(|name| name.trim().to_lowercase()).collect();
    if !["collective", "size", "time"].iter().all(|needed| names.iter().any(|name| name == needed)) {
        return None;
    }
    let record = |line: &str| {
        let fields = line.split(',').map(|field| Value::String(field.trim().to_owned()));
        names.iter().cloned().zip(fields).collect()
    };
    Some(lines.map(|(index, line)| (index + 1, record(line))).collect())
}

/// Records of JSON, in an array or a line each; none if it is other JSON or none at all.
fn json(file: &str, text: &str, notes: &mut Vec<String>) -> Result<Option<Records>, LogError> {
    let lower = |value: Value| match value {
        Value::Object(record) => {
            Some(record.into_iter().map(|(key, value)| (key.to_lowercase(), value)).collect())
        }
        _ => None,
    };
    let is_record =
        |record: &Map<String, Value>| record.contains_key("size") && record.contains_key("inplace");
    if text.trim_start().starts_with('[')
        && let Ok(Value::Array(values)) = serde_json::from_str(text)
    {
        let records: Option<Vec<Map<String, Value>>> = values.into_iter().map(lower).collect();
        let records = records.filter(|records| records.iter().all(is_record));
        return Ok(records.map(|records| records.into_iter().map(|record| (1, record)).collect()));
    }
    let mut records = Records::new();
    let lines: Vec<(usize, &str)> =
        text.lines().enumerate().filter(|(_, line)| !matches!(line.trim(), "" | "[" | "]")).collect();
    for (place, (index, line)) in lines.iter().enumerate() {
        let value = serde_json::from_str(line.trim().trim_end_matches(',')).ok().and_then(lower);
        match value.filter(is_record) {
            Some(record) => records.push((index + 1, record)),
            None if records.is_empty() => return Ok(None),
            None if place + 1 == lines.len() => {
                notes.push(format!("{file}:{}: the last record has no end, and is left out", index + 1));
            }
            None => {
                return Err(LogError::Json {
                    file: file.to_owned(),
                    line: index + 1,
                    reason: "this is no measurement of rccl-tests, as the lines before it are".to_owned(),
                });
            }
        }
    }
    Ok((!records.is_empty()).then_some(records))
}

/// Operation and shape of a record.
fn header(record: &Map<String, Value>) -> Option<Header> {
    let text = |key: &str| record.get(key).and_then(Value::as_str);
    let count = |key: &str, most: u32| {
        let count = record.get(key).and_then(number).filter(|count| (1.0..=f64::from(most)).contains(count));
        count.map(|count| count as u32)
    };
    let name = text("name").or_else(|| text("collective"))?;
    let program = Program::named(name).unwrap_or_else(|| Program::Other(name.to_owned()));
    // Without MPI there is one process, and its GPUs are counted.
    let alone = count("gpus", MOST_GPUS).map(|gpus| (1, gpus));
    let of_all = || {
        let (ranks, per_node) = (count("ranks", MOST_NODES * MOST_GPUS)?, count("rankspernode", MOST_GPUS)?);
        let of_ranks = || ranks.is_multiple_of(per_node).then_some(ranks / per_node);
        let nodes = count("nodes", MOST_NODES).or_else(of_ranks)?;
        let gpus = per_node * count("gpusperrank", MOST_GPUS).unwrap_or(1);
        (gpus <= MOST_GPUS).then_some((nodes, gpus))
    };
    let shape = alone.or_else(of_all);
    Some(Header {
        program: Some((program, Naming::Start)),
        nodes: shape.map(|(nodes, _)| nodes),
        gpus_per_node: shape.map(|(_, gpus)| gpus),
        ..Header::default()
    })
}

/// The row of a record, and whether it was measured in place.
fn row(line: usize, record: &Map<String, Value>) -> Option<(Row, bool)> {
    let of = |key: &str| record.get(key).and_then(number);
    let text = |key: &str| record.get(key).and_then(Value::as_str).map(str::to_owned);
    let wrong = of("wrong").or_else(|| of("#wrong"));
    let row = Row {
        line,
        bytes: of("size").filter(|bytes| *bytes >= 0.0)? as u64,
        count: None,
        dtype: text("type").unwrap_or_else(|| "float".to_owned()),
        redop: text("redop"),
        root: None,
        first: measured(of("time"), of("algbw"), of("busbw"), wrong)?,
        second: None,
    };
    Some((row, of("inplace") == Some(1.0)))
}
