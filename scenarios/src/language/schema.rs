//! A JSON Schema of the scenario language, for editors: what can be said about one value, one key and one table.
//!
//! Here are the pieces. Keys put them together ([`key`](crate::language::key)), from the declarations by which they are read. What depends on
//! several tables, on files or on the value of a quantity is not in the schema; `zipwire scenario check` knows that too.

use std::ops::RangeInclusive;

use serde_json::{Map, Value, json};

use crate::quantity::Dimension;

/// The schema of a value.
#[derive(Clone, Debug)]
pub(crate) struct Schema(Value);

pub(crate) fn any() -> Schema {
    Schema(json!({}))
}

pub(crate) fn string() -> Schema {
    Schema(json!({ "type": "string" }))
}

/// A string that a regular expression matches.
pub(crate) fn pattern(pattern: &str) -> Schema {
    Schema(json!({ "type": "string", "pattern": pattern }))
}

pub(crate) fn names(names: impl IntoIterator<Item = &'static str>) -> Schema {
    Schema(json!({ "type": "string", "enum": names.into_iter().collect::<Vec<_>>() }))
}

pub(crate) fn integer(range: RangeInclusive<impl Into<u64>>) -> Schema {
    let (least, most) = range.into_inner();
    let (least, most): (u64, u64) = (least.into(), most.into());
    Schema(json!({ "type": "integer", "minimum": least, "maximum": most }))
}

/// A whole number from 1; how large it may be depends on other keys.
pub(crate) fn count() -> Schema {
    Schema(json!({ "type": "integer", "minimum": 1 }))
}

pub(crate) fn number(range: RangeInclusive<f64>) -> Schema {
    Schema(json!({ "type": "number", "minimum": range.start(), "maximum": range.end() }))
}

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

/// Bytes.
pub(crate) fn bytes() -> Schema {
    quantity(Dimension::Bytes)
}

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

impl Schema {
    pub(crate) fn new(value: Value) -> Self {
        Self(value)
    }

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

    pub(crate) fn at_least(mut self, least: usize) -> Self {
        self.0["minItems"] = least.into();
        self
    }

    pub(crate) fn at_most(mut self, most: usize) -> Self {
        self.0["maxItems"] = most.into();
        self
    }

    pub(crate) fn exactly(mut self, count: usize) -> Self {
        self.0["minItems"] = count.into();
        self.at_most(count)
    }

    /// Any table with this key, for conditions.
    pub(crate) fn with_key(key: &str, value: &Schema) -> Self {
        Self(json!({ "type": "object", "required": [key], "properties": { key: value.0 } }))
    }

    /// The same table with only some of the names that a key of it has.
    pub(crate) fn only(mut self, key: &str, names: impl IntoIterator<Item = &'static str>) -> Self {
        self.0["properties"][key]["enum"] = names.into_iter().collect();
        self
    }

    /// Whether a name is among those of [`names`].
    pub(crate) fn has_name(&self, name: &str) -> bool {
        let names = self.0["enum"].as_array().expect("readers ask only which name a value is");
        names.iter().any(|known| known == name)
    }

    /// Adds that exactly one of these must hold.
    pub(crate) fn require_one_of(&mut self, choices: Value) {
        if self.0.get("oneOf").is_some() {
            self.require(json!({ "oneOf": choices }));
        } else {
            self.0["oneOf"] = choices;
        }
    }

    /// Adds something else that must hold.
    pub(crate) fn require(&mut self, rule: Value) {
        match self.0.get_mut("allOf").and_then(Value::as_array_mut) {
            Some(rules) => rules.push(rule),
            None => self.0["allOf"] = json!([rule]),
        }
    }
}
