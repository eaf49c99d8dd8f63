//! A value that a key could have, made from the schema: for messages about values of another type.

use serde_json::Value;

/// `KEY = VALUE`, with a value of the type that the key at `path` needs, `expected` in the words of messages; nothing if the schema
/// does not know the key, or any text would do.
pub(crate) fn example(path: &str, expected: &str) -> Option<String> {
    let kind = match expected {
        "an array" => "array",
        "a table" => "object",
        "a string" | "a string with a number and a unit" => "string",
        _ => return None,
    };
    // Positions in arrays are part of the path, and of no table.
    let is_key = |part: &&str| part.parse::<u32>().is_err();
    let key = path.rsplit('.').next().filter(is_key)?;
    let keys = path.split('.').filter(is_key);
    let schema = crate::schema();
    let mut found = vec![&schema];
    for key in keys {
        found = found.into_iter().flat_map(alternatives).filter_map(|table| below(table, key)).collect();
    }
    let of_kind = found.into_iter().flat_map(alternatives).filter(|schema| schema["type"] == kind);
    let value = of_kind.into_iter().find_map(toml)?;
    Some(format!("{key} = {value}"))
}

/// The schema itself, or those of which a value fits one; for an array, those of its items as well.
fn alternatives(schema: &Value) -> Vec<&Value> {
    let each = ["oneOf", "anyOf"].iter().filter_map(|each| schema[*each].as_array()).flatten();
    let mut all: Vec<&Value> = each.flat_map(alternatives).collect();
    all.push(schema);
    all
}

/// The schema of a key of a table, or of the tables of an array.
fn below<'s>(schema: &'s Value, key: &str) -> Option<&'s Value> {
    let own = schema["properties"].get(key);
    own.or_else(|| {
        alternatives(schema.get("items")?).into_iter().find_map(|item| item["properties"].get(key))
    })
}

/// The shortest value that a schema shows, as TOML on one line.
fn toml(schema: &Value) -> Option<String> {
    if let Some(shown) = schema["examples"].get(0).or_else(|| schema["enum"].get(0)) {
        return Some(shown.to_string());
    }
    match schema["type"].as_str() {
        Some("array") => {
            let item = alternatives(&schema["items"]).into_iter().find_map(toml)?;
            let count = if item.starts_with('{') { 1 } else { 2 };
            Some(format!("[{}]", vec![item; count].join(", ")))
        }
        // Which values would do depends on the hardware or on other keys: names only.
        Some("object") => {
            let needed = schema["required"].as_array()?.iter().filter_map(Value::as_str);
            Some(format!("{{ {} }}", needed.map(|key| format!("{key} = ...")).collect::<Vec<_>>().join(", ")))
        }
        Some("integer") => Some(schema["minimum"].to_string()),
        Some("string") if schema["pattern"].is_null() => Some("\"...\"".to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_have_the_type_that_is_needed() {
        for (path, expected, shown) in [
            ("workload.bytes", "an array", Some("bytes = [\"16 MiB\", \"16 MiB\"]")),
            ("workload.start", "an array", Some("start = [\"5 us\", \"5 us\"]")),
            ("workload.flows", "an array", Some("flows = [{ src = ..., dst = ..., bytes = ... }]")),
            ("cluster.latency_intra", "a string with a number and a unit", Some("latency_intra = \"5 us\"")),
            ("variant.0.protocol", "a string", Some("protocol = \"native\"")),
            ("codec.speed", "a table", Some("speed = { encode = ..., decode = ... }")),
            ("workload.start.0", "a string with a number and a unit", None),
            ("cluster.none", "an array", None),
        ] {
            assert_eq!(example(path, expected).as_deref(), shown, "{path}");
        }
    }
}
