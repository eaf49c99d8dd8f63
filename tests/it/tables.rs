//! Tables that frames share, from the command line to the bytes: trained, kept in files, measured, taken by scenarios, and replaced where they are stale.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

const ACTIVATIONS: &str = "traces/samples/train_late_a2a_forward.bf16.safetensors";

fn zipwire(args: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    Command::new(env!("CARGO_BIN_EXE_zipwire")).args(args).current_dir(root).output().unwrap()
}

fn json(args: &[&str]) -> Value {
    let output = zipwire(args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn refused(args: &[&str]) -> String {
    let output = zipwire(args);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(output.stdout.is_empty());
    text
}

/// A folder that is gone in the end.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn name(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }
}

#[test]
fn a_table_is_trained_kept_and_measured() {
    let folder = Folder::new();
    let (rans, book) = (folder.name("rans.json"), folder.name("book.json"));
    let mut names = vec!["rans".to_owned()];
    for (codec, out) in [("rans", &rans), ("codebook16", &book)] {
        let trained = json(&["calibrate", "table", ACTIVATIONS, "--codec", codec, "-o", out, "--json"]);
        let file: Value = serde_json::from_slice(&fs::read(out).unwrap()).unwrap();
        let spec = format!("{codec}:table={}", file["id"].as_str().unwrap());
        assert_eq!((trained["codec"].as_str(), file["codec"].as_str()), (Some(spec.as_str()), Some(codec)));
        assert!(trained["missed_pct"].as_f64().unwrap() < 0.1, "{trained}");
        assert_eq!(file["values"], 131_072);
        names.push(spec);
    }
    // The same samples give the same file, over the old one; another file is left alone.
    let first = fs::read(&rans).unwrap();
    zipwire(&["calibrate", "table", ACTIVATIONS, "--codec", "rans", "-o", &rans]);
    assert_eq!(fs::read(&rans).unwrap(), first);
    fs::write(folder.path("notes.json"), "{}").unwrap();
    let text =
        refused(&["calibrate", "table", ACTIVATIONS, "--codec", "rans", "-o", &folder.name("notes.json")]);
    assert!(text.contains("it exists, and no calibration wrote it"), "{text}");
    assert_eq!(fs::read(folder.path("notes.json")).unwrap(), b"{}");

    let report = json(&[
        "bench",
        "codec",
        ACTIVATIONS,
        "--codec",
        "rans",
        "--table",
        &rans,
        "--table",
        &book,
        "--json",
    ]);
    let rows = report["rows"].as_array().unwrap();
    let found: Vec<&str> = rows.iter().map(|row| row["codec"].as_str().unwrap()).collect();
    assert_eq!(found, names);
    let sizes: Vec<f64> = rows.iter().map(|row| row["size_pct"].as_f64().unwrap()).collect();
    assert!((sizes[0] - sizes[1]).abs() < 0.3 && (sizes[2] - 75.1).abs() < 0.2, "{sizes:?}");
}

#[test]
fn samples_of_other_types_and_damaged_files_are_named() {
    let folder = Folder::new();
    let train = |args: &[&str]| refused(&[&["calibrate", "table"], args].concat());
    assert!(train(&[ACTIVATIONS, "--codec", "tiered"]).contains("codec `tiered` takes no table"));
    assert!(train(&[ACTIVATIONS, "--codec", "rans:table=0a1b2c3d"]).contains("names a table already"));
    let text = train(&[ACTIVATIONS, "--codec", "rans", "--dtype", "F32"]);
    assert!(text.contains("has no tensor of type F32: it has BF16, I32\nhelp: choose the type"), "{text}");
    fs::write(folder.path("x.f32"), [0; 8]).unwrap();
    assert!(
        train(&[&folder.name("x.f32"), "--codec", "rans"]).contains("has values of type F32 by its name")
    );
    fs::write(folder.path("x.bf16"), [0; 3]).unwrap();
    assert!(train(&[&folder.name("x.bf16"), "--codec", "rans"]).contains("no whole number of BF16 values"));
    fs::write(folder.path("x.bf16"), [0; 64]).unwrap();
    assert!(train(&[&folder.name("x.bf16"), "--codec", "rans"]).contains("there are no values to train"));
    fs::write(folder.path("x.bf16"), [0x12; 64]).unwrap();
    let table = folder.name("t.json");
    assert!(
        zipwire(&["calibrate", "table", &folder.name("x.bf16"), "--codec", "rans", "-o", &table])
            .status
            .success()
    );

    let whole = fs::read_to_string(&table).unwrap();
    let damaged = whole.replacen("\"bytes\": \"0500", "\"bytes\": \"0501", 1);
    assert_ne!(damaged, whole);
    fs::write(&table, damaged).unwrap();
    let text = refused(&["bench", "codec", ACTIVATIONS, "--table", &table]);
    assert!(text.contains("is damaged: it says that its id is `"), "{text}");
    let text = refused(&["bench", "codec", ACTIVATIONS, "--table", "none.json"]);
    assert!(text.contains("cannot read table `none.json`"), "{text}");
    let text = refused(&["bench", "codec", ACTIVATIONS, "--codec", "rans:table=0a1b2c3d"]);
    assert!(text.contains("names a table and does not say what is in it"), "{text}");
    let text = refused(&["inspect", ACTIVATIONS, "--codec", "rans:table=0a1b2c3d"]);
    assert!(text.contains("names a table, and no file gives one here"), "{text}");
}

#[test]
fn ranks_share_the_table_of_a_scenario() {
    let folder = Folder::new();
    let scenario = "scenarios/smoke/shared-tables-2x3.toml";
    let out = folder.name("out");
    let summary = json(&["run", scenario, "--on", "sim,threads", "--out", &out, "--json"]);
    let variants = summary["executors"]["threads"].as_object().unwrap();
    for (name, variant) in variants {
        assert_eq!(variant["verified"], true, "{name}");
        let simulated = &summary["executors"]["sim"][name];
        assert_eq!(variant["bytes_wire"], simulated["bytes_wire"], "{name}");
    }
    let plan = String::from_utf8(zipwire(&["plan", scenario, "--variant", "size-first"]).stdout).unwrap();
    assert!(plan.contains("rans:table=3cd9c9f3"), "{}", &plan[..plan.len().min(500)]);
}

#[test]
fn a_stale_table_is_replaced_on_the_way() {
    let scenario = "scenarios/switcher/stale-table-2x2.toml";
    let folder = Folder::new();
    let out = folder.name("out");
    let summary = json(&["run", scenario, "--on", "sim,threads", "--out", &out, "--json"]);
    let of = |executor: &str, variant: &str| summary["executors"][executor][variant].clone();
    for executor in ["sim", "threads"] {
        // The scenario's book stores everything; the other one has codes for all.
        assert!(of(executor, "fixed")["ratio"].as_f64().unwrap() < 1.0);
        let tables = of(executor, "adaptive")["switcher"]["tables"].as_array().unwrap().clone();
        assert_eq!(tables.len(), 1, "{tables:?}");
        assert_eq!((&tables[0]["rank"], tables[0]["id"] == "65dfce8f"), (&Value::from(0), false));
        assert!(tables[0]["missed"].as_f64().unwrap() > 0.9, "{tables:?}");
        assert_eq!(
            of(executor, "adaptive")["verified"],
            if executor == "sim" { Value::Null } else { Value::from(true) }
        );
    }
    // Ranks say the same, whatever carries the run out.
    let tables = |executor: &str| of(executor, "adaptive")["switcher"]["tables"].clone();
    assert_eq!(tables("sim"), tables("threads"));
    // Where coding pays with a book that fits, the switcher comes to that.
    let time = |variant: &str| of("sim", variant)["iteration_s"]["mean"].as_f64().unwrap();
    assert!(time("adaptive") < 0.95 * time("native"), "{} {}", time("adaptive"), time("native"));
    // A table that fits stays.
    let book = folder.name("book.json");
    assert!(
        zipwire(&["calibrate", "table", ACTIVATIONS, "--codec", "codebook16", "-o", &book]).status.success()
    );
    let set = format!("codec.table=\"{book}\"");
    let summary = json(&["run", scenario, "--set", &set, "--out", &folder.name("other"), "--json"]);
    assert_eq!(summary["executors"]["sim"]["adaptive"]["switcher"].get("tables"), None);
}
