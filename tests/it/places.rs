//! Places of outputs on the command line: `--force` replaces files of the same names and nothing else, and what is read, stored or no file is no output.

use crate::common::process;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use process::{fails, names, output, succeeds, text, text_of, zipwire};
use tempfile::TempDir;

const SAMPLES: [&str; 2] = ["train_late_weights.bf16", "train_late_weights_next.bf16"];

fn sample(number: usize) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("traces/samples/{}.safetensors", SAMPLES[number]))
}

/// A folder with a model and a file beside it.
fn model(folder: &Path, name: &str) -> PathBuf {
    let model = folder.join(name);
    fs::create_dir_all(model.join("sub")).unwrap();
    fs::copy(sample(0), model.join("w.safetensors")).unwrap();
    fs::write(model.join("sub/config.json"), "{}").unwrap();
    model
}

/// Files of somebody else, in a folder and in one that results have, too.
fn add_others(folder: &Path) {
    fs::create_dir_all(folder.join("sub")).unwrap();
    fs::write(folder.join("thesis.txt"), "mine").unwrap();
    fs::write(folder.join("sub/letter"), "mine").unwrap();
}

#[track_caller]
fn has_others(folder: &Path) {
    for name in ["thesis.txt", "sub/letter"] {
        assert_eq!(fs::read_to_string(folder.join(name)).unwrap(), "mine", "{name}");
    }
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

#[track_caller]
fn is_sample(path: &Path, number: usize) {
    assert!(fs::read(path).unwrap() == fs::read(sample(number)).unwrap(), "{}", path.display());
}

#[test]
fn force_leaves_all_other_files_of_a_folder() {
    let folder = TempDir::new().unwrap();
    let (model, backup, out, run) = (
        model(folder.path(), "model"),
        folder.path().join("backup"),
        folder.path().join("out"),
        folder.path().join("run"),
    );
    [&backup, &out, &run].into_iter().for_each(|folder| add_others(folder));
    fs::write(out.join("w.safetensors"), "old").unwrap();
    fails(
        2,
        &["compress", text(&model), "-o", text(&backup)],
        &["is there already", "--force", "nothing else"],
    );
    for _ in 0..2 {
        succeeds(&["compress", text(&model), "-o", text(&backup), "--force", "--verify"]);
        has_others(&backup);
        succeeds(&["decompress", text(&backup), "-o", text(&out), "--force"]);
        has_others(&out);
    }
    is_sample(&out.join("w.safetensors"), 0);
    assert_eq!(names(&backup), ["sub", "thesis.txt", "w.zw.safetensors"]);
    assert_eq!(names(&out), ["sub", "thesis.txt", "w.safetensors"]);

    let store = folder.path().join("store");
    let s = text(&store);
    succeeds(&["store", "init", s]);
    succeeds(&["store", "add", s, text(&model), "--id", "one"]);
    succeeds(&["store", "restore", s, "one", "-o", text(&run), "--force"]);
    has_others(&run);
    is_sample(&run.join("w.safetensors"), 0);
    fs::write(folder.path().join("file"), "mine").unwrap();
    fails(
        2,
        &["store", "restore", s, "one", "-o", text(&folder.path().join("file")), "--force"],
        &["is a regular file", "no folder replaces it", "help"],
    );
    // A store, and any place in it, is no output of anything.
    let before = names(&store);
    for out in ["store", "store/x", "store/objects"] {
        let out = folder.path().join(out);
        let out = text(&out);
        for args in
            [&["store", "restore", s, "one"][..], &["compress", text(&model)], &["decompress", text(&backup)]]
        {
            fails(
                2,
                &[args, &["-o", out, "--force"]].concat(),
                &["is in the store", "only `zipwire store` writes"],
            );
        }
        fails(2, &["run", "scenarios/smoke/transfers-burst-2x2.toml", "--out", out], &["is in the store"]);
    }
    assert_eq!(names(&store), before);
    succeeds(&["store", "verify", s, "--deep"]);
}

#[test]
fn what_is_read_is_no_output() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::copy(sample(1), path("n.safetensors")).unwrap();
    fs::create_dir(path("bases")).unwrap();
    fs::copy(sample(0), path("bases/n.safetensors")).unwrap();
    fs::hard_link(path("bases/n.safetensors"), path("hard")).unwrap();
    symlink("bases/n.safetensors", path("soft")).unwrap();
    let (n, bases) = (path("n.safetensors"), path("bases"));
    succeeds(&["compress", text(&n), "--base", text(&bases), "-o", text(&path("packed"))]);
    for out in ["n.safetensors", "bases/n.safetensors", "hard", "soft"] {
        let out = path(out);
        for base in [&bases, &path("bases/n.safetensors")] {
            let args = ["compress", text(&n), "--base", text(base), "-o", text(&out), "--force", "--verify"];
            fails(2, &args, &["would replace what it is made from", "help"]);
        }
    }
    let (packed, hard) = (path("packed"), path("hard"));
    for out in ["packed", "bases/n.safetensors", "hard"] {
        let out = path(out);
        let args = ["decompress", text(&packed), "--base", text(&hard), "-o", text(&out), "--force"];
        fails(2, &args, &["would replace what it is made from"]);
    }
    let model = model(folder.path(), "model");
    for out in [&model, &model.join("sub"), &model.join("new"), &bases] {
        let args = ["compress", text(&model), "-o", text(out), "--base", text(&bases), "--force"];
        fails(2, &args, &["would replace what it is made from"]);
    }
    // The output of one is the input of another.
    succeeds(&["compress", text(&n)]);
    fails(
        2,
        &["compress", text(&n), text(&path("n.zw.safetensors")), "--force"],
        &["would replace what it is made from"],
    );
    is_sample(&n, 1);
    is_sample(&path("bases/n.safetensors"), 0);
    is_sample(&model.join("w.safetensors"), 0);
    assert_eq!(names(&model), ["sub", "w.safetensors"]);
}

#[test]
fn two_outputs_of_one_name_are_refused_before_anything_is_written() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    for name in ["a", "b"] {
        fs::create_dir(path(name)).unwrap();
        fs::copy(sample(0), path(name).join("x.safetensors")).unwrap();
    }
    let (a, b, both) = (path("a/x.safetensors"), path("b/x.safetensors"), path("both"));
    for force in [&[][..], &["--force"]] {
        let args = [&["compress", text(&a), text(&b), "-o", text(&both)], force].concat();
        fails(2, &args, &["a/x.safetensors", "b/x.safetensors", "would both be", "help"]);
        assert!(!both.exists());
    }
    // What is there already is known before the first one is written, too.
    fs::copy(sample(1), path("b/y.safetensors")).unwrap();
    fs::create_dir(&both).unwrap();
    fs::write(both.join("y.zw.safetensors"), "mine").unwrap();
    let y = path("b/y.safetensors");
    fails(2, &["compress", text(&a), text(&y), "-o", text(&both)], &["y.zw.safetensors", "is there already"]);
    assert_eq!(names(&both), ["y.zw.safetensors"]);

    // A folder with a file and with what was compressed of it.
    succeeds(&["compress", text(&a)]);
    let (a, out) = (path("a"), path("out"));
    for command in ["compress", "decompress"] {
        for force in [&[][..], &["--force"]] {
            let args = [&[command, text(&a), "-o", text(&out)], force].concat();
            fails(2, &args, &["x.safetensors", "x.zw.safetensors", "would both be", "move or rename"]);
            assert!(!out.exists());
        }
    }
    assert_eq!(names(&a), ["x.safetensors", "x.zw.safetensors"]);
}

#[test]
fn what_is_no_file_is_no_output() {
    let folder = TempDir::new().unwrap();
    let _socket = UnixListener::bind(folder.path().join("socket")).unwrap();
    symlink("nowhere", folder.path().join("link")).unwrap();
    fs::create_dir(folder.path().join("folder")).unwrap();
    let input = sample(0);
    for (name, found) in [("socket", "a device, a pipe or a socket"), ("link", "a symbolic link")] {
        let out = folder.path().join(name);
        for force in [&[][..], &["--force"]] {
            for args in [&["compress", text(&input)][..], &["cat", text(&input), "--tensor", "L2.n1.w"]] {
                fails(
                    2,
                    &[args, &["-o", text(&out)], force].concat(),
                    &[found, "no file replaces it", "help"],
                );
            }
        }
    }
    fails(2, &["ls", text(&input), "--profile", "-"], &["no name of an output", "./-"]);
    assert_eq!(names(folder.path()), ["folder", "link", "socket"]);
}

#[test]
fn a_dash_is_stdout() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (input, packed) = (sample(0), path("packed"));
    let here = |args: &[&str]| {
        let output = zipwire(args).current_dir(folder.path()).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", text_of(&output.stderr));
        output.stdout
    };
    succeeds(&["compress", text(&input), "-o", text(&packed)]);
    for name in ["-", "/dev/stdout"] {
        assert!(
            here(&["compress", text(&input), "-o", name, "--verify"]) == fs::read(&packed).unwrap(),
            "{name}"
        );
        assert!(here(&["decompress", text(&packed), "-o", name]) == fs::read(&input).unwrap(), "{name}");
    }
    let row = ["cat", text(&packed), "--tensor", "L2.n1.w", "--range", "1..9"];
    let rows = here(&row);
    assert!(rows.len() == 16 && here(&[&row[..], &["-o", "-"]].concat()) == rows);
    succeeds(&[&row[..], &["-o", text(&path("rows"))]].concat());
    fails(2, &[&row[..], &["-o", text(&path("rows"))]].concat(), &["is there already"]);
    assert!(fs::read(path("rows")).unwrap() == rows);
    fails(2, &["compress", text(&input), text(&input), "-o", "-"], &["one file is written to stdout"]);
    fails(2, &["compress", text(&input), "-o", "-", "--json"], &["--json", "stdout"]);
    let damaged = path("damaged.zw.safetensors");
    let mut bytes = fs::read(&packed).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&damaged, bytes).unwrap();
    let failed = output(&["decompress", text(&damaged), "-o", "-"]);
    assert!(failed.status.code() == Some(1) && failed.stdout.is_empty(), "only what is sound is written");
    assert_eq!(names(folder.path()), ["damaged.zw.safetensors", "packed", "rows"]);
}

#[test]
fn a_folder_is_called_by_its_name() {
    let folder = TempDir::new().unwrap();
    let model = model(folder.path(), "model");
    for (within, called) in
        [(&model, "."), (&model.join("sub"), ".."), (&model, "../model/."), (&model, "sub/..")]
    {
        let made = zipwire(&["compress", called]).current_dir(within).output().unwrap();
        assert!(made.status.success(), "{called}: {}", text_of(&made.stderr));
        assert_eq!(names(folder.path()), ["model", "model.zw"], "{called}");
        assert_eq!(names(&model), ["sub", "w.safetensors"], "{called}");
        fs::remove_dir_all(folder.path().join("model.zw")).unwrap();
    }
}

#[test]
fn results_keep_the_rights_of_inputs() {
    let folder = TempDir::new().unwrap();
    let model = model(folder.path(), "model");
    let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    set(&model.join("w.safetensors"), 0o600);
    set(&model.join("sub/config.json"), 0o640);
    set(&model.join("sub"), 0o750);
    set(&model, 0o700);
    let (packed, back) = (folder.path().join("model.zw"), folder.path().join("back"));
    succeeds(&["compress", text(&model)]);
    succeeds(&["decompress", text(&packed), "-o", text(&back)]);
    for (folder, name) in [(&packed, "w.zw.safetensors"), (&back, "w.safetensors")] {
        let found =
            [folder.to_owned(), folder.join(name), folder.join("sub"), folder.join("sub/config.json")];
        assert_eq!(found.map(|path| mode(&path)), [0o700, 0o600, 0o750, 0o640]);
    }
    let one = model.join("w.safetensors");
    succeeds(&["compress", text(&one)]);
    assert_eq!(mode(&model.join("w.zw.safetensors")), 0o600);
}

/// The short form of `tools/interrupt` for files.
#[test]
fn killed_at_any_time_each_file_is_whole_and_others_keep_theirs() {
    let folder = TempDir::new().unwrap();
    let (model, packed, out) =
        (model(folder.path(), "model"), folder.path().join("model.zw"), folder.path().join("out"));
    succeeds(&["compress", text(&model)]);
    add_others(&out);
    let command = ["decompress", text(&packed), "-o", text(&out), "--force"];
    let mut killed = 0;
    for turn in 0..24 {
        fs::write(out.join("w.safetensors"), "old").unwrap();
        let mut child = zipwire(&command).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_micros(500 * turn));
        child.kill().unwrap();
        killed += usize::from(!child.wait().unwrap().success());
        has_others(&out);
        if fs::read(out.join("w.safetensors")).unwrap() != b"old" {
            is_sample(&out.join("w.safetensors"), 0);
        }
    }
    assert!(killed > 0, "some are killed before they end");
    succeeds(&command);
    is_sample(&out.join("w.safetensors"), 0);
    assert_eq!(names(&out), ["sub", "thesis.txt", "w.safetensors"]);
    has_others(&out);
}

/// Whoever writes into a folder next removes what a killed process has left in it.
#[test]
fn what_a_killed_process_left_is_gone_after_the_next() {
    let folder = TempDir::new().unwrap();
    let model = model(folder.path(), "model");
    let left =
        [".zipwire-staged-abcdef", ".zipwire-staged-ABCDEF/folder"].map(|name| folder.path().join(name));
    fs::write(&left[0], "half").unwrap();
    fs::create_dir_all(&left[1]).unwrap();
    symlink(&model, folder.path().join(".zipwire-staged-link00")).unwrap();
    succeeds(&["compress", text(&model)]);
    assert_eq!(names(folder.path()), [".zipwire-staged-link00", "model", "model.zw"]);
    assert_eq!(names(&model), ["sub", "w.safetensors"]);
    // In a folder that is read, it is no part of it.
    fs::write(model.join(".zipwire-staged-abcdef"), "half").unwrap();
    succeeds(&["compress", text(&model), "-o", text(&folder.path().join("again"))]);
    assert_eq!(names(&folder.path().join("again")), ["sub", "w.zw.safetensors"]);
}
