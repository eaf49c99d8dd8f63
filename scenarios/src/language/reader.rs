//! A table whose keys have been checked: its values are read by the declarations of their keys.

use crate::error::{Result, ScenarioError};
use crate::language::field::Field;
use crate::language::key::{AnyKey, Key, Keys};
use crate::problem::Problem;
use crate::tree::{Table, Value};

/// A table whose keys have been checked.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    field: Field<'a>,
    table: &'a Table,
    /// Names of the keys that it may have.
    names: Vec<&'static str>,
}

impl<'a> Field<'a> {
    /// Checks the keys of a table and opens it.
    pub(crate) fn table(&self, keys: Keys<'_>) -> Result<Reader<'a>> {
        let table = self.keys()?;
        let names: Vec<&str> = keys.iter().map(|key| key.name()).collect();
        if let Some(entry) = table.entries.iter().find(|entry| !names.contains(&entry.key.as_str())) {
            return Err(self.unknown_key(&entry.key, names).at(entry.key_place.clone()));
        }
        Ok(Reader { field: self.clone(), table, names })
    }

    fn unknown_key(&self, key: &str, valid: Vec<&'static str>) -> Problem {
        let (key, table) = (key.to_owned(), self.path.clone());
        match RENAMED.iter().find(|(old, new, _)| key == *old && valid.contains(new)) {
            Some(&(_, new, values)) => Problem::RenamedKey { key, table, new, values },
            None => Problem::UnknownKey { key, table, valid },
        }
    }

    /// A key of a table that has not been opened.
    pub(crate) fn peek(&self, key: &dyn AnyKey) -> Result<Option<Self>> {
        Ok(self.keys()?.get(key.name()).map(|entry| self.below(entry)))
    }

    /// Reads the key on which it depends what other keys a table has.
    pub(crate) fn tag<T>(&self, key: &Key<T>) -> Result<T> {
        match self.peek(key)? {
            Some(field) => key.kind.read(&field),
            None => Err(self.error(Problem::missing_key(key.name, &self.path, key.example))),
        }
    }

    fn keys(&self) -> Result<&'a Table> {
        match &self.node().value {
            Value::Table(table) => Ok(table),
            _ => self.wrong_type("a table"),
        }
    }
}

impl<'a> Reader<'a> {
    /// Value of an optional key; `None` if it is absent.
    pub(crate) fn get<T>(&self, key: &Key<T>) -> Result<Option<T>> {
        self.field(key).map(|field| key.kind.read(&field)).transpose()
    }

    /// Value of a required key.
    pub(crate) fn need<T>(&self, key: &Key<T>) -> Result<T> {
        key.kind.read(&self.need_field(key)?)
    }

    /// Value of a key, or else the default; a key without a default is required.
    pub(crate) fn get_or<T>(&self, key: &Key<T>, default: Option<T>) -> Result<T> {
        match (self.field(key), default) {
            (None, Some(default)) => Ok(default),
            _ => self.need(key),
        }
    }

    /// The value of a key as a field, for readers that need its place, or know more about it than its kind.
    pub(crate) fn field(&self, key: &dyn AnyKey) -> Option<Field<'a>> {
        debug_assert!(self.names.contains(&key.name()), "`{}` is no key of `{}`", key.name(), self.path());
        self.table.get(key.name()).map(|entry| self.field.below(entry))
    }

    /// The value of a key that must be there, as a field.
    pub(crate) fn need_field(&self, key: &dyn AnyKey) -> Result<Field<'a>> {
        let missing = || self.error(Problem::missing_key(key.name(), self.path(), key.example()));
        self.field(key).ok_or_else(missing)
    }

    /// Refuses a key that something else makes meaningless.
    pub(crate) fn refuse(&self, key: &dyn AnyKey, reason: &'static str) -> Result<()> {
        match self.field(key) {
            Some(field) => Err(field.error(Problem::NoEffect { path: field.path.clone(), reason })),
            None => Ok(()),
        }
    }

    /// Refuses several of them.
    pub(crate) fn refuse_all(&self, keys: Keys<'_>, reason: &'static str) -> Result<()> {
        keys.iter().try_for_each(|&key| self.refuse(key, reason))
    }

    /// Path of the table, empty for the top level.
    pub(crate) fn path(&self) -> &str {
        &self.field.path
    }

    /// The error of a problem with the table as a whole.
    pub(crate) fn error(&self, problem: Problem) -> ScenarioError {
        self.field.error(problem)
    }
}

/// Keys of earlier versions, the names that they have now, and what else has changed with them.
const RENAMED: &[(&str, &str, &str)] = &[
    (
        "form",
        "algorithm",
        "of its values, `exact` is now `ring`, `padded` is `padded-ring`, and `grouped` and `all-to-all` are `direct`",
    ),
    ("chunks", "parts", "its values are as they were"),
    ("slot", "speculative_capacity", "its values are as they were"),
];
