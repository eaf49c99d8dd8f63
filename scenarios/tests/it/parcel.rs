//! An experiment that goes to another host in a parcel is the same there, or the host says what it lacks.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{Folder, VALID, flat, routing_record, safetensors, valid_with};
use insta::assert_snapshot;
use zipwire_scenarios::{
    Experiment, Parcel, ParcelProblem, Problem, ScenarioError, Source, is_scenario_file, load, load_real,
    open,
};

/// Folders whose scenarios have 64 ranks: each takes seconds to resolve twice without optimisation, and there is nothing new in them.
const LONG: [&str; 2] = ["protocols", "training"];

/// Packs, as the sender does, and takes the bytes to what the receiver reads.
fn sent(experiment: &Experiment) -> Parcel {
    let parcel = experiment.parcel().unwrap_or_else(|error| panic!("{}", error.render(false)));
    let bytes = postcard::to_allocvec(&parcel).unwrap();
    postcard::from_bytes(&bytes).unwrap()
}

fn unpacked(parcel: &Parcel) -> Experiment {
    parcel.unpack().unwrap_or_else(|error| panic!("{}", error.render(false)))
}

/// Every field but the origin; a new one does not compile until it is compared.
#[track_caller]
fn assert_same(received: &Experiment, own: &Experiment) {
    let Experiment {
        name,
        description,
        seed,
        iterations,
        preset,
        topology,
        model,
        start,
        host,
        fitted_domains,
        codec,
        work,
        payload,
        sums,
        variants,
        points_left_out,
        origin: _,
    } = received;
    assert_eq!((name, description, seed), (&own.name, &own.description, &own.seed));
    assert_eq!((iterations, points_left_out), (&own.iterations, &own.points_left_out), "{name}");
    assert_eq!((preset, topology), (&own.preset, &own.topology), "{name}");
    assert_eq!((model, start, host), (&own.model, &own.start, &own.host), "{name}");
    assert_eq!(fitted_domains, &own.fitted_domains, "{name}");
    assert_eq!((codec, sums, variants), (&own.codec, &own.sums, &own.variants), "{name}");
    // Too long for a message.
    assert!(*work == own.work, "{name}: other work");
    assert!(*payload == own.payload, "{name}: another payload");
}

#[track_caller]
fn rejected(parcel: &Parcel, folder: &Folder) -> String {
    folder.clean(&parcel.unpack().expect_err("the parcel should be refused").render(false))
}

fn problem(error: &ScenarioError) -> &ParcelProblem {
    match error.problem() {
        Problem::Parcel(problem) => problem,
        other => panic!("{other:?}"),
    }
}

/// All scenario files in a folder and those below it.
fn scenarios(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut found = Vec::new();
    for path in entries.filter(|path| !LONG.iter().any(|long| path.ends_with(long))) {
        if path.is_dir() {
            found.extend(scenarios(&path));
        } else if path.extension().is_some_and(|extension| extension == "toml")
            && !path.ends_with("Cargo.toml")
            && is_scenario_file(&fs::read_to_string(&path).unwrap())
        {
            found.push(path);
        }
    }
    found.sort();
    found
}

#[test]
fn every_scenario_arrives_as_it_was() {
    let files = scenarios(Path::new(env!("CARGO_MANIFEST_DIR")));
    assert!(files.iter().filter(|path| path.parent().unwrap().ends_with("smoke")).count() > 40, "{files:?}");
    for path in files {
        let own = load(&Source::read(&path).unwrap(), &[], None).unwrap();
        let parcel = sent(&own);
        let received = unpacked(&parcel);
        assert_same(&received, &own);
        assert_eq!(received.parcel().unwrap(), parcel, "{}: it can be sent on", path.display());
    }
}

#[test]
fn arguments_and_the_selection_go_along() {
    let sets = ["iterations=3".to_owned()];
    let real_sets = ["cluster.nic_bandwidth=10 GB/s".to_owned()];
    let source = Source::from_text("test.toml", VALID, ".");
    let mut own = load_real(&source, &sets, &real_sets, Some(9)).unwrap();
    assert_eq!((own.iterations, own.seed), (3, 9));
    own.select(&["static-first".to_owned()]).unwrap();
    let received = unpacked(&sent(&own));
    assert_same(&received, &own);
    assert_eq!(received.variants.len(), 1);
}

const HARDWARE: &str = r#"
nodes = 2
gpus_per_node = 2
gpu_bandwidth = "25 GB/s"
nic_bandwidth = "25 GB/s"
latency_intra = "5 us"
latency_inter = "10 us"
"#;

/// Loads what names files beside and above its folder, and receives it where these files are not.
#[track_caller]
fn without_the_folder(text: &str, files: &[(&str, &str)]) {
    let folder = Folder::new();
    let base = folder.path().join("cases");
    fs::create_dir(&base).unwrap();
    for (name, content) in files {
        fs::write(base.join(name), content).unwrap();
    }
    let source = Source::from_text("test.toml", text, &base);
    let own = load(&source, &[], None).unwrap_or_else(|error| panic!("{}", error.render(false)));
    let parcel = sent(&own);
    drop(folder);
    assert!(!base.exists() && load(&source, &[], None).is_err());
    assert_same(&unpacked(&parcel), &own);
}

#[test]
fn files_that_the_scenario_names_go_along() {
    let trace = "step,layer,e0,e1,e2,e3,e4,e5,e6,e7\n0,0,1,2,3,4,5,6,7,8\n";
    without_the_folder(&valid_with("\"uniform\"", "{ trace = \"../a.csv\" }"), &[("../a.csv", trace)]);
    let matrix = routing_record(10, 2, 4, "domain", &[5, 1, 1, 1, 2, 2, 2, 2]);
    let text = valid_with("\"uniform\"", "{ matrix = \"./../r.jsonl\", layer = 2 }");
    without_the_folder(&text, &[("../r.jsonl", matrix.as_str())]);
    let flows = "\u{feff}src,dst,bytes,start_us\n0,1,5,0\n2,3,7,1\n";
    let text = flat("kind = \"transfers\"\nfile = \"f.csv\"\nstart = \"rank-ready\"");
    without_the_folder(&text, &[("f.csv", flows)]);
    let bytes = "0,2,4,6\n2,0,2,2\n2,2,0,2\n2,2,2,0\n";
    let text = flat("kind = \"collective\"\ncollective = \"all-to-all\"\nmatrix = \"m.csv\"");
    without_the_folder(&text, &[("m.csv", bytes)]);
    let (cluster, workload) = (VALID.find("[cluster]").unwrap(), VALID.find("[workload]").unwrap());
    let text = VALID.replace(&VALID[cluster..workload], "[cluster]\nfile = \"../mine.toml\"\n\n");
    let text = text.replace("\"uniform\"", "{ trace = \"a.csv\" }");
    without_the_folder(&text, &[("../mine.toml", HARDWARE), ("a.csv", trace)]);
}

#[test]
fn files_that_have_changed_are_not_sent() {
    let text = flat("kind = \"transfers\"\nfile = \"f.csv\"\nstart = \"rank-ready\"");
    let folder = Folder::new().with("f.csv", "src,dst,bytes,start_us\n0,1,5,0\n");
    let own = folder.load(&text);
    let folder = folder.with("f.csv", "src,dst,bytes,start_us\n0,1,6,0\n");
    let error = own.parcel().unwrap_err();
    assert!(
        matches!(problem(&error), ParcelProblem::Changed { path } if path.ends_with("f.csv")),
        "{error:?}"
    );
    assert_snapshot!(folder.clean(&error.render(false)), @r#"
    error: `f.csv` has changed since the scenario was loaded
     |
     = help: start again, and leave it as it is until all hosts have begun
    "#);
    fs::remove_file(folder.path().join("f.csv")).unwrap();
    assert_snapshot!(folder.clean(&own.parcel().unwrap_err().render(false)), @"error: cannot read `f.csv`: No such file or directory (os error 2)");
}

fn recorded() -> String {
    valid_with("{ gaussian = 0.02 }", "{ file = \"../a.safetensors\", dispatch = \"x\", combine = \"x\" }")
}

#[test]
fn tensors_are_read_where_they_lie() {
    let folder = Folder::new().with("a.safetensors", safetensors("x", "BF16", 2));
    let base = folder.path().join("cases");
    fs::create_dir(&base).unwrap();
    let own = load(&Source::from_text("test.toml", recorded(), &base), &[], None).unwrap();
    let parcel = sent(&own);
    assert_same(&unpacked(&parcel), &own);
    let bytes = postcard::to_allocvec(&parcel).unwrap();
    let values: Vec<u8> = (0..16).collect();
    assert!(safetensors("x", "BF16", 2).ends_with(&values));
    assert!(!bytes.windows(values.len()).any(|window| window == values), "the tensor stays where it is");

    let folder = folder.with("a.safetensors", safetensors("y", "BF16", 2));
    assert_snapshot!(rejected(&parcel, &folder), @r#"
    error: a tensor that every host needs is not on this one: `a.safetensors` has no tensor `x`
     |
     = help: copy the file to the same path on every host
    "#);
    let mut other = safetensors("x", "BF16", 2);
    *other.last_mut().unwrap() ^= 1;
    let folder = folder.with("a.safetensors", other);
    assert_snapshot!(rejected(&parcel, &folder), @r#"
    error: tensor `x` of `a.safetensors` has other rows on this host than where the scenario was loaded
     |
     = help: copy the file to the same path on every host
    "#);
    fs::remove_file(folder.path().join("a.safetensors")).unwrap();
    fs::remove_dir(base).unwrap();
    assert_snapshot!(rejected(&parcel, &folder), @r#"
    error: a tensor that every host needs is not on this one: cannot read `a.safetensors`: No such file or directory (os error 2)
     |
     = help: copy the file to the same path on every host
    "#);
    assert!(matches!(problem(&parcel.unpack().unwrap_err()), ParcelProblem::Tensor { .. }));
}

/// Where a tensor must lie on every host, as the parcel says it.
fn path_of_tensor(experiment: &Experiment) -> PathBuf {
    let parcel = serde_json::to_value(sent(experiment)).unwrap();
    parcel["tensors"][0]["path"].as_str().unwrap().into()
}

/// A name relative to where the program was started means something else on other hosts, and there the folders on the way to it may be
/// missing.
#[test]
fn paths_of_tensors_are_absolute_and_straight() {
    let path = Path::new("smoke/fp8-recorded-1x4.toml");
    let own = load(&Source::read(path).unwrap(), &[], None).unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    assert_eq!(path_of_tensor(&own), root.join("traces/samples/train_late_kv.fp8.safetensors"));
}

#[test]
#[cfg(unix)]
fn paths_of_tensors_lead_through_links_as_they_did() {
    let folder = Folder::new();
    fs::create_dir_all(folder.path().join("data/cases")).unwrap();
    let folder = folder.with("data/a.safetensors", safetensors("x", "BF16", 2));
    std::os::unix::fs::symlink("data", folder.path().join("link")).unwrap();
    std::os::unix::fs::symlink("data/cases", folder.path().join("cases")).unwrap();
    let path = |base: &str| {
        let source = Source::from_text("test.toml", recorded(), folder.path().join(base));
        let own = load(&source, &[], None).unwrap_or_else(|error| panic!("{}", error.render(false)));
        assert_same(&unpacked(&sent(&own)), &own);
        path_of_tensor(&own)
    };
    assert_eq!(path("link/cases"), folder.path().join("link/a.safetensors"));
    assert_eq!(path("cases"), folder.path().join("cases/../a.safetensors"), "not beside `cases`");
}

/// Files that go along have a name of their own, in the scenario, which is UTF-8.
#[test]
#[cfg(unix)]
fn folders_with_names_that_are_not_utf_8() {
    use std::os::unix::ffi::OsStrExt;

    let folder = Folder::new().with("a.safetensors", safetensors("x", "BF16", 2));
    let base = folder.path().join(std::ffi::OsStr::from_bytes(b"\xff"));
    fs::create_dir(&base).unwrap();
    fs::write(base.join("f.csv"), "src,dst,bytes,start_us\n0,1,5,0\n").unwrap();
    let text = flat("kind = \"transfers\"\nfile = \"f.csv\"\nstart = \"rank-ready\"");
    let own = load(&Source::from_text("test.toml", text, &base), &[], None).unwrap();
    assert_same(&unpacked(&sent(&own)), &own);
    let straight = load(&Source::from_text("test.toml", recorded(), &base), &[], None).unwrap();
    assert_same(&unpacked(&sent(&straight)), &straight);
    fs::copy(folder.path().join("a.safetensors"), base.join("a.safetensors")).unwrap();
    let text = recorded().replace("../", "");
    let beside = load(&Source::from_text("test.toml", text, &base), &[], None).unwrap();
    assert_snapshot!(folder.clean(&beside.parcel().unwrap_err().render(false)), @r#"
    error: `�/a.safetensors` must lie at the same path on every host, and the path is not UTF-8
     |
     = help: rename it, or the folder with such a name
    "#);
}

#[test]
fn points_of_a_sweep() {
    let trace = |last: u64| format!("step,layer,e0,e1,e2,e3,e4,e5,e6,e7\n0,0,1,2,3,4,5,6,7,{last}\n");
    let routing = "{ trace = \"base.csv\" }";
    let sweep = "\n[sweep]\nseed = [1, 2]\n\"workload.routing.trace\" = [\"a.csv\", \"b.csv\"]\n";
    let text = valid_with("\"uniform\"", routing) + sweep;
    let folder = Folder::new();
    let folder = folder.with("base.csv", trace(7)).with("a.csv", trace(8)).with("b.csv", trace(9));
    let source = Source::from_text("test.toml", text, folder.path());
    let sweep = open(&source, &["iterations=2".to_owned()], None).unwrap().into_sweep().unwrap();
    let points: Vec<Experiment> = (0..4).map(|point| sweep.point(point).unwrap()).collect();
    let parcels: Vec<Parcel> = points.iter().map(sent).collect();
    let (base, scenario) = (sweep.base().unwrap(), load(&source, &[], None).unwrap());
    let (base_parcel, scenario_parcel) = (sent(&base), sent(&scenario));
    drop(folder);
    for (point, parcel) in points.iter().zip(&parcels) {
        assert_same(&unpacked(parcel), point);
        let files = serde_json::to_value(parcel).unwrap()["files"].as_object().unwrap().len();
        assert_eq!(files, 1, "those of other points stay behind");
    }
    assert_same(&unpacked(&base_parcel), &base);
    assert_same(&unpacked(&scenario_parcel), &scenario);
    assert_eq!(scenario.points_left_out, 4);
}

/// Whatever is received, it is an error and no panic.
#[test]
fn parcels_that_do_not_fit() {
    let trace = "step,layer,e0,e1,e2,e3,e4,e5,e6,e7\n0,0,1,2,3,4,5,6,7,8\n";
    let text = valid_with("\"uniform\"", "{ trace = \"a.csv\" }");
    let folder = Folder::new().with("a.csv", trace).with("a.safetensors", safetensors("x", "BF16", 2));
    let changed = |text: &str, key: &str, value: serde_json::Value| -> String {
        let mut parcel = serde_json::to_value(sent(&folder.load(text))).unwrap();
        *parcel.pointer_mut(key).unwrap() = value;
        rejected(&serde_json::from_value(parcel).unwrap(), &folder)
    };
    assert_snapshot!(changed(&text, "/point", 2.into()), @r#"
    error: point 3 was sent of a sweep that does not have it on this host
     |
     = help: run the same version of zipwire on every host
    "#);
    assert_snapshot!(changed(&format!("{text}\n[sweep]\nseed = [1, 2]\n"), "/point", 2.into()), @r#"
    error: point 3 was sent of a sweep that does not have it on this host
     |
     = help: run the same version of zipwire on every host
    "#);
    assert_snapshot!(changed(&text, "/files", serde_json::json!({})), @r#"
    error: cannot read `a.csv`: the host that sent the scenario did not send it along
      --> test.toml:14:21
       |
    14 | routing = { trace = "a.csv" }
       |                     ^^^^^^^
    "#);
    let text = recorded().replace("../", "");
    assert_snapshot!(changed(&text, "/tensors/0/dtype", "BF17".into()), @r#"
    error: the scenario was sent with a tensor of `BF17` values, which this host does not know
     |
     = help: run the same version of zipwire on every host
    "#);
    assert_snapshot!(changed(&text, "/tensors", serde_json::json!([])), @r#"
    error: cannot read `a.safetensors`: the host that sent the scenario did not send it along
      --> test.toml:15:20
       |
    15 | payload = { file = "a.safetensors", dispatch = "x", combine = "x" }
       |                    ^^^^^^^^^^^^^^^
    "#);
}
