//! Texts that a scenario is read from, each as a small tree in which every key and value knows where it was written.

use std::ops::Range;
use std::sync::Arc;

use toml::de::{DeTable, DeValue};

use crate::error::{Result, ScenarioError};
use crate::files::LONGEST_SCENARIO;
use crate::problem::Problem;

/// A value and where it was written; for a table with a header, the header.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) place: Place,
}

#[derive(Clone, Debug)]
pub(crate) enum Value {
    String(String),
    Integer(i128),
    Float(f64),
    Boolean,
    Datetime,
    Array(Vec<Node>),
    Table(Table),
}

/// Keys in the order in which they were written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    pub(crate) entries: Vec<Entry>,
}

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_place: Place,
    pub(crate) node: Node,
}

impl Table {
    pub(crate) fn get(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    pub(crate) fn get_mut(&mut self, key: &str) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.key == key)
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.key.as_str())
    }
}

impl Value {
    /// Name with an article, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::String(_) => "a string",
            Self::Integer(_) => "an integer",
            Self::Float(_) => "a float",
            Self::Boolean => "a boolean",
            Self::Datetime => "a date",
            Self::Array(_) => "an array",
            Self::Table(_) => "a table",
        }
    }
}

impl Node {
    /// The value as JSON. What TOML has and the language has not is its own text.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        match &self.value {
            Value::String(text) => text.as_str().into(),
            Value::Integer(integer) => match (i64::try_from(*integer), u64::try_from(*integer)) {
                (Ok(integer), _) => integer.into(),
                (_, Ok(integer)) => integer.into(),
                (Err(_), Err(_)) => integer.to_string().into(),
            },
            Value::Float(float) if float.is_finite() => (*float).into(),
            Value::Float(float) => float.to_string().into(),
            Value::Boolean | Value::Datetime => self.text().into(),
            Value::Array(items) => items.iter().map(Self::to_json).collect(),
            Value::Table(table) => {
                let entries = table.entries.iter();
                entries.map(|entry| (entry.key.clone(), entry.node.to_json())).collect()
            }
        }
    }

    /// The value as it is written.
    pub(crate) fn text(&self) -> &str {
        &self.place.document.text[self.place.span.clone()]
    }
}

pub(crate) fn parse(document: &Arc<Document>) -> Result<Node> {
    let place = |span| Place::new(document, span);
    if document.text.len() as u64 > LONGEST_SCENARIO {
        let message = format!("a text of more than {LONGEST_SCENARIO} bytes");
        return Err(Problem::Syntax { message, is_json: false }.at(place(0..0)));
    }
    let parsed = DeTable::parse(&document.text).map_err(|error| syntax(document, &error, 0))?;
    let table = table(parsed.get_ref(), &place)?;
    Ok(Node { value: Value::Table(table), place: place(0..0) })
}

/// Parses one value that stands at `span` of a document. `None` if it is no TOML value.
pub(crate) fn parse_value(document: &Arc<Document>, span: &Range<usize>) -> Result<Node> {
    let place = |inner: Range<usize>| Place::new(document, span.start + inner.start..span.start + inner.end);
    let parsed = DeValue::parse(&document.text[span.clone()]);
    let parsed = parsed.map_err(|error| syntax(document, &error, span.start))?;
    node(parsed.get_ref(), parsed.span(), &place)
}

fn syntax(document: &Arc<Document>, error: &toml::de::Error, offset: usize) -> ScenarioError {
    let span = error.span().map_or(0..0, |span| span.start + offset..span.end + offset);
    let is_json = document.is_file && document.text.trim_start().starts_with('{');
    Problem::Syntax { message: error.message().to_owned(), is_json }.at(Place::new(document, span))
}

fn table(parsed: &DeTable<'_>, place: &dyn Fn(Range<usize>) -> Place) -> Result<Table> {
    let mut entries = Vec::with_capacity(parsed.len());
    for (key, value) in parsed {
        entries.push(Entry {
            key: key.get_ref().to_string(),
            key_place: place(key.span()),
            node: node(value.get_ref(), value.span(), place)?,
        });
    }
    // The parser keeps its tables sorted by key.
    entries.sort_by_key(|entry| entry.key_place.span.start);
    Ok(Table { entries })
}

fn node(parsed: &DeValue<'_>, span: Range<usize>, place: &dyn Fn(Range<usize>) -> Place) -> Result<Node> {
    let place_here = place(span);
    let value = match parsed {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Integer(integer) => {
            let value = i128::from_str_radix(integer.as_str(), integer.radix());
            let message = "an integer of more than 128 bits".to_owned();
            Value::Integer(
                value.map_err(|_| Problem::Syntax { message, is_json: false }.at(place_here.clone()))?,
            )
        }
        DeValue::Float(float) => {
            let message = "not a number".to_owned();
            let value = float.as_str().parse();
            Value::Float(
                value.map_err(|_| Problem::Syntax { message, is_json: false }.at(place_here.clone()))?,
            )
        }
        DeValue::Boolean(_) => Value::Boolean,
        DeValue::Datetime(_) => Value::Datetime,
        DeValue::Array(items) => {
            let items = items.iter().map(|item| node(item.get_ref(), item.span(), place));
            Value::Array(items.collect::<Result<_>>()?)
        }
        DeValue::Table(inner) => Value::Table(table(inner, place)?),
    };
    Ok(Node { value, place: place_here })
}

/// A text with a name: the scenario file, a data file or a command-line argument.
#[derive(Debug)]
pub(crate) struct Document {
    /// How errors call it: a path, or `command line`.
    pub(crate) name: String,
    pub(crate) text: String,
    /// Whether it is a file, so that line numbers mean something.
    pub(crate) is_file: bool,
}

impl Document {
    pub(crate) fn file(name: String, text: String) -> Arc<Self> {
        Arc::new(Self { name, text, is_file: true })
    }

    pub(crate) fn argument(text: String) -> Arc<Self> {
        Arc::new(Self { name: "command line".to_owned(), text, is_file: false })
    }
}

/// A range of bytes in a document.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) document: Arc<Document>,
    pub(crate) span: Range<usize>,
}

impl Place {
    pub(crate) fn new(document: &Arc<Document>, span: Range<usize>) -> Self {
        Self { document: Arc::clone(document), span }
    }

    /// Line, from 1.
    pub(crate) fn line(&self) -> usize {
        1 + self.before().bytes().filter(|&byte| byte == b'\n').count()
    }

    /// Column, from 1, in characters.
    pub(crate) fn column(&self) -> usize {
        let before = self.before();
        let line = before.rfind('\n').map_or(before, |newline| &before[newline + 1..]);
        1 + line.chars().count()
    }

    fn before(&self) -> &str {
        let text = &self.document.text;
        let mut end = self.span.start.min(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        &text[..end]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters() {
        let document = Document::file("a.toml".to_owned(), "a = 1\nµs = \"x\"\n".to_owned());
        let place = Place::new(&document, 12..15);
        assert_eq!(&document.text[place.span.clone()], "\"x\"");
        assert_eq!((place.line(), place.column()), (2, 6));
        let end = Place::new(&document, 99..99);
        assert_eq!((end.line(), end.column()), (3, 1));
    }
}
