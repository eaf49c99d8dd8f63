//! The JSON Schema and the reader: what the reader accepts the schema accepts, and what the schema can know it refuses.

use crate::common;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use boon::{Compiler, SchemaIndex, Schemas};
use serde_json::{Map, Value, json};
use zipwire_scenarios::{Problem, Source, load, schema, schema_markdown};

struct Validator {
    schemas: Schemas,
    index: SchemaIndex,
}

impl Validator {
    /// Checks the schema itself, too: it must be one.
    fn new() -> Self {
        let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
        let name = "https://zipwire.invalid/scenario.schema.json";
        compiler.add_resource(name, schema()).unwrap();
        let index = compiler.compile(name, &mut schemas).unwrap_or_else(|error| panic!("{error:#}"));
        Self { schemas, index }
    }

    /// The validator's complaint; `None` if the scenario is valid.
    fn refusal(&self, scenario: &Value) -> Option<String> {
        self.schemas.validate(scenario, self.index).err().map(|error| format!("{error:#}"))
    }
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Every shipped scenario, as JSON, with the folder that it lies in.
fn shipped() -> Vec<(PathBuf, Value)> {
    let files = ["", "smoke", "sweeps", "serving"]
        .map(|name| fs::read_dir(folder(name)).unwrap())
        .into_iter()
        .flatten();
    let paths = files.map(|entry| entry.unwrap().path());
    let is_scenario = |path: &PathBuf| {
        path.extension().is_some_and(|extension| extension == "toml") && !path.ends_with("Cargo.toml")
    };
    let json = |path: PathBuf| {
        let value = toml::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        (path, value)
    };
    paths.filter(is_scenario).map(json).collect()
}

/// Names of all keys that a schema has, at any depth.
fn keys(schema: &Value, names: &mut BTreeSet<String>) {
    match schema {
        Value::Object(parts) => {
            for (part, value) in parts {
                if let (true, Some(properties)) = (part == "properties", value.as_object()) {
                    names.extend(properties.keys().cloned());
                }
                keys(value, names);
            }
        }
        Value::Array(parts) => parts.iter().for_each(|part| keys(part, names)),
        _ => {}
    }
}

#[test]
fn the_page_of_keys_has_them_all_and_its_links_hold() {
    let page = schema_markdown();
    let mut names = BTreeSet::new();
    keys(&schema(), &mut names);
    for name in &names {
        assert!(page.contains(&format!("\n| `{name}` | ")), "`{name}` has no row");
    }
    let anchor = |heading: &str| {
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || "-_ ".contains(*c));
        kept.collect::<String>().replace(' ', "-").to_lowercase()
    };
    let headings: Vec<String> =
        page.lines().filter_map(|line| line.strip_prefix("## ")).map(anchor).collect();
    let anchors: BTreeSet<&String> = headings.iter().collect();
    assert_eq!(anchors.len(), headings.len(), "a heading stands twice");
    let links: Vec<&str> = page.split("](#").skip(1).map(|rest| rest.split(')').next().unwrap()).collect();
    for link in &links {
        assert!(anchors.contains(&(*link).to_owned()), "there is no `#{link}`");
    }
    assert!(names.len() > 200 && links.len() > 60, "{} keys, {} links", names.len(), links.len());
}

#[test]
fn the_copy_in_docs_is_up_to_date() {
    let copy = fs::read_to_string(folder("../docs/scenario.schema.json")).unwrap_or_default();
    let generated = format!("{}\n", serde_json::to_string_pretty(&schema()).unwrap());
    assert!(
        copy == generated,
        "docs/scenario.schema.json is not the schema of this version; renew it with\n\
         cargo run -- scenario schema > docs/scenario.schema.json"
    );
}

#[test]
fn every_shipped_scenario_is_valid() {
    let validator = Validator::new();
    let scenarios = shipped();
    assert!(scenarios.len() > 10);
    for (path, scenario) in scenarios {
        assert_eq!(validator.refusal(&scenario), None, "{}", path.display());
    }
}

#[test]
fn wrong_scenarios_are_refused() {
    let validator = Validator::new();
    let valid = || toml::from_str::<Value>(common::VALID).unwrap();
    assert_eq!(validator.refusal(&valid()), None);
    let collective = |rest: &str| {
        let text = format!("{{ kind = \"collective\", collective = \"all-to-all\", {rest} }}");
        toml::from_str::<Value>(&format!("workload = {text}")).unwrap()["workload"].clone()
    };
    let cases: [(&str, Value); 40] = [
        ("/title", json!("unknown key")),
        ("/cluster/nodse", json!(2)),
        ("/cluster/nodes", json!(0)),
        ("/cluster/nodes", json!("2")),
        ("/cluster/gpu_bandwidth", json!(25)),
        ("/cluster/gpu_bandwidth", json!("25")),
        ("/cluster/gpu_bandwidth", json!("25 GBps")),
        ("/cluster/gpu_bandwidth", json!("25 us")),
        ("/cluster/latency_intra", json!("-5 us")),
        ("/cluster", json!({})),
        ("/cluster/preset", json!("h100")),
        ("/cluster/model", json!("beta")),
        ("/cluster/topology", json!("fat-tree")),
        ("/cluster/topology", json!({ "kind": "fat-tree" })),
        ("/cluster/topology", json!({ "kind": "rail", "nodes_per_leaf": 2 })),
        ("/cluster/topology", json!({ "kind": "rail", "oversubscription": 0.5 })),
        ("/cluster/topology", json!({ "kind": "graph" })),
        (
            "/cluster/topology",
            json!({ "kind": "graph", "edges": [{ "from": "gpu 0", "bandwidth": "1 GB/s" }] }),
        ),
        ("/name", json!("a/b")),
        ("/iterations", json!(0)),
        ("/workload/kind", json!("collective")),
        ("/workload", json!({ "kind": "fsdp" })),
        ("/workload", json!("moe")),
        ("/workload/model", json!("gpt-2")),
        ("/workload/routing", json!({ "zipf": 1.2, "layer": 1 })),
        ("/workload/routing", json!({ "zipf": 1.2, "dirichlet": 1.0 })),
        ("/workload/experts", json!({ "placement": "best" })),
        ("/workload/experts", json!({ "replicas": -1 })),
        ("/workload/skew", json!({ "distribution": "normal" })),
        ("/workload/skew", json!({ "distribution": "lognormal" })),
        ("/workload/skew", json!({ "sigma": 1.0 })),
        ("/compute", json!({ "noise": 0.1 })),
        ("/compute", json!({ "expert": "1 ms", "noise": 2 })),
        ("/workload/payload", json!({ "file": "a.safetensors", "dispatch": "a" })),
        ("/workload/payload", json!("white-noise")),
        ("/workload", collective("bytes_per_rank = 1024")),
        ("/workload", collective("bytes_per_rank = \"1 MiB\", matrix = \"m.csv\"")),
        ("/codec/id", json!("zstd")),
        ("/variant/0/protocol", json!("static-frist")),
        ("/variant/0", json!({ "name": "a", "order": "shifted-rounds", "window": 2 })),
    ];
    for (place, value) in cases {
        let mut scenario = valid();
        let (parent, key) = place.rsplit_once('/').unwrap();
        match scenario.pointer_mut(parent).unwrap() {
            Value::Array(items) => items[key.parse::<usize>().unwrap()] = value.clone(),
            table => table[key] = value.clone(),
        }
        assert!(validator.refusal(&scenario).is_some(), "`{place}` may not be {value}");
    }
}

/// Keys that a preset replaces are not needed, nor those that a topology has no use for.
#[test]
fn needed_keys_depend_on_others() {
    let validator = Validator::new();
    let valid = || toml::from_str::<Value>(common::VALID).unwrap();
    for cluster in [
        json!({ "preset": "h100-8x", "nodes": 2 }),
        json!({ "nodes": 2, "gpus_per_node": 2, "topology": "flat", "gpu_bandwidth": "1 GB/s", "latency_intra": "1 us",
            "latency_inter": "1 us" }),
    ] {
        let mut scenario = valid();
        scenario["cluster"] = cluster;
        assert_eq!(validator.refusal(&scenario), None);
    }
    for key in ["name", "cluster", "workload"] {
        let mut scenario = valid();
        scenario.as_object_mut().unwrap().remove(key);
        assert!(validator.refusal(&scenario).is_some(), "`{key}` is needed");
    }
}

/// A scenario with one thing changed at every place: a key less, a key more, another type, a unit less.
fn changed(value: &Value) -> Vec<Value> {
    let wrong =
        [json!(true), json!(-1), json!(0.5), json!("x"), json!([]), json!({}), json!("1 ms"), json!("1 B")];
    let mut all = wrong.to_vec();
    match value {
        Value::Object(table) => {
            all.push(with(table, "surplus", json!(1)));
            for (key, inner) in table {
                let mut less = table.clone();
                less.remove(key);
                all.push(Value::Object(less));
                all.extend(changed(inner).into_iter().map(|inner| with(table, key, inner)));
            }
        }
        Value::Array(items) => {
            // Items are alike: the first stands for all.
            for inner in items.first().map(changed).unwrap_or_default() {
                let mut items = items.clone();
                items[0] = inner;
                all.push(Value::Array(items));
            }
        }
        _ => {}
    }
    all
}

fn with(table: &Map<String, Value>, key: &str, value: Value) -> Value {
    let mut table = table.clone();
    table.insert(key.to_owned(), value);
    Value::Object(table)
}

/// Problems that the schema must see. Others can depend on several tables, on files or on the value of a quantity.
fn is_of_shape(problem: &Problem) -> bool {
    matches!(
        problem,
        Problem::UnknownKey { .. }
            | Problem::MissingKey { .. }
            | Problem::NotOneOf { .. }
            | Problem::WrongType { .. }
            | Problem::UnknownName { .. }
            | Problem::MissingUnit { .. }
            | Problem::UnknownUnit { .. }
            | Problem::NotQuantity { .. }
            | Problem::BadName { .. }
    )
}

/// Every fourth scenario; [`whole`] takes all.
#[test]
fn schema_and_reader_agree_about_every_change_of_a_shipped_scenario() {
    agree_about(&shipped().into_iter().step_by(4).collect::<Vec<_>>());
}

mod whole {
    #[test]
    #[ignore = "half a minute of computing: .ci/run runs it, and the short form is beside it"]
    fn schema_and_reader_agree_about_every_change_of_a_shipped_scenario() {
        super::agree_about(&super::shipped());
    }
}

fn agree_about(scenarios: &[(PathBuf, Value)]) {
    let (one, other) = scenarios.split_at(scenarios.len() / 2);
    let [one, other] = std::thread::scope(|scope| {
        [one, other].map(|half| scope.spawn(|| agree(half))).map(|half| half.join().unwrap())
    });
    let (accepted, refused) = (one.0 + other.0, one.1 + other.1);
    assert!(accepted > 100 && refused > 1000, "{accepted} accepted, {refused} refused");
}

/// How many changes of some scenarios are accepted by both, and how many have a shape that both refuse.
fn agree(scenarios: &[(PathBuf, Value)]) -> (u32, u32) {
    let validator = Validator::new();
    let (mut accepted, mut refused) = (0, 0);
    for (path, scenario) in scenarios {
        for changed in changed(scenario).into_iter().filter(Value::is_object) {
            let text = toml::to_string(&changed).unwrap();
            let source = Source::from_text("changed.toml", text.as_str(), path.parent().unwrap());
            let refusal = validator.refusal(&changed);
            match load(&source, &[], None) {
                Ok(_) => {
                    accepted += 1;
                    assert_eq!(refusal, None, "the reader accepts\n{text}");
                }
                Err(error) if is_of_shape(error.problem()) => {
                    refused += 1;
                    assert!(refusal.is_some(), "the schema accepts\n{}", error.render(false));
                }
                Err(_) => {}
            }
        }
    }
    (accepted, refused)
}
