//! Remedies of problems, with examples that are made from the schema.

use std::io;

use serde_json::Value;
use zipwire_codec::{DType, Spec, SpecError, sign_mantissa_len};
use zipwire_schedule::{Algorithm, Protocol};
use zipwire_traces::nearest;

use crate::codec;
use crate::problem::Problem;
use crate::quantity::Dimension;
use crate::words::{counted, list, meant, sentence, shortened_names};

impl Problem {
    /// The remedy, where the message does not name it already.
    pub fn help(&self) -> Option<String> {
        match self {
            Self::AtPoint { problem, .. } => problem.help(),
            Self::Codec(error) => spec_help(error),
            Self::Recording(error) => error.help(),
            Self::Graph(problem) => Some(problem.help()),
            Self::Payload(problem) => problem.help(),
            Self::Flow(problem) => problem.help(),
            Self::Parallel(problem) => Some(problem.help()),
            Self::Table(problem) => problem.help(),
            Self::Serving(problem) => problem.help(),
            Self::Parcel(problem) => Some(problem.help()),
            _ => {
                let fixed = self.fixed_help().map(str::to_owned);
                fixed
                    .or_else(|| self.name_help())
                    .or_else(|| self.value_help())
                    .or_else(|| self.coding_help())
            }
        }
    }

    /// Remedies that are the same whatever the values.
    fn fixed_help(&self) -> Option<&'static str> {
        let help = match self {
            Self::Unreadable { source, .. } => match source.kind() {
                io::ErrorKind::IsADirectory => "name a file in it",
                io::ErrorKind::InvalidData => "a scenario is a text in TOML",
                _ => return None,
            },
            Self::Syntax { is_json: true, .. } => "this is JSON, and a scenario is TOML",
            Self::WrongType { expected: "an integer" | "a number", found: "a string", .. } => {
                "write a number, without quotation marks"
            }
            Self::BadName { .. } => {
                "1 to 100 letters, digits, `-`, `_` and `.`, with a letter or digit first: it names output files"
            }
            Self::NotPath { .. } => "like `\"cluster.nodes\" = [2, 4]`",
            Self::ArmCodecs { .. } => "a plan has one codec: choose arms that share theirs",
            Self::DuplicateVariant { .. } => "give each variant a name of its own",
            Self::LibraryArm { .. } => {
                "leave it out, or give it another algorithm; uncompressed calls of a library can be an arm"
            }
            Self::Memory { .. } => {
                "share the model among more GPUs, or take a smaller type of weights where the workload has `weight_dtype`; \
                 `cluster.gpu_memory` says what a GPU has"
            }
            Self::NoCodec { .. } | Self::NoCopySpeed => {
                "add a table `[codec]` with `id = \"window7\"`, and its `speed` where the cluster has no `codec_speed`"
            }
            // With `dedup+` in front of it, too.
            Self::NoCodecSpeed { codec, .. }
                if codec.rsplit('+').next().unwrap_or(codec).starts_with("auto") =>
            {
                "`auto` makes frames of several codecs, of different speeds: state `speed = { encode = \"... GB/s\", decode = \"... GB/s\" }`, \
                 which then is that of every chunk, or name the codec"
            }
            // It is one of values and base together.
            Self::NoCodecSpeed { codec, .. } if codec.starts_with("delta+") => {
                "state `speed = { encode = \"... GB/s\", decode = \"... GB/s\" }`: hardware files have no speed of differences, which \
                 depends on how far values are from their base, and GPUs have no kernels for them yet; the example `deltas` of \
                 `zipwire-codec` measures that of a CPU"
            }
            // Payloads are BF16: other values have only the ratio.
            Self::NoPayload { dtype, .. } if *dtype != DType::Bf16.name() => {
                "state the ratio here, `ratio = 1.3`"
            }
            Self::NoPayload { .. } => {
                "give the workload data to compress, `payload = { gaussian = 0.02 }`, or state the ratio here, `ratio = 1.3`"
            }
            _ => return None,
        };
        Some(help)
    }

    /// Remedies for keys, names and paths.
    fn name_help(&self) -> Option<String> {
        let help = match self {
            Self::UnknownKey { key, table, valid } => {
                let elsewhere = tables_with(key, table);
                let elsewhere =
                    elsewhere.map_or_else(String::new, |tables| format!("it is a key of {tables}; "));
                elsewhere + &choose(key, valid, "the valid keys are")
            }
            Self::RenamedKey { new, values, .. } => format!("write `{new}`; {values}"),
            Self::UnknownName { name, valid, .. } => choose(name, valid, "it must be one of"),
            Self::NoSuchPath { path, valid } => {
                choose(path.rsplit('.').next().unwrap_or(path), valid, "there are")
            }
            Self::MissingKey { key, table, example } if table.is_empty() && example.starts_with('{') => {
                format!("add a table `[{key}]`, or on one line `{key} = {example}`")
            }
            Self::MissingKey { key, table, example } if table.is_empty() => {
                format!("add `{key} = {example}` before the first table")
            }
            Self::MissingKey { key, table, example } => format!("add `{key} = {example}` to `{table}`"),
            Self::UnknownLink { nearest, kinds, edges, .. } if kinds.is_empty() => {
                format!("{}there are {}", meant(nearest.as_deref()), shortened_names(edges))
            }
            Self::UnknownLink { nearest, kinds, .. } => {
                let kinds: Vec<String> = kinds.iter().map(|&(kind, count)| counted(kind, count)).collect();
                format!("{}there are {}, each `up` and `down`", meant(nearest.as_deref()), sentence(&kinds))
            }
            Self::BareTopology { example, .. } => format!("write it as a table, like `{example}`"),
            Self::NotAssignment { flag } => format!("like `{flag} \"cluster.host_sync=60 us\"`"),
            Self::BarePath { key } => format!("write `\"{key}.KEY\" = [...]`"),
            _ => return None,
        };
        Some(help)
    }

    /// Remedies for values, their units and their files.
    fn value_help(&self) -> Option<String> {
        let help = match self {
            Self::NicsPerNode { gpus, .. } => format!(
                "a GPU uses one NIC, so there are at most as many as GPUs: set `cluster.nics_per_node = {gpus}`, too, for a NIC \
                 for each"
            ),
            Self::Heads { heads, .. } => {
                format!(
                    "under tensor parallelism GPUs have as many whole heads each: take a divisor of {heads}"
                )
            }
            Self::WrongType { path, expected, .. } => format!("like `{}`", example(path, expected)?),
            Self::BadHeader { expected, example, .. } => format!(
                "write the names of the columns, `{expected}`, in the first line, and a line like `{example}` for each row"
            ),
            Self::Profile { remedy, .. } => remedy.clone(),
            Self::NoRows { example, .. } => format!("add a line like `{example}` for each row"),
            Self::MissingUnit { number, dimension, .. } => {
                // A number of bytes without a unit is meant as bytes.
                let unit = match dimension {
                    Dimension::Bytes => "B",
                    _ => dimension.example().rsplit(' ').next().unwrap_or_default(),
                };
                let units = list(dimension.units());
                format!("write it as a string with a unit, like `\"{number} {unit}\"`; the units are {units}")
            }
            Self::UnknownUnit { unit, dimension, .. } => {
                let is_bandwidth = matches!(dimension, Dimension::Bandwidth);
                let lead = if is_bandwidth { "`b` is a bit and `B` a byte: " } else { "" };
                format!("{}{lead}the units are {}", meant(dimension.meant(unit)), list(dimension.units()))
            }
            Self::NotQuantity { dimension, .. } => format!("like `\"{}\"`", dimension.example()),
            Self::OutOfRange { limits, .. } | Self::FieldRange { limits, .. } => {
                format!("it must be {limits}")
            }
            Self::NotOneRecord { available, .. } => format!("the file has {}", shortened(available)),
            Self::ExpertCount { found, .. } => format!("set `experts = {found}`, or name another record"),
            _ => return None,
        };
        Some(help)
    }

    /// Remedies for codecs, protocols and algorithms.
    fn coding_help(&self) -> Option<String> {
        let help = match self {
            Self::NoCodecSpeed { presets, .. } => codec_speed(presets),
            Self::NoRests { .. } => {
                let codec = |id: &str| codec::parse(id).expect("ids are specs").codec();
                let has_sign_mantissa =
                    |id: &&str| sign_mantissa_len(codec(id).as_ref(), DType::Bf16, 1).is_some();
                let codecs = list(codec::ids().filter(has_sign_mantissa));
                format!("the codecs {codecs} have one of BF16 values; `in-band` takes any codec and type")
            }
            Self::NoAlgorithms { path } => format!("leave `{path}` out"),
            Self::FixedOrder { path, free, .. } => {
                format!("leave `{path}` out, or set `algorithm = \"{free}\"`")
            }
            Self::NoCallCost { collective, gpus_per_node, example } => format!(
                "add `{collective} = {example}` to `[cluster.library]`, or if it is there, `{gpus_per_node} = \"22 GB/s\"` to its \
                 `bandwidth`"
            ),
            Self::NoGroupCost { .. } => {
                "set `cluster.library.model` and `gpus`, as the preset `h100-8x` has them, or take another algorithm".to_owned()
            }
            Self::PaddedValues { .. } => format!(
                "set `algorithm = \"{}\"`, in which each block has its own length, or a protocol with frames: {}",
                Algorithm::Ring.name(),
                list(
                    Protocol::ALL
                        .iter()
                        .filter(|protocol| protocol.is_coded())
                        .map(|protocol| protocol.name())
                )
            ),
            Self::CodedSums { .. } => format!(
                "set `algorithm = \"{}\"`, which is the default of protocols with frames, or `protocol = \"{}\"`",
                Algorithm::Direct.name(),
                Protocol::Native.name()
            ),
            _ => return None,
        };
        Some(help)
    }
}

/// Remedy for a wrong codec text, with the nearest valid name if one was mistyped.
pub fn spec_help(error: &SpecError) -> Option<String> {
    let near = match error {
        SpecError::UnknownId { id, .. } => nearest(id, codec::ids()),
        SpecError::UnknownPrefix { id, .. } => nearest(id, Spec::prefixes()),
        SpecError::UnknownOption { codec, key, .. } => nearest(key, Spec::options(codec)),
        _ => None,
    };
    Some(meant(near) + &error.help()?)
}

/// How to come by a codec's speed. No figure: one of another GPU would be taken.
fn codec_speed(presets: &[&str]) -> String {
    let known = match presets {
        [] => "no preset has one".to_owned(),
        [preset, ..] => format!(
            "the presets {} have one (`preset = \"{preset}\"` in `[cluster]`)",
            list(presets.iter().copied())
        ),
    };
    format!(
        "state `speed = {{ encode = \"... GB/s\", decode = \"... GB/s\" }}` of the GPU that the cluster has: \
         `zipwire bench gpu` measures it there (`zipwire bench codec` that of CPUs), papers publish some, and {known}; \
         that of another GPU can turn a gain into a loss"
    )
}

/// Other tables that have a key, which may be where it belongs.
fn tables_with(key: &str, table: &str) -> Option<String> {
    fn search(schema: &Value, path: &str, key: &str, found: &mut Vec<String>) {
        for (name, below) in schema["properties"].as_object().into_iter().flatten() {
            let table = || if path.is_empty() { "the top level".to_owned() } else { format!("`[{path}]`") };
            if name == key && !found.contains(&table()) {
                found.push(table());
            }
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            search(below, &path, key, found);
        }
        search_all(&schema["items"], path, key, found);
        ["oneOf", "anyOf", "allOf"].iter().for_each(|each| search_all(&schema[*each], path, key, found));
    }
    fn search_all(schemas: &Value, path: &str, key: &str, found: &mut Vec<String>) {
        match schemas {
            Value::Array(all) => all.iter().for_each(|schema| search(schema, path, key, found)),
            Value::Object(_) => search(schemas, path, key, found),
            _ => {}
        }
    }
    let mut found = Vec::new();
    search(&crate::schema(), "", key, &mut found);
    // One of several tables of a name is the same table here: `fault.2`.
    let name = table
        .rsplit_once('.')
        .filter(|(_, last)| last.parse::<u32>().is_ok())
        .map_or(table, |(name, _)| name);
    found.retain(|other| *other != format!("`[{name}]`"));
    // In many it says little.
    (1..=3).contains(&found.len()).then(|| sentence(&found))
}

fn choose(word: &str, valid: &[impl AsRef<str>], lead: &str) -> String {
    let names = || valid.iter().map(AsRef::as_ref);
    if let [only] = valid {
        return format!("it must be `{}`", only.as_ref());
    }
    match nearest(word, names()) {
        Some(near) => format!("did you mean `{near}`? {lead} {}", list(names())),
        None => format!("{lead} {}", list(names())),
    }
}

fn shortened(records: &[String]) -> String {
    const SHOWN: usize = 8;
    let mut text = records.iter().take(SHOWN).cloned().collect::<Vec<_>>().join("; ");
    if records.len() > SHOWN {
        text.push_str(&format!("; and {} more", records.len() - SHOWN));
    }
    text
}

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
