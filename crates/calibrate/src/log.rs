//! Logs of nccl-tests: what its programs print, their comments and rows, and tables of several operations. Logs in JSON or CSV are
//! read elsewhere.

use std::collections::BTreeMap;

use zipwire_cluster::library::Operation;

use crate::error::LogError;
use crate::header::{Header, Naming, Program};
use crate::json;
use crate::label::without_labels;
use crate::rccl;
use crate::row::parse_row;
use crate::run::Run;
use crate::series::{Nics, Series, Timed, points};

/// Facts that the user states about a log; they override the log's own.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Given {
    /// Number of nodes.
    pub nodes: Option<u32>,
    /// GPUs of each node that took part.
    pub gpus_per_node: Option<u32>,
    /// Operation that was measured.
    pub operation: Option<Operation>,
    /// NICs of a node: those of the GPUs that took part.
    pub nics: Option<Nics>,
}

/// Contents of a log.
#[derive(Clone, Debug, PartialEq)]
pub struct Log {
    /// At least one; several if the log is of several runs, or a table of several operations or shapes.
    pub series: Vec<Series>,
    /// Remarks on oddities.
    pub notes: Vec<String>,
}

/// Reads a log: the text that programs of nccl-tests print, also with the labels of launchers, the JSON that they write with `-J`,
/// JSON or CSV of rccl-tests, or a table of several operations.
///
/// # Errors
/// If it is none of these, neither it nor `given` says what was measured on how many nodes, or what it says cannot be. They name
/// file, line and remedy.
pub fn parse_log(file: &str, text: &str, given: Given) -> Result<Log, LogError> {
    let text = text.trim_start_matches('\u{feff}');
    // JSON may have brackets at the beginnings of lines, which are no labels.
    let plain = if is_json(text) { text.to_owned() } else { without_labels(text) };
    let mut notes = Vec::new();
    let runs = if let Some(runs) = rccl::parse(file, &plain, &mut notes)? {
        runs
    } else if is_json(&plain) {
        json::parse(file, &plain, &mut notes)?
    } else if plain.lines().any(|line| columns(line).is_some()) {
        return parse_table(file, &plain, given);
    } else {
        parse_text(file, &plain, &mut notes)?
    };
    Ok(Log { series: series(file, runs, given, &mut notes)?, notes })
}

/// Whether a text begins as a table of JSON, or an array of tables.
fn is_json(text: &str) -> bool {
    let text = text.trim_start();
    text.strip_prefix('[').map_or(text, str::trim_start).starts_with('{')
}

/// Series of all runs of a log. Runs of one rank, and of operations that are not modelled, are left out where there are others.
fn series(
    file: &str,
    runs: Vec<Run>,
    given: Given,
    notes: &mut Vec<String>,
) -> Result<Vec<Series>, LogError> {
    let line = runs.first().map_or(1, Run::line);
    let alone: Vec<usize> = runs.iter().filter_map(|run| run.alone(given)).collect();
    if alone.len() == runs.len() {
        let file = file.to_owned();
        return Err(match alone.iter().sum() {
            1 => LogError::OneGpu { file, line },
            runs => LogError::Alone { file, line, runs },
        });
    }
    let mut all = Vec::new();
    let mut not_modelled = None;
    for run in runs {
        if run.alone(given).is_some() {
            notes.push(format!("{file}:{}: a run of one GPU alone is left out", run.line()));
            continue;
        }
        match run.series(file, given, notes) {
            Ok(series) => all.extend(series),
            Err(LogError::NotModelled { file, line, operation }) => {
                notes.push(format!("{file}:{line}: `{operation}` is not modelled, and left out"));
                not_modelled.get_or_insert(LogError::NotModelled { file, line, operation });
            }
            Err(error) => return Err(error),
        }
    }
    match not_modelled {
        Some(error) if all.is_empty() => Err(error),
        _ => Ok(all),
    }
}

/// Characters of a line that an error shows.
const SHOWN: usize = 60;

fn shown(line: &str) -> String {
    line.chars().take(SHOWN).collect()
}

/// Lines at the end and between runs that are neither comments nor rows, and say nothing of what was measured: programs that start
/// others add them.
fn is_chatter(line: &str) -> bool {
    !line.starts_with(|c: char| c.is_ascii_digit() || c.is_whitespace())
}

/// Reader of the text of one or more runs, one after the other.
#[derive(Default)]
struct Reader {
    /// Runs that are over.
    runs: Vec<Run>,
    run: Run,
    /// The program that lines behind the rows of this run name, if another run follows.
    next: Option<(Program, Naming)>,
    /// Whether programs around it have spoken since ranks were listed, and no row has come: the run may have ended there.
    is_broken_off: bool,
    /// The first line that seems to be part of a log but is not.
    chatter: Option<(usize, String)>,
}

impl Reader {
    fn read(&mut self, number: usize, line: &str) {
        let trimmed = line.trim_start();
        let bare = || Header::is_first(trimmed).then_some(trimmed);
        if let Some(comment) = trimmed.strip_prefix('#').or_else(bare) {
            let has_rows = !self.run.rows.is_empty();
            if has_rows && Header::begins(comment) || self.is_broken_off && Header::restarts(comment) {
                self.begin();
            }
            self.run.header.read(number, comment);
        } else if let Some(mut row) = parse_row(trimmed) {
            row.line = number;
            self.run.rows.push(row);
        } else if !trimmed.is_empty() {
            if self.run.rows.is_empty() {
                // NCCL's own lines, such as `NCCL INFO` and `NCCL version`, end no run; `Test NCCL failure` does.
                let is_library = trimmed.contains("NCCL ") && !trimmed.contains("failure");
                self.is_broken_off |= self.run.header.is_listed() && !is_library;
                trimmed.split_whitespace().for_each(|word| self.run.header.read_program(word));
            } else {
                let mut header = Header { program: self.next.take(), ..Header::default() };
                trimmed.split_whitespace().for_each(|word| header.read_program(word));
                self.next = header.program;
            }
            if !is_chatter(line) {
                self.chatter.get_or_insert_with(|| (number, shown(trimmed)));
            }
        }
    }

    /// Begins the run that follows in the same file.
    fn begin(&mut self) {
        self.is_broken_off = false;
        let header = Header { program: self.next.take(), ..Header::default() };
        let mut run = std::mem::replace(&mut self.run, Run { header, rows: Vec::new() });
        if let Some(before) = self.runs.last() {
            run.header.fill(&before.header);
        }
        self.runs.push(run);
    }

    /// All runs with rows. What is said behind the last rows is of the last run, unless a run begins there.
    fn end(mut self) -> Vec<Run> {
        self.begin();
        self.begin();
        while let Some(end) = self.runs.pop_if(|run| run.rows.is_empty()) {
            let is_run = end.header.is_listed() || matches!(end.header.program, Some((_, Naming::Start)));
            if let Some(last) = self.runs.last_mut().filter(|_| !is_run) {
                last.header.fill_from_end(end.header);
            }
        }
        self.runs.retain(|run| !run.rows.is_empty());
        self.runs
    }
}

/// Runs of a text, each with a row at least.
fn parse_text(file: &str, text: &str, notes: &mut Vec<String>) -> Result<Vec<Run>, LogError> {
    let mut reader = Reader::default();
    for (index, line) in text.lines().enumerate() {
        reader.read(index + 1, line);
    }
    let chatter = reader.chatter.take();
    let runs = reader.end();
    if runs.is_empty() {
        let first =
            text.lines().enumerate().find(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
        return Err(match first {
            Some((index, line)) => {
                LogError::NotARow { file: file.to_owned(), line: index + 1, text: shown(line.trim()) }
            }
            None => LogError::Empty { file: file.to_owned(), lines: text.lines().count().max(1) },
        });
    }
    if let Some((line, text)) = chatter {
        notes.push(format!("{file}:{line}: no row of nccl-tests, and left out: `{text}`"));
    }
    Ok(runs)
}

// Tables of several operations and shapes in one file, as collections of measurements have them. A comment names the columns:
//
// ```text
// # op ngpus dtype size_B time_us busbw_GBs
// all_gather 2 half 512 8.98 0.03
// # op nodes gpus size_B time_oop_us algbw_oop ...
// all_reduce 2 8 8589934592 17930 479.07 ...
// ```
// `ngpus` are those of one node, `gpus` those of all nodes.

/// The names of columns, if the line is the comment that has them.
fn columns(line: &str) -> Option<Vec<&str>> {
    let names: Vec<&str> = line.trim_start().strip_prefix('#')?.split_whitespace().collect();
    (names.first() == Some(&"op") && names.contains(&"size_B")).then_some(names)
}

/// Key of a series: operation, nodes, GPUs per node, type.
type Key = (Operation, u32, u32, String);

fn parse_table(file: &str, text: &str, given: Given) -> Result<Log, LogError> {
    let mut header = Header::default();
    let mut names = None;
    let mut rows: BTreeMap<Key, Vec<Timed>> = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        if let Some(found) = columns(line) {
            names = Some(found);
        } else if let Some(comment) = line.trim_start().strip_prefix('#') {
            header.read(index + 1, comment);
        } else if !line.trim().is_empty() {
            let row = names.as_deref().and_then(|names| row(names, line));
            let (key, value) = row.ok_or_else(|| LogError::NotARow {
                file: file.to_owned(),
                line: index + 1,
                text: shown(line.trim()),
            })?;
            rows.entry(key).or_default().push(value);
        }
    }
    if rows.is_empty() {
        return Err(LogError::Empty { file: file.to_owned(), lines: text.lines().count().max(1) });
    }
    header.refuse_odd_nics(file, given)?;
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
        nics: given.nics.or_else(|| header.nics_of(gpus_per_node)),
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
        let log = parse_table("t", text, Given::default()).unwrap();
        let shapes: Vec<_> = log.series.iter().map(|series| (series.name(), series.points.len())).collect();
        assert_eq!(shapes, [("all_gather 1x2".to_owned(), 2), ("all_gather 1x4".to_owned(), 1)]);
        let only = parse_table("t", text, Given { gpus_per_node: Some(4), ..Given::default() }).unwrap();
        assert_eq!(only.series.len(), 1);
        let error =
            parse_table("t", &text.replace("9.0 0", "x 0"), Given::default()).unwrap_err().to_string();
        assert!(error.starts_with("t:4: this is no row"), "{error}");
    }
}
