//! A table whose keys have been checked: its values are read by the declarations of their keys. Rules
//! between keys are stated once: [`Reader::check`] enforces them, and [`Schema::with`] describes them.
//! Rules that depend on several tables, or on a preset, are not here: the reader of the table checks them by itself.

use serde_json::{Map, Value, json};

use crate::error::{Result, ScenarioError};
use crate::language::field::Field;
use crate::language::key::{AnyKey, Key, Keys};
use crate::language::schema::Schema;
use crate::problem::Problem;
use crate::tree::{self, Table};

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
            tree::Value::Table(table) => Ok(table),
            _ => self.wrong_type("a table"),
        }
    }
}

impl<'a> Reader<'a> {
    /// Value of an optional key; `None` if it is absent.
    pub(crate) fn get<T>(&self, key: &Key<T>) -> Result<Option<T>> {
        self.field(key).map(|field| key.kind.read(&field)).transpose()
    }

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

type Any = &'static dyn AnyKey;

#[derive(Clone)]
pub(crate) enum Rule {
    /// Exactly one of these keys is there.
    OneOf(Vec<Any>),
    /// If something holds, so does something else.
    If(Condition, Then),
}

/// Condition under which a rule applies.
#[derive(Clone)]
pub(crate) enum Condition {
    Has(Any),
    Lacks(Any),
    /// The key is there and fits. Readers ask that of schemas that are names only.
    Fits(Any, Schema),
    /// The key is not there, or does not fit.
    Misfits(Any, Schema),
    All(Vec<Condition>),
}

/// Consequence of a rule whose condition holds.
#[derive(Clone)]
pub(crate) enum Then {
    Needs(Vec<Any>),
    /// These keys must not be there, each for its reason.
    Refuses(Vec<(Any, &'static str)>),
    /// The key, if it is there, fits. Only the schema says that.
    Fits(Any, Schema),
}

impl Rule {
    /// Exactly one of these keys is there.
    pub(crate) fn one_of(keys: Keys<'_>) -> Self {
        Self::OneOf(keys.to_vec())
    }
}

impl Condition {
    /// Then these keys must be there.
    pub(crate) fn needs(self, keys: Keys<'_>) -> Rule {
        Rule::If(self, Then::Needs(keys.to_vec()))
    }

    /// Then these keys must not be there.
    pub(crate) fn refuses(self, keys: Keys<'_>, reason: &'static str) -> Rule {
        Rule::If(self, Then::Refuses(keys.iter().map(|&key| (key, reason)).collect()))
    }

    /// Then the key, if it is there, fits.
    pub(crate) fn fits(self, key: Any, schema: Schema) -> Rule {
        Rule::If(self, Then::Fits(key, schema))
    }

    fn holds(&self, table: &Reader<'_>) -> bool {
        let fits = |key: Any, schema: &Schema| {
            table.field(key).and_then(|field| field.as_string()).is_some_and(|name| schema.has_name(name))
        };
        match self {
            Self::Has(key) => table.field(*key).is_some(),
            Self::Lacks(key) => table.field(*key).is_none(),
            Self::Fits(key, schema) => fits(*key, schema),
            Self::Misfits(key, schema) => !fits(*key, schema),
            Self::All(conditions) => conditions.iter().all(|condition| condition.holds(table)),
        }
    }

    fn schema(self) -> Value {
        let has = |key: Any| json!({ "required": [key.name()] });
        let fits = |key: Any, schema: Schema| json!({ "required": [key.name()], "properties": { key.name(): schema.into_value() } });
        match self {
            Self::Has(key) => has(key),
            Self::Lacks(key) => json!({ "not": has(key) }),
            Self::Fits(key, schema) => fits(key, schema),
            Self::Misfits(key, schema) => json!({ "not": fits(key, schema) }),
            Self::All(conditions) => {
                json!({ "allOf": conditions.into_iter().map(Self::schema).collect::<Vec<_>>() })
            }
        }
    }
}

impl Reader<'_> {
    /// Refuses a table that breaks a rule.
    pub(crate) fn check(&self, rules: &[Rule]) -> Result<()> {
        rules.iter().try_for_each(|rule| match rule {
            Rule::OneOf(keys) => self.check_one_of(keys),
            Rule::If(condition, _) if !condition.holds(self) => Ok(()),
            Rule::If(_, Then::Needs(keys)) => {
                keys.iter().try_for_each(|&key| self.need_field(key).map(|_| ()))
            }
            Rule::If(_, Then::Refuses(keys)) => {
                keys.iter().try_for_each(|&(key, reason)| self.refuse(key, reason))
            }
            Rule::If(_, Then::Fits(..)) => unreachable!("only schemas say what a value fits"),
        })
    }

    fn check_one_of(&self, keys: Keys<'_>) -> Result<()> {
        let found: Vec<_> = keys.iter().filter_map(|&key| Some((key.name(), self.field(key)?))).collect();
        let problem = || Problem::NotOneOf {
            table: self.path().to_owned(),
            choices: keys.iter().map(|key| key.name()).collect(),
            found: found.iter().map(|&(name, _)| name).collect(),
        };
        match found.as_slice() {
            [_] => Ok(()),
            [] => Err(self.error(problem())),
            [(_, first), (_, second), ..] => Err(second.error(problem()).with(first.place(), "and here")),
        }
    }
}

impl Schema {
    /// The same table with rules about its keys.
    pub(crate) fn with(self, rules: Vec<Rule>) -> Self {
        rules.into_iter().fold(self, Self::with_rule)
    }

    fn with_rule(mut self, rule: Rule) -> Self {
        match rule {
            Rule::OneOf(keys) => {
                let choices: Value = keys.iter().map(|key| json!({ "required": [key.name()] })).collect();
                self.require_one_of(choices);
            }
            Rule::If(condition, then) => {
                let then = match then {
                    Then::Needs(keys) => {
                        json!({ "required": keys.iter().map(|key| key.name()).collect::<Vec<_>>() })
                    }
                    Then::Refuses(keys) => {
                        let refused = keys.iter().map(|(key, _)| (key.name().to_owned(), Value::Bool(false)));
                        json!({ "properties": refused.collect::<Map<_, _>>() })
                    }
                    Then::Fits(key, schema) => json!({ "properties": { key.name(): schema.into_value() } }),
                };
                self.require(json!({ "if": condition.schema(), "then": then }));
            }
        }
        self
    }
}
