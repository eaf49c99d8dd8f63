//! `trace`: recorded requests, in the formats of those who publish them.

mod date;
mod doubts;
mod format;

use std::ops::Range;
use std::sync::Arc;

use zipwire_serving::{Request, Requests};

use self::doubts::Doubts;
use self::format::{Format, Recorded};
use super::TOKEN_LIMIT;
use super::arrivals::REQUEST_LIMIT;
use crate::error::{Result, ScenarioError};
use crate::files::Files;
use crate::language::{Condition, Field, Rule, Schema, choice, integer, keys, names, number, table, text};
use crate::problem::{Problem, ServingProblem};
use crate::tree::{Document, Place};

/// Most tokens of a block.
const BLOCK_LIMIT: u32 = 1 << 16;

keys! { static KEYS =
    file: String = text(), "the file, as text or compressed by gzip", needed = "\"FILE\"";
    format: Format = choice("format of traces", &Format::ALL, Format::name), "`mooncake`: JSON lines with `timestamp` in milliseconds, `input_length`, `output_length` and `hash_ids`; `qwen-bailian`: the same with `chat_id`, and `timestamp` in seconds; `azure`: CSV with `TIMESTAMP`, `ContextTokens` and `GeneratedTokens`; `burstgpt`: CSV with `Timestamp` in seconds, `Request tokens` and `Response tokens`", needed = "\"mooncake\"";
    block: u32 = integer(1..=BLOCK_LIMIT), "tokens of a prompt that an id of `hash_ids` stands for; 512 by default, and 16 in `qwen-bailian`";
    scale: f64 = number(1e-6..=1e6), "how many times as fast requests come as they were recorded; 1 by default";
    requests: u32 = integer(1..=REQUEST_LIMIT), "how many of them, the first ones; all by default";
}

fn rules() -> Vec<Rule> {
    let without_ids = names([Format::Azure.name(), Format::BurstGpt.name()]);
    vec![
        Condition::Fits(KEYS.format, without_ids)
            .refuses(&[KEYS.block], "traces of this format have no ids of blocks"),
    ]
}

pub(super) fn schema() -> Schema {
    table(KEYS.all).with(rules())
}

/// Reads a trace. Its first request arrives at 0. Requests without a prompt or an answer are left out; `remarks` then say so, and what in the
/// file contradicts itself.
pub(super) fn read(field: &Field<'_>, files: &Files, remarks: &mut Vec<String>) -> Result<Requests> {
    let table = field.table(KEYS.all)?;
    table.check(&rules())?;
    let (name, format) = (table.need(KEYS.file)?, table.need(KEYS.format)?);
    let block = table.get(KEYS.block)?.unwrap_or(format.block_tokens());
    let scale = table.get(KEYS.scale)?.unwrap_or(1.0);
    let limit = table.get(KEYS.requests)?.unwrap_or(REQUEST_LIMIT) as usize;
    let file = table.need_field(KEYS.file)?;
    let unreadable = |source| file.error(Problem::Unreadable { path: files.path(&name), source });
    let document = files.text(&name).map_err(unreadable)?;
    let lines = Lines { document: &document, named_at: file.place(), format };
    let mut doubts = Doubts::default();
    let mut list = lines.read(limit, block, &mut doubts)?;
    doubts.refusal(block, format).map_or(Ok(()), |(problem, span)| Err(lines.error(problem, span)))?;
    let Some(first_s) = list.iter().map(|request| request.arrival_s).min_by(f64::total_cmp) else {
        return Err(file.error(ServingProblem::Empty { path: name, without_tokens: doubts.empty() }.into()));
    };
    for request in &mut list {
        request.arrival_s = (request.arrival_s - first_s) / scale;
    }
    let requests = Requests::new(list, block);
    remarks.extend(doubts.remarks(&name, &requests, format, scale));
    Ok(requests)
}

/// The lines of a file, each with its place.
struct Lines<'a> {
    document: &'a Arc<Document>,
    named_at: Place,
    format: Format,
}

type Parse<'a> = Box<dyn Fn(&str) -> std::result::Result<Recorded, String> + 'a>;

impl Lines<'_> {
    /// The first requests, at most `limit`, that have tokens. Prompts whose ids are not as many as their blocks of `block` tokens have none.
    fn read(&self, limit: usize, block: u32, doubts: &mut Doubts) -> Result<Vec<Request>> {
        let (skipped, parse) = self.parser()?;
        let example = self.format.example();
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
            let span = at..at + text.len();
            let recorded = parse(text)
                .and_then(checked)
                .map_err(|why| self.error(ServingProblem::Line { why, example }.into(), span.clone()))?;
            list.extend(doubts.request(recorded, block, index + 1, span));
        }
        Ok(list)
    }

    /// Lines that are none of requests, and the parser of the others.
    fn parser(&self) -> Result<(usize, Parse<'_>)> {
        let Some(columns) = self.format.columns() else {
            return Ok((0, Box::new(|line| self.format.parse(line))));
        };
        let header = self.document.text.lines().next().unwrap_or_default().trim();
        let Some(layout) = columns.find(header) else {
            let (expected, example) = (columns.header, self.format.example());
            let problem = Problem::BadHeader { expected, example, found: header.to_owned() };
            return Err(self.error(problem, 0..header.len()));
        };
        Ok((1, Box::new(move |row| layout.parse(row))))
    }

    fn error(&self, problem: Problem, span: Range<usize>) -> ScenarioError {
        problem.at(Place::new(self.document, span)).with(self.named_at.clone(), "named here")
    }
}

fn checked(recorded: Recorded) -> std::result::Result<Recorded, String> {
    for (what, tokens) in [("a prompt", recorded.input), ("an answer", recorded.output)] {
        if tokens > TOKEN_LIMIT {
            return Err(format!("{what} has at most {TOKEN_LIMIT} tokens, and this one {tokens}"));
        }
    }
    if recorded.at_s.is_finite() {
        return Ok(recorded);
    }
    Err(format!("it arrives at {} s", recorded.at_s))
}
