//! Hardware from elsewhere: presets that come with zipwire, and files of the user. Both are the keys of `[cluster]` on their
//! own, and the scenario's keys go before theirs.

use std::collections::BTreeMap;
use std::path::Path;

use zipwire_cluster::Topology;

use super::{Cluster, DeclaredSpeed};
use crate::error::Result;
use crate::files::Files;
use crate::language::{AnyKey, Field, Keys, choice, keys, text};
use crate::origin::Source;
use crate::problem::Problem;
use crate::tree::{self, Document, Entry, Node, Table, Value};

/// A hardware file that comes with zipwire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// Name in scenarios.
    pub name: &'static str,
    /// The file: the keys of `[cluster]`, with the source of each constant.
    pub text: &'static str,
}

impl Preset {
    /// First line of the comment that opens the file.
    pub fn description(&self) -> Option<String> {
        Source::from_text(self.name, self.text, "").description()
    }

    /// The cluster that a scenario gets which names the preset and nothing else.
    ///
    /// # Errors
    /// None for the presets that come with zipwire.
    pub fn topology(&self) -> Result<Topology> {
        Ok(self.cluster()?.topology)
    }

    /// How fast its GPUs code, by the id of the codec.
    ///
    /// # Errors
    /// None for the presets that come with zipwire.
    pub fn codec_speeds(&self) -> Result<BTreeMap<&'static str, DeclaredSpeed>> {
        Ok(self.cluster()?.codec_speeds)
    }

    fn cluster(&self) -> Result<Cluster> {
        let document = Document::file(self.path(), self.text.to_owned());
        let tree = tree::parse(&document)?;
        super::read(&Field::at("cluster", &tree), &Files::new(Path::new("")))
    }

    /// How errors call the file.
    fn path(&self) -> String {
        format!("clusters/{}.toml", self.name)
    }
}

macro_rules! presets {
    ($($name:literal),+ $(,)?) => {
        [$(Preset { name: $name, text: include_str!(concat!("../../clusters/", $name, ".toml")) }),+]
    };
}

/// All presets, oldest hardware first.
const PRESETS: [Preset; 7] =
    presets!["a6000-8x8", "a100-8x", "h800-2x8", "h100-8x", "h200-8x", "b200-8x", "gb200-nvl72"];

/// The hardware that `[cluster] preset` knows.
pub fn presets() -> &'static [Preset] {
    &PRESETS
}

keys! { pub(super) static KEYS =
    preset: Preset = choice("preset", &PRESETS, |preset| preset.name), "hardware that comes with zipwire, for the keys that are left out here and in `file`";
    file: String = text(), "a hardware file with the keys that are left out, relative to the scenario; it may name a `preset`, too";
}

/// Reads a hardware file on its own, as scenarios would that name it and nothing else of the cluster.
///
/// # Errors
/// The first thing that is wrong, with the place in the file.
pub fn check_hardware(file: &Source) -> Result<()> {
    let tree = tree::parse(&Document::file(file.name.clone(), file.text.clone()))?;
    super::read(&Field::at("cluster", &tree), &Files::new(Path::new(""))).map(|_| ())
}

/// The table with what its file says where the table itself says nothing, and its preset where neither does, without `preset` and `file`;
/// and the preset. `keys` are those of hardware.
pub(super) fn merge(field: &Field<'_>, keys: Keys<'_>, files: &Files) -> Result<(Node, Option<Preset>)> {
    let own = field.table(&[KEYS.all, keys].concat())?;
    let mut preset = own.get(KEYS.preset)?;
    let mut merged = field.node().clone();
    if let Value::Table(table) = &mut merged.value {
        table.entries.retain(|entry| KEYS.all.iter().all(|key| key.name() != entry.key));
    }
    if let Some(file) = own.field(KEYS.file) {
        let name = file.string()?;
        let unreadable = |source| file.error(Problem::Unreadable { path: files.path(name), source });
        let mut hardware = tree::parse(&files.text(name).map_err(unreadable)?)?;
        let may_have = [&[KEYS.preset as &dyn AnyKey], keys].concat();
        let named = Field::at(&field.path, &hardware).table(&may_have)?.get(KEYS.preset)?;
        preset = preset.or(named);
        if let Value::Table(table) = &mut hardware.value {
            table.entries.retain(|entry| entry.key != KEYS.preset.name);
        }
        fill(&mut merged, hardware);
    }
    if let Some(preset) = preset {
        let hardware = tree::parse(&Document::file(preset.path(), preset.text.to_owned()))?;
        Field::at(&field.path, &hardware).table(keys)?;
        fill(&mut merged, hardware);
    }
    Ok((merged, preset))
}

/// Adds what hardware has and the table lacks.
fn fill(merged: &mut Node, hardware: Node) {
    if let (Value::Table(own), Value::Table(hardware)) = (&mut merged.value, hardware.value) {
        let whole = hardware.get("gpus_per_node").and_then(integer);
        let left_out = hardware.entries.into_iter().filter(|entry| own.get(&entry.key).is_none());
        let mut left_out: Vec<_> = left_out.collect();
        scale_nics(own, &mut left_out, whole);
        own.entries.extend(left_out);
    }
}

/// Where only some GPUs of each node take part, only their NICs do: as many as NICs there are for them in whole nodes, rounded up.
fn scale_nics(own: &Table, left_out: &mut [Entry], whole: Option<i128>) {
    let nics = left_out.iter_mut().find(|entry| entry.key == "nics_per_node");
    if let (Some(nics), Some(part), Some(whole)) = (nics, own.get("gpus_per_node").and_then(integer), whole)
        && let Value::Integer(count) = nics.node.value
        && (1..whole).contains(&part)
        && count > 0
    {
        nics.node.value = Value::Integer((count.saturating_mul(part) + whole - 1) / whole);
    }
}

fn integer(entry: &Entry) -> Option<i128> {
    match entry.node.value {
        Value::Integer(value) => Some(value),
        _ => None,
    }
}
