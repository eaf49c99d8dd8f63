//! The schema as Markdown, for people: a table of keys for each table of the language.
//!
//! Rules that join several keys are not in it: `docs/scenarios.md` has them.

use serde_json::{Map, Value};

/// Numbers above this are no limits that anybody reaches.
const LARGEST_LIMIT: u64 = 1 << 53;

/// A page of all keys of a [schema](crate::schema).
pub(crate) fn reference(schema: &Value) -> String {
    let mut page = Page {
        text: "# All keys of scenarios\n\nA line for each key; [the scenario language](../scenarios.md) says what they are for. \
               `zipwire scenario schema --markdown` prints this page.\n"
            .to_owned(),
        ..Page::default()
    };
    page.section("Top level", &Place::default(), schema);
    page.text
}

/// Place of a table in the language.
#[derive(Clone, Default)]
struct Place {
    /// Keys that lead to it, with dots between them.
    path: String,
    /// Kind of the table around it, where it depends on one.
    kind: String,
}

impl Place {
    fn key(&self, name: &str) -> Self {
        let dot = if self.path.is_empty() { "" } else { "." };
        Self { path: format!("{}{dot}{name}", self.path), kind: self.kind.clone() }
    }
}

/// A table that has a heading of its own.
struct Section {
    heading: String,
    path: String,
    table: Value,
}

#[derive(Default)]
struct Page {
    text: String,
    sections: Vec<Section>,
}

impl Page {
    /// Writes the keys of a table, and behind them the tables in it that are new.
    fn section(&mut self, heading: &str, place: &Place, table: &Value) {
        let first_new = self.sections.len();
        let mut rows = String::new();
        let none = Map::new();
        for (name, schema) in table["properties"].as_object().unwrap_or(&none) {
            let (about, default) = about(schema, is_needed(table, name));
            let value = self.value(&place.key(name), schema);
            rows += &format!("| `{name}` | {value} | {default} | {about} |\n");
        }
        self.text +=
            &format!("\n## {heading}\n\n| key | value | default | meaning |\n|---|---|---|---|\n{rows}");
        let new = self.sections.len();
        for index in first_new..new {
            let Section { heading, path, table } = &self.sections[index];
            let place = Place { path: path.clone(), kind: kind(table).unwrap_or(place.kind.clone()) };
            let (heading, table) = (heading.clone(), table.clone());
            self.section(&heading, &place, &table);
        }
    }

    /// Values that a key takes, in a few words; a table is a link to its section.
    fn value(&mut self, place: &Place, schema: &Value) -> String {
        if let Some(choices) = schema["oneOf"].as_array().filter(|_| schema["properties"].is_null()) {
            let mut values: Vec<String> = Vec::new();
            for choice in choices {
                let value = self.value(place, choice);
                if !values.contains(&value) {
                    values.push(value);
                }
            }
            return values.join(if values.len() > 2 { ", " } else { " or " });
        }
        if let Some(names) = schema["enum"].as_array() {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            return names.join(", ");
        }
        match schema["type"].as_str() {
            Some("object") if schema["properties"].is_object() => self.table(place, schema),
            Some("object") => format!("by name: {}", self.value(place, &schema["additionalProperties"])),
            Some("array") => format!("list of {}", self.value(place, &schema["items"])),
            Some("integer") => format!("whole number{}", limits(schema)),
            Some("number") => format!("number{}", limits(schema)),
            Some("boolean") => "`true`, `false`".to_owned(),
            Some("string") => match schema["examples"][0].as_str() {
                Some(example) => format!("as `\"{example}\"`"),
                None => "text".to_owned(),
            },
            _ => "any".to_owned(),
        }
    }

    /// A link to the section of a table, which is a new one unless there is one of equal keys at the same place.
    fn table(&mut self, place: &Place, table: &Value) -> String {
        let is_known = |known: &&Section| known.path == place.path && known.table == *table;
        let heading = match self.sections.iter().find(is_known) {
            Some(known) => known.heading.clone(),
            None => {
                let heading = self.free_heading(place, table);
                let section =
                    Section { heading: heading.clone(), path: place.path.clone(), table: table.clone() };
                self.sections.push(section);
                heading
            }
        };
        format!("[{}](#{})", kind(table).unwrap_or_else(|| "table".to_owned()), anchor(&heading))
    }

    /// A heading that no other table has.
    fn free_heading(&self, place: &Place, table: &Value) -> String {
        let is_free = |heading: &String| self.sections.iter().all(|section| section.heading != *heading);
        let plain = format!("`{}`", place.path);
        let of_kind = |kind: &str| format!("{plain} of kind {kind}");
        let own = kind(table).map(|kind| of_kind(&kind));
        let outer = of_kind(&place.kind);
        let mut all = own
            .map_or_else(|| vec![plain.clone(), outer], |own| vec![own])
            .into_iter()
            .chain((2..).map(|count| format!("{plain} ({count})")));
        all.find(is_free).expect("numbers do not end")
    }
}

/// Names that a table is chosen by: keys that it needs, and that have one value only.
fn kind(table: &Value) -> Option<String> {
    let keys = table["properties"].as_object()?.iter().filter(|(name, _)| is_needed(table, name));
    let named = keys.filter_map(|(_, schema)| match schema["enum"].as_array()?.as_slice() {
        [only] => Some(format!("`{}`", only.as_str()?)),
        _ => None,
    });
    let named: Vec<String> = named.collect();
    if named.is_empty() { None } else { Some(named.join(" ")) }
}

fn is_needed(table: &Value, name: &str) -> bool {
    table["required"].as_array().is_some_and(|keys| keys.iter().any(|key| key == name))
}

/// Text about a key, and its default.
fn about(schema: &Value, is_needed: bool) -> (String, String) {
    let text = schema["description"].as_str().unwrap_or_default().replace('|', "\\|");
    if is_needed {
        return (text, "needed".to_owned());
    }
    let (before, last) = text.rsplit_once("; ").unwrap_or(("", &text));
    match last.strip_suffix(" by default") {
        Some(default) if !before.is_empty() => (before.to_owned(), default.trim_end_matches(',').to_owned()),
        _ => (text, String::new()),
    }
}

fn limits(schema: &Value) -> String {
    let limit = |key: &str| schema[key].as_f64().filter(|limit| *limit <= LARGEST_LIMIT as f64);
    match (limit("minimum"), limit("maximum")) {
        (Some(least), Some(most)) => format!(", {least} to {most}"),
        (Some(least), None) => format!(" from {least}"),
        (None, Some(most)) => format!(" up to {most}"),
        (None, None) => String::new(),
    }
}

/// Anchor of a heading, as GitHub and mdBook make it.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || "-_ ".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}
