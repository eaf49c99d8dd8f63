//! A value of the tree: the only place that knows how numbers, quantities, names and arrays are written and checked.

use std::fmt::Display;
use std::ops::RangeInclusive;

use crate::error::{Result, ScenarioError};
use crate::problem::Problem;
use crate::quantity::{self, Dimension, NotQuantity};
use crate::tree::{Entry, Node, Place, Value};

/// A value and the path of its key, for messages.
#[derive(Clone, Debug)]
pub(crate) struct Field<'a> {
    pub(crate) path: String,
    node: &'a Node,
}

/// Longest time that a scenario can name: a bit more than eleven days.
const TIME_LIMIT_S: f64 = 1e6;
/// Bandwidths from one byte to one exabyte per second.
const BANDWIDTH_LIMITS: RangeInclusive<f64> = 1.0..=1e18;
/// Most bytes of a transfer, or of a rank in one call, 1 TiB: sums over all ranks and flows then fit 64 bits.
pub(crate) const BYTES_LIMIT: u64 = 1 << 40;
/// From a billion operations per second to a trillion times as many.
const COMPUTE_RATE_LIMITS: RangeInclusive<f64> = 1e9..=1e21;
/// From one event in eleven days to a billion per second.
const RATE_LIMITS: RangeInclusive<f64> = 1e-6..=1e9;
/// Longest name that becomes part of a file name.
pub(crate) const NAME_LIMIT: usize = 100;

impl<'a> Field<'a> {
    pub(crate) fn root(node: &'a Node) -> Self {
        Self { path: String::new(), node }
    }

    /// A value that was put together from several places; `path` names it in messages.
    pub(crate) fn at(path: &str, node: &'a Node) -> Self {
        Self { path: path.to_owned(), node }
    }

    pub(crate) fn node(&self) -> &'a Node {
        self.node
    }

    pub(crate) fn place(&self) -> Place {
        self.node.place.clone()
    }

    /// The error of a problem with this value.
    pub(crate) fn error(&self, problem: Problem) -> ScenarioError {
        problem.at(self.place())
    }

    pub(crate) fn wrong_type<T>(&self, expected: &'static str) -> Result<T> {
        let found = self.node.value.kind();
        Err(self.error(Problem::WrongType { path: self.path.clone(), expected, found }))
    }

    /// The error of a value that is out of range; `limits` is the end of "must be".
    pub(crate) fn out_of_range(&self, value: impl Display, limits: impl Into<String>) -> ScenarioError {
        self.error(Problem::out_of_range(&self.path, value, limits))
    }

    /// The entries of a table whose keys are names: each name, where it stands, and its value.
    pub(crate) fn entries(&self) -> Result<Vec<(&'a str, &'a Place, Self)>> {
        let Value::Table(table) = &self.node.value else { return self.wrong_type("a table") };
        let entry = |entry: &'a Entry| {
            let path = join(&self.path, &quoted(&entry.key));
            (entry.key.as_str(), &entry.key_place, Self { path, node: &entry.node })
        };
        Ok(table.entries.iter().map(entry).collect())
    }

    /// A value below this one, at its key.
    pub(crate) fn below(&self, entry: &'a Entry) -> Self {
        Self { path: join(&self.path, &entry.key), node: &entry.node }
    }

    /// An array of at most `limit` tables; `what` they are, for the message.
    pub(crate) fn tables(&self, limit: usize, what: &str) -> Result<Vec<Self>> {
        let items = self.array()?;
        match items.get(limit) {
            Some(extra) => {
                let limits = format!("at most {limit} {what}");
                Err(extra.error(Problem::out_of_range(&self.path, items.len(), limits)))
            }
            None => Ok(items),
        }
    }

    pub(crate) fn array(&self) -> Result<Vec<Self>> {
        let Value::Array(items) = &self.node.value else { return self.wrong_type("an array") };
        let item = |(index, node)| Self { path: format!("{}.{index}", self.path), node };
        Ok(items.iter().enumerate().map(item).collect())
    }

    pub(crate) fn string(&self) -> Result<&'a str> {
        match self.as_string() {
            Some(text) => Ok(text),
            None => self.wrong_type("a string"),
        }
    }

    pub(crate) fn as_string(&self) -> Option<&'a str> {
        match &self.node.value {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// A name that becomes part of a file name.
    pub(crate) fn name(&self) -> Result<String> {
        let name = self.string()?;
        let is_fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.len() > NAME_LIMIT
            || !name.starts_with(|c: char| c.is_ascii_alphanumeric())
            || !name.chars().all(is_fine)
        {
            return Err(self.error(Problem::BadName { path: self.path.clone(), name: name.to_owned() }));
        }
        Ok(name.to_owned())
    }

    /// One of the names of `all`.
    pub(crate) fn choice<'n, T: Copy>(
        &self,
        what: &'static str,
        all: &[T],
        name: impl Fn(T) -> &'n str,
    ) -> Result<T> {
        let text = self.string()?;
        all.iter().copied().find(|&item| name(item) == text).ok_or_else(|| {
            let valid = all.iter().map(|&item| name(item).to_owned()).collect();
            self.error(Problem::UnknownName { what, name: text.to_owned(), valid })
        })
    }

    pub(crate) fn integer(&self, range: RangeInclusive<u64>) -> Result<u64> {
        let Value::Integer(value) = self.node.value else { return self.wrong_type("an integer") };
        match u64::try_from(value) {
            Ok(value) if range.contains(&value) => Ok(value),
            _ => {
                Err(self.out_of_range(value, format!("an integer from {} to {}", range.start(), range.end())))
            }
        }
    }

    /// [`integer`](Self::integer) with a range that fits `u32`.
    pub(crate) fn integer_u32(&self, range: RangeInclusive<u32>) -> Result<u32> {
        let value = self.integer(u64::from(*range.start())..=u64::from(*range.end()))?;
        Ok(u32::try_from(value).expect("it is within a range of u32"))
    }

    /// A plain number; integers are fine.
    pub(crate) fn number(&self, range: RangeInclusive<f64>) -> Result<f64> {
        let value = match self.node.value {
            Value::Float(value) => value,
            Value::Integer(value) => value as f64,
            _ => return self.wrong_type("a number"),
        };
        // NaN is in no range.
        if range.contains(&value) {
            return Ok(value);
        }
        Err(self.out_of_range(value, format!("a number from {:?} to {:?}", range.start(), range.end())))
    }

    /// Bytes per second.
    pub(crate) fn bandwidth(&self) -> Result<f64> {
        let value = self.quantity(Dimension::Bandwidth)?;
        if BANDWIDTH_LIMITS.contains(&value) {
            return Ok(value);
        }
        Err(self.out_of_range(self.string()?, "from 1 B/s to 1e6 TB/s"))
    }

    /// Floating-point operations per second.
    pub(crate) fn compute_rate(&self) -> Result<f64> {
        let value = self.quantity(Dimension::ComputeRate)?;
        if COMPUTE_RATE_LIMITS.contains(&value) {
            return Ok(value);
        }
        Err(self.out_of_range(self.string()?, "from 1 GFLOP/s to 1e6 PFLOP/s"))
    }

    /// Events per second.
    pub(crate) fn rate(&self) -> Result<f64> {
        let value = self.quantity(Dimension::Rate)?;
        if RATE_LIMITS.contains(&value) {
            return Ok(value);
        }
        Err(self.out_of_range(self.string()?, "from 1e-6 /s to 1e9 /s"))
    }

    /// Seconds.
    pub(crate) fn time(&self) -> Result<f64> {
        let value = self.quantity(Dimension::Time)?;
        if (0.0..=TIME_LIMIT_S).contains(&value) {
            // Minus zero is zero.
            return Ok(value.abs());
        }
        Err(self.out_of_range(self.string()?, format!("from 0 s to {TIME_LIMIT_S} s")))
    }

    /// Whole bytes.
    pub(crate) fn bytes(&self, least: u64) -> Result<u64> {
        let value = self.quantity(Dimension::Bytes)?;
        if (least as f64..=BYTES_LIMIT as f64).contains(&value) && value.fract() == 0.0 {
            return Ok(value as u64);
        }
        Err(self.out_of_range(self.string()?, format!("whole bytes from {least} B to 1 TiB")))
    }

    /// Whole bytes, as a quantity or as a bare integer.
    pub(crate) fn bytes_or_integer(&self) -> Result<u64> {
        match self.node.value {
            Value::Integer(_) => self.integer(0..=BYTES_LIMIT),
            _ => self.bytes(0),
        }
    }

    fn quantity(&self, dimension: Dimension) -> Result<f64> {
        let path = || self.path.clone();
        let missing_unit =
            |number: String| Err(self.error(Problem::MissingUnit { path: path(), number, dimension }));
        let text = match &self.node.value {
            Value::String(text) => text,
            Value::Integer(number) => return missing_unit(number.to_string()),
            Value::Float(number) => return missing_unit(number.to_string()),
            _ => return self.wrong_type("a string with a number and a unit"),
        };
        quantity::parse(text, dimension).or_else(|error| match error {
            NotQuantity::NoUnit => missing_unit(text.trim().to_owned()),
            NotQuantity::UnknownUnit(unit) => {
                Err(self.error(Problem::UnknownUnit { path: path(), unit, dimension }))
            }
            NotQuantity::NoNumber => {
                Err(self.error(Problem::NotQuantity { path: path(), text: text.clone(), dimension }))
            }
        })
    }
}

/// A key as TOML wants it in a path.
fn quoted(key: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if !key.is_empty() && key.chars().all(is_bare) { key.to_owned() } else { format!("\"{key}\"") }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}
