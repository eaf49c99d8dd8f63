//! `store` from the command line: checkpoints come back byte for byte, interrupted or not, and mistakes change nothing.

use crate::common::process;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use process::{fails, names, output, succeeds, text, text_of, zipwire};
use serde_json::Value;
use tempfile::TempDir;

/// A tensor of a training run and what it is a step later.
const STEPS: [&str; 2] = ["train_late_weights.bf16", "train_late_weights_next.bf16"];

#[track_caller]
fn json(args: &[&str]) -> Value {
    serde_json::from_slice(&succeeds(&[args, &["--json"]].concat()).stdout).unwrap()
}

/// A folder as a training run leaves it.
fn checkpoint(folder: &Path, step: usize) -> PathBuf {
    let path = folder.join(format!("run-{step}"));
    fs::create_dir_all(path.join("tokenizer")).unwrap();
    let sample = format!("traces/samples/{}.safetensors", STEPS[step % 2]);
    fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join(sample), path.join("model.safetensors")).unwrap();
    fs::write(path.join("trainer_state.json"), format!("{{\"step\": {step}}}")).unwrap();
    fs::write(path.join("tokenizer/vocab"), [0, 255, 7]).unwrap();
    path
}

#[track_caller]
fn same(a: &Path, b: &Path) {
    assert_eq!(names(a), names(b));
    for name in names(a) {
        let (a, b) = (a.join(&name), b.join(&name));
        if a.is_dir() {
            same(&a, &b);
        } else {
            assert!(fs::read(a).unwrap() == fs::read(b).unwrap(), "{name}");
        }
    }
}

#[test]
fn checkpoints_come_back_as_they_were() {
    let folder = TempDir::new().unwrap();
    let store = folder.path().join("store");
    let s = text(&store);
    succeeds(&["store", "init", s]);
    let runs = [0, 1, 2].map(|step| checkpoint(folder.path(), step));
    let first = json(&["store", "add", s, text(&runs[0]), "--id", "step-0", "--verify"]);
    assert_eq!((&first["parent"], &first["chain"]), (&Value::Null, &Value::from(1)));
    let second = json(&["store", "add", s, text(&runs[1]), "--id", "step-1", "--codec", "tiered"]);
    assert_eq!((&second["parent"], &second["chain"]), (&Value::from("step-0"), &Value::from(2)));
    assert!(second["size_pct"].as_f64().unwrap() < 25.0, "{second}");
    // The weights of the first one again: only what names them is new.
    let third = json(&["store", "add", s, text(&runs[2]), "--id", "step-2", "--parent", "step-1"]);
    assert!(third["size_pct"].as_f64().unwrap() < 2.0, "{third}");
    assert_eq!(third["parts"]["delta"], 0);

    let list = json(&["store", "list", s]);
    let rows = list["checkpoints"].as_array().unwrap();
    let ids: Vec<&str> = rows.iter().map(|row| row["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["step-0", "step-1", "step-2"]);
    let stats = json(&["store", "stats", s]);
    let sum: u64 = rows.iter().map(|row| row["bytes_stored"].as_u64().unwrap()).sum();
    assert_eq!(stats["bytes_stored"], sum);
    assert!(text_of(&succeeds(&["store", "list", s]).stdout).contains("step-1"));
    assert!(text_of(&succeeds(&["store", "stats", s]).stdout).contains("longest chain"));

    for (step, run) in runs.iter().enumerate() {
        let out = folder.path().join(format!("out-{step}"));
        succeeds(&["store", "restore", s, &format!("step-{step}"), "-o", text(&out)]);
        same(run, &out);
    }
    let out = folder.path().join("out-0");
    fails(2, &["store", "restore", s, "step-1", "-o", text(&out)], &["is there already", "--force"]);
    succeeds(&["store", "restore", s, "step-1", "-o", text(&out), "--force"]);
    same(&runs[1], &out);

    let pruned = json(&["store", "prune", s, "--keep", "1"]);
    assert_eq!(pruned["removed"], serde_json::json!(["step-0", "step-1"]));
    assert_eq!(json(&["store", "stats", s])["bytes_unneeded"], 0);
    succeeds(&["store", "verify", s, "--deep"]);
    let out = folder.path().join("last");
    succeeds(&["store", "restore", s, "step-2", "-o", text(&out)]);
    same(&runs[2], &out);
    assert!(names(&store.join("staged")).is_empty());
}

#[test]
fn damage_is_named_with_what_it_hits() {
    let folder = TempDir::new().unwrap();
    let store = folder.path().join("store");
    let s = text(&store);
    succeeds(&["store", "init", s]);
    for step in 0..2 {
        let run = checkpoint(folder.path(), step);
        succeeds(&["store", "add", s, text(&run), "--id", &format!("step-{step}")]);
    }
    assert_eq!(json(&["store", "verify", s])["damaged"], serde_json::json!([]));
    // An object of the second checkpoint only: one that is differences.
    let objects = zipwire::models::file::files_below(&store.join("objects")).unwrap();
    let delta = objects.iter().find(|path| fs::read(path).unwrap()[6] == 1).unwrap();
    let mut bytes = fs::read(delta).unwrap();
    let last = bytes.len() - 40;
    bytes[last] ^= 1;
    fs::write(delta, bytes).unwrap();
    let verified = output(&["store", "verify", s, "--json"]);
    assert_eq!(verified.status.code(), Some(1));
    let verified: Value = serde_json::from_slice(&verified.stdout).unwrap();
    let restores = |at: usize| &verified["checkpoints"][at]["restores"];
    assert_eq!((restores(0), restores(1)), (&Value::Bool(true), &Value::Bool(false)));
    assert_eq!(verified["checkpoints"][1]["lost"][0]["file"], "model.safetensors");
    let table = text_of(&output(&["store", "verify", s]).stdout);
    assert!(table.contains("step-1") && table.contains("what is wrong"), "{table}");
    let out = folder.path().join("out");
    fails(
        1,
        &["store", "restore", s, "step-1", "-o", text(&out)],
        &["step-1", "model.safetensors", "store verify"],
    );
    assert!(!out.exists());
    succeeds(&["store", "restore", s, "step-0", "-o", text(&out)]);
}

#[test]
fn mistakes_are_named_with_a_remedy() {
    let folder = TempDir::new().unwrap();
    let store = folder.path().join("store");
    let (s, run) = (text(&store), checkpoint(folder.path(), 0));
    let r = text(&run);
    fails(2, &["store", "list", s], &["is not a store", "store init"]);
    succeeds(&["store", "init", s]);
    fails(2, &["store", "init", s], &["is a store already"]);
    fails(2, &["store", "init", r], &["a folder of its own"]);
    succeeds(&["store", "add", s, r, "--id", "step-100"]);
    let objects = zipwire::models::file::files_below(&store).unwrap();
    fails(2, &["store", "add", s, r, "--id", "step-100"], &["step-100", "--id"]);
    fails(2, &["store", "add", s, r, "--id", "a/b"], &["no name of a checkpoint"]);
    fails(2, &["store", "add", s, r, "--id", "x", "--parent", "step-10"], &["it has `step-100`"]);
    fails(2, &["store", "add", s, r, r, "--id", "x"], &["two of the files"]);
    fails(2, &["store", "add", s, r, "--id", "x", "--codec", "rnas"], &["rnas", "rans"]);
    fails(2, &["store", "add", s, r, "--id", "x", "--chain", "99"], &["99"]);
    fails(1, &["store", "add", s, "no-such-file", "--id", "x"], &["cannot read `no-such-file`"]);
    let out = folder.path().join("out");
    fails(2, &["store", "restore", s, "step-1oo", "-o", text(&out)], &["it has `step-100`"]);
    fails(2, &["store", "prune", s], &["--keep"]);
    let cut = folder.path().join("cut.safetensors");
    let whole = fs::read(run.join("model.safetensors")).unwrap();
    fs::write(&cut, &whole[..whole.len() - 9]).unwrap();
    fails(2, &["store", "add", s, text(&cut), "--id", "x"], &["it was cut"]);
    assert_eq!(zipwire::models::file::files_below(&store).unwrap(), objects);
    let newer = r#"{"format":"zipwire-store","version":8}"#;
    fs::write(store.join("zipwire-store.json"), newer).unwrap();
    fails(2, &["store", "list", s], &["version 8", "a later zipwire wrote it"]);
}

#[test]
fn what_goes_is_said_before_and_pins_keep_it() {
    let folder = TempDir::new().unwrap();
    let store = folder.path().join("store");
    let s = text(&store);
    succeeds(&["store", "init", s]);
    for step in 0..4 {
        let run = checkpoint(folder.path(), step);
        succeeds(&["store", "add", s, text(&run), "--id", &format!("step-{step}")]);
    }
    succeeds(&["store", "pin", s, "step-1"]);
    let pinned = |at: usize| json(&["store", "list", s])["checkpoints"][at]["pinned"].clone();
    assert_eq!((pinned(0), pinned(1)), (Value::Bool(false), Value::Bool(true)));
    let files = zipwire::models::file::files_below(&store).unwrap();
    let planned = json(&["store", "prune", s, "--keep", "1", "--dry-run"]);
    assert_eq!(planned["removed"], serde_json::json!(["step-0", "step-2"]));
    let said = text_of(&succeeds(&["store", "prune", s, "--keep", "1", "--dry-run"]).stdout);
    assert!(said.starts_with("step-0\nstep-2\nwould remove 2 of 4 checkpoints"), "{said}");
    assert_eq!(zipwire::models::file::files_below(&store).unwrap(), files);
    let pruned = json(&["store", "prune", s, "--keep", "1"]);
    assert_eq!((&pruned["removed"], &pruned["bytes"]), (&planned["removed"], &planned["bytes"]));
    assert_eq!(pruned["pinned"], serde_json::json!(["step-1"]));

    fails(2, &["store", "rm", s, "step-3", "step-1"], &["`step-1` is pinned", "store unpin"]);
    fails(2, &["store", "rm", s, "step-9"], &["it has `step-1`, `step-3`"]);
    succeeds(&["store", "unpin", s, "step-1"]);
    let said = text_of(&succeeds(&["store", "rm", s, "step-1"]).stdout);
    assert!(said.starts_with("removed 1 of 2 checkpoints"), "{said}");
    assert_eq!(json(&["store", "list", s])["checkpoints"].as_array().unwrap().len(), 1);
    succeeds(&["store", "verify", s, "--deep"]);
}

#[test]
fn damage_hides_nothing_that_is_sound() {
    let folder = TempDir::new().unwrap();
    let store = folder.path().join("store");
    let s = text(&store);
    succeeds(&["store", "init", s]);
    let runs = [0, 1].map(|step| checkpoint(folder.path(), step));
    for (step, run) in runs.iter().enumerate() {
        succeeds(&["store", "add", s, text(run), "--id", &format!("step-{step}")]);
    }
    // The first object of the second checkpoint that is differences.
    let objects = zipwire::models::file::files_below(&store.join("objects")).unwrap();
    let delta = objects.iter().find(|path| fs::read(path).unwrap()[6] == 1).unwrap();
    let whole = fs::read(delta).unwrap();
    fs::write(delta, &whole[..whole.len() - 1]).unwrap();
    let out = folder.path().join("out");
    let restore = ["store", "restore", s, "step-1", "-o", text(&out), "--keep-going", "--json"];
    let restored = output(&restore);
    assert_eq!(restored.status.code(), Some(1));
    assert!(text_of(&restored.stderr).contains("of `model.safetensors` is damaged"), "{restored:?}");
    let restored: Value = serde_json::from_slice(&restored.stdout).unwrap();
    assert_eq!(restored["zeros"].as_array().unwrap().len(), 1);
    let zeros = &restored["zeros"][0];
    let (at, len) = (zeros["at"].as_u64().unwrap() as usize, zeros["bytes"].as_u64().unwrap() as usize);
    let model = fs::read(runs[1].join("model.safetensors")).unwrap();
    let wanted = [&model[..at], &vec![0; len], &model[at + len..]].concat();
    assert!(fs::read(out.join("model.safetensors")).unwrap() == wanted);
    fs::remove_file(out.join("model.safetensors")).unwrap();
    fs::remove_file(runs[1].join("model.safetensors")).unwrap();
    same(&runs[1], &out);

    fs::write(store.join("checkpoints/step-1.json"), "{}").unwrap();
    for command in ["list", "stats"] {
        let found = output(&["store", command, s, "--json"]);
        assert_eq!(found.status.code(), Some(1), "{command}");
        assert!(text_of(&found.stderr).contains("checkpoint `step-1`"), "{command}");
        let found: Value = serde_json::from_slice(&found.stdout).unwrap();
        assert_eq!(found["unread"][0]["id"], "step-1", "{command}");
        assert!(text_of(&output(&["store", command, s]).stdout).contains("1"), "{command}");
    }
    let listed = output(&["store", "list", s]);
    assert!(text_of(&listed.stdout).contains("step-0"), "{listed:?}");
    fails(1, &["store", "prune", s, "--keep", "1"], &["step-1.json", "store rm"]);
    succeeds(&["store", "rm", s, "step-1"]);
    succeeds(&["store", "list", s]);
}

#[test]
fn a_missing_shard_is_a_mistake() {
    let folder = TempDir::new().unwrap();
    let store = folder.path().join("store");
    let s = text(&store);
    succeeds(&["store", "init", s]);
    let run = checkpoint(folder.path(), 0);
    let index = r#"{"weight_map":{"a":"model.safetensors","b":"model-2.safetensors"}}"#;
    fs::write(run.join("model.safetensors.index.json"), index).unwrap();
    let add = ["store", "add", s, text(&run), "--id", "a"];
    fails(2, &add, &["model.safetensors.index.json", "`model-2.safetensors`", "--allow-missing"]);
    succeeds(&[&add[..], &["--allow-missing"]].concat());
}

/// The short form of `tools/interrupt`.
#[test]
fn killed_at_any_time_nothing_half_is_there() {
    let folder = TempDir::new().unwrap();
    let store = folder.path().join("store");
    let s = text(&store);
    succeeds(&["store", "init", s]);
    let runs = [0, 1].map(|step| checkpoint(folder.path(), step));
    succeeds(&["store", "add", s, text(&runs[0]), "--id", "step-0"]);
    let mut killed = 0;
    for turn in 0..24 {
        let mut child = zipwire(&["store", "add", s, text(&runs[1]), "--id", "step-1"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_micros(700 * turn));
        child.kill().unwrap();
        killed += usize::from(!child.wait().unwrap().success());
        let list = json(&["store", "list", s]);
        let count = list["checkpoints"].as_array().unwrap().len();
        for (step, run) in runs.iter().enumerate().take(count) {
            let out = folder.path().join("out");
            succeeds(&["store", "restore", s, &format!("step-{step}"), "-o", text(&out)]);
            same(run, &out);
            fs::remove_dir_all(&out).unwrap();
        }
        // The next writer removes what is left over, and the checkpoint as well.
        if count == 2 {
            let other = format!("again-{turn}");
            fs::remove_file(store.join("checkpoints/step-1.json")).unwrap();
            fs::write(store.join("unswept"), "").unwrap();
            succeeds(&["store", "add", s, text(&runs[0]), "--id", &other]);
            fs::remove_file(store.join(format!("checkpoints/{other}.json"))).unwrap();
        }
    }
    assert!(killed > 0, "some are killed before they end");
    succeeds(&["store", "prune", s, "--keep", "9"]);
    assert_eq!(json(&["store", "stats", s])["bytes_unneeded"], 0);
    succeeds(&["store", "verify", s, "--deep"]);
}
