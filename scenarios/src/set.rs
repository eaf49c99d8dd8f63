//! `--set path=value` and `--real-set path=value`, and the paths of `[sweep]`: changes to the tree before it is read.
//!
//! The path is a dotted TOML key; entries of arrays are addressed by their `name` or their position. The
//! value is TOML, or, when it is not, a string: `cluster.nic_bandwidth=50 GB/s` needs no quotes. What is set
//! points into the argument, so later errors do, too.

use std::ops::Range;
use std::sync::Arc;

use crate::error::{Result, ScenarioError};
use crate::problem::Problem;
use crate::tree::{self, Document, Entry, Node, Place, Table, Value};

/// Replaces a value of the scenario.
pub(crate) const SET: &str = "--set";
/// Replaces a value of the scenario in the real run of a validation.
pub(crate) const REAL_SET: &str = "--real-set";

/// Tables that are optional, so that a path may create them.
const OPTIONAL_TABLES: [&str; 6] = [
    "compute",
    "cluster.links",
    "cluster.library",
    "cluster.codec_speed",
    "cluster.compute_slowdown",
    "sweep",
];

/// Where a value is in the tree: at least one part.
#[derive(Clone, Debug)]
pub(crate) struct Path(Vec<Part>);

/// A part of a path and where it stands.
#[derive(Clone, Debug)]
struct Part {
    name: String,
    place: Place,
}

/// Applies one argument of `flag`, `path=value`; gives the path.
pub(crate) fn apply(root: &mut Node, flag: &'static str, argument: &str) -> Result<Path> {
    let document = Document::argument(format!("{flag} {argument}"));
    let (path, value) = parse(&document, flag)?;
    path.put(root, value)?;
    Ok(path)
}

impl Path {
    /// The path that a key spells: `"cluster.nodes"`.
    pub(crate) fn of_key(entry: &Entry) -> Result<Self> {
        let place = &entry.key_place;
        let not_path = || Problem::NotPath { path: entry.key.clone() }.at(place.clone());
        // Inside the quotes, if the key is written there as it is; else the whole key is to blame for all of it.
        let written = &place.document.text[place.span.clone()];
        let offset = written.find(&entry.key).map(|offset| place.span.start + offset);
        let start = offset.unwrap_or(0);
        let names = keys(&place.document, start, &entry.key).map_err(|_| not_path())?;
        let part = |(name, span): (String, Range<usize>)| {
            let place = offset.map_or_else(|| place.clone(), |_| Place::new(&place.document, span));
            Part { name, place }
        };
        let parts: Vec<Part> = names.into_iter().map(part).collect();
        if parts.is_empty() { Err(not_path()) } else { Ok(Self(parts)) }
    }

    /// Replaces the value that is there, or adds it to the table that it is in.
    pub(crate) fn put(&self, root: &mut Node, value: Node) -> Result<()> {
        let (last, parents) = self.0.split_last().expect("a path has at least one part");
        let mut node = root;
        let mut walked = Vec::new();
        for part in parents {
            node = step(node, part, &mut walked)?;
        }
        assign(node, last, value, &walked)
    }

    /// The path with entries of arrays by their position, as far as it leads in `root`: equal for equal places.
    pub(crate) fn canonical(&self, root: &Node) -> Vec<String> {
        let mut node = Some(root);
        let mut names = Vec::with_capacity(self.0.len());
        for part in &self.0 {
            let mut name = part.name.clone();
            node = match node.map(|node| &node.value) {
                Some(Value::Table(table)) => table.get(&part.name).map(|entry| &entry.node),
                Some(Value::Array(items)) => position(items, part, &[]).ok().map(|index| {
                    name = index.to_string();
                    &items[index]
                }),
                _ => None,
            };
            names.push(name);
        }
        names
    }

    pub(crate) fn first(&self) -> &str {
        &self.0[0].name
    }

    pub(crate) fn place(&self) -> Place {
        let (first, last) = (&self.0[0].place, &self.0[self.0.len() - 1].place);
        Place::new(&first.document, first.span.start..last.span.end)
    }
}

fn parse(document: &Arc<Document>, flag: &'static str) -> Result<(Path, Node)> {
    let text = &document.text;
    let start = flag.len() + 1;
    let not_assignment = || {
        let flag = flag.to_owned();
        Problem::NotAssignment { flag }.at(Place::new(document, start..text.len()))
    };
    let equals = find_equals(text, start).ok_or_else(not_assignment)?;
    let names = keys(document, start, &text[start..equals])
        .map_err(|error| relocate(error, document, start..equals))?;
    let part = |(name, span)| Part { name, place: Place::new(document, span) };
    let parts: Vec<Part> = names.into_iter().map(part).collect();
    if parts.is_empty() {
        return Err(not_assignment());
    }
    Ok((Path(parts), parse_value(document, equals + 1)?))
}

/// The parts of a dotted key that stands at `start` of a document, and where; none if it is no key.
fn keys(document: &Document, start: usize, path: &str) -> Result<Vec<(String, Range<usize>)>> {
    // It is read as the key of a document in which everything else is blank, so that positions are the same.
    let key = Document {
        name: document.name.clone(),
        text: format!("{}{path}=0", " ".repeat(start)),
        is_file: false,
    };
    let mut node = tree::parse(&Arc::new(key))?;
    let mut names = Vec::new();
    while let Value::Table(Table { entries }) = node.value {
        let Some(entry) = entries.into_iter().next() else { return Ok(Vec::new()) };
        names.push((entry.key, entry.key_place.span));
        node = entry.node;
    }
    Ok(names)
}

/// A syntax error of the path, in terms of the argument.
fn relocate(error: ScenarioError, document: &Arc<Document>, path: Range<usize>) -> ScenarioError {
    match error.problem() {
        Problem::Syntax { message, .. } => {
            let message = message.clone();
            Problem::Syntax { message, is_json: false }.at(Place::new(document, path))
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
