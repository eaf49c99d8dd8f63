//! A JSON Schema of the scenario language, for editors: what can be said about one value, one key and one table.
//!
//! Each reader describes what it reads in a `schema` function of its own, from the same lists and limits: a key in one
//! and not in the other is a panic, and so a failing test. What depends on several tables, on files or on the value of a
//! quantity is not in the schema; `zipwire scenario check` knows that too.

use std::ops::RangeInclusive;

use serde_json::{Map, Value, json};

use crate::quantity::Dimension;

/// The schema of a value.
#[derive(Clone, Debug)]
pub(crate) struct Schema(Value);

/// A key of a table.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    name: &'static str,
    schema: Schema,
    needed: bool,
}

/// What a rule of a table asks before it applies.
#[derive(Clone, Debug)]
pub(crate) enum Condition {
    /// The key is there.
    Has(&'static str),
    /// The key is not there.
    Lacks(&'static str),
    /// The key is there and fits.
    Is(&'static str, Schema),
    /// The key is not there, or does not fit.
    IsNot(&'static str, Schema),
    /// All of these.
    All(Vec<Condition>),
}

/// What a rule of a table says.
#[derive(Clone, Debug)]
pub(crate) enum Rule {
    /// These keys must be there.
    Needs(&'static [&'static str]),
    /// These keys must not be there.
    Refuses(&'static [&'static str]),
    /// The key, if it is there, fits.
    Fits(&'static str, Schema),
}

/// A key that must be there.
pub(crate) fn needed(name: &'static str, about: &str, schema: Schema) -> Key {
    Key { name, schema: schema.about(about), needed: true }
}

/// A key that may be left out.
pub(crate) fn optional(name: &'static str, about: &str, schema: Schema) -> Key {
    Key { name, schema: schema.about(about), needed: false }
}

/// Anything.
pub(crate) fn any() -> Schema {
    Schema(json!({}))
}

/// Any string.
pub(crate) fn string() -> Schema {
    Schema(json!({ "type": "string" }))
}

/// A string that a regular expression matches.
pub(crate) fn pattern(pattern: &str) -> Schema {
    Schema(json!({ "type": "string", "pattern": pattern }))
}

/// One of these names.
pub(crate) fn names(names: impl IntoIterator<Item = &'static str>) -> Schema {
    Schema(json!({ "type": "string", "enum": names.into_iter().collect::<Vec<_>>() }))
}

/// A whole number.
pub(crate) fn integer(range: RangeInclusive<impl Into<u64>>) -> Schema {
    let (least, most) = range.into_inner();
    let (least, most): (u64, u64) = (least.into(), most.into());
    Schema(json!({ "type": "integer", "minimum": least, "maximum": most }))
}

/// A whole number from 1; how large it may be depends on other keys.
pub(crate) fn count() -> Schema {
    Schema(json!({ "type": "integer", "minimum": 1 }))
}

/// A number.
pub(crate) fn number(range: RangeInclusive<f64>) -> Schema {
    Schema(json!({ "type": "number", "minimum": range.start(), "maximum": range.end() }))
}

/// A number with a unit.
pub(crate) fn quantity(dimension: Dimension) -> Schema {
    let Schema(mut value) = pattern(&dimension.pattern());
    value["examples"] = json!([dimension.example()]);
    Schema(value)
}

/// Seconds.
pub(crate) fn time() -> Schema {
    quantity(Dimension::Time)
}

/// Bytes per second.
pub(crate) fn bandwidth() -> Schema {
    quantity(Dimension::Bandwidth)
}

/// Floating-point operations per second.
pub(crate) fn compute_rate() -> Schema {
    quantity(Dimension::ComputeRate)
}

/// Bytes.
pub(crate) fn bytes() -> Schema {
    quantity(Dimension::Bytes)
}

/// An array.
pub(crate) fn array(items: Schema) -> Schema {
    let mut value = json!({ "type": "array" });
    value["items"] = items.0;
    Schema(value)
}

/// A table with any keys, all of whose values are alike.
pub(crate) fn map(values: Schema) -> Schema {
    let mut value = json!({ "type": "object" });
    value["additionalProperties"] = values.0;
    Schema(value)
}

/// One of several that exclude one another.
pub(crate) fn one_of(schemas: impl IntoIterator<Item = Schema>) -> Schema {
    Schema(json!({ "oneOf": schemas.into_iter().map(|schema| schema.0).collect::<Vec<_>>() }))
}

/// A table with these keys and no others.
///
/// # Panics
/// If `keys` are not those that the reader of the table knows, `valid`.
pub(crate) fn table(valid: &[&'static str], keys: impl IntoIterator<Item = Key>) -> Schema {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for Key { name, schema, needed } in keys {
        assert!(valid.contains(&name), "key `{name}` has a schema, and its reader does not know it");
        assert!(!properties.contains_key(name), "key `{name}` has two schemas");
        properties.insert(name.to_owned(), schema.0);
        required.extend(needed.then_some(name));
    }
    for name in valid {
        assert!(properties.contains_key(*name), "key `{name}` has a reader and no schema");
    }
    let mut value = json!({ "type": "object", "properties": properties, "additionalProperties": false });
    if !required.is_empty() {
        value["required"] = json!(required);
    }
    Schema(value)
}

impl Schema {
    /// The schema as JSON.
    pub(crate) fn into_value(self) -> Value {
        self.0
    }

    /// The same with a line about it, which editors show.
    pub(crate) fn about(self, about: &str) -> Self {
        let mut value = Map::new();
        value.insert("description".to_owned(), about.into());
        if let Value::Object(inner) = self.0 {
            value.extend(inner);
        }
        Self(Value::Object(value))
    }

    /// An array of at least `least` items.
    pub(crate) fn at_least(mut self, least: usize) -> Self {
        self.0["minItems"] = least.into();
        self
    }

    /// An array of at most `most` items.
    pub(crate) fn at_most(mut self, most: usize) -> Self {
        self.0["maxItems"] = most.into();
        self
    }

    /// An array of exactly so many items.
    pub(crate) fn exactly(mut self, count: usize) -> Self {
        self.0["minItems"] = count.into();
        self.at_most(count)
    }

    /// Any table with this key, for conditions.
    pub(crate) fn with_key(key: &str, value: &Schema) -> Self {
        Self(json!({ "type": "object", "required": [key], "properties": { key: value.0 } }))
    }

    /// A table of which exactly one of these keys is there.
    pub(crate) fn with_one_of(mut self, keys: &[&'static str]) -> Self {
        keys.iter().for_each(|key| self.expect_key(key));
        let choices: Value = keys.iter().map(|key| json!({ "required": [key] })).collect();
        if self.0.get("oneOf").is_some() {
            self.require(json!({ "oneOf": choices }));
        } else {
            self.0["oneOf"] = choices;
        }
        self
    }

    /// A table with a rule about its keys.
    pub(crate) fn when(mut self, condition: Condition, rule: Rule) -> Self {
        let condition = self.condition(condition);
        let rule = match rule {
            Rule::Needs(keys) => {
                keys.iter().for_each(|key| self.expect_key(key));
                json!({ "required": keys })
            }
            Rule::Refuses(keys) => {
                keys.iter().for_each(|key| self.expect_key(key));
                let refused = keys.iter().map(|&key| (key.to_owned(), Value::Bool(false)));
                json!({ "properties": refused.collect::<Map<_, _>>() })
            }
            Rule::Fits(key, schema) => {
                self.expect_key(key);
                json!({ "properties": { key: schema.0 } })
            }
        };
        self.require(json!({ "if": condition, "then": rule }));
        self
    }

    /// Adds something else that must hold.
    fn require(&mut self, rule: Value) {
        match self.0.get_mut("allOf").and_then(Value::as_array_mut) {
            Some(rules) => rules.push(rule),
            None => self.0["allOf"] = json!([rule]),
        }
    }

    fn condition(&self, condition: Condition) -> Value {
        if let Condition::All(conditions) = condition {
            let all: Vec<Value> = conditions.into_iter().map(|condition| self.condition(condition)).collect();
            return json!({ "allOf": all });
        }
        let (Condition::Has(key) | Condition::Lacks(key) | Condition::Is(key, _) | Condition::IsNot(key, _)) =
            condition
        else {
            unreachable!("all conditions but one name a key")
        };
        self.expect_key(key);
        let has = json!({ "required": [key] });
        let is = |schema: &Schema| json!({ "required": [key], "properties": { key: schema.0 } });
        match &condition {
            Condition::Lacks(_) => json!({ "not": has }),
            Condition::Is(_, schema) => is(schema),
            Condition::IsNot(_, schema) => json!({ "not": is(schema) }),
            Condition::Has(_) | Condition::All(_) => has,
        }
    }

    fn expect_key(&self, key: &str) {
        assert!(self.0["properties"].get(key).is_some(), "a rule names key `{key}`, which the table has not");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: &[&str] = &["a", "b"];

    fn a_and(other: &'static str) -> Schema {
        table(KEYS, [needed("a", "first", string()), optional(other, "second", count())])
    }

    #[test]
    fn tables_are_closed() {
        assert_eq!(
            a_and("b").into_value(),
            json!({
                "type": "object",
                "properties": {
                    "a": { "description": "first", "type": "string" },
                    "b": { "description": "second", "type": "integer", "minimum": 1 },
                },
                "additionalProperties": false,
                "required": ["a"],
            })
        );
    }

    #[test]
    #[should_panic(expected = "key `b` has a reader and no schema")]
    fn a_key_without_schema_is_noticed() {
        table(KEYS, [needed("a", "first", string())]);
    }

    #[test]
    #[should_panic(expected = "key `c` has a schema, and its reader does not know it")]
    fn a_schema_without_reader_is_noticed() {
        a_and("c");
    }

    #[test]
    #[should_panic(expected = "a rule names key `c`")]
    fn a_rule_about_no_key_is_noticed() {
        a_and("b").when(Condition::Has("c"), Rule::Needs(&["a"]));
    }
}
