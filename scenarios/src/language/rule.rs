//! Rules between keys of a table, each stated once: [`Reader::check`] enforces them, and [`Schema::with`] describes them.
//!
//! Rules that depend on several tables, or on a preset, are not here: the reader of the table checks them by itself.

use serde_json::{Map, Value, json};

use crate::error::Result;
use crate::language::key::{AnyKey, Keys};
use crate::language::reader::Reader;
use crate::language::schema::Schema;
use crate::problem::Problem;

/// A key of any type.
type Any = &'static dyn AnyKey;

/// A rule of a table.
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
    /// The key is there.
    Has(Any),
    /// The key is not there.
    Lacks(Any),
    /// The key is there and fits. Readers ask that of schemas that are names only.
    Fits(Any, Schema),
    /// The key is not there, or does not fit.
    Misfits(Any, Schema),
    /// All of these.
    All(Vec<Condition>),
}

/// Consequence of a rule whose condition holds.
#[derive(Clone)]
pub(crate) enum Then {
    /// These keys must be there.
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
