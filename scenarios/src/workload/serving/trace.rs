//! `trace`: recorded requests, in the formats of those who publish them.

use std::sync::Arc;

use zipwire_serving::{Request, Requests};

use super::TOKEN_LIMIT;
use super::arrivals::REQUEST_LIMIT;
use crate::error::{Result, ScenarioError};
use crate::files::Files;
use crate::language::{Field, Schema, choice, integer, keys, named, number, table, text};
use crate::problem::{Problem, ServingProblem};
use crate::tree::{Document, Place};

named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Format {
        /// JSON lines of Mooncake: milliseconds, tokens, and ids of blocks of 512 tokens.
        Mooncake = "mooncake",
        /// CSV of Azure: date and time, tokens.
        Azure = "azure",
    }
}

keys! { static KEYS =
    file: String = text(), "the file, as text or compressed by gzip", needed = "\"FILE\"";
    format: Format = choice("format of traces", &Format::ALL, Format::name), "`mooncake`: JSON lines with `timestamp` in milliseconds, `input_length`, `output_length` and `hash_ids`; `azure`: CSV with `TIMESTAMP`, `ContextTokens` and `GeneratedTokens`", needed = "\"mooncake\"";
    scale: f64 = number(1e-6..=1e6), "how many times as fast requests come as they were recorded; 1 by default";
    requests: u32 = integer(1..=REQUEST_LIMIT), "how many of them, the first ones; all by default";
}

/// Lines as they should be.
const MOONCAKE: &str =
    r#"{"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47]}"#;
const AZURE: &str = "2023-11-16 18:15:46.6805900,374,44";
/// The columns of Azure.
const HEADER: &str = "TIMESTAMP,ContextTokens,GeneratedTokens";

pub(super) fn schema() -> Schema {
    table(KEYS.all)
}

/// Reads a trace. Its first request arrives at 0.
pub(super) fn read(field: &Field<'_>, files: &Files) -> Result<Requests> {
    let table = field.table(KEYS.all)?;
    let (name, format) = (table.need(KEYS.file)?, table.need(KEYS.format)?);
    let scale = table.get(KEYS.scale)?.unwrap_or(1.0);
    let limit = table.get(KEYS.requests)?.unwrap_or(REQUEST_LIMIT) as usize;
    let file = table.need_field(KEYS.file)?;
    let unreadable = |source| file.error(Problem::Unreadable { path: files.path(&name), source });
    let document = files.text(&name).map_err(unreadable)?;
    let lines = Lines { document: &document, named_at: file.place() };
    let mut list = match format {
        Format::Mooncake => lines.read(0, limit, mooncake, MOONCAKE)?,
        Format::Azure => {
            let header = document.text.lines().next().unwrap_or_default().trim();
            if header != HEADER {
                let problem =
                    Problem::BadHeader { expected: HEADER, example: AZURE, found: header.to_owned() };
                return Err(lines.error(problem, 0..header.len()));
            }
            lines.read(1, limit, azure, AZURE)?
        }
    };
    let Some(first_s) = list.iter().map(|request| request.arrival_s).min_by(f64::total_cmp) else {
        let path = files.path(&name).display().to_string();
        return Err(file.error(ServingProblem::Empty { path }.into()));
    };
    for request in &mut list {
        request.arrival_s = (request.arrival_s - first_s) / scale;
    }
    Ok(Requests::new(list, Requests::BLOCK_TOKENS))
}

/// The lines of a file, each with its place.
struct Lines<'a> {
    document: &'a Arc<Document>,
    named_at: Place,
}

impl Lines<'_> {
    fn read(
        &self,
        skipped: usize,
        limit: usize,
        parse: fn(&str) -> std::result::Result<Request, String>,
        example: &'static str,
    ) -> Result<Vec<Request>> {
        let mut list = Vec::new();
        let mut begin = 0;
        for (index, line) in self.document.text.split_inclusive('\n').enumerate() {
            let (at, text) = (begin, line.trim_end());
            begin += line.len();
            if index < skipped || text.is_empty() {
                continue;
            }
            if list.len() == limit {
                break;
            }
            let request = parse(text).and_then(checked).map_err(|why| {
                let problem = ServingProblem::Line { why, example };
                self.error(problem.into(), at..at + text.len())
            })?;
            list.push(request);
        }
        Ok(list)
    }

    fn error(&self, problem: Problem, span: std::ops::Range<usize>) -> ScenarioError {
        problem.at(Place::new(self.document, span)).with(self.named_at.clone(), "named here")
    }
}

fn checked(request: Request) -> std::result::Result<Request, String> {
    for (what, tokens) in [("a prompt", request.input_tokens), ("an answer", request.output_tokens)] {
        if !(1..=TOKEN_LIMIT).contains(&tokens) {
            return Err(format!("{what} has from 1 to {TOKEN_LIMIT} tokens, and this one {tokens}"));
        }
    }
    if request.arrival_s.is_finite() {
        return Ok(request);
    }
    Err(format!("it arrives at {} s", request.arrival_s))
}

/// A line of Mooncake.
#[derive(serde::Deserialize)]
struct Mooncake {
    timestamp: f64,
    input_length: u32,
    output_length: u32,
    #[serde(default)]
    hash_ids: Vec<u64>,
}

fn mooncake(line: &str) -> std::result::Result<Request, String> {
    let line: Mooncake = serde_json::from_str(line).map_err(|error| error.to_string())?;
    Ok(Request {
        arrival_s: line.timestamp / 1e3,
        input_tokens: line.input_length,
        output_tokens: line.output_length,
        prefix: line.hash_ids,
    })
}

fn azure(line: &str) -> std::result::Result<Request, String> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    let [at, input, output] = fields.as_slice() else {
        return Err(format!("{} columns where there are 3", fields.len()));
    };
    let tokens = |text: &str| text.parse().map_err(|_| format!("`{text}` is no number of tokens"));
    Ok(Request {
        arrival_s: seconds(at).ok_or_else(|| format!("`{at}` is no date and time"))?,
        input_tokens: tokens(input)?,
        output_tokens: tokens(output)?,
        prefix: Vec::new(),
    })
}

/// Days from the beginning of the year 1 to that of 2000: nearer days leave more digits to seconds.
const EPOCH_DAYS: i64 = 730_119;

/// Seconds since the beginning of the year 2000 of a text like `2023-11-16 18:15:46.6805900`.
fn seconds(text: &str) -> Option<f64> {
    let (date, time) = text.split_once([' ', 'T'])?;
    let date: Vec<u64> = date.split('-').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let parts: Vec<&str> = time.trim_end_matches('Z').split(':').collect();
    let (&[year, month, day], &[hour, minute, second]) = (date.as_slice(), parts.as_slice()) else {
        return None;
    };
    let (hour, minute): (u64, u64) = (hour.parse().ok()?, minute.parse().ok()?);
    let second: f64 = second.parse().ok()?;
    let is_leap =
        |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let lengths = [31, if is_leap(year) { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let is_date = (1..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=*lengths.get(month as usize - 1)?).contains(&day);
    if !is_date || hour > 23 || minute > 59 || !(0.0..61.0).contains(&second) {
        return None;
    }
    let years = year - 1;
    let days = years * 365 + years / 4 - years / 100
        + years / 400
        + lengths[..month as usize - 1].iter().sum::<u64>()
        + day
        - 1;
    let clock = (hour * 3600 + minute * 60) as i64;
    Some(((days as i64 - EPOCH_DAYS) * 86_400 + clock) as f64 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        let at = |text| seconds(text).unwrap();
        assert_eq!(at("2024-03-01 00:00:00") - at("2024-02-28 00:00:00"), 2.0 * 86_400.0);
        assert_eq!(at("2023-03-01 00:00:00") - at("2023-02-28 23:59:59.5"), 0.5);
        assert_eq!(at("1970-01-01T00:00:00Z"), -10_957.0 * 86_400.0);
        assert_eq!(seconds("2023-02-29 00:00:00"), None);
        assert_eq!(seconds("2023-02-28"), None);
        assert_eq!(seconds("2023-00-10 00:00:00"), None);
    }

    #[test]
    fn lines_are_requests() {
        let request = mooncake(MOONCAKE).unwrap();
        assert_eq!((request.arrival_s, request.input_tokens, request.output_tokens), (27.482, 6955, 52));
        assert_eq!(request.prefix, [46, 47]);
        let request = azure(AZURE).unwrap();
        assert_eq!((request.input_tokens, request.output_tokens), (374, 44));
        assert!(azure("2023-11-16 18:15:46,374").is_err());
        assert!(mooncake("{}").is_err());
    }
}
