//! `compress`, `decompress`, `verify`, `cat` and `ls` from the command line: files, folders and pipes come back byte for byte, and mistakes
//! change nothing.

use crate::common::process;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use process::{fails, names, output, succeeds, text, text_of, zipwire};
use serde_json::Value;
use tempfile::TempDir;

const SAMPLES: [&str; 4] =
    ["train_late_weights.bf16", "train_late_grads.bf16", "train_late_kv.fp8", "pre_minilm.bf16"];

fn sample(name: &str) -> String {
    format!("traces/samples/{name}.safetensors")
}

/// A folder as hubs have it, with the samples as its files of tensors.
fn model_folder(model: &Path) {
    fs::create_dir_all(model.join("original")).unwrap();
    for name in SAMPLES {
        fs::copy(
            Path::new(env!("CARGO_MANIFEST_DIR")).join(sample(name)),
            model.join(format!("{name}.safetensors")),
        )
        .unwrap();
    }
    let index = "{\"metadata\":{\"total_size\":1},\"weight_map\":{ \"a\" : \"b.safetensors\"}}\n";
    fs::write(model.join("model.safetensors.index.json"), index).unwrap();
    fs::write(model.join("original/tokenizer.model"), [0, 1, 255]).unwrap();
    fs::copy(model.join(format!("{}.safetensors", SAMPLES[0])), model.join("original/w.safetensors"))
        .unwrap();
}

#[test]
fn a_folder_comes_back_as_it_was() {
    let folder = TempDir::new().unwrap();
    let model = folder.path().join("model");
    model_folder(&model);
    let report = succeeds(&["compress", text(&model), "--json", "--verify"]);
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    let rows = report["files"].as_array().unwrap();
    assert_eq!(rows.len(), SAMPLES.len() + 1);
    assert!(rows.iter().all(|row| row["size_pct"].as_f64().unwrap() < 90.0), "{report}");
    let packed = folder.path().join("model.zw");
    let mut expected = SAMPLES.map(|name| format!("{name}.zw.safetensors")).to_vec();
    expected.extend(["model.safetensors.index.json", "original"].map(str::to_owned));
    expected.sort();
    assert_eq!(names(&packed), expected);
    // Folders within it are looked into, too.
    let looked = succeeds(&["verify", text(&packed), "--json"]);
    let looked: Value = serde_json::from_slice(&looked.stdout).unwrap();
    assert_eq!(looked["files"].as_array().unwrap().len(), SAMPLES.len() + 1);

    let back = folder.path().join("back");
    succeeds(&["decompress", text(&packed), "-o", text(&back)]);
    assert_eq!(names(&back), names(&model));
    for name in names(&model).iter().filter(|name| *name != "original") {
        assert!(fs::read(model.join(name)).unwrap() == fs::read(back.join(name)).unwrap(), "{name}");
    }
    assert_eq!(fs::read(back.join("original/tokenizer.model")).unwrap(), [0, 1, 255]);

    assert!(
        fs::read(model.join("original/w.safetensors")).unwrap()
            == fs::read(back.join("original/w.safetensors")).unwrap()
    );

    // Nothing that is there is replaced unasked, and nothing half is left.
    fails(2, &["decompress", text(&packed), "-o", text(&back)], &["is there already", "--force"]);
    succeeds(&["decompress", text(&packed), "-o", text(&back), "--force"]);
    assert_eq!(names(folder.path()), ["back", "model", "model.zw"]);
}

#[test]
fn a_folder_has_a_base_and_damage_in_it_is_found() {
    let folder = TempDir::new().unwrap();
    let [model, packed] = ["model", "model.zw"].map(|name| folder.path().join(name));
    model_folder(&model);
    succeeds(&["compress", text(&model)]);

    // Against a folder, each file has the one of its place as its base.
    let same = folder.path().join("same");
    let report = succeeds(&["compress", text(&model), "--base", text(&packed), "-o", text(&same), "--json"]);
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    let rows = report["files"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["size_pct"].as_f64().unwrap() < 10.0), "nothing differs: {report}");
    let outputs = rows.iter().map(|row| Path::new(row["out"].as_str().unwrap()));
    assert!(outputs.clone().all(Path::is_file), "files are named where they are: {report}");
    succeeds(&["verify", text(&same), "--base", text(&model)]);
    fs::remove_dir_all(&same).unwrap();

    // A file that was cut is found, and no folder comes of it.
    let cut = packed.join(format!("{}.zw.safetensors", SAMPLES[1]));
    let whole = fs::read(&cut).unwrap();
    fs::write(&cut, &whole[..whole.len() - 1]).unwrap();
    fails(2, &["verify", text(&packed)], &[SAMPLES[1], "it was cut"]);
    fails(
        2,
        &["decompress", text(&packed), "-o", text(&folder.path().join("half"))],
        &[SAMPLES[1], "it was cut"],
    );
    fs::write(&cut, &whole).unwrap();
}

#[test]
fn memory_bounds_threads() {
    let folder = TempDir::new().unwrap();
    let packed = folder.path().join("w.zw");
    let plain = sample(SAMPLES[0]);
    let args = |memory| ["compress", &plain, "-o", text(&packed), "--threads", "8", "--memory", memory];
    fails(2, &args("8MiB"), &["--memory", "16 MiB"]);
    succeeds(&args("20MiB"));
    assert!(packed.is_file());
}

#[test]
fn parts_are_those_of_the_file_that_was_compressed() {
    let folder = TempDir::new().unwrap();
    let packed = folder.path().join("w.zw.safetensors");
    let plain = sample(SAMPLES[0]);
    succeeds(&["compress", &plain, "-o", text(&packed)]);
    let lists = [&plain, text(&packed)].map(|file| {
        let mut list: Value = serde_json::from_slice(&succeeds(&["ls", file, "--json"]).stdout).unwrap();
        list["files"][0].take()
    });
    assert_eq!((&lists[0]["compressed"], &lists[1]["compressed"]), (&Value::Bool(false), &Value::Bool(true)));
    let tensors = lists.each_ref().map(|list| list["tensors"].as_array().unwrap());
    assert_eq!(tensors[0].len(), tensors[1].len());
    for (plain_row, packed_row) in tensors[0].iter().zip(tensors[1]) {
        for key in ["name", "dtype", "shape", "bytes_raw"] {
            assert_eq!(plain_row[key], packed_row[key]);
        }
        let name = plain_row["name"].as_str().unwrap();
        let rows = plain_row["shape"][0].as_u64().unwrap();
        for range in [None, Some(format!("{}..{}", rows / 3, rows / 2)), Some("0..0".to_owned())] {
            let values = [&plain, text(&packed)].map(|file| {
                let mut args = vec!["cat", file, "--tensor", name];
                args.extend(range.iter().flat_map(|range| ["--range", range]));
                succeeds(&args).stdout
            });
            assert!(values[0] == values[1], "{name} {range:?}");
            assert_eq!(values[0].is_empty(), range.as_deref() == Some("0..0"));
        }
    }
    assert!(text_of(&succeeds(&["ls", text(&packed)]).stdout).contains("the file"));
}

#[test]
fn differences_from_a_base_are_small_and_need_it() {
    let folder = TempDir::new().unwrap();
    let (base, next) = (sample("train_late_weights.bf16"), sample("train_late_weights_next.bf16"));
    let (packed, back) = (folder.path().join("next.zw.safetensors"), folder.path().join("back"));
    let report = succeeds(&["compress", &next, "--base", &base, "-o", text(&packed), "--json"]);
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    assert!(report["files"][0]["size_pct"].as_f64().unwrap() < 20.0, "{report}");
    fails(2, &["decompress", text(&packed), "-o", text(&back)], &["differences", "--base"]);
    fails(2, &["verify", text(&packed), "--base", &next], &["differences", "digest"]);
    succeeds(&["ls", text(&packed)]);
    succeeds(&["decompress", text(&packed), "-o", text(&back), "--base", &base]);
    let plain = Path::new(env!("CARGO_MANIFEST_DIR")).join(next);
    assert!(fs::read(&back).unwrap() == fs::read(plain).unwrap());
    fails(
        2,
        &["compress", &base, "--codec", "delta+rans", "-o", text(&folder.path().join("x"))],
        &["--base"],
    );
}

/// Links within a cache, and what they say.
#[cfg(unix)]
const LINKS: [(&str, &str); 7] = [
    ("snapshots/1/model.safetensors", "../../blobs/aaaa"),
    ("snapshots/1/unet/model.safetensors", "../../../blobs/bbbb"),
    ("snapshots/2/model.safetensors", "../../blobs/aaaa"),
    ("snapshots/2/config.json", "../../blobs/cccc"),
    ("snapshots/2/pointer.safetensors", "../../blobs/dddd"),
    ("snapshots/2/again.safetensors", "model.safetensors"),
    ("snapshots/latest", "2"),
];

/// A cache of a model, with a link to a file outside of it, too.
#[cfg(unix)]
fn hugging_face_cache(cache: &Path, outside: &Path) {
    use std::os::unix::fs::symlink;

    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for path in ["blobs", "snapshots/1/unet", "snapshots/2", "refs"] {
        fs::create_dir_all(cache.join(path)).unwrap();
    }
    fs::copy(root.join(sample(SAMPLES[0])), cache.join("blobs/aaaa")).unwrap();
    fs::copy(root.join(sample(SAMPLES[3])), cache.join("blobs/bbbb")).unwrap();
    fs::copy(root.join(sample(SAMPLES[2])), outside).unwrap();
    fs::write(cache.join("blobs/cccc"), "{}").unwrap();
    fs::write(cache.join("blobs/dddd"), "version https://git-lfs.github.com/spec/v1\n").unwrap();
    fs::write(cache.join("refs/main"), "2").unwrap();
    LINKS.iter().for_each(|(name, target)| symlink(target, cache.join(name)).unwrap());
    let name = outside.file_name().unwrap();
    let up = Path::new("..").join("..").join("..").join(name);
    symlink(up, cache.join("snapshots/2").join(name)).unwrap();
}

#[cfg(unix)]
#[test]
fn a_hugging_face_cache_comes_back_with_its_links_and_each_blob_is_coded_once() {
    let folder = TempDir::new().unwrap();
    let [cache, packed, back] =
        ["models--x--y", "models--x--y.zw", "back"].map(|name| folder.path().join(name));
    let outside = folder.path().join("outside.safetensors");
    hugging_face_cache(&cache, &outside);
    let report = succeeds(&["compress", text(&cache), "--json"]);
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    assert_eq!(report["files"].as_array().unwrap().len(), 3, "{report}");
    let says = |path: &Path| fs::read_link(path).unwrap();
    let in_packed = [
        ("snapshots/1/model.zw.safetensors", "../../blobs/aaaa.zw"),
        ("snapshots/1/unet/model.zw.safetensors", "../../../blobs/bbbb.zw"),
        ("snapshots/2/model.zw.safetensors", "../../blobs/aaaa.zw"),
        ("snapshots/2/config.json", "../../blobs/cccc"),
        ("snapshots/2/pointer.safetensors", "../../blobs/dddd"),
        ("snapshots/2/again.zw.safetensors", "model.zw.safetensors"),
        ("snapshots/latest", "2"),
    ];
    for (name, target) in in_packed {
        assert_eq!(says(&packed.join(name)), Path::new(target), "{name}");
    }
    assert!(packed.join("snapshots/2/outside.zw.safetensors").symlink_metadata().unwrap().is_file());
    // Each file is looked at once, by the name that a user knows.
    let listed = succeeds(&["ls", text(&packed), "--json"]);
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let files = listed["files"].as_array().unwrap().iter().map(|file| file["file"].as_str().unwrap());
    let names: Vec<&str> = files.map(|file| file.strip_prefix(text(&packed)).unwrap()).collect();
    let expected = [
        "/snapshots/1/model.zw.safetensors",
        "/snapshots/1/unet/model.zw.safetensors",
        "/snapshots/2/outside.zw.safetensors",
    ];
    assert_eq!(names, expected);
    succeeds(&["cat", text(&packed), "--tensor", "L2.ffn.router", "-o", text(&folder.path().join("router"))]);
    succeeds(&["verify", text(&packed)]);

    succeeds(&["decompress", text(&packed), "-o", text(&back)]);
    for (name, target) in LINKS {
        assert_eq!(says(&back.join(name)), Path::new(target), "{name}");
    }
    for name in ["blobs/aaaa", "blobs/bbbb", "blobs/cccc", "blobs/dddd", "refs/main"] {
        assert!(fs::read(back.join(name)).unwrap() == fs::read(cache.join(name)).unwrap(), "{name}");
    }
    assert!(fs::read(back.join("snapshots/2/outside.safetensors")).unwrap() == fs::read(&outside).unwrap());
    assert_eq!(names_below(&back).len(), names_below(&cache).len());

    // A second time, links that say the same stay, and others are not replaced.
    succeeds(&["decompress", text(&packed), "-o", text(&back), "--force"]);
    fs::remove_file(back.join("snapshots/latest")).unwrap();
    std::os::unix::fs::symlink("1", back.join("snapshots/latest")).unwrap();
    fails(
        2,
        &["decompress", text(&packed), "-o", text(&back), "--force"],
        &["snapshots/latest", "a symbolic link", "help"],
    );
}

/// Names of all files, links and folders below a folder.
fn names_below(folder: &Path) -> Vec<String> {
    let mut all = Vec::new();
    for name in names(folder) {
        let path = folder.join(&name);
        if path.symlink_metadata().unwrap().is_dir() {
            all.extend(names_below(&path));
        }
        all.push(name);
    }
    all
}

#[test]
fn odd_types_and_bytes_behind_the_values_come_back() {
    let folder = TempDir::new().unwrap();
    let [plain, packed, back] =
        ["m.safetensors", "m.zw.safetensors", "back"].map(|name| folder.path().join(name));
    let header = r#"{"q":{"dtype":"I4","shape":[3,3],"data_offsets":[0,5]}}"#;
    let file = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), b"12345", b"and more"].concat();
    fs::write(&plain, &file).unwrap();
    fails(2, &["compress", text(&plain)], &["something was appended", "`--keep-trailing`"]);
    succeeds(&["compress", text(&plain), "--keep-trailing", "--verify"]);
    succeeds(&["decompress", text(&packed), "-o", text(&back)]);
    assert!(fs::read(&back).unwrap() == file);
    let listed = text_of(&succeeds(&["ls", text(&packed)]).stdout);
    assert!(
        listed.contains("I4") && listed.contains("3x3") && listed.contains("zipwire.trailing"),
        "{listed}"
    );
    assert_eq!(succeeds(&["cat", text(&packed), "--tensor", "q"]).stdout, b"12345");
    fails(2, &["cat", text(&packed), "--tensor", "q", "--range", "0..1"], &["no whole bytes", "help"]);
    let store = folder.path().join("store");
    succeeds(&["store", "init", text(&store)]);
    fails(2, &["store", "add", text(&store), text(&plain), "--id", "a"], &["`--keep-trailing`"]);
    succeeds(&["store", "add", text(&store), text(&plain), "--id", "a", "--keep-trailing"]);
    let restored = folder.path().join("restored");
    succeeds(&["store", "restore", text(&store), "a", "-o", text(&restored)]);
    assert!(fs::read(restored.join("m.safetensors")).unwrap() == file);
}

#[test]
fn the_smallest_of_all_codecs_is_that_of_a_constant_too() {
    let folder = TempDir::new().unwrap();
    let plain = folder.path().join("ones.safetensors");
    let header = r#"{"ones":{"dtype":"F32","shape":[65536],"data_offsets":[0,262144]}}"#;
    let values = 1.0_f32.to_le_bytes().repeat(65536);
    fs::write(&plain, [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &values].concat()).unwrap();
    let bytes = |codec: &str| {
        let out = folder.path().join(codec);
        succeeds(&["compress", text(&plain), "--codec", codec, "-o", text(&out)]);
        fs::metadata(out).unwrap().len()
    };
    let found = bytes("auto:goal=size");
    let least = ["raw", "window7", "tiered", "rans", "planes", "grouped"].map(bytes).into_iter().min();
    assert!(found <= least.unwrap() + 262, "{found} bytes, and {least:?} are possible");
}

#[test]
fn a_base_that_is_sharded_otherwise_is_paired_by_names() {
    let folder = TempDir::new().unwrap();
    let [base, next, packed, back] = ["base", "next", "next.zw", "back"].map(|name| folder.path().join(name));
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let copy = |name: &str, to: &Path| {
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(root.join(sample(name)), to).unwrap();
    };
    copy("pre_minilm.bf16", &base.join("1.safetensors"));
    copy("train_late_weights.bf16", &base.join("2.safetensors"));
    copy("train_late_weights_next.bf16", &next.join("deep/model.safetensors"));
    copy("train_late_grads.bf16", &next.join("other.safetensors"));
    let report = succeeds(&["compress", text(&next), "--base", text(&base), "--verify", "--json"]);
    let counts = text_of(&report.stderr).matches("no tensor of").count();
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    let rows = report["files"].as_array().unwrap();
    assert!(rows[0]["size_pct"].as_f64().unwrap() < 20.0 && rows[0]["tensors_from_base"] == 2, "{report}");
    // Of the other file some names are those of weights, and none of the values is.
    assert!(counts == usize::from(rows[1]["tensors_from_base"] == 0), "{report}");
    let tensor = ["--tensor", "L2.ffn.router"];
    let cat =
        |path: &Path, base: &[&str]| succeeds(&[&["cat", text(path)][..], &tensor, base].concat()).stdout;
    let plain = cat(&next.join("deep/model.safetensors"), &[]);
    assert!(cat(&packed.join("deep/model.zw.safetensors"), &["--base", text(&base)]) == plain);
    succeeds(&[
        "inspect",
        text(&next.join("deep/model.safetensors")),
        "--base",
        text(&base),
        "--codec",
        "delta+rans",
    ]);
    succeeds(&["decompress", text(&packed), "--base", text(&base), "-o", text(&back)]);
    for file in ["deep/model.safetensors", "other.safetensors"] {
        assert!(fs::read(back.join(file)).unwrap() == fs::read(next.join(file)).unwrap());
    }
    copy("train_late_weights.bf16", &base.join("copy.safetensors"));
    // What two files have is coded without them, and that is said.
    let out = folder.path().join("x");
    let report = succeeds(&["compress", text(&next), "--base", text(&base), "-o", text(&out), "--json"]);
    let error = text_of(&report.stderr);
    for part in
        ["that are coded without a base: ", "2.safetensors", "copy.safetensors", "both have a tensor", "help"]
    {
        assert!(error.contains(part), "{error}");
    }
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    assert_eq!(report["files"][0]["tensors_from_base"], 0, "{report}");
    succeeds(&["verify", text(&out), "--base", text(&base)]);
}

#[test]
fn no_file_is_a_base_of_itself_or_of_others_that_are_compressed_with_it() {
    let folder = TempDir::new().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let run = folder.path().join("run");
    let put = |name: &str, at: &str| {
        let path = run.join(at);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::copy(root.join(sample(name)), &path).unwrap();
        path
    };
    let new = put("train_late_weights_next.bf16", "step-200/model.safetensors");
    let out = folder.path().join("out");
    let compress = |input: &Path, base: &Path| {
        output(&["compress", text(input), "--base", text(base), "-o", text(&out), "--json", "--verify"])
    };
    let step = run.join("step-200");
    for (input, base) in [(&new, &new), (&new, &run), (&step, &run), (&step, &step)] {
        let made = compress(input, base);
        let error = text_of(&made.stderr);
        assert!(made.status.code() == Some(2) && error.contains("is its own base"), "{error}");
        assert!(!out.exists());
    }
    put("train_late_weights_next.bf16", "step-200/average.safetensors");
    put("train_late_weights.bf16", "step-100/model.safetensors");
    let made = compress(&step, &run);
    assert!(made.status.success(), "{}", text_of(&made.stderr));
    let report: Value = serde_json::from_slice(&made.stdout).unwrap();
    for row in report["files"].as_array().unwrap() {
        assert!(row["tensors_from_base"].as_u64().unwrap() > 0, "{report}");
    }
    // Nothing of it needs what was compressed.
    fs::remove_dir_all(&step).unwrap();
    succeeds(&["verify", text(&out), "--base", text(&run)]);
}

#[test]
fn a_damaged_copy_in_a_base_does_not_hide_the_right_file() {
    let folder = TempDir::new().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let base = folder.path().join("base");
    fs::create_dir(&base).unwrap();
    let [plain, zipped, packed] =
        ["base/m.safetensors", "base/m.zw.safetensors", "packed"].map(|name| folder.path().join(name));
    fs::copy(root.join(sample("train_late_weights.bf16")), &plain).unwrap();
    succeeds(&["compress", text(&plain)]);
    let next = sample("train_late_weights_next.bf16");
    succeeds(&["compress", &next, "--base", text(&base), "-o", text(&packed)]);
    let mut bytes = fs::read(&zipped).unwrap();
    let end = bytes.len();
    bytes[end / 2..].fill(0);
    fs::write(&zipped, bytes).unwrap();
    succeeds(&["verify", text(&packed), "--base", text(&base)]);
}

#[cfg(unix)]
#[test]
fn a_base_may_have_more_files_than_a_process_may_open() {
    let folder = TempDir::new().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let base = folder.path().join("base");
    fs::create_dir(&base).unwrap();
    for number in 0..60 {
        let header = format!(r#"{{"t{number}":{{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}}}"#);
        let file = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[number]].concat();
        fs::write(base.join(format!("{number}.safetensors")), file).unwrap();
    }
    fs::copy(root.join(sample("train_late_weights.bf16")), base.join("z.safetensors")).unwrap();
    let packed = folder.path().join("packed");
    let next = sample("train_late_weights_next.bf16");
    for args in [
        vec!["compress", &next, "--base", text(&base), "-o", text(&packed)],
        vec!["verify", text(&packed), "--base", text(&base)],
    ] {
        let program = zipwire(&[]);
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", "ulimit -n 40; exec \"$@\"", "sh"]).arg(program.get_program()).args(&args);
        let made = shell.current_dir(root).output().unwrap();
        let error = text_of(&made.stderr);
        assert!(made.status.success() && !error.contains("no tensor of"), "{args:?}: {error}");
    }
}

#[cfg(unix)]
#[test]
fn files_behind_links_have_the_bases_of_the_names_of_links() {
    use std::os::unix::fs::symlink;

    let folder = TempDir::new().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let [cache, base, packed, back] =
        ["cache", "base", "cache.zw", "back"].map(|name| folder.path().join(name));
    for path in ["cache/blobs", "cache/a", "cache/b", "cache/none/inner", "base/a", "base/b"] {
        fs::create_dir_all(folder.path().join(path)).unwrap();
    }
    fs::copy(root.join(sample("train_late_weights_next.bf16")), cache.join("blobs/1")).unwrap();
    fs::copy(root.join(sample("train_late_weights.bf16")), cache.join("blobs/2")).unwrap();
    for name in ["a", "b"] {
        fs::copy(root.join(sample("train_late_weights.bf16")), base.join(name).join("m.safetensors"))
            .unwrap();
    }
    let links = [
        ("a/m.safetensors", "..//blobs/./1"),
        // A name that says nothing, and a link to it that says what it is.
        ("b/pointer", "../blobs/2"),
        ("b/m.safetensors", "./pointer"),
        ("empty", "none/inner"),
        ("through", "none/inner/../../blobs/1"),
    ];
    links.iter().for_each(|(name, target)| symlink(target, cache.join(name)).unwrap());
    let report = succeeds(&["compress", text(&cache), "--base", text(&base), "--json"]);
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    let rows = report["files"].as_array().unwrap();
    assert!(
        rows.len() == 2 && rows.iter().all(|row| row["tensors_from_base"].as_u64() > Some(0)),
        "{report}"
    );
    let says = |path: &Path| fs::read_link(path).unwrap();
    assert_eq!(says(&packed.join("a/m.zw.safetensors")).as_os_str(), "..//blobs/./1.zw");
    assert_eq!(says(&packed.join("b/m.zw.safetensors")).as_os_str(), "./pointer.zw");
    assert!(packed.join("none/inner").is_dir());
    succeeds(&["inspect", text(&cache), "--base", text(&base), "--codec", "delta+rans"]);

    succeeds(&["decompress", text(&packed), "--base", text(&base), "-o", text(&back)]);
    for (name, target) in links {
        assert_eq!(says(&back.join(name)).as_os_str(), target, "{name}");
    }
    assert_eq!(names_below(&back), names_below(&cache));
    fs::remove_dir(back.join("none/inner")).unwrap();
    fs::write(back.join("none/inner"), "").unwrap();
    fails(
        2,
        &["decompress", text(&packed), "--base", text(&base), "-o", text(&back), "--force"],
        &["none/inner", "a regular file"],
    );
}

#[test]
fn pipes_and_raw_values_come_back() {
    let folder = TempDir::new().unwrap();
    let values: Vec<u8> =
        (0..300_000_u32).flat_map(|i| (0x3c00 + i as u16 % 900).to_le_bytes()).chain([9]).collect();
    let through = |args: &[&str], input: &[u8]| {
        let mut child = zipwire(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        output
    };
    let packed = through(&["compress", "-", "--dtype", "bf16"], &values);
    assert!(packed.status.success() && packed.stdout.len() < values.len() * 3 / 4);
    assert!(through(&["decompress", "-"], &packed.stdout).stdout == values);
    let cut = through(&["decompress", "-"], &packed.stdout[..packed.stdout.len() - 1]);
    assert!(!cut.status.success(), "a stream that is cut is not complete");

    let file = folder.path().join("kv.bin");
    fs::write(&file, &values).unwrap();
    succeeds(&["compress", text(&file), "--dtype", "BF16"]);
    assert!(
        fs::read(folder.path().join("kv.bin.zw")).unwrap() == packed.stdout,
        "files and pipes have the same bytes"
    );
    fails(2, &["decompress", text(&folder.path().join("kv.bin.zw"))], &["is there already"]);
    let back = folder.path().join("back");
    succeeds(&["decompress", text(&folder.path().join("kv.bin.zw")), "-o", text(&back)]);
    assert!(fs::read(&back).unwrap() == values);
    assert_eq!(names(folder.path()), ["back", "kv.bin", "kv.bin.zw"]);
}

#[test]
fn files_of_zipnn_are_recognised() {
    let folder = TempDir::new().unwrap();
    let written = folder.path().join("weights.safetensors.znn");
    // The header of a record, as ZipNN 0.5.4 writes it, and nothing of use behind it.
    fs::write(&written, [&b"ZN\0\x05\x04\x0a\x01\x01\x01"[..], &[0; 100]].concat()).unwrap();
    for args in [&["decompress"][..], &["verify"], &["ls"], &["compress"], &["cat", "--tensor", "w"]] {
        fails(2, &[args, &[text(&written)]].concat(), &["is a file of ZipNN", "zipnn_decompress_file.py"]);
    }
    assert_eq!(names(folder.path()), ["weights.safetensors.znn"]);
}

/// A safetensors file of three tensors of noise, which are kept as they are, and what it is compressed to.
fn noisy(folder: &Path, name: &str) -> (Vec<Vec<u8>>, std::path::PathBuf) {
    let mut state = 1_u64;
    let mut noise = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    let values: Vec<Vec<u8>> = (0..3).map(|_| (0..6000).map(|_| noise()).collect()).collect();
    let entry = |i: usize| {
        format!(
            "\"t{i}\":{{\"dtype\":\"F32\",\"shape\":[1500],\"data_offsets\":[{},{}]}}",
            i * 6000,
            (i + 1) * 6000
        )
    };
    let header = format!("{{{}}}", (0..3).map(entry).collect::<Vec<_>>().join(","));
    let file = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &values.concat()].concat();
    let plain = folder.join(format!("{name}.safetensors"));
    fs::write(&plain, file).unwrap();
    succeeds(&["compress", text(&plain)]);
    (values, folder.join(format!("{name}.zw.safetensors")))
}

/// Flips a bit in the middle of each of these values.
fn damage(packed: &Path, values: &[&Vec<u8>]) {
    let mut bytes = fs::read(packed).unwrap();
    for values in values {
        let at = bytes.windows(64).position(|window| window == &values[..64]).unwrap();
        bytes[at + 3000] ^= 1;
    }
    fs::write(packed, bytes).unwrap();
}

#[test]
fn a_damaged_tensor_is_not_printed() {
    let folder = TempDir::new().unwrap();
    let (values, packed) = noisy(folder.path(), "m");
    damage(&packed, &[&values[1]]);
    for range in [None, Some("3..5"), Some("749..751")] {
        let mut args = vec!["cat", text(&packed), "--tensor", "t1"];
        args.extend(range.iter().flat_map(|range| ["--range", range]));
        fails(1, &args, &["is damaged", "tensor `t1`"]);
    }
    assert!(succeeds(&["cat", text(&packed), "--tensor", "t2"]).stdout == values[2]);
}

#[test]
fn verify_names_all_damaged_tensors_of_all_files() {
    let folder = TempDir::new().unwrap();
    let [(one, first), (_, sound), (three, third)] = ["a", "b", "c"].map(|name| noisy(folder.path(), name));
    damage(&first, &[&one[0], &one[2]]);
    damage(&third, &[&three[1]]);
    let cut = folder.path().join("cut.zw.safetensors");
    fs::write(&cut, &fs::read(&sound).unwrap()[..9000]).unwrap();
    let args = ["verify", text(&first), text(&sound), text(&third), text(&cut), "--json"];
    fails(
        1,
        &args,
        &["a.zw.safetensors", "tensor `t0`", "tensor `t2`", "c.zw.safetensors", "tensor `t1`", "it was cut"],
    );
    let report: Value = serde_json::from_slice(&output(&args).stdout).unwrap();
    let names = |file: usize| -> Vec<&str> {
        let damaged = report["files"][file]["damaged"].as_array().into_iter().flatten();
        damaged.map(|damaged| damaged["tensor"].as_str().unwrap()).collect()
    };
    assert_eq!([names(0), names(1), names(2)], [vec!["t0", "t2"], vec![], vec!["t1"]]);
    assert_eq!(report["files"][0]["damaged"][1]["ranges"], serde_json::json!([{"start": 0, "end": 6000}]));
    assert!(report["files"][3]["error"].as_str().unwrap().contains("it was cut"), "{report}");
    let table = output(&args[..4]);
    assert!(text_of(&table.stdout).contains("sound") && text_of(&table.stdout).contains("damaged"));
}

#[test]
fn what_is_not_damaged_comes_back_when_asked() {
    let folder = TempDir::new().unwrap();
    let (values, packed) = noisy(folder.path(), "m");
    let plain = fs::read(folder.path().join("m.safetensors")).unwrap();
    damage(&packed, &[&values[1]]);
    let back = folder.path().join("back");
    let args = ["decompress", text(&packed), "-o", text(&back)];
    fails(1, &args, &["tensor `t1`"]);
    assert!(!back.exists());
    fails(1, &[&args[..], &["--keep-going", "--json"]].concat(), &["tensor `t1`"]);
    let mut expected = plain.clone();
    let header = plain.len() - 18_000;
    expected[header + 6000..header + 12_000].fill(0);
    assert!(fs::read(&back).unwrap() == expected);
    // A cut one, and in a folder one that nothing comes back of, which is copied.
    let model = folder.path().join("model.zw");
    fs::create_dir(&model).unwrap();
    let bytes = fs::read(&packed).unwrap();
    fs::write(model.join("cut.zw.safetensors"), &bytes[..bytes.len() - 7000]).unwrap();
    fs::write(model.join("gone.zw.safetensors"), &bytes[..100]).unwrap();
    let again = folder.path().join("again");
    let args = ["decompress", text(&model), "-o", text(&again), "--keep-going", "--json"];
    let report: Value = serde_json::from_slice(&output(&args).stdout).unwrap();
    assert_eq!(names(&again), ["cut.safetensors", "gone.zw.safetensors"]);
    assert_eq!(report["files"][0]["damaged"].as_array().unwrap().len(), 2, "{report}");
    assert!(report["files"][1]["file"].as_str().unwrap().ends_with("gone.zw.safetensors"), "{report}");
    assert!(fs::read(again.join("cut.safetensors")).unwrap()[..header + 6000] == plain[..header + 6000]);
}

#[test]
fn mistakes_are_named_with_a_remedy() {
    let folder = TempDir::new().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    let plain = sample(SAMPLES[0]);
    let packed = folder.path().join("p.zw.safetensors");
    succeeds(&["compress", &plain, "-o", text(&packed)]);
    let sound = fs::read(&packed).unwrap();
    let words = file("words.txt", b"once upon a time there were values");
    fails(2, &["compress", text(&words)], &["words.txt", "begins with text", "--dtype"]);
    let cut = file("cut.zw.safetensors", &sound[..sound.len() - 3]);
    fails(2, &["decompress", text(&cut)], &["it was cut"]);
    let mut damaged = sound.clone();
    let middle = sound.len() / 2;
    damaged[middle] ^= 4;
    let damaged = file("damaged.zw.safetensors", &damaged);
    fails(1, &["decompress", text(&damaged)], &["damaged.zw.safetensors", "tensor `"]);
    assert!(!folder.path().join("damaged.safetensors").exists());
    // All files are looked at.
    fails(1, &["verify", text(&damaged), text(&packed)], &["damaged.zw.safetensors"]);
    assert!(text_of(&output(&["verify", text(&damaged), text(&packed)]).stdout).contains("p.zw.safetensors"));
    fails(2, &["decompress", &plain, "-o", text(&folder.path().join("x"))], &["not compressed by zipwire"]);
    fails(2, &["decompress", &plain], &["-o"]);
    fails(2, &["compress", text(&packed), "-o", text(&folder.path().join("x"))], &["compressed already"]);
    fails(2, &["compress", "-"], &["--dtype"]);
    fails(2, &["compress", &plain, "--codec", "rasn"], &["rasn", "rans"]);
    fails(
        2,
        &[
            "compress",
            &plain,
            "--codec",
            "window7",
            "--base",
            text(&packed),
            "-o",
            text(&folder.path().join("x")),
        ],
        &["window7"],
    );
    fails(2, &["cat", &plain, "--tensor", "L2.n1.v"], &["L2.n1.w"]);
    fails(2, &["cat", &plain, "--tensor", "L2.n1.w", "--range", "1..9999"], &["rows"]);
    fails(1, &["compress", "no-such-file"], &["cannot read `no-such-file`"]);
    assert_eq!(
        names(folder.path()),
        ["cut.zw.safetensors", "damaged.zw.safetensors", "p.zw.safetensors", "words.txt"]
    );
}

/// Folders are listed, read from and inspected by their files; a pointer of Git LFS among them is copied and named.
#[test]
fn a_folder_is_looked_into_and_what_is_no_model_stops_nothing() {
    let folder = TempDir::new().unwrap();
    let model = folder.path().join("model");
    fs::create_dir(&model).unwrap();
    fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join(sample(SAMPLES[0])), model.join("a.safetensors"))
        .unwrap();
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n";
    fs::write(model.join("b.safetensors"), pointer).unwrap();
    let made = succeeds(&["compress", text(&model), "--fast"]);
    let said = String::from_utf8_lossy(&made.stderr);
    assert!(said.contains("copied as it is") && said.contains("a pointer of Git LFS"), "{said}");
    let packed = folder.path().join("model.zw");
    assert_eq!(names(&packed), ["a.zw.safetensors", "b.safetensors"]);
    assert_eq!(fs::read_to_string(packed.join("b.safetensors")).unwrap(), pointer);

    let listed = succeeds(&["ls", text(&packed), "--json"]);
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let name = listed["files"][0]["tensors"][0]["name"].as_str().unwrap().to_owned();
    let read = |path: &Path| succeeds(&["cat", text(path), "--tensor", &name]).stdout;
    assert!(read(&packed) == read(&model.join("a.safetensors")));
    fails(2, &["cat", text(&packed), "--tensor", "absent"], &["has no tensor `absent`", "help: it has"]);
    succeeds(&["inspect", text(&model), "--codec", "raw"]);
}

/// A cut file is no other file because its name does not say what it is, and a folder that has a link to itself does not hang.
#[cfg(unix)]
#[test]
fn a_cut_file_of_any_name_and_a_circle_of_links_are_errors() {
    let folder = TempDir::new().unwrap();
    let packed = folder.path().join("packed/any.safetensors");
    fs::create_dir(packed.parent().unwrap()).unwrap();
    succeeds(&["compress", &sample(SAMPLES[0]), "-o", text(&packed)]);
    let file = fs::OpenOptions::new().write(true).open(&packed).unwrap();
    file.set_len(fs::metadata(&packed).unwrap().len() / 2).unwrap();
    fails(2, &["verify", text(packed.parent().unwrap())], &["any.safetensors"]);

    let circle = folder.path().join("circle");
    fs::create_dir(&circle).unwrap();
    std::os::unix::fs::symlink(".", circle.join("again")).unwrap();
    fails(1, &["compress", text(&circle)], &["leads to a folder that it is in"]);
}
