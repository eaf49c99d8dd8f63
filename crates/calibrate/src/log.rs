//! Logs of nccl-tests: what its programs print, their comments and rows, and tables of several operations. Logs in JSON are read elsewhere.

use std::collections::BTreeMap;

use zipwire_cluster::library::Operation;

use crate::error::LogError;
use crate::json;
use crate::series::{Nics, Series, Timed, points};

/// Facts that the user states about a log; they override the log's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// Number of nodes.
    pub nodes: Option<u32>,
    /// GPUs of each node that took part.
    pub gpus_per_node: Option<u32>,
    /// Operation that was measured.
    pub operation: Option<Operation>,
}

/// Contents of a log.
#[derive(Clone, Debug, PartialEq)]
pub struct Log {
    /// At least one; several if the log is a table of several operations or shapes.
    pub series: Vec<Series>,
    /// Remarks on oddities.
    pub notes: Vec<String>,
}

/// Reads a log: the text that a program of nccl-tests prints, the JSON that it writes with `-J`, or a table of several operations.
///
/// # Errors
/// If it is none of these, or neither it nor `given` says what was measured on how many nodes. They name file, line and remedy.
pub fn parse_log(file: &str, text: &str, given: Given) -> Result<Log, LogError> {
    if text.trim_start().starts_with('{') {
        return json::parse(file, text, given);
    }
    if text.lines().any(|line| columns(line).is_some()) {
        return parse_table(file, text, given);
    }
    parse_text(file, text, given)
}

/// The operation, nodes and GPUs per node of a log.
pub(crate) fn shape(
    file: &str,
    line: usize,
    header: &Header,
    given: Given,
) -> Result<(Operation, u32, u32), LogError> {
    let named = |what, flag| LogError::NoShape { file: file.to_owned(), line, what, flag };
    let operation = given.operation.or(header.operation);
    let operation = operation.ok_or_else(|| LogError::NoOperation { file: file.to_owned(), line })?;
    let mut hosts = header.hosts.clone();
    hosts.sort();
    hosts.dedup();
    let (ranks, host_count) = (header.hosts.len(), hosts.len());
    let counted = (ranks > 0).then_some(host_count).and_then(|count| u32::try_from(count).ok());
    let nodes = given.nodes.or(header.nodes).or(counted);
    let nodes = nodes.ok_or_else(|| named("nodes", "--nodes 1"))?;
    let counted = match counted {
        Some(_) if given.gpus_per_node.or(header.gpus_per_node).is_none() => {
            let (all, nodes) = (ranks, nodes as usize);
            if all % nodes != 0 {
                return Err(LogError::Uneven { file: file.to_owned(), line, ranks, nodes: host_count });
            }
            u32::try_from(all / nodes).ok()
        }
        _ => None,
    };
    let gpus = given.gpus_per_node.or(header.gpus_per_node).or(counted);
    let gpus = gpus.ok_or_else(|| named("GPUs per node", "--gpus-per-node 8"))?;
    if nodes.saturating_mul(gpus) < 2 {
        return Err(named("GPUs: one alone has nothing to exchange", "--gpus-per-node 8"));
    }
    Ok((operation, nodes, gpus))
}

/// Characters of a line that an error shows.
const SHOWN: usize = 60;

/// Lines at the end and between runs that are neither comments nor rows, and say nothing of what was measured: programs that start
/// others add them.
fn is_chatter(line: &str) -> bool {
    !line.starts_with(|c: char| c.is_ascii_digit() || c.is_whitespace())
}

fn parse_text(file: &str, text: &str, given: Given) -> Result<Log, LogError> {
    let mut header = Header::default();
    let mut rows: Vec<(usize, Row)> = Vec::new();
    let mut chatter = None;
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        let trimmed = line.trim_start();
        if let Some(comment) = trimmed.strip_prefix('#') {
            header.read(comment);
        } else if let Some(row) = parse_row(trimmed) {
            rows.push((number, row));
        } else if !trimmed.is_empty() {
            trimmed.split_whitespace().for_each(|word| header.read_program(word));
            if !is_chatter(line) {
                chatter.get_or_insert((number, trimmed));
            }
        }
    }
    let shown = |line: &str| line.chars().take(SHOWN).collect();
    let Some((first, _)) = rows.first() else {
        let first =
            text.lines().enumerate().find(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
        return Err(match first {
            Some((index, line)) => {
                LogError::NotARow { file: file.to_owned(), line: index + 1, text: shown(line.trim()) }
            }
            None => LogError::Empty { file: file.to_owned(), lines: text.lines().count().max(1) },
        });
    };
    let (operation, nodes, gpus_per_node) = shape(file, *first, &header, given)?;
    let mut notes = Vec::new();
    if let Some((line, text)) = chatter {
        notes.push(format!("{file}:{line}: no row of nccl-tests, and left out: `{}`", shown(text)));
    }
    let odd = rows.iter().filter(|(_, row)| row.bytes > 0 && !row.first.fits(row.bytes));
    notes.extend(odd.map(|(line, row)| {
        format!(
            "{file}:{line}: an algorithm bandwidth of {} GB/s does not fit {} bytes in {} us; the time is taken",
            row.first.algbw, row.bytes, row.first.us
        )
    }));
    let dtype = rows[0].1.dtype.clone();
    let measured = rows.iter().filter(|(_, row)| row.first.us > 0.0);
    let points = points(measured.map(|(_, row)| {
        let in_place = row.second.filter(|second| second.us > 0.0);
        (row.bytes, row.first.us * 1e-6, in_place.map(|second| second.us * 1e-6))
    }));
    let nics = header.nics_of(gpus_per_node);
    let gpu = header.gpu;
    let series = Series { file: file.to_owned(), operation, nodes, gpus_per_node, gpu, nics, dtype, points };
    Ok(Log { series: vec![series], notes })
}

/// A row is size, count and type; then `redop` and `root`, which old versions lack; then for out-of-place and in-place operations
/// each: time in microseconds, algorithm and bus bandwidth in GB/s, and wrong values, which are `N/A` where nothing was checked.
/// With `-I 1` each of the two has four fields more (least, most, 99th percentile, deviation); with `-S 1` a date and a time are
/// last; with `-C 1` the time is that of the CPU. Either of the two may be blank.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    pub(crate) bytes: u64,
    pub(crate) dtype: String,
    /// Out of place, or in place if that is all there is.
    pub(crate) first: Measured,
    /// In place, if both are there.
    pub(crate) second: Option<Measured>,
}

/// A time and the algorithm bandwidth that is printed beside it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Measured {
    pub(crate) us: f64,
    pub(crate) algbw: f64,
}

impl Measured {
    /// Whether the printed bandwidth is that of the size over the time, but for rounding: bandwidths have two digits behind the
    /// point, times have four digits at least.
    pub(crate) fn fits(&self, bytes: u64) -> bool {
        let gbps = bytes as f64 / self.us / 1e3;
        (gbps - self.algbw).abs() <= 0.0051 + gbps * 2e-3
    }
}

/// Fields of a group with and without what `-I 1` adds.
const PLAIN: usize = 4;
const DETAILED: usize = 8;

/// Reads a row; none if the line is none.
fn parse_row(line: &str) -> Option<Row> {
    let mut fields: Vec<&str> = line.split_whitespace().collect();
    if let [.., date, time] = fields.as_slice()
        && date.matches('-').count() == 2
        && time.matches(':').count() == 2
    {
        fields.truncate(fields.len() - 2);
    }
    let [bytes, count, dtype, rest @ ..] = fields.as_slice() else { return None };
    let (bytes, _count): (u64, u64) = (bytes.parse().ok()?, count.parse().ok()?);
    if !dtype.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return None;
    }
    // `redop` is a word; where there is none, numbers follow at once.
    let is_word = |field: &&str| field.starts_with(|c: char| c.is_ascii_alphabetic()) && *field != "N/A";
    let rest = if rest.first().is_some_and(is_word) { &rest[1..] } else { rest };
    // Groups have an even number of fields, so one field more is the root.
    let groups = if rest.len() % 2 == 1 { &rest[1..] } else { rest };
    let (first, second) = split(groups, bytes)?;
    Some(Row {
        bytes,
        dtype: (*dtype).to_owned(),
        first: measured(first)?,
        second: second.and_then(measured),
    })
    .filter(|row| row.first.us > 0.0 || bytes == 0)
    .or_else(|| in_place(bytes, dtype, second))
}

/// The row of an in-place measurement where the other one has no time.
fn in_place(bytes: u64, dtype: &str, second: Option<&[&str]>) -> Option<Row> {
    let first = second.and_then(measured).filter(|measured| measured.us > 0.0)?;
    Some(Row { bytes, dtype: dtype.to_owned(), first, second: None })
}

/// The one or two groups of fields.
fn split<'f, 'l>(fields: &'f [&'l str], bytes: u64) -> Option<(&'f [&'l str], Option<&'f [&'l str]>)> {
    let halves = || Some((&fields[..fields.len() / 2], Some(&fields[fields.len() / 2..])));
    match fields.len() {
        PLAIN | 6 => Some((fields, None)),
        // Two plain groups, or one with details: the latter has the least time where the former has a time.
        DETAILED => match (measured(&fields[..PLAIN]), measured(&fields[PLAIN..])) {
            (Some(_), Some(second)) if !second.fits(bytes) => Some((fields, None)),
            _ => halves(),
        },
        12 | 16 => halves(),
        _ => None,
    }
}

fn measured(group: &[&str]) -> Option<Measured> {
    Some(Measured { us: number(group.first()?)?, algbw: number(group.get(1)?)? })
}

fn number(field: &str) -> Option<f64> {
    field.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)
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

/// Facts that comment lines state; `None` where they do not.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Header {
    pub(crate) operation: Option<Operation>,
    pub(crate) nodes: Option<u32>,
    pub(crate) gpus_per_node: Option<u32>,
    /// The host of each rank, from nccl-tests' own lines.
    pub(crate) hosts: Vec<String>,
    pub(crate) gpu: Option<String>,
    /// NICs of a node, or of a GPU where the flag is set.
    pub(crate) nics: Option<(Nics, bool)>,
}

impl Header {
    /// Takes what a line without its `#` says.
    pub(crate) fn read(&mut self, comment: &str) {
        let words: Vec<&str> = comment.split_whitespace().collect();
        if words.first() == Some(&"Rank")
            && let Some(on) = words.iter().position(|word| *word == "on")
            && let Some(host) = words.get(on + 1)
        {
            self.hosts.push((*host).to_owned());
            if let Some(bus) = words.iter().position(|word| word.starts_with('[')) {
                self.gpu.get_or_insert_with(|| words[bus + 1..].join(" "));
            }
            return;
        }
        for word in &words {
            self.read_program(word);
        }
        for part in comment.split(';') {
            if let Some((key, value)) = part.split_once(':') {
                self.read_pair(key.trim(), value.trim());
            }
        }
        if comment.trim_start().starts_with("interconnect:") {
            self.nics = nics(&words);
        }
    }

    /// A word that names one of nccl-tests' programs, as `./build/all_reduce_perf`.
    pub(crate) fn read_program(&mut self, word: &str) {
        let program = word.rsplit('/').next().unwrap_or(word);
        let name = program.trim_end_matches([',', ';', ')', '"']).strip_suffix("_perf");
        if let Some(operation) = name.and_then(Operation::named) {
            self.operation.get_or_insert(operation);
        }
    }

    fn read_pair(&mut self, key: &str, value: &str) {
        match key {
            "gpu" => self.gpu = Some(value.to_owned()),
            "nodes" => self.nodes = value.parse().ok().filter(|nodes| *nodes > 0),
            "gpus_per_node" => self.gpus_per_node = value.parse().ok().filter(|gpus| *gpus > 0),
            "op" => self.operation = Operation::named(value),
            _ => {}
        }
    }

    /// NICs of a node of so many GPUs.
    pub(crate) fn nics_of(&self, gpus_per_node: u32) -> Option<Nics> {
        let (nics, is_per_gpu) = self.nics?;
        let factor = if is_per_gpu { gpus_per_node } else { 1 };
        Some(Nics { per_node: nics.per_node.saturating_mul(factor), ..nics })
    }
}

/// `8x200G`, or `4x Slingshot-11 200G`, and whether `per GPU` follows.
fn nics(words: &[&str]) -> Option<(Nics, bool)> {
    let speed = |word: &str| -> Option<f64> {
        let digits: String = word.chars().take_while(char::is_ascii_digit).collect();
        let rest = word[digits.len()..].trim_end_matches([',', ';', ')']);
        (rest == "G" || rest == "Gb/s").then(|| digits.parse().ok())?
    };
    words.iter().enumerate().find_map(|(index, word)| {
        let (count, same_word) = word.split_once('x')?;
        let count: u32 = count.trim_start_matches('(').parse().ok().filter(|count| *count > 0)?;
        let (gigabits, last) = match speed(same_word) {
            Some(gigabits) => (gigabits, index),
            // A few words for the kind of NIC; another item of the list is not of this one.
            None if same_word.is_empty() => {
                let next = words.iter().enumerate().skip(index + 1).take(4);
                let mut item = next.scan(false, |ended, (at, word)| {
                    let taken = (!*ended).then_some((at, *word));
                    *ended |= word.ends_with([';', ',']);
                    taken
                });
                item.find_map(|(at, word)| Some((speed(word)?, at)))?
            }
            None => return None,
        };
        let is_per_gpu = words.get(last + 1..last + 3).is_some_and(|next| next == ["per", "GPU"]);
        Some((Nics { per_node: count, bytes_per_s: gigabits * 1e9 / 8.0 }, is_per_gpu))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(line: &str) -> (u64, f64, Option<f64>) {
        let row = parse_row(line).unwrap_or_else(|| panic!("{line}"));
        (row.bytes, row.first.us, row.second.map(|measured| measured.us))
    }

    #[test]
    fn rows_of_all_versions_are_read() {
        let thirteen = "1048576 262144 float sum -1 28.56 36.71 64.25 0 28.70 36.54 63.94 0";
        assert_eq!(times(thirteen), (1048576, 28.56, Some(28.70)));
        let unchecked = "1048576 262144 float sum -1 28.56 36.71 64.25 N/A 28.70 36.54 63.94 N/A";
        assert_eq!(times(unchecked), (1048576, 28.56, Some(28.70)));
        let stamped = format!("{thirteen} 2026-02-03 12:13:14");
        assert_eq!(times(&stamped), (1048576, 28.56, Some(28.70)));
        let old = "1048576 262144 float sum 28.56 36.71 64.25 4e-07 28.70 36.54 63.94 1e-07";
        assert_eq!(times(old), (1048576, 28.56, Some(28.70)));
        let older = "1048576 262144 float 28.56 36.71 64.25 0e+00 28.70 36.54 63.94 0e+00";
        assert_eq!(times(older), (1048576, 28.56, Some(28.70)));
        let detailed = "1048576 262144 float sum -1 28.56 36.71 64.25 0 27.1 29.0 28.9 1.2 28.70 36.54 63.94 0 27.2 29.9 29.1 1.3";
        assert_eq!(times(detailed), (1048576, 28.56, Some(28.70)));
        let exponent = "1048576 262144 float sum -1 2.8e+01 37.45 65.54 0 28.70 36.54 63.94 0";
        assert_eq!(times(exponent), (1048576, 28.0, Some(28.70)));
    }

    #[test]
    fn a_blank_half_is_no_half() {
        let single = "1048576 262144 float sum -1 28.56 36.71 64.25 0";
        assert_eq!(times(single), (1048576, 28.56, None));
        let single_detailed = "1048576 262144 float sum -1 28.56 36.71 64.25 0 27.1 29.0 28.9 1.2";
        assert_eq!(times(single_detailed), (1048576, 28.56, None));
        let in_place_only = "1048576 262144 float sum -1 0.00 0.00 0.00 0 28.70 36.54 63.94 0";
        assert_eq!(times(in_place_only), (1048576, 28.70, None));
    }

    #[test]
    fn other_lines_are_no_rows() {
        for line in
            ["", "hello", "1 2 3 4 5", "1048576 262144 float", "1048576 x float sum -1 1 1 1 1 1 1 1 1"]
        {
            assert_eq!(parse_row(line), None, "{line}");
        }
        assert_eq!(parse_row("1048576 262144 float sum -1 nan 36.71 64.25 0 28.70 36.54 63.94 0"), None);
    }

    #[test]
    fn bandwidths_fit_times_but_for_rounding() {
        assert!(Measured { us: 28.56, algbw: 36.71 }.fits(1_048_576));
        assert!(!Measured { us: 28.56, algbw: 46.71 }.fits(1_048_576));
    }

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

    fn of(lines: &[&str]) -> Header {
        let mut header = Header::default();
        lines.iter().for_each(|line| header.read(line));
        header
    }

    #[test]
    fn lines_of_the_programs_name_hosts_and_gpus() {
        let header = of(&[
            " Collective test starting: all_reduce_perf",
            "  Rank  0 Group  0 Pid 1234 on  node-a device  0 [0000:0f:00] NVIDIA H200",
            "  Rank  1 Group  0 Pid 1235 on  node-b device  0 [0000:0f:00] NVIDIA H200",
        ]);
        assert_eq!(header.operation, Some(Operation::AllReduce));
        assert_eq!(header.hosts, ["node-a", "node-b"]);
        assert_eq!(header.gpu.as_deref(), Some("NVIDIA H200"));
    }

    #[test]
    fn remarks_name_what_programs_leave_out() {
        let header = of(&[" gpu: H100-SXM; nodes: 2; gpus_per_node: 8; ranks: 16; op: alltoall"]);
        assert_eq!((header.nodes, header.gpus_per_node), (Some(2), Some(8)));
        assert_eq!(header.operation, Some(Operation::AllToAll));
        assert_eq!(header.gpu.as_deref(), Some("H100-SXM"));
    }

    #[test]
    fn nics_are_found_among_other_things() {
        let nics = |text: &str, gpus| {
            of(&[&format!(" interconnect: {text}")])
                .nics_of(gpus)
                .map(|nics| (nics.per_node, nics.bytes_per_s))
        };
        assert_eq!(nics("NVLink4; GCP A3 Mega 8x200G TCPXO", 8), Some((8, 25e9)));
        assert_eq!(nics("4x GH200 NVLink4; 4x Slingshot-11 200G per node", 4), Some((4, 25e9)));
        assert_eq!(nics("inferred 1x400G per GPU used", 2), Some((2, 50e9)));
        assert_eq!(nics("PCIe; 1x NIC RoCE, CX-7", 2), None);
        assert_eq!(nics("4x H100 SXM, NVLink4, one node", 4), None);
    }
}
