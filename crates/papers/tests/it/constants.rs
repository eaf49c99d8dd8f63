//! `constants.toml` names every value that a paper's scenario takes, from its own file or from the preset of its cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use toml::{Table, Value};
use zipwire_scenarios::presets;

/// Keys that are no constants: names, kinds, limits, and the variants that are compared.
const SUBJECTS: [&str; 9] = [
    "name",
    "workload.kind",
    "workload.collective",
    "codec.id",
    "cluster.preset",
    "cluster.gpu_memory",
    "workload.model.preset",
    "cluster.topology.kind",
    "variant",
];

/// The collectives that a scenario calls the library for.
fn calls(scenario: &str) -> &'static [&'static str] {
    match scenario {
        "zipccl-all-gather.toml" => &["all-gather"],
        "zipccl-reduce-scatter.toml" => &["reduce-scatter"],
        "zipccl-llama3.toml" | "zipccl-h800-llama3.toml" => &["all-gather", "reduce-scatter"],
        _ => &[],
    }
}

/// Paths of all values in a table.
fn paths(prefix: &str, table: &Table, found: &mut BTreeSet<String>) {
    for (key, value) in table {
        let path = format!("{prefix}{key}");
        match value {
            Value::Table(table) => paths(&format!("{path}."), table, found),
            _ => drop(found.insert(path)),
        }
    }
}

/// All that a scenario takes: its keys, and those of its cluster's preset.
fn taken(name: &str, text: &str) -> BTreeSet<String> {
    let scenario: Table = toml::from_str(text).unwrap();
    let mut found = BTreeSet::new();
    paths("", &scenario, &mut found);
    if let Some(named) = scenario["cluster"].get("preset") {
        let preset = presets().iter().find(|preset| named.as_str() == Some(preset.name)).unwrap();
        paths("cluster.", &toml::from_str(preset.text).unwrap(), &mut found);
    }
    let is_subject = |path: &str| SUBJECTS.contains(&path) || path.starts_with("cluster.codec_speed.");
    let is_called = |path: &str| {
        path.strip_prefix("cluster.library.")
            .is_none_or(|library| calls(name).iter().any(|op| library.starts_with(&format!("{op}."))))
    };
    // Sums alone take `reduce`.
    let is_summed = |path: &str| path != "cluster.reduce" || calls(name).contains(&"reduce-scatter");
    found.retain(|path| !is_subject(path) && is_called(path) && is_summed(path));
    found
}

#[test]
fn every_value_of_a_scenario_is_listed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/paper");
    let constants: BTreeMap<String, Vec<Table>> =
        toml::from_str(&fs::read_to_string(folder.join("constants.toml")).unwrap()).unwrap();
    let mut listed: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for constant in constants.values().flatten() {
        for file in constant["files"].as_array().unwrap() {
            let file = file.as_str().unwrap().to_owned();
            listed.entry(file).or_default().insert(constant["path"].as_str().unwrap().to_owned());
        }
    }
    // The drawn example of Fig. 8 is quoted as a whole.
    let names = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let scenarios = names.filter(|name| name.contains('-') && name != "zipccl-fig8.toml");
    let mut missing = Vec::new();
    for name in scenarios {
        let has = listed.get(&name).cloned().unwrap_or_default();
        let is_listed =
            |path: &str| has.iter().any(|known| path == known || path.starts_with(&format!("{known}.")));
        let text = fs::read_to_string(folder.join(&name)).unwrap();
        missing.extend(
            taken(&name, &text)
                .into_iter()
                .filter(|path| !is_listed(path))
                .map(|path| format!("{name}: {path}")),
        );
    }
    missing.sort();
    assert!(missing.is_empty(), "not in `constants.toml`: {missing:#?}");
}
