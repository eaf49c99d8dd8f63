//! `--set path=value` and `--real-set path=value`: changes to the tree before it is read.
//!
//! The path is a dotted TOML key; entries of arrays are addressed by their `name` or their position. The
//! value is TOML, or, when it is not, a string: `cluster.nic_bandwidth=50 GB/s` needs no quotes. What is set
//! points into the argument, so later errors do, too.

use std::ops::Range;
use std::sync::Arc;

use crate::document::{Document, Place};
use crate::error::{Result, ScenarioError};
use crate::problem::Problem;
use crate::tree::{self, Entry, Node, Table, Value};

/// Replaces a value of the scenario.
pub(crate) const SET: &str = "--set";
/// Replaces a value of the scenario in the real run of a validation.
pub(crate) const REAL_SET: &str = "--real-set";

/// Tables that are optional, so that a path may create them.
const OPTIONAL_TABLES: [&str; 3] = ["compute", "cluster.links", "cluster.compute_slowdown"];

/// Applies one argument of `flag`, `path=value`.
pub(crate) fn apply(root: &mut Node, flag: &'static str, argument: &str) -> Result<()> {
    let document = Document::argument(format!("{flag} {argument}"));
    let (path, value) = parse(&document, flag)?;
    let (last, parents) = path.split_last().expect("an empty path is refused before");
    let mut node = root;
    let mut walked = Vec::new();
    for part in parents {
        node = step(node, part, &mut walked)?;
    }
    assign(node, last, value, &walked)
}

/// A part of a path and where it stands.
struct Part {
    name: String,
    place: Place,
}

fn parse(document: &Arc<Document>, flag: &'static str) -> Result<(Vec<Part>, Node)> {
    let text = &document.text;
    let start = flag.len() + 1;
    let not_assignment = || {
        let flag = flag.to_owned();
        Problem::NotAssignment { flag }.at(Place::new(document, start..text.len()))
    };
    let equals = find_equals(text, start).ok_or_else(not_assignment)?;
    // The path is read as the key of a document in which everything else is blank, so that positions are the
    // argument's.
    let key = Document {
        name: document.name.clone(),
        text: format!("{}{}=0", " ".repeat(start), &text[start..equals]),
        is_file: false,
    };
    let mut node = tree::parse(&Arc::new(key)).map_err(|error| relocate(error, document, start..equals))?;
    let mut path = Vec::new();
    while let Value::Table(Table { entries }) = node.value {
        let entry = entries.into_iter().next().ok_or_else(not_assignment)?;
        path.push(Part { name: entry.key, place: Place::new(document, entry.key_place.span) });
        node = entry.node;
    }
    if path.is_empty() {
        return Err(not_assignment());
    }
    Ok((path, parse_value(document, equals + 1)?))
}

/// A syntax error of the path, in terms of the argument.
fn relocate(error: ScenarioError, document: &Arc<Document>, path: Range<usize>) -> ScenarioError {
    match error.problem() {
        Problem::Syntax { message } => {
            let message = message.clone();
            Problem::Syntax { message }.at(Place::new(document, path))
        }
        _ => error,
    }
}

/// The first `=` from `start` on outside quotes.
fn find_equals(text: &str, start: usize) -> Option<usize> {
    let mut quote = None;
    text.char_indices().skip(start).find_map(|(index, c)| {
        match (quote, c) {
            (None, '=') => return Some(index),
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), _) if open == c => quote = None,
            _ => {}
        }
        None
    })
}

fn parse_value(document: &Arc<Document>, start: usize) -> Result<Node> {
    let text = &document.text[start..];
    let trimmed = text.trim();
    let start = start + (text.len() - text.trim_start().len());
    let span = start..start + trimmed.len();
    match tree::parse_value(document, &span) {
        // Whoever opens a bracket or a quote means TOML.
        Err(error) if trimmed.starts_with(['[', '{', '"', '\'']) => Err(error),
        Err(_) => Ok(Node { value: Value::String(trimmed.to_owned()), place: Place::new(document, span) }),
        Ok(node) => Ok(node),
    }
}

/// The value that a part of the path names inside `node`.
fn step<'a>(node: &'a mut Node, part: &Part, walked: &mut Vec<String>) -> Result<&'a mut Node> {
    walked.push(part.name.clone());
    match &mut node.value {
        Value::Table(table) => {
            if table.get(&part.name).is_none() && OPTIONAL_TABLES.contains(&walked.join(".").as_str()) {
                let value = Value::Table(Table::default());
                insert(table, part, Node { value, place: part.place.clone() });
            }
            let valid: Vec<String> = table.keys().map(str::to_owned).collect();
            let entry = table.get_mut(&part.name).ok_or_else(|| no_such_path(part, walked, valid))?;
            Ok(&mut entry.node)
        }
        Value::Array(items) => {
            let index = position(items, part, walked)?;
            Ok(&mut items[index])
        }
        other => Err(not_table(part, &walked[..walked.len() - 1], other)),
    }
}

fn assign(node: &mut Node, part: &Part, value: Node, walked: &[String]) -> Result<()> {
    match &mut node.value {
        Value::Table(table) => insert(table, part, value),
        Value::Array(items) => {
            let walked: Vec<String> = walked.iter().chain([&part.name]).cloned().collect();
            let index = position(items, part, &walked)?;
            items[index] = value;
        }
        other => return Err(not_table(part, walked, other)),
    }
    Ok(())
}

fn insert(table: &mut Table, part: &Part, node: Node) {
    let entry = Entry { key: part.name.clone(), key_place: part.place.clone(), node };
    match table.get_mut(&part.name) {
        Some(old) => *old = entry,
        None => table.entries.push(entry),
    }
}

fn position(items: &[Node], part: &Part, walked: &[String]) -> Result<usize> {
    let names: Vec<Option<&str>> = items.iter().map(name).collect();
    let by_name = names.iter().position(|name| *name == Some(&part.name));
    let by_index = || part.name.parse().ok().filter(|&index| index < items.len());
    by_name.or_else(by_index).ok_or_else(|| {
        let label = |(index, name): (usize, &Option<&str>)| name.map_or(index.to_string(), str::to_owned);
        no_such_path(part, walked, names.iter().enumerate().map(label).collect())
    })
}

fn name(item: &Node) -> Option<&str> {
    let Value::Table(table) = &item.value else { return None };
    match &table.get("name")?.node.value {
        Value::String(name) => Some(name),
        _ => None,
    }
}

fn no_such_path(part: &Part, walked: &[String], valid: Vec<String>) -> ScenarioError {
    Problem::NoSuchPath { path: walked.join("."), valid }.at(part.place.clone())
}

fn not_table(part: &Part, walked: &[String], value: &Value) -> ScenarioError {
    Problem::NotTable { path: walked.join("."), found: value.kind() }.at(part.place.clone())
}
